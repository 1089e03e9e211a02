/*
 * JSON as text, whole or not at all.
 *
 * jansson's json_dumps() ignores one failure: without memory for the key of a member, it leaves the
 * key out and reports success. These functions never give such a text.
 */
#ifndef LIB_BASE_JSON_TEXT_H
#define LIB_BASE_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include "lib/base/buffer.h"

/*
 * Appends the text; `flags` are those of json_dumps(). 0, or -1 when the buffer has failed; `json`
 * that jansson cannot write (NULL, for one) lets it fail.
 */
int json_text_append(struct buffer *out, const json_t *json, size_t flags);

/* The text, to be freed with free(); NULL without memory, and for JSON that cannot be written. */
char *json_text(const json_t *json, size_t flags);

#endif
