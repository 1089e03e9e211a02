/* The rules for writing: every limit, exactly, and the rules that reading does not have. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/record/record.h"

TestSuite(record_check);

#define HEAD "{\"type\":\"JSONServiceRecord\","

static struct record *read_record(const char *text)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(record_decode(&record, text, strlen(text), &err), 0, "%s: %s", text, err.msg);
	return record;
}

/* The record cannot be written; frees it. */
static void expect_unwritable(struct record *record, int code, const char *complaint)
{
	char *text = NULL;
	size_t len = 0;
	struct err err = ERR_INIT;
	cr_assert_eq(record_encode(record, &text, &len, &err), code, "%s", err.msg);
	cr_assert_null(text);
	cr_assert_not_null(strstr(err.msg, complaint), "%s", err.msg);
	record_free(record);
}

/* ---- limits ---- */

/* `len` times x; static. */
static const char *xs(size_t len)
{
	static char text[LIMIT_RECORD_BYTES + 100];
	memset(text, 'x', len);
	text[len] = '\0';
	return text;
}

static struct record *with_endpoint(
	const char *api, const char *protocol, const char *type, json_t *address)
{
	struct record *record = record_create();
	json_t *addresses = json_array();
	json_array_append_new(addresses, address);
	cr_assert_eq(
		record_add_endpoint_take(record, "external", "a", "p", "uri", json_array()), 0);
	cr_assert_eq(
		record_add_endpoint_take(record, "external", api, protocol, type, addresses), 0);
	return record;
}

static json_t *uri(const char *text)
{
	return json_pack("{s:s}", "uri", text);
}

static struct record *with_api(size_t len)
{
	return with_endpoint(xs(len), "p", "uri", uri("u"));
}

static struct record *with_protocol(size_t len)
{
	return with_endpoint("a", xs(len), "uri", uri("u"));
}

static struct record *with_address_type(size_t len)
{
	char type[100];
	snprintf(type, sizeof(type), "x-%s", xs(len - 2));
	return with_endpoint("a", "p", type, json_object());
}

static struct record *with_address_value(size_t len)
{
	return with_endpoint("a", "p", "uri", uri(xs(len)));
}

static struct record *with_addresses(size_t count)
{
	struct record *record = with_endpoint("a", "p", "uri", uri("u"));
	json_t *addresses = (json_t *)record_endpoint(record, 1).addresses;
	while (json_array_size(addresses) < count) {
		json_array_append_new(addresses, uri("u"));
	}
	return record;
}

static struct record *with_endpoints(size_t count)
{
	struct record *record = record_create();
	for (size_t i = 0; i < count; i++) {
		cr_assert_eq(record_add_endpoint_take(record, i % 2 ? "external" : "internal", "a",
				     "p", "uri", json_array()),
			0);
	}
	return record;
}

static struct record *with_description(size_t len)
{
	struct record *record = record_create();
	cr_assert_eq(record_set_text(record, "description", xs(len)), 0);
	return record;
}

/* Of `len` bytes when written. */
static struct record *with_size(size_t len)
{
	struct record *record = record_create();
	cr_assert_eq(record_set_text(record, "a",
			     xs(len - strlen(HEAD "\"external\":[],\"internal\":[],\"a\":\"\"}"))),
		0);
	return record;
}

static struct record *with_depth(size_t depth)
{
	json_t *value = json_integer(1);
	for (size_t i = 1; i < depth; i++) {
		value = json_pack("[o]", value);
	}
	struct record *record = record_create();
	cr_assert_eq(record_set_attribute_take(record, "a", value), 0);
	return record;
}

Test(record_check, each_limit_holds_exactly)
{
	static const struct {
		struct record *(*make)(size_t amount);
		size_t limit;
		const char *complaint;
	} limits[] = {
		{ with_api, 512,
			"api of external endpoint 2 has 513 bytes; at most 512 are allowed" },
		{ with_protocol, 64,
			"protocol of external endpoint 2 has 65 bytes; at most 64 are allowed" },
		{ with_address_type, 64,
			"addressType of external endpoint 2 has 65 bytes; at most 64 are allowed" },
		{ with_address_value, 1024,
			"uri of address 1 of external endpoint 2 has 1025 "
			"bytes; at most 1024 are allowed" },
		{ with_addresses, 64,
			"external endpoint 2 has 65 addresses; at most 64 are allowed" },
		{ with_endpoints, 128,
			"service record has 129 endpoints; at most 128 are allowed" },
		{ with_description, 1024,
			"description of the service record has 1025 "
			"bytes; at most 1024 are allowed" },
		{ with_size, 131072,
			"service record has 131073 bytes; at most 131072 are allowed" },
		{ with_depth, 32, "deeper than the 32 levels allowed" },
	};
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		for (size_t amount = limits[i].limit - 1; amount <= limits[i].limit; amount++) {
			struct record *record = limits[i].make(amount);
			char *text = NULL;
			size_t len = 0;
			struct err err = ERR_INIT;
			cr_assert_eq(record_encode(record, &text, &len, &err), 0, "%s", err.msg);
			struct record *again = read_record(text);
			cr_assert(record_equal(record, again), "%s", limits[i].complaint);
			record_free(again);
			free(text);
			record_free(record);
		}
		expect_unwritable(limits[i].make(limits[i].limit + 1), BERTH_LIMIT_EXCEEDED,
			limits[i].complaint);
	}
}

Test(record_check, far_beyond_every_limit_is_refused_too)
{
	expect_unwritable(with_depth(5000), BERTH_LIMIT_EXCEEDED, "deeper");
	expect_unwritable(with_endpoints(5000), BERTH_LIMIT_EXCEEDED, "5000 endpoints");
}

/* ---- strict writing ---- */

Test(record_check, empty_names_are_not_written)
{
	expect_unwritable(with_endpoint("", "p", "uri", uri("u")), BERTH_INVALID_RECORD,
		"api of external endpoint 2 is empty");
	expect_unwritable(with_endpoint("a", "p", "", uri("u")), BERTH_INVALID_RECORD,
		"addressType of external endpoint 2 is empty");
	struct record *record = with_endpoint("a", "", "uri", uri("u"));
	struct err err = ERR_INIT;
	cr_assert_eq(record_check(record, &err), 0, "a protocol may be empty: %s", err.msg);
	record_free(record);
}

Test(record_check, unknown_address_types_are_read_but_not_written)
{
	struct record *record = read_record(
		HEAD "\"external\":[{\"api\":\"a\",\"addressType\":\"carrier-pigeon\","
		     "\"protocol\":\"p\",\"addresses\":[{\"loft\":\"3\"}]}]}");
	cr_assert_str_eq(record_endpoint(record, 0).address_type, "carrier-pigeon");
	expect_unwritable(record, BERTH_INVALID_RECORD,
		"addressType of external endpoint 1 is "
		"\"carrier-pigeon\"; allowed are uri, hostname");
}

Test(record_check, an_api_that_is_no_uri_is_read_but_not_written)
{
	struct record *record = read_record(HEAD
		"\"external\":[{\"api\":\"two words\",\"addressType\":\"uri\",\"protocol\":\"p\","
		"\"addresses\":[{\"uri\":\"http://h/\"}]}]}");
	expect_unwritable(record, BERTH_INVALID_RECORD,
		"api of external endpoint 1 is \"two words\"; it must be a URI");
}

Test(record_check, unknown_persistence_is_read_but_not_written)
{
	struct record *record = read_record(HEAD "\"yarn:persistence\":\"3\"}");
	cr_assert_str_eq(record_persistence(record), "3");
	expect_unwritable(record, BERTH_INVALID_RECORD,
		"yarn:persistence is \"3\"; allowed are permanent, application, "
		"application-attempt and container");
}

Test(record_check, wrong_shapes_set_by_callers_are_not_written)
{
	struct record *record = record_create();
	cr_assert_eq(record_set_attribute_take(record, "description", json_integer(1)), 0);
	expect_unwritable(
		record, BERTH_INVALID_RECORD, "description of the service record is a number");
	static const char *const texts[] = { "yarn:id", "yarn:persistence" };
	for (size_t i = 0; i < 2; i++) {
		record = record_create();
		cr_assert_eq(record_set_attribute_take(record, texts[i], json_integer(1)), 0);
		expect_unwritable(
			record, BERTH_INVALID_RECORD, "of the service record is a number");
	}
	record = record_create();
	cr_assert_eq(record_set_attribute_take(record, "a", json_stringn("x\0y", 3)), 0);
	expect_unwritable(record, BERTH_INVALID_RECORD, "NUL");
	record = record_create();
	json_t *list = json_pack("[s, s, o]", "a", "b", json_stringn("x\0y", 3));
	cr_assert_eq(record_set_attribute_take(record, "a", list), 0);
	expect_unwritable(record, BERTH_INVALID_RECORD, "NUL");
	record = record_create();
	cr_assert_eq(
		record_add_endpoint_take(record, "internal", "a", "p", "uri", json_object()), 0);
	expect_unwritable(
		record, BERTH_INVALID_RECORD, "addresses of internal endpoint 1 must be an array");
}
