/* A followed tree on a registry in memory: its first picture, its events, outages. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/client/tree.h"
#include "tests/support/failing.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/staged.h"

#define RECORD(text) "{\"type\":\"JSONServiceRecord\",\"description\":\"" text "\"}"

struct stage {
	struct registry *registry;
	struct client_tree *tree;
	char events[1024]; /* "SUBSCRIBED UPDATED:/a " … */
	json_t *picture;   /* what replaying them gives */
	bool missed;       /* an event could not be made */
	bool failed;       /* an allocation failed before the first event that follows */
};

static void on_state(void *context, enum registry_state state, const char *why)
{
	struct stage *stage = context;
	(void)why;
	if (stage->tree) {
		client_tree_state(stage->tree, state);
	}
}

/* The registry in memory has the memory that it needs for its tasks: each ends with an answer. */
static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)context;
	(void)task;
	(void)err;
	failing_pause();
}

static void on_answer(void *context, int code, double duration_s)
{
	(void)context;
	(void)code;
	(void)duration_s;
	failing_resume();
}

static void replay(json_t *picture, const json_t *event)
{
	const char *path = json_string_value(json_object_get(event, "path"));
	json_t *record = json_object_get(event, "record");
	if (json_object_get(event, "snapshot")) {
		json_object_clear(picture);
		json_object_update(picture, json_object_get(event, "snapshot"));
	} else if (record) {
		json_object_set(picture, path, record);
	} else if (path) {
		json_object_del(picture, path);
	}
}

static void emit_take(void *context, json_t *event)
{
	struct stage *stage = context;
	const char *path = json_string_value(json_object_get(event, "path"));
	size_t used = strlen(stage->events);
	stage->failed = failing_disarm() || stage->failed;
	if (!event) {
		stage->missed = true;
		return;
	}
	snprintf(stage->events + used, sizeof(stage->events) - used, "%s%s%s ",
		json_string_value(json_object_get(event, "type")), path ? ":" : "",
		path ? path : "");
	replay(stage->picture, event);
	json_decref(event);
}

static struct stage *stage_begin(struct stage *stage)
{
	const struct registry_options options = {
		.on_state = on_state, .on_answer = on_answer, .context = stage
	};
	stage->picture = json_object();
	stage->registry = memory_open("tree", &options);
	memory_on_task(stage->registry, on_task, NULL);
	client_add(stage->registry);
	client_wait_state(stage->registry, REGISTRY_CONNECTED);
	memory_put(stage->registry, "/a", RECORD("top"));
	memory_put(stage->registry, "/a/b", RECORD("b"));
	memory_put(stage->registry, "/a/c", "no record");
	return stage;
}

static void stage_end(struct stage *stage)
{
	client_tree_free(stage->tree);
	client_tree_free(NULL);
	client_close(stage->registry);
	json_decref(stage->picture);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(client_tree, name, struct stage *, stage, stage_begin(&(struct stage){ 0 }),   \
		stage_end)

static void follow(struct stage *stage, bool recursive)
{
	struct err err = ERR_INIT;
	cr_assert_eq(client_tree_create(&stage->tree, stage->registry, "/a", recursive, emit_take,
			     stage, &err),
		0, "%s", err.msg);
}

struct wanted {
	const struct stage *stage;
	const char *events;
};

static bool has_come(void *context)
{
	const struct wanted *wanted = context;
	return strlen(wanted->stage->events) >= strlen(wanted->events);
}

static void expect(const struct stage *stage, const char *events)
{
	struct wanted wanted = { stage, events };
	client_wait(has_come, &wanted);
	cr_assert_str_eq(stage->events, events);
}

static const char *description(const struct stage *stage, const char *path)
{
	const json_t *record = json_object_get(stage->picture, path);
	const char *text = json_string_value(json_object_get(record, "description"));
	return text ? text : record ? "none" : "absent";
}

#define BEGUN "SUBSCRIBED "

STAGED(a_tree_that_is_not_there_begins_empty)
{
	memory_remove(stage->registry, "/a/b");
	memory_remove(stage->registry, "/a/c");
	memory_remove(stage->registry, "/a");
	follow(stage, true);
	expect(stage, BEGUN);
	cr_assert_eq(json_object_size(stage->picture), 0);
	memory_put(stage->registry, "/a", RECORD("top"));
	expect(stage, BEGUN "UPDATED:/a ");
	memory_put(stage->registry, "/a/b", RECORD("b"));
	expect(stage, BEGUN "UPDATED:/a UPDATED:/a/b ");
	stage->events[0] = '\0';
	memory_remove(stage->registry, "/a/b");
	memory_remove(stage->registry, "/a");
	expect(stage, "DELETED:/a/b DELETED:/a ");
}

STAGED(an_outage_makes_the_picture_stale_until_all_has_been_read)
{
	follow(stage, true);
	expect(stage, BEGUN);
	memory_set_state(stage->registry, REGISTRY_AWAY);
	expect(stage, BEGUN "STALE ");
	memory_set_state(stage->registry, REGISTRY_LOST);
	client_wait_state(stage->registry, REGISTRY_LOST);
	memory_put(stage->registry, "/a/b", RECORD("changed"));
	memory_put(stage->registry, "/a/c", RECORD("changed"));
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	expect(stage, BEGUN "STALE UPDATED:/a/b UPDATED:/a/c FRESH ");
	cr_assert_str_eq(description(stage, "/a/b"), "changed");
}

STAGED(a_branch_that_went_in_an_outage_is_told_from_its_leaves_on)
{
	memory_put(stage->registry, "/a/c/d", RECORD("d"));
	memory_put(stage->registry, "/a/c/d/e", RECORD("e"));
	follow(stage, true);
	expect(stage, BEGUN);
	memory_set_state(stage->registry, REGISTRY_LOST);
	client_wait_state(stage->registry, REGISTRY_LOST);
	memory_remove(stage->registry, "/a/c/d/e");
	memory_remove(stage->registry, "/a/c/d");
	memory_remove(stage->registry, "/a/c");
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	expect(stage, BEGUN "STALE DELETED:/a/c/d/e DELETED:/a/c/d DELETED:/a/c FRESH ");
	cr_assert_eq(json_object_size(stage->picture), 2);
}

STAGED(an_outage_during_the_first_picture_is_no_news)
{
	memory_set_answering(stage->registry, false);
	follow(stage, true);
	on_state(stage, REGISTRY_AWAY, "");
	cr_assert_str_empty(stage->events);
	on_state(stage, REGISTRY_CONNECTED, "");
	memory_set_answering(stage->registry, true);
	expect(stage, BEGUN);
	cr_assert_eq(json_object_size(stage->picture), 3);
}

/* ---- reads that fail ---- */

/* Drives the registry, at the times that it asks for, until the condition holds. */
static bool drive(struct stage *stage, bool (*is_done)(const struct stage *stage))
{
	int64_t now_ms = clock_monotonic_ms();
	for (int i = 0; i < 100 && !is_done(stage); i++) {
		int64_t due_ms = registry_deadline_ms(stage->registry);
		now_ms = due_ms > now_ms && due_ms != INT64_MAX ? due_ms : now_ms;
		registry_dispatch(stage->registry, now_ms);
	}
	stage->failed = failing_disarm() || stage->failed;
	return is_done(stage);
}

static bool has_begun(const struct stage *stage)
{
	return strcmp(stage->events, BEGUN) == 0;
}

static bool is_whole(const struct stage *stage)
{
	return json_object_size(stage->picture) == 3 &&
		strcmp(description(stage, "/a"), "top") == 0 &&
		strcmp(description(stage, "/a/b"), "b") == 0;
}

struct refusal {
	enum registry_operation operation;
	const char *path;
	int code;
	int left; /* so often */
};

static void refuse(void *context, const struct registry_task *task, struct err *err)
{
	struct refusal *refusal = context;
	failing_pause();
	if (task->operation == refusal->operation && strcmp(task->path, refusal->path) == 0 &&
		refusal->left-- > 0) {
		err_set(err, refusal->code, "refused");
	}
}

STAGED(a_read_that_failed_gives_no_state_and_the_picture_waits_for_one)
{
	static const int codes[] = { BERTH_TIMEOUT, BERTH_FAILED, BERTH_REGISTRY_UNAVAILABLE };
	static const struct {
		enum registry_operation operation;
		const char *path;
	} reads[] = { { REGISTRY_OP_GET, "/a/b" }, { REGISTRY_OP_CHILDREN, "/a" } };
	for (size_t i = 0; i < 6; i++) {
		struct refusal refusal = { reads[i % 2].operation, reads[i % 2].path, codes[i / 2],
			1 };
		memory_on_task(stage->registry, refuse, &refusal);
		follow(stage, true);
		cr_assert(drive(stage, has_begun), "read %zu", i);
		cr_expect(is_whole(stage), "read %zu", i);
		cr_expect_leq(refusal.left, 0);
		client_tree_free(stage->tree);
		stage->tree = NULL;
		stage->events[0] = '\0';
		json_object_clear(stage->picture);
	}
}

static bool is_fresh(const struct stage *stage)
{
	return stage->missed || strstr(stage->events, "FRESH");
}

STAGED(an_outage_in_the_middle_of_news_ends_like_any_other)
{
	struct refusal refusal = { REGISTRY_OP_GET, "/a/d", BERTH_TIMEOUT, 1 };
	follow(stage, true);
	expect(stage, BEGUN);
	memory_on_task(stage->registry, refuse, &refusal);
	memory_put(stage->registry, "/a/d", RECORD("d"));
	while (refusal.left > 0) {
		registry_dispatch(stage->registry, clock_monotonic_ms());
	}
	memory_set_state(stage->registry, REGISTRY_LOST);
	client_wait_state(stage->registry, REGISTRY_LOST);
	memory_set_state(stage->registry, REGISTRY_CONNECTED);
	cr_assert(drive(stage, is_fresh), "%s", stage->events);
	cr_assert_str_eq(description(stage, "/a/d"), "d");
}
