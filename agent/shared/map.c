#include "agent/shared/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/random_bytes.h"
#include "lib/shared/hash.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

enum {
	BYTES_PER_SLOT = 512,
	USED_SLOTS_IN_4 = 3, /* of four slots; more would make long searches */
	SMALLEST_BLOCK = 256,
	CLASSES = 8 /* of blocks: 256 bytes, 512, … 32 KiB */
};

typedef _Atomic uint64_t word;

struct map {
	word *words;
	int fd;
	size_t size;
	size_t slots;
	size_t used;
	size_t arena_end; /* of what has become blocks */
	uint64_t key[2];
	uint64_t serial;
	uint64_t free_blocks[CLASSES]; /* offset of the first; each begins with that of the next */
	unsigned char *classes;        /* of each slot's block */
};

static void store(word *at, uint64_t value)
{
	atomic_store_explicit(at, value, memory_order_relaxed);
}

static uint64_t load(const word *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static word *slot_at(const struct map *map, size_t slot)
{
	return map->words + (SHARED_HEADER_BYTES + slot * SHARED_SLOT_BYTES) / SHARED_WORD_BYTES;
}

/* ---- making and ending ---- */

/*
 * Older kernels refuse the flag for files that cannot be executed. The seals are compared
 * afterwards: a file without them would not be a map.
 */
static int make_file(size_t size, struct err *err)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("berth-shared", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) {
		fd = memfd_create("berth-shared", flags);
	}
	if (fd < 0) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot make a memory file");
		return -1;
	}
	/* A hole would be filled at a reader's cost, or with SIGBUS. */
	int error = posix_fallocate(fd, 0, (off_t)size);
	if (error) {
		err_set_errno(err, BERTH_FAILED, error, "cannot get %zu bytes of memory", size);
		close(fd);
		return -1;
	}
	return fd;
}

/* The mapping for writing has to exist before FUTURE_WRITE: there will be no other. */
static int map_and_seal(struct map *map, struct err *err)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
	void *memory = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_SHARED, map->fd, 0);
	if (memory == MAP_FAILED) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot map a memory file");
	}
	map->words = memory;
	if (fcntl(map->fd, F_ADD_SEALS, seals) != 0 ||
		(fcntl(map->fd, F_GET_SEALS) & seals) != seals) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot seal a memory file");
	}
	return 0;
}

static uint64_t time_namespace(void)
{
	struct stat stat_of;
	return stat("/proc/self/ns/time", &stat_of) == 0 ? (uint64_t)stat_of.st_ino : 0;
}

static void write_header(struct map *map)
{
	(void)random_bytes(map->key, sizeof(map->key));
	store(&map->words[SHARED_H_VERSION], SHARED_VERSION);
	store(&map->words[SHARED_H_SIZE], map->size);
	store(&map->words[SHARED_H_SLOTS], map->slots);
	store(&map->words[SHARED_H_ARENA], map->arena_end);
	store(&map->words[SHARED_H_KEY_0], map->key[0]);
	store(&map->words[SHARED_H_KEY_1], map->key[1]);
	store(&map->words[SHARED_H_TIME_NAMESPACE], time_namespace());
	store(&map->words[SHARED_H_MAGIC], SHARED_MAGIC);
}

int map_create(struct map **ret_map, size_t size, struct err *err)
{
	struct map *map = allocate_zeroed(1, sizeof(*map));
	map->size = size;
	map->slots = size / BYTES_PER_SLOT;
	map->arena_end = SHARED_HEADER_BYTES + map->slots * SHARED_SLOT_BYTES;
	map->fd = make_file(size, err);
	if (map->fd < 0 || map_and_seal(map, err) != 0) {
		map_destroy(map);
		return err->code;
	}
	map->classes = allocate_zeroed(map->slots, 1);
	write_header(map);
	*ret_map = map;
	return 0;
}

void map_destroy(struct map *map)
{
	if (!map) {
		return;
	}
	if (map->words) {
		/* For a reader that has just seen it live. */
		map_extend(map, 0);
		atomic_store_explicit(
			&map->words[SHARED_H_STATE], SHARED_RETIRED, memory_order_release);
		munmap((void *)map->words, map->size);
	}
	if (map->fd >= 0) {
		close(map->fd);
	}
	free(map->classes);
	free(map);
}

void map_begin(struct map *map, uint64_t live_until_ns)
{
	map_extend(map, live_until_ns);
	atomic_store_explicit(&map->words[SHARED_H_STATE], SHARED_LIVE, memory_order_release);
}

void map_extend(struct map *map, uint64_t live_until_ns)
{
	atomic_store_explicit(
		&map->words[SHARED_H_LIVE_UNTIL], live_until_ns, memory_order_release);
}

int map_fd(const struct map *map)
{
	return map->fd;
}

size_t map_size(const struct map *map)
{
	return map->size;
}

size_t map_slots(const struct map *map)
{
	return map->slots;
}

/* ---- blocks ---- */

static size_t class_bytes(size_t class)
{
	return (size_t)SMALLEST_BLOCK << class;
}

static size_t class_of(size_t bytes)
{
	size_t class = 0;
	while (class_bytes(class) < bytes) {
		class ++;
	}
	return class;
}

/* The offset of a block, or 0. */
static uint64_t take_block(struct map *map, size_t class)
{
	uint64_t block = map->free_blocks[class];
	if (block) {
		map->free_blocks[class] = load(&map->words[block / SHARED_WORD_BYTES]);
	} else if (class_bytes(class) <= map->size - map->arena_end) {
		block = map->arena_end;
		map->arena_end += class_bytes(class);
	}
	return block;
}

/* No slot leads to the block any more. */
static void give_block(struct map *map, uint64_t block, size_t class)
{
	if (block) {
		store(&map->words[block / SHARED_WORD_BYTES], map->free_blocks[class]);
		map->free_blocks[class] = block;
	}
}

/* ---- slots ---- */

/*
 * Between both calls a reader of the slot sees an odd sequence, or another one afterwards. The
 * fence keeps what is written in between, and to blocks that the slot has left before, behind it.
 */
static void begin_change(word *slot)
{
	store(&slot[SHARED_S_SEQUENCE], load(&slot[SHARED_S_SEQUENCE]) + 1);
	atomic_thread_fence(memory_order_release);
}

static void end_change(struct map *map, word *slot)
{
	atomic_store_explicit(
		&slot[SHARED_S_SEQUENCE], load(&slot[SHARED_S_SEQUENCE]) + 1, memory_order_release);
	store(&map->words[SHARED_H_SERIAL], ++map->serial);
}

static void copy_in(word *to, const char *from, size_t len)
{
	for (; len >= SHARED_WORD_BYTES; len -= SHARED_WORD_BYTES, from += SHARED_WORD_BYTES) {
		uint64_t value;
		memcpy(&value, from, SHARED_WORD_BYTES);
		store(to++, value);
	}
	uint64_t value = 0;
	memcpy(&value, from, len);
	store(to, value); /* the NUL at least */
}

static const char *text_at(const struct map *map, uint64_t offset)
{
	return (const char *)(uintptr_t)map->words + offset;
}

/* The key's slot, or one that it can have; MAP_NONE: neither is near. */
static size_t find_slot(const struct map *map, const struct map_entry *entry, uint64_t hash)
{
	for (size_t i = 0; i < SHARED_PROBES; i++) {
		size_t index = (size_t)(hash + i) & (map->slots - 1);
		const word *slot = slot_at(map, index);
		uint64_t found = load(&slot[SHARED_S_HASH]);
		if (found == 0) {
			return 4 * map->used < USED_SLOTS_IN_4 * map->slots ? index : MAP_NONE;
		}
		if (found == hash && (uint32_t)load(&slot[SHARED_S_LENGTHS]) == entry->key_len &&
			memcmp(text_at(map, load(&slot[SHARED_S_OFFSET])), entry->key,
				entry->key_len) == 0) {
			return index;
		}
	}
	return MAP_NONE;
}

static void write_block(const struct map *map, uint64_t offset, const struct map_entry *entry)
{
	char tag[SHARED_TAG_BYTES] = "";
	size_t tag_len = strlen(entry->tag);
	word *at = map->words + offset / SHARED_WORD_BYTES;
	memcpy(tag, entry->tag, tag_len < sizeof(tag) ? tag_len : sizeof(tag) - 1);
	copy_in(at, entry->key, entry->key_len);
	at += shared_key_room(entry->key_len) / SHARED_WORD_BYTES;
	for (size_t i = 0; i < SHARED_TAG_BYTES; i += SHARED_WORD_BYTES) {
		uint64_t value;
		memcpy(&value, tag + i, sizeof(value));
		store(at++, value);
	}
	copy_in(at, entry->value, entry->value_len);
}

size_t map_put(struct map *map, const struct map_entry *entry)
{
	uint64_t hash = shared_hash(map->key, entry->key, entry->key_len);
	size_t index = find_slot(map, entry, hash);
	if (index == MAP_NONE) {
		return MAP_NONE;
	}
	word *slot = slot_at(map, index);
	size_t class = class_of(shared_block_bytes(entry->key_len, entry->value_len));
	uint64_t old = load(&slot[SHARED_S_OFFSET]);
	bool moves = old == 0 || map->classes[index] < class;
	uint64_t block = moves ? take_block(map, class) : old;
	if (!block) {
		if (old) {
			map_ask(map, index);
		}
		return MAP_NONE;
	}
	map->used += load(&slot[SHARED_S_HASH]) == 0;
	begin_change(slot);
	store(&slot[SHARED_S_OFFSET], block);
	store(&slot[SHARED_S_LENGTHS], (uint64_t)entry->value_len << 32 | entry->key_len);
	store(&slot[SHARED_S_STATUS],
		entry->error ? (uint64_t)-entry->error << 32 | SHARED_ERROR : SHARED_ANSWER);
	write_block(map, block, entry);
	store(&slot[SHARED_S_HASH], hash);
	end_change(map, slot);
	if (moves) {
		give_block(map, old, map->classes[index]);
		map->classes[index] = (unsigned char)class;
	}
	return index;
}

void map_ask(struct map *map, size_t index)
{
	word *slot = slot_at(map, index);
	begin_change(slot);
	store(&slot[SHARED_S_STATUS], SHARED_ASK);
	end_change(map, slot);
}

bool map_get(const struct map *map, size_t index, struct map_entry *ret_entry)
{
	const word *slot = slot_at(map, index);
	uint64_t status = load(&slot[SHARED_S_STATUS]);
	uint64_t lengths = load(&slot[SHARED_S_LENGTHS]);
	const char *block = text_at(map, load(&slot[SHARED_S_OFFSET]));
	size_t key_len = (uint32_t)lengths;
	if (load(&slot[SHARED_S_HASH]) == 0 || (uint32_t)status == SHARED_ASK) {
		return false;
	}
	*ret_entry = (struct map_entry){ .key = block,
		.key_len = key_len,
		.tag = block + shared_key_room(key_len),
		.value = block + shared_key_room(key_len) + SHARED_TAG_BYTES,
		.value_len = (size_t)(lengths >> 32),
		.error = -(int)(status >> 32) };
	return true;
}
