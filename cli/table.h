/*
 * Tables for a terminal: columns as wide as their widest cell, in cells of the screen and not in
 * bytes.
 *
 * On a narrower terminal the widest columns become shorter, but never the key column, which names
 * the row. The table cuts a name, path or URI in its middle, since its end tells it apart. A
 * sentence in the last column is never cut: the table breaks it between words, inside of its column
 * or, where that would be narrow, in lines of its own below the row. If the table is still too
 * wide, the key gets a line of its own above the rest of its row. A table without headings holds
 * facts and is never cut.
 *
 * Anybody may have written a record: bytes that could control the terminal are shown escaped.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct table;

enum table_colour { TABLE_PLAIN, TABLE_GOOD, TABLE_WARN, TABLE_BAD, TABLE_DIM, TABLE_BOLD };

/*
 * One heading for each column; NULL: facts. `key`: a column. Ends the program when there is no
 * memory, as do the others.
 */
struct table *table_create(const char *const *headings, size_t columns, size_t key);
void table_free(struct table *table);
/* The next cell, row by row; copied and escaped. */
void table_cell(struct table *table, enum table_colour colour, const char *text);
/*
 * A line of its own below the row that has just been completed; copied, escaped and
 * indented. A narrow terminal gets it in several lines, broken between words.
 */
void table_line(struct table *table, enum table_colour colour, const char *text);
/* `width`: of the terminal; 0: nothing is cut. */
void table_print(struct table *table, FILE *out, bool colour, size_t width);

/* malloc'ed copy in which control bytes and invalid UTF-8 are shown as \n, \t, \xNN. */
char *table_escape(const char *text);
/* Cells on the screen that an escaped text takes. */
size_t table_width(const char *text);
/* The escape sequence that begins a colour; "" for PLAIN. */
const char *table_colour_code(enum table_colour colour);

#endif
