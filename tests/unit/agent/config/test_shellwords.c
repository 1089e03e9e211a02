#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "agent/config/shellwords.h"

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
		{ "\"a\\\nb\"", "<ab>" },
		{ "'a\nb'", "<a\nb>" },
		{ "a|b & c; d <e> (f) $g `h` * ? # ~",
			"<a|b><&><c;><d><<e>><(f)><$g><`h`><*><?><#><~>" },
		{ "x=\"\xe2\x82\xac \xc3\xbc\"", "<x=\xe2\x82\xac \xc3\xbc>" },
		{ "\"it's\" 'say \"x\"'", "<it's><say \"x\">" },
	};
	return cr_make_param_array(
		struct example, examples, sizeof(examples) / sizeof(examples[0]));
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
		{ "a\"b\\\"", "column 2: the double quote is not closed" },
		{ "a \"b\\", "column 5: a backslash at the end quotes nothing" },
		{ "abc\\", "column 4: a backslash at the end quotes nothing" },
	};
	return cr_make_param_array(
		struct example, examples, sizeof(examples) / sizeof(examples[0]));
}

ParameterizedTest(struct example *example, shellwords, refuses)
{
	char **words = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(shellwords_split(&words, example->line, &err), BERTH_FAILED);
	cr_assert_str_eq(err.msg, example->words);
	cr_assert_null(words);
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

Test(shellwords, frees_nothing)
{
	shellwords_free(NULL);
}
