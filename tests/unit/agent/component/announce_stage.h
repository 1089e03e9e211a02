/* An announcement at work on a registry in memory, which the test changes and takes away. */
#ifndef TESTS_UNIT_AGENT_COMPONENT_ANNOUNCE_STAGE_H
#define TESTS_UNIT_AGENT_COMPONENT_ANNOUNCE_STAGE_H

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/registry_loop.h"
#include "agent/component/announce_internal.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/staged.h"

struct stage {
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_loop driver;
	struct announce *announce;
	char trail[512];    /* states that were reported, in order */
	char reason[128];   /* of the last write */
	double saved_since; /* of a predecessor's registered record; 0: there was none */
	json_t *left;       /* announce_persistent() at the last write */
	bool disk_hangs;    /* what is to be noted is not on the disk */
};

static const char PATH[] = "/users/joe/web/one/components/c1";

static inline void on_change(
	void *context, enum announce_state from, enum announce_state to, const char *why)
{
	(void)from;
	struct stage *stage = context;
	size_t used = strlen(stage->trail);
	if (to == ANNOUNCE_WRITING || to == ANNOUNCE_OUTDATED) {
		snprintf(stage->reason, sizeof(stage->reason), "%s", why);
	}
	snprintf(stage->trail + used, sizeof(stage->trail) - used, "%s ", announce_state_name(to));
}

static inline bool on_write(void *context)
{
	struct stage *stage = context;
	json_decref(stage->left);
	stage->left = announce_persistent(stage->announce);
	return !stage->disk_hangs;
}

static inline void on_registry_state(void *context, enum registry_state state, const char *why)
{
	struct stage *stage = context;
	if (stage->announce) {
		announce_on_registry_state(stage->announce, state, why);
	}
}

static inline void announce_anew(
	struct stage *stage, bool ephemeral, int64_t update_interval_ms, const json_t *left)
{
	const struct announce_options options = {
		.path = PATH,
		.ephemeral = ephemeral,
		.persistent = left,
		.update_interval_ms = update_interval_ms,
		.saved_state = ANNOUNCE_REGISTERED,
		.saved_since = stage->saved_since,
		.on_change = on_change,
		.on_write = on_write,
		.context = stage,
	};
	stage->announce = announce_create(stage->loop, stage->registry, &options);
	cr_assert(stage->announce != NULL);
}

static inline struct stage *stage_begin(
	struct stage *stage, bool ephemeral, int64_t update_interval_ms)
{
	*stage = (struct stage){ .loop = ev_loop_new(EVFLAG_AUTO) };
	const struct registry_options registry = { .on_state = on_registry_state,
		.context = stage };
	stage->registry = memory_open("announce", &registry);
	registry_loop_init(&stage->driver, stage->loop, stage->registry);
	announce_anew(stage, ephemeral, update_interval_ms, NULL);
	for (const char *slash = strchr(PATH + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		char *parent = strndup(PATH, (size_t)(slash - PATH));
		memory_put(stage->registry, parent, "");
		free(parent);
	}
	return stage;
}

static inline void stage_end(struct stage *stage)
{
	announce_destroy(stage->announce);
	json_decref(stage->left);
	registry_loop_finish(&stage->driver);
	registry_close(stage->registry);
	ev_loop_destroy(stage->loop);
}

/* A test with a stage whose announcement is for a node of this kind. */
#define STAGED(name, ephemeral, update_interval_ms)                                                \
	STAGED_TEST(announce, name, struct stage *, stage,                                         \
		stage_begin(&(struct stage){ 0 }, ephemeral, update_interval_ms), stage_end)

static inline void on_patience(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	const struct stage *stage = timer->data;
	cr_assert(false, "it did not come true within a minute; states: %s", stage->trail);
}

/* Runs the loop until the condition holds. */
#define RUN_UNTIL(stage, condition)                                                                \
	do {                                                                                       \
		ev_timer patience;                                                                 \
		ev_timer_init(&patience, on_patience, 60.0, 0.0);                                  \
		patience.data = (stage);                                                           \
		ev_timer_start((stage)->loop, &patience);                                          \
		while (!(condition)) {                                                             \
			ev_run((stage)->loop, EVRUN_ONCE);                                         \
		}                                                                                  \
		ev_timer_stop((stage)->loop, &patience);                                           \
	} while (0)

static inline enum announce_state state_of(const struct stage *stage)
{
	return announce_get_state(stage->announce);
}

static inline struct record *record_of(const char *id, const char *description)
{
	struct record *record = record_create();
	cr_assert(record != NULL);
	cr_assert(eq(int, record_set_text(record, "yarn:id", id), 0));
	cr_assert(eq(int, record_set_text(record, "description", description), 0));
	return record;
}

static inline int write_record(
	struct dialect_nodes *ret_nodes, const struct record *record, struct err *err)
{
	const struct dialect_instance instance = {
		.type = DIALECT_YARN, .name = "c", .record = record, .ephemeral = true, .path = PATH
	};
	return dialect_write(ret_nodes, &instance, err);
}

static inline void make_wish(
	struct stage *stage, enum announce_wish wish, const char *id, const char *description)
{
	struct record *record = record_of(id, description);
	struct err err = ERR_INIT;
	struct dialect_nodes nodes = { 0 };
	cr_assert(eq(int, write_record(&nodes, record, &err), 0), "%s", err.msg);
	announce_wish(stage->announce, wish, nodes.items, "test");
	dialect_nodes_finish(&nodes);
	record_free(record);
}

static inline void register_one(struct stage *stage)
{
	make_wish(stage, ANNOUNCE_UP, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_REGISTERED);
}

static inline void withdraw_one(struct stage *stage)
{
	make_wish(stage, ANNOUNCE_DOWN, "c_1", "one");
	RUN_UNTIL(stage, state_of(stage) == ANNOUNCE_WITHDRAWN);
}

static inline void take_get(void *context, const struct registry_result *result)
{
	struct answer *answer = context;
	answer_take(answer, result);
}

/* The node that is in the registry now; NULL for none. Borrowed from `answer`. */
static inline const char *standing(struct stage *stage, struct answer *answer)
{
	answer_clear(answer);
	cr_assert(registry_get(stage->registry, PATH, take_get, answer) != NULL);
	RUN_UNTIL(stage, answer->calls > 0);
	return answer->err.code == 0 ? answer->data : NULL;
}

static inline bool stands_with(struct stage *stage, const char *text)
{
	struct answer answer = { 0 };
	const char *data = standing(stage, &answer);
	bool found = data && strstr(data, text);
	answer_clear(&answer);
	return found;
}

#endif
