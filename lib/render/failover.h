/*
 * Failover: which of several paths a set comes from. Pure.
 *
 * The paths are in the order of preference. The nearest is always in use; the next one comes in
 * when fewer than the wanted number of instances are there, and so on. It goes out again only when
 * the nearer ones have had enough for some time without a break, so that the set does not flap.
 *
 * Each path is confirmed by itself, and no decision rests on an unconfirmed path: it neither comes
 * in nor counts as empty, the paths behind it neither come in nor go out, and the paths before it
 * are not concerned.
 */
#ifndef LIB_RENDER_FAILOVER_H
#define LIB_RENDER_FAILOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One path at the time of a decision. */
struct failover_path {
	bool confirmed;
	size_t instances;
};

/* The state of one set; zeroed at first. */
struct failover {
	size_t further; /* so many paths behind the nearest one are in use */
	size_t enough;  /* so many of them would do, since some time */
	int64_t since_ms;
	bool holds;   /* ... and the others go out at the end of that time */
	bool blocked; /* more are needed, and the next path is not confirmed */
};

/*
 * Asks `know` about one path after the other, the nearest first, as far as a decision needs them,
 * and decides anew. Returns the number of paths in use, 1 at least, all of which were asked about;
 * 0 when `know` returned false, and nothing is decided.
 */
size_t failover_walk(struct failover *failover, size_t count, size_t least, int64_t hold_ms,
	int64_t now_ms, bool (*know)(void *context, size_t index, struct failover_path *ret_path),
	void *context);

/* When a decision is due although nothing changes, in milliseconds from now; -1: none is. */
int64_t failover_due_ms(const struct failover *failover, int64_t hold_ms, int64_t now_ms);

#endif
