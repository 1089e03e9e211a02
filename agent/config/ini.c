/*
 * inih splits lines into key and value. It never sees lines that it would cut or guess at: this
 * reader counts the lines, takes the section headers itself (inih cuts their names at 49 bytes and
 * does not report empty sections), drops indentation (inih would call the handler again with the
 * key above) and refuses lines that are not `key = value`.
 */
#include "agent/config/ini.h"

#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/value.h"
#include "lib/base/utf8.h"

/*
 * Debian's inih has these at run time, others fix them when they compile it: there they are absent,
 * and the reader refuses what such a library would cut.
 */
extern bool ini_allow_inline_comments __attribute__((weak));
extern bool ini_allow_multiline __attribute__((weak));
extern bool ini_use_stack __attribute__((weak));
extern bool ini_allow_realloc __attribute__((weak));
extern int ini_max_line __attribute__((weak));

static const char blanks[] = " \t";

enum { INIH_NO_MEMORY = -2 };

struct reader {
	struct config_source *source;
	const char *file;
	FILE *stream;
	int line;
	char text[CONFIG_LINE_BYTES + 2]; /* the current line, its \n and a NUL */
	/* the rest of the line that inih has not taken yet; NULL for none */
	const char *pending;
	bool in_section; /* keys go to `section`; otherwise they are skipped, see `skipping` */
	bool skipping;   /* the section's own line was wrong and has been reported */
	size_t section;
};

static void report(struct reader *reader, const char *message)
{
	config_problems_add(reader->source->problems, reader->file, reader->line, "%s", message);
}

enum line_result { LINE_GOOD, LINE_BAD, LINE_END };

/* Reads the next line into reader->text, without its end. */
static enum line_result read_raw_line(struct reader *reader, size_t *ret_len)
{
	size_t len = 0;
	int byte = getc(reader->stream);
	if (byte == EOF) {
		return LINE_END;
	}
	reader->line++;
	for (; byte != EOF && byte != '\n'; byte = getc(reader->stream)) {
		if (byte == '\0') {
			report(reader, "is not a text file: it holds a NUL byte");
			return LINE_END;
		}
		if (len < CONFIG_LINE_BYTES) {
			reader->text[len] = (char)byte;
		}
		len++;
	}
	if (len > CONFIG_LINE_BYTES) {
		config_problems_add(reader->source->problems, reader->file, reader->line,
			"the line has %zu bytes; at most %d are allowed", len, CONFIG_LINE_BYTES);
		return LINE_BAD;
	}
	*ret_len = len;
	return LINE_GOOD;
}

/* The next line without the blanks around it and without a byte order mark. */
static enum line_result read_line(struct reader *reader, char **ret_text)
{
	size_t len = 0;
	enum line_result result = read_raw_line(reader, &len);
	if (result != LINE_GOOD) {
		return result;
	}
	char *text = reader->text;
	if (len > 0 && text[len - 1] == '\r') {
		len--;
	}
	while (len > 0 && strchr(blanks, text[len - 1])) {
		len--;
	}
	text[len] = '\0';
	if (reader->line == 1) {
		text += utf8_skip_mark(text) - text;
	}
	if (!config_is_plain_text(text, strlen(text))) {
		report(reader, "the line is not UTF-8 text or holds a control character");
		return LINE_BAD;
	}
	*ret_text = text + strspn(text, blanks);
	return LINE_GOOD;
}

/* `text` is a whole line that begins with a bracket. */
static void open_section(struct reader *reader, char *text)
{
	reader->in_section = false;
	reader->skipping = true;
	size_t len = strlen(text);
	if (text[len - 1] != ']') {
		report(reader,
			"a section is written [kind] or [kind name], and nothing behind it; a "
			"comment has a line of its own");
		return;
	}
	text[len - 1] = '\0';
	char *rest;
	const char *kind = strtok_r(text + 1, blanks, &rest);
	const char *name = kind ? strtok_r(NULL, blanks, &rest) : NULL;
	if (!kind || (name && strtok_r(NULL, blanks, &rest))) {
		report(reader, "a section is written [kind] or [kind name], its name is one word");
		return;
	}
	reader->section = config_source_open_section(
		reader->source, kind, name ? name : "", reader->file, reader->line);
	reader->in_section = true;
	reader->skipping = false;
}

static bool check_pair(struct reader *reader, const char *text)
{
	const char *equals = strchr(text, '=');
	if (!equals) {
		report(reader, "expected `key = value`, a [section] or a comment");
	} else if (equals == text) {
		report(reader, "there is no key before the =");
	} else if (!reader->in_section) {
		if (!reader->skipping) {
			report(reader, "a key must come below a [section]");
		}
	} else if (!&ini_allow_inline_comments && (strstr(text, " ;") || strstr(text, "\t;"))) {
		report(reader, "this build of inih takes a ; behind a blank for a comment");
	} else {
		return true;
	}
	return false;
}

/*
 * inih takes a colon for an equals sign. It sees a control character in place of a colon that a key
 * holds: a line of a file holds none.
 */
enum { COLON = '\x01' };

static void replace_in_key(char *text, char from, char to)
{
	for (; *text && *text != '='; text++) {
		*text = *text == from ? to : *text;
	}
}

/* Goes on to the next line that holds a key; false at the end. */
static bool next_pair(struct reader *reader)
{
	for (;;) {
		char *text;
		enum line_result result = read_line(reader, &text);
		if (result == LINE_END) {
			return false;
		}
		if (result != LINE_GOOD || *text == '\0' || *text == ';' || *text == '#') {
			continue;
		}
		if (*text == '[') {
			open_section(reader, text);
		} else if (check_pair(reader, text)) {
			strcat(text, "\n");
			replace_in_key(text, ':', COLON);
			reader->pending = text;
			return true;
		}
	}
}

/* As fgets(): gives inih the pending line, in pieces as large as it asks for. */
static char *on_read(char *to, int size, void *context)
{
	struct reader *reader = context;
	size_t room = (size_t)size - 1;
	while (!reader->pending) {
		if (!next_pair(reader)) {
			return NULL;
		}
		if (!&ini_max_line && strlen(reader->pending) > room) {
			report(reader, "the line is longer than this build of inih can read");
			reader->pending = NULL;
		}
	}
	size_t len = strnlen(reader->pending, room);
	memcpy(to, reader->pending, len);
	to[len] = '\0';
	reader->pending = reader->pending[len] ? reader->pending + len : NULL;
	return to;
}

static int on_pair(void *context, const char *section, const char *key, const char *value)
{
	(void)section;
	struct reader *reader = context;
	char *name = allocate_text(key);
	replace_in_key(name, COLON, ':');
	config_source_add(reader->source, reader->section, name, value, reader->file, reader->line);
	free(name);
	return 1;
}

static void set_up_inih(void)
{
	if (&ini_max_line) {
		ini_allow_inline_comments = false;
		ini_allow_multiline = false;
		ini_use_stack = false;
		ini_allow_realloc = true;
		ini_max_line = CONFIG_LINE_BYTES + 4;
	}
}

void config_ini_read(struct config_source *source, const char *file, FILE *stream)
{
	set_up_inih();
	struct reader *reader = allocate_zeroed(1, sizeof(*reader));
	reader->source = source;
	reader->file = file;
	reader->stream = stream;
	errno = 0;
	if (ini_parse_stream(on_read, reader, on_pair, reader) == INIH_NO_MEMORY) {
		allocated(NULL);
	}
	if (ferror(stream)) {
		config_problems_add(
			source->problems, file, 0, "cannot be read: %s", strerror(errno));
	}
	free(reader);
}
