/*
 * Foreign bytes made fit for a message: quoted, escaped and cut to a readable length.
 */
#ifndef LIB_BASE_QUOTE_H
#define LIB_BASE_QUOTE_H

#include <stddef.h>

struct quoted {
	char text[160];
};

/*
 * The `len` bytes in double quotes. Characters that change what a terminal shows
 * (lib/base/json_visible.h), quotes and backslashes are escaped as in C; so is every byte that is
 * not part of valid UTF-8. Long text is cut between characters and ends in … behind the closing
 * quote. For use in one expression: quote(data, len).text.
 */
struct quoted quote(const char *data, size_t len);

/* The same for a C string. */
struct quoted quote_text(const char *text);

#endif
