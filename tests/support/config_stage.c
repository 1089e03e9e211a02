#include "tests/support/config_stage.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/scratch.h"

static char folder[SCRATCH_PATH];

void make_folder(void)
{
	scratch_folder(folder);
	cr_assert_eq(mkdir(path_of("conf.d"), 0700), 0);
}

void remove_folder(void)
{
	char command[300];
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

const char *path_of(const char *name)
{
	static char path[600];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

void write_bytes(const char *name, const char *bytes, size_t len)
{
	FILE *stream = fopen(path_of(name), "we");
	cr_assert_not_null(stream);
	cr_assert_eq(fwrite(bytes, 1, len, stream), len);
	cr_assert_eq(fclose(stream), 0);
}

void write_file(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

struct config *load_path(const char *path)
{
	struct config *config = NULL;
	struct config_problems problems;
	int ret = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	cr_assert_eq(ret, 0);
	cr_assert_eq(problems.error_count, 0);
	config_problems_finish(&problems);
	return config;
}

struct config *load(const char *text)
{
	write_file("a.ini", text);
	return load_path(path_of("a.ini"));
}

static void drop_warnings(struct config_problems *problems)
{
	size_t count = 0;
	for (size_t i = 0; i < problems->count; i++) {
		if (problems->items[i].warning) {
			free(problems->items[i].file);
			free(problems->items[i].message);
		} else {
			problems->items[count++] = problems->items[i];
		}
	}
	problems->count = count;
}

struct config_problems fail_path(const char *path)
{
	struct config *config = NULL;
	struct config_problems problems;
	cr_assert_eq(config_load(&config, path, &problems), BERTH_FAILED);
	cr_assert_null(config);
	drop_warnings(&problems);
	cr_assert_gt(problems.count, 0);
	return problems;
}

struct config_problems fail(const char *text)
{
	write_file("a.ini", text);
	return fail_path(path_of("a.ini"));
}

void check_problem(const struct config_problems *problems, size_t index, const char *file, int line,
	const char *part)
{
	cr_assert_lt(index, problems->count, "problem %zu is missing", index);
	const struct config_problem *problem = &problems->items[index];
	const char *slash = strrchr(problem->file, '/');
	cr_expect_str_eq(slash ? slash + 1 : problem->file, file);
	cr_expect_eq(
		problem->line, line, "line %d, not %d: %s", problem->line, line, problem->message);
	cr_expect(strstr(problem->message, part), "\"%s\" lacks \"%s\"", problem->message, part);
}

void check_one(const char *text, int line, const char *part)
{
	struct config_problems problems = fail(text);
	if (problems.count != 1) {
		config_problems_print(&problems, stderr);
	}
	cr_expect_eq(problems.count, 1, "%zu mistakes in: %s", problems.count, text);
	check_problem(&problems, 0, "a.ini", line, part);
	config_problems_finish(&problems);
}
