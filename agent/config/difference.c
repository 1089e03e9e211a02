/* The difference of two configurations, as JSON. */
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/field.h"
#include "agent/config/parts.h"
#include "agent/config/secret.h"
#include "lib/base/buffer.h"

/* ---- finding a section of one configuration in the other ---- */

struct search {
	const struct config_part *wanted;
	struct config_part found; /* without a target: none */
};

static void match(void *context, const struct config_part *part)
{
	struct search *search = context;
	if (part->type == search->wanted->type && strcmp(part->name, search->wanted->name) == 0 &&
		strcmp(part->owner, search->wanted->owner) == 0) {
		search->found = *part;
	}
}

static struct config_part counterpart(const struct config *config, const struct config_part *wanted)
{
	struct search search = { .wanted = wanted };
	config_each_part(config, match, &search);
	return search.found;
}

/* ---- a change ---- */

/* "check http", "endpoint rest of web" */
static json_t *section_json(const struct config_part *part)
{
	return json_sprintf("%s%s%s%s%s", part->type->kind, *part->name ? " " : "", part->name,
		*part->owner ? " of " : "", part->owner);
}

static void add_section(json_t *changes, const struct config_part *part, const char *change)
{
	json_array_append_new(
		changes, json_pack("{s:o, s:s}", "section", section_json(part), "change", change));
}

/* All values of an option in one text, as they would be written; masked. */
static json_t *value_json(const struct config_option *option, const void *target)
{
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	size_t count = config_field_count(option, target);
	for (size_t i = 0; i < count; i++) {
		char *key = config_field_key(option, target, i);
		char *value = config_field_text(option, target, i);
		char *masked = config_mask(option, key, value);
		bool named = strcmp(key, option->key) != 0;
		buffer_printf(&text, "%s%s%s%s", i > 0 ? ", " : "", named ? key : "",
			named ? " = " : "", masked);
		free(key);
		free(value);
		free(masked);
	}
	json_t *json = json_string(buffer_text(&text));
	buffer_finish(&text);
	return json;
}

static void add_options(
	json_t *changes, const struct config_part *now, const struct config_part *next)
{
	for (const struct config_option *option = next->type->options; option->key; option++) {
		if (config_field_equal(option, now->target, next->target)) {
			continue;
		}
		json_array_append_new(changes,
			json_pack("{s:o, s:s, s:s, s:o, s:o}", "section", section_json(next),
				"change", "changed", "key", option->key, "from",
				value_json(option, now->target), "to",
				value_json(option, next->target)));
	}
}

/* ---- both ways ---- */

struct comparison {
	const struct config *other;
	json_t *changes;
};

static void compare(void *context, const struct config_part *part)
{
	const struct comparison *comparison = context;
	struct config_part now = counterpart(comparison->other, part);
	if (now.target) {
		add_options(comparison->changes, &now, part);
	} else {
		add_section(comparison->changes, part, "added");
	}
}

static void miss(void *context, const struct config_part *part)
{
	const struct comparison *comparison = context;
	if (!counterpart(comparison->other, part).target) {
		add_section(comparison->changes, part, "removed");
	}
}

json_t *config_difference(const struct config *now, const struct config *next)
{
	json_t *changes = json_array();
	config_each_part(next, compare, &(struct comparison){ now, changes });
	config_each_part(now, miss, &(struct comparison){ next, changes });
	return changes;
}
