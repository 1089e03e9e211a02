/*
 * The agent's shared map, as one handle reads it (lib/shared/read.h): asked for at the third
 * look-up, so that a program that looks up once pays nothing; asked for again when the agent has
 * retired it. Everything that the map cannot answer is for the socket.
 */
#ifndef LIB_CLIENT_MEMORY_H
#define LIB_CLIENT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/shared/read.h"

/* Zero is a good beginning. */
struct memory {
	bool off;
	bool never; /* the agent has no map that could be used here, as far as is known */
	bool found; /* the last look-up; `place` is where */
	unsigned lookups;
	int64_t next_ms;    /* no map is asked for before */
	int64_t expired_ms; /* when the lease was found to be over, look-up after look-up; 0: not */
	struct shared_map map;
	uint64_t maps; /* how many were opened */
	char *value;   /* of the last answer that was found, with a NUL; room for any */
	struct shared_answer answer;
};

/* Is it on, and may the agent have a map? */
bool memory_may_help(const struct memory *memory);
/* Gives the map back. */
void memory_close(struct memory *memory);
void memory_set(struct memory *memory, bool on);

/*
 * Looks for the answer to a request with this target; true: it is in memory->answer and
 * memory->value. Asks the agent at `socket_path` for a map when it is time to, and waits
 * `timeout_ms` for it at most.
 */
bool memory_read(
	struct memory *memory, const char *target, const char *socket_path, int timeout_ms);
/* The answer that the socket gives should be in the map for the next look-up. */
bool memory_is_open(const struct memory *memory);

/* An answer that was found, and may be asked for again. */
struct memory_place {
	uint64_t map; /* 0: none */
	struct shared_place place;
};

/* Of the last look-up. */
struct memory_place memory_place(const struct memory *memory);
/* Is the answer there still what it was, and true? Makes no system call. */
bool memory_unchanged(const struct memory *memory, const struct memory_place *place);

#endif
