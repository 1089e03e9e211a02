#include "agent/cache/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/path.h"
#include "agent/base/state_file.h"
#include "lib/base/clock.h"

/*
 * The version and the registry's URL on a line each, then one JSON array a line: [path, kind, code, wall clock of the last
 * confirmation, created_ms, value]. The state file around it knows its length and checksum.
 */
enum { VERSION = 2, FILE_BYTES = 1024 * 1024 * 1024 };

static const char file_name[] = "cache";
static const char file_kind[] = "cache";

/* ---- saving ---- */

static json_t *value_json(const struct cache_entry *entry)
{
	if (entry->code) {
		return json_null();
	}
	if (entry->kind == CACHE_DATA) {
		return json_stringn(entry->blob->data, entry->blob->len);
	}
	json_t *list = json_array();
	for (size_t i = 0; i < entry->children_count; i++) {
		json_array_append_new(list, json_string(entry->children[i]));
	}
	return list;
}

static void save_entry(const struct cache_entry *entry, double wall, double now, struct buffer *out)
{
	json_t *value = value_json(entry);
	if (!value) {
		return; /* data that is no text is no record either */
	}
	double age = entry->live ? 0 : now - entry->known_true;
	json_t *line = json_pack("[s, i, i, f, I, o]", entry->node->path, (int)entry->kind,
		entry->code, wall - age, (json_int_t)entry->stat.created_ms, value);
	char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
	json_decref(line);
	if (text) {
		buffer_printf(out, "%s\n", text);
	}
	free(text);
}

int cache_save(const struct cache *cache, const char *directory, struct err *err)
{
	double wall = clock_wall_s();
	double now = clock_monotonic_s();
	struct buffer out;
	buffer_init(&out, FILE_BYTES);
	buffer_printf(&out, "%d\n%s\n", VERSION, registry_url(cache->registry));
	for (size_t i = 0; i < cache->bucket_count; i++) {
		for (const struct cache_node *node = cache->buckets[i]; node;
			node = node->hash_next) {
			for (int kind = CACHE_DATA; kind <= CACHE_CHILDREN; kind++) {
				if (node->entries[kind] && node->entries[kind]->loaded) {
					save_entry(node->entries[kind], wall, now, &out);
				}
			}
		}
	}
	int ret = out.failed ? err_set(err, BERTH_FAILED, "the cache is too large to be saved")
			     : state_file_write(directory, file_name, file_kind, buffer_text(&out),
				       out.len, err);
	buffer_finish(&out);
	return ret;
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

static void set_children(struct cache *cache, struct cache_entry *entry, const json_t *value)
{
	size_t count = json_array_size(value);
	char **paths = allocate_zeroed(count + 1, sizeof(char *));
	for (size_t i = 0; i < count; i++) {
		paths[i] = (char *)(uintptr_t)json_string_value(json_array_get(value, i));
	}
	cache_entry_set_children(cache, entry, paths, count, 0);
	free(paths);
}

static bool load_entry(struct cache *cache, const json_t *line, double wall, double now)
{
	const char *path;
	int kind;
	int code;
	double known_true;
	json_int_t created_ms;
	const json_t *value;
	if (json_unpack((json_t *)(uintptr_t)line, "[s, i, i, F, I, o]", &path, &kind, &code,
		    &known_true, &created_ms, &value) ||
		path_check(path, strlen(path), NULL) ||
		(kind != CACHE_DATA && kind != CACHE_CHILDREN)) {
		return false;
	}
	if (!code && !(kind == CACHE_DATA ? json_is_string(value) : children_valid(value, path))) {
		return false;
	}
	struct cache_entry *entry = cache_entry_get(
		cache, cache_node_get(cache, path), (enum cache_kind)kind);
	if (entry->loaded) {
		return true; /* something newer is known already */
	}
	if (!code && kind == CACHE_DATA) {
		cache_entry_set_data(
			cache, entry, json_string_value(value), json_string_length(value));
	} else if (!code) {
		set_children(cache, entry, value);
	}
	entry->code = code;
	entry->loaded = true;
	entry->stat.created_ms = created_ms;
	entry->known_true = now - (wall > known_true ? wall - known_true : 0);
	cache_entry_load(cache, entry, false);
	return true;
}

static size_t load_lines(struct cache *cache, char *text, size_t *ret_bad)
{
	double wall = clock_wall_s();
	double now = clock_monotonic_s();
	size_t good = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		json_t *json = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
		bool taken = load_entry(cache, json, wall, now);
		good += taken;
		*ret_bad += !taken;
		json_decref(json);
	}
	return good;
}

/* The lines behind the head; NULL, with a log line, when they are not for us. */
static char *skip_head(const struct cache *cache, char *text)
{
	char *url = strchr(text, '\n');
	char *end = url ? strchr(url + 1, '\n') : NULL;
	if (!end || strtol(text, NULL, 10) != VERSION) {
		log_warn("cache", "the saved cache is ignored: it is of another version");
		return NULL;
	}
	*end = '\0';
	if (strcmp(url + 1, registry_url(cache->registry)) != 0) {
		log_warn("cache", "the saved cache is ignored: it is of another registry, %s",
			url + 1);
		return NULL;
	}
	return end + 1;
}

void cache_load(struct cache *cache, const char *directory)
{
	char *text;
	size_t len;
	struct err err = ERR_INIT;
	if (state_file_read(directory, file_name, file_kind, FILE_BYTES, &text, &len, &err)) {
		if (err.code != BERTH_PATH_NOT_FOUND) {
			log_warn("cache", "the saved cache is ignored: %s", err.msg);
		}
		return;
	}
	char *lines = skip_head(cache, text);
	if (lines) {
		size_t bad = 0;
		size_t good = load_lines(cache, lines, &bad);
		log_info("cache", "%zu saved entries, stale until the registry confirms them", good);
		if (bad > 0) {
			log_warn("cache", "%zu saved entries are ignored: they are malformed", bad);
		}
	}
	free(text);
}
