#include "agent/config/label.h"

#include <idn2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/hash.h"
#include "lib/base/path.h"
#include "lib/base/quote.h"
#include "lib/base/utf8.h"

#define LABEL_RULE                                                                                 \
	"a DNS label has 1 to 63 characters of a-z, 0-9 and, not at its ends, - (_ becomes -)"

static bool is_ascii(const char *text)
{
	for (const char *c = text; *c; c++) {
		if ((unsigned char)*c > 0x7f) {
			return false;
		}
	}
	return true;
}

/* ASCII only, in every locale. */
static void lower_and_hyphenate(char *text)
{
	for (char *c = text; *c; c++) {
		if (*c >= 'A' && *c <= 'Z') {
			*c = (char)(*c - 'A' + 'a');
		} else if (*c == '_') {
			*c = '-';
		}
	}
}

/*
 * `name` as ASCII, malloc'ed. ASCII stays as it is: the library refuses some of what we allow
 * (a--b).
 */
static int to_ascii(char **ret_ascii, const char *name, const char *what, struct err *err)
{
	if (is_ascii(name)) {
		*ret_ascii = allocate_text(name);
		return 0;
	}
	/* Transitional is what Java's IDN does, and Hadoop with it. */
	int result = idn2_to_ascii_8z(name, ret_ascii, IDN2_TRANSITIONAL);
	if (result == IDN2_OK) {
		return 0;
	}
	return err_set(err, BERTH_INVALID_PATHNAME, "%s %s has no form as a DNS label: %s", what,
		quote_text(name).text, idn2_strerror(result));
}

static int make_label(char label[LABEL_SIZE], const char *name, const char *what, struct err *err)
{
	char *ascii = NULL;
	int code = to_ascii(&ascii, name, what, err);
	if (code) {
		return code;
	}
	lower_and_hyphenate(ascii);
	size_t len = strlen(ascii);
	if (path_element_valid(ascii, len)) {
		memcpy(label, ascii, len + 1);
	} else {
		code = err_set(err, BERTH_INVALID_PATHNAME, "%s %s gives %s; " LABEL_RULE, what,
			quote_text(name).text, quote(ascii, len).text);
	}
	free(ascii);
	return code;
}

/* A character that a label can hold, or that IDNA makes one of. */
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		(unsigned char)c > 0x7f;
}

/*
 * The first `len` bytes of a name with - for each byte that no label holds, and a mark that
 * distinguishes this name from similar ones.
 */
static char *marked_name(const char *name, size_t len)
{
	char *readable = allocate_bytes(name, len);
	for (char *c = readable; *c; c++) {
		*c = is_plain(*c) ? *c : '-';
	}
	const char *begin = readable + strspn(readable, "-");
	uint64_t hash = hash_text(HASH_INIT, name);
	char *marked = allocate_format(
		"%s%s%08x", begin, *begin ? "-" : "u-", (unsigned)(uint32_t)(hash ^ hash >> 32));
	free(readable);
	return marked;
}

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* As much of the name as fits into a label together with its mark. */
static int make_marked_label(char label[LABEL_SIZE], const char *name, struct err *err)
{
	size_t len = strlen(name);
	int code;
	do {
		char *marked = marked_name(name, len);
		err_clear(err);
		code = make_label(label, marked, "user", err);
		free(marked);
		while (len > 0 && is_continuation(name[--len])) {
		}
	} while (code && len > 0);
	return code;
}

int label_from_user(char label[LABEL_SIZE], const char *user, struct err *err)
{
	char *name = allocate_bytes(user, strcspn(user, "/@"));
	int code = make_label(label, name, "user", err);
	if (code && *name && utf8_is_valid(name, strlen(name))) {
		code = make_marked_label(label, name, err);
	}
	free(name);
	return code;
}

int label_from_container_id(char label[LABEL_SIZE], const char *id, struct err *err)
{
	if (!is_ascii(id)) {
		return err_set(err, BERTH_INVALID_PATHNAME,
			"container ID %s is not ASCII; " LABEL_RULE, quote_text(id).text);
	}
	return make_label(label, id, "container ID", err);
}
