#include "agent/base/history.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/text.h"
#include "lib/base/utf8.h"

enum { NAME_BYTES = 128, STATE_BYTES = 32, WHY_BYTES = 320, OUTPUT_BYTES = 256 };

struct entry {
	uint64_t number;
	double time;
	double first; /* time of the first of repeated retries; otherwise the same */
	unsigned count;
	char component[NAME_BYTES];
	char subject[NAME_BYTES];
	char from[STATE_BYTES];
	char to[STATE_BYTES];
	char why[WHY_BYTES];
	char output[OUTPUT_BYTES];
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
	free(history);
}

/*
 * Cut between characters and made valid UTF-8, so that the output of a child process fits into the
 * entry's JSON.
 */
static void copy(char *out, size_t size, const char *text)
{
	text_printf(out, size, "%s", text ? text : "");
	utf8_copy_valid(out, out, strlen(out), false);
}

static void fill(struct entry *entry, double time, const struct transition *transition)
{
	*entry = (struct entry){ .time = time, .first = time, .count = 1 };
	copy(entry->component, sizeof(entry->component), transition->component);
	copy(entry->subject, sizeof(entry->subject), transition->subject);
	copy(entry->from, sizeof(entry->from), transition->from);
	copy(entry->to, sizeof(entry->to), transition->to);
	copy(entry->why, sizeof(entry->why), transition->why);
	copy(entry->output, sizeof(entry->output), transition->output);
}

static bool same(const struct entry *a, const struct entry *b)
{
	bool stays = strcmp(b->from, b->to) == 0;
	return strcmp(a->from, b->from) == 0 && strcmp(a->to, b->to) == 0 &&
		(stays || strcmp(a->why, b->why) == 0);
}

/* Where the entry is that this one repeats; HISTORY_LENGTH when it repeats none. */
static size_t find_repeated(const struct history *history, const struct entry *entry)
{
	/* An attempt that begins and fails is two entries. */
	size_t looked_at = 0;
	for (size_t i = history->count; i > 0 && looked_at < 2; i--) {
		const struct entry *earlier = &history->entries[i - 1];
		if (strcmp(earlier->subject, entry->subject) != 0) {
			continue;
		}
		if (same(earlier, entry)) {
			return i - 1;
		}
		looked_at++;
	}
	return HISTORY_LENGTH;
}

static void take_out(struct history *history, size_t index)
{
	history->count--;
	memmove(&history->entries[index], &history->entries[index + 1],
		(history->count - index) * sizeof(history->entries[0]));
}

static unsigned append(struct history *history, const struct entry *entry)
{
	if (history->count == HISTORY_LENGTH) {
		take_out(history, 0);
	}
	struct entry *added = &history->entries[history->count++];
	*added = *entry;
	added->number = ++history->last;
	return entry->count;
}

uint64_t history_last(const struct history *history)
{
	return history->last;
}

unsigned history_add(struct history *history, double time, const struct transition *transition)
{
	struct entry entry;
	fill(&entry, time, transition);
	size_t repeated = transition->retry ? find_repeated(history, &entry) : HISTORY_LENGTH;
	if (repeated < HISTORY_LENGTH) {
		entry.first = history->entries[repeated].first;
		entry.count = history->entries[repeated].count + 1;
		take_out(history, repeated);
	}
	return append(history, &entry);
}

static void set_text(json_t *object, const char *name, const char *text)
{
	if (*text) {
		json_object_set_new(object, name, json_string(text));
	}
}

static json_t *entry_json(const struct entry *entry, bool with_output)
{
	json_t *item = json_pack("{s:f, s:s, s:s, s:s, s:s}", "time", entry->time, "subject",
		entry->subject, "from", entry->from, "to", entry->to, "why", entry->why);
	set_text(item, "component", entry->component);
	if (with_output) {
		set_text(item, "output", entry->output);
	}
	if (entry->count > 1) {
		json_object_set_new(item, "first", json_real(entry->first));
		json_object_set_new(item, "count", json_integer(entry->count));
	}
	return item;
}

json_t *history_json_after(const struct history *history, uint64_t after, bool with_output)
{
	json_t *list = json_array();
	for (size_t i = 0; i < history->count; i++) {
		if (history->entries[i].number > after) {
			json_array_append_new(list, entry_json(&history->entries[i], with_output));
		}
	}
	return list;
}

json_t *history_json(const struct history *history, bool with_output)
{
	return history_json_after(history, 0, with_output);
}

static bool read_entry(struct entry *entry, const json_t *item)
{
	struct transition transition = { .component = "", .output = "" };
	double time;
	double first = 0;
	json_int_t count = 1;
	if (json_unpack((json_t *)item, "{s:F, s:s, s:s, s:s, s:s, s?s, s?s, s?F, s?I}", "time",
		    &time, "subject", &transition.subject, "from", &transition.from, "to",
		    &transition.to, "why", &transition.why, "component", &transition.component,
		    "output", &transition.output, "first", &first, "count", &count)) {
		return false;
	}
	fill(entry, time, &transition);
	if (count > 1 && count <= UINT32_MAX) {
		entry->first = first;
		entry->count = (unsigned)count;
	}
	return true;
}

void history_load(struct history *history, const json_t *saved)
{
	struct history *since = history_create();
	*since = *history;
	history->count = 0;
	size_t index;
	json_t *item;
	json_array_foreach (saved, index, item) {
		struct entry entry;
		if (read_entry(&entry, item)) {
			append(history, &entry);
		}
	}
	for (size_t i = 0; i < since->count; i++) {
		append(history, &since->entries[i]);
	}
	history_destroy(since);
}
