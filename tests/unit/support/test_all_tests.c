#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"

#define VARIABLE "BERTH_SAMPLE"

/* Tests that do nothing here, and something else in a process that all_tests starts. */
static bool is_sample(void)
{
	return getenv(VARIABLE) != NULL;
}

static void say_end(void)
{
	if (is_sample()) {
		printf("# the end of it\n");
	}
}

TestSuite(sample, .fini = say_end);

Test(sample, passes)
{
}

Test(sample, fails_and_ends)
{
	cr_assert_str_eq("left", is_sample() ? "right" : "left");
	if (is_sample()) {
		printf("# not to be seen\n");
	}
}

Test(sample, fails_and_goes_on)
{
	cr_expect_eq(is_sample(), false, "with %d words", 3);
	if (is_sample()) {
		printf("# to be seen\n");
	}
}

Test(sample, names_both_sides)
{
	cr_assert(eq(int, is_sample() ? 7 : 8, 8), "of the count");
}

Test(sample, all_of_several)
{
	cr_assert(all(eq(int, 1, 1), eq(int, is_sample(), 0)));
}

Test(sample, fails_without_standard_error)
{
	if (is_sample()) {
		close(STDERR_FILENO);
		cr_fatal("a word");
	}
}

Test(sample, crashes)
{
	if (is_sample()) {
		raise(SIGKILL);
	}
}

Test(sample, is_skipped)
{
	if (is_sample()) {
		cr_skip_test("no %s here", "moon");
	}
}

Test(sample, takes_too_long, .timeout = 2)
{
	while (is_sample()) {
		pause();
	}
}

Test(sample, ends_with_a_status)
{
	if (is_sample()) {
		exit(3);
	}
}

Test(sample, fails_in_a_child)
{
	if (is_sample() && fork() == 0) {
		cr_fatal("below");
	}
	wait(NULL);
}

ParameterizedTestParameters(sample, of_three)
{
	static int numbers[] = { 1, 2, 3 };
	return cr_make_param_array(int, numbers, 3);
}

ParameterizedTest(int *number, sample, of_three)
{
	cr_assert(is_sample() == false || *number != 2, "with %d", *number);
}

/* Runs one sample; returns all that it prints. */
static void run_sample(const char *name, char *ret_output, size_t size, int *ret_status)
{
	char command[512];
	snprintf(command, sizeof(command), VARIABLE "=1 /proc/%d/exe --filter 'sample/%s' 2>&1",
		(int)getpid(), name);
	FILE *output = popen(command, "re");
	cr_assert_not_null(output);
	size_t len = fread(ret_output, 1, size - 1, output);
	ret_output[len] = '\0';
	*ret_status = WEXITSTATUS(pclose(output));
}

struct sample {
	const char *name;
	int status;
	const char *lines[4]; /* that the output has */
	const char *absent;
};

ParameterizedTestParameters(all_tests, says_how_a_test_ended)
{
	static struct sample samples[] = {
		{ "passes", 0, { "\nok - sample::passes (", "\n1..1\n" }, "not ok" },
		{ "fails_and_ends", 1,
			{ "\nnot ok - sample::fails_and_ends (", "\"left\" and \"right\"",
				"# the end of it" },
			"not to be seen" },
		{ "fails_and_goes_on", 1,
			{ "\nnot ok - sample::fails_and_goes_on (", "with 3 words",
				"# to be seen" },
			NULL },
		{ "names_both_sides", 1,
			{ "\nnot ok - sample::names_both_sides (", "of the count", "eq(int",
				": 7\n" },
			NULL },
		{ "all_of_several", 1, { "\nnot ok - sample::all_of_several (" }, NULL },
		{ "fails_without_standard_error", 1,
			{ "\nnot ok - sample::fails_without_standard_error (", "a word" }, NULL },
		{ "crashes", 1, { "\nnot ok - sample::crashes unexpected signal 9 (" }, NULL },
		{ "is_skipped", 0, { "\nok - sample::is_skipped # SKIP no moon here\n" },
			"not ok" },
		{ "takes_too_long", 1, { "\nnot ok - sample::takes_too_long not done in time (" },
			NULL },
		{ "ends_with_a_status", 1,
			{ "\nnot ok - sample::ends_with_a_status exit status 3 (" }, NULL },
		{ "fails_in_a_child", 1, { "not ok - sample::fails_in_a_child" }, NULL },
		{ "of_three", 1,
			{ "ok - sample::of_three (", "\nnot ok - sample::of_three (", "with 2",
				"\n1..3\n" },
			"with 3" },
		{ "[pc]*s", 1,
			{ "ok - sample::passes (", "\nnot ok - sample::crashes", "\n1..2\n" },
			"sample::is_skipped" },
	};
	return cr_make_param_array(struct sample, samples, ARRAY_LEN(samples));
}

ParameterizedTest(struct sample *sample, all_tests, says_how_a_test_ended)
{
	char output[4096] = "\n";
	int status;
	run_sample(sample->name, output + 1, sizeof(output) - 1, &status);
	cr_expect_eq(status, sample->status, "%d", status);
	for (size_t i = 0; i < 4 && sample->lines[i]; i++) {
		cr_expect(strstr(output, sample->lines[i]) != NULL, "no %s in %s", sample->lines[i],
			output);
	}
	cr_expect_null(sample->absent ? strstr(output, sample->absent) : NULL, "%s", output);
}
