#include "agent/check/match.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/check/result.h"
#include "lib/base/utf8.h"

struct check_match {
	regex_t regex;
	bool found;
	bool begun;    /* there is output */
	bool skipping; /* the rest of a line that is too long */
	size_t len;
	char text[CHECK_MATCH_LINE_BYTES + 1]; /* begins at the beginning of a line */
};

struct check_match *check_match_create(const char *pattern, bool ignore_case)
{
	struct check_match *match = allocate_zeroed(1, sizeof(*match));
	int flags = REG_EXTENDED | REG_NOSUB | REG_NEWLINE | (ignore_case ? REG_ICASE : 0);
	int failed = regcomp(&match->regex, pattern, flags);
	return allocated(failed ? NULL : match);
}

void check_match_destroy(struct check_match *match)
{
	if (match) {
		regfree(&match->regex);
		free(match);
	}
}

static void judge(struct check_match *match, size_t len)
{
	utf8_copy_valid(match->text, match->text, len, false);
	match->found = regexec(&match->regex, match->text, 0, NULL, 0) == 0;
}

/* All whole lines at once: to look at each by itself would cost more than to read them. */
static void judge_full(struct check_match *match)
{
	const char *newline = memrchr(match->text, '\n', match->len);
	size_t lines_len = newline ? (size_t)(newline - match->text) : match->len;
	size_t used = newline ? lines_len + 1 : match->len;
	judge(match, lines_len);
	match->skipping = !newline;
	match->len -= used;
	memmove(match->text, match->text + used, match->len);
}

/* How much of the data is rest of a line that is too long. */
static size_t skip(struct check_match *match, const char *data, size_t len)
{
	const char *newline = memchr(data, '\n', len);
	match->skipping = !newline;
	return newline ? (size_t)(newline - data) + 1 : len;
}

static size_t take(struct check_match *match, const char *data, size_t len)
{
	size_t room = CHECK_MATCH_LINE_BYTES - match->len;
	size_t taken = len < room ? len : room;
	memcpy(match->text + match->len, data, taken);
	match->len += taken;
	if (match->len == CHECK_MATCH_LINE_BYTES) {
		judge_full(match);
	}
	return taken;
}

void check_match_add(struct check_match *match, const char *data, size_t len)
{
	match->begun = match->begun || len > 0;
	while (len > 0 && !match->found) {
		size_t used = match->skipping ? skip(match, data, len) : take(match, data, len);
		data += used;
		len -= used;
	}
}

bool check_match_finish(struct check_match *match)
{
	/* Nothing at all counts as an empty line; behind the last line's end there is none. */
	bool has_line = !match->begun || match->len > 0;
	bool ends = match->len > 0 && match->text[match->len - 1] == '\n';
	if (!match->found && !match->skipping && has_line) {
		judge(match, match->len - ends);
	}
	return match->found;
}
