/*
 * Scenarios: tests of a few lines, read from the files of tests/scenarios/STAGE/, that know only
 * what a user of a part of the program sees. A stage is one C file: what a scenario begins and ends
 * with, and a table of commands.
 *
 *   # A comment.
 *   put /s; put /s/a one            <- before the first scenario: each of the file begins with it
 *
 *   scenario a list names what has come
 *   look list /s -> paths=/s/a
 *   put /s/b 'two words'; look list /s -> paths=/s/a,/s/b
 *   each 50 put /s/n% one           <- fifty times, % being 0 to 49
 *   when list /s remove /s/a        <- not now: the stage says when
 *
 * A line, or what is between semicolons, is one command. Quotes (' or ") hold blanks together;
 * a word may have them in its middle. A failure names the file, the line and the command.
 */
#ifndef TESTS_SUPPORT_SCENARIO_H
#define TESTS_SUPPORT_SCENARIO_H

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdbool.h>
#include <stdint.h>

enum { SCENARIO_WORDS = 32 };

/* The words of a command behind its name; NULL ends them. */
struct scenario_command {
	const char *name;
	int least; /* words */
	int most;
	void (*run)(void *stage, char **words);
	const char *usage; /* of the words */
};

struct scenario_stage {
	const char *folder; /* below tests/scenarios */
	void *(*begin)(void);
	void (*end)(void *stage);
	const struct scenario_command *commands;
	size_t count;
};

/* The scenarios of a stage, each a test with its own name. */
#define SCENARIOS(suite, stage)                                                                    \
	ParameterizedTestParameters(suite, scenarios)                                              \
	{                                                                                          \
		return scenario_read(stage);                                                       \
	}                                                                                          \
	ParameterizedTest(struct scenario **scenario, suite, scenarios)                            \
	{                                                                                          \
		scenario_run(*scenario);                                                           \
	}

struct scenario;

struct criterion_test_params scenario_read(const struct scenario_stage *stage);
void scenario_run(const struct scenario *scenario);

/* For commands: the test has failed and ends, with the place in the file. */
_Noreturn void scenario_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs a command whose time has come. */
void scenario_command(char **words);
/* "1500", "1500ms", "3s" */
int64_t scenario_ms(const char *word);
/*
 * Is the word NAME=VALUE, NAME>VALUE, NAME<VALUE, NAME>=VALUE or NAME<=VALUE? Fails where the
 * comparison does not hold. Values are scenario_ms()'s numbers.
 */
bool scenario_compares(const char *word, const char *name, int64_t value);
/* The rest of the word behind NAME=; NULL: it is another word. */
const char *scenario_value(const char *word, const char *name);

#endif
