#include "lib/registry/search.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/record/select.h"

enum { FIRST_SIZE = 16 };

/* ---- criteria ---- */

static int copy(const char **out, const char *text)
{
	if (!text) {
		return 0;
	}
	*out = strdup(text);
	return *out ? 0 : -1;
}

int registry_criteria_copy(struct registry_criteria *criteria, const struct registry_criteria *from)
{
	if (copy(&criteria->under, from->under) || copy(&criteria->api, from->api) ||
		copy(&criteria->protocol, from->protocol) || copy(&criteria->type, from->type) ||
		copy(&criteria->id, from->id) || copy(&criteria->persistence, from->persistence) ||
		copy(&criteria->attributes, from->attributes)) {
		registry_criteria_finish(criteria);
		return -1;
	}
	criteria->max_bytes = from->max_bytes;
	return 0;
}

void registry_criteria_finish(struct registry_criteria *criteria)
{
	const char *texts[] = { criteria->under, criteria->api, criteria->protocol, criteria->type,
		criteria->id, criteria->persistence, criteria->attributes };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		free((void *)(uintptr_t)texts[i]);
	}
	*criteria = (struct registry_criteria){ 0 };
}

static bool endpoint_matches(const struct registry_criteria *criteria, const struct record *record)
{
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		if (record_endpoint_matches(&endpoint, criteria->api, criteria->protocol, NULL)) {
			return true;
		}
	}
	return false;
}

static bool equal(const char *wanted, const char *found)
{
	return !wanted || (found && strcmp(wanted, found) == 0);
}

bool registry_criteria_match(const struct registry_criteria *criteria, const struct record *record)
{
	return equal(criteria->id, record_id(record)) &&
		equal(criteria->persistence, record_persistence(record)) &&
		select_takes(criteria->attributes, record) &&
		equal(criteria->type, json_string_value(record_attribute(record, "type"))) &&
		((!criteria->api && !criteria->protocol) || endpoint_matches(criteria, record));
}

/* ---- matches ---- */

/* Makes room for one more item. NULL without memory. */
static void *grow(void *items, size_t count, size_t *size, size_t item_bytes)
{
	if (count < *size) {
		return items;
	}
	size_t larger = *size ? 2 * *size : FIRST_SIZE;
	void *grown = reallocarray(items, larger, item_bytes);
	if (grown) {
		*size = larger;
	}
	return grown;
}

int registry_matches_add_found(struct registry_matches *matches, const char *path,
	struct registry_task *task, size_t max_bytes, struct err *err)
{
	struct registry_found *grown = grow(
		matches->found, matches->found_count, &matches->found_size, sizeof(*grown));
	char *copied = grown ? strdup(path) : NULL;
	matches->found = grown ? grown : matches->found;
	if (!copied) {
		return err_set(err, BERTH_FAILED, "no memory for the records that were found");
	}
	matches->found[matches->found_count++] = (struct registry_found){ copied, task->ret_data,
		task->ret_len };
	matches->found_bytes += task->ret_len;
	task->ret_data = NULL;
	if (max_bytes > 0 && matches->found_bytes > max_bytes) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"more than %zu bytes of records match: ask for fewer", max_bytes);
	}
	return 0;
}

int registry_matches_add_purged(struct registry_matches *matches, const char *path, struct err *err)
{
	char **grown = grow(
		matches->purged, matches->purged_count, &matches->purged_size, sizeof(*grown));
	char *copied = grown ? strdup(path) : NULL;
	matches->purged = grown ? grown : matches->purged;
	if (!copied) {
		return err_set(err, BERTH_FAILED, "no memory for the list of purged paths");
	}
	matches->purged[matches->purged_count++] = copied;
	return 0;
}

static int compare_found(const void *a, const void *b)
{
	const struct registry_found *x = a;
	const struct registry_found *y = b;
	return strcmp(x->path, y->path);
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void registry_matches_sort(struct registry_matches *matches)
{
	if (matches->found_count > 0) {
		qsort(matches->found, matches->found_count, sizeof(*matches->found), compare_found);
	}
	if (matches->purged_count > 0) {
		qsort(matches->purged, matches->purged_count, sizeof(*matches->purged),
			compare_paths);
	}
}

void registry_matches_finish(struct registry_matches *matches)
{
	for (size_t i = 0; i < matches->found_count; i++) {
		free(matches->found[i].path);
		free(matches->found[i].data);
	}
	free(matches->found);
	for (size_t i = 0; i < matches->purged_count; i++) {
		free(matches->purged[i]);
	}
	free(matches->purged);
}

json_t *registry_found_json(const struct registry_result *result)
{
	json_t *json = json_object();
	for (size_t i = 0; json && i < result->found_count; i++) {
		const struct registry_found *found = &result->found[i];
		struct record *record = NULL;
		bool failed = record_decode(&record, found->data, found->len, NULL) ||
			json_object_set_nocheck(
				json, found->path, (json_t *)(uintptr_t)record_json(record));
		record_free(record);
		if (failed) {
			json_decref(json);
			return NULL;
		}
	}
	return json;
}
