#include "agent/config/expand.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/buffer.h"
#include "agent/config/builtin.h"
#include "agent/config/value.h"

enum { NESTING_MAX = 16, EXPANDED_BYTES_MAX = 256 * 1024 };

/* One ${name} or ${name:-fallback}; the spans point into the text. */
struct reference {
	const char *name;
	size_t name_len;
	const char *fallback; /* NULL without one */
	size_t fallback_len;
	const char *end; /* behind the closing brace; NULL when there is none */
};

/* The brace that closes the one before `text`, minding nested ${…}. */
static const char *find_close(const char *text)
{
	int depth = 0;
	for (const char *at = text; *at; at++) {
		if (at[0] == '$' && at[1] == '{') {
			depth++;
			at++;
		} else if (*at == '}' && depth-- == 0) {
			return at;
		}
	}
	return NULL;
}

/* Reads what stands behind "${"; false when it does not have our form and stays as it is. */
static bool read_reference(const char *text, struct reference *ret_reference)
{
	size_t len = strspn(
		text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
	bool builtin = memchr(text, '.', len) != NULL;
	if (!builtin && !config_is_variable_name(text, len)) {
		return false;
	}
	struct reference reference = { .name = text, .name_len = len };
	const char *at = text + len;
	if (at[0] == ':' && at[1] == '-') {
		reference.fallback = at + 2;
		const char *close = find_close(reference.fallback);
		reference.fallback_len = close ? (size_t)(close - reference.fallback) : 0;
		reference.end = close ? close + 1 : NULL;
	} else if (*at == '}') {
		reference.end = at + 1;
	} else if (*at) {
		return false;
	}
	*ret_reference = reference;
	return true;
}

static int expand_into(
	struct buffer *to, const char *text, size_t len, int nesting, struct err *err);

static int append_reference(
	struct buffer *to, const struct reference *reference, int nesting, struct err *err)
{
	char *name = allocate_bytes(reference->name, reference->name_len);
	char *value = NULL;
	int ret = 0;
	if (!reference->end) {
		ret = err_set(err, BERTH_FAILED,
			"${%s has no closing brace (write $$ for a dollar that means itself)", name);
	} else if (strchr(name, '.')) {
		struct err why = ERR_INIT;
		ret = config_builtin(name, &value, &why);
		if (ret && reference->fallback && config_builtin_known(name)) {
			ret = 0;
		} else if (ret) {
			err_set(err, ret, "%s", why.msg);
		}
	} else {
		const char *variable = getenv(name);
		value = variable ? allocate_text(variable) : NULL;
		if (!variable && !reference->fallback) {
			ret = err_set(err, BERTH_FAILED,
				"the environment variable %s is not set (give a default with ${%s:-…})",
				name, name);
		}
	}
	if (ret == 0 && reference->fallback && (!value || !*value)) {
		ret = expand_into(
			to, reference->fallback, reference->fallback_len, nesting + 1, err);
	} else if (ret == 0) {
		buffer_append_text(to, value);
	}
	free(value);
	free(name);
	return ret;
}

static int expand_into(struct buffer *to, const char *text, size_t len, int nesting, struct err *err)
{
	if (nesting > NESTING_MAX) {
		return err_set(err, BERTH_FAILED, "${…} is nested more than %d deep", NESTING_MAX);
	}
	const char *end = text + len;
	while (text < end) {
		struct reference reference;
		if (text[0] == '$' && text + 1 < end && text[1] == '$') {
			buffer_append(to, "$", 1);
			text += 2;
		} else if (text[0] == '$' && text + 1 < end && text[1] == '{' &&
			read_reference(text + 2, &reference)) {
			int ret = append_reference(to, &reference, nesting, err);
			if (ret) {
				return ret;
			}
			text = reference.end;
		} else {
			buffer_append(to, text, 1);
			text++;
		}
	}
	return 0;
}

/* Values have no blanks around them, wherever they come from: what -T prints must read back the same. */
static void trim(char *text)
{
	static const char blanks[] = " \t";
	size_t len = strlen(text);
	while (len > 0 && strchr(blanks, text[len - 1])) {
		len--;
	}
	text[len] = '\0';
	size_t start = strspn(text, blanks);
	memmove(text, text + start, len - start + 1);
}

char *config_expand(const char *text, struct err *err)
{
	struct buffer expanded;
	buffer_init(&expanded, EXPANDED_BYTES_MAX);
	int ret = expand_into(&expanded, text, strlen(text), 0, err);
	if (ret == 0 && expanded.failed) {
		ret = err_set(err, BERTH_LIMIT_EXCEEDED, "expands to more than %d bytes",
			EXPANDED_BYTES_MAX);
	}
	if (ret == 0 && !config_is_plain_text(buffer_text(&expanded), expanded.len)) {
		ret = err_set(err, BERTH_FAILED,
			"expands to what is not UTF-8 text or holds a line break or control character");
	}
	char *result = NULL;
	if (ret == 0) {
		result = allocate_text(buffer_text(&expanded));
		trim(result);
	}
	buffer_finish(&expanded);
	return result;
}

char *config_unexpand(const char *text)
{
	struct buffer doubled;
	buffer_init(&doubled, 2 * (size_t)EXPANDED_BYTES_MAX);
	for (; *text; text++) {
		buffer_append_text(&doubled, *text == '$' ? "$$" : (char[]){ *text, '\0' });
	}
	char *result = allocate_text(buffer_text(&doubled));
	buffer_finish(&doubled);
	return result;
}
