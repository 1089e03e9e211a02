/*
 * Maintenance: an operator has the agent take its components out, for a reason, perhaps for a
 * limited time. Pure; times are wall clock seconds, because a drain outlives restarts.
 */
#ifndef AGENT_BASE_DRAIN_H
#define AGENT_BASE_DRAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct drain {
	bool active;
	char reason[256];
	double since;
	double until; /* 0: until an operator ends it */
	/* with drain_early: how many looks in a row found no connection, since the record is out */
	unsigned quiet_looks;
};

/* Begins a drain, or replaces the reason and the end of the current one. `for_s` 0: without end. */
void drain_begin(struct drain *drain, const char *reason, double for_s, double now);
void drain_end(struct drain *drain);

/* Counts a look; true when drain_delay ends with it, as the second in a row that found nothing. */
bool drain_look(struct drain *drain, bool quiet);
bool drain_is_quiet(const struct drain *drain);

/* Ends it when its time is over; true if that happened just now. */
bool drain_expire(struct drain *drain, double now);

/* "draining", with its reason if it has one. */
void drain_describe(const struct drain *drain, char *out, size_t size);

/*
 * {"active", "reason", "since", "until"}; just {"active": false} while there is none. New
 * reference.
 */
json_t *drain_json(const struct drain *drain);
/* The inverse; false for a wrong shape. An expired drain is loaded as inactive. */
bool drain_from_json(struct drain *drain, const json_t *json, double now);

#endif
