#include "xds/name.h"

#include <string.h>

#include "lib/base/path.h"
#include "lib/names/meaning.h"

/* Appends bytes of a target, with %XX for those that it cannot hold, and for those in `others`. */
static void append(struct buffer *out, const char *text, size_t len, const char *others)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		bool plain = c > ' ' && c < 0x7f && !strchr(others, c);
		buffer_printf(out, plain ? "%c" : "%%%02X", c);
	}
}

void name_add(struct buffer *out, const char *name, const char *value)
{
	buffer_printf(out, "&%s=", name);
	append(out, value, strlen(value), "%&+#=?");
}

/* attribute.NAME=VALUE&…, in the form that a target has; false for other text. */
static bool add_selection(struct buffer *out, const char *query)
{
	static const char prefix[] = "attribute.";
	while (*query) {
		size_t len = strcspn(query, "&");
		if (strncmp(query, prefix, strlen(prefix)) != 0 || !memchr(query, '=', len)) {
			return false;
		}
		buffer_append_text(out, "&");
		append(out, query, len, "#");
		query += len + (query[len] == '&');
	}
	return true;
}

/* The length of a name without a port behind it. */
static size_t len_without_port(const char *name, size_t len)
{
	enum { PORT_DIGITS = 5 };
	const char *colon = memrchr(name, ':', len);
	size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
	bool is_port = digits > 0 && digits <= PORT_DIGITS && colon + 1 + digits == name + len;
	return is_port ? (size_t)(colon - name) : len;
}

static bool add_name(struct buffer *out, const char *name, size_t len, const char *domain)
{
	char text[NAMES_NAME_BYTES + 1];
	struct names_labels labels;
	struct names_name read;
	if (len >= sizeof(text)) {
		return false;
	}
	memcpy(text, name, len);
	text[len] = '\0';
	if (strlen(text) < len || !names_split(&labels, text)) {
		return false;
	}
	(void)names_take_domain(&labels, domain);
	names_read(&read, &labels, "");
	if (!names_can_be(&read)) {
		return false;
	}
	names_join(text, &labels);
	buffer_append_text(out, "/v1/set/");
	append(out, text, strlen(text), "%&+#=?/");
	buffer_append_text(out, "?as=name");
	return true;
}

bool name_target(struct buffer *out, const char *name, const char *domain)
{
	size_t whole = strcspn(name, "?");
	size_t len = len_without_port(name, whole);
	if (name[0] == '/') {
		if (path_check(name, len, NULL) != 0) {
			return false;
		}
		buffer_printf(out, "/v1/set%.*s?as=path", (int)len, name);
	} else if (!add_name(out, name, len, domain)) {
		return false;
	}
	return name[whole] != '?' || add_selection(out, name + whole + 1);
}
