/* Nodes and lists of the registry, which an agent in a container reads and watches. */
#include "agent/api/follow.h"

#include <inttypes.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/path.h"

enum {
	MOST_CONFIRMS = 16,
	WATCHED_BYTES = 2300 /* what the cache needs for a watched node, besides its content */
};

/*
 * ASKED --answer--> (freed), or WATCHED --another answer--> (freed, CHANGED)
 */
struct follow_read {
	struct follow *follow;
	struct list link;
	uint64_t id;
	bool list; /* of the children, else the node itself */
	bool watch;
	bool answered;
	size_t bytes; /* of the cache, that it holds as long as it is watched */
	struct cache_wait wait;
	char path[];
};

struct follow_confirm {
	struct follow *follow;
	struct list link;
	uint64_t id;
	struct cache_wait wait;
};

/* ---- reads ---- */

struct read_key {
	const char *path;
	bool list;
};

static int compare_key(const void *a, const void *b)
{
	const struct read_key *key = a;
	const struct follow_read *read = b;
	return key->list != read->list ? (key->list ? 1 : -1) : strcmp(key->path, read->path);
}

static int compare_reads(const void *a, const void *b)
{
	const struct follow_read *read = a;
	const struct read_key key = { .path = read->path, .list = read->list };
	return compare_key(&key, b);
}

static void free_read(struct follow_read *read)
{
	struct follow *follow = read->follow;
	if (read->watch) {
		tdelete(read, &follow->watched, compare_reads);
	}
	cache_cancel(&read->wait);
	list_remove(&read->link);
	follow->read_count--;
	follow->bytes -= read->bytes;
	follow->api->follow_bytes -= read->bytes;
	free(read);
}

static void send_changed(struct follow_read *read)
{
	struct buffer json = follow_begin(read->follow, "CHANGED");
	buffer_printf(
		&json, ",\"path\":\"%s\",\"list\":%s", read->path, read->list ? "true" : "false");
	follow_end(read->follow, &json);
	free_read(read);
}

static void fail_read(struct follow_read *read, const struct err *err)
{
	struct buffer json = follow_begin(read->follow, "READ");
	follow_append_error(&json, read->id, err);
	follow_end(read->follow, &json);
	free_read(read);
}

static struct cache_query query_of(const struct follow_read *read)
{
	return (struct cache_query){ .path = read->path,
		.kind = read->list ? CACHE_NODE_LIST : CACHE_NODE,
		.max_age_ms = -1,
		.now_ms = clock_monotonic_ms() };
}

static size_t bytes_of_container(const struct follow *follow)
{
	size_t bytes = 0;
	for (struct list *at = follow->api->follows.next; at != &follow->api->follows;
		at = at->next) {
		const struct follow *other = LIST_ITEM(at, struct follow, link);
		bytes += strcmp(other->container, follow->container) == 0 ? other->bytes : 0;
	}
	return bytes;
}

/*
 * The cache cannot evict a watched node. So all containers together watch as much as half of it
 * holds, and one of them three times as much as it leaves for the others.
 */
static int reserve(struct follow_read *read, const struct cache_answer *answer, struct err *err)
{
	struct follow *follow = read->follow;
	struct cache_stats stats;
	cache_get_stats(follow->api->cache, &stats);
	size_t bytes = WATCHED_BYTES + 4 * strlen(read->path) + 2 * answer->len;
	size_t all = follow->api->follow_bytes + bytes;
	size_t most = stats.max_bytes / 2;
	if (all > most || bytes_of_container(follow) + bytes > 3 * (most - all)) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"the cache of the host's agent has no room for more paths that containers "
			"follow; `max_size` in its [cache] may be larger");
	}
	read->bytes = bytes;
	follow->bytes += bytes;
	follow->api->follow_bytes += bytes;
	return 0;
}

/* From the answer that the client gets now. */
static void watch(struct follow_read *read, const char *etag)
{
	const struct cache_query query = query_of(read);
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	read->answered = true;
	strcpy(read->wait.unlike, etag);
	if (cache_ask(read->follow->api->cache, &query, &read->wait, &answer, &err) !=
		CACHE_WAITING) {
		send_changed(read);
	}
}

static void answer_read(struct follow_read *read, const struct cache_answer *answer)
{
	struct err err = ERR_INIT;
	bool absent = answer->err && answer->err->code == BERTH_PATH_NOT_FOUND;
	if (!answer->live) {
		err_set(&err, BERTH_REGISTRY_UNAVAILABLE,
			"the host's agent cannot reach its registry");
		fail_read(read, &err);
		return;
	}
	if (answer->err && !absent) {
		fail_read(read, answer->err);
		return;
	}
	if (read->watch && reserve(read, answer, &err)) {
		fail_read(read, &err);
		return;
	}
	struct buffer json = follow_begin(read->follow, "READ");
	buffer_printf(&json, ",\"id\":%" PRIu64 ",\"node\":", read->id);
	buffer_append(&json, absent ? "null" : answer->body, absent ? 4 : answer->len);
	follow_end(read->follow, &json);
	if (read->watch) {
		watch(read, answer->etag);
	} else {
		free_read(read);
	}
}

static void ask(struct follow_read *read)
{
	struct follow *follow = read->follow;
	const struct cache_query query = query_of(read);
	struct cache_answer *answer;
	struct err err = ERR_INIT;
	list_remove(&read->link);
	if (!follow_has_room(follow)) {
		list_append(&follow->put_off, &read->link);
		return;
	}
	list_append(&follow->reads, &read->link);
	switch (cache_ask(follow->api->cache, &query, &read->wait, &answer, &err)) {
	case CACHE_READY:
		answer_read(read, answer);
		break;
	case CACHE_UNAVAILABLE:
		fail_read(read, &err);
		break;
	case CACHE_WAITING:
		break;
	}
}

static void on_answer(void *context, struct cache_answer *answer, const struct err *err)
{
	struct follow_read *read = context;
	if (read->answered) {
		send_changed(read);
	} else if (!answer) {
		fail_read(read, err);
	} else if (!follow_has_room(read->follow)) {
		list_remove(&read->link);
		list_append(&read->follow->put_off, &read->link);
	} else {
		answer_read(read, answer);
	}
}

static void drop(struct follow *follow, const char *path, bool list)
{
	const struct read_key key = { .path = path, .list = list };
	struct follow_read **found = tfind(&key, &follow->watched, compare_key);
	if (found) {
		free_read(*found);
	}
}

static void begin_read(struct follow *follow, uint64_t id, const char *path, bool list, bool watch)
{
	size_t bytes = strlen(path) + 1;
	struct err err = ERR_INIT;
	if (watch) {
		drop(follow, path, list); /* one watch of a kind is enough */
	}
	struct follow_read *read = allocate_zeroed(1, sizeof(*read) + bytes);
	memcpy(read->path, path, bytes);
	read->follow = follow;
	read->id = id;
	read->list = list;
	read->wait.on_answer = on_answer;
	read->wait.context = read;
	list_append(&follow->reads, &read->link);
	follow->read_count++;
	if (path_check(path, strlen(path), &err)) {
		fail_read(read, &err);
	} else if (follow->read_count > API_FOLLOW_READS) {
		err_set(&err, BERTH_LIMIT_EXCEEDED, "a container follows %d paths at most",
			API_FOLLOW_READS);
		fail_read(read, &err);
	} else {
		read->watch = watch && allocated(tsearch(read, &follow->watched, compare_reads));
		ask(read);
	}
}

/* ---- confirmations ---- */

/* The changes that are known already, but wait for the end of the loop's turn. */
static void send_changes(struct follow *follow)
{
	struct list *next;
	for (struct list *at = follow->reads.next; at != &follow->reads; at = next) {
		struct follow_read *read = LIST_ITEM(at, struct follow_read, link);
		next = at->next;
		if (read->answered) {
			const struct cache_query query = query_of(read);
			const struct cache_answer *answer = cache_find(follow->api->cache, &query);
			if (!answer || strcmp(answer->etag, read->wait.unlike) != 0) {
				send_changed(read);
			}
		}
	}
}

/* Without `heard_ms` nothing was confirmed. */
static void answer_confirm(struct follow *follow, uint64_t id, bool confirmed)
{
	if (confirmed) {
		send_changes(follow);
	}
	struct buffer json = follow_begin(follow, "CONFIRMED");
	buffer_printf(&json, ",\"id\":%" PRIu64, id);
	if (confirmed) {
		follow_append_heard(follow, &json);
	}
	follow_end(follow, &json);
}

static void free_confirm(struct follow_confirm *confirm)
{
	cache_cancel(&confirm->wait);
	list_remove(&confirm->link);
	free(confirm);
}

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	struct follow_confirm *confirm = context;
	(void)answer;
	answer_confirm(confirm->follow, confirm->id, err->code == 0);
	free_confirm(confirm);
}

static void begin_confirm(struct follow *follow, uint64_t id, int64_t max_age_ms)
{
	if (list_count(&follow->confirms) >= MOST_CONFIRMS) {
		answer_confirm(follow, id, false);
		return;
	}
	struct follow_confirm *confirm = allocate_zeroed(1, sizeof(*confirm));
	confirm->follow = follow;
	confirm->id = id;
	confirm->wait.on_answer = on_confirmed;
	confirm->wait.context = confirm;
	list_append(&follow->confirms, &confirm->link);
	enum cache_verdict verdict = cache_confirm_within(
		follow->api->cache, max_age_ms, clock_monotonic_ms(), &confirm->wait);
	if (verdict != CACHE_WAITING) {
		answer_confirm(follow, id, verdict == CACHE_READY);
		free_confirm(confirm);
	}
}

/* ---- questions ---- */

void follow_take_read(struct follow *follow, const json_t *item)
{
	const char *path = json_string_value(json_object_get(item, "path"));
	if (path) {
		begin_read(follow, (uint64_t)json_integer_value(json_object_get(item, "id")), path,
			json_is_true(json_object_get(item, "list")),
			json_is_true(json_object_get(item, "watch")));
	}
}

void follow_drop_read(struct follow *follow, const json_t *item)
{
	const char *path = json_string_value(json_object_get(item, "path"));
	if (path) {
		drop(follow, path, json_is_true(json_object_get(item, "list")));
	}
}

void follow_take_confirm(struct follow *follow, const json_t *item)
{
	json_int_t max_age_ms = json_integer_value(json_object_get(item, "max_age_ms"));
	begin_confirm(follow, (uint64_t)json_integer_value(json_object_get(item, "id")),
		max_age_ms > 0 ? max_age_ms : 0);
}

/* They are asked anew, since what was known then may be old. */
void follow_reads_go_on(struct follow *follow)
{
	while (!list_empty(&follow->put_off) && follow_has_room(follow)) {
		ask(LIST_ITEM(follow->put_off.next, struct follow_read, link));
	}
}

void follow_reads_finish(struct follow *follow)
{
	while (!list_empty(&follow->reads)) {
		free_read(LIST_ITEM(follow->reads.next, struct follow_read, link));
	}
	while (!list_empty(&follow->put_off)) {
		free_read(LIST_ITEM(follow->put_off.next, struct follow_read, link));
	}
	while (!list_empty(&follow->confirms)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
		free_confirm(LIST_ITEM(follow->confirms.next, struct follow_confirm, link));
	}
}
