/*
 * The writer of a shared map (lib/shared/layout.h): a sealed memory file, its slots and blocks.
 *
 *   map_create() --FILLED--> map_begin() --LIVE--> map_destroy(): RETIRED
 *
 * One process writes; readers in any process see each slot before or after a change, never in
 * between. A slot keeps its key for the life of the map, and its block as long as its content fits.
 * An answer for which there is no room needs a larger map.
 */
#ifndef AGENT_SHARED_MAP_H
#define AGENT_SHARED_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/shared/layout.h"

struct map;

/* The content of a slot. Texts are borrowed. */
struct map_entry {
	const char *key;
	size_t key_len;  /* SHARED_KEY_BYTES at most */
	const char *tag; /* less than SHARED_TAG_BYTES */
	const char *value;
	size_t value_len; /* SHARED_VALUE_BYTES at most */
	int error;        /* 0, or an enum berth_error */
};

#define MAP_NONE SIZE_MAX

/*
 * A map of `size` bytes, a power of 2 and 64 KiB at least. BERTH_FAILED: the kernel has no memory
 * or no descriptor for it, or cannot seal it.
 */
int map_create(struct map **ret_map, size_t size, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* Retires it; readers that still map it find that. Accepts NULL. */
void map_destroy(struct map *map);
/* From now on readers may use it, until `live_until_ns` of CLOCK_BOOTTIME; see map_extend(). */
void map_begin(struct map *map, uint64_t live_until_ns);

/* The file, for readers. It stays the map's. */
int map_fd(const struct map *map);
size_t map_size(const struct map *map);
size_t map_slots(const struct map *map);

/*
 * The slot with this answer from now on, or MAP_NONE: the map has no room for it; a slot with an
 * older answer of that key then says that the socket has to be asked.
 */
size_t map_put(struct map *map, const struct map_entry *entry);
/* From now on readers of the slot's key ask the socket. */
void map_ask(struct map *map, size_t slot);
/* The content of the slot, borrowed until it changes. False for a slot that holds no answer. */
bool map_get(const struct map *map, size_t slot, struct map_entry *ret_entry);

/* Sets the lease. All that is not true any more has been taken back before. */
void map_extend(struct map *map, uint64_t live_until_ns);

#endif
