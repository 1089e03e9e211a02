#include "agent/base/history.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/log.h"
#include "agent/base/allocate.h"
#include "lib/base/text.h"

enum { NAME_BYTES = 128, STATE_BYTES = 32, WHY_BYTES = 320 };

struct transition {
	double time;
	char subject[NAME_BYTES];
	char from[STATE_BYTES];
	char to[STATE_BYTES];
	char why[WHY_BYTES];
};

struct history {
	size_t count;
	size_t next; /* the oldest, once the ring is full */
	struct transition ring[HISTORY_LENGTH];
};

struct history *history_create(void)
{
	return allocate_zeroed(1, sizeof(struct history));
}

void history_destroy(struct history *history)
{
	free(history);
}

/* Cuts between UTF-8 characters, so that the text stays JSON. */
void history_add(struct history *history, double time, const char *subject, const char *from,
	const char *to, const char *why)
{
	struct transition *transition = &history->ring[history->next];
	transition->time = time;
	text_printf(transition->subject, sizeof(transition->subject), "%s", subject);
	text_printf(transition->from, sizeof(transition->from), "%s", from);
	text_printf(transition->to, sizeof(transition->to), "%s", to);
	text_printf(transition->why, sizeof(transition->why), "%s", why);
	history->next = (history->next + 1) % HISTORY_LENGTH;
	if (history->count < HISTORY_LENGTH) {
		history->count++;
	}
}

static const struct transition *nth(const struct history *history, size_t index)
{
	size_t first = history->count < HISTORY_LENGTH ? 0 : history->next;
	return &history->ring[(first + index) % HISTORY_LENGTH];
}

/* What a child printed may have found its way into a reason: invalid UTF-8 must not cost the entry. */
static json_t *text_json(const char *text)
{
	json_t *string = json_string(text);
	return string ? string : json_string("(not text)");
}

json_t *history_json(const struct history *history)
{
	json_t *list = json_array();
	for (size_t i = 0; i < history->count; i++) {
		const struct transition *transition = nth(history, i);
		json_array_append_new(list,
			json_pack("{s:f, s:o, s:o, s:o, s:o}", "time", transition->time, "subject",
				text_json(transition->subject), "from", text_json(transition->from),
				"to", text_json(transition->to), "why", text_json(transition->why)));
	}
	return list;
}

void history_load(struct history *history, const json_t *saved)
{
	struct history *since = history_create();
	*since = *history;
	history->count = 0;
	history->next = 0;
	size_t index;
	json_t *item;
	json_array_foreach (saved, index, item) {
		double time;
		const char *subject;
		const char *from;
		const char *to;
		const char *why;
		if (json_unpack(item, "{s:F, s:s, s:s, s:s, s:s}", "time", &time, "subject",
			    &subject, "from", &from, "to", &to, "why", &why) == 0) {
			history_add(history, time, subject, from, to, why);
		}
	}
	for (size_t i = 0; i < since->count; i++) {
		const struct transition *transition = nth(since, i);
		history_add(history, transition->time, transition->subject, transition->from,
			transition->to, transition->why);
	}
	history_destroy(since);
}
