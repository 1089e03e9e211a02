/* The service record of a component, from its configuration and the state of its endpoints. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/record.h"
#include "lib/base/array.h"
#include "tests/support/config_stage.h"

TestSuite(config_record, .init = make_folder, .fini = remove_folder);

#define HOME "[component]\npath = /a\n"

static struct record *make(const struct config *config,
	const struct config_record_endpoint *endpoints, const char *health)
{
	static const struct config_record_endpoint all_in[4];
	struct record *record = NULL;
	struct err err = ERR_INIT;
	int code = config_record(&record, &config->components[0], endpoints ? endpoints : all_in,
		health, NULL, &err);
	cr_assert_eq(code, 0, "%s", err.msg);
	return record;
}

/* "" for none. */
static const char *attribute(const struct record *record, const char *name)
{
	const json_t *value = record_attribute(record, name);
	return value ? json_string_value(value) : "";
}

Test(config_record, has_the_texts_of_its_component)
{
	struct config *config = load(
		HOME "id = i\ndescription = d\nattribute.x = 1\nattribute.y =\n");
	struct record *record = make(config, NULL, NULL);
	cr_expect_str_eq(record_description(record), "d");
	cr_expect_str_eq(record_id(record), "i");
	cr_expect_str_eq(record_persistence(record), "container");
	cr_expect_str_eq(attribute(record, "x"), "1");
	cr_expect_not_null(record_attribute(record, "y"), "an empty value is one");
	cr_expect_null(record_attribute(record, CONFIG_RECORD_HEALTH));
	cr_expect_eq(record_endpoint_count(record), 0);
	record_free(record);
	*config->components[0].description = '\0';
	*config->components[0].id = '\0';
	record = make(config, NULL, "warning");
	cr_expect_null(record_attribute(record, "description"));
	cr_expect_null(record_attribute(record, "yarn:id"));
	cr_expect_str_eq(attribute(record, CONFIG_RECORD_HEALTH), "warning");
	record_free(record);
	config_unref(config);
}

Test(config_record, names_its_persistence_as_hadoop_does)
{
	static const char *const names[] = { "container", "application-attempt", "application",
		"permanent" };
	struct config *config = load(HOME);
	for (int i = 0; i < 4; i++) {
		config->components[0].persistence = (enum config_persistence)i;
		struct record *record = make(config, NULL, NULL);
		cr_expect_str_eq(record_persistence(record), names[i]);
		record_free(record);
	}
	config_unref(config);
}

Test(config_record, lacks_a_default_attribute_that_is_written_empty)
{
	static const char *const names[] = { "yarn:ip", "yarn:hostname", "yarn:component" };
	struct config *config = load(COMPONENT "attribute.yarn:ip =\nattribute.yarn:hostname =\n"
					       "attribute.yarn:component =\nattribute.last = x\n");
	struct record *record = make(config, NULL, NULL);
	for (size_t i = 0; i < 3; i++) {
		cr_expect_null(record_attribute(record, names[i]), "%s", names[i]);
	}
	cr_expect_str_eq(attribute(record, "last"), "x");
	record_free(record);
	config_unref(config);
	config = load(COMPONENT "attribute.yarn:ip = a\nattribute.yarn:hostname = b\n"
				"attribute.yarn:component = c\n");
	record = make(config, NULL, NULL);
	for (size_t i = 0; i < 3; i++) {
		const char value[] = { (char)('a' + i), '\0' };
		cr_expect_str_eq(attribute(record, names[i]), value);
	}
	record_free(record);
	config_unref(config);
}

/* ---- endpoints ---- */

#define THREE                                                                                      \
	HOME "[endpoint e]\napi = one\nprotocol = REST\naddress_type = uri\n"                      \
	     "address = http://h/\naddress.1 = http://i/\n"                                        \
	     "[endpoint f]\napi = two\nprotocol = p\naddress_type = host/port\nscope = internal\n" \
	     "address = h:80\n"                                                                    \
	     "[endpoint g]\napi = three\nprotocol = p\naddress_type = uri\ndynamic = yes\n"

Test(config_record, has_the_endpoints_of_its_component)
{
	struct config *config = load(THREE);
	struct record *record = make(config, NULL, NULL);
	cr_assert_eq(record_endpoint_count(record), 2, "nothing supplies the third one");
	struct record_endpoint one = record_endpoint(record, 0);
	cr_expect_str_eq(one.scope, "external");
	cr_expect_str_eq(one.api, "one");
	cr_expect_str_eq(one.protocol, "REST");
	cr_expect_str_eq(one.address_type, "uri");
	cr_assert_eq(json_array_size(one.addresses), 2);
	cr_expect_str_eq(
		json_string_value(json_object_get(json_array_get(one.addresses, 1), "uri")),
		"http://i/");
	struct record_endpoint two = record_endpoint(record, 1);
	cr_expect_str_eq(two.scope, "internal");
	cr_expect_str_eq(two.address_type, "host/port");
	cr_expect_str_eq(
		json_string_value(json_object_get(json_array_get(two.addresses, 0), "port")), "80");
	record_free(record);
	config_unref(config);
}

Test(config_record, has_no_endpoint_that_is_out)
{
	const struct config_record_endpoint first_out[3] = { { .out = true } };
	struct config *config = load(THREE);
	struct record *record = make(config, first_out, NULL);
	cr_assert_eq(record_endpoint_count(record), 1);
	cr_expect_str_eq(record_endpoint(record, 0).api, "two");
	record_free(record);
	config_unref(config);
}

Test(config_record, has_the_addresses_that_a_process_supplies_in_a_copy)
{
	json_t *supplied = json_pack("[{s:s}]", "uri", "http://late/");
	const struct config_record_endpoint endpoints[3] = { [2] = { .addresses = supplied } };
	const struct config_record_endpoint out[3] = { [2] = { true, supplied } };
	struct config *config = load(THREE);
	struct record *record = make(config, endpoints, NULL);
	cr_assert_eq(record_endpoint_count(record), 3);
	struct record_endpoint late = record_endpoint(record, 1);
	cr_expect_str_eq(late.api, "three");
	cr_expect_neq(late.addresses, supplied);
	cr_expect(json_equal(late.addresses, supplied));
	cr_expect_eq(supplied->refcount, 1);
	record_free(record);
	record = make(config, out, NULL);
	cr_expect_eq(record_endpoint_count(record), 2);
	record_free(record);
	config_unref(config);
	json_decref(supplied);
}

/* ---- what cannot be a record ---- */

static void expect_error(const struct config *config, int code, const char *part)
{
	static const struct config_record_endpoint all_in[4];
	struct record *record = NULL;
	struct err err = ERR_INIT;
	cr_expect_eq(config_record(&record, &config->components[0], all_in, "failing", NULL, &err),
		code);
	cr_expect_eq(err.code, code);
	cr_expect_not_null(strstr(err.msg, part), "%s", err.msg);
	cr_expect_null(record);
}

Test(config_record, cannot_hold_what_is_not_UTF8)
{
	struct config *config = load(HOME "id = i\ndescription = d\nattribute.x = 1\n"
					  "attribute.y = 2\n" ENDPOINT "address = http://h/\n");
	struct config_component *component = &config->components[0];
	struct {
		char *text;
		const char *part;
	} cases[] = { { component->description, "description is not UTF-8 text" },
		{ component->id, "yarn:id is not UTF-8 text" },
		{ component->attributes[0].value, "x is not UTF-8 text" },
		{ component->endpoints[0].api, "[endpoint rest] holds text that is not UTF-8" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char byte = *cases[i].text;
		*cases[i].text = '\xff';
		expect_error(config, BERTH_INVALID_RECORD, cases[i].part);
		*cases[i].text = byte;
	}
	record_free(make(config, NULL, NULL));
	config_unref(config);
}

Test(config_record, needs_addresses_of_their_type)
{
	struct config *config = load(
		HOME "[endpoint e]\napi = a\nprotocol = p\naddress_type = host/port\n"
		     "address = h:8\naddress.1 = i:9\n" ENDPOINT "address = http://h/\n");
	char **addresses = config->components[0].endpoints[0].addresses;
	for (size_t i = 0; i < 2; i++) {
		addresses[i][1] = 'x';
		expect_error(config, BERTH_INVALID_RECORD, "host");
		addresses[i][1] = ':';
	}
	config_unref(config);
}

Test(config_record, has_the_limits_of_records)
{
	struct config *config = load(HOME);
	char *longest = malloc(70000);
	memset(longest, 'x', 70000);
	longest[69999] = '\0';
	free(config->components[0].description);
	config->components[0].description = longest;
	expect_error(config, BERTH_LIMIT_EXCEEDED, "description");
	config_unref(config);
}
