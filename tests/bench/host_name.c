/*
 * A client of bench_shared.py: host_name NAME COUNT. Asks glibc for the addresses of a name so many
 * times, and prints p50 and p99 of a call in nanoseconds, two looks at the clock included.
 */
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WARM = 50 };

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int by_value(const void *first, const void *second)
{
	uint64_t a = *(const uint64_t *)first;
	uint64_t b = *(const uint64_t *)second;
	return a < b ? -1 : a > b;
}

int main(int argc, char **argv)
{
	size_t count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	uint64_t *samples = calloc(count ? count : 1, sizeof(*samples));
	for (size_t i = 0; samples && i < WARM + count; i++) {
		struct hostent host;
		struct hostent *found = NULL;
		char buffer[4096];
		int error;
		uint64_t before = now_ns();
		if (gethostbyname_r(argv[1], &host, buffer, sizeof(buffer), &found, &error) ||
			!found) {
			fprintf(stderr, "host_name: %s: %s\n", argv[1], hstrerror(error));
			return 1;
		}
		if (i >= WARM) {
			samples[i - WARM] = now_ns() - before;
		}
	}
	if (count == 0 || !samples) {
		return 2;
	}
	qsort(samples, count, sizeof(*samples), by_value);
	printf("%llu %llu\n", (unsigned long long)samples[count / 2],
		(unsigned long long)samples[count * 99 / 100]);
	free(samples);
	return 0;
}
