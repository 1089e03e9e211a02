/*
 * The addresses of all components, as an agent shows them: by names over HTTP and DNS, and in the
 * files that it writes. Each component has one address, which is there while its record is.
 */
#ifndef TESTS_SIM_ADDRESSES_H
#define TESTS_SIM_ADDRESSES_H

#include "tests/sim/world.h"

/* The name that means all components. */
#define ADDRESSES_NAME "prod.web.joe.berth"
/* The directory of their records. */
#define ADDRESSES_PATH "/users/joe/web/prod/components"

/*
 * Records that are there all the time, and that nobody asks for but by one of their names, by
 * number: no answer says that such a name does not exist.
 */
enum { ADDRESSES_LASTING = 12 };
void addresses_make_lasting(struct world *world);
/* Valid until the next call. */
const char *addresses_lasting_name(unsigned number);

/*
 * Each address that the text has was there at that time or later, and each that it lacks was not,
 * at a time of its own.
 */
void addresses_check_each(const struct world *world, int agent, const char *what, const char *text,
	int64_t has_not_before_ms, int64_t lacks_not_before_ms);
/* Both at one time. */
void addresses_check(const struct world *world, int agent, const char *what, const char *text,
	int64_t not_before_ms);

#endif
