#include "agent/base/history.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/buffer.h"
#include "lib/base/hash.h"
#include "lib/base/json_text.h"
#include "lib/base/text.h"
#include "lib/base/utf8.h"

enum {
	NAME_BYTES = 128,
	STATE_BYTES = 32,
	WHY_BYTES = 320,
	OUTPUT_BYTES = 256,
	TEXT_BYTES = WHY_BYTES /* the longest of them */
};

/* As text, which takes a tenth of the memory of JSON that is ready to be read. */
struct entry {
	uint64_t number;
	uint64_t subject; /* its hash */
	char *text;       /* JSON */
};

struct history {
	size_t count;
	/* oldest first: a new one is rare, and moving is cheap */
	struct entry entries[HISTORY_LENGTH];
	uint64_t last; /* number */
};

struct history *history_create(void)
{
	return allocate_zeroed(1, sizeof(struct history));
}

void history_destroy(struct history *history)
{
	for (size_t i = 0; history && i < history->count; i++) {
		free(history->entries[i].text);
	}
	free(history);
}

/*
 * Cut between characters and made valid UTF-8, so that the output of a child process fits into the
 * entry's JSON.
 */
static json_t *text_json(size_t size, const char *text)
{
	char copy[TEXT_BYTES];
	text_printf(copy, size, "%s", text ? text : "");
	utf8_copy_valid(copy, copy, strlen(copy), false);
	return json_string(copy);
}

static void set_text(json_t *object, const char *name, size_t size, const char *text)
{
	if (text && *text) {
		json_object_set_new(object, name, text_json(size, text));
	}
}

static json_t *make(double time, const struct transition *transition)
{
	json_t *json = json_pack("{s:f, s:o, s:o, s:o, s:o}", "time", time, "subject",
		text_json(NAME_BYTES, transition->subject), "from",
		text_json(STATE_BYTES, transition->from), "to",
		text_json(STATE_BYTES, transition->to), "why",
		text_json(WHY_BYTES, transition->why));
	set_text(json, "component", NAME_BYTES, transition->component);
	set_text(json, "output", OUTPUT_BYTES, transition->output);
	return json;
}

static void set_repetition(json_t *json, double first, json_int_t count)
{
	json_object_set_new(json, "first", json_real(first));
	json_object_set_new(json, "count", json_integer(count));
}

static bool same_text(const json_t *a, const json_t *b, const char *name)
{
	return json_equal(json_object_get(a, name), json_object_get(b, name));
}

static bool same(const json_t *a, const json_t *b)
{
	bool stays = json_equal(json_object_get(b, "from"), json_object_get(b, "to"));
	return same_text(a, b, "from") && same_text(a, b, "to") &&
		(stays || same_text(a, b, "why"));
}

static uint64_t subject_hash(const json_t *json)
{
	return hash_text(HASH_INIT, json_string_value(json_object_get(json, "subject")));
}

/* New reference. */
static json_t *entry_json(const struct entry *entry)
{
	return allocated(json_loads(entry->text, 0, NULL));
}

/*
 * Where the entry is that this one repeats, and the entry (new reference); HISTORY_LENGTH when it
 * repeats none.
 */
static size_t find_repeated(const struct history *history, const json_t *json, json_t **ret_earlier)
{
	/* An attempt that begins and fails is two entries. */
	size_t looked_at = 0;
	uint64_t subject = subject_hash(json);
	for (size_t i = history->count; i > 0 && looked_at < 2; i--) {
		if (history->entries[i - 1].subject != subject) {
			continue;
		}
		json_t *earlier = entry_json(&history->entries[i - 1]);
		if (same_text(earlier, json, "subject")) {
			if (same(earlier, json)) {
				*ret_earlier = earlier;
				return i - 1;
			}
			looked_at++;
		}
		json_decref(earlier);
	}
	return HISTORY_LENGTH;
}

static void take_out(struct history *history, size_t index)
{
	free(history->entries[index].text);
	history->count--;
	memmove(&history->entries[index], &history->entries[index + 1],
		(history->count - index) * sizeof(history->entries[0]));
}

static void append(struct history *history, json_t *json_take)
{
	if (history->count == HISTORY_LENGTH) {
		take_out(history, 0);
	}
	history->entries[history->count++] = (struct entry){ ++history->last,
		subject_hash(json_take), allocated(json_text(json_take, JSON_COMPACT)) };
	json_decref(json_take);
}

uint64_t history_last(const struct history *history)
{
	return history->last;
}

unsigned history_add(struct history *history, double time, const struct transition *transition)
{
	json_t *json = make(time, transition);
	json_t *earlier = NULL;
	size_t repeated = transition->retry ? find_repeated(history, json, &earlier)
					    : HISTORY_LENGTH;
	json_int_t count = 1;
	if (repeated < HISTORY_LENGTH) {
		const json_t *first = json_object_get(earlier, "first");
		count += first ? json_integer_value(json_object_get(earlier, "count")) : 1;
		first = first ? first : json_object_get(earlier, "time");
		set_repetition(json, json_number_value(first), count);
		take_out(history, repeated);
		json_decref(earlier);
	}
	append(history, json);
	return (unsigned)count;
}

json_t *history_json_after(const struct history *history, uint64_t after, bool with_output)
{
	json_t *list = json_array();
	for (size_t i = 0; i < history->count; i++) {
		const struct entry *entry = &history->entries[i];
		if (entry->number > after) {
			json_t *json = entry_json(entry);
			if (!with_output) {
				json_object_del(json, "output");
			}
			json_array_append_new(list, json);
		}
	}
	return list;
}

json_t *history_json(const struct history *history, bool with_output)
{
	return history_json_after(history, 0, with_output);
}

char *history_text(const struct history *history)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	for (size_t i = 0; i < history->count; i++) {
		buffer_append(&out, i ? "," : "[", 1);
		buffer_append_text(&out, history->entries[i].text);
	}
	buffer_append_text(&out, history->count ? "]" : "[]");
	return allocated(buffer_take(&out, NULL));
}

/* NULL: of a wrong shape. */
static json_t *read_entry(const json_t *item)
{
	struct transition transition = { .component = "", .output = "" };
	double time;
	double first = 0;
	json_int_t count = 1;
	if (json_unpack((json_t *)(uintptr_t)item, "{s:F, s:s, s:s, s:s, s:s, s?s, s?s, s?F, s?I}",
		    "time", &time, "subject", &transition.subject, "from", &transition.from, "to",
		    &transition.to, "why", &transition.why, "component", &transition.component,
		    "output", &transition.output, "first", &first, "count", &count)) {
		return NULL;
	}
	json_t *json = make(time, &transition);
	if (count > 1 && count <= UINT32_MAX) {
		set_repetition(json, first, count);
	}
	return json;
}

void history_load(struct history *history, const json_t *saved)
{
	json_t *since = history_json(history, true);
	size_t index;
	json_t *item;
	while (history->count > 0) {
		take_out(history, history->count - 1);
	}
	json_array_foreach (saved, index, item) {
		json_t *json = read_entry(item);
		if (json) {
			append(history, json);
		}
	}
	json_array_foreach (since, index, item) {
		append(history, json_incref(item));
	}
	json_decref(since);
}
