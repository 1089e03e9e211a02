/*
 * The reader of a shared map: an answer of the agent in some hundred nanoseconds, without a system
 * call, and as true as X-Cache: HIT with Age: 0 on the socket.
 *
 * The agent's word for the truth is a lease: the map answers until the time up to which the
 * agent could answer so itself. An agent that was killed, frozen or cut off does not extend it.
 * With a map that is retired, torn again and again, or damaged, the outcome is that the socket has
 * to be asked: no content of a map makes the reader crash, hang, or read outside of it.
 *
 * A struct shared_map is read only after shared_map_open(), so any number of threads may read one
 * at a time; whoever closes it sees to it that none does any more. A forked child may read on.
 */
#ifndef LIB_SHARED_READ_H
#define LIB_SHARED_READ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/shared/layout.h"

typedef const _Atomic uint64_t shared_word;

struct shared_map {
	shared_word *words; /* the whole file; NULL: none is open */
	size_t size;
	size_t slots;
	size_t arena;
	uint64_t key[2];
};

enum shared_outcome {
	SHARED_FOUND,
	SHARED_UNKNOWN, /* not in the map, or not now: the socket knows */
	SHARED_EXPIRED, /* the lease is over: the socket knows, and the agent extends the lease */
	SHARED_GONE     /* the map is retired: the socket knows, and has another map */
};

/* Where an answer was found; the map says with one look whether it is still there. */
struct shared_place {
	size_t slot;
	uint64_t sequence;
};

struct shared_answer {
	size_t len;                 /* of the value, which was copied */
	int error;                  /* 0, or an enum berth_error: the value is its text */
	char tag[SHARED_TAG_BYTES]; /* ends with NUL */
	struct shared_place place;
};

/*
 * Maps the file behind `fd`, which stays the caller's and may be closed at once. False: it is not a
 * map that can be trusted not to shrink or change under the reader (its seals), or it is of another
 * version or another time namespace. Allocates nothing.
 */
bool shared_map_open(struct shared_map *map, int fd);
/* Accepts a map that is not open: one of zeros. */
void shared_map_close(struct shared_map *map);

/*
 * Looks for the answer to a request with this target ("/v1/resolve/services/db"; for text a blank
 * and "text/plain" follow). FOUND: its value is in `value`, which has room for `size` bytes, with a
 * NUL behind it; a value that does not fit is UNKNOWN.
 */
enum shared_outcome shared_map_read(const struct shared_map *map, const char *key, size_t key_len,
	char *value, size_t size, struct shared_answer *ret_answer);

/* The outcome that a second look for the answer at `place` would have; FOUND: it is the same. */
enum shared_outcome shared_map_unchanged(
	const struct shared_map *map, const struct shared_place *place);

#endif
