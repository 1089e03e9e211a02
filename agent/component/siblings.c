#include "agent/component/siblings.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "agent/config/record.h"
#include "agent/base/log.h"
#include "lib/base/path.h"

/*
 * The watch on the children does not report that a record next to the component changes in place,
 * from failing to passing.
 */
enum { LOOK_AGAIN_MS = 5000 };

struct component_siblings {
	struct timer again;
	struct registry *registry;
	char *path;
	char *parent;
	struct registry_watch *watch;
	struct registry_request *request;
	enum component_siblings_answer answer;
	void (*on_answer)(void *context);
	void *context;
};

enum component_siblings_answer component_siblings_judge(const json_t *records, const char *path)
{
	enum component_siblings_answer answer = COMPONENT_SIBLINGS_NONE;
	const char *other;
	json_t *record;
	json_object_foreach ((json_t *)records, other, record) {
		const char *health = json_string_value(
			json_object_get(record, CONFIG_RECORD_HEALTH));
		int order = strcmp(other, path);
		if (order == 0) {
			continue;
		}
		if (order < 0 || !health || strcmp(health, "failing") != 0) {
			return COMPONENT_SIBLINGS_SOME;
		}
		answer = COMPONENT_SIBLINGS_LESSER;
	}
	return answer;
}

static void set_answer(struct component_siblings *siblings, enum component_siblings_answer answer)
{
	if (siblings->answer != answer) {
		siblings->answer = answer;
		siblings->on_answer(siblings->context);
	}
}

static void on_records(void *context, const struct registry_result *result)
{
	struct component_siblings *siblings = context;
	siblings->request = NULL;
	if (result->err.code && result->err.code != BERTH_PATH_NOT_FOUND) {
		return; /* the watch, or the reconnect, asks again */
	}
	json_t *records = allocated(registry_found_json(result));
	set_answer(siblings, component_siblings_judge(records, siblings->path));
	json_decref(records);
}

static void look(struct component_siblings *siblings)
{
	registry_cancel(siblings->registry, siblings->request);
	siblings->request = registry_records(
		siblings->registry, siblings->parent, NULL, on_records, siblings);
}

static void on_children(void *context, const struct registry_result *result)
{
	(void)result;
	look(context);
}

static void on_again(void *context)
{
	struct component_siblings *siblings = context;
	timer_start(&siblings->again, LOOK_AGAIN_MS);
	if (!siblings->request) {
		look(siblings);
	}
}

struct component_siblings *component_siblings_create(struct ev_loop *loop,
	struct registry *registry, const char *path, void (*on_answer)(void *context),
	void *context)
{
	struct component_siblings *siblings = allocate_zeroed(1, sizeof(*siblings));
	timer_init(&siblings->again, loop, "records next to a component", on_again, siblings);
	timer_start(&siblings->again, LOOK_AGAIN_MS);
	siblings->registry = registry;
	siblings->on_answer = on_answer;
	siblings->context = context;
	siblings->path = allocate_text(path);
	siblings->parent = allocate_bytes(path, path_parent_len(path));
	siblings->watch = allocated(registry_watch(
		registry, siblings->parent, REGISTRY_WATCH_CHILDREN, on_children, siblings));
	return siblings;
}

void component_siblings_destroy(struct component_siblings *siblings)
{
	if (!siblings) {
		return;
	}
	registry_cancel(siblings->registry, siblings->request);
	registry_unwatch(siblings->watch);
	timer_stop(&siblings->again);
	free(siblings->path);
	free(siblings->parent);
	free(siblings);
}

enum component_siblings_answer component_siblings_answer(const struct component_siblings *siblings)
{
	return siblings ? siblings->answer : COMPONENT_SIBLINGS_UNKNOWN;
}
