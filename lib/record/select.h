/*
 * Which records are meant, by their attributes. Pure.
 *
 * A selection is a text of lines, NAME=VALUE, all of which must hold; NULL and "" are any record.
 * A value is compared as text: that of a number has as few digits as say it, and that of a
 * boolean is true or false. Lists and objects have none.
 */
#ifndef LIB_RECORD_SELECT_H
#define LIB_RECORD_SELECT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"
#include "lib/record/record.h"

enum { SELECT_MOST = 8, SELECT_VALUE_BYTES = 256, SELECT_BYTES = 4096 };

/*
 * Adds a line to the selection in `out`, which has SELECT_BYTES. 0, or err filled: a name or a
 * value that no line can hold, or too many of them.
 */
int select_add(char *out, const char *name, const char *value, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);
/* True for a record that the selection means. */
bool select_takes(const char *selection, const struct record *record);

/* The text of an attribute's value in `out`; false where it has none, or a longer one. */
bool select_text(char out[SELECT_VALUE_BYTES], const json_t *value);
/*
 * True when the record has an attribute whose name and value are these labels, as names have them:
 * see record_text_is_label().
 */
bool select_has_labels(const struct record *record, const char *name, const char *value);

#endif
