/*
 * The clients of bench_shared.py.
 *
 *   look_up SOCKET WHAT on|off SECONDS FILE
 *
 * Asks by libberth, with or without the agent's shared memory, for the paths in the file, one a
 * line, in random order; WHAT is "resolve", "lookup": one berth_lookup of the first, or "pick":
 * one of those who serve it. Prints
 * calls a second, and p50 and p99 of a call in nanoseconds, two looks at the clock included.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/berth.h"

enum { SAMPLES = 1 << 20, PATHS = 65536, WARM_ROUNDS = 6 };

static char *paths[PATHS];
static size_t path_count;
static uint32_t samples[SAMPLES];

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int by_value(const void *first, const void *second)
{
	uint32_t a = *(const uint32_t *)first;
	uint32_t b = *(const uint32_t *)second;
	return a < b ? -1 : a > b;
}

static void read_paths(const char *file)
{
	char line[1024];
	FILE *stream = fopen(file, "r");
	while (stream && path_count < PATHS && fgets(line, sizeof(line), stream)) {
		line[strcspn(line, "\n")] = '\0';
		paths[path_count++] = strdup(line);
	}
	if (!stream || path_count == 0) {
		fprintf(stderr, "look_up: no paths in %s\n", file);
		exit(1);
	}
	fclose(stream);
}

static struct berth_lookup *lookup;
static struct berth_set *set;

static void call(struct berth *berth, const char *path)
{
	struct berth_failure failure;
	struct berth_answer answer = { .json = NULL };
	const struct berth_endpoints *found;
	const struct berth_member *member;
	int code = lookup ? berth_lookup_get(lookup, &found, &failure)
		: set     ? berth_pick(set, &member, &failure)
			  : berth_resolve(berth, path, &answer, &failure);
	if (code) {
		fprintf(stderr, "look_up: %s\n", failure.message);
		exit(1);
	}
	berth_answer_finish(&answer);
}

static int keep(struct berth *berth, const char *what)
{
	return strcmp(what, "lookup") == 0
		? berth_lookup_create(&lookup, berth, paths[0], NULL, NULL)
		: strcmp(what, "pick") == 0 ? berth_set_open(&set, berth, paths[0], NULL, NULL)
					    : 0;
}

int main(int argc, char **argv)
{
	struct berth *berth;
	uint64_t state = (uint64_t)now_ns() | 1;
	size_t count = 0;
	if (argc != 6 || berth_open(&berth, argv[1], NULL, NULL) != 0) {
		return 2;
	}
	read_paths(argv[5]);
	berth_set_shared(berth, strcmp(argv[3], "on") == 0);
	/* The map grows meanwhile. */
	for (size_t i = 0; i < WARM_ROUNDS * path_count; i++) {
		call(berth, paths[i % path_count]);
	}
	if (keep(berth, argv[2])) {
		return 2;
	}
	if (lookup || set) {
		call(berth, NULL);
		nanosleep(&(struct timespec){ 1, 100000000 }, NULL); /* for its next question */
		call(berth, NULL);
	}
	uint64_t end = now_ns() + (uint64_t)(strtod(argv[4], NULL) * 1e9);
	uint64_t begin = now_ns();
	uint64_t before = begin;
	while (before < end) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		const char *path = paths[state % path_count];
		before = now_ns();
		call(berth, path);
		uint64_t after = now_ns();
		samples[count++ % SAMPLES] = (uint32_t)(after - before);
	}
	size_t kept = count < SAMPLES ? count : SAMPLES;
	qsort(samples, kept, sizeof(samples[0]), by_value);
	printf("%.0f %u %u\n", (double)count / (double)(now_ns() - begin) * 1e9, samples[kept / 2],
		samples[kept * 99 / 100]);
	berth_lookup_free(lookup);
	berth_set_close(set);
	berth_close(berth);
	return 0;
}
