#include "agent/config/shellwords.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/expand.h"
#include "lib/base/buffer.h"

#define BLANKS " \t\n"

enum { WORD_BYTES_MAX = 256 * 1024, LINE_BYTES_MAX = 1024 * 1024 };

struct splitter {
	const char *line;
	const char *at;
	struct buffer word;
	char **words; /* NULL-terminated */
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
	buffer_append(&splitter->word, &c, 1);
}

/* `at` is on any character that quotes nothing. */
static int take_plain(struct splitter *splitter, struct err *err)
{
	if (*splitter->at == '$') {
		return config_expand_dollar(&splitter->word, splitter->at, &splitter->at, err);
	}
	add_character(splitter, *splitter->at++);
	return 0;
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
	int code = 0;
	while (!code && *splitter->at && *splitter->at != *opening) {
		code = *splitter->at == '\\' && *opening == '"'
			? take_backslash(splitter, true, err)
			: take_plain(splitter, err);
	}
	if (!code && !*splitter->at) {
		code = err_set(err, BERTH_FAILED, "column %zu: the %s quote is not closed",
			column(splitter, opening), *opening == '"' ? "double" : "single");
	}
	splitter->at += code ? 0 : 1;
	return code;
}

/* Takes the parts of one word; it ends on a blank or at the end of the line. */
static int take_parts(struct splitter *splitter, struct err *err)
{
	int code = 0;
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
			code = take_plain(splitter, err);
			break;
		}
	}
	return code;
}

static int take_word(struct splitter *splitter, struct err *err)
{
	buffer_init(&splitter->word, WORD_BYTES_MAX);
	int code = take_parts(splitter, err);
	if (!code && splitter->word.failed) {
		code = err_set(err, BERTH_LIMIT_EXCEEDED, "a word expands to more than %d bytes",
			WORD_BYTES_MAX);
	}
	if (!code) {
		splitter->words[splitter->count++] = allocate_text(buffer_text(&splitter->word));
		splitter->words = allocate_grow(
			splitter->words, splitter->count, sizeof(*splitter->words));
	}
	buffer_finish(&splitter->word);
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

int shellwords_split(char ***ret_words, const char *line, struct err *err)
{
	struct splitter splitter = { .line = line, .at = line };
	splitter.words = allocate_grow(NULL, 0, sizeof(*splitter.words));
	int code = 0;
	skip_blanks(&splitter);
	while (!code && *splitter.at) {
		code = take_word(&splitter, err);
		skip_blanks(&splitter);
	}
	if (!code && splitter.count == 0) {
		code = err_set(err, BERTH_FAILED, "the command is empty");
	}
	if (code) {
		shellwords_free(splitter.words);
		return code;
	}
	*ret_words = splitter.words;
	return 0;
}

/* In single quotes where that is possible: only a dollar has a meaning there. */
static void append_word(struct buffer *line, const char *word)
{
	bool plain = *word && !strpbrk(word, BLANKS "'\"\\");
	const char *quote = plain ? "" : strchr(word, '\'') ? "\"" : "'";
	buffer_append_text(line, quote);
	for (; *word; word++) {
		bool escaped = *quote == '"' && (*word == '"' || *word == '\\');
		buffer_append_text(line, escaped ? "\\" : *word == '$' ? "$" : "");
		buffer_append(line, word, 1);
	}
	buffer_append_text(line, quote);
}

char *shellwords_join(char *const *words)
{
	struct buffer line;
	buffer_init(&line, LINE_BYTES_MAX);
	for (size_t i = 0; words[i]; i++) {
		buffer_append_text(&line, i ? " " : "");
		append_word(&line, words[i]);
	}
	char *text = allocate_text(buffer_text(&line));
	buffer_finish(&line);
	return text;
}

/* Behind the quoted part that begins at `at`; NULL when it is not closed. */
static const char *skip_quoted(const char *at)
{
	char quote = *at++;
	while (*at && *at != quote) {
		at += quote == '"' && at[0] == '\\' && at[1] ? 2 : 1;
	}
	return *at ? at + 1 : NULL;
}

/* The length of what only a shell understands at `at`, which is not quoted; 0 for plain text. */
static size_t syntax_len(const char *at, bool begins_word)
{
	if (*at == '`' || strncmp(at, "$(", 2) == 0) {
		return *at == '`' ? 1 : 2;
	}
	if (begins_word) {
		size_t digits = strspn(at, "0123456789");
		size_t operators = strspn(at + digits, "|&;<>");
		if (operators > 0) {
			return digits + operators;
		}
		return strncmp(at, "~/", 2) == 0 ? 2 : 0;
	}
	/* An & or ; within a word is more likely part of a URL. */
	bool ends_word = strchr(BLANKS, at[1]); /* which finds the end of the line, too */
	return (*at == ';' || *at == '&' || *at == '|') && ends_word ? 1 : 0;
}

const char *shellwords_find_syntax(const char *line, size_t *ret_len)
{
	bool begins_word = true;
	for (const char *at = line; at && *at;) {
		*ret_len = syntax_len(at, begins_word);
		if (*ret_len > 0) {
			return at;
		}
		begins_word = strchr(BLANKS, *at) != NULL;
		if (*at == '\'' || *at == '"') {
			at = skip_quoted(at);
		} else {
			at += (at[0] == '\\' || strncmp(at, "$$", 2) == 0) && at[1] ? 2 : 1;
		}
	}
	return NULL;
}

void shellwords_free(char **words)
{
	for (size_t i = 0; words && words[i]; i++) {
		free(words[i]);
	}
	free(words);
}
