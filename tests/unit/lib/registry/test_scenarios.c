/* The stage of tests/scenarios/registry: watches of a registry in memory, at a time of its own. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/berth_error.h"
#include "lib/registry/internal.h"
#include "lib/registry/value.h"
#include "tests/support/core_stage.h"
#include "tests/support/registry_script.h"

enum { NAME_BYTES = 32, TURNS = 12, ASKED_AT_MS = 9000 };

struct user {
	char name[NAME_BYTES];
	struct registry_watch *watch;
	struct answer seen;
	int64_t heard_ms; /* of a confirmation: the age of the oldest state */
	const struct registry *registry;
	struct user *next;
};

struct stage {
	struct registry_script script; /* first */
	struct registry *other;        /* another client's */
	struct user *users;
	int64_t now_ms;
};

static struct user *user_named(struct stage *stage, const char *name)
{
	for (struct user *at = stage->users; at; at = at->next) {
		if (strcmp(at->name, name) == 0) {
			return at;
		}
	}
	scenario_fail("nobody watches as %s", name);
}

/* ---- what happens ---- */

static const struct registry_value *known_value(const char *data)
{
	const struct registry_result result = { .data = *data ? data : NULL,
		.data_len = strlen(data) };
	const struct registry_value *value = registry_value_copy(&result);
	cr_assert_not_null(value);
	return value;
}

static void refresh(void *context, char **words)
{
	registry_watch_refresh(user_named(context, words[0])->watch);
}

static void hurry(void *context, char **words)
{
	registry_watch_hurry(user_named(context, words[0])->watch);
}

static void unwatch(void *context, char **words)
{
	struct user *user = user_named(context, words[0]);
	registry_unwatch(user->watch);
	user->watch = NULL;
}

static void step(void *context, char **words)
{
	struct stage *stage = context;
	for (int64_t i = words[0] ? scenario_ms(words[0]) : 1; i > 0; i--) {
		registry_dispatch(stage->script.registry, stage->now_ms);
	}
}

/* All that can happen at this time. */
static void run(void *context, char **words)
{
	struct stage *stage = context;
	(void)words;
	for (int i = 0; i < TURNS || memory_tasks(stage->script.registry) > 0; i++) {
		registry_dispatch(stage->script.registry, stage->now_ms);
		if (i > 200) {
			return; /* the registry does not answer */
		}
	}
}

static void move_clock(void *context, char **words)
{
	struct stage *stage = context;
	stage->now_ms += scenario_ms(words[0]);
}

static void later(void *context, char **words)
{
	struct stage *stage = context;
	stage->now_ms += scenario_ms(words[0]);
	run(stage, NULL);
}

static void set_state(struct stage *stage, enum registry_state state)
{
	memory_set_state(stage->script.registry, state);
	registry_dispatch(stage->script.registry, stage->now_ms);
}

static void away(void *context, char **words)
{
	(void)words;
	set_state(context, REGISTRY_AWAY);
}

static void lost(void *context, char **words)
{
	(void)words;
	set_state(context, REGISTRY_LOST);
}

static void connect_again(void *context, char **words)
{
	(void)words;
	set_state(context, REGISTRY_CONNECTED);
}

static void heard(void *context, char **words)
{
	struct stage *stage = context;
	memory_set_heard_ms(stage->script.registry, scenario_ms(words[0]));
}

static void answer_late(void *context, char **words)
{
	struct stage *stage = context;
	(void)words;
	memory_answer_late(stage->script.registry);
}

/* Writes a node of the session of that client, over what is there. */
static void write_own(struct stage *stage, struct registry *registry, char **words)
{
	const struct registry_bind bind = { .data = words[1],
		.len = strlen(words[1]),
		.ephemeral = true,
		.mode = REGISTRY_BIND_OVERWRITE };
	struct answer made = { 0 };
	(void)registry_bind(registry, words[0], &bind, answer_take, &made);
	for (int i = 0; i < TURNS && made.calls == 0; i++) {
		registry_dispatch(registry, stage->now_ms);
	}
	if (made.calls != 1 || made.err.code) {
		scenario_fail("%s", made.err.msg);
	}
	answer_clear(&made);
}

static void own(void *context, char **words)
{
	struct stage *stage = context;
	write_own(stage, stage->script.registry, words);
}

static void others(void *context, char **words)
{
	struct stage *stage = context;
	write_own(stage, stage->other, words);
}

static void on_confirmed(void *context, const struct registry_result *result)
{
	struct user *user = context;
	user->heard_ms = registry_heard_ms(user->registry, ASKED_AT_MS);
	answer_take(&user->seen, result);
}

static struct user *new_user(struct stage *stage, const char *name)
{
	struct user *user = calloc(1, sizeof(*user));
	cr_assert_not_null(user);
	snprintf(user->name, sizeof(user->name), "%s", name);
	user->registry = stage->script.registry;
	user->next = stage->users;
	stage->users = user;
	return user;
}

static void watch(void *context, char **words)
{
	struct stage *stage = context;
	struct user *user = new_user(stage, words[0]);
	const char *text = words[3] ? scenario_value(words[3], "known") : NULL;
	const struct registry_value *known = text ? known_value(text) : NULL;
	enum registry_watch_kind kind = strcmp(words[1], "list") == 0 ? REGISTRY_WATCH_CHILDREN
								      : REGISTRY_WATCH_DATA;
	user->watch = registry_watch_known(
		stage->script.registry, words[2], kind, known, answer_take, &user->seen);
	registry_value_release(known);
}

static void confirm(void *context, char **words)
{
	struct stage *stage = context;
	struct user *user = new_user(stage, words[0]);
	(void)registry_confirm(stage->script.registry, 0, on_confirmed, user);
}

/* As few steps as it takes until the user has been called so often. */
static void step_to(void *context, char **words)
{
	struct stage *stage = context;
	const struct user *user = user_named(stage, words[0]);
	const size_t calls = (size_t)scenario_ms(words[1]);
	for (int i = 0; i < 200 && user->seen.calls < calls; i++) {
		registry_dispatch(stage->script.registry, stage->now_ms);
	}
	if (user->seen.calls < calls) {
		scenario_fail("%zu calls", user->seen.calls);
	}
}

/* ---- what is expected ---- */

static void is(void *context, char **words)
{
	const struct user *user = user_named(context, words[0]);
	const struct answer *seen = &user->seen;
	const char *data = seen->data ? seen->data : "";
	for (words++; *words; words++) {
		const char *value;
		bool holds;
		if (scenario_compares(*words, "calls", (int64_t)seen->calls) ||
			scenario_compares(*words, "heard", user->heard_ms)) {
			holds = true;
		} else if ((value = scenario_value(*words, "data"))) {
			holds = !seen->err.code && strcmp(data, value) == 0;
		} else if ((value = scenario_value(*words, "names"))) {
			holds = !seen->err.code && strcmp(answer_children(seen), value) == 0;
		} else if (strcmp(*words, "changed") == 0 || strcmp(*words, "same") == 0) {
			holds = seen->changed == (**words == 'c');
		} else if (strcmp(*words, "holds") == 0 || strcmp(*words, "doubted") == 0) {
			holds = registry_watch_holds(user->watch) == (**words == 'h');
		} else if (strcmp(*words, "own") == 0) {
			holds = seen->stat.own;
		} else {
			holds = seen->calls > 0 && seen->err.code == scenario_code(*words);
		}
		if (!holds) {
			scenario_fail("not %s: %zu calls, %s: %s%s", *words, seen->calls,
				answer_name(seen), data,
				seen->children_count ? answer_children(seen) : "");
		}
	}
}

static void figures(void *context, char **words)
{
	struct stage *stage = context;
	struct registry *registry = stage->script.registry;
	int64_t wait_ms = registry_deadline_ms(registry) - stage->now_ms;
	for (; *words; words++) {
		if (!scenario_compares(*words, "reads", (int64_t)stage->script.tasks) &&
			!scenario_compares(
				*words, "armed", (int64_t)memory_armed_watches(registry)) &&
			!scenario_compares(*words, "under_way", (int64_t)memory_tasks(registry)) &&
			!scenario_compares(*words, "most", (int64_t)memory_most_tasks(registry)) &&
			!scenario_compares(
				*words, "heard", registry_heard_ms(registry, ASKED_AT_MS)) &&
			!scenario_compares(*words, "next", wait_ms)) {
			scenario_fail("no such figure: %s", *words);
		}
	}
	stage->script.tasks = 0;
}

/* Of the users NAME0, NAME1 …: so many have been called so often. */
static void count(void *context, char **words)
{
	const struct stage *stage = context;
	const size_t calls = (size_t)scenario_ms(words[1]);
	int64_t found = 0;
	for (const struct user *at = stage->users; at; at = at->next) {
		found += strncmp(at->name, words[0], strlen(words[0])) == 0 &&
			at->seen.calls == calls;
	}
	if (!scenario_compares(words[2], "users", found)) {
		scenario_fail("users= users< users>");
	}
}

/* ---- the stage ---- */

static void *begin(void)
{
	static struct stage stage;
	const struct registry_options options = { .foreign_paths = true };
	stage = (struct stage){ .now_ms = 1000000 };
	registry_script_begin(&stage.script, memory_open("core", &options));
	stage.other = memory_open("core", &options);
	registry_dispatch(stage.other, stage.now_ms);
	run(&stage, NULL);
	return &stage;
}

static void end(void *context)
{
	struct stage *stage = context;
	registry_script_end(&stage->script);
	registry_close(stage->script.registry);
	registry_close(stage->other);
	for (struct user *at = stage->users, *next; at; at = next) {
		next = at->next;
		answer_clear(&at->seen);
		free(at);
	}
}

static const struct scenario_command commands[] = {
	REGISTRY_SCRIPT_COMMANDS,
	{ "watch", 3, 4, watch, "NAME data|list PATH [known=DATA]" },
	{ "refresh", 1, 1, refresh, "NAME" },
	{ "hurry", 1, 1, hurry, "NAME" },
	{ "unwatch", 1, 1, unwatch, "NAME" },
	{ "step", 0, 1, step, "[COUNT]" },
	{ "run", 0, 0, run, "" },
	{ "clock", 1, 1, move_clock, "TIME" },
	{ "later", 1, 1, later, "TIME" },
	{ "away", 0, 0, away, "" },
	{ "lost", 0, 0, lost, "" },
	{ "connect", 0, 0, connect_again, "" },
	{ "heard", 1, 1, heard, "TIME" },
	{ "answer_late", 0, 0, answer_late, "" },
	{ "own", 2, 2, own, "PATH DATA" },
	{ "others", 2, 2, others, "PATH DATA" },
	{ "confirm", 1, 1, confirm, "NAME" },
	{ "step_to", 2, 2, step_to, "NAME CALLS" },
	{ "is", 1, 9, is, "NAME OK|ERROR calls= data= names= changed|same holds|doubted own" },
	{ "figures", 0, 9, figures, "reads= armed= under_way= most= heard= next=" },
	{ "count", 3, 3, count, "NAME CALLS users=" },
};

static const struct scenario_stage stage = { "registry", begin, end, commands,
	ARRAY_LEN(commands) };

SCENARIOS(registry, &stage)
