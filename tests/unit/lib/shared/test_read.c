/* The reader: answers that it finds, reasons to ask the socket, and files that it refuses. */
#include "lib/base/array.h"
#include "lib/shared/read.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/shared/map.h"
#include "tests/support/clock_call.h"
#include "tests/support/staged.h"

#define FOREVER INT64_MAX
#define KEY "/v1/resolve/services/db"

enum { SIZE = 64 * 1024 };

struct stage {
	struct map *map;
	struct shared_map reader;
	struct shared_answer answer;
	char value[SHARED_VALUE_BYTES + 1];
};

/*
 * Each time the reader looks at the clock: it has copied an answer then, and does not know yet
 * whether it is of one time.
 */
static void (*at_look)(void);

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (at_look) {
		at_look();
	}
	return (int)syscall(CLOCK_CALL, clock, now);
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct map_entry entry_of(const char *key, const char *value)
{
	return (struct map_entry){ .key = key,
		.key_len = strlen(key),
		.tag = "\"0-1\"",
		.value = value,
		.value_len = strlen(value) };
}

static size_t put(const struct stage *stage, const char *key, const char *value)
{
	const struct map_entry entry = entry_of(key, value);
	return map_put(stage->map, &entry);
}

static enum shared_outcome look(struct stage *stage, const char *key)
{
	return shared_map_read(&stage->reader, key, strlen(key), stage->value, sizeof(stage->value),
		&stage->answer);
}

static struct stage *begin(void)
{
	struct err err = ERR_INIT;
	struct stage *stage = calloc(1, sizeof(*stage));
	cr_assert(stage);
	cr_assert_eq(map_create(&stage->map, SIZE, &err), 0, "%s", err.msg);
	map_begin(stage->map, FOREVER);
	cr_assert(shared_map_open(&stage->reader, map_fd(stage->map)));
	return stage;
}

static void end(struct stage *stage)
{
	shared_map_close(&stage->reader);
	shared_map_close(&stage->reader); /* accepts one that is closed */
	map_destroy(stage->map);
	free(stage);
}

#define READ_TEST(name) STAGED_TEST(shared_read, name, struct stage *, stage, begin(), end)

READ_TEST(an_answer_is_found_with_its_tag_and_ends_with_nul)
{
	memset(stage->value, 'x', sizeof(stage->value));
	put(stage, KEY, "{\"a\":1}");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	cr_assert_str_eq(stage->value, "{\"a\":1}");
	cr_assert_eq(stage->answer.len, 7);
	cr_assert_eq(stage->answer.error, 0);
	cr_assert_str_eq(stage->answer.tag, "\"0-1\"");
}

READ_TEST(values_of_every_length_come_whole)
{
	char value[64] = "";
	for (size_t len = 0; len < sizeof(value) - 1; len++) {
		put(stage, KEY, value);
		cr_assert_eq(look(stage, KEY), SHARED_FOUND);
		cr_assert_str_eq(stage->value, value);
		value[len] = (char)('a' + len % 26);
	}
	char *longest = calloc(1, SHARED_VALUE_BYTES + 1);
	cr_assert(longest);
	memset(longest, 'z', SHARED_VALUE_BYTES);
	put(stage, KEY, longest);
	cr_expect_eq(look(stage, KEY), SHARED_FOUND);
	cr_expect_str_eq(stage->value, longest);
	free(longest);
}

READ_TEST(a_key_that_is_not_there_is_unknown)
{
	put(stage, KEY, "1");
	cr_expect_eq(look(stage, "/v1/resolve/services/d"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, "/v1/resolve/services/db2"), SHARED_UNKNOWN);
	cr_expect_eq(look(stage, ""), SHARED_UNKNOWN);
	char key[SHARED_KEY_BYTES + 2];
	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	cr_expect_eq(look(stage, key), SHARED_UNKNOWN);
}

/* As if two keys had one hash. */
READ_TEST(a_key_that_only_ends_alike_is_another)
{
	char first[] = "/v1/resolve/services/db";
	put(stage, first, "1");
	cr_assert_eq(look(stage, first), SHARED_FOUND);
	uint64_t *copy = malloc(SIZE);
	cr_assert(copy);
	memcpy(copy, (const void *)stage->reader.words, SIZE);
	struct shared_map other = stage->reader;
	other.words = (shared_word *)copy;
	const size_t slot = stage->answer.place.slot;
	const uint64_t *words = copy + (SHARED_HEADER_BYTES + slot * SHARED_SLOT_BYTES) / 8;
	char *key = (char *)(copy + words[SHARED_S_OFFSET] / 8);
	cr_assert_eq(strncmp(key, first, strlen(first)), 0);
	key[1] = 'w';
	cr_expect_eq(shared_map_read(&other, first, strlen(first), stage->value,
			     sizeof(stage->value), &stage->answer),
		SHARED_UNKNOWN);
	free(copy);
}

/* A copy of the map, as if it were another writer's; free() its words. */
static struct shared_map copy_map(const struct stage *stage)
{
	struct shared_map copy = stage->reader;
	uint64_t *words = malloc(SIZE);
	cr_assert(words);
	memcpy(words, (const void *)stage->reader.words, SIZE);
	copy.words = (shared_word *)words;
	return copy;
}

static uint64_t *slot_of(const struct shared_map *copy, size_t slot)
{
	return (uint64_t *)(uintptr_t)copy->words +
		(SHARED_HEADER_BYTES + slot * SHARED_SLOT_BYTES) / 8;
}

/* As if two keys of different lengths had one hash. */
READ_TEST(a_longer_or_shorter_key_is_another)
{
	put(stage, KEY, "1");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	struct shared_map copy = copy_map(stage);
	uint64_t *slot = slot_of(&copy, stage->answer.place.slot);
	for (int more = -1; more <= 1; more++) {
		const uint64_t lengths = slot[SHARED_S_LENGTHS];
		slot[SHARED_S_LENGTHS] = lengths + (uint64_t)more;
		cr_expect_eq(shared_map_read(&copy, KEY, strlen(KEY), stage->value,
				     sizeof(stage->value), &stage->answer),
			more == 0 ? SHARED_FOUND : SHARED_UNKNOWN, "%d", more);
		slot[SHARED_S_LENGTHS] = lengths;
	}
	free((void *)(uintptr_t)copy.words);
}

/* A damaged slot. */
READ_TEST(a_place_outside_of_the_answers_is_for_the_socket)
{
	put(stage, KEY, "1");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	struct shared_map copy = copy_map(stage);
	uint64_t *slot = slot_of(&copy, stage->answer.place.slot);
	const uint64_t good = slot[SHARED_S_OFFSET], lengths = slot[SHARED_S_LENGTHS];
	const uint64_t offsets[] = { 0, copy.arena - 8, good + 4, copy.size - 8, copy.size,
		copy.size + 8, UINT64_MAX - 7 };
	for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
		slot[SHARED_S_OFFSET] = offsets[i];
		cr_expect_eq(shared_map_read(&copy, KEY, strlen(KEY), stage->value,
				     sizeof(stage->value), &stage->answer),
			SHARED_UNKNOWN, "%zu", i);
	}
	slot[SHARED_S_OFFSET] = good;
	slot[SHARED_S_LENGTHS] = (uint64_t)(SHARED_VALUE_BYTES + 1) << 32 | strlen(KEY);
	cr_expect_eq(shared_map_read(&copy, KEY, strlen(KEY), stage->value, sizeof(stage->value),
			     &stage->answer),
		SHARED_UNKNOWN);
	slot[SHARED_S_LENGTHS] = lengths;
	slot[SHARED_S_STATUS] = 7;
	cr_expect_eq(shared_map_read(&copy, KEY, strlen(KEY), stage->value, sizeof(stage->value),
			     &stage->answer),
		SHARED_UNKNOWN);
	free((void *)(uintptr_t)copy.words);
}

READ_TEST(a_tag_ends_whatever_is_in_the_map)
{
	put(stage, KEY, "1");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	struct shared_map copy = copy_map(stage);
	const uint64_t *slot = slot_of(&copy, stage->answer.place.slot);
	char *block = (char *)(uintptr_t)copy.words + slot[SHARED_S_OFFSET];
	memset(block + shared_key_room(strlen(KEY)), 't', SHARED_TAG_BYTES);
	cr_assert_eq(shared_map_read(&copy, KEY, strlen(KEY), stage->value, sizeof(stage->value),
			     &stage->answer),
		SHARED_FOUND);
	cr_expect_eq(strnlen(stage->answer.tag, SHARED_TAG_BYTES), SHARED_TAG_BYTES - 1);
	free((void *)(uintptr_t)copy.words);
}

/* Their slots follow one another; a few may be too far away. */
READ_TEST(keys_that_want_one_slot_are_all_found)
{
	enum { KEYS = 80 };
	bool is_there[KEYS];
	char key[32];
	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "/v1/resolve/%d", i);
		is_there[i] = put(stage, key, key) != MAP_NONE;
	}
	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof(key), "/v1/resolve/%d", i);
		cr_assert_eq(
			look(stage, key), is_there[i] ? SHARED_FOUND : SHARED_UNKNOWN, "%d", i);
		cr_assert(!is_there[i] || strcmp(stage->value, key) == 0, "%d", i);
	}
}

/* ---- a slot that changes while it is read ---- */

static const struct stage *changing;
static uint64_t *changing_slot;

static void put_another(void)
{
	at_look = NULL;
	put(changing, KEY, "{\"new\":1}");
}

READ_TEST(an_answer_that_changes_under_the_reader_is_read_again)
{
	put(stage, KEY, "{\"old\":1}");
	changing = stage;
	at_look = put_another;
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	cr_assert_null(at_look);
	cr_expect_str_eq(stage->value, "{\"new\":1}");
	cr_expect_eq(shared_map_unchanged(&stage->reader, &stage->answer.place), SHARED_FOUND);
}

static void begin_a_change(void)
{
	at_look = NULL;
	changing_slot[SHARED_S_SEQUENCE]++;
}

READ_TEST(a_change_that_does_not_end_is_for_the_socket)
{
	put(stage, KEY, "1");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	struct shared_map copy = copy_map(stage);
	changing_slot = slot_of(&copy, stage->answer.place.slot);
	at_look = begin_a_change;
	cr_expect_eq(shared_map_read(&copy, KEY, strlen(KEY), stage->value, sizeof(stage->value),
			     &stage->answer),
		SHARED_UNKNOWN);
	cr_expect_null(at_look);
	free((void *)(uintptr_t)copy.words);
}

READ_TEST(an_error_comes_with_its_code_and_text)
{
	struct map_entry entry = entry_of(KEY, "no such path: /services/db");
	entry.error = BERTH_PATH_NOT_FOUND;
	map_put(stage->map, &entry);
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	cr_assert_eq(stage->answer.error, BERTH_PATH_NOT_FOUND);
	cr_assert_str_eq(stage->value, "no such path: /services/db");
}

READ_TEST(a_value_that_does_not_fit_into_the_readers_memory_is_for_the_socket)
{
	char small[8];
	put(stage, KEY, "12345678");
	cr_expect_eq(shared_map_read(&stage->reader, KEY, strlen(KEY), small, sizeof(small),
			     &stage->answer),
		SHARED_UNKNOWN);
	put(stage, KEY, "1234567");
	cr_expect_eq(shared_map_read(&stage->reader, KEY, strlen(KEY), small, sizeof(small),
			     &stage->answer),
		SHARED_FOUND);
}

READ_TEST(a_slot_that_was_taken_back_is_unknown_until_it_is_put_again)
{
	size_t slot = put(stage, KEY, "1");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	struct shared_place place = stage->answer.place;
	cr_assert_eq(shared_map_unchanged(&stage->reader, &place), SHARED_FOUND);
	map_ask(stage->map, slot);
	cr_expect_eq(look(stage, KEY), SHARED_UNKNOWN);
	cr_expect_eq(shared_map_unchanged(&stage->reader, &place), SHARED_UNKNOWN);
	put(stage, KEY, "1");
	cr_expect_eq(look(stage, KEY), SHARED_FOUND);
	cr_expect_eq(shared_map_unchanged(&stage->reader, &place), SHARED_UNKNOWN);
}

READ_TEST(the_lease_ends_by_the_clock)
{
	put(stage, KEY, "1");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	struct shared_place place = stage->answer.place;
	map_extend(stage->map, now_ns());
	cr_expect_eq(look(stage, KEY), SHARED_EXPIRED);
	cr_expect_eq(look(stage, "/v1/other"), SHARED_EXPIRED);
	cr_expect_eq(shared_map_unchanged(&stage->reader, &place), SHARED_EXPIRED);
	map_extend(stage->map, now_ns() + UINT64_C(60000000000));
	cr_expect_eq(look(stage, KEY), SHARED_FOUND);
	cr_expect_eq(shared_map_unchanged(&stage->reader, &place), SHARED_FOUND);
}

READ_TEST(a_retired_map_is_gone_for_good)
{
	put(stage, KEY, "1");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	map_destroy(stage->map);
	stage->map = NULL;
	cr_expect_eq(look(stage, KEY), SHARED_GONE);
	cr_expect_eq(look(stage, "/v1/other"), SHARED_GONE);
	cr_expect_eq(shared_map_unchanged(&stage->reader, &stage->answer.place), SHARED_GONE);
}

Test(shared_read, a_map_that_has_not_begun_answers_nothing)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	struct err err = ERR_INIT;
	cr_assert(stage);
	cr_assert_eq(map_create(&stage->map, SIZE, &err), 0);
	map_extend(stage->map, FOREVER);
	put(stage, KEY, "1");
	cr_assert(shared_map_open(&stage->reader, map_fd(stage->map)));
	cr_expect_eq(look(stage, KEY), SHARED_UNKNOWN);
	map_begin(stage->map, FOREVER);
	cr_expect_eq(look(stage, KEY), SHARED_FOUND);
	end(stage);
}

READ_TEST(a_forked_child_goes_on_reading)
{
	put(stage, KEY, "1");
	pid_t child = fork();
	if (child == 0) {
		_exit(look(stage, KEY) == SHARED_FOUND ? 0 : 1);
	}
	int status;
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

/* ---- files that it refuses ---- */

/* A file with these seals that holds a copy of the stage's map. */
static int copy_of(const struct stage *stage, int seals)
{
	int fd = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert(fd >= 0);
	cr_assert_eq(write(fd, (const void *)stage->reader.words, SIZE), SIZE);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

READ_TEST(every_seal_is_needed)
{
	static const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
	static const int seals[] = { F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE };
	struct shared_map map = { .words = NULL };
	for (size_t i = 0; i < 3; i++) {
		int fd = copy_of(stage, all & ~seals[i]);
		cr_expect_not(shared_map_open(&map, fd), "without seal %x", seals[i]);
		close(fd);
	}
	int fd = copy_of(stage, all);
	cr_expect(shared_map_open(&map, fd));
	shared_map_close(&map);
	close(fd);
	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	cr_expect_not(shared_map_open(&map, fd));
	close(fd);
	cr_expect_not(shared_map_open(&map, -1));
}

static size_t mappings_count(void)
{
	FILE *stream = fopen("/proc/self/maps", "r");
	char line[512];
	size_t count = 0;
	cr_assert(stream);
	while (fgets(line, sizeof(line), stream)) {
		count += strstr(line, "memfd:") != NULL;
	}
	fclose(stream);
	return count;
}

/* A sealed file of a size, with other values in two words of the header. */
static bool opens_with_two(const struct stage *stage, size_t size, size_t word, uint64_t value,
	size_t second, uint64_t second_value)
{
	struct shared_map map = { .words = NULL };
	size_t mappings = mappings_count();
	int fd = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *copy = calloc(1, size > SIZE ? size : SIZE);
	cr_assert(fd >= 0 && copy);
	memcpy(copy, (const void *)stage->reader.words, SIZE);
	memcpy(copy + 8 * word, &value, sizeof(value));
	memcpy(copy + 8 * second, &second_value, sizeof(second_value));
	cr_assert_eq(write(fd, copy, size), (ssize_t)size);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
	bool opened = shared_map_open(&map, fd);
	shared_map_close(&map);
	cr_expect_eq(mappings_count(), mappings, "a mapping is left");
	close(fd);
	free(copy);
	return opened;
}

static bool opens_with(const struct stage *stage, size_t size, size_t word, uint64_t value)
{
	return opens_with_two(stage, size, word, value, word, value);
}

READ_TEST(a_header_that_contradicts_itself_or_the_file_is_refused)
{
	const struct shared_map *reader = &stage->reader;
	cr_expect(opens_with(stage, SIZE, SHARED_H_MAGIC, SHARED_MAGIC));
	cr_expect_not(opens_with(stage, SIZE, SHARED_H_MAGIC, SHARED_MAGIC + 1));
	cr_expect_not(opens_with(stage, SIZE, SHARED_H_VERSION, SHARED_VERSION + 1));
	cr_expect_not(opens_with(stage, SIZE, SHARED_H_SIZE, SIZE + 1));
	cr_expect_not(opens_with(stage, SIZE - 4096, SHARED_H_MAGIC, SHARED_MAGIC));
	cr_expect_not(opens_with(stage, SIZE + 4096, SHARED_H_MAGIC, SHARED_MAGIC));
	cr_expect_not(opens_with(stage, 8, SHARED_H_MAGIC, SHARED_MAGIC));
	cr_expect_not(opens_with(stage, 0, SHARED_H_MAGIC, SHARED_MAGIC));
	cr_expect_not(opens_with(stage, SIZE, SHARED_H_SLOTS, 0));
	cr_expect_not(opens_with(stage, SIZE, SHARED_H_SLOTS, reader->slots - 1));
	cr_expect_not(opens_with(stage, SIZE, SHARED_H_SLOTS, UINT64_C(1) << 58));
	cr_expect_not(opens_with(stage, SIZE, SHARED_H_ARENA, reader->arena + 8));
}

/* ---- damaged content: the reader stays inside the map and comes back ---- */

static uint64_t random_state = UINT64_C(88172645463325252);

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Words that are near a bound, or far from any. */
static uint64_t odd_word(const struct shared_map *map)
{
	const uint64_t values[] = { 0, 1, 8, UINT64_MAX, INT64_MAX, map->size, map->size - 8,
		map->size - 32, map->arena, map->arena - 8, map->arena + 4,
		(uint64_t)SHARED_VALUE_BYTES << 32 | (sizeof(KEY) - 1),
		(uint64_t)UINT32_MAX << 32 | (sizeof(KEY) - 1), sizeof(KEY) - 1, next_random(),
		next_random() % map->size & ~7ul };
	return values[next_random() % (ARRAY_LEN(values))];
}

/*
 * The map lies at the end of the mapped memory, with nothing behind it, and before it: a byte read
 * outside is a SIGSEGV.
 */
READ_TEST(a_million_damaged_maps_lead_nowhere_else)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, SIZE + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(memory, MAP_FAILED);
	uint64_t *copy = (uint64_t *)(void *)(memory + page);
	cr_assert_eq(mprotect(copy, SIZE, PROT_READ | PROT_WRITE), 0);
	struct shared_map damaged = stage->reader;
	damaged.words = (shared_word *)copy;
	put(stage, KEY, "{\"type\":\"JSONServiceRecord\"}");
	cr_assert_eq(look(stage, KEY), SHARED_FOUND);
	size_t slot = stage->answer.place.slot;
	memcpy(copy, (const void *)stage->reader.words, SIZE);
	uint64_t *words = copy + (SHARED_HEADER_BYTES + slot * SHARED_SLOT_BYTES) / 8;
	const size_t block = words[SHARED_S_OFFSET] / 8;
	size_t found = 0;
	for (size_t i = 0; i < 1000000; i++) {
		uint64_t saved[SHARED_SLOT_WORDS];
		memcpy(saved, words, sizeof(saved));
		for (size_t changes = 1 + next_random() % 3; changes > 0; changes--) {
			words[next_random() % 5] = odd_word(&damaged);
		}
		if (next_random() % 2) {
			words[SHARED_S_HASH] = saved[SHARED_S_HASH];
			words[SHARED_S_SEQUENCE] &= ~UINT64_C(1);
		}
		copy[block + next_random() % 8] ^= i % 3 == 0;
		found += shared_map_read(&damaged, KEY, strlen(KEY), stage->value,
				 sizeof(stage->value), &stage->answer) == SHARED_FOUND;
		cr_assert(stage->answer.len <= SHARED_VALUE_BYTES);
		memcpy(words, saved, sizeof(saved));
	}
	cr_expect_gt(found, 0, "nothing was left to read: the damage is too great to test much");
	munmap(memory, SIZE + 2 * page);
}
