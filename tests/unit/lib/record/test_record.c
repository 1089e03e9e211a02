/*
 * Records as a whole: reading, writing, refusals. test_check.c tests the rules for writing,
 * test_address.c the address types.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buffer.h"
#include "lib/base/limits.h"
#include "lib/record/record.h"
#include "tests/support/failing.h"

TestSuite(record);

#define HEAD "{\"type\":\"JSONServiceRecord\","
#define ENDPOINT_HEAD "{\"api\":\"a\",\"addressType\":\"uri\",\"protocol\":\"REST\",\"addresses\":"

/* As a Hadoop cluster wrote it. */
#define HTTPD                                                                                      \
	"{\"type\":\"JSONServiceRecord\",\"description\":\"httpd-1\",\"external\":[],"             \
	"\"internal\":[],\"yarn:id\":\"container_e50_1451931954322_0016_01_000002\","              \
	"\"yarn:persistence\":\"container\",\"yarn:ip\":\"172.17.0.19\","                          \
	"\"yarn:hostname\":\"host1\",\"yarn:component\":\"httpd\"}"

static struct record *read_record(const char *text)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(record_decode(&record, text, strlen(text), &err), 0, "%s: %s", text, err.msg);
	return record;
}

static void expect_refusal(int code, const char *data, size_t len, const char *complaint)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(record_decode(&record, data, len, &err), code, "%.80s: %s", data, err.msg);
	cr_assert_eq(err.code, code);
	cr_assert_null(record);
	cr_assert_not_null(strstr(err.msg, complaint), "%.80s: %s", data, err.msg);
	cr_assert_eq(record_decode(&record, data, len, NULL), code, "%.80s", data);
	cr_assert_null(record);
}

static void expect_written(const struct record *record, const char *expected)
{
	char *text = NULL;
	size_t len = 0;
	struct err err = ERR_INIT;
	cr_assert_eq(record_encode(record, &text, &len, &err), 0, "%s", err.msg);
	cr_assert_str_eq(text, expected);
	cr_assert_eq(len, strlen(expected));
	free(text);
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

static void expect_rewritten(const char *text, const char *expected)
{
	struct record *record = read_record(text);
	expect_written(record, expected);
	record_free(record);
}

/* ---- Hadoop's marshalling tests, by behaviour ---- */

Test(record, round_trip_of_a_real_record)
{
	expect_rewritten(HTTPD, HTTPD);
}

Test(record, round_trip_of_a_built_record)
{
	struct record *record = record_create();
	json_t *addresses = json_pack("[{s:s}]", "uri", "http://rack4server3:43572");
	cr_assert_eq(record_add_endpoint_take(record, "external", "http://example.org/api", "REST",
			     "uri", addresses),
		0);
	addresses = json_pack("[{s:s, s:s}]", "host", "rack4server3", "port", "48551");
	cr_assert_eq(record_add_endpoint_take(record, "internal", "classpath:javax.management.jmx",
			     "rmi", "host/port", addresses),
		0);
	cr_assert_eq(
		record_set_attribute_take(record, "registrationTime", json_integer(1408638082444)),
		0);
	cr_assert_eq(record_set_text(record, "yarn:persistence", "container"), 0);
	cr_assert_eq(record_set_text(record, "yarn:id", "container_1"), 0);
	cr_assert_eq(record_set_text(record, "description", "tomcat"), 0);
	const char *expected = HEAD
		"\"description\":\"tomcat\",\"external\":[{\"api\":\"http://example.org/api\","
		"\"addressType\":\"uri\",\"protocol\":\"REST\",\"protocolType\":\"REST\","
		"\"addresses\":[{\"uri\":\"http://rack4server3:43572\"}]}],\"internal\":[{"
		"\"api\":\"classpath:javax.management.jmx\",\"addressType\":\"host/port\","
		"\"protocol\":\"rmi\",\"protocolType\":\"rmi\",\"addresses\":[{\"host\":"
		"\"rack4server3\",\"port\":\"48551\"}]}],\"yarn:id\":\"container_1\","
		"\"yarn:persistence\":\"container\",\"registrationTime\":1408638082444}";
	expect_written(record, expected);
	struct record *again = read_record(expected);
	cr_assert(record_equal(record, again));
	record_free(again);
	record_free(record);
}

Test(record, no_data_is_no_record)
{
	expect_refusal(BERTH_NO_RECORD, "", 0, "no service record");
}

Test(record, too_little_data_is_no_record)
{
	expect_refusal(BERTH_NO_RECORD, "JSON", 4, "no service record");
	expect_refusal(BERTH_NO_RECORD, "JSONServiceRecor", 16, "no service record");
}

Test(record, no_type_is_no_record)
{
	const char *text = "{\"description\":\"x\",\"external\":[]}";
	expect_refusal(BERTH_NO_RECORD, text, strlen(text), "no service record");
	text = "{{{ not JSON at all";
	expect_refusal(BERTH_NO_RECORD, text, strlen(text), "no service record");
}

Test(record, wrong_type_is_invalid)
{
	static const char *const texts[] = {
		"{\"type\":\"Other\",\"was\":\"JSONServiceRecord\"}",
		"{\"type\":\"JSONServiceRecord2\"}",
		"{\"type\":[\"JSONServiceRecord\"]}",
		"{\"was\":\"JSONServiceRecord\"}",
		"[\"JSONServiceRecord\"]",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		expect_refusal(BERTH_INVALID_RECORD, texts[i], strlen(texts[i]), "must be");
	}
}

Test(record, unknown_fields_survive_as_what_they_were)
{
	const char *text = HEAD
		"\"external\":[{\"api\":\"a\",\"addressType\":\"uri\",\"protocol\":\"p\","
		"\"protocolType\":\"p\",\"addresses\":[],\"weight\":3}],\"internal\":[],"
		"\"z\":1,\"a\":{\"deep\":[1,true,null,{\"x\":\"\xe2\x82\xac\"}]},"
		"\"big\":9223372036854775807,\"small\":-9223372036854775808,\"half\":0.5}";
	expect_rewritten(text, text);
}

/* ---- lenient reading ---- */

Test(record, endpoint_with_either_spelling_of_protocol)
{
	const char *head = HEAD
		"\"external\":[{\"api\":\"a\",\"addressType\":\"uri\",\"addresses\":[],";
	static const char *const tails[] = {
		"\"protocol\":\"REST\"}]}",
		"\"protocolType\":\"REST\"}]}",
		"\"protocol\":null,\"protocolType\":\"REST\"}]}",
		"\"protocol\":\"\",\"protocolType\":\"REST\"}]}",
		"\"protocol\":\"REST\",\"protocolType\":null}]}",
		"\"protocol\":\"REST\",\"protocolType\":\"other\"}]}",
	};
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		char text[300];
		snprintf(text, sizeof(text), "%s%s", head, tails[i]);
		struct record *record = read_record(text);
		cr_assert_str_eq(record_endpoint(record, 0).protocol, "REST", "%s", text);
		expect_written(record,
			HEAD "\"external\":[{\"api\":\"a\",\"addressType\":\"uri\","
			     "\"protocol\":\"REST\",\"protocolType\":\"REST\","
			     "\"addresses\":[]}],\"internal\":[]}");
		record_free(record);
	}
}

Test(record, endpoint_without_protocol_is_read_but_not_written)
{
	struct record *record = read_record(
		HEAD "\"external\":[{\"api\":\"a\",\"addressType\":\"uri\",\"addresses\":[]}]}");
	cr_assert_str_eq(record_endpoint(record, 0).protocol, "");
	expect_unwritable(record, BERTH_INVALID_RECORD, "external endpoint 1 has no protocol");
}

Test(record, null_fields_are_as_if_absent)
{
	struct record *record = read_record(
		HEAD "\"description\":null,\"external\":null,\"yarn:id\":null,"
		     "\"yarn:persistence\":null}");
	cr_assert_str_eq(record_description(record), "");
	cr_assert_str_eq(record_id(record), "");
	cr_assert_str_eq(record_persistence(record), "");
	cr_assert_eq(record_endpoint_count(record), 0);
	expect_written(record, HEAD "\"external\":[],\"internal\":[]}");
	record_free(record);
}

Test(record, null_attributes_are_neither_read_nor_written)
{
	expect_rewritten(HEAD "\"a\":null,\"b\":{\"c\":null},\"external\":[],\"internal\":[]}",
		HEAD "\"external\":[],\"internal\":[],\"b\":{\"c\":null}}");
	struct record *record = read_record(HEAD "\"a\":1}");
	cr_assert_eq(record_set_attribute_take(record, "a", json_null()), 0);
	expect_written(record, HEAD "\"external\":[],\"internal\":[]}");
	record_free(record);
}

/* The addresses of the only endpoint, as they were read. */
static void expect_addresses(const char *address_type, const char *given, const char *expected)
{
	char text[600];
	snprintf(text, sizeof(text),
		HEAD "\"external\":[{\"api\":\"a\",\"addressType\":\"%s\",\"protocol\":\"p\","
		     "\"addresses\":%s}]}",
		address_type, given);
	struct record *record = read_record(text);
	char *read = json_dumps(record_endpoint(record, 0).addresses, JSON_COMPACT);
	cr_assert_str_eq(read, expected, "%s", given);
	free(read);
	record_free(record);
}

Test(record, scalars_become_strings_where_strings_belong)
{
	struct record *record = read_record(
		"{\"description\":1.5,\"external\":[{\"protocol\":7,\"api\":true,\"addresses\":[],"
		"\"addressType\":\"uri\"}],\"yarn:id\":12,\"yarn:persistence\":false,"
		"\"type\":\"JSONServiceRecord\"}");
	cr_assert_str_eq(record_description(record), "1.5");
	cr_assert_str_eq(record_id(record), "12");
	cr_assert_str_eq(record_persistence(record), "false");
	cr_assert_str_eq(record_endpoint(record, 0).protocol, "7");
	cr_assert_str_eq(record_endpoint(record, 0).api, "true");
	record_free(record);
	expect_addresses("host/port", "[{\"host\":\"h\",\"port\":8080}]",
		"[{\"host\":\"h\",\"port\":\"8080\"}]");
	expect_addresses("x-any", "[{\"a\":1.1,\"b\":0.1e-7,\"c\":-3,\"d\":0.30000000000000004}]",
		"[{\"a\":\"1.1\",\"b\":\"1e-8\",\"c\":\"-3\",\"d\":\"0.30000000000000004\"}]");
}

Test(record, nulls_in_lists_and_addresses_are_left_out)
{
	expect_addresses(
		"host/port", "[null,{\"host\":\"h\",\"port\":null},null]", "[{\"host\":\"h\"}]");
	expect_addresses("uri", "null", "[]");
	struct record *record = read_record(
		HEAD "\"external\":[null," ENDPOINT_HEAD "[]},null],\"internal\":[{\"api\":\"a\","
		     "\"addressType\":\"uri\",\"protocol\":\"p\"}]}");
	cr_assert_eq(record_endpoint_count(record), 2);
	cr_assert_eq(json_array_size(record_endpoint(record, 1).addresses), 0);
	record_free(record);
}

Test(record, older_addresses_are_arrays_of_values)
{
	expect_addresses("uri", "[[\"http://h:1\"]]", "[{\"uri\":\"http://h:1\"}]");
	expect_addresses("host/port", "[[\"h\",\"80\"],[\"i\",81]]",
		"[{\"host\":\"h\",\"port\":\"80\"},{\"host\":\"i\",\"port\":\"81\"}]");
	expect_addresses("zktriple", "[[\"h\",2181,\"/x\"]]",
		"[{\"hostname\":\"h\",\"port\":\"2181\",\"path\":\"/x\"}]");
}

Test(record, host_and_hostname_stand_for_each_other)
{
	static const char zookeeper[] = "[{\"hostname\":\"h\",\"port\":\"1\",\"path\":\"/x\"}]";
	expect_addresses("zktriple", "[{\"host\":\"h\",\"port\":1,\"path\":\"/x\"}]", zookeeper);
	expect_addresses("inetaddress", "[{\"host\":\"h\",\"port\":\"1\"}]",
		"[{\"hostname\":\"h\",\"port\":\"1\"}]");
	expect_addresses("host/port", "[{\"hostname\":\"h\",\"port\":\"1\"}]",
		"[{\"host\":\"h\",\"port\":\"1\"}]");
	expect_addresses("hostname", "[{\"host\":\"h\"}]", "[{\"hostname\":\"h\"}]");
	expect_addresses("host/port", "[{\"hostname\":\"other\",\"host\":\"h\",\"port\":\"1\"}]",
		"[{\"hostname\":\"other\",\"host\":\"h\",\"port\":\"1\"}]");
	expect_addresses("uri", "[{\"host\":\"h\"}]", "[{\"host\":\"h\"}]");
}

Test(record, of_two_equal_keys_the_last_counts)
{
	struct record *record = read_record(
		"{\"type\":\"x\",\"yarn:id\":\"one\",\"type\":\"JSONServiceRecord\","
		"\"a\":{\"b\":1,\"b\":2},\"yarn:id\":\"two\"}");
	cr_assert_str_eq(record_id(record), "two");
	cr_assert_eq(json_integer_value(json_object_get(record_attribute(record, "a"), "b")), 2);
	record_free(record);
	static const char other[] = HEAD "\"type\":\"x\"}";
	expect_refusal(BERTH_INVALID_RECORD, other, strlen(other), "must be");
}

Test(record, padding_around_the_json_is_skipped)
{
	static const char padded[] = "\xef\xbb\xbf" HTTPD " \r\n\t\0 \0";
	struct record *record = NULL;
	cr_assert_eq(record_decode(&record, padded, sizeof(padded), NULL), 0);
	expect_written(record, HTTPD);
	record_free(record);
	static const char trailing[] = HTTPD "\0x";
	expect_refusal(BERTH_INVALID_RECORD, trailing, sizeof(trailing) - 1, "");
}

Test(record, trimmed_data_is_json_alone)
{
	char padded[] = "\xef\xbb\xbf\xef\xbb\xbf" HTTPD "\n\0 ";
	size_t len = sizeof(padded) - 1;
	record_trim(padded, &len);
	cr_assert_str_eq(padded, HTTPD);
	cr_assert_eq(len, strlen(HTTPD));
	char as_stored[] = HTTPD " \n";
	len = strlen(as_stored);
	record_trim(as_stored, &len);
	cr_assert_eq(len, strlen(HTTPD " \n"), "blanks are a part of the JSON");
	char foreign[] = "bytes\0\0";
	len = sizeof(foreign);
	record_trim(foreign, &len);
	cr_assert_eq(len, sizeof(foreign));
	char nothing[] = "";
	len = 0;
	record_trim(nothing, &len);
	cr_assert_eq(len, 0);
}

Test(record, component_with_a_number_a_null_and_nested_addresses)
{
	struct record *record = read_record(
		"{\"registrationTime\":1408638082445,\"type\":\"JSONServiceRecord\","
		"\"description\":null,\"yarn:persistence\":\"container\","
		"\"external\":[{\"api\":\"http://example.org/api\","
		"\"addressType\":\"uri\",\"protocol\":\"REST\","
		"\"addresses\":[[\"http://h:1\"],[\"http://h:2\"]]}],\"internal\":[]}");
	cr_assert_eq(
		json_integer_value(record_attribute(record, "registrationTime")), 1408638082445);
	struct record_endpoint endpoint = record_endpoint(record, 0);
	cr_assert_eq(json_array_size(endpoint.addresses), 2);
	char *address;
	cr_assert_eq(record_address_text(endpoint.address_type,
			     json_array_get(endpoint.addresses, 1), &address),
		0);
	cr_assert_str_eq(address, "http://h:2");
	free(address);
	record_free(record);
}

Test(record, hadoops_zookeeper_type_is_ours)
{
	struct record *record = read_record(HEAD
		"\"internal\":[{\"api\":\"a\",\"addressType\":\"zktriple\",\"protocolType\":\"zk\","
		"\"addresses\":[{\"hostname\":\"h\",\"port\":\"2181\",\"path\":\"/x\"}]}]}");
	cr_assert_str_eq(record_endpoint(record, 0).address_type, "zookeeper");
	struct err err = ERR_INIT;
	cr_assert_eq(record_check(record, &err), 0, "%s", err.msg);
	record_free(record);
}

struct shape {
	char text[200];
	char complaint[80];
};

ParameterizedTestParameters(record, wrong_shapes)
{
	static struct shape shapes[] = {
		{ HEAD "\"yarn:id\":{}}", "yarn:id of the service record is an object" },
		{ HEAD "\"external\":{}}", "external of the service record is an object" },
		{ HEAD "\"internal\":\"x\"}", "internal of the service record is a string" },
		{ HEAD "\"external\":[{}]}", "external endpoint 1 has no api" },
		{ HEAD "\"external\":[{\"api\":null}]}", "external endpoint 1 has no api" },
		{ HEAD "\"external\":[{\"api\":[]}]}", "api of external endpoint 1 is an array" },
		{ HEAD "\"internal\":[{\"api\":\"a\"}]}",
			"internal endpoint 1 has no addressType" },
		{ HEAD "\"description\":[1]}", "description of the service record is an array" },
		{ HEAD "\"internal\":[{\"api\":\"a\",\"addressType\":\"uri\",\"protocol\":[]}]}",
			"protocol of internal endpoint 1 is an array" },
		{ HEAD "\"internal\":[" ENDPOINT_HEAD "{}}]}",
			"addresses of internal endpoint 1 is an object; it must be an array" },
		{ HEAD "\"internal\":[" ENDPOINT_HEAD "[{\"port\":[80]}]}]}",
			"port of address 1 of internal endpoint 1 is an array" },
		{ HEAD "\"internal\":[" ENDPOINT_HEAD "[]}," ENDPOINT_HEAD "[{},7]}]}",
			"address 2 of internal endpoint 2 is a number" },
		{ HEAD "\"internal\":[" ENDPOINT_HEAD "[[\"a\",\"b\"]]}]}",
			"address 1 of internal endpoint 1 is an array" },
	};
	return cr_make_param_array(struct shape, shapes, sizeof(shapes) / sizeof(shapes[0]));
}

ParameterizedTest(struct shape *shape, record, wrong_shapes)
{
	expect_refusal(BERTH_INVALID_RECORD, shape->text, strlen(shape->text), shape->complaint);
}

/* ---- hostile input ---- */

struct hostile {
	char data[80];
	size_t len; /* 0: up to the NUL */
};

ParameterizedTestParameters(record, hostile_bytes)
{
	static struct hostile inputs[] = {
		{ "JSONServiceRecord", 0 },
		{ "{\"type\":\"JSONServiceRecord\"", 0 },
		{ "{\"type\":\"JSONServiceRecord\"} x", 0 },
		{ HEAD "\"a\":\"x\0y\"}", 37 },
		{ HEAD "\"a\":\"\\u0000\"}", 0 },
		{ HEAD "\"\\u0000\":1}", 0 },
		{ HEAD "\"a\":\"\xff\"}", 0 },
		{ HEAD "\"a\":\"\xc0\xaf\"}", 0 },
		{ HEAD "\"a\":\"\xed\xa0\x80\"}", 0 },
		{ HEAD "\"a\":\"\\ud800\"}", 0 },
		{ HEAD "\"a\":\"line\nbreak\"}", 0 },
		{ HEAD "\"a\":NaN}", 0 },
		{ HEAD "\"a\":01}", 0 },
	};
	return cr_make_param_array(struct hostile, inputs, sizeof(inputs) / sizeof(inputs[0]));
}

ParameterizedTest(struct hostile *input, record, hostile_bytes)
{
	expect_refusal(BERTH_INVALID_RECORD, input->data,
		input->len ? input->len : strlen(input->data), "");
}

/* A record whose attribute a is nested so that the whole has `depth` levels. */
static char *nested(size_t depth, char open, char close)
{
	struct buffer buffer;
	buffer_init(&buffer, 1 << 20);
	buffer_append_text(&buffer, HEAD "\"a\":");
	for (size_t i = 1; i < depth; i++) {
		buffer_append(&buffer, &open, 1);
		if (open == '{' && i + 1 < depth) {
			buffer_append_text(&buffer, "\"a\":");
		}
	}
	for (size_t i = 1; i < depth; i++) {
		buffer_append(&buffer, &close, 1);
	}
	buffer_append_text(&buffer, "}");
	return buffer_take(&buffer, NULL);
}

Test(record, nesting_up_to_the_limit_is_read)
{
	for (int objects = 0; objects <= 1; objects++) {
		char open = objects ? '{' : '[';
		char close = objects ? '}' : ']';
		char *text = nested(LIMIT_JSON_DEPTH, open, close);
		record_free(read_record(text));
		free(text);
		text = nested(LIMIT_JSON_DEPTH + 1, open, close);
		expect_refusal(
			BERTH_INVALID_RECORD, text, strlen(text), "deeper than the 32 levels");
		free(text);
		text = nested(10000, open, close);
		expect_refusal(
			BERTH_INVALID_RECORD, text, strlen(text), "deeper than the 32 levels");
		free(text);
	}
}

Test(record, a_number_that_is_too_large_is_read_as_the_nearest)
{
	struct record *record = read_record(HEAD
		"\"a\":12345678901234567890,\"b\":[-1e400,1.5E+999,1],\"c\":\"1e400 \\\" 1e400\"}");
	const json_t *b = record_attribute(record, "b");
	cr_assert_eq(json_real_value(record_attribute(record, "a")), 12345678901234567890.0);
	cr_assert_eq(json_real_value(json_array_get(b, 0)), -1.7976931348623e308);
	cr_assert_eq(json_real_value(json_array_get(b, 1)), 1.7976931348623e308);
	cr_assert_eq(json_integer_value(json_array_get(b, 2)), 1);
	cr_assert_str_eq(json_string_value(record_attribute(record, "c")), "1e400 \" 1e400");
	record_free(record);
}

/* With 15 digits they are larger than any double. */
Test(record, the_largest_numbers_are_texts_of_all_their_digits)
{
	struct record *record = read_record(HEAD "\"description\":1.7976931348623157e308,"
						 "\"yarn:id\":-1.7976931348623157e308}");
	cr_expect_str_eq(record_description(record), "1.7976931348623157e308");
	cr_expect_str_eq(record_id(record), "-1.7976931348623157e308");
	record_free(record);
}

Test(record, too_large_numbers_hide_no_other_mistake)
{
	static const char *const texts[] = { HEAD "\"a\":1e400,}", HEAD "\"a\":1e400e}",
		HEAD "\"a\":1e400,\"b\":01}", HEAD "\"a\":1e400,\"b\":\"",
		HEAD "\"a\":1e400,\"b\":\"\\", HEAD "\"a\":1e400,\"b\":--1}" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		expect_refusal(BERTH_INVALID_RECORD, texts[i], strlen(texts[i]), "line 1");
	}
}

static void expect_strict_refusal(int code, const char *text, const char *complaint)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(
		record_decode_strictly(&record, text, strlen(text), &err), code, "%s", err.msg);
	cr_assert(strstr(err.msg, complaint), "%s", err.msg);
	cr_assert_null(record);
}

Test(record, a_record_to_write_names_the_limit_that_it_breaks)
{
	char *deep = nested(10000, '[', ']');
	char *large = malloc(LIMIT_RECORD_BYTES + 2);
	expect_strict_refusal(BERTH_LIMIT_EXCEEDED, deep, "deeper than the 32 levels");
	memset(large, ' ', LIMIT_RECORD_BYTES + 1);
	large[LIMIT_RECORD_BYTES + 1] = '\0';
	memcpy(large, HEAD "\"a\":1}", strlen(HEAD "\"a\":1}"));
	expect_strict_refusal(BERTH_LIMIT_EXCEEDED, large, "at most 131072");
	expect_strict_refusal(BERTH_INVALID_RECORD, "{}", "\"type\": \"JSONServiceRecord\"");
	expect_strict_refusal(BERTH_INVALID_RECORD, HEAD "\"a\":}", "line 1");
	expect_strict_refusal(BERTH_INVALID_RECORD, HEAD "\"a\":1e400}", "line 1");
	expect_strict_refusal(BERTH_INVALID_RECORD, HEAD "\"a\":1,\"a\":2}", "line 1");
	free(deep);
	free(large);
}

Test(record, brackets_in_strings_are_no_nesting)
{
	char text[200];
	snprintf(text, sizeof(text), HEAD "\"a\":\"\\\"%s\\\\\",\"b\":[]}",
		"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[");
	record_free(read_record(text));
}

Test(record, every_prefix_of_a_record_is_refused)
{
	for (size_t len = 0; len < strlen(HTTPD); len++) {
		struct record *record = NULL;
		struct err err = ERR_INIT;
		char *exact = malloc(len + 1); /* so that reading beyond the end is seen */
		memcpy(exact, HTTPD, len);
		cr_assert_neq(record_decode(&record, exact, len, &err), 0);
		free(exact);
	}
}

Test(record, too_large_to_read_is_invalid)
{
	struct buffer buffer;
	buffer_init(&buffer, 2 * LIMIT_RECORD_BYTES);
	buffer_append_text(&buffer, "{\"type\":\"JSONServiceRecord\"}");
	while (buffer.len < LIMIT_RECORD_BYTES) {
		buffer_append(&buffer, " ", 1);
	}
	record_free(read_record(buffer_text(&buffer)));
	buffer_append(&buffer, " ", 1);
	expect_refusal(BERTH_INVALID_RECORD, buffer.data, buffer.len, "131073 bytes");
	buffer_finish(&buffer);
}

/* ---- no memory ---- */

static unsigned allocations_left;

static void *scarce_malloc(size_t size)
{
	return allocations_left > 0 && allocations_left-- > 0 ? malloc(size) : NULL;
}

/* Reads, builds and writes a record; the first code that is not 0. */
static int use_records(struct err *err)
{
	static const char text[] = HEAD
		"\"description\":null,\"a\":[1],\"external\":[" ENDPOINT_HEAD
		"[[\"u\"],{\"uri\":\"v\"}]}]}";
	struct record *record = NULL;
	char *written = NULL;
	size_t len = 0;
	int code = record_decode(&record, text, strlen(text), err);
	if (!code) {
		code = record_add_endpoint_take(record, "internal", "a", "p", "uri", json_array());
	}
	if (!code) {
		code = record_set_text(record, "b", "c");
	}
	if (!code) {
		code = record_encode(record, &written, &len, err);
	}
	free(written);
	record_free(record);
	return code;
}

Test(record, running_out_of_memory_is_an_error_and_leaks_nothing)
{
	json_set_alloc_funcs(scarce_malloc, free);
	int code = BERTH_FAILED;
	unsigned failures = 0;
	for (unsigned allowed = 0; code; allowed++) {
		struct err err = ERR_INIT;
		allocations_left = allowed;
		code = use_records(&err);
		/*
		 * The JSON parser does not always distinguish a lack of memory from a mistake in
		 * the text.
		 */
		cr_assert(code == 0 || code == BERTH_FAILED || code == BERTH_INVALID_RECORD,
			"%u: %d %s", allowed, code, err.msg);
		failures += code != 0;
	}
	json_set_alloc_funcs(malloc, free);
	cr_assert_gt(failures, 20, "only %u", failures);
}

Test(record, setters_refuse_what_no_record_can_hold)
{
	struct record *record = record_create();
	cr_assert_eq(record_set_text(record, "a", "\xff"), BERTH_FAILED);
	cr_assert_eq(record_set_text(record, "\xff", "a"), BERTH_FAILED);
	cr_assert_eq(record_set_text(record, "type", "x"), BERTH_FAILED);
	cr_assert_eq(record_set_attribute_take(record, "external", json_array()), BERTH_FAILED);
	cr_assert_eq(record_set_attribute_take(record, "internal", json_array()), BERTH_FAILED);
	cr_assert_eq(record_add_endpoint_take(record, "other", "a", "p", "uri", json_array()),
		BERTH_FAILED);
	cr_assert_eq(record_add_endpoint_take(record, "external", "\xff", "p", "uri", json_array()),
		BERTH_FAILED);
	cr_assert_eq(
		record_add_endpoint_take(record, "external", "a", "p", "uri", NULL), BERTH_FAILED);
	expect_written(record, HEAD "\"external\":[],\"internal\":[]}");
	record_free(record);
	record_free(NULL);
}

Test(record, persistence_values_are_those_of_the_contract)
{
	cr_assert(record_persistence_valid("permanent"));
	cr_assert(record_persistence_valid("application"));
	cr_assert(record_persistence_valid("application-attempt"));
	cr_assert(record_persistence_valid("container"));
	cr_assert_not(record_persistence_valid(""));
	cr_assert_not(record_persistence_valid("Container"));
}

/* ---- looking at a record ---- */

Test(record, external_endpoints_come_first)
{
	struct record *record = record_create();
	cr_assert_eq(
		record_add_endpoint_take(record, "internal", "i", "p", "uri", json_array()), 0);
	cr_assert_eq(
		record_add_endpoint_take(record, "external", "e1", "p", "uri", json_array()), 0);
	cr_assert_eq(
		record_add_endpoint_take(record, "external", "e2", "p", "uri", json_array()), 0);
	cr_assert_eq(record_endpoint_count(record), 3);
	cr_assert_str_eq(record_endpoint(record, 0).api, "e1");
	cr_assert_str_eq(record_endpoint(record, 1).scope, "external");
	cr_assert_str_eq(record_endpoint(record, 2).api, "i");
	cr_assert_str_eq(record_endpoint(record, 2).scope, "internal");
	record_free(record);
}

Test(record, accessors_know_the_fields)
{
	struct record *record = read_record(HTTPD);
	cr_assert_str_eq(record_description(record), "httpd-1");
	cr_assert_str_eq(record_id(record), "container_e50_1451931954322_0016_01_000002");
	cr_assert_str_eq(record_persistence(record), "container");
	cr_assert_str_eq(json_string_value(record_attribute(record, "yarn:ip")), "172.17.0.19");
	cr_assert_null(record_attribute(record, "absent"));
	cr_assert_str_eq(
		json_string_value(json_object_get(record_json(record), "type")), RECORD_TYPE);
	record_free(record);
}

Test(record, equality_ignores_order_and_spelling)
{
	struct record *a = read_record(
		HEAD "\"a\":1,\"b\":2,\"external\":[" ENDPOINT_HEAD "[[\"u\"]]}]}");
	struct record *b = read_record(
		"{\"b\":2,\"internal\":[],\"external\":[{\"addressType\":\"uri\","
		"\"protocolType\":\"REST\",\"addresses\":[{\"uri\":\"u\"}],\"api\":\"a\"}],\"a\":1,"
		"\"description\":null,\"type\":\"JSONServiceRecord\"}");
	cr_assert(record_equal(a, b));
	cr_assert_eq(record_set_text(b, "a", "1"), 0);
	cr_assert_not(record_equal(a, b), "a number is no string");
	record_free(a);
	record_free(b);
}

Test(record, the_bytes_alone_decide_the_kind)
{
	cr_assert_eq(record_kind("", 0), RECORD_KIND_EMPTY);
	cr_assert_eq(record_kind("host-a:1234", 11), RECORD_KIND_FOREIGN);
	cr_assert_eq(record_kind(" ", 1), RECORD_KIND_FOREIGN);
	cr_assert_eq(record_kind("{\"type\":\"host\"}", 15), RECORD_KIND_FOREIGN);
	cr_assert_eq(record_kind(HTTPD, strlen(HTTPD)), RECORD_KIND_RECORD);
	cr_assert_eq(record_kind("not JSON: JSONServiceRecord", 27), RECORD_KIND_RECORD);
}

Test(record, a_copy_shares_nothing)
{
	struct record *record = read_record(HTTPD);
	struct record *copy = record_copy(record);
	cr_assert(record_equal(record, copy));
	cr_assert_eq(record_set_text(copy, "yarn:id", "another"), 0);
	cr_assert_eq(record_add_endpoint_take(copy, "external", "e", "p", "uri", json_array()), 0);
	expect_written(record, HTTPD);
	record_free(record);
	cr_assert_str_eq(record_id(copy), "another");
	record_free(copy);
}

Test(record, parsed_json_is_read_like_text)
{
	struct record *record = NULL;
	json_t *json = json_pack("{s:s, s:[{s:s, s:s, s:s, s:[[s]]}]}", "type", RECORD_TYPE,
		"external", "api", "a", "addressType", "uri", "protocolType", "REST", "addresses",
		"http://h:1");
	json_t *before = json_deep_copy(json);
	cr_assert_eq(record_from_json(&record, json, NULL), 0);
	cr_assert(json_equal(json, before), "the caller's JSON was changed");
	cr_assert_str_eq(record_endpoint(record, 0).protocol, "REST");
	record_free(record);
	json_decref(before);
	json_object_del(json, "type");
	struct err err = ERR_INIT;
	cr_assert_eq(record_from_json(&record, json, &err), BERTH_INVALID_RECORD);
	cr_assert_str_eq(err.msg, "service record has no type; it must be \"JSONServiceRecord\"");
	json_decref(json);
}

Test(record, an_endpoint_matches_what_is_given_of_it)
{
	static const struct record_endpoint endpoint = {
		.scope = "external", .api = "http://api", .protocol = "REST"
	};
	cr_assert(record_endpoint_matches(&endpoint, NULL, NULL, NULL));
	cr_assert(record_endpoint_matches(&endpoint, "http://api", "rest", "external"));
	cr_assert_not(record_endpoint_matches(&endpoint, "http://API", NULL, NULL));
	cr_assert_not(record_endpoint_matches(&endpoint, NULL, "RES", NULL));
	cr_assert_not(record_endpoint_matches(&endpoint, NULL, NULL, "internal"));
	cr_assert_not(record_endpoint_matches(&endpoint, "http://api", "rest", "internal"));
}

/* ---- without memory ---- */

/* Every spelling that a reader changes. */
static const char odd[] =
	"{\"type\":\"JSONServiceRecord\",\"description\":7,\"yarn:id\":\"c\",\"none\":null,"
	"\"external\":[null,{\"api\":true,\"addressType\":\"zktriple\",\"protocolType\":\"zk\","
	"\"addresses\":[[\"h\",1,\"/a\"]]},{\"api\":0.5,\"addressType\":\"host/port\","
	"\"protocol\":\"\",\"protocolType\":\"p\","
	"\"addresses\":[{\"hostname\":\"h\",\"port\":80,\"x\":null}]}],\"more\":{\"a\":[1,2]}}";

static int copy_and_change(struct record *record)
{
	struct record *copy = record_copy(record);
	if (!copy) {
		return BERTH_FAILED;
	}
	int code = record_set_text(copy, "description", "changed");
	if (code == 0) {
		code = record_add_endpoint_take(copy, "internal", "i", "http", "uri",
			json_pack("[{s:s}]", "uri", "http://h/"));
	}
	bool right = strcmp(record_description(record), "7") == 0 &&
		strcmp(record_description(copy), "changed") == 0 &&
		record_endpoint_count(copy) == record_endpoint_count(record) + 1;
	record_free(copy);
	return code ? code : right ? 0 : FAILING_WRONG;
}

static int read_and_write(void *context)
{
	const char *expected = context;
	struct record *record = NULL;
	char *text = NULL;
	size_t len = 0;
	int code = record_decode(&record, odd, strlen(odd), NULL);
	if (code) {
		return code;
	}
	code = copy_and_change(record);
	if (code == 0) {
		code = record_encode(record, &text, &len, NULL);
	}
	bool right = text && (!expected || strcmp(text, expected) == 0);
	record_free(record);
	free(text);
	return code ? code : right ? 0 : FAILING_WRONG;
}

Test(record, without_memory_nothing_is_read_or_written_in_part)
{
	struct record *record = read_record(odd);
	char *expected = NULL;
	size_t len = 0;
	struct err err = ERR_INIT;
	cr_assert_eq(record_encode(record, &expected, &len, &err), 0, "%s", err.msg);
	failing_check_memory("record", read_and_write, expected);
	free(expected);
	record_free(record);
}

static int make_anew(void *context)
{
	(void)context;
	struct record *record = record_create();
	if (!record) {
		return BERTH_FAILED;
	}
	int code = record_set_text(record, "yarn:id", "c");
	bool right = strcmp(record_id(record), "c") == 0;
	record_free(record);
	return code ? code : right ? 0 : FAILING_WRONG;
}

Test(record, without_memory_none_is_made)
{
	failing_check_memory("record", make_anew, NULL);
}
