/* [output NAME]: its defaults, what it refuses, and what it doubts. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "lib/base/array.h"
#include "lib/render/render.h"
#include "tests/support/scratch.h"

static int load(const char *text, struct config **ret_config, struct config_problems *problems)
{
	char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	*ret_config = NULL;
	int code = config_load(ret_config, path, problems);
	config_problems_print(problems, stderr);
	unlink(path);
	return code;
}

static struct config *load_good(const char *text)
{
	struct config *config;
	struct config_problems problems;
	cr_assert_eq(load(text, &config, &problems), 0);
	cr_assert_eq(problems.count, 0);
	config_problems_finish(&problems);
	return config;
}

#define HEAD "[output o]\nfrom = /a/b\n"
#define FILE_OUTPUT HEAD "format = nginx\npath = /tmp/x\n"
#define RUNTIME HEAD "format = haproxy-runtime\nsocket = /s\nbackend = web\n"

Test(config_output, formats_are_numbered_as_the_renderers)
{
	cr_assert_eq((int)CONFIG_FORMAT_LINES, (int)RENDER_LINES);
	cr_assert_eq((int)CONFIG_FORMAT_HAPROXY, (int)RENDER_HAPROXY);
	cr_assert_eq((int)CONFIG_FORMAT_ENV, (int)RENDER_ENV);
	cr_assert_eq((int)CONFIG_FORMAT_HAPROXY_RUNTIME, (int)RENDER_FORMATS);
	for (int format = 0; render_format_names[format]; format++) {
		char text[200];
		snprintf(text, sizeof(text), HEAD "path = /x\nformat = %s\n",
			render_format_names[format]);
		struct config *config = load_good(text);
		cr_assert_eq((int)config->outputs[0].format, format);
		config_unref(config);
	}
}

Test(config_output, a_file_has_defaults)
{
	struct config *config = load_good(FILE_OUTPUT);
	const struct config_output *output = &config->outputs[0];
	cr_assert_eq(config->output_count, 1);
	cr_assert_str_eq(output->name, "o");
	cr_assert_str_eq(output->from_path, "/a/b");
	cr_assert_not(output->from_tree);
	cr_assert_eq(output->mode, 0);
	cr_assert_eq(output->owner_id, (unsigned)-1);
	cr_assert_eq(output->quiet_ms, 200);
	cr_assert_eq(output->max_wait_ms, 5000);
	cr_assert_eq(output->min_instances, 1);
	cr_assert_not(output->write_when_empty);
	cr_assert_eq(output->timeout_ms, 30000);
	cr_assert_null(output->check_argv);
	config_unref(config);
}

Test(config_output, a_tree_ends_in_two_asterisks)
{
	struct config *config = load_good("[output a]\nfrom = /a/b/**\nformat = env\npath = /x\n"
					  "[output b]\nfrom = /**\nformat = env\npath = /y\n");
	cr_assert(config->outputs[0].from_tree);
	cr_assert_str_eq(config->outputs[0].from_path, "/a/b");
	cr_assert(config->outputs[1].from_tree);
	cr_assert_str_eq(config->outputs[1].from_path, "/");
	config_unref(config);
}

Test(config_output, haproxy_gets_changes_sooner_than_a_file)
{
	struct config *config = load_good(RUNTIME);
	cr_assert_eq(config->outputs[0].format, CONFIG_FORMAT_HAPROXY_RUNTIME);
	cr_assert_eq(config->outputs[0].quiet_ms, 10);
	config_unref(config);
}

Test(config_output, envoy_gets_what_is_nearer_first_and_others_where_it_is_written)
{
	static const struct {
		const char *text;
		enum config_output_prefer prefer;
	} cases[] = { { HEAD "path = /x\nformat = envoy\n", CONFIG_PREFER_ZONE },
		{ HEAD "path = /x\nformat = haproxy\n", CONFIG_PREFER_NOTHING },
		{ HEAD "path = /x\nformat = lines\n", CONFIG_PREFER_NOTHING },
		{ HEAD "path = /x\nformat = envoy\nprefer = none\n", CONFIG_PREFER_NOTHING },
		{ HEAD "path = /x\nformat = envoy\nprefer = zone\n", CONFIG_PREFER_ZONE },
		{ FILE_OUTPUT "prefer = zone\nfailover = /c\n", CONFIG_PREFER_ZONE },
		{ "[agent]\nzone = a\n" FILE_OUTPUT "prefer = zone\n", CONFIG_PREFER_ZONE } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct config *config = load_good(cases[i].text);
		cr_expect_eq(config->outputs[0].prefer, cases[i].prefer, "%s", cases[i].text);
		config_unref(config);
	}
}

Test(config_output, options_may_be_together_in_these_ways)
{
	static const char *const good[] = { HEAD "format = haproxy\npath = /x\nbackend = web\n",
		FILE_OUTPUT "quiet = 1s\nmax_wait = 1s\n", FILE_OUTPUT "failover = /c, /d\n",
		HEAD "format = render\nrender = /bin/cat\npath = /x\n",
		RUNTIME "[output p]\nfrom = /a\nformat = haproxy-runtime\nsocket = /s\n"
			"backend = mail\n",
		RUNTIME "[output p]\nfrom = /a\nformat = haproxy-runtime\nsocket = /t\n"
			"backend = web\n" };
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		config_unref(load_good(good[i]));
	}
}

struct wrong {
	char text[200];
	int line;
	char part[60];
};

ParameterizedTestParameters(config_output, wrong_options_are_refused)
{
	static struct wrong all[] = {
		{ "[output]\nfrom = /a\nformat = env\npath = /x\n", 1, "write [output NAME]" },
		{ "[output o]\nformat = env\npath = /x\n", 1, "needs `from`" },
		{ "[output o]\nfrom = a\nformat = env\npath = /x\n", 2, "from" },
		{ HEAD "path = /x\n", 1, "needs `format`, or `render`" },
		{ HEAD "path = /x\nformat = ngnix\n", 4, "nginx" },
		{ HEAD "path = /x\nformat = render\n", 1, "needs `render`" },
		{ HEAD "path = /x\nformat = env\nrender = /bin/cat\n", 5, "the whole content" },
		{ HEAD "format = env\n", 1, "needs `path`" },
		{ HEAD "format = env\npath = x\n", 4, "absolute" },
		{ HEAD "format = ngnix\n", 3, "nginx" },
		{ HEAD "format = render\nrender = ${UNSET_HERE}\npath = /x\n", 4, "UNSET_HERE" },
		{ FILE_OUTPUT "failover = /a/b\n", 5, "/a/b is followed already" },
		{ FILE_OUTPUT "failover = /c, /d, /d\n", 5, "/d is followed already" },
		{ FILE_OUTPUT "quiet = 6s\n", 5, "`max_wait` (5000ms)" },
		{ FILE_OUTPUT "quiet = x\nmax_wait = 1ms\n", 5, "unit" },
		{ FILE_OUTPUT "quiet = 6s\nmax_wait = x\n", 6, "unit" },
		{ FILE_OUTPUT "prefer = x\n", 5, "zone" },
		{ FILE_OUTPUT "scope = outer\n", 5, "external or internal" },
		{ FILE_OUTPUT "mode = 0000\n", 5, "no permission" },
		{ FILE_OUTPUT "owner = no-such-user\n", 5, "no user" },
		{ FILE_OUTPUT "group = no-such-group\n", 5, "no group" },
		{ FILE_OUTPUT "socket = /s\n", 5, "haproxy-runtime" },
		{ FILE_OUTPUT "backend = web\n", 5, "without `format = haproxy`" },
		{ FILE_OUTPUT "max_wait = 100ms\n", 5, "less than `quiet`" },
		{ FILE_OUTPUT "min_instances = 0\n", 5, "between 1 and 100000" },
		{ FILE_OUTPUT "on_chnage = /bin/true\n", 5, "`on_change`" },
		{ HEAD "format = haproxy-runtime\nbackend = web\n", 1, "needs `socket`" },
		{ HEAD "format = haproxy-runtime\nsocket = /s\n", 1, "needs `backend`" },
		{ RUNTIME "path = /x\n", 6, "writes no file" },
		{ RUNTIME "on_change = /bin/true\n", 6, "writes no file" },
		{ RUNTIME "check = /bin/true {}\n", 6, "writes no file" },
		{ RUNTIME "mode = 0600\n", 6, "writes no file" },
		{ RUNTIME "owner = root\n", 6, "writes no file" },
		{ RUNTIME "group = root\n", 6, "writes no file" },
		{ RUNTIME "mode = 9\n", 6, "octal" },
		{ HEAD "format = haproxy-runtime\nsocket = /s\nbackend = a;b\n", 5, "letters" },
		{ FILE_OUTPUT "[output p]\nfrom = /c\nformat = env\npath = /tmp/x\n", 8, "too" },
		{ RUNTIME "[output p]\nfrom = /c\nformat = haproxy-runtime\n"
			  "socket = /s\nbackend = web\n",
			10, "too" },
	};
	return cr_make_param_array(struct wrong, all, ARRAY_LEN(all));
}

ParameterizedTest(struct wrong *wrong, config_output, wrong_options_are_refused)
{
	struct config *config;
	struct config_problems problems;
	cr_assert_neq(load(wrong->text, &config, &problems), 0);
	cr_assert_eq(problems.error_count, 1);
	cr_expect_eq(problems.items[0].line, wrong->line);
	cr_expect(strstr(problems.items[0].message, wrong->part));
	config_problems_finish(&problems);
}

ParameterizedTestParameters(config_output, options_that_are_surely_mistakes_are_warnings)
{
	static struct wrong all[] = {
		{ FILE_OUTPUT "on_change = /bin/true && /bin/false\n", 5, "sh -c" },
		{ FILE_OUTPUT "on_change = /no/such/program\n", 5, "no program" },
		{ FILE_OUTPUT "check = /bin/true\n", 5, "has no {}" },
		{ FILE_OUTPUT "check = /bin/test -s {} | cat\n", 5, "`|` is passed" },
		{ FILE_OUTPUT "check = /no/such/program {}\n", 5, "no program" },
		{ HEAD "render = /no/such/program\npath = /x\n", 3, "no program" },
		{ HEAD "format = haproxy\npath = /x\nprefer = zone\n", 5, "nothing is nearer" },
	};
	return cr_make_param_array(struct wrong, all, ARRAY_LEN(all));
}

ParameterizedTest(struct wrong *wrong, config_output, options_that_are_surely_mistakes_are_warnings)
{
	struct config *config;
	struct config_problems problems;
	cr_assert_eq(load(wrong->text, &config, &problems), 0);
	cr_assert_eq(problems.count, 1);
	cr_expect_eq(problems.items[0].line, wrong->line);
	cr_expect(strstr(problems.items[0].message, wrong->part));
	config_problems_finish(&problems);
	config_unref(config);
}

Test(config_output, a_change_of_any_option_is_another_output)
{
	struct config *config = load_good(FILE_OUTPUT);
	struct config *same = load_good(FILE_OUTPUT);
	struct config *other = load_good(FILE_OUTPUT "quiet = 1s\n");
	struct config *of_others = load_good("[output o]\nfrom = /a/c\nformat = nginx\n"
					     "path = /tmp/x\n");
	cr_assert_not(config_output_equal(&config->outputs[0], &of_others->outputs[0]));
	config_unref(of_others);
	cr_assert(config_output_equal(&config->outputs[0], &same->outputs[0]));
	cr_assert_not(config_output_equal(&config->outputs[0], &other->outputs[0]));
	config_unref(config);
	config_unref(same);
	config_unref(other);
}
