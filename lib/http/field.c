#include "lib/http/field.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_WAIT_S = 600, MAX_AGE_S = 1000000000 };

size_t http_token_len(const char *text, size_t len)
{
	static const bool token[256] = {
		['0' ... '9'] = true,
		['A' ... 'Z'] = true,
		['a' ... 'z'] = true,
		['!'] = true,
		['#'] = true,
		['$'] = true,
		['%'] = true,
		['&'] = true,
		['\''] = true,
		['*'] = true,
		['+'] = true,
		['-'] = true,
		['.'] = true,
		['^'] = true,
		['_'] = true,
		['`'] = true,
		['|'] = true,
		['~'] = true,
	};
	size_t count = 0;
	while (count < len && token[(unsigned char)text[count]]) {
		count++;
	}
	return count;
}

bool http_is_field_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)text[i];
		if (byte < ' ' ? byte != '\t' : byte == 0x7f) {
			return false;
		}
	}
	return true;
}

void http_trim(const char **text, size_t *len)
{
	while (*len > 0 && (**text == ' ' || **text == '\t')) {
		(*text)++;
		(*len)--;
	}
	while (*len > 0 && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t')) {
		(*len)--;
	}
}

/* The end of an item of a list: a comma, or `also`, outside of quotes. */
static const char *item_end(const char *at, char also)
{
	bool quoted = false;
	for (; *at && (quoted || (*at != ',' && *at != also)); at++) {
		if (quoted && *at == '\\' && at[1]) {
			at++;
		} else if (*at == '"') {
			quoted = !quoted;
		}
	}
	return at;
}

static bool range_fits(const char *range, size_t len, const char *media_type, bool wildcards)
{
	if (len == strlen(media_type) && strncasecmp(range, media_type, len) == 0) {
		return true;
	}
	const char *slash = strchr(media_type, '/');
	size_t major = (size_t)(slash - media_type) + 1;
	return wildcards &&
		((len == 3 && memcmp(range, "*/*", 3) == 0) ||
			(len == major + 1 && range[major] == '*' &&
				strncasecmp(range, media_type, major) == 0));
}

static bool is_excluded(const char *parameters, const char *end)
{
	for (const char *at = parameters; at + 2 < end; at++) {
		if ((*at == 'q' || *at == 'Q') && at[1] == '=' &&
			(at[-1] == ';' || at[-1] == ' ')) {
			return strtod(at + 2, NULL) <= 0;
		}
	}
	return false;
}

bool http_accepts(const char *field, const char *media_type, bool wildcards)
{
	if (!field || strcmp(field, "*/*") == 0) {
		return wildcards;
	}
	for (const char *at = field; *at;) {
		at += strspn(at, " \t,");
		const char *end = item_end(at, ',');
		size_t len = strcspn(at, " \t;,");
		if (range_fits(at, len, media_type, wildcards) && !is_excluded(at + len, end)) {
			return true;
		}
		at = end;
	}
	return false;
}

bool http_has_token(const char *field, const char *token)
{
	size_t len = strlen(token);
	for (const char *at = field; at && *at;) {
		at += strspn(at, " \t,");
		size_t word = strcspn(at, " \t,;=");
		if (word == len && strncasecmp(at, token, len) == 0) {
			return true;
		}
		at = item_end(at, ',');
	}
	return false;
}

bool http_tag_matches(const char *field, const char *etag, bool weak)
{
	bool etag_is_weak = strncmp(etag, "W/", 2) == 0;
	etag += etag_is_weak ? 2 : 0;
	size_t len = strlen(etag);
	for (const char *at = field; at && *at;) {
		at += strspn(at, " \t,");
		bool is_weak = etag_is_weak || strncmp(at, "W/", 2) == 0;
		at += strncmp(at, "W/", 2) == 0 ? 2 : 0;
		const char *end = item_end(at, ',');
		size_t item = (size_t)(end - at);
		while (item > 0 && (at[item - 1] == ' ' || at[item - 1] == '\t')) {
			item--;
		}
		if ((item == 1 && *at == '*') ||
			(item == len && memcmp(at, etag, len) == 0 && (weak || !is_weak))) {
			return true;
		}
		at = end;
	}
	return false;
}

/*
 * The text behind `name=`, without its opening quote; NULL when the text does not begin with that.
 */
static const char *value_of(const char *text, const char *name)
{
	size_t len = strlen(name);
	if (strncasecmp(text, name, len) != 0) {
		return NULL;
	}
	const char *at = text + len + strspn(text + len, " \t");
	return *at == '=' ? at + 1 + strspn(at + 1, " \t\"") : NULL;
}

int http_wait_seconds(const char *field)
{
	for (const char *at = field; at && *at;) {
		at += strspn(at, " \t,;");
		const char *value = value_of(at, "wait");
		if (value) {
			long seconds = strtol(value, NULL, 10);
			return seconds < 0 ? 0 : seconds > MAX_WAIT_S ? MAX_WAIT_S : (int)seconds;
		}
		at = item_end(at, ';');
	}
	return 0;
}

long http_max_age_seconds(const char *field)
{
	for (const char *at = field; at && *at;) {
		at += strspn(at, " \t,");
		const char *value = value_of(at, "max-age");
		if (value && *value >= '0' && *value <= '9') {
			long seconds = strtol(value, NULL, 10);
			return seconds > MAX_AGE_S ? MAX_AGE_S : seconds;
		}
		at = item_end(at, ',');
	}
	return -1;
}
