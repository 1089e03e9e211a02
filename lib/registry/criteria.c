#include "lib/registry/criteria.h"

#include <stdlib.h>
#include <string.h>

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
		copy(&criteria->id, from->id) || copy(&criteria->persistence, from->persistence)) {
		registry_criteria_finish(criteria);
		return -1;
	}
	criteria->max_bytes = from->max_bytes;
	return 0;
}

void registry_criteria_finish(struct registry_criteria *criteria)
{
	const char *texts[] = { criteria->under, criteria->api, criteria->protocol, criteria->type,
		criteria->id, criteria->persistence };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
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
		equal(criteria->type, json_string_value(record_attribute(record, "type"))) &&
		((!criteria->api && !criteria->protocol) || endpoint_matches(criteria, record));
}
