#include "agent/api/header.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_WAIT_S = 600 };

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
		if ((*at == 'q' || *at == 'Q') && at[1] == '=' && (at[-1] == ';' || at[-1] == ' ')) {
			return strtod(at + 2, NULL) <= 0;
		}
	}
	return false;
}

bool api_accepts(const char *accept, const char *media_type, bool wildcards)
{
	if (!accept || strcmp(accept, "*/*") == 0) {
		return wildcards;
	}
	for (const char *at = accept; *at;) {
		at += strspn(at, " \t,");
		const char *end = at + strcspn(at, ",");
		size_t len = strcspn(at, " \t;,");
		if (len > 0 && range_fits(at, len, media_type, wildcards) &&
			!is_excluded(at + len, end)) {
			return true;
		}
		at = end;
	}
	return false;
}

bool api_has_token(const char *header, const char *token)
{
	size_t len = strlen(token);
	for (const char *at = header; at && *at;) {
		at += strspn(at, " \t,");
		size_t word = strcspn(at, " \t,;=");
		if (word == len && strncasecmp(at, token, len) == 0) {
			return true;
		}
		at += strcspn(at, ",");
	}
	return false;
}

bool api_tag_matches(const char *header, const char *etag)
{
	size_t len = strlen(etag);
	for (const char *at = header; at && *at;) {
		at += strspn(at, " \t,");
		if (*at == '*') {
			return true;
		}
		at += strncmp(at, "W/", 2) == 0 ? 2 : 0;
		if (strncmp(at, etag, len) == 0) {
			return true;
		}
		at += strcspn(at, ",");
	}
	return false;
}

/* What stands behind `name=` at the beginning of the text, its quote left out; NULL when something else does. */
static const char *value_of(const char *text, const char *name)
{
	size_t len = strlen(name);
	if (strncasecmp(text, name, len) != 0) {
		return NULL;
	}
	const char *at = text + len + strspn(text + len, " \t");
	return *at == '=' ? at + 1 + strspn(at + 1, " \t\"") : NULL;
}

int api_wait_seconds(const char *prefer)
{
	for (const char *at = prefer; at && *at;) {
		at += strspn(at, " \t,;");
		const char *value = value_of(at, "wait");
		if (value) {
			long seconds = strtol(value, NULL, 10);
			return seconds < 0 ? 0 : seconds > MAX_WAIT_S ? MAX_WAIT_S : (int)seconds;
		}
		at += strcspn(at, ",;");
	}
	return 0;
}
