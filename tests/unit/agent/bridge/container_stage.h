/*
 * A container on the bridge's stage. The clock stops until the test moves it, or lets it go on by
 * a step at each look.
 */
#ifndef TESTS_UNIT_AGENT_BRIDGE_CONTAINER_STAGE_H
#define TESTS_UNIT_AGENT_BRIDGE_CONTAINER_STAGE_H

#include <time.h>

#include "agent/bridge/container.h"
#include "tests/unit/agent/bridge/bridge_stage.h"

enum { BEGIN_MS = 1000000000 };

struct stage {
	struct bridge_stage common;
	struct bridge_publish *publish;
	struct bridge_watches *watches;
	struct bridge_container *container;
	struct config_container policy;
	char *allow[2];
	struct config_name_value attribute;
	int64_t now_ms;
	int dues;
	int lost;
};

/* ---- time: the true one does not matter, and it may pass at each look at the clock ---- */

static int64_t clock_ms = BEGIN_MS;
static int64_t clock_step_ms;
static int64_t clock_more_ns; /* a timer ends only when its time is over */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME) {
		now->tv_sec = clock_ms / 1000;
		now->tv_nsec = clock_ms % 1000 * 1000000 + clock_more_ns;
		clock_ms += clock_step_ms;
		clock_more_ns += clock_more_ns < 900000 ? 20 : 0;
		return 0;
	}
	now->tv_sec = 1700000000;
	now->tv_nsec = 0;
	return 0;
}

/* ---- the stage ---- */

static inline void on_due(void *context)
{
	((struct stage *)context)->dues++;
}

static inline void on_lost(void *context)
{
	((struct stage *)context)->lost++;
}

static inline void open_publish(struct stage *stage, const json_t *inherited)
{
	const struct bridge_publish_environment environment = {
		.loop = stage->common.loop,
		.registry = stage->common.registry,
		.book = stage->common.book,
		.inherited = inherited,
		.session_is_saved = stage_session_is_saved,
		.is_taken = stage_is_taken,
		.on_change = stage_on_change,
		.context = &stage->common,
	};
	stage->publish = bridge_publish_create(&environment);
}

static inline struct bridge_container *make(struct stage *stage, const char *name)
{
	const struct bridge_container_environment environment = {
		.watches = stage->watches,
		.publish = stage->publish,
		.http = stage->common.http,
		.on_due = on_due,
		.context = stage,
	};
	mkdir(stage_file(&stage->common, name), 0755);
	int fd = open(stage_file(&stage->common, name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	return bridge_container_create(&environment, name, fd);
}

static inline void open_container(struct stage *stage)
{
	stage->container = make(stage, "web-1");
	bridge_container_set_policy(stage->container, &stage->policy, 0);
}

static inline struct stage *begin(struct stage *stage)
{
	struct err err = ERR_INIT;
	stage_open(&stage->common, &(struct registry_options){ 0 });
	stage->now_ms = clock_ms;
	open_publish(stage, NULL);
	cr_assert_eq(
		bridge_watches_create(&stage->watches, stage->common.loop, on_lost, stage, &err),
		0);
	stage->allow[0] = (char *)(uintptr_t) "/services/*";
	stage->allow[1] = (char *)(uintptr_t) "/deep/**";
	stage->policy = (struct config_container){ .glob = (char *)(uintptr_t) "web-*",
		.allow = stage->allow,
		.allow_count = 2,
		.owner_uid = (unsigned)-1,
		.max_records = 8,
		.max_bytes = 100000,
		.rate = 8,
		.attributes = &stage->attribute };
	umask(022);
	open_container(stage);
	mkdir(stage_file(&stage->common, "web-1/registry"), 0755);
	mkdir(stage_file(&stage->common, "web-1/registry/services"), 0755);
	return stage;
}

static inline void end(struct stage *stage)
{
	bridge_container_destroy(stage->container, false);
	bridge_container_destroy(NULL, false);
	bridge_watches_destroy(stage->watches);
	bridge_publish_destroy(stage->publish);
	stage_close(&stage->common);
}

#define CONTAINER_TEST(name)                                                                       \
	STAGED_TEST(bridge_container, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

static inline int own(const struct stage *stage, const char *path, const char *record)
{
	char name[LIMIT_PATH_BYTES];
	snprintf(name, sizeof(name), "web-1/registry%s", path);
	return stage_own(&stage->common, name, record);
}

/* A child that saves the book has copies of the owners' descriptors for a moment. */
static inline void look(struct stage *stage)
{
	bridge_container_run(stage->container, stage->now_ms);
	cr_assert(file_queue_wait(stage->common.files, 60000));
}

/* Looks now, whatever is due. */
static inline void run(struct stage *stage)
{
	clock_ms = stage->now_ms;
	bridge_container_doubt(stage->container);
	look(stage);
}

/* Time passes, and what is due by then is done, once. */
static inline void pass(struct stage *stage, int64_t ms)
{
	stage->now_ms += ms;
	clock_ms = stage->now_ms;
	look(stage);
}

/* Milliseconds until something is due. */
static inline int64_t due_in(const struct stage *stage)
{
	return bridge_container_due_ms(stage->container) - stage->now_ms;
}

/* All events that have come. */
static inline void hear(struct stage *stage)
{
	clock_ms = stage->now_ms;
	for (int i = 0; i < 30; i++) {
		ev_run(stage->common.loop, EVRUN_NOWAIT);
	}
}

/* Nothing is due any more that follows from an event. */
static inline void quiet(struct stage *stage)
{
	for (int i = 0; i < 10; i++) {
		hear(stage);
		pass(stage, 128);
	}
}

/* A member of the report on a record; "" when there is no such record. */
static inline const char *says(const struct stage *stage, const char *path, const char *member)
{
	static char text[500];
	json_t *json = bridge_container_json(stage->container);
	size_t index;
	json_t *record;
	text[0] = '\0';
	json_array_foreach (json_object_get(json, "records"), index, record) {
		if (strcmp(json_string_value(json_object_get(record, "path")), path) == 0) {
			cr_expect_str_eq(text, "", "%s is listed twice", path);
			snprintf(text, sizeof(text), "%s",
				json_string_value(json_object_get(record, member)));
		}
	}
	json_decref(json);
	return text;
}

static inline const char *state(const struct stage *stage, const char *path)
{
	return says(stage, path, "state");
}

static inline const char *why(const struct stage *stage, const char *path)
{
	return says(stage, path, "why");
}

/* A member of the report on the container, as JSON. */
static inline const char *report(const struct stage *stage, const char *member)
{
	static char text[500];
	json_t *json = bridge_container_json(stage->container);
	char *dump = json_dumps(json_object_get(json, member), JSON_ENCODE_ANY);
	snprintf(text, sizeof(text), "%s", dump ? dump : "");
	free(dump);
	json_decref(json);
	return text;
}

/* The bridge goes on, and nothing waits for the disk. */
static inline void settle(struct stage *stage)
{
	cr_assert(file_queue_wait(stage->common.files, 60000));
	for (int i = 0; i < 200; i++) {
		bridge_publish_proceed(stage->publish);
		ev_run(stage->common.loop, EVRUN_NOWAIT);
		cr_assert(file_queue_wait(stage->common.files, 60000));
	}
}

static inline bool registers(struct stage *stage, const char *path, const char *text)
{
	settle(stage);
	return strcmp(state(stage, path), "registered") == 0 &&
		stage_has(&stage->common, path, text);
}

#endif
