#include "lib/shared/read.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/fetch_ahead.h"
#include "lib/shared/hash.h"

enum { TRIES = 16 }; /* of a slot that is being written */

static inline uint64_t load(shared_word *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/* ---- opening ---- */

/* A file without them could shrink under the reader (SIGBUS), or change by another hand. */
static bool is_sealed(int fd)
{
	const int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
	int seals = fcntl(fd, F_GET_SEALS);
	return seals >= 0 && (seals & needed) == needed;
}

/* 0 when nobody can say: such a reader could not compare its clock with the agent's. */
static uint64_t time_namespace(void)
{
	struct stat stat_of;
	return stat("/proc/self/ns/time", &stat_of) == 0 ? (uint64_t)stat_of.st_ino : 0;
}

static bool is_consistent(const struct shared_map *map)
{
	shared_word *header = map->words;
	size_t arena = SHARED_HEADER_BYTES + map->slots * SHARED_SLOT_BYTES;
	return load(&header[SHARED_H_MAGIC]) == SHARED_MAGIC &&
		load(&header[SHARED_H_VERSION]) == SHARED_VERSION &&
		load(&header[SHARED_H_SIZE]) == map->size && map->slots > 0 &&
		map->slots <= map->size / SHARED_SLOT_BYTES &&
		(map->slots & (map->slots - 1)) == 0 && map->arena == arena &&
		map->arena <= map->size;
}

bool shared_map_open(struct shared_map *map, int fd)
{
	struct stat stat_of;
	if (!is_sealed(fd) || fstat(fd, &stat_of) != 0 || stat_of.st_size < SHARED_HEADER_BYTES ||
		stat_of.st_size > SHARED_MAX_BYTES || stat_of.st_size % SHARED_WORD_BYTES != 0) {
		return false;
	}
	size_t size = (size_t)stat_of.st_size;
	void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		return false;
	}
	shared_word *words = memory;
	struct shared_map opened = { .words = words,
		.size = size,
		.slots = (size_t)load(&words[SHARED_H_SLOTS]),
		.arena = (size_t)load(&words[SHARED_H_ARENA]),
		.key = { load(&words[SHARED_H_KEY_0]), load(&words[SHARED_H_KEY_1]) } };
	uint64_t own = time_namespace();
	if (!is_consistent(&opened) || own == 0 || load(&words[SHARED_H_TIME_NAMESPACE]) != own) {
		munmap(memory, size);
		return false;
	}
	*map = opened;
	return true;
}

void shared_map_close(struct shared_map *map)
{
	if (map->words) {
		munmap((void *)(uintptr_t)map->words, map->size);
		map->words = NULL;
	}
}

/* ---- the lease ---- */

static inline uint64_t now_ns(void)
{
	struct timespec now;
	/* Unlike CLOCK_MONOTONIC it goes on while the machine sleeps. */
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline enum shared_outcome judge(const struct shared_map *map)
{
	uint64_t state = load(&map->words[SHARED_H_STATE]);
	uint64_t live_until_ns = load(&map->words[SHARED_H_LIVE_UNTIL]);
	if (state != SHARED_LIVE) {
		return state == SHARED_RETIRED ? SHARED_GONE : SHARED_UNKNOWN;
	}
	return now_ns() < live_until_ns ? SHARED_FOUND : SHARED_EXPIRED;
}

/* ---- one slot ---- */

static inline shared_word *slot_at(const struct shared_map *map, size_t index)
{
	return map->words + (SHARED_HEADER_BYTES + index * SHARED_SLOT_BYTES) / SHARED_WORD_BYTES;
}

static void copy_out(char *to, shared_word *from, size_t len)
{
	for (; len >= SHARED_WORD_BYTES; len -= SHARED_WORD_BYTES, to += SHARED_WORD_BYTES) {
		uint64_t word = load(from++);
		memcpy(to, &word, SHARED_WORD_BYTES);
	}
	if (len > 0) {
		uint64_t word = load(from);
		memcpy(to, &word, len);
	}
}

static bool same_key(shared_word *words, const char *key, size_t len)
{
	for (; len >= SHARED_WORD_BYTES; len -= SHARED_WORD_BYTES, key += SHARED_WORD_BYTES) {
		uint64_t word = load(words++);
		if (memcmp(&word, key, SHARED_WORD_BYTES) != 0) {
			return false;
		}
	}
	uint64_t word = load(words);
	return memcmp(&word, key, len) == 0;
}

/* ELSEWHERE: the slot is another key's. TORN: it was written meanwhile. */
enum look { LOOK_HERE, LOOK_ELSEWHERE, LOOK_ASK, LOOK_TORN };

/* Reads the words as they are now; the caller finds out whether they are of one time. */
static enum look look_at(const struct shared_map *map, shared_word *slot, const char *key,
	size_t key_len, char *value, size_t size, struct shared_answer *answer)
{
	uint64_t offset = load(&slot[SHARED_S_OFFSET]);
	uint64_t lengths = load(&slot[SHARED_S_LENGTHS]);
	uint64_t status = load(&slot[SHARED_S_STATUS]);
	size_t value_len = (size_t)(lengths >> 32);
	if ((uint32_t)lengths != key_len) {
		return LOOK_ELSEWHERE;
	}
	/* The bounds come before the first look: a damaged map leads nowhere else. */
	if (value_len > SHARED_VALUE_BYTES || offset % SHARED_WORD_BYTES != 0 ||
		offset < map->arena || offset > map->size ||
		shared_block_bytes(key_len, value_len) > map->size - offset) {
		return LOOK_ASK;
	}
	shared_word *block = map->words + offset / SHARED_WORD_BYTES;
	fetch_ahead(block, shared_block_bytes(key_len, value_len));
	if (!same_key(block, key, key_len)) {
		return LOOK_ELSEWHERE;
	}
	bool is_error = (uint32_t)status == SHARED_ERROR;
	if ((!is_error && (uint32_t)status != SHARED_ANSWER) || value_len >= size) {
		return LOOK_ASK;
	}
	block += shared_key_room(key_len) / SHARED_WORD_BYTES;
	copy_out(answer->tag, block, SHARED_TAG_BYTES);
	copy_out(value, block + SHARED_TAG_BYTES / SHARED_WORD_BYTES, value_len);
	answer->len = value_len;
	answer->error = is_error ? -(int)(status >> 32 & 0xffff) : 0;
	return LOOK_HERE;
}

static inline void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * One reading of a slot. That its sequence is the same before and after means that no word in
 * between is of a later write: had one been, the writer's release fence before that word and the
 * fence here would let the second load see the writer's odd sequence. The lease is read between
 * both, so that the answer still holds when the lease is found to hold.
 */
static enum look look_once(const struct shared_map *map, size_t index, const char *key,
	size_t key_len, char *value, size_t size, struct shared_answer *answer,
	enum shared_outcome *ret_outcome)
{
	shared_word *slot = slot_at(map, index);
	uint64_t sequence = atomic_load_explicit(&slot[SHARED_S_SEQUENCE], memory_order_acquire);
	if (sequence & 1) {
		return LOOK_TORN;
	}
	enum look look = look_at(map, slot, key, key_len, value, size, answer);
	atomic_thread_fence(memory_order_acquire);
	*ret_outcome = look == LOOK_HERE ? judge(map) : SHARED_UNKNOWN;
	atomic_thread_fence(memory_order_acquire);
	answer->place = (struct shared_place){ index, sequence };
	return load(&slot[SHARED_S_SEQUENCE]) == sequence ? look : LOOK_TORN;
}

static enum look read_slot(const struct shared_map *map, size_t index, const char *key,
	size_t key_len, char *value, size_t size, struct shared_answer *answer,
	enum shared_outcome *ret_outcome)
{
	enum look look = LOOK_TORN;
	for (int tries = 0; look == LOOK_TORN && tries < TRIES; tries++) {
		if (tries > 0) {
			pause_a_little();
		}
		look = look_once(map, index, key, key_len, value, size, answer, ret_outcome);
	}
	return look;
}

/* ---- reading ---- */

enum shared_outcome shared_map_read(const struct shared_map *map, const char *key, size_t key_len,
	char *value, size_t size, struct shared_answer *ret_answer)
{
	if (key_len > SHARED_KEY_BYTES) {
		return SHARED_UNKNOWN;
	}
	uint64_t hash = shared_hash(map->key, key, key_len);
	enum look look = LOOK_ELSEWHERE;
	enum shared_outcome outcome = SHARED_UNKNOWN;
	for (size_t i = 0; look == LOOK_ELSEWHERE && i < SHARED_PROBES; i++) {
		size_t index = (size_t)(hash + i) & (map->slots - 1);
		/* A slot never changes its key within a map. */
		uint64_t found = load(&slot_at(map, index)[SHARED_S_HASH]);
		if (found == 0) {
			break;
		}
		if (found == hash) {
			look = read_slot(
				map, index, key, key_len, value, size, ret_answer, &outcome);
		}
	}
	if (look == LOOK_HERE && outcome == SHARED_FOUND) {
		value[ret_answer->len] = '\0';
		ret_answer->tag[SHARED_TAG_BYTES - 1] = '\0';
		return SHARED_FOUND;
	}
	/* Why there is no answer matters less than whether the map is worth another look. */
	outcome = judge(map);
	return outcome == SHARED_FOUND ? SHARED_UNKNOWN : outcome;
}

enum shared_outcome shared_map_unchanged(
	const struct shared_map *map, const struct shared_place *place)
{
	shared_word *sequence = &slot_at(map, place->slot)[SHARED_S_SEQUENCE];
	enum shared_outcome outcome = judge(map);
	atomic_thread_fence(memory_order_acquire);
	return outcome == SHARED_FOUND && load(sequence) != place->sequence ? SHARED_UNKNOWN
									    : outcome;
}
