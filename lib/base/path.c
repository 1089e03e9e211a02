#include "lib/base/path.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/base/quote.h"
#include "lib/base/utf8.h"

enum { FOREIGN_ELEMENT_BYTES = 1000 };

#define SERVERS_OWN "/zookeeper"

#define ELEMENT_RULE "an element has 1 to 63 characters of a-z, 0-9 and, not at its ends, -"

static bool is_letter_or_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* NULL, or the fault of the element. */
static const char *element_fault(const char *element, size_t len)
{
	if (len == 0) {
		return "is empty";
	}
	if (len > LIMIT_PATH_ELEMENT_BYTES) {
		return "is too long";
	}
	for (size_t i = 0; i < len; i++) {
		if (!is_letter_or_digit(element[i]) && element[i] != '-') {
			return "holds a character that is not allowed";
		}
	}
	if (element[0] == '-' || element[len - 1] == '-') {
		return "begins or ends with -";
	}
	return NULL;
}

bool path_element_valid(const char *element, size_t len)
{
	return !element_fault(element, len);
}

static int check_element(
	const char *path, size_t len, size_t start, size_t end, size_t number, struct err *err)
{
	const char *fault = element_fault(path + start, end - start);
	if (!fault) {
		return 0;
	}
	if (end == len && start == end) {
		return err_set(err, BERTH_INVALID_PATHNAME,
			"path %s ends with /: only / itself may", quote(path, len).text);
	}
	return err_set(err, BERTH_INVALID_PATHNAME, "path %s: element %zu %s %s; " ELEMENT_RULE,
		quote(path, len).text, number, quote(path + start, end - start).text, fault);
}

int path_check(const char *path, size_t len, struct err *err)
{
	if (len == 0 || path[0] != '/') {
		return err_set(err, BERTH_INVALID_PATHNAME, "path %s does not begin with /",
			quote(path, len).text);
	}
	if (len > LIMIT_PATH_BYTES) {
		return err_set(err, BERTH_INVALID_PATHNAME,
			"path %s has %zu bytes; at most %d are allowed", quote(path, len).text, len,
			LIMIT_PATH_BYTES);
	}
	if (len == 1) {
		return 0;
	}
	size_t number = 1;
	for (size_t start = 1; start <= len; number++) {
		const char *slash = memchr(path + start, '/', len - start);
		size_t end = slash ? (size_t)(slash - path) : len;
		int code = check_element(path, len, start, end, number, err);
		if (code) {
			return code;
		}
		start = end + 1;
	}
	return 0;
}

/*
 * True where a character begins that ZooKeeper refuses. Its servers see those beyond U+FFFF as
 * surrogates. Bytes of UTF-8 sort as their characters do.
 */
static bool is_private_or_special(const char *text, size_t len)
{
	static const struct {
		char first[4], last[4];
	} refused[] = {
		{ "\xee\x80\x80", "\xef\xa3\xbf" }, /* U+E000 to U+F8FF */
		{ "\xef\xbf\xb0", "\xff\xff\xff" }, /* from U+FFF0 on */
	};
	for (size_t i = 0; len >= 3 && i < ARRAY_LEN(refused); i++) {
		if (memcmp(text, refused[i].first, 3) >= 0 &&
			memcmp(text, refused[i].last, 3) <= 0) {
			return true;
		}
	}
	return false;
}

/* A name that every ZooKeeper server takes, and that shows in a line as what it is. */
static bool is_plain_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		unsigned char next = i + 1 < len ? (unsigned char)text[i + 1] : 0;
		bool is_c1_control = c == 0xc2 && next < 0xa0;
		if (c < 0x20 || c == 0x7f || c == '/' || is_c1_control ||
			is_private_or_special(text + i, len - i)) {
			return false;
		}
	}
	return utf8_is_valid(text, len);
}

static const char *foreign_element_fault(const char *element, size_t len)
{
	if (len == 0) {
		return "is empty";
	}
	if (len > FOREIGN_ELEMENT_BYTES) {
		return "is too long";
	}
	if (element[0] == '.' && (len == 1 || (len == 2 && element[1] == '.'))) {
		return "names no node";
	}
	return is_plain_text(element, len) ? NULL : "holds a character that is not allowed";
}

bool path_foreign_element_valid(const char *element, size_t len)
{
	return !foreign_element_fault(element, len);
}

/* Checks a path in the tree of the registry's server; messages call it `what`. */
static int check_on_server(const char *what, const char *path, size_t len, struct err *err)
{
	if (len < 2 || path[0] != '/') {
		return err_set(err, BERTH_INVALID_PATHNAME,
			"%s %s is not of the form /element/element", what, quote(path, len).text);
	}
	if (len >= LIMIT_PATH_BYTES) {
		return err_set(err, BERTH_INVALID_PATHNAME,
			"%s %s has %zu bytes; at most %d are allowed", what, quote(path, len).text,
			len, LIMIT_PATH_BYTES - 1);
	}
	for (size_t start = 1; start <= len;) {
		const char *slash = memchr(path + start, '/', len - start);
		size_t end = slash ? (size_t)(slash - path) : len;
		const char *fault = foreign_element_fault(path + start, end - start);
		if (fault) {
			return err_set(err, BERTH_INVALID_PATHNAME, "%s %s: element %s %s", what,
				quote(path, len).text, quote(path + start, end - start).text,
				fault);
		}
		start = end + 1;
	}
	const size_t own_len = sizeof(SERVERS_OWN) - 1;
	if (len >= own_len && memcmp(path, SERVERS_OWN, own_len) == 0 &&
		(len == own_len || path[own_len] == '/')) {
		return err_set(err, BERTH_INVALID_PATHNAME, "%s %s is the server's own", what,
			quote(path, len).text);
	}
	return 0;
}

int path_foreign_check(const char *path, size_t len, struct err *err)
{
	return check_on_server("foreign path", path, len, err);
}

int path_root_check(const char *path, size_t len, struct err *err)
{
	bool is_servers_root = len == 1 && path[0] == '/';
	return is_servers_root ? 0 : check_on_server("root node", path, len, err);
}

int path_join(char *out, size_t size, const char *parent, const char *element, struct err *err)
{
	size_t element_len = strlen(element);
	const char *fault = element_fault(element, element_len);
	if (fault) {
		return err_set(err, BERTH_INVALID_PATHNAME, "path element %s %s; " ELEMENT_RULE,
			quote(element, element_len).text, fault);
	}
	size_t parent_len = strcmp(parent, "/") == 0 ? 0 : strlen(parent);
	size_t len = parent_len + 1 + element_len;
	if (len > LIMIT_PATH_BYTES || len >= size) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"path of %s below %s would have %zu bytes; at most %zu are allowed",
			quote(element, element_len).text, quote(parent, strlen(parent)).text, len,
			len > LIMIT_PATH_BYTES ? (size_t)LIMIT_PATH_BYTES : size - 1);
	}
	memmove(out, parent, parent_len);
	out[parent_len] = '/';
	memcpy(out + parent_len + 1, element, element_len + 1);
	return 0;
}

size_t path_parent_len(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash || slash[1] == '\0' || (path_is_foreign(path) && slash == path + 1)) {
		return 0;
	}
	return slash == path ? 1 : (size_t)(slash - path);
}

const char *path_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool path_is_child(const char *path, const char *parent)
{
	size_t len = path_parent_len(path);
	return len > 0 && strncmp(path, parent, len) == 0 && parent[len] == '\0';
}

bool path_is_under(const char *path, const char *ancestor)
{
	size_t len = strcmp(ancestor, "/") == 0 ? 0 : strlen(ancestor);
	return strncmp(path, ancestor, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

bool path_dns_name(char out[PATH_DNS_NAME_BYTES], const char *path, const char *domain)
{
	size_t used = 0;
	for (size_t end = strlen(path); end > 1;) {
		size_t start = end;
		while (path[start - 1] != '/') {
			start--;
		}
		if (used + (end - start) + 1 > LIMIT_DNS_NAME_BYTES) {
			return false;
		}
		memcpy(out + used, path + start, end - start);
		used += end - start;
		out[used++] = '.';
		end = start - 1;
	}
	if (used + strlen(domain) > LIMIT_DNS_NAME_BYTES) {
		return false;
	}
	strcpy(out + used, domain);
	return true;
}

size_t path_depth(const char *path)
{
	size_t depth = 0;
	for (const char *c = path; *c; c++) {
		depth += c[0] == '/' && c[1] != '\0';
	}
	return depth;
}
