#include "agent/base/hosts_block.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BEGIN "# BEGIN berth "
#define END "# END berth "
#define FORMER_HEAD "# components of "

enum { MARK_BYTES = 128 };

struct line {
	const char *text;
	size_t len;       /* without the end of line and blanks before it */
	const char *next; /* the beginning of the line behind it */
};

static struct line read_line(const char *at, const char *end)
{
	const char *newline = memchr(at, '\n', (size_t)(end - at));
	struct line line = { at, (size_t)((newline ? newline : end) - at),
		newline ? newline + 1 : end };
	while (line.len > 0 && strchr(" \t\r", at[line.len - 1])) {
		line.len--;
	}
	return line;
}

static bool is_text(const struct line *line, const char *text)
{
	return line->len == strlen(text) && memcmp(line->text, text, line->len) == 0;
}

static bool begins(const struct line *line, const char *text)
{
	size_t len = strlen(text);
	return line->len >= len && memcmp(line->text, text, len) == 0;
}

/* Whether the line is an address, and names below the domain alone, as 0.2.0 wrote it. */
static bool is_former(const struct line *line, const char *domain)
{
	char address[INET6_ADDRSTRLEN];
	unsigned char ignored[sizeof(struct in6_addr)];
	const char *end = line->text + line->len;
	const char *tab = memchr(line->text, '\t', line->len);
	size_t len = tab ? (size_t)(tab - line->text) : 0;
	size_t domain_len = strlen(domain);
	if (len == 0 || len >= sizeof(address)) {
		return false;
	}
	memcpy(address, line->text, len);
	address[len] = '\0';
	if (inet_pton(strchr(address, ':') ? AF_INET6 : AF_INET, address, ignored) != 1) {
		return false;
	}
	for (const char *name = tab + 1; name < end;) {
		const char *blank = memchr(name, ' ', (size_t)(end - name));
		size_t name_len = (size_t)((blank ? blank : end) - name);
		if (name_len <= domain_len ||
			memcmp(name + name_len - domain_len, domain, domain_len) != 0 ||
			name[name_len - domain_len - 1] != '.') {
			return false;
		}
		name += name_len + 1;
	}
	return true;
}

/* Appends the text without the lines of 0.2.0. */
static void append_without_former(
	struct buffer *out, const char *text, const char *end, const char *domain)
{
	bool among_former = false;
	while (text < end) {
		struct line line = read_line(text, end);
		among_former = begins(&line, FORMER_HEAD) ||
			(among_former && is_former(&line, domain));
		if (!among_former) {
			buffer_append(out, text, (size_t)(line.next - text));
		}
		text = line.next;
	}
}

static void append_block(struct buffer *out, const struct hosts_block *block)
{
	buffer_printf(out, BEGIN "%s\n", block->name);
	buffer_append(out, block->lines, block->len);
	buffer_printf(out, END "%s\n", block->name);
}

/* Where the block is; NULL: it is not there. */
struct place {
	const char *begin;
	const char *end; /* behind it */
};

static int find_block(struct place *ret_place, const char *text, const char *end, const char *name,
	struct err *err)
{
	char begin_mark[MARK_BYTES];
	char end_mark[MARK_BYTES];
	struct place place = { NULL, NULL };
	int number = 0;
	int open_line = 0;
	snprintf(begin_mark, sizeof(begin_mark), BEGIN "%s", name);
	snprintf(end_mark, sizeof(end_mark), END "%s", name);
	while (text < end) {
		struct line line = read_line(text, end);
		number++;
		if (is_text(&line, begin_mark) && place.begin && !open_line) {
			return err_set(err, BERTH_FAILED, "line %d has a second \"%s\"", number,
				begin_mark);
		}
		if (is_text(&line, end_mark) && !open_line) {
			return err_set(err, BERTH_FAILED, "line %d has \"%s\" without \"%s\"",
				number, end_mark, begin_mark);
		}
		if (open_line && is_text(&line, end_mark)) {
			place.end = line.next;
			open_line = 0;
		} else if (open_line && (begins(&line, BEGIN) || begins(&line, END))) {
			break;
		} else if (is_text(&line, begin_mark)) {
			place.begin = text;
			open_line = number;
		}
		text = line.next;
	}
	if (open_line) {
		return err_set(err, BERTH_FAILED, "line %d has \"%s\", and no \"%s\" follows",
			open_line, begin_mark, end_mark);
	}
	*ret_place = place;
	return 0;
}

int hosts_block_put(struct buffer *out, const char *text, size_t len,
	const struct hosts_block *block, struct err *err)
{
	const char *end = text + len;
	struct place place;
	int code = find_block(&place, text, end, block->name, err);
	if (code) {
		return code;
	}
	if (place.begin) {
		buffer_append(out, text, (size_t)(place.begin - text));
		append_block(out, block);
		buffer_append(out, place.end, (size_t)(end - place.end));
		return 0;
	}
	append_without_former(out, text, end, block->domain);
	if (out->len > 0 && out->data[out->len - 1] != '\n') {
		buffer_append(out, "\n", 1);
	}
	append_block(out, block);
	return 0;
}
