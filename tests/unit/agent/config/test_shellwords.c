#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/shellwords.h"
#include "lib/base/array.h"

TestSuite(shellwords);

struct example {
	char line[80];
	char words[80]; /* each in < >; or the message */
};

static void join(char *out, size_t size, char **words)
{
	out[0] = '\0';
	for (size_t i = 0; words[i]; i++) {
		size_t used = strlen(out);
		snprintf(out + used, size - used, "<%s>", words[i]);
	}
}

ParameterizedTestParameters(shellwords, splits)
{
	static struct example examples[] = {
		{ "true", "<true>" },
		{ "  a \t b\n c  ", "<a><b><c>" },
		{ "curl -fsS http://localhost:1/health",
			"<curl><-fsS><http://localhost:1/health>" },
		{ "sh -c 'a ; b'", "<sh><-c><a ; b>" },
		{ "sh -c \"echo \\\"x\\\" \\$HOME\"", "<sh><-c><echo \"x\" $HOME>" },
		{ "'a'\"b\"c\\ d", "<abc d>" },
		{ "a '' \"\" b", "<a><><><b>" },
		{ "''", "<>" },
		{ "'a\\b'", "<a\\b>" },
		{ "\"a\\b\\\\\"", "<a\\b\\>" },
		{ "\"\\`\\'\"", "<`\\'>" },
		{ "\\'a\\\"", "<'a\">" },
		{ "a\\\nb", "<ab>" },
		{ "a \\\n b", "<a><b>" },
		{ "a \\\nb", "<a><b>" },
		{ "\"a\\\nb\"", "<ab>" },
		{ "'a\nb'", "<a\nb>" },
		{ "a|b & c; d <e> (f) $g `h` * ? # ~",
			"<a|b><&><c;><d><<e>><(f)><$g><`h`><*><?><#><~>" },
		{ "x=\"\xe2\x82\xac \xc3\xbc\"", "<x=\xe2\x82\xac \xc3\xbc>" },
		{ "\"it's\" 'say \"x\"'", "<it's><say \"x\">" },
	};
	return cr_make_param_array(struct example, examples, ARRAY_LEN(examples));
}

ParameterizedTest(struct example *example, shellwords, splits)
{
	char **words = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(
		shellwords_split(&words, example->line, &err), 0, "%s: %s", example->line, err.msg);
	char joined[200];
	join(joined, sizeof(joined), words);
	cr_assert_str_eq(joined, example->words);
	shellwords_free(words);
}

ParameterizedTestParameters(shellwords, refuses)
{
	static struct example examples[] = {
		{ "", "the command is empty" },
		{ " \t\n", "the command is empty" },
		{ "\\\n", "the command is empty" },
		{ "a 'b c", "column 3: the single quote is not closed" },
		{ "a \"b c", "column 3: the double quote is not closed" },
		{ "\xe2\x82\xac\xe2\x82\xac \"b", "column 4: the double quote is not closed" },
		{ "\xc3\x83 \"b", "column 3: the double quote is not closed" },
		{ "a\"b\\\"", "column 2: the double quote is not closed" },
		{ "a \"b\\", "column 5: a backslash at the end quotes nothing" },
		{ "abc\\", "column 4: a backslash at the end quotes nothing" },
	};
	return cr_make_param_array(struct example, examples, ARRAY_LEN(examples));
}

ParameterizedTest(struct example *example, shellwords, refuses)
{
	char **words = NULL;
	struct err err = ERR_INIT;
	char *line = strdup(example->line); /* with nothing behind its end */
	cr_assert_eq(shellwords_split(&words, line, &err), BERTH_FAILED);
	cr_assert_str_eq(err.msg, example->words);
	cr_assert_null(words);
	free(line);
}

Test(shellwords, has_room_for_one_letter_words)
{
	char line[2000];
	for (size_t i = 0; i < sizeof(line); i++) {
		line[i] = i % 2 ? ' ' : 'x';
	}
	line[sizeof(line) - 1] = '\0';
	char **words = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(shellwords_split(&words, line, &err), 0);
	size_t count = 0;
	while (words[count]) {
		count++;
	}
	cr_assert_eq(count, 1000);
	shellwords_free(words);
}

Test(shellwords, joined_words_split_to_the_same)
{
	static const struct {
		const char *words[4];
		const char *line;
	} cases[] = { { { "a" }, "a" }, { { "a", "b", "c" }, "a b c" }, { { "a b" }, "'a b'" },
		{ { "", "a" }, "'' a" }, { { "a\tb", "c\nd" }, "'a\tb' 'c\nd'" },
		{ { "it's" }, "\"it's\"" }, { { "a\"b" }, "'a\"b'" }, { { "a\\b" }, "'a\\b'" },
		{ { "'\"\\" }, "\"'\\\"\\\\\"" }, { { "a$b" }, "a$$b" }, { { "a $b" }, "'a $$b'" },
		{ { "'$b" }, "\"'$$b\"" }, { { NULL }, "" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *line = shellwords_join((char *const *)cases[i].words);
		char **words = NULL;
		struct err err = ERR_INIT;
		cr_expect_str_eq(line, cases[i].line);
		cr_assert_eq(shellwords_split(&words, line, &err) == 0, *line != '\0');
		for (size_t j = 0; words && cases[i].words[j]; j++) {
			cr_expect_str_eq(words[j], cases[i].words[j]);
		}
		shellwords_free(words);
		free(line);
	}
}

Test(shellwords, syntax_of_a_shell_is_found)
{
	static const struct {
		const char *line;
		int at; /* -1: nothing */
		size_t len;
	} cases[] = { { "", -1, 0 }, { "a b", -1, 0 }, { "a | b", 2, 1 }, { "a || b", 2, 2 },
		{ "|a", 0, 1 }, { "a\t|", 2, 1 }, { "a 2>x", 2, 2 }, { "a 12 b", -1, 0 },
		{ "a >x", 2, 1 }, { "a <x", 2, 1 }, { "a2>x", -1, 0 }, { "a b; c", 3, 1 },
		{ "a;b", -1, 0 }, { "a;", 1, 1 }, { "a& b", 1, 1 }, { "a&b", -1, 0 },
		{ "a|", 1, 1 }, { "a|b", -1, 0 }, { "a> b", -1, 0 }, { "a `b`", 2, 1 },
		{ "a`b`", 1, 1 }, { "a $(b)", 2, 2 }, { "a$(b)", 1, 2 }, { "a $b", -1, 0 },
		{ "a ~/x", 2, 2 }, { "a~/x", -1, 0 }, { "a ~x", -1, 0 }, { "'|' x", -1, 0 },
		{ "\"|\" x", -1, 0 }, { "'a' | b", 4, 1 }, { "\"a\\\" |\" |", 8, 1 },
		{ "'a\\' |", 5, 1 }, { "a \\| b", -1, 0 }, { "a \\", -1, 0 },
		{ "a $$(b) c", -1, 0 }, { "a $$", -1, 0 }, { "a 'b | c", -1, 0 },
		{ "a \"b | c", -1, 0 }, { "a ' |", -1, 0 }, { "\"a\\", -1, 0 },
		{ "\"\\\"\" |", 5, 1 }, { "\\a; b", 2, 1 }, { "$$; b", 2, 1 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = 0;
		char *line = strdup(cases[i].line);
		const char *found = shellwords_find_syntax(line, &len);
		cr_expect_eq(found ? (int)(found - line) : -1, cases[i].at, "%s", line);
		cr_expect(!found || len == cases[i].len, "%s", line);
		free(line);
	}
}

Test(shellwords, a_word_has_a_greatest_length)
{
	enum { MOST = 256 * 1024 };
	char *line = malloc(MOST + 4);
	memset(line, 'x', MOST + 4);
	for (size_t more = 0; more < 2; more++) {
		char **words = NULL;
		struct err err = ERR_INIT;
		memcpy(line + MOST + more, " y", 3);
		cr_expect_eq(shellwords_split(&words, line, &err), more ? BERTH_LIMIT_EXCEEDED : 0,
			"%s", err.msg);
		cr_expect_eq(words != NULL, more == 0);
		shellwords_free(words);
		memset(line, 'x', MOST + 4);
	}
	free(line);
}
