#include "lib/dialect/label.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/hex.h"
#include "lib/base/path.h"

#define UNDERSCORE "--"
#define ESCAPE "---"
#define START "x" /* before an escape at the start, where no - may be */

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* True when `name[at]` is between two plain characters. */
static bool is_inside(const char *name, size_t at)
{
	return at > 0 && is_plain(name[at - 1]) && is_plain(name[at + 1]);
}

static bool is_escaped(const char *name, size_t at)
{
	return !is_plain(name[at]) &&
		!((name[at] == '-' || name[at] == '_') && is_inside(name, at));
}

/* Writes the characters for `name[at]` in the label. */
static int write_byte(char out[8], const char *name, size_t at)
{
	bool is_x = at == 0 && name[0] == START[0] && name[1] != '\0' && is_escaped(name, 1);
	if (is_x || is_escaped(name, at)) {
		return sprintf(
			out, "%s" ESCAPE "%02x", at == 0 ? START : "", (unsigned char)name[at]);
	}
	return name[at] == '_' ? sprintf(out, UNDERSCORE) : sprintf(out, "%c", name[at]);
}

static void write_hash(char out[DIALECT_LABEL_SIZE], const char *name)
{
	uint64_t first = hash_text(HASH_INIT, name);
	uint64_t second = hash_text(first ^ UINT64_MAX, name);
	sprintf(out, "h----%016" PRIx64 "%016" PRIx64, first, second);
}

void dialect_label(char out[DIALECT_LABEL_SIZE], const char *name)
{
	size_t used = 0;
	for (size_t at = 0; name[at]; at++) {
		char part[8];
		size_t len = (size_t)write_byte(part, name, at);
		if (used + len >= DIALECT_LABEL_SIZE) {
			write_hash(out, name);
			return;
		}
		memcpy(out + used, part, len);
		used += len;
	}
	out[used] = '\0';
}

/* The byte at *label, which moves behind it. Any byte where no label could go on like that. */
static char read_byte(const char **label)
{
	const char *at = *label;
	size_t hyphens = strspn(at, "-");
	if (hyphens == strlen(ESCAPE)) {
		at += strlen(ESCAPE);
		*label = at + strnlen(at, 2);
		return (char)hex_byte(at);
	}
	if (hyphens == strlen(UNDERSCORE)) {
		*label = at + strlen(UNDERSCORE);
		return '_';
	}
	*label = at + 1;
	return *at;
}

bool dialect_label_name(char out[DIALECT_LABEL_SIZE], const char *label)
{
	char name[DIALECT_LABEL_SIZE];
	char again[DIALECT_LABEL_SIZE];
	size_t used = 0;
	if (!path_element_valid(label, strlen(label))) {
		return false;
	}
	bool starts = strncmp(label, START ESCAPE, strlen(START ESCAPE)) == 0;
	for (const char *at = label + starts; *at;) {
		name[used++] = read_byte(&at);
	}
	name[used] = '\0';
	/* One name has one label: what is spelt in another way is the label of no name. */
	dialect_label(again, name);
	if (strcmp(again, label) != 0) {
		return false;
	}
	memcpy(out, name, used + 1);
	return true;
}
