/* A [component] and its endpoints as a whole, on a host that the test describes. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/builtin.h"
#include "lib/base/array.h"
#include "tests/support/config_stage.h"

static const char *host_name = "Web7.example.org";

int gethostname(char *name, size_t size)
{
	snprintf(name, size, "%s", host_name);
	return 0;
}

static void begin(void)
{
	make_folder();
	/* Too long for a label: such an id gives no name. */
	setenv("CONTAINER_ID", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		1);
}

TestSuite(config_component, .init = begin, .fini = remove_folder);

#define OF_USER "[component]\nuser = joe\nservice_class = web\ninstance = prod\n"

/* ---- the path ---- */

static void expect_path(const char *text, const char *path)
{
	struct config *config = load(text);
	cr_expect_str_eq(config->components[0].path, path);
	config_unref(config);
}

Test(config_component, without_a_name_or_an_id_has_the_name_of_its_host)
{
	expect_path(OF_USER, "/users/joe/web/prod/components/web7");
	host_name = "Web_7";
	check_one(OF_USER, 1, "the host name \"web_7\" is not a DNS label");
	expect_path(OF_USER "id = container_1\n", "/users/joe/web/prod/components/container-1");
}

Test(config_component, has_the_name_that_is_written)
{
	expect_path(OF_USER "name = 0a\n", "/users/joe/web/prod/components/0a");
	expect_path(
		OF_USER "layout = hadoop\nname = n\n", "/users/joe/services/web/prod/components/n");
	check_one(OF_USER "name = A_B\n", 5, "DNS label");
}

Test(config_component, has_a_name_from_its_id_in_the_form_of_the_layout)
{
	static const struct {
		const char *layout;
		const char *id;
		const char *name;
	} cases[] = { { "berth", "container_1", "container-1" },
		{ "hadoop", "container_1", "ctr-1" }, { "hadoop", "Contains_1", "contains-1" },
		{ "hadoop", "other", "other" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[300];
		snprintf(text, sizeof(text), OF_USER "layout = %s\nid = %s\n", cases[i].layout,
			cases[i].id);
		struct config *config = load(text);
		cr_expect_str_eq(config->components[0].component_name, cases[i].name);
		config_unref(config);
	}
}

Test(config_component, with_a_bad_id_or_user_has_that_mistake_alone)
{
	check_one(OF_USER "id = ${UNSET_HERE}\n", 5, "UNSET_HERE");
	check_one(OF_USER "id = a.b\n", 5, "no name for the component can be made from its id");
	check_one("[component]\nuser = ${UNSET_HERE}\nservice_class = a\ninstance = b\n", 2,
		"UNSET_HERE");
	check_one("[component]\nuser = @REALM\nservice_class = a\ninstance = b\n", 2,
		"`user`: user \"\"");
}

Test(config_component, needs_each_part_of_its_path)
{
	check_one("[component]\nservice_class = a\ninstance = b\n", 1, "needs `user`");
	check_one("[component]\nuser = a\ninstance = b\n", 1, "needs `service_class`");
	check_one("[component]\nuser = a\nservice_class = b\n", 1, "needs `instance`");
	check_one("[component]\nuser =\nservice_class = b\ninstance = c\n", 2, "needs `user`");
	struct config_problems problems = fail("[component]\nname = n\n");
	cr_expect_eq(problems.count, 3);
	config_problems_finish(&problems);
}

#define OF(name, user)                                                                             \
	"[component " name "]\nuser = " user "\nservice_class = " name "\ninstance = i\n"

Test(config_component, may_share_the_home_of_a_user_with_others_of_this_user)
{
	config_unref(load(OF("a", "joe") OF("b", "joe")));
	config_unref(load(OF("a", "joe@A") OF("b", "joe/host@B") OF("c", "joe")));
	config_unref(load(OF("a", "joe") OF("b", "jo")));
	config_unref(load("[component a]\npath = /a\n" OF("b", "joe")));
	check_one(OF("a", "Joe") OF("b", "joe"), 6, "joe and Joe, of [component a], would share");
	check_one(OF("a", "jim") OF("b", "Joe") OF("c", "joe"), 10, "of [component b]");
}

/* ---- its attributes ---- */

/* How many attributes have the name; the value of the last one. */
static size_t attributes(const struct config *config, const char *name, const char **ret_value)
{
	const struct config_component *component = &config->components[0];
	size_t count = 0;
	*ret_value = NULL;
	for (size_t i = 0; i < component->attribute_count; i++) {
		if (strcmp(component->attributes[i].name, name) == 0) {
			*ret_value = component->attributes[i].value;
			count++;
		}
	}
	return count;
}

static void expect_attribute(const char *text, const char *name, const char *value)
{
	struct config *config = load(text);
	const char *found;
	cr_expect_eq(attributes(config, name, &found), value ? 1 : 0, "%s: %s", text, name);
	cr_expect(!value || (found && strcmp(found, value) == 0), "%s is %s", name, found);
	config_unref(config);
}

Test(config_component, has_attributes_of_its_host_unless_they_are_written)
{
	struct err unknown = ERR_INIT;
	char *own = NULL;
	(void)!config_builtin("berth.ip", &own, &unknown);
	const struct {
		const char *name;
		const char *value;
	} defaults[] = { { "yarn:ip", own }, { "yarn:hostname", "Web7.example.org" },
		{ "yarn:component", "n1" } };
	for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
		char text[300];
		expect_attribute(COMPONENT, defaults[i].name, defaults[i].value);
		expect_attribute("[component]\npath = /a\n", defaults[i].name, NULL);
		snprintf(text, sizeof(text), COMPONENT "attribute.%s = mine\nattribute.other = x\n",
			defaults[i].name);
		expect_attribute(text, defaults[i].name, "mine");
		snprintf(text, sizeof(text), COMPONENT "attribute.other = x\nattribute.%s = mine\n",
			defaults[i].name);
		expect_attribute(text, defaults[i].name, "mine");
	}
	free(own);
}

Test(config_component, has_the_zone_of_its_agent)
{
	expect_attribute("[component]\npath = /a\n", "berth:zone", NULL);
	expect_attribute("[agent]\nzone = eu/a\n[component]\npath = /a\n", "berth:zone", "eu/a");
	expect_attribute("[agent]\nzone = eu\n[component]\npath = /a\nattribute.berth:zone = us\n",
		"berth:zone", "us");
}

/* The length of the longest attribute that leaves a record with these options within its limit. */
static int longest_attribute(const char *options)
{
	enum { MOST = 65000 };
	char *text = malloc(3 * (MOST + 100));
	int good = 0;
	for (int step = 32768; step > 0; step /= 2) {
		struct config *config = NULL;
		struct config_problems problems;
		int len = good + step > MOST ? MOST : good + step;
		sprintf(text,
			"[component]\npath = /a\n%sattribute.a = %0*d\nattribute.b = %0*d\n"
			"attribute.c = %0*d\n",
			options, 60000, 0, 60000, 0, len, 0);
		write_file("a.ini", text);
		if (config_load(&config, path_of("a.ini"), &problems) == 0) {
			good = len;
		}
		config_problems_finish(&problems);
		config_unref(config);
	}
	free(text);
	return good;
}

Test(config_component, has_room_in_its_record_for_its_health)
{
	int plain = longest_attribute("");
	static const int attribute_len = sizeof(",\"berth:health\":\"failing\"") - 1;
	cr_expect_gt(plain, 1000);
	cr_expect_eq(longest_attribute("publish_health = yes\n"), plain - attribute_len);
	cr_expect_eq(longest_attribute("keep_last = yes\n"), plain - attribute_len);
}

/* ---- its endpoints ---- */

Test(config_component, has_endpoints_that_are_complete)
{
	check_one(COMPONENT "[endpoint e]\nprotocol = p\naddress_type = uri\naddress = http://h/\n",
		6, "needs `api`");
	check_one(COMPONENT "[endpoint e]\napi = a\naddress_type = uri\naddress = http://h/\n", 6,
		"needs `protocol`");
	check_one(COMPONENT "[endpoint e]\napi = a\nprotocol = p\naddress = http://h/\n", 6,
		"needs `address_type`");
	check_one(COMPONENT ENDPOINT "address =\n", 6, "needs `address`, or `dynamic = yes`");
	check_one(COMPONENT ENDPOINT "linger = 1ms\naddress = http://h/\n", 10,
		"only with `hold = connection`");
}

Test(config_component, has_endpoints_whose_bad_addresses_are_reported_once)
{
	check_one(COMPONENT ENDPOINT "address = localhost:8080\n", 10, "a URI begins with");
	check_one(COMPONENT "[endpoint e]\naddress = ${UNSET_HERE}\napi = a\nprotocol = p\n"
			    "address_type = uri\n",
		7, "UNSET_HERE");
	struct config_problems problems = fail(COMPONENT
		"[endpoint e]\nscope = both\napi = a\nprotocol = p\naddress_type = uri\n");
	cr_expect_eq(problems.count, 2, "a bad scope is no bad address");
	config_problems_finish(&problems);
	char text[6000] = COMPONENT ENDPOINT "address = nowhere\n";
	for (int i = 1; i <= 65; i++) {
		sprintf(text + strlen(text), "address.%d = http://h%d/\n", i, i);
	}
	check_one(text, 10, "a URI begins with");
}

Test(config_component, has_endpoints_with_addresses_that_may_be_empty)
{
	struct config *config = load(
		COMPONENT ENDPOINT "address =\naddress.1 = http://h/\naddress.2 = ${UNSET:-}\n");
	cr_assert_eq(config->components[0].endpoints[0].address_count, 1);
	cr_expect_str_eq(config->components[0].endpoints[0].addresses[0], "http://h/");
	config_unref(config);
}

/* ---- [registry] ---- */

Test(config_component, is_in_a_registry_whose_options_fit)
{
	check_one("[registry]\nurl = dir:/r\nsecure = yes\n", 3,
		"`secure`: secure = yes needs auth = digest or sasl");
	check_one(
		"[registry]\nrealm = ${UNSET_HERE}\nurl = dir:/r\nsecure = yes\n", 2, "UNSET_HERE");
	check_one(
		"[registry]\nurl = dir:/r\nsecure = yes\nrealm = ${UNSET_HERE}\n", 4, "UNSET_HERE");
	struct config_problems problems = fail(
		"[agent]\nlog_level = loud\n[registry]\nurl = dir:/r\nsecure = yes\n");
	cr_expect_eq(problems.count, 2, "a mistake of another section hides none here");
	check_problem(&problems, 1, "a.ini", 5, "`secure`: ");
	config_problems_finish(&problems);
}
