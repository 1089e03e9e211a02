#include "cli/table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "lib/base/json_visible.h"
#include "lib/program/memory.h"

struct cell {
	char *text;
	size_t width;
	enum table_colour colour;
};

/* Cells in the order in which they came. */
struct cells {
	struct cell *items;
	size_t count;
	size_t size;
};

struct table {
	size_t columns;
	size_t key;
	bool facts;
	/* too narrow: the key has a line of its own, above the rest of its row */
	bool stacked;
	bool sentences; /* the last column holds some */
	bool below;     /* too narrow: they have lines of their own, below their rows */
	size_t *widths;
	struct cells cells;
	struct cells lines;  /* in rows of their own … */
	size_t *lines_after; /* … below this many cells */
};

static const char GAP[] = "  ";

enum { LEAST_CUT_WIDTH = 8, LEAST_SENTENCE_WIDTH = 24 };

/* ---- text ---- */

static size_t escape_byte(char *out, unsigned char byte)
{
	if (byte == '\n' || byte == '\t') {
		return (size_t)sprintf(out, "\\%c", byte == '\n' ? 'n' : 't');
	}
	return (size_t)sprintf(out, "\\x%02x", byte);
}

char *table_escape(const char *text)
{
	size_t left = strlen(text);
	char *escaped = memory_must(malloc(4 * left + 1));
	char *out = escaped;
	mbstate_t state = { 0 };
	while (left) {
		wchar_t wide;
		size_t bytes = mbrtowc(&wide, text, left, &state);
		bool valid = bytes != 0 && bytes != (size_t)-1 && bytes != (size_t)-2;
		if (valid && wcwidth(wide) >= 0 && !text_has_hidden(text, bytes)) {
			memcpy(out, text, bytes);
			out += bytes;
		} else {
			state = (mbstate_t){ 0 };
			bytes = valid ? bytes : 1;
			for (size_t i = 0; i < bytes; i++) {
				out += escape_byte(out, (unsigned char)text[i]);
			}
		}
		text += bytes;
		left -= bytes;
	}
	*out = '\0';
	return escaped;
}

size_t table_width(const char *text)
{
	size_t width = 0;
	size_t left = strlen(text);
	mbstate_t state = { 0 };
	while (left) {
		wchar_t wide;
		size_t bytes = mbrtowc(&wide, text, left, &state);
		if (bytes == 0 || bytes > left) {
			return width + left;
		}
		int cells = wcwidth(wide);
		width += cells > 0 ? (size_t)cells : 0;
		text += bytes;
		left -= bytes;
	}
	return width;
}

/* The bytes of `text` that fit into `width` cells. */
static size_t fitting(const char *text, size_t width)
{
	size_t used = 0;
	size_t len = strlen(text);
	mbstate_t state = { 0 };
	while (used < len) {
		wchar_t wide;
		size_t bytes = mbrtowc(&wide, text + used, len - used, &state);
		if (bytes == 0 || bytes > len - used) {
			break;
		}
		size_t cells = wcwidth(wide) > 0 ? (size_t)wcwidth(wide) : 0;
		if (cells > width) {
			break;
		}
		width -= cells;
		used += bytes;
	}
	return used;
}

const char *table_colour_code(enum table_colour colour)
{
	static const char *const codes[] = {
		[TABLE_PLAIN] = "",
		[TABLE_GOOD] = "\033[32m",
		[TABLE_WARN] = "\033[33m",
		[TABLE_BAD] = "\033[31m",
		[TABLE_DIM] = "\033[2m",
		[TABLE_BOLD] = "\033[1m",
	};
	return codes[colour];
}

/* ---- the table ---- */

struct table *table_create(const char *const *headings, size_t columns, size_t key)
{
	struct table *table = memory_must(calloc(1, sizeof(*table)));
	table->columns = columns;
	table->key = key;
	table->facts = !headings;
	table->widths = memory_must(calloc(columns, sizeof(*table->widths)));
	for (size_t i = 0; headings && i < columns; i++) {
		table_cell(table, TABLE_BOLD, headings[i]);
	}
	return table;
}

static void cells_free(struct cells *cells)
{
	for (size_t i = 0; i < cells->count; i++) {
		free(cells->items[i].text);
	}
	free(cells->items);
}

void table_free(struct table *table)
{
	cells_free(&table->cells);
	cells_free(&table->lines);
	free(table->lines_after);
	free(table->widths);
	free(table);
}

static const struct cell *cells_add(struct cells *cells, enum table_colour colour, const char *text)
{
	if (cells->count == cells->size) {
		cells->size = cells->size ? 2 * cells->size : 64;
		cells->items = memory_must(
			realloc(cells->items, cells->size * sizeof(*cells->items)));
	}
	struct cell *cell = &cells->items[cells->count++];
	cell->text = table_escape(text);
	cell->width = table_width(cell->text);
	cell->colour = colour;
	return cell;
}

void table_cell(struct table *table, enum table_colour colour, const char *text)
{
	size_t column = table->cells.count % table->columns;
	size_t *widest = &table->widths[column];
	if (table->cells.count >= table->columns && column + 1 == table->columns) {
		table->sentences = table->sentences || strchr(text, ' ');
	}
	const struct cell *cell = cells_add(&table->cells, colour, text);
	*widest = cell->width > *widest ? cell->width : *widest;
}

void table_line(struct table *table, enum table_colour colour, const char *text)
{
	cells_add(&table->lines, colour, text);
	table->lines_after = memory_must(
		realloc(table->lines_after, table->lines.count * sizeof(*table->lines_after)));
	table->lines_after[table->lines.count - 1] = table->cells.count;
}

/* ---- printing ---- */

/* The least width of a column. */
static size_t least_width(const struct table *table, size_t column)
{
	size_t heading = table->cells.items[column].width;
	size_t least = heading > LEAST_CUT_WIDTH ? heading : LEAST_CUT_WIDTH;
	return column == table->key || table->widths[column] < least ? table->widths[column]
								     : least;
}

/*
 * Sentences that are too wide are broken inside of the last column, or, when that would be too
 * narrow, below their rows.
 */
static void fit_sentences(struct table *table, size_t width)
{
	size_t *last = &table->widths[table->columns - 1];
	size_t others = strlen(GAP) * (table->columns - 1);
	for (size_t i = 0; i + 1 < table->columns; i++) {
		others += table->widths[i];
	}
	if (!table->sentences || others + *last <= width) {
		return;
	}
	table->below = others + LEAST_SENTENCE_WIDTH > width;
	*last = table->below ? 0 : width - others;
}

/* How much a column asks for being cut: the last one, which tells most, half as much as others. */
static size_t excess(const struct table *table, size_t column)
{
	size_t width = table->widths[column];
	if (width == least_width(table, column)) {
		return 0;
	}
	return column + 1 == table->columns ? (width + 1) / 2 : width;
}

/* The column that gives the next cell of the screen; the key when none may. */
static size_t column_to_cut(const struct table *table)
{
	size_t chosen = table->key;
	for (size_t i = 0; i < table->columns; i++) {
		if (excess(table, i) > excess(table, chosen)) {
			chosen = i;
		}
	}
	return chosen;
}

static void fit_columns(struct table *table, size_t width)
{
	fit_sentences(table, width);
	size_t needed = strlen(GAP) * (table->columns - (table->below ? 2 : 1));
	size_t least = needed;
	for (size_t i = 0; i < table->columns; i++) {
		needed += table->widths[i];
		least += least_width(table, i);
	}
	table->stacked = least > width;
	if (table->stacked) {
		needed -= table->widths[table->key]; /* its gap becomes the indentation */
	}
	while (needed > width && column_to_cut(table) != table->key) {
		table->widths[column_to_cut(table)]--;
		needed--;
	}
}

/* The part of an escaped text that begins where at most `width` cells are left. */
static const char *ending(const char *text, size_t width)
{
	while (table_width(text) > width) {
		size_t bytes = fitting(text, 1);
		text += bytes ? bytes : fitting(text, 2);
	}
	return text;
}

/* Returns the cells of the screen that it took. */
static size_t print_text(const struct cell *cell, size_t width, FILE *out)
{
	if (cell->width <= width) {
		fputs(cell->text, out);
		return cell->width;
	}
	const char *end = ending(cell->text, (width - 1) * 2 / 3);
	int bytes = (int)fitting(cell->text, width - 1 - table_width(end));
	char *start = memory_must(strndup(cell->text, (size_t)bytes));
	fprintf(out, "%s…%s", start, end);
	size_t taken = table_width(start) + 1 + table_width(end);
	free(start);
	return taken;
}

static void print_cell(const struct cell *cell, size_t width, bool last, FILE *out, bool colour)
{
	const char *code = colour ? table_colour_code(cell->colour) : "";
	fputs(code, out);
	size_t taken = print_text(cell, width, out);
	fputs(*code ? "\033[0m" : "", out);
	if (!last) {
		fprintf(out, "%*s%s", (int)(width - taken), "", GAP);
	}
}

/* Nothing is padded behind the last cell that holds something. */
static size_t last_used_column(const struct table *table, size_t row)
{
	size_t last = table->columns - table->below;
	while (last > 0 &&
		(table->cells.items[row + last - 1].width == 0 ||
			(table->stacked && last - 1 == table->key))) {
		last--;
	}
	return last;
}

/*
 * A text in lines of at most `room` cells, the first of `first`, broken between words; a word
 * itself is never broken. `indent`: of the lines behind the first.
 */
static void print_broken(const char *text, size_t first, size_t room, size_t indent, FILE *out)
{
	while (table_width(text) > first) {
		size_t bytes = fitting(text, first + 1);
		while (bytes > 0 && text[bytes - 1] != ' ') {
			bytes--;
		}
		if (bytes == 0) {
			bytes = strcspn(text, " ");
			bytes += text[bytes] == ' ';
		}
		if (text[bytes] == '\0') {
			break;
		}
		fprintf(out, "%.*s\n%*s", (int)bytes - 1, text, (int)indent, "");
		text += bytes;
		first = room;
	}
	fputs(text, out);
}

/* A line below a row, broken where it is wider than the terminal. */
static void print_line(const struct cell *cell, size_t width, FILE *out, bool colour)
{
	const char *code = colour ? table_colour_code(cell->colour) : "";
	size_t gap = strlen(GAP);
	bool fits = width <= 2 * gap;
	fprintf(out, "%s%s", GAP, code);
	print_broken(cell->text, fits ? SIZE_MAX : width - gap, width - 2 * gap, 2 * gap, out);
	fprintf(out, "%s\n", *code ? "\033[0m" : "");
}

/* The last cell of a row, when it is a sentence; `indent`: what is left of it. */
static void print_sentence(
	const struct table *table, const struct cell *cell, size_t indent, FILE *out, bool colour)
{
	const char *code = colour ? table_colour_code(cell->colour) : "";
	size_t room = table->widths[table->columns - 1];
	fputs(code, out);
	print_broken(cell->text, room, room, indent, out);
	fputs(*code ? "\033[0m" : "", out);
}

static void print_row(const struct table *table, size_t row, FILE *out, bool colour)
{
	size_t used = last_used_column(table, row);
	size_t indent = table->stacked ? strlen(GAP) : 0;
	const struct cell *cells = &table->cells.items[row];
	if (table->stacked) {
		print_cell(&cells[table->key], cells[table->key].width, true, out, colour);
		fprintf(out, "\n%s", GAP);
	}
	for (size_t i = 0; i < used; i++) {
		if (table->stacked && i == table->key) {
			continue;
		}
		if (i + 1 == table->columns && table->sentences && !table->facts) {
			print_sentence(table, &cells[i], indent, out, colour);
		} else {
			print_cell(&cells[i], table->widths[i], i + 1 == used, out, colour);
		}
		indent += table->widths[i] + strlen(GAP);
	}
	fputc('\n', out);
}

void table_print(struct table *table, FILE *out, bool colour, size_t width)
{
	size_t line = 0;
	if (width && !table->facts) {
		fit_columns(table, width);
	}
	for (size_t row = 0; row + table->columns <= table->cells.count; row += table->columns) {
		print_row(table, row, out, colour);
		const struct cell *sentence = &table->cells.items[row + table->columns - 1];
		if (table->below && row > 0 && sentence->width > 0) {
			print_line(sentence, width, out, colour);
		}
		while (line < table->lines.count &&
			table->lines_after[line] <= row + table->columns) {
			print_line(&table->lines.items[line++], width, out, colour);
		}
	}
}
