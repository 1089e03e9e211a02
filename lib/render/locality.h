/*
 * The zone, the health and the weight of a record, as load balancers take them. Pure.
 *
 * A zone is the attribute berth:zone, REGION/ZONE/SUB_ZONE; the more of its elements it shares with
 * the own one, the nearer it is.
 */
#ifndef LIB_RENDER_LOCALITY_H
#define LIB_RENDER_LOCALITY_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/record/record.h"

/* The numbers of envoy.config.core.v3.HealthStatus. */
enum render_health {
	RENDER_HEALTH_UNKNOWN = 0,
	RENDER_HEALTH_DRAINING = 3,
	RENDER_HEALTH_DEGRADED = 5
};

/* From the attribute berth:health: `draining`, or `warning`. */
enum render_health render_health(const struct record *record);
/* "DRAINING", "DEGRADED"; NULL for RENDER_HEALTH_UNKNOWN. */
const char *render_health_word(enum render_health health);

/*
 * The attribute `weight`, as a number or as text: from 0, which takes no traffic, to 65535. False
 * where there is no such number.
 */
bool render_weight_read(unsigned *ret_weight, const struct record *record);
/* The same, and 1 where there is none. */
unsigned render_weight(const struct record *record);
/*
 * A weight's share of `most`, which the heaviest one of the set gets; rounded up, so that only 0
 * becomes 0.
 */
unsigned render_weight_share(unsigned weight, unsigned heaviest, unsigned most);

/* The attribute berth:zone; "" without. Borrowed from the record. */
const char *render_zone(const struct record *record);

/* The parts of a zone, as borrowed texts with their lengths. */
struct render_zone_parts {
	const char *part[3]; /* region, zone, sub-zone; the last one has all that is left */
	size_t len[3];       /* 0: none */
};
struct render_zone_parts render_zone_read(const char *zone);

/*
 * How far a record is; 0 is nearest. `rank` counts the paths that it may come from, in the order of
 * preference: all of a path are nearer than any of the next one. Within a rank the tier is the
 * number of elements of `own` that the zone does not share, from the first that differs on.
 */
unsigned render_tier(unsigned rank, const char *zone, const char *own);

#endif
