/* Lines of the log: one for each event, of valid text whatever it tells. */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "lib/base/array.h"
#include "tests/support/scratch.h"

static char path[SCRATCH_PATH];
static int fd;
static int own_stderr;

static void begin(void)
{
	fd = scratch_file(path);
	own_stderr = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
}

static void end(void)
{
	dup2(own_stderr, STDERR_FILENO);
	close(own_stderr);
	close(fd);
	unlink(path);
	log_set(LOG_LEVEL_INFO, false);
}

TestSuite(log, .init = begin, .fini = end);

/* The lines since the last call. */
static const char *logged(void)
{
	static char text[16 * 1024];
	ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
	cr_assert_geq(len, 0);
	text[len] = '\0';
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	return text;
}

/* The line behind its time: "2026-11-23T06:40:00.000Z ". */
static const char *behind_time(const char *line)
{
	cr_assert_gt(strlen(line), 25, "%s", line);
	cr_assert_eq(line[10], 'T');
	cr_assert_eq(line[23], 'Z');
	return line + 25;
}

Test(log, a_line_has_a_level_a_subject_and_a_message)
{
	log_warn("check db", "%d of %d", 1, 3);
	cr_expect_str_eq(behind_time(logged()), "warn  check db: 1 of 3\n");
	log_at(LOG_LEVEL_ERROR, "agent", "no %s", "room");
	cr_expect_str_eq(behind_time(logged()), "error agent: no room\n");
	log_info("a \"b\" \\", "c \"d\" \\");
	cr_expect_str_eq(behind_time(logged()), "info  a \"b\" \\: c \"d\" \\\n");
}

Test(log, only_what_is_grave_enough_is_written)
{
	log_debug("a", "b");
	cr_expect_str_eq(logged(), "");
	log_set(LOG_LEVEL_ERROR, false);
	cr_expect(log_enabled(LOG_LEVEL_ERROR));
	cr_expect_not(log_enabled(LOG_LEVEL_WARN));
	log_warn("a", "b");
	log_info("a", "b");
	cr_expect_str_eq(logged(), "");
	log_set(LOG_LEVEL_DEBUG, false);
	log_debug("a", "b");
	cr_expect_str_eq(behind_time(logged()), "debug a: b\n");
}

static const struct {
	const char *text;
	const char *escaped;
} odd[] = {
	{ "two\nlines\tand\r", "two\\nlines\\tand\\u000d" },
	{ "\x1b[31m\x7f", "\\u001b[31m\\u007f" },
	{ "\xc2\x9b"
	  "31m",
		"\\u009b31m" }, /* some terminals obey it as well */
	{ "\xc2\xa0\xc3\xa4\xe2\x82\xac", "\xc2\xa0\xc3\xa4\xe2\x82\xac" },
	{ "cut \xe2\x82", "cut ??" },
	{ "\xff\xfe", "??" },
};

Test(log, control_characters_and_broken_text_do_no_harm)
{
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		log_info(odd[i].text, "%s \"\\", odd[i].text);
		const char *line = behind_time(logged());
		cr_expect_eq(strchr(line, '\n'), line + strlen(line) - 1, "one line: %s", line);
		cr_expect_eq(
			strncmp(line + strlen("info  "), odd[i].escaped, strlen(odd[i].escaped)), 0,
			"%s", line);
		cr_expect(strstr(line, " \"\\\n"), "quotes are left as they are: %s", line);
	}
}

Test(log, a_line_of_json_is_an_object)
{
	static const struct log_field fields[] = { { "path", "/a\"b" }, { "none", NULL },
		{ NULL, NULL } };
	log_set(LOG_LEVEL_INFO, true);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		log_event(LOG_LEVEL_WARN, "a", fields, "%s \"\\", odd[i].text);
		const char *line = logged();
		cr_expect_eq(strchr(line, '\n'), line + strlen(line) - 1, "one line: %s", line);
		json_t *json = json_loads(line, 0, NULL);
		cr_assert(json_is_object(json), "%s", line);
		cr_expect_str_eq(json_string_value(json_object_get(json, "level")), "warn");
		cr_expect_str_eq(json_string_value(json_object_get(json, "path")), "/a\"b");
		cr_expect_null(json_object_get(json, "none"));
		const char *message = json_string_value(json_object_get(json, "message"));
		cr_expect(strstr(message, " \"\\"), "%s", message);
		json_decref(json);
	}
}

Test(log, a_message_that_is_too_long_is_cut_and_errno_is_kept)
{
	char *message = calloc(1, 20001);
	memset(message, 'a', 20000);
	errno = ENOSPC;
	log_error("a", "%s", message);
	cr_expect_eq(errno, ENOSPC);
	cr_expect_lt(strlen(logged()), 8192);
	free(message);
}
