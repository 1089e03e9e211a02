#include "agent/config/expand.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/buffer.h"
#include "agent/config/builtin.h"
#include "agent/config/found.h"
#include "agent/config/own_address.h"
#include "agent/config/value.h"

/* ${container.…} stays as it is. */
static bool keeps_containers;

/* Why an address got a placeholder, since config_expand_missing() was called last. */
static struct err missing;

enum { NESTING_MAX = 16, EXPANDED_BYTES_MAX = 256 * 1024 };

/* One ${name} or ${name:-fallback}; the spans point into the text. */
struct reference {
	const char *name;
	size_t name_len;
	const char *fallback; /* NULL without one */
	size_t fallback_len;
	const char *end; /* behind the closing brace, or behind the name when there is none */
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

/*
 * The length of the name of an environment variable, or of a built-in value, at `text`; 0 for none.
 */
static size_t name_len(const char *text)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t len = strspn(text, letters);
	if (text[len] != '.') {
		return config_is_variable_name(text, len) ? len : 0;
	}
	while (text[len] && (strchr(".-", text[len]) || strspn(text + len, letters))) {
		len++;
	}
	return len;
}

enum reference_form { REFERENCE_NONE, REFERENCE_OPEN, REFERENCE_UNKNOWN, REFERENCE_GOOD };

/* Reads the text behind "${". NONE does not begin with a name; OPEN has no closing brace. */
static enum reference_form read_reference(const char *text, struct reference *ret_reference)
{
	size_t len = name_len(text);
	if (len == 0) {
		return REFERENCE_NONE;
	}
	struct reference reference = { .name = text, .name_len = len };
	const char *close = find_close(text + len);
	if (close && text[len] == ':' && text[len + 1] == '-') {
		reference.fallback = text + len + 2;
		reference.fallback_len = (size_t)(close - reference.fallback);
	}
	reference.end = close ? close + 1 : text + len;
	*ret_reference = reference;
	if (!close) {
		return REFERENCE_OPEN;
	}
	return reference.fallback || close == text + len ? REFERENCE_GOOD : REFERENCE_UNKNOWN;
}

/* A reference that is written wrongly. */
static int fail_form(enum reference_form form, const struct reference *reference, struct err *err)
{
	int name = (int)reference->name_len;
	if (form == REFERENCE_OPEN) {
		return err_set(err, BERTH_FAILED,
			"${%.*s has no closing brace (write $$ for a dollar that means itself)",
			name, reference->name);
	}
	int len = (int)(reference->end - reference->name);
	return err_set(err, BERTH_FAILED,
		"${%.*s is neither ${%.*s} nor ${%.*s:-default} (write $$ "
		"for a dollar that means itself)",
		len, reference->name, name, reference->name, name, reference->name);
}

static int find_builtin(
	const char *name, const struct reference *reference, char **ret_value, struct err *err)
{
	struct err why = ERR_INIT;
	if (keeps_containers && strncmp(name, "container.", strlen("container.")) == 0) {
		*ret_value = allocate_format("${%s}", name);
		return 0;
	}
	int code = config_builtin(name, ret_value, &why);
	if (code && reference->fallback && config_builtin_known(name)) {
		return 0;
	}
	if (code && config_found_is_open() && config_is_address_name(name)) {
		*ret_value = allocate_text(config_address_placeholder(name));
		(void)err_set(&missing, code, "%s", why.msg);
		return 0;
	}
	return code ? err_set(err, code, "%s", why.msg) : 0;
}

static int find_variable(
	const char *name, const struct reference *reference, char **ret_value, struct err *err)
{
	const char *variable = getenv(name);
	if (!variable && !reference->fallback) {
		return err_set(err, BERTH_FAILED,
			"the environment variable %s is not set (give a default with ${%s:-…})",
			name, name);
	}
	*ret_value = variable ? allocate_text(variable) : NULL;
	return 0;
}

static int expand_into(
	struct buffer *to, const char *text, size_t len, int nesting, struct err *err);

static int append_reference(
	struct buffer *to, const struct reference *reference, int nesting, struct err *err)
{
	char *name = allocate_bytes(reference->name, reference->name_len);
	char *value = NULL;
	int code = strchr(name, '.') ? find_builtin(name, reference, &value, err)
				     : find_variable(name, reference, &value, err);
	if (code == 0 && reference->fallback && (!value || !*value)) {
		code = expand_into(
			to, reference->fallback, reference->fallback_len, nesting + 1, err);
	} else if (code == 0) {
		buffer_append_text(to, value);
	}
	free(value);
	free(name);
	return code;
}

/* `text` is on a dollar. */
static int expand_dollar(
	struct buffer *to, const char *text, const char **ret_end, int nesting, struct err *err)
{
	struct reference reference;
	enum reference_form form = text[1] == '{' ? read_reference(text + 2, &reference)
						  : REFERENCE_NONE;
	if (form == REFERENCE_NONE) {
		buffer_append(to, "$", 1);
		*ret_end = text + (text[1] == '$' ? 2 : 1);
		return 0;
	}
	*ret_end = reference.end;
	return form == REFERENCE_GOOD ? append_reference(to, &reference, nesting, err)
				      : fail_form(form, &reference, err);
}

static int expand_into(
	struct buffer *to, const char *text, size_t len, int nesting, struct err *err)
{
	if (nesting > NESTING_MAX) {
		return err_set(err, BERTH_FAILED, "${…} is nested more than %d deep", NESTING_MAX);
	}
	const char *end = text + len;
	int code = 0;
	while (code == 0 && text < end) {
		if (*text == '$') {
			code = expand_dollar(to, text, &text, nesting, err);
		} else {
			buffer_append(to, text++, 1);
		}
	}
	return code;
}

static int check_plain(const struct buffer *expanded, struct err *err)
{
	if (expanded->failed) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "expands to more than %d bytes",
			EXPANDED_BYTES_MAX);
	}
	if (!config_is_plain_text(buffer_text(expanded), expanded->len)) {
		return err_set(err, BERTH_FAILED,
			"expands to text that is not UTF-8 or holds a line "
			"break or control character");
	}
	return 0;
}

int config_expand_dollar(struct buffer *to, const char *text, const char **ret_end, struct err *err)
{
	struct buffer expanded;
	buffer_init(&expanded, EXPANDED_BYTES_MAX);
	int code = expand_dollar(&expanded, text, ret_end, 0, err);
	if (code == 0) {
		code = check_plain(&expanded, err);
	}
	if (code == 0) {
		buffer_append(to, buffer_text(&expanded), expanded.len);
	}
	buffer_finish(&expanded);
	return code;
}

/*
 * Values have no blanks around them, whatever their source: the output of -T must load as the same
 * values.
 */
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
	char *result = NULL;
	if (expand_into(&expanded, text, strlen(text), 0, err) == 0 &&
		check_plain(&expanded, err) == 0) {
		result = allocate_text(buffer_text(&expanded));
		trim(result);
	}
	buffer_finish(&expanded);
	return result;
}

char *config_expand_but_containers(const char *text, struct err *err)
{
	keeps_containers = true;
	char *result = config_expand(text, err);
	keeps_containers = false;
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

bool config_expand_missing(struct err *ret_why)
{
	*ret_why = missing;
	err_clear(&missing);
	return ret_why->code != 0;
}
