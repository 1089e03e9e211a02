/*
 * JSON is read whole, or not at all.
 *
 * Without memory to make room for a longer text or number, jansson leaves a byte of it out and
 * reports success. Here such a document fails.
 */
#ifndef LIB_BASE_JSON_READ_H
#define LIB_BASE_JSON_READ_H

#include <jansson.h>
#include <stddef.h>

/*
 * As json_loadb(). `error` may be NULL; its text is "" when there was no memory, as that of
 * json_loadb() sometimes is.
 */
json_t *json_read(const char *data, size_t len, size_t flags, json_error_t *error);

/* The same of a text. */
json_t *json_read_text(const char *text, size_t flags);

#endif
