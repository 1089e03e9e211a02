/*
 * The cache, fed by a scripted registry. After any events in any order, when all is quiet, a
 * confirmed answer equals the registry's node, observers that replayed their events have the
 * registry's tree, and the cache is within its limit.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/path.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/watch_count.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { PATHS = 7, VALUES = 4, SLOTS = 4, ABSENT = -1, MAX_BYTES = 64 * 1024 };

static const char *const paths[PATHS] = { "/a", "/a/b", "/a/b/d", "/a/b/e", "/a/c", "/a/c/x",
	"/f" };
static const char *const values[VALUES] = { "{\"type\":\"JSONServiceRecord\",\"x\":1}",
	"{\"type\":\"JSONServiceRecord\",\n\"y\":\"\xc2\x9b\"}", "", "host:1" };
/* As events and snapshots show them. */
static const char *const lines[VALUES] = { "{\"type\":\"JSONServiceRecord\",\"x\":1}",
	"{\"type\":\"JSONServiceRecord\",\"y\":\"\\u009b\"}", "null", "null" };

struct follower {
	struct cache_observer observer;
	bool used;
	const char *seen[PATHS]; /* a line, or NULL: no node */
};

struct script {
	struct cache_stage stage;
	int model[PATHS];
	struct cache_outcome outcomes[SLOTS];
	bool waiting[SLOTS];
	struct follower followers[SLOTS];
	struct cache_wait confirmation;
	bool confirming;
	bool connected;
	bool answering;
	int failures; /* reads that time out from now on */
};

/* ---- the registry ---- */

static int parent_of(int path)
{
	for (int i = 0; i < PATHS; i++) {
		size_t len = path_parent_len(paths[path]);
		if (strlen(paths[i]) == len && memcmp(paths[i], paths[path], len) == 0) {
			return i;
		}
	}
	return -1;
}

static void put(struct script *script, int path, int value)
{
	int parent = parent_of(path);
	if (parent < 0 || script->model[parent] != ABSENT) {
		memory_put(script->stage.registry, paths[path], values[value]);
		script->model[path] = value;
	}
}

static void remove_tree(struct script *script, int path)
{
	memory_remove(script->stage.registry, paths[path]);
	for (int i = 0; i < PATHS; i++) {
		if (path_is_under(paths[i], paths[path])) {
			script->model[i] = ABSENT;
		}
	}
}

static void interfere(void *context, const struct registry_task *task, struct err *err)
{
	struct script *script = context;
	(void)task;
	if (script->failures > 0) {
		script->failures--;
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

/* ---- followers ---- */

static int index_of(const char *path)
{
	for (int i = 0; i < PATHS; i++) {
		if (strcmp(paths[i], path) == 0) {
			return i;
		}
	}
	return -1;
}

static const char *line_of(const char *line)
{
	for (int i = 0; i < VALUES; i++) {
		if (strcmp(lines[i], line) == 0) {
			return lines[i];
		}
	}
	abort(); /* no client wrote this */
}

/* A picture shows records as clients wrote them. */
static const char *line_of_value(const char *value)
{
	for (int i = 0; value && i < VALUES; i++) {
		if (strcmp(values[i], value) == 0) {
			return lines[i];
		}
	}
	return line_of(value ? value : "null");
}

static void visit(void *context, const struct cache_record *record)
{
	struct follower *follower = context;
	int path = index_of(record->path);
	if (path >= 0) {
		assert(!follower->seen[path]);
		follower->seen[path] = line_of_value(record->data);
	}
}

static void on_ready(void *context)
{
	struct follower *follower = context;
	struct buffer snapshot;
	buffer_init(&snapshot, SIZE_MAX);
	cache_write_snapshot(&follower->observer, &snapshot);
	buffer_finish(&snapshot);
	memset(follower->seen, 0, sizeof(follower->seen));
	cache_read_picture(&follower->observer, clock_monotonic_ms(), visit, follower);
}

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	struct follower *follower = context;
	int index = path ? index_of(path) : -1;
	if (index >= 0) {
		follower->seen[index] = event == CACHE_UPDATED ? line_of(record) : NULL;
	}
}

static void on_refused(void *context, const struct err *err)
{
	struct follower *follower = context;
	assert(err->code);
	follower->used = false;
}

static bool covers(const struct cache_observer *observer, const char *path)
{
	const char *top = cache_observed_path(observer);
	size_t below = path_depth(path) - path_depth(top);
	return path_is_under(path, top) &&
		(below == 0 || observer->scope == CACHE_TREE ||
			(observer->scope == CACHE_CHILDREN_TOO && below == 1));
}

/* ---- what must hold ---- */

static void check_follower(const struct script *script, struct follower *follower)
{
	if (!follower->used || follower->observer.state != CACHE_OBSERVER_LIVE) {
		return;
	}
	for (int i = 0; i < PATHS; i++) {
		if (covers(&follower->observer, paths[i])) {
			int value = script->model[i];
			assert(follower->seen[i] == (value == ABSENT ? NULL : lines[value]) ||
				(follower->seen[i] && value != ABSENT &&
					strcmp(follower->seen[i], lines[value]) == 0));
		}
	}
}

static void check_answer(struct script *script, int path)
{
	const struct cache_answer *answer = cache_stage_find(&script->stage, paths[path]);
	if (!answer) {
		return;
	}
	int value = script->model[path];
	if (value == ABSENT) {
		assert(answer->err && answer->err->code == BERTH_PATH_NOT_FOUND);
	} else if (strcmp(lines[value], "null") == 0) {
		assert(answer->err && answer->err->code == BERTH_NO_RECORD);
	} else {
		assert(!answer->err && strncmp(answer->body, values[value], 27) == 0);
	}
}

static void be_quiet(struct script *script)
{
	cache_stage_turn(&script->stage);
	if (!script->connected || !script->answering) {
		return;
	}
	memory_set_heard_ms(script->stage.registry, INT64_MAX);
	script->failures = 0; /* and the reads that failed are tried again in time */
	/* Each path's next read may have a time of its own. */
	for (int i = 0; i < 4 * PATHS; i++) {
		int64_t deadline_ms = registry_deadline_ms(script->stage.registry);
		if (deadline_ms == INT64_MAX) {
			break;
		}
		if (deadline_ms > script->stage.now_ms) {
			script->stage.now_ms = deadline_ms;
		}
		cache_stage_turn(&script->stage);
	}
	for (int i = 0; i < PATHS; i++) {
		check_answer(script, i);
	}
	for (int i = 0; i < SLOTS; i++) {
		check_follower(script, &script->followers[i]);
	}
	struct cache_stats stats;
	cache_get_stats(script->stage.cache, &stats);
	assert(stats.bytes <= 2 * MAX_BYTES &&
		watch_count(script->stage.registry) <= stats.entries);
}

/* ---- the script ---- */

static void stop_waiting(struct script *script, int slot)
{
	(void)cache_is_confirming(&script->outcomes[slot].wait);
	cache_cancel(&script->outcomes[slot].wait);
	script->waiting[slot] = false;
}

static void ask(struct script *script, int slot, unsigned what, bool refresh)
{
	static const enum cache_answer_kind kinds[] = { CACHE_RESOLVE, CACHE_LIST, CACHE_RECORDS,
		CACHE_ENDPOINTS, CACHE_STAT, CACHE_FIND, CACHE_TARGETS };
	char etag[CACHE_ETAG_BYTES];
	strcpy(etag, script->outcomes[slot].etag);
	stop_waiting(script, slot);
	const char *unlike = what & 64 ? etag : "";
	script->waiting[slot] = cache_stage_ask(&script->stage, &script->outcomes[slot],
					paths[what % PATHS], kinds[(what / PATHS) % 7], unlike,
					refresh) == CACHE_WAITING;
}

static void stop_following(struct script *script, int slot)
{
	if (script->followers[slot].used) {
		cache_unobserve(&script->followers[slot].observer);
		script->followers[slot].used = false;
	}
}

static void follow(struct script *script, int slot, unsigned what)
{
	struct follower *follower = &script->followers[slot];
	stop_following(script, slot);
	*follower = (struct follower){ .used = true,
		.observer = { .scope = (enum cache_scope)(what / PATHS % 3),
			.on_ready = on_ready,
			.on_event = on_event,
			.on_refused = on_refused,
			.context = follower } };
	cache_observe(script->stage.cache, paths[what % PATHS], &follower->observer);
}

static void set_state(struct script *script, unsigned what)
{
	static const enum registry_state states[] = { REGISTRY_CONNECTED, REGISTRY_AWAY,
		REGISTRY_LOST };
	memory_set_state(script->stage.registry, states[what % 3]);
	script->connected = what % 3 == 0;
}

/* Two look-ups that do not wait. */
static void look(struct script *script, unsigned what, bool refresh)
{
	static const int64_t ages_ms[] = { -1, 0, 1, 60000 };
	int64_t now_ms = clock_monotonic_ms();
	const struct cache_query query = { .path = paths[what % PATHS],
		.kind = what & 64 ? CACHE_LIST : CACHE_RESOLVE,
		.refresh = refresh,
		.max_age_ms = ages_ms[what / PATHS % 4],
		.now_ms = now_ms };
	const struct cache_answer *found = cache_find(script->stage.cache, &query);
	assert(!found || found->live);
	const struct cache_answer *known = cache_known(script->stage.cache, &query, now_ms);
	assert(!known || cache_answer_age_ms(script->stage.cache, known, now_ms) >= 0);
}

static void set_options(struct script *script, unsigned what)
{
	char *warm[] = { (char[]){ "/a" }, (char[]){ "/a/**" }, (char[]){ "/**" } };
	const struct cache_options options = { .max_size_bytes = MAX_BYTES,
		.resync_ms = 600000,
		.confirm_ms = what & 1 ? 1 : 0,
		.max_stale_ms = what & 2 ? 10000 : 0,
		.warm = warm,
		.warm_count = what / 4 % 4 };
	cache_set_options(script->stage.cache, &options);
}

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	struct script *script = context;
	assert(script->confirming && !answer);
	assert(!err->code || err->code == BERTH_REGISTRY_UNAVAILABLE);
	script->confirming = false;
}

static void stop_confirming(struct script *script)
{
	if (script->confirming) {
		cache_cancel(&script->confirmation);
		script->confirming = false;
	}
}

static void confirm(struct script *script, bool waits)
{
	stop_confirming(script);
	script->confirmation = (struct cache_wait){ .on_answer = on_confirmed, .context = script };
	enum cache_verdict verdict = cache_confirm(
		script->stage.cache, clock_monotonic_ms(), waits ? &script->confirmation : NULL);
	assert(waits || verdict != CACHE_WAITING);
	script->confirming = verdict == CACHE_WAITING;
}

static void set_heard(struct script *script, unsigned what)
{
	static const int64_t ago_ms[] = { 0, 10, 20000 };
	memory_set_heard_ms(script->stage.registry,
		what % 4 == 3 ? INT64_MAX : clock_monotonic_ms() - ago_ms[what % 4]);
}

static void step(struct script *script, unsigned what, unsigned more)
{
	int slot = (int)(more % SLOTS);
	switch (what % 32 < 16 ? what % 16 : what % 12) {
	case 0:
		put(script, (int)(more % PATHS), (int)(more / PATHS % VALUES));
		break;
	case 1:
		remove_tree(script, (int)(more % PATHS));
		break;
	case 2:
	case 3:
		be_quiet(script);
		break;
	case 4:
	case 5:
		ask(script, slot, more / SLOTS, what & 16);
		break;
	case 6:
		stop_waiting(script, slot);
		break;
	case 7:
		follow(script, slot, more / SLOTS);
		break;
	case 8:
		stop_following(script, slot);
		break;
	case 9:
		set_state(script, more);
		break;
	case 10:
		script->answering = more & 1;
		memory_set_answering(script->stage.registry, script->answering);
		break;
	case 12:
		look(script, more, what & 64);
		break;
	case 13:
		set_options(script, more);
		break;
	case 14:
		confirm(script, more & 1);
		break;
	case 15:
		set_heard(script, more);
		break;
	default:
		script->failures = (int)(more % 4);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct script *script = calloc(1, sizeof(*script));
	script->connected = true;
	script->answering = true;
	for (int i = 0; i < PATHS; i++) {
		script->model[i] = ABSENT;
	}
	cache_stage_open(&script->stage,
		&(struct cache_options){ .resync_ms = 600000, .max_size_bytes = MAX_BYTES });
	memory_on_task(script->stage.registry, interfere, script);
	for (size_t i = 0; i + 1 < len && i < 400; i += 2) {
		step(script, data[i], data[i + 1]);
	}
	for (int i = 0; i < SLOTS; i++) {
		stop_waiting(script, i);
		stop_following(script, i);
	}
	stop_confirming(script);
	cache_stage_close(&script->stage);
	free(script);
	return 0;
}
