/*
 * JSON of others, whose numbers may be larger than any that C holds.
 *
 * JSON sets no bound on numbers, and jansson refuses a whole document for one that it cannot hold.
 * Here such a number is read as the nearest double, beyond the doubles as about the largest;
 * everything else is as json_loadb() has it.
 */
#ifndef LIB_BASE_JSON_WIDE_H
#define LIB_BASE_JSON_WIDE_H

#include <jansson.h>
#include <stddef.h>

/* As json_loadb(). `error` may be NULL. */
json_t *json_wide_loadb(const char *data, size_t len, size_t flags, json_error_t *error);

#endif
