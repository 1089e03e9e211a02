/*
 * Durations as people write them, in the configuration, on the command line and in the API: a whole
 * number and its unit, "500ms", "30s", "2m", "1h" or "7d".
 */
#ifndef LIB_BASE_DURATION_H
#define LIB_BASE_DURATION_H

#include <stdbool.h>
#include <stdint.h>

enum { DURATION_TEXT_BYTES = 24 };

/* False for everything else: no unit, a fraction, a sign, blanks, more than an int64_t holds. */
bool duration_parse(const char *text, int64_t *ret_ms);

/* The duration in the largest unit that needs no fraction, "0s" for 0. `ms` is not negative. */
void duration_format(char out[DURATION_TEXT_BYTES], int64_t ms);

#endif
