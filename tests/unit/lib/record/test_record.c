/* Records that are built, written and looked at. test_check.c tests the rules for writing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/lib/record/record_text.h"

TestSuite(record);

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
	/* An attribute is not a scope, though it is an array. */
	cr_assert_eq(record_set_attribute_take(record, "other", json_array()), 0);
	cr_assert_eq(record_add_endpoint_take(record, "other", "a", "p", "uri", json_array()),
		BERTH_FAILED);
	expect_written(record, HEAD "\"external\":[],\"internal\":[],\"other\":[]}");
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
	cr_assert_not(record_equal(a, b), "a number is not a string");
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
