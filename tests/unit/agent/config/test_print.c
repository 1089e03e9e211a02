/* The output of -T, and the comparison of checks and outputs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/config.h"
#include "agent/config/options.h"
#include "agent/config/parts.h"
#include "agent/config/secret.h"
#include "lib/base/array.h"
#include "tests/support/scratch.h"

static struct config *load(const char *text)
{
	char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	struct config *config = NULL;
	struct config_problems problems;
	int ret = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	unlink(path);
	cr_assert_eq(ret, 0);
	config_problems_finish(&problems);
	return config;
}

static char *print(const struct config *config)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	config_print(config, stream);
	fclose(stream);
	return text;
}

static const char rich[] =
	"[agent]\n"
	"socket_mode = 0600\nsocket_group = root\nlisten = [::1]:0\ndrain_delay = 90s\n"
	"[registry]\nsystem_accounts =\n"
	"[registry east]\nurl = zookeeper://a,b/east\nsession_timeout = 9s\n"
	"[cache]\nwarm = /, /users/**\nmax_stale = 1h\nmax_size = 65537\n"
	"[component a]\nuser = joe\nservice_class = s\ninstance = i\nid = container_1_2\n"
	"attribute.Dollar = $${HOME} $HOME $$$$\nattribute.Empty =\ndamping_reuse = 0.125\n"
	"[component b]\npath = /services/b\npersistence = permanent\n"
	"[endpoint one]\ncomponent = a\napi = x\nprotocol = p\naddress_type = host/port\n"
	"address.3 = h:1\naddress.7 = [::1]:2\n"
	"[endpoint two]\ncomponent = b\napi = x\nprotocol = p\naddress_type = uri\n"
	"dynamic = yes\nhold = connection\nwriter = group:root\n"
	"[check c]\ncomponent = a\ncommand = sh -c 'a ; $1 \"b\"'\nenv.X = y\nmatch = ^a$\n"
	"endpoints = one\nwindow = 1m\n"
	"[check t]\ncomponent = b\ntype = tcp\ntarget = [::1]:80\n"
	"send =  \\x20a\\r\\n\\x00\\\\ \\x20\n"
	"[check h]\ncomponent = b\ntype = http\n"
	"target = http://h/?a=b\nexpect_status = 200-204, 301\n"
	"[check l]\ncomponent = b, a\ntype = ttl\nwriter = user:root\n"
	"[output file]\nfrom = /a/**\nformat = nginx\npath = /tmp/x\nowner = root\nmode = 0600\n"
	"check = /bin/test -s {}\nwhen_empty = write\n"
	"[output made]\nfrom = /\nrender = /bin/cat\npath = /tmp/y\n"
	"[output live]\nfrom = /a\nformat = haproxy-runtime\nsocket = /tmp/s\nbackend = web\n";

Test(config_print, the_printed_configuration_loads_to_the_same)
{
	struct config *config = load(rich);
	char *text = print(config);
	struct config *again = load(text);
	char *text_again = print(again);
	cr_expect_str_eq(text, text_again);
	cr_assert_eq(again->component_count, 2);
	cr_assert_eq(config->check_count, again->check_count);
	for (size_t i = 0; i < again->check_count; i++) {
		cr_expect(config_check_equal(&config->checks[i], &again->checks[i]), "%s",
			again->checks[i].name);
	}
	cr_expect_str_eq(again->components[0].attributes[0].value, "${HOME} $HOME $$");
	cr_expect_str_eq(again->registry.system_accounts, "");
	cr_expect_eq(again->cache.max_size_bytes, 65537);
	cr_expect_not_null(strstr(text, "\naddress.1 = h:1\naddress.2 = [::1]:2\n"));
	cr_expect_not_null(strstr(text, "\nsocket_group = root\n"));
	cr_expect_not_null(strstr(text, "\nowner = root\n"));
	cr_expect_not_null(strstr(text, "\nmax_stale = 1h\n"));
	cr_expect_not_null(strstr(text, "\ndamping_reuse = 0.125\n"));
	cr_expect_not_null(strstr(text, "\nwriter = group:root\n"));
	cr_expect_not_null(strstr(text, "\nwriter = user:root\n"));
	cr_expect_eq(memcmp(again->checks[1].send, " a\r\n\0\\  ", 8), 0);
	free(text);
	free(text_again);
	config_unref(config);
	config_unref(again);
}

Test(config_print, secrets_are_masked)
{
	struct config *config = load(
		"[component]\npath = /a\nattribute.DB_Password = hunter2\nattribute.plain = shown\n"
		"[endpoint e]\napi = x\nprotocol = p\naddress_type = uri\n"
		"address = https://joe:hunter2@host/\n"
		"[check c]\ncommand = curl http://joe:hunter2@host/ http://me@host\n"
		"env.API_KEY = hunter2\n");
	char *text = print(config);
	cr_expect_null(strstr(text, "hunter2"));
	cr_expect(strstr(text, "attribute.DB_Password = ****\n"));
	cr_expect(strstr(text, "attribute.plain = shown\n"));
	cr_expect(strstr(text, "address = https://joe:****@host/\n"));
	cr_expect(strstr(text, "command = curl http://joe:****@host/ http://me@host\n"));
	cr_expect(strstr(text, "env.API_KEY = ****\n"));
	free(text);
	config_unref(config);
}

/* Two sections of each kind that has names. */
static const char every[] =
	"[registry a]\nurl = dir:/a\n[registry b]\nurl = dir:/b\n"
	"[listen a]\naddress = h:1\nunder = /**\n[listen b]\naddress = h:2\nunder = /**\n"
	"[component a]\npath = /a\n[component b]\npath = /b\n"
	"[endpoint a]\ncomponent = a\napi = x\nprotocol = p\naddress_type = uri\ndynamic = yes\n"
	"[endpoint b]\ncomponent = a\napi = x\nprotocol = p\naddress_type = uri\ndynamic = yes\n"
	"[dialect a]\ncomponent = a\ntype = nerve\npath = /g\n"
	"[dialect b]\ncomponent = a\ntype = nerve\npath = /h\n"
	"[check a]\ncomponent = a\ntype = ttl\n[check b]\ncomponent = b\ntype = ttl\n"
	"[output a]\nfrom = /a\nformat = json\npath = /tmp/a\n"
	"[output b]\nfrom = /b\nformat = json\npath = /tmp/b\n"
	"[import a]\ntype = nerve\nfrom = /a\nas = /i\n"
	"[import b]\ntype = nerve\nfrom = /b\nas = /j\n"
	"[zone a.org]\n[zone b.org]\n"
	"[container a]\nallow = /a\n[container b]\nallow = /b\n";
static const char *const named[] = { "listen a", "listen b", "registry a", "registry b",
	"component a", "endpoint a", "endpoint b", "dialect a", "dialect b", "component b",
	"check a", "check b", "output a", "output b", "import a", "import b", "zone a.org",
	"zone b.org", "container a", "container b" };
enum { NAMED = ARRAY_LEN(named) };

Test(config_print, each_section_is_printed_behind_those_without_a_name)
{
	static const char *const unnamed[] = { "agent", "registry", "cache", "dns", "xds",
		"bridge" };
	struct config *config = load(every);
	char *text = print(config);
	const char *at = text;
	char header[40];
	for (size_t i = 0; i < 6 + NAMED; i++) {
		snprintf(header, sizeof(header), "\n\n[%s]\n", i < 6 ? unnamed[i] : named[i - 6]);
		at = strstr(at, "\n\n[");
		cr_assert_not_null(at, "no%s", header);
		cr_expect_eq(strncmp(at, header, strlen(header)), 0, "%.30s, not %s", at, header);
		at++;
	}
	cr_expect_null(strstr(at, "\n\n["));
	free(text);
	config_unref(config);
}

/* Whether the last section, which is a check, has this line. */
static bool check_has(const char *options, const char *line)
{
	char text[200];
	snprintf(text, sizeof(text), "[component]\npath = /a\n[check c]\n%s", options);
	char printed[16384] = "";
	struct config *config = load(text);
	FILE *stream = fmemopen(printed, sizeof(printed), "w");
	config_print(config, stream);
	fclose(stream);
	config_unref(config);
	return strstr(strstr(printed, "[check c]\n"), line);
}

Test(config_print, a_section_has_the_options_of_its_type)
{
	cr_expect(check_has("type = ttl\n", "\ninterval = 10s\n"));
	cr_expect(check_has("type = ttl\n", "\nwriter =\n"));
	cr_expect_not(check_has("type = ttl\n", "\ncommand"));
	cr_expect_not(check_has("type = ttl\n", "\ntarget"));
	cr_expect(check_has("type = tcp\ntarget = h:1\n", "\ntarget = h:1\n"));
	cr_expect_not(check_has("type = tcp\ntarget = h:1\n", "\nmethod"));
}

static void expect_summary(const char *text, const char *expected)
{
	struct config *config = load(text);
	char *summary = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&summary, &len);
	config_print_summary(config, stream);
	fclose(stream);
	cr_expect_str_eq(summary, expected);
	free(summary);
	config_unref(config);
}

Test(config_print, the_summary_counts_what_is_there)
{
	expect_summary("[registry]\nurl = dir:/r\n",
		"0 components, 0 endpoints, 0 checks, registry dir:/r");
	expect_summary("[registry]\nurl = zookeeper://a,b/r\n[component]\npath = /a\n"
		       "[endpoint e]\napi = x\nprotocol = p\naddress_type = uri\n"
		       "address = http://h/\n[check c]\ntype = ttl\n"
		       "[listen l]\naddress = 127.0.0.1:1\nunder = /**\n"
		       "[output o]\nfrom = /a\nformat = json\npath = /tmp/o\n"
		       "[import i]\ntype = nerve\nfrom = /f\nas = /g\n"
		       "[registry east]\nurl = dir:/e\n",
		"1 component, 1 endpoint, 1 check, 1 listener, 1 output, 1 import, "
		"registry zookeeper://a:2181,b:2181/r, /net/east dir:/e; at /a");
	expect_summary("[registry]\nurl = dir:/r\n[component a]\npath = /a\n"
		       "[component b]\npath = /b\n[zone z.org]\n[zone y.org]\n"
		       "[endpoint e]\ncomponent = a\napi = x\nprotocol = p\n"
		       "address_type = host/port\naddress = h:1\n"
		       "[dialect d]\ncomponent = a\ntype = nerve\npath = /services/a\n",
		"2 components, 1 endpoint, 0 checks, 1 dialect, 2 zones, registry dir:/r; "
		"at /a, /b");
}

static void expect_difference(const char *now_text, const char *next_text, const char *expected)
{
	struct config *now = load(now_text);
	struct config *next = load(next_text);
	json_t *changes = config_difference(now, next);
	char *text = json_dumps(changes, JSON_COMPACT);
	cr_expect_str_eq(text, expected);
	free(text);
	json_decref(changes);
	config_unref(now);
	config_unref(next);
}

Test(config_print, a_difference_names_sections_and_options_without_secrets)
{
#define TWO_COMPONENTS "[component a]\npath = /a\n[component b]\npath = /b\n"
	expect_difference(TWO_COMPONENTS, TWO_COMPONENTS, "[]");
	expect_difference("[component a]\npath = /a\n", "[component b]\npath = /a\n",
		"[{\"section\":\"component b\",\"change\":\"added\"},"
		"{\"section\":\"component a\",\"change\":\"removed\"}]");
	expect_difference(TWO_COMPONENTS "[check c]\ncomponent = a\ncommand = x\n",
		TWO_COMPONENTS
		"[check c]\ncomponent = a\ncommand = x\nenv.API_KEY = secret\nfall = 2\n",
		"[{\"section\":\"check c\",\"change\":\"changed\",\"key\":\"env\",\"from\":\"\","
		"\"to\":\"env.API_KEY = ****\"},"
		"{\"section\":\"check c\",\"change\":\"changed\",\"key\":\"fall\",\"from\":\"3\","
		"\"to\":\"2\"}]");
	expect_difference(TWO_COMPONENTS
		"[check c]\ncomponent = a\ncommand = x\nenv.A = 1\nenv.B = 2\n",
		TWO_COMPONENTS "[check c]\ncomponent = a\ncommand = x\nenv.A = 1\nenv.B = 3\n",
		"[{\"section\":\"check c\",\"change\":\"changed\",\"key\":\"env\",\"from\":"
		"\"env.A = 1, env.B = 2\",\"to\":\"env.A = 1, env.B = 3\"}]");
	expect_difference(TWO_COMPONENTS "[endpoint e]\ncomponent = a\napi = r\nprotocol = http\n"
					 "address_type = uri\naddress = http://h/\n",
		TWO_COMPONENTS "[endpoint e]\ncomponent = b\napi = r\nprotocol = http\n"
			       "address_type = uri\naddress = http://h/\n",
		"[{\"section\":\"endpoint e of b\",\"change\":\"added\"},"
		"{\"section\":\"endpoint e of a\",\"change\":\"removed\"}]");
	expect_difference("[agent]\nlog_level = warn\n", "[agent]\nlog_level = debug\n",
		"[{\"section\":\"agent\",\"change\":\"changed\",\"key\":\"log_level\","
		"\"from\":\"warn\",\"to\":\"debug\"}]");
#undef TWO_COMPONENTS
}

/* The names of the sections with this change, each with a blank behind it. */
static char *sections_with(const json_t *changes, const char *change)
{
	char *names = calloc(1, 1000);
	size_t index;
	json_t *item;
	json_array_foreach (changes, index, item) {
		if (strcmp(json_string_value(json_object_get(item, "change")), change) == 0) {
			strcat(names, json_string_value(json_object_get(item, "section")));
			strcat(names, " ");
		}
	}
	return names;
}

Test(config_print, a_difference_has_sections_of_each_kind)
{
	char expected[1000] = "";
	for (size_t i = 0; i < NAMED; i++) {
		bool owned = strncmp(named[i], "endpoint", 8) == 0 ||
			strncmp(named[i], "dialect", 7) == 0;
		strcat(strcat(strcat(expected, named[i]), owned ? " of a" : ""), " ");
	}
	struct config *none = load("");
	struct config *all = load(every);
	json_t *coming = config_difference(none, all);
	json_t *going = config_difference(all, none);
	char *added = sections_with(coming, "added");
	char *removed = sections_with(going, "removed");
	cr_expect_str_eq(added, expected);
	cr_expect_str_eq(removed, expected);
	cr_expect_eq(json_array_size(coming), NAMED);
	cr_expect_eq(json_array_size(going), NAMED);
	free(added);
	free(removed);
	json_decref(coming);
	json_decref(going);
	config_unref(none);
	config_unref(all);
}

#define BASE_COMPONENT "[component]\npath = /a\n"
#define BASE_CHECK "[check c]\ncommand = x\n"

Test(config_print, a_check_with_other_components_is_the_same_check)
{
	static const char two[] = "[component a]\npath = /a\n[component b]\npath = /b\n";
	char text[300];
	snprintf(text, sizeof(text), "%s" BASE_CHECK "component = a\n", two);
	struct config *one = load(text);
	snprintf(text, sizeof(text), "%s" BASE_CHECK "component = a, b\n", two);
	struct config *both = load(text);
	cr_expect(config_check_equal(&one->checks[0], &both->checks[0]));
	cr_expect_eq(one->checks[0].component_count, 1);
	cr_expect_eq(both->checks[0].component_count, 2);
	config_unref(one);
	config_unref(both);
}

Test(config_print, every_change_of_a_check_is_seen)
{
	static const char *const changes[] = {
		"[check d]\ncommand = x\n",
		"[check c]\ncommand = y\n",
		BASE_CHECK "shell = yes\n",
		BASE_CHECK "env.A = b\n",
		BASE_CHECK "interval = 11s\n",
		BASE_CHECK "down_interval = 11s\n",
		BASE_CHECK "fast_interval = 1s\n",
		BASE_CHECK "fall = 2\n",
		BASE_CHECK "match = a\n",
		BASE_CHECK "initial = passing\n",
		BASE_CHECK "cwd = /tmp\n",
		"[check c]\ntype = ttl\n",
	};
	struct config *one = load(BASE_COMPONENT BASE_CHECK "env.A = x\n");
	struct config *two = load(BASE_COMPONENT BASE_CHECK "env.B = x\n");
	cr_expect_not(config_check_equal(&one->checks[0], &two->checks[0]), "another name");
	config_unref(one);
	config_unref(two);
	struct config *base = load(BASE_COMPONENT BASE_CHECK);
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		char text[300];
		snprintf(text, sizeof(text), BASE_COMPONENT "%s", changes[i]);
		struct config *other = load(text);
		cr_expect_not(
			config_check_equal(&base->checks[0], &other->checks[0]), "%s", changes[i]);
		config_unref(other);
	}
	config_unref(base);
}

Test(config_print, passwords_of_urls_are_masked_and_nothing_else)
{
	static const struct {
		const char *key, *value, *shown;
	} cases[] = { { "env.A", "http://u:p@h/", "http://u:****@h/" },
		{ "env.A", "http://u@h/", "http://u@h/" }, { "env.A", "u:p@h", "u:p@h" },
		{ "env.A", "http://u:p@x@h", "http://u:****@h" },
		{ "env.A", "http://:p@h?a:b@c", "http://:****@h?a:b@c" },
		{ "env.A", "http://h/a:b@c", "http://h/a:b@c" },
		{ "env.A", "http://h:1 a@b", "http://h:1 a@b" },
		{ "env.A", "a://b:c@d e://f:g@h", "a://b:****@d e://f:****@h" },
		{ "env.A", "'a://b:c@d'", "'a://b:****@d'" }, { "env.A", "", "" },
		{ "env.MY_PASSWORD", "x", "****" }, { "env.passwd", "x", "****" },
		{ "env.Passphrase", "x", "****" }, { "env.SECRETS", "x", "****" },
		{ "env.TOKEN", "x", "****" }, { "env.API_KEY", "x", "****" },
		{ "env.CREDENTIALS", "x", "****" }, { "env.PRIVATE", "x", "****" },
		{ "env.Authorization", "x", "****" }, { "env.Cookie", "x", "****" },
		{ "env.PASSAGE", "x", "x" } };
	const struct config_option *option = config_option_find(
		&config_sections[CONFIG_CHECK], "env.A");
	const struct config_option *plain = config_option_find(
		&config_sections[CONFIG_CHECK], "command");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *shown = config_mask(option, cases[i].key, cases[i].value);
		cr_expect_str_eq(shown, cases[i].shown);
		free(shown);
	}
	char *shown = config_mask(plain, "command", "password");
	cr_expect_str_eq(shown, "password", "it is no family");
	free(shown);
}
