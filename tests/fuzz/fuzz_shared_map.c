/*
 * The reader of a shared map against images that are damaged: it reads nothing outside of the map,
 * and comes back with an outcome; what it finds is no longer than the room for it, and ends with
 * NUL. The image has some answers; the first byte of the input says which of them is looked for.
 * Then follow changes of a word, 11 bytes each: of which part, which word of it, how, and 8 bytes.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/shared/map.h"
#include "lib/shared/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { SIZE = 64 * 1024, WORDS = SIZE / SHARED_WORD_BYTES, ENTRIES = 4, CHANGE_BYTES = 11 };
enum { MOST_CHANGES = 64, HEADER_WORDS = 24, BLOCK_WORDS = 40 };

/* Lengths of keys and values at and near whole words, and of the longest value. */
static const struct {
	const char *key;
	size_t value_len;
	int error;
} entries[ENTRIES] = {
	{ "/v1/resolve/services/db", 120, 0 },
	{ "/v1/list/a", 0, 0 },
	{ "/v1/resolve/services/nothing", 31, BERTH_PATH_NOT_FOUND },
	{ "/v1/records/services", SHARED_VALUE_BYTES, 0 },
};

static int file;
static size_t slots[ENTRIES];
static uint64_t image[WORDS];     /* undamaged */
static _Atomic uint64_t *written; /* the file's memory, as a writer has it */
static char *guarded;             /* a place for the reader's, with nothing before or behind it */

/* A sealed file with the image, and a mapping for writing. */
static void make_file(void)
{
	file = memfd_create("damaged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert(file >= 0 && write(file, image, SIZE) == SIZE);
	written = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert(written != MAP_FAILED);
	assert(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0);
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	guarded = mmap(NULL, SIZE + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert(guarded != MAP_FAILED);
	guarded += page;
}

static void make_image(void)
{
	static char value[SHARED_VALUE_BYTES];
	struct err err = ERR_INIT;
	struct map *map;
	struct shared_map reader;
	memset(value, 'v', sizeof(value));
	assert(map_create(&map, SIZE, &err) == 0);
	map_begin(map, INT64_MAX);
	for (size_t i = 0; i < ENTRIES; i++) {
		const struct map_entry entry = { .key = entries[i].key,
			.key_len = strlen(entries[i].key),
			.tag = "\"0-1\"",
			.value = value,
			.value_len = entries[i].value_len,
			.error = entries[i].error };
		slots[i] = map_put(map, &entry);
		assert(slots[i] != MAP_NONE);
	}
	assert(shared_map_open(&reader, map_fd(map)));
	memcpy(image, (const void *)(uintptr_t)reader.words, SIZE);
	shared_map_close(&reader);
	map_destroy(map);
}

/* A part of the image: the header, a slot or a block of an answer, or anything. */
static size_t word_of(uint8_t part, uint8_t number)
{
	size_t slot = SHARED_HEADER_BYTES / SHARED_WORD_BYTES +
		slots[part / 4 % ENTRIES] * SHARED_SLOT_WORDS;
	size_t block = image[slot + SHARED_S_OFFSET] / SHARED_WORD_BYTES;
	switch (part % 4) {
	case 0:
		return number % HEADER_WORDS;
	case 1:
		return slot + number % SHARED_SLOT_WORDS;
	case 2:
		return block + number % BLOCK_WORDS;
	default:
		return (size_t)part * number % WORDS;
	}
}

static void change(size_t at, uint8_t how, const uint8_t bytes[8])
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	written[at] = how % 3 == 0 ? value
		: how % 3 == 1     ? written[at] + value
				   : written[at] ^ value;
}

static void check_found(const char *value, const struct shared_answer *answer)
{
	assert(answer->len <= SHARED_VALUE_BYTES);
	assert(value[answer->len] == '\0');
	assert(answer->tag[SHARED_TAG_BYTES - 1] == '\0');
	assert(answer->error <= 0);
}

static void read_it(const struct shared_map *reader, size_t which)
{
	static char value[SHARED_VALUE_BYTES + 1];
	struct shared_answer answer = { .len = 0 };
	const char *key = entries[which].key;
	enum shared_outcome outcome = shared_map_read(
		reader, key, strlen(key), value, sizeof(value), &answer);
	assert(outcome >= SHARED_FOUND && outcome <= SHARED_GONE);
	if (outcome == SHARED_FOUND) {
		check_found(value, &answer);
		assert(shared_map_unchanged(reader, &answer.place) == SHARED_FOUND);
	}
}

/* The reader maps the file before it is damaged, or after. */
static void look(size_t which, bool opens_before, const uint8_t *changes, size_t count)
{
	struct shared_map reader = { .words = NULL };
	size_t changed[MOST_CHANGES];
	bool opened = opens_before && shared_map_open(&reader, file);
	for (size_t i = 0; i < count; i++) {
		const uint8_t *at = changes + i * CHANGE_BYTES;
		changed[i] = word_of(at[0], at[1]);
		change(changed[i], at[2], at + 3);
	}
	opened = opened || (!opens_before && shared_map_open(&reader, file));
	if (opened) {
		reader.words = mremap((void *)(uintptr_t)reader.words, SIZE, SIZE,
			MREMAP_MAYMOVE | MREMAP_FIXED, guarded);
		assert(reader.words != MAP_FAILED);
		read_it(&reader, which);
		assert(mmap(guarded, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			       0) == guarded);
	}
	for (size_t i = 0; i < count; i++) {
		written[changed[i]] = image[changed[i]];
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!written) {
		make_image();
		make_file();
	}
	if (len > 0) {
		size_t count = (len - 1) / CHANGE_BYTES;
		count = count < MOST_CHANGES ? count : MOST_CHANGES;
		look(data[0] % ENTRIES, true, data + 1, count);
		look(data[0] % ENTRIES, false, data + 1, count);
	}
	return 0;
}
