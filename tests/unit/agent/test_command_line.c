/* berthd's command line. */
#include "agent/command_line.h"

#include <criterion/criterion.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/scratch.h"

enum { MOST_WORDS = 16, MOST_BYTES = 8192 };

/* The output of the last one. */
static char out[MOST_BYTES], complaint[MOST_BYTES];

/* Lets a descriptor write into a file; returns what it was. */
static int divert(int fd, char path[SCRATCH_PATH])
{
	int before = dup(fd);
	int file = scratch_file(path);
	fflush(NULL);
	cr_assert_eq(dup2(file, fd), fd);
	close(file);
	return before;
}

static void restore(int fd, int before, const char *path, char *text)
{
	fflush(NULL);
	ssize_t len = pread(fd, text, MOST_BYTES - 1, 0);
	text[len > 0 ? len : 0] = '\0';
	cr_assert_eq(dup2(before, fd), fd);
	close(before);
	unlink(path);
}

/* berthd with these words, which are borrowed by the result. */
static struct command_line parse(int count, char **words)
{
	char out_path[SCRATCH_PATH], complaint_path[SCRATCH_PATH];
	int out_before = divert(STDOUT_FILENO, out_path);
	int complaint_before = divert(STDERR_FILENO, complaint_path);
	optind = 0; /* from the beginning */
	struct command_line line = command_line_parse(count, words);
	restore(STDERR_FILENO, complaint_before, complaint_path, complaint);
	restore(STDOUT_FILENO, out_before, out_path, out);
	return line;
}

#define PARSE(...)                                                                                 \
	parse((int)(sizeof((const char *[]){ "berthd", __VA_ARGS__ }) / sizeof(char *)),           \
		(char *[MOST_WORDS]){ "berthd", __VA_ARGS__ })

static bool has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

/* A mistake: the complaint is on standard error. */
static void assert_refused(struct command_line line, const char *part)
{
	cr_assert_eq(line.action, COMMAND_LINE_EXIT);
	cr_assert_eq(line.exit_status, 2);
	cr_assert(has(complaint, part), "%s", complaint);
	cr_assert_str_eq(out, "");
}

/* ---- what it runs with ---- */

Test(command_line, without_words_the_agent_runs_with_the_usual_file)
{
	char *words[] = { "berthd", NULL };
	struct command_line line = parse(1, words);
	cr_assert_eq(line.action, COMMAND_LINE_RUN);
	cr_assert(has(line.config_path, "/berth/berth.ini"), "%s", line.config_path);
	cr_assert_eq(line.ready_fd, -1);
	cr_assert_null(line.argv);
	cr_assert_not(line.strict);
	cr_assert_str_eq(complaint, "");
	cr_assert_str_eq(out, "");
}

Test(command_line, a_configuration_has_a_short_and_a_long_word)
{
	cr_assert_str_eq(PARSE("-c", "/a.ini").config_path, "/a.ini");
	cr_assert_str_eq(PARSE("--config", "/b").config_path, "/b");
	cr_assert_str_eq(PARSE("--config=/c").config_path, "/c");
	cr_assert_str_eq(PARSE("-c", "/a.ini", "-c", "/d.ini").config_path, "/d.ini");
}

Test(command_line, a_command_comes_behind_two_dashes)
{
	struct command_line line = PARSE("-c", "/a.ini", "--", "sleep", "-c", "60");
	cr_assert_eq(line.action, COMMAND_LINE_RUN);
	cr_assert_str_eq(line.config_path, "/a.ini");
	cr_assert_not_null(line.argv);
	cr_assert_str_eq(line.argv[0], "sleep");
	cr_assert_str_eq(line.argv[1], "-c");
	cr_assert_str_eq(line.argv[2], "60");
	cr_assert_null(line.argv[3]);
	line = PARSE("--", "-t");
	cr_assert_eq(line.action, COMMAND_LINE_RUN);
	cr_assert_str_eq(line.argv[0], "-t");
	cr_assert_null(PARSE("-t", "--").argv, "there is none");
	assert_refused(
		PARSE("sleep", "60"), "what is \"sleep\"? For a configuration write -c sleep");
	assert_refused(PARSE("-t", "a.ini"), "for a command -- a.ini");
}

Test(command_line, a_descriptor_to_be_ready_on_is_a_number)
{
	cr_assert_eq(PARSE("--ready-fd", "3").ready_fd, 3);
	struct command_line line = PARSE("--ready-fd=0");
	cr_assert_eq(line.action, COMMAND_LINE_RUN);
	cr_assert_eq(line.ready_fd, 0);
	cr_assert_eq(PARSE("--ready-fd", "2147483647").ready_fd, 2147483647);
	assert_refused(PARSE("--ready-fd", "x"), "descriptor number, not \"x\"");
	assert_refused(PARSE("--ready-fd", "3x"), "not \"3x\"");
	assert_refused(PARSE("--ready-fd", ""), "not \"\"");
	assert_refused(PARSE("--ready-fd", "-1"), "not \"-1\"");
	assert_refused(PARSE("--ready-fd", "-2"), "not \"-2\"");
	assert_refused(PARSE("--ready-fd", "2147483648"), "not \"2147483648\"");
	assert_refused(PARSE("--ready-fd", "4294967299"), "not \"4294967299\"");
	assert_refused(PARSE("--ready-fd", "99999999999999999999"), "not \"9999");
}

/* ---- what it does instead ---- */

Test(command_line, a_configuration_is_tested_or_printed)
{
	cr_assert_eq(PARSE("-t").action, COMMAND_LINE_TEST);
	cr_assert_eq(PARSE("--test").action, COMMAND_LINE_TEST);
	cr_assert_eq(PARSE("-T").action, COMMAND_LINE_PRINT);
	cr_assert_eq(PARSE("--print").action, COMMAND_LINE_PRINT);
	cr_assert_str_eq(PARSE("-tc", "/a.ini").config_path, "/a.ini");
}

Test(command_line, a_strict_test_is_a_test)
{
	struct command_line line = PARSE("-t", "--strict");
	cr_assert_eq(line.action, COMMAND_LINE_TEST);
	cr_assert(line.strict);
	cr_assert_not(PARSE("-t").strict);
	cr_assert(PARSE("--strict", "-t").strict);
	assert_refused(PARSE("--strict"), "--strict goes with -t\n");
	assert_refused(PARSE("-T", "--strict"), "--strict goes with -t\n");
}

Test(command_line, a_file_of_another_program_is_converted)
{
	struct command_line line = PARSE("--convert-registrar", "/r.json");
	cr_assert_eq(line.action, COMMAND_LINE_CONVERT);
	cr_assert_str_eq(line.convert_from, "registrar");
	cr_assert_str_eq(line.convert_path, "/r.json");
	line = PARSE("--convert-nerve", "/n.json");
	cr_assert_eq(line.action, COMMAND_LINE_CONVERT);
	cr_assert_str_eq(line.convert_from, "nerve");
	cr_assert_str_eq(line.convert_path, "/n.json");
}

Test(command_line, help_and_version_are_printed)
{
	static const char *const words[] = { "-h", "--help" };
	static const char *const versions[] = { "-V", "--version" };
	for (size_t i = 0; i < 2; i++) {
		struct command_line line = PARSE((char *)words[i]);
		cr_assert_eq(line.action, COMMAND_LINE_EXIT);
		cr_assert_eq(line.exit_status, 0);
		cr_assert(strncmp(out, "usage: berthd ", 14) == 0, "%s", out);
		cr_assert(has(out, "--ready-fd N"));
		cr_assert(has(out, "Signals: HUP reload"));
		cr_assert_str_eq(complaint, "");
		line = PARSE((char *)versions[i]);
		cr_assert_eq(line.action, COMMAND_LINE_EXIT);
		cr_assert_eq(line.exit_status, 0);
		cr_assert_str_eq(out, "berthd " BERTH_VERSION "\n");
	}
}

Test(command_line, an_unknown_word_gets_the_usage)
{
	assert_refused(PARSE("-x"), "usage: berthd ");
	cr_assert(has(complaint, "Try berthd --help.\n"));
	assert_refused(PARSE("--nothing"), "Try berthd --help.\n");
	assert_refused(PARSE("-c"), "usage: berthd ");
}
