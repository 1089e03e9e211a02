/*
 * The order of the answers of one process of an agent: none about a path is older than one before.
 *
 * Each answer is taken as the earliest moment of the registry's history at which it can have been
 * true, but not before the moment of the answer before, nor before the time that its age says. A
 * list, or the records of a directory, that lacks a path is an answer about that path, too.
 */
#ifndef TESTS_SIM_ORDER_H
#define TESTS_SIM_ORDER_H

#include "tests/sim/world.h"

/* An answer claims that an aspect of a path had this value, or the other one. */
struct claim {
	const char *path;
	enum world_aspect aspect;
	const char *value;     /* NULL: no node */
	const char *other;     /* NULL: there is none */
	int64_t not_before_ms; /* as its age says */
};

enum { ORDER_PATHS = 8 };

struct order {
	const char *const *paths; /* so many are asked for */
	size_t count;
	int64_t from_ms[ORDER_PATHS][2]; /* answers to come are no older, by the aspect */
};

/* `paths` is borrowed and has at most ORDER_PATHS elements. */
void order_init(struct order *order, const char *const *paths, size_t count);
/* Another process begins. */
void order_forget(struct order *order);
/* False: the claim is older than one before. */
bool order_take(struct order *order, const struct world *world, const struct claim *claim);
/*
 * Claims to come are no older than this state of a path, one of the order's: the record, or no node
 * (NULL).
 */
void order_hear(
	struct order *order, const struct world *world, const char *path, const json_t *record);

#endif
