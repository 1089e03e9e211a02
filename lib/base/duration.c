#include "lib/base/duration.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"

/* The largest first: the order in which duration_format() tries them. */
static const struct {
	const char *suffix;
	int64_t ms;
} units[] = {
	{ "d", 86400000 },
	{ "h", 3600000 },
	{ "m", 60000 },
	{ "s", 1000 },
	{ "ms", 1 },
};

enum { UNIT_COUNT = ARRAY_LEN(units) };

bool duration_parse(const char *text, int64_t *ret_ms)
{
	int64_t number = 0;
	int64_t ms;
	const char *at = text;
	for (; *at >= '0' && *at <= '9'; at++) {
		if (__builtin_mul_overflow(number, 10, &number) ||
			__builtin_add_overflow(number, *at - '0', &number)) {
			return false;
		}
	}
	for (size_t i = 0; at > text && i < UNIT_COUNT; i++) {
		if (strcmp(at, units[i].suffix) == 0) {
			if (__builtin_mul_overflow(number, units[i].ms, &ms)) {
				return false;
			}
			*ret_ms = ms;
			return true;
		}
	}
	return false;
}

void duration_format(char out[DURATION_TEXT_BYTES], int64_t ms)
{
	size_t i = 0;
	while (ms != 0 && ms % units[i].ms != 0) {
		i++;
	}
	const char *suffix = ms == 0 ? "s" : units[i].suffix;
	snprintf(out, DURATION_TEXT_BYTES, "%lld%s", (long long)(ms / units[i].ms), suffix);
}
