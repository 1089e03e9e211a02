/* The stage of tests/scenarios/cache: look-ups and observers of a cache on a registry in memory. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cache/filter.h"
#include "lib/berth_error.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/file_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_script.h"
#include "tests/support/scenario.h"
#include "tests/support/scratch.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/watch_count.h"

enum { NAME_BYTES = 32, LOG_BYTES = 4096, MAX_SIZE = 1024 * 1024 };

/* A look-up that a scenario has given a name. */
struct question {
	char name[NAME_BYTES];
	enum cache_verdict verdict;
	struct cache_outcome outcome;
	struct question *next;
};

struct watcher {
	char name[NAME_BYTES];
	struct cache_observer observer;
	char log[LOG_BYTES]; /* "ready +/s/a -/s/b stale fresh" */
	struct watcher *next;
};

struct stage {
	struct registry_script script; /* first */
	struct cache_stage cache;
	struct cache_options options;
	char *warm[4];
	struct question *questions;
	struct watcher *watchers;
	uint64_t generation;
};

static bool is_error(const char *word)
{
	return strcmp(word, "OK") == 0 || (*word >= 'A' && *word <= 'Z');
}

/* ---- the registry ---- */

static void turn(void *context, char **words)
{
	struct stage *stage = context;
	for (int64_t i = words[0] ? scenario_ms(words[0]) : 1; i > 0; i--) {
		cache_stage_turn(&stage->cache);
	}
}

/* The registry alone goes on, by one step. */
static void dispatch(void *context, char **words)
{
	struct stage *stage = context;
	(void)words;
	registry_dispatch(stage->cache.registry, stage->cache.now_ms);
}

static void loop(void *context, char **words)
{
	struct stage *stage = context;
	(void)words;
	ev_run(stage->cache.loop, EVRUN_NOWAIT);
}

static void set_state(struct stage *stage, enum registry_state state)
{
	memory_set_state(stage->cache.registry, state);
	cache_stage_turn(&stage->cache);
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

static void connecting(void *context, char **words)
{
	struct stage *stage = context;
	(void)words;
	cache_on_registry_state(stage->cache.cache, REGISTRY_CONNECTING);
}

static void connect_again(void *context, char **words)
{
	(void)words;
	set_state(context, REGISTRY_CONNECTED);
}

/* For the registry alone, which does not read everything at once and tries again. */
static void later(void *context, char **words)
{
	struct stage *stage = context;
	stage->cache.now_ms += scenario_ms(words[0]);
	cache_stage_turn(&stage->cache);
}

/* The clock goes on, at most a second at a time. */
static void pass(void *context, char **words)
{
	struct stage *stage = context;
	for (int64_t left = scenario_ms(words[0]); left > 0; left -= 1000) {
		int64_t step = left < 1000 ? left : 1000;
		clock_shift_ms += step;
		stage->cache.now_ms += step;
		cache_stage_turn(&stage->cache);
	}
}

static void heard(void *context, char **words)
{
	struct stage *stage = context;
	memory_set_heard_ms(stage->cache.registry,
		strcmp(words[0], "now") == 0 ? INT64_MAX
			: strcmp(words[0], "never") == 0
			? INT64_MIN
			: clock_monotonic_ms() - scenario_ms(words[0]));
	cache_set_options(stage->cache.cache, &stage->options); /* an earlier finding ends */
}

static void answer_late(void *context, char **words)
{
	struct stage *stage = context;
	(void)words;
	memory_answer_late(stage->cache.registry);
	cache_stage_turn(&stage->cache);
}

/* ---- options ---- */

static void set(void *context, char **words)
{
	struct stage *stage = context;
	struct cache_options *options = &stage->options;
	for (size_t i = 0; words[i]; i++) {
		const char *value;
		if ((value = scenario_value(words[i], "max_size"))) {
			options->max_size_bytes = (size_t)scenario_ms(value);
		} else if ((value = scenario_value(words[i], "confirm"))) {
			options->confirm_ms = scenario_ms(value);
		} else if ((value = scenario_value(words[i], "max_stale"))) {
			options->max_stale_ms = scenario_ms(value);
		} else if ((value = scenario_value(words[i], "session"))) {
			memory_set_session_timeout_ms(
				stage->cache.registry, (int)scenario_ms(value));
		} else if ((value = scenario_value(words[i], "warm"))) {
			for (size_t at = 0; at < options->warm_count; at++) {
				free(stage->warm[at]);
			}
			options->warm_count = 0;
			for (char *rest = (char *)(uintptr_t)value, *path;
				(path = strtok_r(rest, ",", &rest));) {
				stage->warm[options->warm_count++] = strdup(path);
			}
		} else {
			scenario_fail("no such option: %s", words[i]);
		}
	}
	cache_set_options(stage->cache.cache, options);
	cache_stage_turn(&stage->cache);
}

/* ---- look-ups ---- */

static struct question *question(struct stage *stage, const char *name)
{
	for (struct question *at = stage->questions; at; at = at->next) {
		if (strcmp(at->name, name) == 0) {
			return at;
		}
	}
	return NULL;
}

static struct question *the_question(struct stage *stage, const char *name)
{
	struct question *found = question(stage, name);
	if (!found) {
		scenario_fail("nobody has asked %s", name);
	}
	return found;
}

/* A JSON list of the paths that commas part. */
static bool has_paths(const char *text, const char *paths)
{
	char expected[4096] = "[";
	size_t len = 1;
	for (const char *at = paths; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] != '\0')) {
		len += (size_t)snprintf(expected + len, sizeof(expected) - len, "%s\"%.*s\"",
			len > 1 ? "," : "", (int)strcspn(at, ","), at);
	}
	snprintf(expected + len, sizeof(expected) - len, "]\n");
	return strcmp(text, expected) == 0;
}

/* Lines that commas part; a comma at the end: others follow. */
static bool has_lines(const char *text, const char *lines)
{
	for (; *lines && (*text == *lines || (*text == '\n' && *lines == ',')); lines++) {
		text++;
	}
	return *lines == '\0' && (lines[-1] == ',' || strcmp(text, "\n") == 0);
}

static bool same_line(const char *text, const char *expected)
{
	size_t len = strlen(text);
	len -= len > 0 && text[len - 1] == '\n';
	return strlen(expected) == len && memcmp(text, expected, len) == 0;
}

/* Fails at the first of the words behind -> that does not hold of the answer. */
static void check(struct stage *stage, const struct question *asked, char **words)
{
	static const char *const verdicts[] = { [CACHE_READY] = "ready",
		[CACHE_WAITING] = "waiting",
		[CACHE_UNAVAILABLE] = "unavailable" };
	const struct cache_outcome *outcome = &asked->outcome;
	const char *text = outcome->text;
	for (; *words; words++) {
		const char *word = *words;
		const char *value;
		bool holds;
		if (is_error(word)) {
			holds = outcome->code == scenario_code(word);
		} else if (strcmp(word, "answered") == 0) {
			holds = outcome->calls == 1;
		} else if (strcmp(word, verdicts[CACHE_READY]) == 0 ||
			strcmp(word, verdicts[CACHE_WAITING]) == 0 ||
			strcmp(word, verdicts[CACHE_UNAVAILABLE]) == 0) {
			holds = strcmp(word, verdicts[asked->verdict]) == 0 && outcome->calls == 0;
		} else if (strcmp(word, "live") == 0 || strcmp(word, "stale") == 0) {
			holds = outcome->live == (*word == 'l');
		} else if (strcmp(word, "confirmed") == 0 || strcmp(word, "unconfirmed") == 0) {
			holds = outcome->confirmed == (*word == 'c');
		} else if (strcmp(word, "confirming") == 0) {
			holds = cache_is_confirming(&outcome->wait);
		} else if (strcmp(word, "reading") == 0) {
			holds = !cache_is_confirming(&outcome->wait) && outcome->calls == 0;
		} else if (scenario_compares(word, "age", outcome->age_ms) ||
			scenario_compares(word, "calls", outcome->calls)) {
			holds = true;
		} else if ((value = scenario_value(word, "text"))) {
			holds = same_line(text, value);
		} else if ((value = scenario_value(word, "record"))) {
			holds = strcmp(text, cache_stage_record(value)) == 0;
		} else if ((value = scenario_value(word, "paths"))) {
			holds = has_paths(text, value);
		} else if ((value = scenario_value(word, "lines"))) {
			holds = has_lines(text, value);
		} else if ((value = scenario_value(word, "has"))) {
			holds = strstr(text, value) != NULL;
		} else if ((value = scenario_value(word, "lacks"))) {
			holds = strstr(text, value) == NULL;
		} else if ((value = scenario_value(word, "begins"))) {
			holds = strncmp(text, value, strlen(value)) == 0;
		} else if ((value = scenario_value(word, "why"))) {
			holds = strstr(outcome->why, value) != NULL;
		} else if ((value = scenario_value(word, "as"))) {
			holds = strcmp(text, the_question(stage, value)->outcome.text) == 0;
		} else if ((value = scenario_value(word, "etag"))) {
			holds = strcmp(outcome->etag, the_question(stage, value)->outcome.etag) ==
				0;
		} else if ((value = scenario_value(word, "etag!"))) {
			holds = strcmp(outcome->etag, the_question(stage, value)->outcome.etag) !=
				0;
		} else {
			scenario_fail("nothing to expect: %s", word);
		}
		if (!holds) {
			scenario_fail("not %s: %s, %d calls, %s, %s, age %lld: %s%s", word,
				verdicts[asked->verdict], outcome->calls,
				outcome->code ? berth_error_name(outcome->code) : "OK",
				outcome->live ? "live" : "stale", (long long)outcome->age_ms, text,
				outcome->why);
		}
	}
}

static bool set_filter(struct cache_filter *filter, const char *word)
{
	const struct {
		const char *name;
		const char **text;
	} members[] = { { "api", &filter->api }, { "protocol", &filter->protocol },
		{ "scope", &filter->scope }, { "type", &filter->type }, { "id", &filter->id },
		{ "persistence", &filter->persistence }, { "near", &filter->near } };
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const char *value = scenario_value(word, members[i].name);
		if (value) {
			*members[i].text = value;
			return true;
		}
	}
	return false;
}

/* NAME KIND PATH OPTION …; the words from -> on. */
static char **ask_words(struct stage *stage, struct question *asked, char **words)
{
	static const char *const kinds[] = { [CACHE_RESOLVE] = "resolve",
		[CACHE_LIST] = "list",
		[CACHE_RECORDS] = "records",
		[CACHE_ENDPOINTS] = "endpoints",
		[CACHE_TARGETS] = "targets",
		[CACHE_STAT] = "stat",
		[CACHE_NODE] = "node",
		[CACHE_NODE_LIST] = "nodes",
		[CACHE_FIND] = "find" };
	struct cache_filter filter = { .text = false };
	char unlike[CACHE_ETAG_BYTES] = "";
	struct cache_query query = { .path = words[1],
		.filter = &filter,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
	size_t kind = 0;
	while (kind < ARRAY_LEN(kinds) && strcmp(kinds[kind], words[0]) != 0) {
		kind++;
	}
	if (kind == ARRAY_LEN(kinds) || !words[1]) {
		scenario_fail("KIND PATH: no such kind: %s", words[0]);
	}
	query.kind = (enum cache_answer_kind)kind;
	for (words += 2; *words && strcmp(*words, "->") != 0; words++) {
		const char *value;
		if (strcmp(*words, "refresh") == 0) {
			query.refresh = true;
		} else if (strcmp(*words, "joins") == 0) {
			query.joins = true;
		} else if (strcmp(*words, "text") == 0) {
			filter.text = true;
		} else if (strcmp(*words, "outside") == 0) {
			filter.outside = true;
		} else if ((value = scenario_value(*words, "max_age"))) {
			query.max_age_ms = scenario_ms(value);
		} else if ((value = scenario_value(*words, "unlike"))) {
			const struct question *other = question(stage, value);
			snprintf(unlike, sizeof(unlike), "%.20s",
				other ? other->outcome.etag : value);
		} else if (!set_filter(&filter, *words)) {
			scenario_fail("no such option: %s", *words);
		}
	}
	if (query.kind != CACHE_ENDPOINTS && cache_filter_same(&filter, NULL)) {
		query.filter = NULL;
	}
	asked->verdict = cache_stage_ask_query(&stage->cache, &asked->outcome, &query, unlike);
	return *words ? words + 1 : words;
}

static struct question *new_question(struct stage *stage, const char *name)
{
	struct question *asked = question(stage, name);
	if (asked) {
		cache_cancel(&asked->outcome.wait);
	} else {
		asked = calloc(1, sizeof(*asked));
		cr_assert_not_null(asked);
		snprintf(asked->name, sizeof(asked->name), "%s", name);
		asked->next = stage->questions;
		stage->questions = asked;
	}
	return asked;
}

/* Asks, and goes on at once. */
static void ask(void *context, char **words)
{
	struct question *asked = new_question(context, words[0]);
	check(context, asked, ask_words(context, asked, words + 1));
}

/* Asks, and waits for the answer. */
static void look(void *context, char **words)
{
	struct stage *stage = context;
	struct question *asked = new_question(stage, "look");
	words = ask_words(stage, asked, words);
	if (asked->verdict == CACHE_WAITING) {
		for (int i = 0; i < 100 && asked->outcome.calls == 0; i++) {
			cache_stage_turn(&stage->cache);
		}
		if (asked->outcome.calls != 1) {
			scenario_fail("%d answers", asked->outcome.calls);
		}
	}
	check(stage, asked, words);
}

static void check_again(void *context, char **words)
{
	check(context, the_question(context, words[0]), words + 1);
}

static void cancel(void *context, char **words)
{
	cache_cancel(&the_question(context, words[0])->outcome.wait);
}

/* The answer without waiting, as cache_find() and cache_known() have it. */
static void check_known(struct stage *stage, char **words, bool found)
{
	struct question now = { .verdict = CACHE_READY, .outcome.stage = &stage->cache };
	const struct cache_filter any = { .text = false };
	struct cache_query query = { .path = words[1],
		.kind = strcmp(words[0], "resolve") == 0     ? CACHE_RESOLVE
			: strcmp(words[0], "list") == 0      ? CACHE_LIST
			: strcmp(words[0], "endpoints") == 0 ? CACHE_ENDPOINTS
			: strcmp(words[0], "find") == 0      ? CACHE_FIND
							     : CACHE_RECORDS,
		.filter = strcmp(words[0], "endpoints") == 0 ? &any : NULL,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
	words += 2;
	const char *value = *words ? scenario_value(*words, "max_age") : NULL;
	if (value) {
		query.max_age_ms = scenario_ms(value);
		words++;
	}
	const struct cache_answer *answer = found
		? cache_find(stage->cache.cache, &query)
		: cache_known(stage->cache.cache, &query, query.now_ms);
	words += *words && strcmp(*words, "->") == 0;
	if (*words && strcmp(*words, "nothing") == 0) {
		if (answer) {
			scenario_fail("there is an answer: %s", answer->body);
		}
		return;
	}
	if (!answer) {
		scenario_fail("there is no answer");
	}
	now.outcome.code = answer->err ? answer->err->code : 0;
	now.outcome.live = answer->live;
	now.outcome.confirmed = cache_answer_confirmed(
		stage->cache.cache, answer, -1, query.now_ms);
	now.outcome.age_ms = cache_answer_age_ms(stage->cache.cache, answer, query.now_ms);
	snprintf(now.outcome.text, sizeof(now.outcome.text), "%s", answer->body);
	check(stage, &now, words);
}

static void hit(void *context, char **words)
{
	check_known(context, words, true);
}

static void known(void *context, char **words)
{
	check_known(context, words, false);
}

/* ---- the confirmation of everything ---- */

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	struct question *asked = context;
	cr_assert_null(answer);
	asked->outcome.calls++;
	asked->outcome.code = err->code;
}

static void confirm(void *context, char **words)
{
	struct stage *stage = context;
	struct question *asked = new_question(stage, words[0]);
	asked->outcome = (struct cache_outcome){ .stage = &stage->cache,
		.wait = { .on_answer = on_confirmed, .context = asked } };
	bool waits = strcmp(words[0], "-") != 0; /* a question without patience */
	asked->verdict = cache_confirm(
		stage->cache.cache, clock_monotonic_ms(), waits ? &asked->outcome.wait : NULL);
	check(stage, asked, words + 1 + (words[1] != NULL));
}

/* ---- observers ---- */

static void note(struct watcher *watcher, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void note(struct watcher *watcher, const char *format, ...)
{
	size_t len = strlen(watcher->log);
	va_list args;
	if (len > 0 && len + 1 < LOG_BYTES) {
		strcpy(watcher->log + len++, " ");
	}
	va_start(args, format);
	vsnprintf(watcher->log + len, LOG_BYTES - len, format, args);
	va_end(args);
}

static void on_ready(void *context)
{
	note(context, "ready");
}

static void on_event(void *context, enum cache_event event, const char *path, const char *text)
{
	static const char *const words[] = { "+", "-", "stale", "fresh" };
	(void)text;
	note(context, "%s%s", words[event], path ? path : "");
}

static void on_refused(void *context, const struct err *err)
{
	note(context, "refused %s: %s", berth_error_name(err->code), err->msg);
}

static struct watcher *watcher(struct stage *stage, const char *name)
{
	for (struct watcher *at = stage->watchers; at; at = at->next) {
		if (strcmp(at->name, name) == 0) {
			return at;
		}
	}
	return NULL;
}

static struct watcher *the_watcher(struct stage *stage, const char *name)
{
	struct watcher *found = watcher(stage, name);
	if (!found) {
		scenario_fail("nobody observes as %s", name);
	}
	return found;
}

static void observe(void *context, char **words)
{
	static const char *const scopes[] = {
		[CACHE_SELF] = "self", [CACHE_CHILDREN_TOO] = "children", [CACHE_TREE] = "tree"
	};
	struct stage *stage = context;
	struct watcher *own = watcher(stage, words[0]);
	size_t scope = 0;
	while (scope < ARRAY_LEN(scopes) && strcmp(scopes[scope], words[1]) != 0) {
		scope++;
	}
	if (scope == ARRAY_LEN(scopes) || (own && own->observer.node)) {
		scenario_fail("NAME self|children|tree PATH, each name once");
	}
	if (!own) {
		own = calloc(1, sizeof(*own));
		cr_assert_not_null(own);
		snprintf(own->name, sizeof(own->name), "%s", words[0]);
		own->next = stage->watchers;
		stage->watchers = own;
	}
	bool patient = words[3] && strcmp(words[3], "patient") == 0;
	own->log[0] = '\0';
	own->observer = (struct cache_observer){ .scope = (enum cache_scope)scope,
		.on_ready = on_ready,
		.on_event = on_event,
		.on_refused = patient ? NULL : on_refused,
		.context = own };
	cache_observe(stage->cache.cache, words[2], &own->observer);
	cache_stage_turn(&stage->cache);
}

static void leave(void *context, char **words)
{
	cache_unobserve(&the_watcher(context, words[0])->observer);
}

/* All that it has heard since the last time. */
static void hears(void *context, char **words)
{
	struct watcher *own = the_watcher(context, words[0]);
	if (strcmp(own->log, words[1] ? words[1] : "") != 0) {
		scenario_fail("it has heard: %s", own->log);
	}
	own->log[0] = '\0';
}

static void visit(void *context, const struct cache_record *record)
{
	struct question *seen = context;
	size_t len = strlen(seen->outcome.text);
	cr_assert_eq(record->len, record->data ? strlen(record->data) : 0);
	snprintf(seen->outcome.text + len, sizeof(seen->outcome.text) - len, "%s%s%s",
		len > 0 ? " " : "", record->path, record->data ? "" : "-");
}

/* Its paths, those without a record with a - behind them; and the words for an answer. */
static void picture(void *context, char **words)
{
	struct question now = { .verdict = CACHE_READY, .outcome.live = true };
	struct cache_picture seen = cache_read_picture(
		&the_watcher(context, words[0])->observer, clock_monotonic_ms(), visit, &now);
	now.outcome.confirmed = seen.confirmed;
	now.outcome.age_ms = seen.age_ms;
	check(context, &now, words + 1 + (words[1] != NULL));
}

static void snapshot(void *context, char **words)
{
	struct question now = { .verdict = CACHE_READY, .outcome.live = true };
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	cache_write_snapshot(&the_watcher(context, words[0])->observer, &text);
	snprintf(now.outcome.text, sizeof(now.outcome.text), "%s", buffer_text(&text));
	buffer_finish(&text);
	check(context, &now, words + 1 + (words[1] != NULL));
}

/* Its registry is one that is configured no more. */
static void refuse(void *context, char **words)
{
	struct stage *stage = context;
	struct err err = ERR_INIT;
	err_set(&err, scenario_code(words[0]), "no registry");
	cache_refuse_all(stage->cache.cache, &err);
}

/* ---- figures ---- */

static void figures(void *context, char **words)
{
	struct stage *stage = context;
	struct cache_stats stats;
	cache_get_stats(stage->cache.cache, &stats);
	int64_t most_tasks = (int64_t)memory_most_tasks(stage->cache.registry);
	for (; *words; words++) {
		if (!scenario_compares(*words, "paths", (int64_t)stats.paths) &&
			!scenario_compares(*words, "entries", (int64_t)stats.entries) &&
			!scenario_compares(*words, "bytes", (int64_t)stats.bytes) &&
			!scenario_compares(*words, "loads", (int64_t)stats.loads) &&
			!scenario_compares(*words, "evictions", (int64_t)stats.evictions) &&
			!scenario_compares(*words, "refusals", (int64_t)stats.refusals) &&
			!scenario_compares(*words, "searches", (int64_t)stats.searches) &&
			!scenario_compares(
				*words, "watches", (int64_t)watch_count(stage->cache.registry)) &&
			!scenario_compares(*words, "at_once", most_tasks) &&
			!scenario_compares(*words, "reads", (int64_t)stage->script.tasks)) {
			scenario_fail("no such figure: %s", *words);
		}
	}
	stage->script.tasks = 0;
}

/* changed, same: since the last such question. */
static void generation(void *context, char **words)
{
	struct stage *stage = context;
	uint64_t now = cache_generation(stage->cache.cache);
	bool changed = now != stage->generation;
	stage->generation = now;
	if (words[0] && changed != (strcmp(words[0], "changed") == 0)) {
		scenario_fail("it is not %s", words[0]);
	}
}

/* ---- the stage ---- */

/* The agent ends, and its successor begins with what it saved. */
static void restart(void *context, char **words)
{
	struct stage *stage = context;
	char folder[SCRATCH_PATH];
	char file[SCRATCH_PATH + 16];
	struct err err = ERR_INIT;
	(void)words;
	for (struct watcher *at = stage->watchers; at; at = at->next) {
		cache_unobserve(&at->observer);
	}
	scratch_folder(folder);
	cr_assert_eq(save_cache(stage->cache.cache, folder, &err), 0, "%s", err.msg);
	cache_destroy(stage->cache.cache);
	stage->cache.cache = cache_create(
		stage->cache.loop, stage->cache.registry, &stage->options);
	cache_on_registry_state(stage->cache.cache, registry_state(stage->cache.registry));
	cache_load(stage->cache.cache, folder, NULL);
	snprintf(file, sizeof(file), "%s/cache", folder);
	unlink(file);
	rmdir(folder);
}

static void release_rendering(void *rendering)
{
	(void)rendering;
}

static void *begin(void)
{
	static struct stage stage;
	stage = (struct stage){ .options = { .resync_ms = 600000,
					.max_size_bytes = MAX_SIZE,
					.release_rendering = release_rendering } };
	stage.options.warm = stage.warm;
	clock_shift_ms = 0;
	cache_stage_open(&stage.cache, &stage.options);
	registry_script_begin(&stage.script, stage.cache.registry);
	return &stage;
}

static void end(void *context)
{
	struct stage *stage = context;
	registry_script_end(&stage->script);
	for (struct question *at = stage->questions, *next; at; at = next) {
		next = at->next;
		cache_cancel(&at->outcome.wait);
		free(at);
	}
	for (struct watcher *at = stage->watchers, *next; at; at = next) {
		next = at->next;
		cache_unobserve(&at->observer);
		free(at);
	}
	cache_stage_close(&stage->cache);
	for (size_t i = 0; i < stage->options.warm_count; i++) {
		free(stage->warm[i]);
	}
}

#define OUTCOME "[-> OK|ERROR ready|waiting|unavailable|answered live|stale text= has= …]"
#define QUESTION "KIND PATH [refresh] [unlike=NAME] [api= protocol= scope= near= …] [text] "

static const struct scenario_command commands[] = {
	REGISTRY_SCRIPT_COMMANDS,
	{ "turn", 0, 1, turn, "[COUNT]" },
	{ "dispatch", 0, 0, dispatch, "" },
	{ "loop", 0, 0, loop, "" },
	{ "away", 0, 0, away, "" },
	{ "lost", 0, 0, lost, "" },
	{ "connecting", 0, 0, connecting, "" },
	{ "connect", 0, 0, connect_again, "" },
	{ "later", 1, 1, later, "TIME" },
	{ "pass", 1, 1, pass, "TIME" },
	{ "heard", 1, 1, heard, "TIME|now|never" },
	{ "answer_late", 0, 0, answer_late, "" },
	{ "set", 1, 9, set, "max_size= confirm= max_stale= session= warm=" },
	{ "ask", 3, 30, ask, "NAME " QUESTION OUTCOME },
	{ "look", 2, 30, look, QUESTION OUTCOME },
	{ "is", 2, 30, check_again, "NAME …" },
	{ "cancel", 1, 1, cancel, "NAME" },
	{ "hit", 2, 30, hit, "KIND PATH [max_age=] -> nothing|…" },
	{ "known", 2, 30, known, "KIND PATH -> nothing|…" },
	{ "confirm", 1, 30, confirm, "NAME|- " OUTCOME },
	{ "observe", 3, 4, observe, "NAME self|children|tree PATH [patient]" },
	{ "hears", 1, 2, hears, "NAME ['ready +PATH -PATH stale fresh']" },
	{ "leave", 1, 1, leave, "NAME" },
	{ "picture", 1, 30, picture, "NAME -> text= confirmed age>=" },
	{ "snapshot", 1, 30, snapshot, "NAME -> text=" },
	{ "figures", 0, 9, figures, "paths= entries= bytes= loads= evictions= watches= reads= …" },
	{ "refuse", 1, 1, refuse, "ERROR" },
	{ "generation", 0, 1, generation, "[changed|same]" },
	{ "restart", 0, 0, restart, "" },
};

static const struct scenario_stage stage = { "cache", begin, end, commands, ARRAY_LEN(commands) };

SCENARIOS(cache, &stage)
