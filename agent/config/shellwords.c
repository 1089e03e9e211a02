#include "agent/config/shellwords.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

#define BLANKS " \t\n"

struct splitter {
	const char *line;
	const char *at;
	char *word; /* scratch, as long as the line: no word is longer */
	size_t len;
	char **words;
	size_t count;
};

static size_t column(const struct splitter *splitter, const char *place)
{
	size_t characters = 1;
	for (const char *c = splitter->line; c < place; c++) {
		characters += ((unsigned char)*c & 0xc0) != 0x80; /* not a UTF-8 continuation */
	}
	return characters;
}

static void add_character(struct splitter *splitter, char c)
{
	splitter->word[splitter->len++] = c;
}

/*
 * `at` is on a backslash outside of single quotes; in double quotes it quotes only some characters.
 */
static int take_backslash(struct splitter *splitter, bool in_double_quotes, struct err *err)
{
	char quoted = splitter->at[1];
	if (quoted == '\0') {
		return err_set(err, BERTH_FAILED,
			"column %zu: a backslash at the end quotes nothing",
			column(splitter, splitter->at));
	}
	if (in_double_quotes && !strchr("\"\\$`\n", quoted)) {
		add_character(splitter, '\\');
	}
	if (quoted != '\n') {
		add_character(splitter, quoted);
	}
	splitter->at += 2;
	return 0;
}

/* `at` is on the opening quote and ends behind the closing one. */
static int take_quoted(struct splitter *splitter, struct err *err)
{
	const char *opening = splitter->at++;
	while (*splitter->at && *splitter->at != *opening) {
		if (*splitter->at != '\\' || *opening == '\'') {
			add_character(splitter, *splitter->at++);
			continue;
		}
		int code = take_backslash(splitter, true, err);
		if (code) {
			return code;
		}
	}
	if (!*splitter->at) {
		return err_set(err, BERTH_FAILED, "column %zu: the %s quote is not closed",
			column(splitter, opening), *opening == '"' ? "double" : "single");
	}
	splitter->at++;
	return 0;
}

/* Takes what belongs to one word; it ends on a blank or at the end of the line. */
static int take_word(struct splitter *splitter, struct err *err)
{
	int code = 0;
	splitter->len = 0;
	while (!code && *splitter->at && !strchr(BLANKS, *splitter->at)) {
		switch (*splitter->at) {
		case '\'':
		case '"':
			code = take_quoted(splitter, err);
			break;
		case '\\':
			code = take_backslash(splitter, false, err);
			break;
		default:
			add_character(splitter, *splitter->at++);
			break;
		}
	}
	return code;
}

/* Skips blanks, joined lines among them. */
static void skip_blanks(struct splitter *splitter)
{
	for (;;) {
		splitter->at += strspn(splitter->at, BLANKS);
		if (strncmp(splitter->at, "\\\n", 2) != 0) {
			return;
		}
		splitter->at += 2;
	}
}

static int take_words(struct splitter *splitter, struct err *err)
{
	int code = 0;
	skip_blanks(splitter);
	while (!code && *splitter->at) {
		code = take_word(splitter, err);
		if (!code) {
			splitter->words[splitter->count++] = allocate_bytes(
				splitter->word, splitter->len);
		}
		skip_blanks(splitter);
	}
	if (!code && splitter->count == 0) {
		code = err_set(err, BERTH_FAILED, "the command is empty");
	}
	return code;
}

int shellwords_split(char ***ret_words, const char *line, struct err *err)
{
	size_t len = strlen(line);
	struct splitter splitter = {
		.line = line,
		.at = line,
		.word = allocate_zeroed(len + 1, 1),
		/* Every word but the last has a blank behind it. */
		.words = allocate_zeroed(len / 2 + 2, sizeof(*splitter.words)),
	};
	int code = take_words(&splitter, err);
	free(splitter.word);
	if (code) {
		shellwords_free(splitter.words);
		return code;
	}
	*ret_words = splitter.words;
	return 0;
}

void shellwords_free(char **words)
{
	for (size_t i = 0; words && words[i]; i++) {
		free(words[i]);
	}
	free(words);
}
