/* Records that are read: what Hadoop and others have written, and hostile bytes. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/limits.h"
#include "tests/unit/lib/record/record_text.h"

TestSuite(record);

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
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
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
	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
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
		HEAD "\"description\":null,\"external\":null,\"internal\":null}");
	cr_assert_str_eq(record_description(record), "");
	cr_assert_str_eq(record_id(record), "");
	cr_assert_str_eq(record_persistence(record), "");
	cr_assert_eq(record_endpoint_count(record), 0);
	expect_written(record, HEAD "\"external\":[],\"internal\":[]}");
	record_free(record);
}

Test(record, null_attributes_are_refused_and_not_written)
{
	static const char *const nulls[] = { HEAD "\"a\":null}", HEAD "\"yarn:id\":null}",
		HEAD "\"yarn:persistence\":null,\"external\":[]}" };
	for (size_t i = 0; i < ARRAY_LEN(nulls); i++) {
		expect_refusal(BERTH_INVALID_RECORD, nulls[i], strlen(nulls[i]), "is null");
	}
	expect_rewritten(HEAD "\"b\":{\"c\":null},\"external\":[],\"internal\":[]}",
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
	struct record *record = read_record(
		HEAD "\"external\":[null," ENDPOINT_HEAD "[]},null],\"internal\":[]}");
	cr_assert_eq(record_endpoint_count(record), 1);
	record_free(record);
}

Test(record, an_endpoint_without_addresses_is_refused)
{
	static const char *const texts[] = { HEAD "\"external\":[" ENDPOINT_HEAD "null}]}",
		HEAD "\"internal\":[{\"api\":\"a\",\"addressType\":\"uri\",\"protocol\":\"p\"}]}" };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		expect_refusal(
			BERTH_INVALID_RECORD, texts[i], strlen(texts[i]), "has no addresses");
	}
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

/* Hadoop's constant is kept where a writer chose it, and read as the word of its documents. */
Test(record, a_writer_may_call_zookeeper_zktriple)
{
	static const char text[] = HEAD
		"\"external\":[{\"api\":\"a\",\"addressType\":\"zktriple\","
		"\"protocol\":\"p\",\"protocolType\":\"p\",\"addresses\":["
		"{\"hostname\":\"h\",\"port\":\"1\",\"path\":\"/x\"}]}],\"internal\":[]}";
	struct err err = ERR_INIT;
	struct record *record = NULL;
	cr_assert_eq(record_decode_strictly(&record, text, strlen(text), &err), 0, "%s", err.msg);
	cr_expect_str_eq(record_endpoint(record, 0).address_type, "zktriple");
	expect_written(record, text);
	record_free(record);
	record = read_record(text);
	cr_expect_str_eq(record_endpoint(record, 0).address_type, "zookeeper");
	struct record *copy = NULL;
	cr_assert_eq(record_from_json(&copy, record_json(record), &err), 0);
	cr_expect_str_eq(record_endpoint(copy, 0).address_type, "zookeeper");
	record_free(copy);
	record_free(record);
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

Test(record, text_behind_the_object_is_ignored)
{
	static const char *const behind[] = { "", " \r\n\t", "x", " }", ",{\"type\":\"x\"}", "]",
		"\"" };
	char text[512];
	for (size_t i = 0; i < ARRAY_LEN(behind); i++) {
		snprintf(text, sizeof(text), "%s%s", HTTPD, behind[i]);
		expect_rewritten(text, HTTPD);
	}
	static const char padded[] = HTTPD " \r\n\t\0 \0x";
	struct record *record = NULL;
	cr_assert_eq(record_decode(&record, padded, sizeof(padded), NULL), 0);
	expect_written(record, HTTPD);
	record_free(record);
	expect_rewritten(HEAD "\"a\":\"}\\\"}\\\\\",\"b\":[{}]}}",
		HEAD "\"external\":[],\"internal\":[],\"a\":\"}\\\"}\\\\\",\"b\":[{}]}");
}

Test(record, a_byte_order_mark_is_refused)
{
	expect_refusal(BERTH_INVALID_RECORD, "\xef\xbb\xbf" HTTPD, strlen(HTTPD) + 3, "");
	expect_refusal(BERTH_INVALID_RECORD, "x" HTTPD, strlen(HTTPD) + 1, "");
}

Test(record, a_mistake_before_the_object_is_kept_and_refused)
{
	static const char *const before[] = { "}", "x}", " ]", "\"}\"" };
	for (size_t i = 0; i < ARRAY_LEN(before); i++) {
		char text[512];
		size_t len = (size_t)snprintf(text, sizeof(text), "%s%s", before[i], HTTPD);
		size_t trimmed = len;
		record_trim(text, &trimmed);
		cr_assert_eq(trimmed, len, "%s", before[i]);
		expect_refusal(BERTH_INVALID_RECORD, text, len, "");
	}
}

Test(record, escapes_that_no_text_can_hold_are_replaced)
{
	static const char *const texts[][2] = {
		{ "\\u0000", "\xef\xbf\xbd" },
		{ "a\\u0000\\ud800b",
			"a\xef\xbf\xbd\xef\xbf\xbd"
			"b" },
		{ "\\udc00\\ud800", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\\ud83d\\ude00", "\xf0\x9f\x98\x80" },
		{ "\\uD800\\uD83D\\uDE00", "\xef\xbf\xbd\xf0\x9f\x98\x80" },
		{ "\\\\u0000", "\\u0000" },
		{ "\\u0041\\n", "A\n" },
	};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char text[256];
		snprintf(text, sizeof(text), HEAD "\"yarn:id\":\"%s\",\"%s\":1}", texts[i][0],
			texts[i][0]);
		struct record *record = read_record(text);
		cr_expect_str_eq(record_id(record), texts[i][1], "%s", text);
		cr_expect_not_null(record_attribute(record, texts[i][1]), "%s", text);
		record_free(record);
		size_t len = strlen(text);
		record_trim(text, &len);
		json_t *json = json_loads(text, 0, NULL);
		cr_expect_str_eq(json_string_value(json_object_get(json, "yarn:id")), texts[i][1]);
		json_decref(json);
	}
	static const char cut[] = HEAD "\"a\":\"\\u00";
	expect_refusal(BERTH_INVALID_RECORD, cut, strlen(cut), "");
}

Test(record, trimmed_data_is_json_alone)
{
	char padded[] = HTTPD "\n\0 ";
	size_t len = sizeof(padded) - 1;
	record_trim(padded, &len);
	cr_assert_str_eq(padded, HTTPD);
	cr_assert_eq(len, strlen(HTTPD));
	char followed[] = HTTPD ",\"x\":{";
	len = sizeof(followed) - 1;
	record_trim(followed, &len);
	cr_assert_str_eq(followed, HTTPD);
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
		{ HEAD "\"external\":[7]}",
			"external endpoint 1 is a number; it must be an object" },
		{ HEAD "\"internal\":[{\"addressType\":\"uri\",\"addresses\":[]}]}",
			"internal endpoint 1 has no api" },
		{ HEAD "\"internal\":[{\"api\":\"a\",\"addressType\":\"uri\","
		       "\"protocolType\":{}}]}",
			"protocolType of internal endpoint 1 is an object" },
		{ "[\"JSONServiceRecord\"]", "service record is an array; it must be an object" },
		{ HEAD "\"a\":x}", "invalid token" },
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
	return cr_make_param_array(struct shape, shapes, ARRAY_LEN(shapes));
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
		{ HEAD "\"a\":\"x\0y\"}", 37 },
		{ HEAD "\"a\":\"\xff\"}", 0 },
		{ HEAD "\"a\":\"\xc0\xaf\"}", 0 },
		{ HEAD "\"a\":\"\xed\xa0\x80\"}", 0 },
		{ HEAD "\"a\":\"line\nbreak\"}", 0 },
		{ HEAD "\"a\":NaN}", 0 },
		{ HEAD "\"a\":01}", 0 },
	};
	return cr_make_param_array(struct hostile, inputs, ARRAY_LEN(inputs));
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

Test(record, a_number_is_the_shortest_text_that_reads_back_as_it)
{
	struct record *record = read_record(
		HEAD "\"description\":8.2,\"yarn:id\":1234567.890123456,"
		     "\"yarn:persistence\":0.30000000000000004}");
	cr_expect_str_eq(record_description(record), "8.2");
	cr_expect_str_eq(record_id(record), "1234567.890123456");
	cr_expect_str_eq(record_persistence(record), "0.30000000000000004");
	record_free(record);
}

/* The protocol of an endpoint has two names; null is not a protocol. */
Test(record, a_protocol_is_a_text_under_both_names)
{
	expect_rewritten(HEAD "\"internal\":[{\"api\":\"a\",\"addressType\":\"uri\","
			      "\"protocolType\":7,\"addresses\":[]}]}",
		HEAD "\"external\":[],\"internal\":[{\"api\":\"a\",\"addressType\":\"uri\","
		     "\"protocol\":\"7\",\"protocolType\":\"7\",\"addresses\":[]}]}");
	struct record *record = read_record(
		HEAD "\"internal\":[{\"api\":\"a\",\"addressType\":\"uri\","
		     "\"protocol\":null,\"addresses\":[]}]}");
	const json_t *endpoint = json_array_get(record_attribute(record, "internal"), 0);
	cr_expect_null(json_object_get(endpoint, "protocol"));
	record_free(record);
}

Test(record, too_large_numbers_hide_no_other_mistake)
{
	static const char *const texts[] = { HEAD "\"a\":1e400,}", HEAD "\"a\":1e400e}",
		HEAD "\"a\":1e400,\"b\":01}", HEAD "\"a\":1e400,\"b\":\"",
		HEAD "\"a\":1e400,\"b\":\"\\", HEAD "\"a\":1e400,\"b\":--1}" };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
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

/* The bytes need no NUL behind them. */
Test(record, no_byte_behind_the_record_is_read)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	char *exact = malloc(strlen(HTTPD));
	char *blank = malloc(2);
	size_t len = 2;
	memcpy(exact, HTTPD, strlen(HTTPD));
	cr_assert_eq(record_decode(&record, exact, strlen(HTTPD), &err), 0, "%s", err.msg);
	record_free(record);
	memset(blank, 0, len);
	record_trim(blank, &len);
	cr_assert_eq(len, 2);
	free(blank);
	free(exact);
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
