#include "agent/cache/snapshot.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/state_file.h"
#include "lib/base/boot.h"
#include "lib/base/clock.h"
#include "lib/base/json_text.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"

/*
 * Snapshots: the cache's content for the next start. The version and the registry's URL on a line
 * each, an object with the clocks at that time, then one JSON array a line: [path, kind, code, wall
 * clock second at which it was true, created_ms, size, value], and true behind
 * the value if the node is ephemeral, for it has no list of its own. The state file around it knows
 * its length and checksum. The lines are sorted, since no character of a path is below a quotation
 * mark; those of older programs are not, and are sorted when they are read.
 *
 * The changes that an upgrade passes on are such lines, by the clocks of the snapshot that they
 * change. Of an entry that is gone there is only what is in front of the code.
 *
 * Until the machine boots again, its monotonic clock says how long ago a snapshot was made, however
 * the wall clock was set since.
 */
enum { VERSION = 3, FILE_BYTES = 1024 * 1024 * 1024 };

static const char file_kind[] = "cache";

enum { LINE_STEPS = 32, PATH_AT = 2 /* behind [" */, KIND_BYTES = 2, EPHEMERAL_AT = 7 };

struct cache_loading {
	struct cache_store *store;
	char *text;
	char *changes;
	char **lines; /* of both, sorted; a line that is taken ends behind its path */
	size_t count;
	size_t next;
	double wall;
	int64_t now_ms;
	size_t good;
	size_t bad;
};

/* ---- clocks ---- */

static void save_clocks(double wall, int64_t now_ms, struct buffer *out)
{
	char boot[BOOT_BYTES];
	boot_read(boot);
	buffer_printf(out, "{\"boot\":\"%s\",\"wall\":%.3f,\"monotonic_ms\":%lld}\n", boot, wall,
		(long long)now_ms);
}

/* The time that the wall clock would show if nobody had set it since it was saved. */
static double unset_wall_s(const json_t *saved, int64_t now_ms)
{
	static const double most_s = 1e11; /* the file may be damaged */
	char here[BOOT_BYTES];
	const char *boot;
	double wall;
	json_int_t saved_ms;
	boot_read(here);
	bool same = *here &&
		json_unpack((json_t *)(uintptr_t)saved, "{s:s, s:F, s:I}", "boot", &boot, "wall",
			&wall, "monotonic_ms", &saved_ms) == 0 &&
		strcmp(boot, here) == 0 && wall >= 0 && wall < most_s && saved_ms >= 0 &&
		saved_ms <= now_ms;
	return same ? wall + (double)(now_ms - saved_ms) / 1e3 : clock_wall_s();
}

/* Steps over the clocks, which older snapshots lack. */
static double load_clocks(char **lines, int64_t now_ms)
{
	char *end = strchr(*lines, '\n');
	if (**lines != '{' || !end) {
		return clock_wall_s();
	}
	json_t *saved = json_loadb(*lines, (size_t)(end - *lines), 0, NULL);
	double wall = unset_wall_s(saved, now_ms);
	json_decref(saved);
	*lines = end + 1;
	return wall;
}

/* ---- saving ---- */

static json_t *value_json(const struct cache_entry *entry)
{
	if (cache_code(entry)) {
		return json_null();
	}
	if (entry->kind == CACHE_DATA) {
		return json_stringn(entry->value->data, entry->value->data_len);
	}
	json_t *list = json_array();
	for (size_t i = 0; i < cache_child_count(entry); i++) {
		json_array_append_new(list, json_string(entry->value->children[i]));
	}
	return list;
}

/* Accepts NULL. False: nothing is known, or data that are not a text, so not a record either. */
static bool save_entry(const struct cache_entry *entry, int64_t heard_ms, struct buffer *out)
{
	json_t *value = entry && entry->value ? value_json(entry) : NULL;
	if (!value) {
		return false;
	}
	const struct cache_saving *saving = &entry->store->saving;
	int64_t true_at_ms = entry->state == CACHE_LIVE ? heard_ms : entry->true_at_ms;
	double age_s = (double)(saving->now_ms - true_at_ms) / 1e3;
	double true_at = saving->wall_s > age_s ? saving->wall_s - age_s : 0;
	json_t *line = json_pack("[s, i, i, f, I, I, o]", entry->node->path, (int)entry->kind,
		cache_code(entry), true_at, (json_int_t)entry->value->stat.created_ms,
		(json_int_t)entry->value->stat.size, value);
	if (line && entry->value->stat.ephemeral) {
		json_array_append_new(line, json_true());
	}
	if (line) {
		(void)json_text_append(out, line, JSON_COMPACT);
		buffer_append_text(out, "\n");
	}
	json_decref(line);
	return line != NULL;
}

static int compare_nodes(const void *a, const void *b)
{
	const struct cache_node *const *first = a;
	const struct cache_node *const *second = b;
	return strcmp((*first)->path, (*second)->path);
}

/* In the child. */
static int make(const void *context, struct file_work *made, struct err *err)
{
	const struct cache_store *store = context;
	const struct cache_table *table = store->table;
	const struct cache_node **nodes = allocate_zeroed(
		table->node_count, sizeof(struct cache_node *));
	struct buffer out;
	size_t count = 0;
	int64_t heard_ms = cache_heard_ms(store->heard, store->saving.now_ms);
	for (const struct cache_node *node = cache_node_next(table, NULL); node;
		node = cache_node_next(table, node)) {
		nodes[count++] = node;
	}
	qsort(nodes, count, sizeof(*nodes), compare_nodes);
	buffer_init(&out, FILE_BYTES);
	buffer_printf(&out, "%d\n%s\n", VERSION, registry_url(store->registry));
	save_clocks(store->saving.wall_s, store->saving.now_ms, &out);
	for (size_t i = 0; i < count; i++) {
		for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
			save_entry(nodes[i]->entries[kind], heard_ms, &out);
		}
	}
	free(nodes);
	if (out.failed) {
		buffer_finish(&out);
		return err_set(err, BERTH_FAILED, "the cache is too large to be saved");
	}
	made->data = buffer_take(&out, &made->len);
	made->head = state_file_head(file_kind, made->data, made->len);
	return 0;
}

void cache_snapshot_save(
	struct cache_store *store, const char *directory, struct file_work *ret_work)
{
	struct cache_saving *saving = &store->saving;
	saving->wall_s = clock_wall_s();
	saving->now_ms = clock_monotonic_ms();
	saving->count++;
	saving->changed = 0;
	buffer_finish(&saving->changes);
	state_file_replace_made(ret_work, directory, store->snapshot_name, make, store);
	ret_work->passing = true; /* a copy of the registry; an upgrade waits for it */
}

char *cache_snapshot_changes(const struct cache_store *store)
{
	char *changes = allocate_text(buffer_text(&store->saving.changes));
	int64_t heard_ms = cache_heard_ms(store->heard, clock_monotonic_ms());
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	for (char *rest = changes, *at; *rest && (at = strsep(&rest, "\n")) != NULL;) {
		const char *path = at + 1;
		const struct cache_node *node = cache_node_find(store->table, path, strlen(path));
		if (!node || !save_entry(node->entries[*at - '0'], heard_ms, &out)) {
			buffer_printf(&out, "[\"%s\",%c,\n", path, *at);
		}
	}
	free(changes);
	return buffer_take(&out, NULL);
}

/* ---- loading ---- */

static bool children_valid(const json_t *value, const char *parent)
{
	size_t index;
	const json_t *item;
	size_t len = strcmp(parent, "/") == 0 ? 1 : strlen(parent);
	json_array_foreach (value, index, item) {
		const char *path = json_string_value(item);
		if (!path || path_check(path, strlen(path), NULL) || path_parent_len(path) != len ||
			memcmp(path, parent, len) != 0) {
			return false;
		}
	}
	return json_is_array(value);
}

static void restore(struct cache_store *store, const char *path, enum cache_kind kind,
	struct registry_result *result, const json_t *value, int64_t true_at_ms)
{
	struct cache_entry *entry = cache_entry_get(
		store, cache_node_get(store->table, path), kind);
	if (entry->value) {
		return; /* something newer */
	}
	size_t count = json_array_size(value);
	char **paths = allocate_zeroed(count + 1, sizeof(char *));
	for (size_t i = 0; i < count; i++) {
		paths[i] = (char *)(uintptr_t)json_string_value(json_array_get(value, i));
	}
	result->data = json_string_value(value);
	result->data_len = json_string_length(value);
	result->children = paths;
	result->children_count = count;
	cache_entry_restore(entry, result, true_at_ms);
	free(paths);
}

static bool load_entry(struct cache_store *store, const json_t *line, double wall, int64_t now_ms)
{
	const char *path;
	int kind;
	int code;
	double true_at;
	json_int_t created_ms;
	json_int_t size;
	const json_t *value;
	if (json_unpack((json_t *)(uintptr_t)line, "[s, i, i, F, I, I, o]", &path, &kind, &code,
		    &true_at, &created_ms, &size, &value) ||
		path_check(path, strlen(path), NULL) || code > 0 ||
		(kind != CACHE_DATA && kind != CACHE_CHILDREN) || !(true_at >= 0) || size < 0) {
		return false;
	}
	if (!code && !(kind == CACHE_DATA ? json_is_string(value) : children_valid(value, path))) {
		return false;
	}
	struct registry_result result = { .err.code = code,
		.stat.created_ms = created_ms,
		.stat.size = (size_t)size,
		.stat.ephemeral = json_is_true(json_array_get(line, EPHEMERAL_AT)) };
	double age_s = wall > true_at ? wall - true_at : 0;
	restore(store, path, (enum cache_kind)kind, &result, value,
		now_ms - (int64_t)(age_s * 1e3));
	return true;
}

/* 0: the line does not begin with a path. */
static size_t path_len(const char *line)
{
	size_t len = strncmp(line, "[\"", PATH_AT) == 0 ? strcspn(line + PATH_AT, "\"") : 0;
	bool valid = strncmp(line + PATH_AT + len, "\",", 2) == 0 &&
		path_check(line + PATH_AT, len, NULL) == 0;
	return valid ? len : 0;
}

static void restore_line(struct cache_loading *loading, char *line)
{
	char *rest = line + PATH_AT + path_len(line) + 2;
	if (strnlen(rest, KIND_BYTES + 1) > KIND_BYTES) {
		json_t *json = json_loads(line, JSON_ALLOW_NUL, NULL);
		bool good = load_entry(loading->store, json, loading->wall, loading->now_ms);
		loading->good += good;
		loading->bad += !good;
		json_decref(json);
	}
	*rest = '\0';
}

/* The first line that does not come before one with this beginning. */
static size_t find_line(char *const *lines, size_t count, const char *start, size_t len)
{
	size_t low = 0;
	size_t high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strncmp(lines[middle], start, len) < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low;
}

/* How many lines there are of a path; *ret_first: the first one. */
static size_t find_path(
	const struct cache_loading *loading, const char *path, size_t path_len, size_t *ret_first)
{
	char start[PATH_AT + LIMIT_PATH_BYTES + 3];
	size_t len = (size_t)snprintf(start, sizeof(start), "[\"%.*s\",", (int)path_len, path);
	size_t first = find_line(loading->lines, loading->count, start, len);
	size_t end = first;
	while (end < loading->count && strncmp(loading->lines[end], start, len) == 0) {
		end++;
	}
	*ret_first = first;
	return end - first;
}

/* The nearest node above it that is saved has made those above itself. */
static void make_above(const struct cache_loading *loading, const struct cache_node *node)
{
	struct cache_table *table = loading->store->table;
	char *path = allocate_text(node->path);
	size_t first;
	size_t len;
	while ((len = path_parent_len(path)) > 0 && !cache_node_find(table, path, len)) {
		bool saved = find_path(loading, path, len, &first) > 0;
		path[len] = '\0';
		if (saved) {
			cache_node_get(table, path);
			break;
		}
	}
	free(path);
}

static void on_made(void *context, struct cache_node *node)
{
	struct cache_loading *loading = context;
	size_t first;
	size_t count = find_path(loading, node->path, node->path_len, &first);
	for (size_t i = first; i < first + count; i++) {
		restore_line(loading, loading->lines[i]);
	}
	make_above(loading, node);
}

static void add_lines(struct cache_loading *loading, char *text)
{
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		*end = '\0';
		loading->lines = allocate_grow(loading->lines, loading->count, sizeof(char *));
		loading->lines[loading->count++] = line;
	}
}

static int compare_lines(const void *a, const void *b)
{
	char *const *first = a;
	char *const *second = b;
	return strcmp(*first, *second);
}

static void sort_lines(struct cache_loading *loading)
{
	for (size_t i = 1; i < loading->count; i++) {
		if (strcmp(loading->lines[i - 1], loading->lines[i]) > 0) {
			qsort(loading->lines, loading->count, sizeof(char *), compare_lines);
			return;
		}
	}
}

/* Each in the place of what is saved of the same entry. */
static void add_changes(struct cache_loading *loading, const char *changes)
{
	size_t saved = loading->count;
	loading->changes = allocate_text(changes);
	add_lines(loading, loading->changes);
	size_t all = loading->count;
	loading->count = saved;
	for (size_t i = saved; i < all; i++) {
		char *line = loading->lines[i];
		size_t len = PATH_AT + path_len(line) + 2 + KIND_BYTES;
		size_t at = find_line(loading->lines, saved, line, len);
		bool found = at < saved && strncmp(loading->lines[at], line, len) == 0;
		loading->lines[found ? at : loading->count++] = line;
	}
}

/* The lines behind the head; NULL, with a log line, when they are not for us. */
static char *skip_head(const struct cache_store *store, char *text)
{
	char *url = strchr(text, '\n');
	char *end = url ? strchr(url + 1, '\n') : NULL;
	if (!end || strtol(text, NULL, 10) != VERSION) {
		log_warn("cache", "the saved cache is ignored: it is of another version");
		return NULL;
	}
	*end = '\0';
	if (strcmp(url + 1, registry_url(store->registry)) != 0) {
		log_warn("cache", "the saved cache is ignored: it is of another registry, %s",
			url + 1);
		return NULL;
	}
	return end + 1;
}

static void finish(struct cache_loading *loading)
{
	loading->store->table->on_made = NULL;
	loading->store->loading = NULL;
	free(loading->lines);
	free(loading->changes);
	free(loading->text);
	free(loading);
}

/* Users may have made nodes before. */
static void restore_made(struct cache_loading *loading)
{
	const struct cache_table *table = loading->store->table;
	struct cache_node **nodes = allocate_zeroed(
		table->node_count + 1, sizeof(struct cache_node *));
	size_t count = 0;
	for (struct cache_node *node = cache_node_next(table, NULL); node;
		node = cache_node_next(table, node)) {
		nodes[count++] = node;
	}
	for (size_t i = 0; i < count; i++) {
		on_made(loading, nodes[i]);
	}
	free(nodes);
}

static void begin(struct cache_store *store, char *text_take, char *lines, const char *changes)
{
	struct cache_loading *loading = allocate_zeroed(1, sizeof(*loading));
	loading->store = store;
	loading->text = text_take;
	loading->now_ms = clock_monotonic_ms();
	loading->wall = load_clocks(&lines, loading->now_ms);
	add_lines(loading, lines);
	sort_lines(loading);
	if (changes) {
		add_changes(loading, changes);
		sort_lines(loading);
	}
	store->loading = loading;
	store->table->context = loading;
	store->table->on_made = on_made;
	restore_made(loading);
	cache_snapshot_go_on(store);
}

void cache_snapshot_load(struct cache_store *store, const char *directory, const char *changes)
{
	char *text;
	size_t len;
	struct err err = ERR_INIT;
	if (state_file_read(
		    directory, store->snapshot_name, file_kind, FILE_BYTES, &text, &len, &err)) {
		if (err.code != BERTH_PATH_NOT_FOUND) {
			log_warn("cache", "the saved cache is ignored: %s", err.msg);
		}
		return;
	}
	char *lines = skip_head(store, text);
	if (lines) {
		begin(store, text, lines, changes);
	} else {
		free(text);
	}
}

static void take_line(struct cache_loading *loading, const char *line)
{
	char path[LIMIT_PATH_BYTES + 1];
	struct cache_table *table = loading->store->table;
	size_t len = path_len(line);
	if (len == 0) {
		loading->bad++;
	} else if (!cache_node_find(table, line + PATH_AT, len)) {
		snprintf(path, sizeof(path), "%.*s", (int)len, line + PATH_AT);
		cache_work(loading->store->turn, LINE_STEPS);
		struct cache_node *node = cache_node_get(table, path);
		if (!node->entries[CACHE_DATA] && !node->entries[CACHE_CHILDREN]) {
			cache_mark_dirty(loading->store->turn, node); /* so that it goes */
		}
	}
}

void cache_snapshot_go_on(struct cache_store *store)
{
	struct cache_loading *loading = store->loading;
	if (!loading) {
		return;
	}
	while (loading->next < loading->count && cache_may_work(store->turn)) {
		take_line(loading, loading->lines[loading->next++]);
	}
	/* Also behind the end, for those who wait for it. */
	cache_go_on(store->turn);
	if (loading->next < loading->count) {
		return;
	}
	log_info("cache", "%zu saved entries, stale until the registry confirms them",
		loading->good);
	if (loading->bad > 0) {
		log_warn(
			"cache", "%zu saved entries are ignored: they are malformed", loading->bad);
	}
	finish(loading);
}

void cache_snapshot_stop(struct cache_store *store)
{
	if (store->loading) {
		finish(store->loading);
	}
}
