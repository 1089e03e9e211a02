#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/registry_loop.h"
#include "agent/component/dialect_set.h"
#include "lib/base/array.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/run_until.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

static const char SPRING[] = "type = spring\nbase = /spring\nservice = app\ninstance_id = i1\n";
static const char REGISTRAR[] =
	"type = registrar\ndomain = web.example\nhost_name = h1\nhost_type = host\n"
	"aliases = alias.web.example\nservice = http\n";
static const char ALIAS_ALONE[] =
	"type = registrar\ndomain = web.example\nhost_name = alias\nhost_type = host\n"
	"service = http\nttl = 30\n";
static const char *const parents[] = { "//spring", "//spring/app", "//example", "//example/web" };
static const char ALIAS[] = "//example/web/alias";

struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_loop driver;
	struct config *config;
	struct config *other; /* of a reload */
	struct dialect_set *set;
	char writes[512]; /* what the registry was asked to write, in order */
	int news;         /* on_change */
};

static void on_registry_state(void *context, enum registry_state state, const char *why)
{
	const struct stage *stage = context;
	if (stage->set) {
		dialect_set_on_registry_state(stage->set, state, why);
	}
}

static void on_change(void *context, struct dialect_set *set, enum announce_state from)
{
	((struct stage *)context)->news++;
	cr_assert(dialect_set_state(set) != from || *dialect_set_why(set));
}

static bool has(const struct registry_task *task, const char *text)
{
	return task->len && memmem(task->data, task->len, text, strlen(text));
}

static void note_write(void *context, const struct registry_task *task, struct err *err)
{
	struct stage *stage = context;
	const char *what = NULL;
	(void)err;
	if (task->operation == REGISTRY_OP_DELETE) {
		what = "leaves";
	} else if (task->len && task->operation != REGISTRY_OP_GET) {
		what = has(task, "OUT_OF_SERVICE") ? "out" : "in";
	}
	if (what) {
		size_t used = strlen(stage->writes);
		snprintf(stage->writes + used, sizeof(stage->writes) - used, "%s:%s ",
			strrchr(task->path, '/') + 1, what);
	}
}

static struct config *load(const char *dialect)
{
	char folder[SCRATCH_PATH];
	char path[SCRATCH_PATH + 16];
	scratch_folder(folder);
	snprintf(path, sizeof(path), "%s/berth.ini", folder);
	FILE *file = fopen(path, "w");
	cr_assert(file != NULL);
	fprintf(file,
		"[component]\npath = /web\n[endpoint http]\napi = http\nprotocol = http\n"
		"address_type = host/port\naddress = 10.9.8.7:8080\n[dialect d]\n%s",
		dialect);
	fclose(file);
	struct config *config = NULL;
	struct config_problems problems;
	int code = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	config_problems_finish(&problems);
	cr_assert(eq(int, code, 0));
	unlink(path);
	rmdir(folder);
	return config;
}

static struct stage *stage_begin(struct stage *stage, const char *dialect)
{
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO), .config = load(dialect) };
	const struct registry_options registry = {
		.foreign_paths = true, .on_state = on_registry_state, .context = stage
	};
	stage->registry = memory_open("dialect set", &registry);
	for (size_t i = 0; i < ARRAY_LEN(parents); i++) {
		memory_put(stage->registry, parents[i], "");
	}
	memory_on_task(stage->registry, note_write, stage);
	registry_loop_init(&stage->driver, stage->loop, stage->registry);
	const struct dialect_set_options options = { .loop = stage->loop,
		.registry = stage->registry,
		.on_change = on_change,
		.context = stage };
	stage->set = dialect_set_create(&stage->config->components[0].dialects[0], &options);
	return stage;
}

static void stage_end(struct stage *stage)
{
	dialect_set_destroy(stage->set);
	config_unref(stage->config);
	config_unref(stage->other);
	registry_loop_finish(&stage->driver);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

#define STAGED(name, dialect)                                                                      \
	STAGED_TEST(dialect_set, name, struct stage *, stage,                                      \
		stage_begin(&(struct stage){ 0 }, dialect), stage_end)

static void make_wish_with(
	struct stage *stage, enum announce_wish wish, bool out, const char *addresses)
{
	json_t *json = addresses ? json_loads(addresses, 0, NULL) : NULL;
	const struct config_record_endpoint endpoints[1] = { { .out = out, .addresses = json } };
	dialect_set_wish(stage->set, wish, &stage->config->components[0], endpoints, "test");
	json_decref(json);
}

static void make_wish(struct stage *stage, enum announce_wish wish)
{
	make_wish_with(stage, wish, false, NULL);
}

static void on_patience(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	const struct stage *stage = timer->data;
	cr_assert(false, "it did not come true within a minute; writes: %s; %s", stage->writes,
		dialect_set_why(stage->set));
}

/* Until the set is in this state and has nothing more to do. */
static void run_until(struct stage *stage, enum announce_state state)
{
	ev_timer patience;
	ev_timer_init(&patience, on_patience, 60.0, 0.0);
	patience.data = stage;
	ev_timer_start(stage->loop, &patience);
	while (dialect_set_state(stage->set) != state ||
		(state != ANNOUNCE_CONFLICT && !dialect_set_settled(stage->set))) {
		ev_run(stage->loop, EVRUN_ONCE);
	}
	ev_timer_stop(stage->loop, &patience);
}

STAGED(springs_instance_is_out_of_service_before_it_leaves, SPRING)
{
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	make_wish(stage, ANNOUNCE_DOWN);
	run_until(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(eq(str, stage->writes, "i1:in i1:out i1:leaves "));
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	cr_assert(eq(str, stage->writes, "i1:in i1:out i1:leaves i1:in "));
}

STAGED(a_departure_does_not_wait_for_a_registry_that_is_away, SPRING)
{
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	make_wish(stage, ANNOUNCE_DOWN);
	memory_set_state(stage->registry, REGISTRY_LOST);
	while (dialect_set_state(stage->set) == ANNOUNCE_OUTDATED) {
		ev_run(stage->loop, EVRUN_ONCE);
	}
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	run_until(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(eq(str, stage->writes, "i1:in "));
}

STAGED(the_service_record_follows_the_hosts_and_stays, REGISTRAR)
{
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	cr_assert(eq(str, stage->writes, "h1:in alias:in web:in "));
	make_wish(stage, ANNOUNCE_DOWN);
	run_until(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(eq(str, stage->writes, "h1:in alias:in web:in h1:leaves alias:leaves "));
}

static char *data_at(struct stage *stage, const char *path)
{
	struct answer answer = { 0 };
	cr_assert(registry_get(stage->registry, path, answer_take, &answer) != NULL);
	while (answer.calls == 0) {
		ev_run(stage->loop, EVRUN_ONCE);
	}
	char *data = answer.err.code == 0 ? strdup(answer.data) : NULL;
	answer_clear(&answer);
	return data;
}

/* Two agents whose service records differ would write them in turns for ever. */
STAGED(a_service_record_of_another_agent_stays_until_there_is_news, REGISTRAR)
{
	static const char service[] = "//example/web";
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	char *own = data_at(stage, service);
	char *port = strstr(own, "8080");
	cr_assert(port != NULL, "%s", own);
	memcpy(port, "8081", 4);
	memory_put(stage->registry, service, own);
	for (int i = 0; i < 3; i++) {
		make_wish(stage, ANNOUNCE_UP);
		run_until(stage, ANNOUNCE_REGISTERED);
		char *now = data_at(stage, service);
		cr_assert(eq(str, now, own));
		free(now);
	}
	free(own);
}

#define PORTLESS "[{\"host\":\"10.9.8.7\",\"port\":\"0\"}]"

STAGED(an_instance_that_cannot_be_made_has_failed_until_it_is_not_wanted, SPRING)
{
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	int news = stage->news;
	make_wish_with(stage, ANNOUNCE_UP, false, PORTLESS);
	cr_assert(eq(int, dialect_set_state(stage->set), ANNOUNCE_FAILED));
	cr_assert(eq(str, (char *)dialect_set_why(stage->set),
		"InvalidRecord: [dialect d]: no endpoint with a host and a port is there"));
	cr_assert(eq(int, stage->news, news + 1));
	make_wish_with(stage, ANNOUNCE_UP, false, PORTLESS);
	cr_assert(eq(int, stage->news, news + 1));
	make_wish_with(stage, ANNOUNCE_DOWN, false, PORTLESS);
	run_until(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(eq(str, (char *)dialect_set_why(stage->set), "test"));
}

STAGED(an_endpoint_that_is_out_is_the_reason_of_an_instance_that_is_wanted, SPRING)
{
	make_wish_with(stage, ANNOUNCE_UP, true, NULL);
	run_until(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(strstr(dialect_set_why(stage->set), "endpoint http is out") != NULL);
	int news = stage->news;
	make_wish_with(stage, ANNOUNCE_DOWN, true, NULL);
	run_until(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(eq(str, (char *)dialect_set_why(stage->set), "test"));
	cr_assert(eq(int, stage->news, news), "another reason is not news of a node that is out");
}

STAGED(an_instance_that_comes_back_while_it_leaves_is_in_service, SPRING)
{
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	make_wish(stage, ANNOUNCE_DOWN);
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	cr_assert(eq(str, stage->writes, "i1:in i1:out i1:in "));
}

STAGED(a_reload_may_take_over_a_node, REGISTRAR)
{
	memory_put(stage->registry, ALIAS,
		"{\"type\":\"host\",\"address\":\"10.0.0.1\",\"host\":{\"address\":\"10.0.0.1\"}}");
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_CONFLICT);
	const struct dialect_set_options options = { .takeover = true };
	dialect_set_configure(stage->set, &stage->config->components[0].dialects[0], &options);
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	json_t *shown = dialect_set_json(stage->set);
	const json_t *nodes = json_object_get(shown, "nodes");
	cr_assert(eq(sz, json_array_size(nodes), 3));
	cr_assert(eq(str, (char *)json_string_value(json_array_get(nodes, 0)), "/example/web/h1"));
	json_decref(shown);
}

/* Another configuration of the dialect is in force from the next wish on. */
static void configure(struct stage *stage, const char *dialect, int64_t interval_ms)
{
	const struct dialect_set_options options = { .update_interval_ms = interval_ms };
	stage->other = load(dialect);
	dialect_set_configure(stage->set, &stage->other->components[0].dialects[0], &options);
}

STAGED(a_node_that_is_no_longer_configured_leaves_after_the_others_are_written, REGISTRAR)
{
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	stage->writes[0] = '\0';
	configure(stage, ALIAS_ALONE, 0);
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	cr_assert(eq(str, stage->writes, "alias:in h1:leaves "));
}

STAGED(another_reason_of_a_conflict_is_news, REGISTRAR)
{
	memory_put(stage->registry, ALIAS, "{\"address\":\"10.0.0.1\"}");
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_CONFLICT);
	int news = stage->news;
	make_wish(stage, ANNOUNCE_UP);
	cr_assert(eq(int, stage->news, news));
	memory_put(stage->registry, ALIAS, "a text");
	RUN_UNTIL(stage->loop, strstr(dialect_set_why(stage->set), "another program"));
	cr_assert(eq(int, stage->news, news + 1));
}

enum { HOUR_MS = 3600 * 1000 };

/* A departure that the throttle held up would leave requests to an instance that has gone. */
STAGED(no_throttle_holds_up_a_departure, SPRING)
{
	make_wish(stage, ANNOUNCE_UP);
	run_until(stage, ANNOUNCE_REGISTERED);
	configure(stage, SPRING, HOUR_MS);
	make_wish(stage, ANNOUNCE_DOWN);
	run_until(stage, ANNOUNCE_WITHDRAWN);
	cr_assert(eq(str, stage->writes, "i1:in i1:out i1:leaves "));
}
