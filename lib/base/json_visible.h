/*
 * JSON text for terminals: JSON forbids raw C0 controls in strings, but lets through other
 * characters that change what a terminal shows: DEL, the C1 controls, and those that reorder or
 * break lines (bidi marks, U+2028). As \uXXXX they mean the same to a program and nothing to a
 * terminal.
 */
#ifndef LIB_BASE_JSON_VISIBLE_H
#define LIB_BASE_JSON_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/buffer.h"

/* Does valid JSON in UTF-8 hold such a character? */
bool json_has_hidden(const char *json, size_t len);
/* Appends valid JSON with each of them as an escape. */
void json_append_visible(struct buffer *out, const char *json, size_t len);

#endif
