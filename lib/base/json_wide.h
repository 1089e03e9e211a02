/*
 * JSON of other programs, with numbers that may be larger than any C number.
 *
 * JSON sets no bound on numbers, and jansson refuses a whole document for a single number that it
 * cannot hold. Here such a number is read as the nearest double, beyond the doubles as about the
 * largest; everything else is read as by json_read().
 */
#ifndef LIB_BASE_JSON_WIDE_H
#define LIB_BASE_JSON_WIDE_H

#include <jansson.h>
#include <stddef.h>

/* As json_read(). */
json_t *json_wide_loadb(const char *data, size_t len, size_t flags, json_error_t *error);

#endif
