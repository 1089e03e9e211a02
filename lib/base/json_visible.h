/*
 * JSON and other text for terminals: JSON forbids raw C0 controls in strings, but lets through
 * other characters that change what a terminal shows: DEL, the C1 controls, and those that reorder
 * or break lines (bidi marks, U+2028). As \uXXXX they mean the same to a program and nothing to a
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
/* The same in place, for what the buffer holds from `start` on. */
void json_make_visible(struct buffer *buffer, size_t start);

/*
 * The same for JSON that jansson wrote, with U+FFFD for each of them and for each C0 control: its
 * strings hold no such character any more, for programs that put them into lines of text.
 */
void json_append_harmless(struct buffer *out, const char *json, size_t len);

/*
 * Appends any text as a part of one line of valid UTF-8, for logs: with an escape for each of them
 * and for each control character (\n, \t, \uXXXX), and '?' for each byte of invalid UTF-8.
 * `quotes`: the text is a part of a quoted one, so that quotes and backslashes have escapes, too.
 * It ends where less than `spare` bytes of the buffer are left.
 */
void text_append_visible(struct buffer *out, const char *text, bool quotes, size_t spare);

/* Does text in UTF-8, which is not JSON, hold one of them or a C0 control? */
bool text_has_hidden(const char *text, size_t len);

#endif
