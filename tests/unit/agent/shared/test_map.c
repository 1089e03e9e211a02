/* The writer: room, and readers in other processes and threads that never see half a change. */
#include "agent/shared/map.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/shared/read.h"
#include "tests/support/staged.h"

#define FOREVER INT64_MAX

enum { SIZE = 256 * 1024 };

static struct map *begin(void)
{
	struct map *map;
	struct err err = ERR_INIT;
	cr_assert_eq(map_create(&map, SIZE, &err), 0, "%s", err.msg);
	map_begin(map, FOREVER);
	return map;
}

#define MAP_TEST(name) STAGED_TEST(shared_map, name, struct map *, map, begin(), map_destroy)

static size_t put(struct map *map, const char *key, const char *value, size_t len)
{
	const struct map_entry entry = {
		.key = key, .key_len = strlen(key), .tag = "", .value = value, .value_len = len
	};
	return map_put(map, &entry);
}

static size_t put_number(struct map *map, size_t number, size_t len)
{
	static char value[SHARED_VALUE_BYTES];
	char key[64];
	snprintf(key, sizeof(key), "/v1/resolve/services/n%zu", number);
	return put(map, key, value, len);
}

MAP_TEST(nobody_else_can_write_shrink_or_grow_the_file)
{
	int fd = map_fd(map);
	cr_expect_eq(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	cr_expect_eq(write(fd, "x", 1), -1);
	cr_expect_eq(ftruncate(fd, 0), -1);
	cr_expect_eq(ftruncate(fd, 2 * SIZE), -1);
	cr_expect_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

MAP_TEST(a_full_map_says_so_and_keeps_what_it_has)
{
	size_t count = 0;
	while (put_number(map, count, 300) != MAP_NONE) {
		count++;
	}
	/* The places are hashed with a random key. */
	cr_expect_gt(count, SIZE / 512 / 4, "%zu answers", count);
	cr_expect_lt(count, SIZE / 512);
	cr_expect_neq(put_number(map, 0, 300), MAP_NONE);
}

MAP_TEST(an_answer_that_has_outgrown_a_full_map_is_taken_back)
{
	struct map_entry entry;
	size_t slot = put_number(map, 0, 10);
	for (size_t i = 1; put_number(map, i, 15000) != MAP_NONE; i++) {
	}
	cr_expect_eq(put_number(map, 0, 15000), MAP_NONE);
	cr_expect_not(map_get(map, slot, &entry));
	cr_expect_eq(put_number(map, 0, 20), slot);
}

Test(shared_map, a_map_that_is_retired_holds_for_no_reader)
{
	struct map *map = begin();
	struct shared_map reader;
	cr_assert(shared_map_open(&reader, map_fd(map)));
	map_destroy(map);
	cr_expect_eq(atomic_load(&reader.words[SHARED_H_LIVE_UNTIL]), 0);
	cr_expect_eq(atomic_load(&reader.words[SHARED_H_STATE]), SHARED_RETIRED);
	shared_map_close(&reader);
}

/* ---- torn readings ---- */

enum { KEYS = 24, WORDS = 64 };

/* Words made of the key and the version, and their sum: a mixture of two versions shows. */
static size_t make_value(char *out, uint64_t key, uint64_t version)
{
	uint64_t words[WORDS];
	size_t count = 4 + (key * 7 + version * 13) % (WORDS - 4);
	uint64_t state = (key << 32 | version) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	words[0] = key;
	words[1] = version;
	words[count - 1] = key + version;
	for (size_t i = 2; i < count - 1; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		words[i] = state;
		words[count - 1] += state;
	}
	memcpy(out, words, count * sizeof(words[0]));
	return count * sizeof(words[0]);
}

static bool is_whole(const char *value, size_t len, uint64_t key)
{
	uint64_t words[WORDS];
	char expected[sizeof(words)];
	if (len > sizeof(words) || len < 4 * sizeof(words[0])) {
		return false;
	}
	memcpy(words, value, len);
	return words[0] == key && make_value(expected, key, words[1]) == len &&
		memcmp(expected, value, len) == 0;
}

static void write_key(char *out, size_t size, uint64_t key)
{
	snprintf(out, size, "/v1/resolve/services/key-%llu", (unsigned long long)key);
}

/* Writes all keys again and again; each tenth change takes one back. */
static void write_on(struct map *map, uint64_t from, uint64_t changes)
{
	char value[WORDS * 8];
	char key[64];
	for (uint64_t version = from; version < from + changes; version++) {
		uint64_t number = version * 2654435761u % KEYS;
		write_key(key, sizeof(key), number);
		size_t slot = put(map, key, value, make_value(value, number, version));
		cr_assert_neq(slot, MAP_NONE);
		if (version % 10 == 0) {
			map_ask(map, slot);
		}
	}
}

struct reading {
	struct shared_map map;
	_Atomic bool ends;
	_Atomic size_t whole;
	_Atomic size_t torn;
};

static void *read_on(void *context)
{
	struct reading *reading = context;
	struct shared_answer answer;
	char value[WORDS * 8 + 1];
	char key[64];
	for (uint64_t i = 0; !reading->ends; i++) {
		write_key(key, sizeof(key), i % KEYS);
		if (shared_map_read(&reading->map, key, strlen(key), value, sizeof(value),
			    &answer) == SHARED_FOUND) {
			bool whole = is_whole(value, answer.len, i % KEYS);
			reading->whole += whole;
			reading->torn += !whole;
		}
	}
	return NULL;
}

MAP_TEST(threads_never_read_half_a_change)
{
	struct reading reading = { .ends = false };
	pthread_t threads[2];
	cr_assert(shared_map_open(&reading.map, map_fd(map)));
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(pthread_create(&threads[i], NULL, read_on, &reading), 0);
	}
	for (uint64_t from = 0; from < 200000 || reading.whole < 20000; from += 1000) {
		write_on(map, from, 1000);
	}
	reading.ends = true;
	for (size_t i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
	}
	cr_expect_eq(reading.torn, 0, "%zu of %zu", reading.torn, reading.whole);
	shared_map_close(&reading.map);
}

/* BERTH_SHARED_READS sets how many readings a longer run makes. */
static size_t wanted_readings(void)
{
	const char *text = getenv("BERTH_SHARED_READS");
	return text ? strtoul(text, NULL, 10) : 100000;
}

static size_t read_many(const struct shared_map *map, size_t wanted)
{
	struct shared_answer answer;
	char value[WORDS * 8 + 1];
	char key[64];
	size_t torn = 0;
	for (size_t i = 0, read = 0; read < wanted; i++) {
		write_key(key, sizeof(key), i % KEYS);
		if (shared_map_read(map, key, strlen(key), value, sizeof(value), &answer) ==
			SHARED_FOUND) {
			read++;
			torn += !is_whole(value, answer.len, i % KEYS);
		}
	}
	return torn;
}

MAP_TEST(another_process_never_reads_half_a_change)
{
	write_on(map, 0, 1000);
	pid_t child = fork();
	if (child == 0) {
		struct shared_map reader;
		_exit(!shared_map_open(&reader, map_fd(map)) ||
			read_many(&reader, wanted_readings()) > 0);
	}
	int status;
	pid_t ended = 0;
	for (uint64_t from = 1000; ended == 0; from += 1000) {
		write_on(map, from, 1000);
		ended = waitpid(child, &status, WNOHANG);
	}
	cr_assert_eq(ended, child);
	cr_assert_eq(status, 0);
}

/* At most the one slot that it was writing to; the others are whole. */
MAP_TEST(a_writer_that_is_killed_leaves_one_slot_unreadable_at_most)
{
	struct shared_map reader;
	int ready[2];
	char byte;
	write_on(map, 1, 1000);
	cr_assert(shared_map_open(&reader, map_fd(map)));
	cr_assert_eq(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		for (uint64_t from = 2000;; from += 1000) {
			write_on(map, from, 1000);
			(void)!write(ready[1], "x", 1);
		}
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	kill(child, SIGKILL);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	size_t odd = 0;
	for (size_t slot = 0; slot < reader.slots; slot++) {
		odd += atomic_load(&reader.words[(SHARED_HEADER_BYTES + slot * SHARED_SLOT_BYTES) /
			       8]) &
			1;
	}
	cr_expect_leq(odd, 1);
	struct shared_answer answer;
	char value[WORDS * 8 + 1];
	char key[64];
	for (uint64_t i = 0; i < KEYS; i++) {
		write_key(key, sizeof(key), i);
		if (shared_map_read(&reader, key, strlen(key), value, sizeof(value), &answer) ==
			SHARED_FOUND) {
			cr_expect(is_whole(value, answer.len, i));
		}
	}
	shared_map_close(&reader);
}
