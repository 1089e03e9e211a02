/* Files and their lines: bytes, ends, lengths, conf.d. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/config_stage.h"

static bool refused;

int scandir(const char *path, struct dirent ***ret_names, int (*filter)(const struct dirent *),
	int (*compare)(const struct dirent **, const struct dirent **))
{
	int (*real)(const char *, struct dirent ***, int (*)(const struct dirent *),
		int (*)(const struct dirent **, const struct dirent **)) = dlsym(RTLD_NEXT,
		"scandir");
	errno = EIO;
	return refused ? -1 : real(path, ret_names, filter, compare);
}

TestSuite(config_file, .init = make_folder, .fini = remove_folder);

Test(config_file, a_line_of_5000_bytes_is_one_value)
{
	char *text;
	cr_assert_gt(asprintf(&text, COMPONENT CHECK "command = echo %05000d ; x=y\n", 7), 0);
	struct config *config = load(text);
	cr_expect_eq(strlen(config->checks[0].argv[1]), 5000);
	cr_expect_str_eq(config->checks[0].argv[3], "x=y");
	config_unref(config);
	free(text);
}

Test(config_file, a_line_longer_than_64_KiB_is_refused_and_the_next_ones_are_read)
{
	static const char key[] = "listen = ";
	char *text;
	int fill = 65536 - (int)strlen(key);
	cr_assert_gt(asprintf(&text, "[agent]\n%s%0*d\nsoket = x\n", key, fill + 1, 0), 0);
	struct config_problems problems = fail(text);
	cr_expect_eq(problems.count, 2);
	check_problem(&problems, 0, "a.ini", 2, "65537 bytes");
	check_problem(&problems, 1, "a.ini", 3, "socket");
	config_problems_finish(&problems);
	free(text);
	cr_assert_gt(asprintf(&text, "[registry]\nrealm = %0*d\n", fill + 1, 0), 0);
	struct config *config = load(text);
	cr_expect_eq(strlen(config->registry.realm), fill + 1);
	config_unref(config);
	free(text);
}

Test(config_file, an_indented_line_is_a_key_of_its_own)
{
	struct config *config = load("[agent]\n  drain_delay = 1s\n\tlog_level = debug\n");
	cr_expect_eq(config->agent.drain_delay_ms, 1000);
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_DEBUG);
	config_unref(config);
	check_one(COMPONENT CHECK "command = a\n  --option\n", 8, "key = value");
}

Test(config_file, a_long_section_name_is_kept_whole)
{
	static const char name[] =
		"a-name-of-sixty-four-bytes-which-is-more-than-inih-would-keep-00";
	char text[600];
	snprintf(text, sizeof(text), COMPONENT "[check %s]\ncommand = x\n", name);
	struct config *config = load(text);
	cr_expect_str_eq(config->checks[0].name, name);
	config_unref(config);
	snprintf(text, sizeof(text), COMPONENT "[check %sx]\ncommand = x\n", name);
	check_one(text, 6, "at most 64");
}

Test(config_file, line_ends_and_a_byte_order_mark_do_not_matter)
{
	struct config *config = load(
		"\xef\xbb\xbf[agent]\r\nlog_level = warn\r\n# remark\r\n; socket = x\r\n"
		"\r\nlog_format = json");
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_WARN);
	cr_expect(config->agent.log_json);
	config_unref(config);
}

Test(config_file, a_NUL_byte_is_no_text)
{
	static const char bytes[] = "[agent]\nlog_level = in\0fo\n";
	write_bytes("a.ini", bytes, sizeof(bytes) - 1);
	struct config_problems problems = fail_path(path_of("a.ini"));
	cr_expect_eq(problems.count, 1);
	check_problem(&problems, 0, "a.ini", 2, "NUL");
	config_problems_finish(&problems);
}

Test(config_file, files_in_conf_d_add_and_win_in_the_order_of_their_names)
{
	write_file("conf.d/20.ini", "[agent]\nlog_level = debug\n[cache]\nsnapshot = no\n");
	write_file("conf.d/10.ini", "[agent]\nlog_level = warn\ndrain_delay = 2s\n");
	write_file("conf.d/.hidden.ini", "[nonsense]\n");
	write_file("conf.d/README", "[nonsense]\n");
	struct config *config = load("[agent]\nlog_level = error\nlog_format = json\n");
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_DEBUG);
	cr_expect(config->agent.log_json);
	cr_expect_eq(config->agent.drain_delay_ms, 2000);
	cr_expect_not(config->cache.snapshot);
	config_unref(config);
}

Test(config_file, a_later_file_replaces_commands_lists_and_accounts)
{
	write_file("conf.d/x.ini",
		"[check c]\ncommand = d\n[check t]\nwriter = group:root\n"
		"[cache]\nwarm = /c\n");
	struct config *config = load(COMPONENT CHECK "command = a b\n[check t]\ntype = ttl\n"
						     "writer = user:root\n"
						     "[cache]\nwarm = /a, /b\n");
	cr_expect_str_eq(config->checks[0].command, "d");
	cr_expect_str_eq(config->checks[0].argv[0], "d");
	cr_expect_null(config->checks[0].argv[1]);
	cr_expect_eq(config->checks[1].writer.kind, CONFIG_WRITER_GROUP);
	cr_expect_str_eq(config->checks[1].writer.name, "root");
	cr_assert_eq(config->cache.warm_count, 1);
	cr_expect_str_eq(config->cache.warm[0], "/c");
	config_unref(config);
}

Test(config_file, a_directory_is_read_in_the_order_of_names)
{
	write_file("conf.d/b.ini", "[agent]\nlog_level = debug\n");
	write_file("conf.d/a.ini", "[agent]\nlog_level = warn\n");
	struct config *config = load_path(path_of("conf.d"));
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_DEBUG);
	config_unref(config);
}

Test(config_file, a_directory_may_be_written_with_its_slash)
{
	write_file("conf.d/a.ini", "[agent]\nlog_level = loud\n");
	char expected[600];
	snprintf(expected, sizeof(expected), "%s", path_of("conf.d/a.ini"));
	struct config_problems problems = fail_path(path_of("conf.d/"));
	cr_expect_str_eq(problems.items[0].file, expected);
	config_problems_finish(&problems);
	problems = fail_path(path_of("conf.d"));
	cr_expect_str_eq(problems.items[0].file, expected);
	config_problems_finish(&problems);
}

Test(config_file, a_file_in_the_place_of_conf_d_is_none_of_ours)
{
	cr_assert_eq(rmdir(path_of("conf.d")), 0);
	config_unref(load("[agent]\n"));
	write_file("conf.d", "[nonsense]\n");
	config_unref(load("[agent]\n"));
}

Test(config_file, mistakes_name_their_own_file)
{
	write_file("conf.d/x.ini", "[agent]\nlog_level = loud\n[check c]\ninterval = 1\n");
	struct config_problems problems = fail(
		COMPONENT "[agent]\nsoket = x\n[check c]\ncommand = x\n");
	cr_expect_eq(problems.count, 3);
	check_problem(&problems, 0, "a.ini", 7, "socket");
	check_problem(&problems, 1, "x.ini", 2, "debug");
	check_problem(&problems, 2, "x.ini", 4, "unit");
	config_problems_finish(&problems);
}

Test(config_file, an_unreadable_file_has_a_reason)
{
	struct config_problems problems = fail_path(path_of("missing.ini"));
	check_problem(&problems, 0, "missing.ini", 0, "No such file");
	config_problems_finish(&problems);
	problems = fail_path(path_of("conf.d"));
	check_problem(&problems, 0, "conf.d", 0, ".ini");
	config_problems_finish(&problems);
	cr_assert_eq(mkdir(path_of("conf.d/x.ini"), 0700), 0);
	problems = fail_path(path_of("conf.d"));
	check_problem(&problems, 0, "x.ini", 0, "directory");
	config_problems_finish(&problems);
}

Test(config_file, blanks_at_an_end_do_not_count)
{
	struct config *config = load("  [agent] \t\n\tlog_level\t=\twarn \t \r\n"
				     "[registry]  \nrealm =  a b  \n");
	cr_expect_eq(config->agent.log_level, LOG_LEVEL_WARN);
	cr_expect_str_eq(config->registry.realm, "a b");
	config_unref(config);
}
