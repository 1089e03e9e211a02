/*
 * The paths that one process of an agent has answered before. It knows them from then on, and gets
 * never less sure of them: a look-up of such a path does not fail while its node stays, and a stale
 * answer claims no earlier time than an answer before.
 */
#ifndef TESTS_SIM_KNOWN_H
#define TESTS_SIM_KNOWN_H

#include "tests/sim/order.h"
#include "tests/sim/world.h"

enum answer_kind {
	ANSWER_RECORD,
	ANSWER_LIST,
	ANSWER_RECORDS,
	ANSWER_STATUS,
	ANSWER_NAME,
	/* the set of the name, and that of the path below which all components are: two forms */
	ANSWER_SET_OF_NAME,
	ANSWER_SET_OF_PATH,
	ANSWER_NEAR
};

struct known {
	int64_t there_ms[ANSWER_STATUS][ORDER_PATHS]; /* the node was there; 0: it was not */
	int64_t true_ms[ANSWER_STATUS][ORDER_PATHS];  /* the latest time that an answer claimed */
};

/* An answer was true at a time between these two. */
struct known_claim {
	bool is_there;
	int64_t first_ms;
	int64_t last_ms;
};

/*
 * Takes an answer by kind and path, whose name is `name`. False: one before has claimed a later
 * time.
 */
bool known_take(struct known *known, const struct world *world, enum answer_kind kind, size_t path,
	const char *name, const struct known_claim *claim);
/*
 * The path was answered before, and its node has been there ever since; for all records of a
 * directory its children, too, are the same.
 */
bool known_has(const struct known *known, const struct world *world, enum answer_kind kind,
	size_t path, const char *name);

#endif
