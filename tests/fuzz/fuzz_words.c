/*
 * A command either splits or is refused with a reason; its words join to a line that splits into
 * the same words.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/shellwords.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *line = malloc(len + 1);
	assert(line);
	memcpy(line, data, len);
	line[len] = '\0';
	size_t syntax_len = 0;
	const char *syntax = shellwords_find_syntax(line, &syntax_len);
	assert(!syntax || (syntax_len > 0 && syntax + syntax_len <= line + strlen(line)));
	struct err err = ERR_INIT;
	char **words = NULL;
	if (shellwords_split(&words, line, &err)) {
		assert(err.code && err.msg[0] && !words);
		free(line);
		return 0;
	}
	char *joined = shellwords_join(words);
	char **again = NULL;
	assert(shellwords_split(&again, joined, &err) == 0);
	size_t i = 0;
	for (; words[i] && again[i]; i++) {
		assert(strcmp(words[i], again[i]) == 0);
	}
	assert(i > 0 && !words[i] && !again[i]);
	shellwords_free(again);
	shellwords_free(words);
	free(joined);
	free(line);
	return 0;
}
