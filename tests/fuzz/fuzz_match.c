/*
 * A pattern over a command's output: how the output is cut into pieces makes no difference, and up
 * to the longest line the verdict is that of regexec() over the whole.
 * The first byte: the pattern; bit 6, the output is repeated until it is longer than the longest
 * line; bit 7, without regard to case. The second is the size of the pieces.
 */
#include <assert.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/check/match.h"
#include "lib/base/array.h"
#include "lib/base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char *const patterns[] = { "^OK$", "^$", "a+b", "[^a]$", "(x|yz)*w", "." };

enum { PATTERNS = ARRAY_LEN(patterns) };

static bool match_in_pieces(
	const char *pattern, bool ignore_case, const char *data, size_t len, size_t piece)
{
	struct check_match *match = check_match_create(pattern, ignore_case);
	for (size_t at = 0; at < len; at += piece) {
		check_match_add(match, data + at, len - at < piece ? len - at : piece);
	}
	bool found = check_match_finish(match);
	check_match_destroy(match);
	return found;
}

static bool match_whole(const char *pattern, bool ignore_case, const char *data, size_t len)
{
	char *text = malloc(len + 1);
	regex_t regex;
	int flags = REG_EXTENDED | REG_NOSUB | REG_NEWLINE | (ignore_case ? REG_ICASE : 0);
	assert(text && regcomp(&regex, pattern, flags) == 0);
	utf8_copy_valid(text, data, len, false);
	bool found = regexec(&regex, text, 0, NULL, 0) == 0;
	regfree(&regex);
	free(text);
	return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len < 2) {
		return 0;
	}
	const char *pattern = patterns[(data[0] & 0x3f) % PATTERNS];
	bool ignore_case = data[0] & 0x80;
	bool repeated = data[0] & 0x40 && len > 2 && len < CHECK_MATCH_LINE_BYTES;
	size_t piece = (size_t)data[1] + 1;
	size_t output_len = (len - 2) * (repeated ? CHECK_MATCH_LINE_BYTES / (len - 2) + 2 : 1);
	char *output = malloc(output_len + 1);
	assert(output);
	for (size_t at = 0; at < output_len; at += len - 2) {
		memcpy(output + at, data + 2, len - 2);
	}
	bool whole = match_in_pieces(pattern, ignore_case, output, output_len, output_len + 1);
	assert(whole == match_in_pieces(pattern, ignore_case, output, output_len, piece));
	if (output_len < CHECK_MATCH_LINE_BYTES) {
		assert(whole == match_whole(pattern, ignore_case, output, output_len));
	}
	free(output);
	return 0;
}
