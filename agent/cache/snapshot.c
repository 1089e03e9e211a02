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
#include "lib/base/path.h"

/*
 * Snapshots: the cache's content for the next start. The version and the registry's URL on a line
 * each, an object with the clocks at that time, then one JSON array a line: [path, kind, code, wall
 * clock second at which it was true, created_ms, size, value]. The state file around it knows its
 * length and checksum.
 *
 * Until the machine boots again, its monotonic clock says how long ago a snapshot was made, however
 * the wall clock was set since.
 */
enum { VERSION = 3, FILE_BYTES = 1024 * 1024 * 1024 };

static const char file_kind[] = "cache";

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

static void save_entry(
	const struct cache_entry *entry, double wall, int64_t now_ms, struct buffer *out)
{
	json_t *value = value_json(entry);
	if (!value) {
		return; /* data that is not a text is not a record either */
	}
	double age_s = (double)(now_ms - cache_entry_true_at_ms(entry)) / 1e3;
	double true_at = wall > age_s ? wall - age_s : 0;
	json_t *line = json_pack("[s, i, i, f, I, I, o]", entry->node->path, (int)entry->kind,
		cache_code(entry), true_at, (json_int_t)entry->value->stat.created_ms,
		(json_int_t)entry->value->stat.size, value);
	if (line) {
		(void)json_text_append(out, line, JSON_COMPACT);
		buffer_append_text(out, "\n");
	}
	json_decref(line);
}

int cache_snapshot_save(const struct cache_store *store, const char *directory,
	struct file_work *ret_work, struct err *err)
{
	double wall = clock_wall_s();
	int64_t now_ms = clock_monotonic_ms();
	struct buffer out;
	buffer_init(&out, FILE_BYTES);
	buffer_printf(&out, "%d\n%s\n", VERSION, registry_url(store->registry));
	save_clocks(wall, now_ms, &out);
	const struct cache_table *table = store->table;
	for (const struct cache_node *node = cache_node_next(table, NULL); node;
		node = cache_node_next(table, node)) {
		for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
			if (node->entries[kind] && node->entries[kind]->value) {
				save_entry(node->entries[kind], wall, now_ms, &out);
			}
		}
	}
	if (out.failed) {
		buffer_finish(&out);
		return err_set(err, BERTH_FAILED, "the cache is too large to be saved");
	}
	size_t len;
	char *text = buffer_take(&out, &len);
	state_file_replace(ret_work, directory, store->snapshot_name, file_kind, text, len);
	ret_work->passing = true; /* a copy of the registry; an upgrade waits for it */
	return 0;
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
	struct registry_result result = {
		.err.code = code, .stat.created_ms = created_ms, .stat.size = (size_t)size
	};
	double age_s = wall > true_at ? wall - true_at : 0;
	restore(store, path, (enum cache_kind)kind, &result, value,
		now_ms - (int64_t)(age_s * 1e3));
	return true;
}

static size_t load_lines(struct cache_store *store, char *text, size_t *ret_bad)
{
	int64_t now_ms = clock_monotonic_ms();
	double wall = load_clocks(&text, now_ms);
	size_t good = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		json_t *json = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
		bool taken = load_entry(store, json, wall, now_ms);
		good += taken;
		*ret_bad += !taken;
		json_decref(json);
	}
	return good;
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

void cache_snapshot_load(struct cache_store *store, const char *directory)
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
		size_t bad = 0;
		size_t good = load_lines(store, lines, &bad);
		log_info(
			"cache", "%zu saved entries, stale until the registry confirms them", good);
		if (bad > 0) {
			log_warn("cache", "%zu saved entries are ignored: they are malformed", bad);
		}
	}
	free(text);
}
