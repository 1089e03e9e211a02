#include "agent/api/recent.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

enum {
	RECENT_BYTES = 32 * 1024,    /* of a stream */
	ALL_BYTES = 4 * 1024 * 1024, /* of all streams */
};

void recent_init(struct recent *recent, size_t *all_bytes)
{
	*recent = (struct recent){ .all_bytes = all_bytes };
	list_init(&recent->events);
}

static void drop_first(struct recent *recent)
{
	struct recent_event *event = LIST_ITEM(recent->events.next, struct recent_event, link);
	recent->since = event->sequence;
	recent->bytes -= event->bytes;
	*recent->all_bytes -= event->bytes;
	list_remove(&event->link);
	free(event->members);
	free(event);
}

void recent_restart(struct recent *recent, uint64_t sequence)
{
	while (!list_empty(&recent->events)) {
		drop_first(recent);
	}
	recent->since = sequence;
}

void recent_add(struct recent *recent, uint64_t sequence, double time, const char *type,
	const char *members)
{
	struct recent_event *event = allocate_zeroed(1, sizeof(*event));
	event->sequence = sequence;
	event->time = time;
	event->type = type;
	event->members = members ? allocate_text(members) : NULL;
	event->bytes = sizeof(*event) + (members ? strlen(members) : 0);
	list_append(&recent->events, &event->link);
	recent->bytes += event->bytes;
	*recent->all_bytes += event->bytes;
	while (recent->bytes > RECENT_BYTES ||
		(*recent->all_bytes > ALL_BYTES && !list_empty(&recent->events))) {
		drop_first(recent);
	}
}

bool recent_reaches(const struct recent *recent, uint64_t sequence)
{
	return sequence >= recent->since;
}
