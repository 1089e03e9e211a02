/*
 * UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
 */
#ifndef LIB_BASE_UTF8_H
#define LIB_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * How many bytes the character at `text` has. 0: these bytes begin no character. More than `len`:
 * the data ends in the middle of a character that was good so far. `len` is at least 1; a NUL is a
 * character of one byte.
 */
size_t utf8_character_len(const char *text, size_t len);

/* Whether the data is UTF-8 from its first byte to its last. */
bool utf8_is_valid(const char *text, size_t len);

/* The text behind a byte order mark, which some editors put before it. */
const char *utf8_skip_mark(const char *text);

/*
 * Copies text and ends it with a NUL; `out`, of len + 1 bytes, may be `text` itself. Every byte
 * of invalid UTF-8, and every NUL, becomes '?'. `cut` says that there was more than `len` bytes:
 * the character that the cut has split is dropped.
 */
void utf8_copy_valid(char *out, const char *text, size_t len, bool cut);

#endif
