/* The picture that a render command reads. */
#include "agent/output/picture.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(output_picture);

#define RECORD(description, addresses)                                                             \
	"{\"type\":\"JSONServiceRecord\",\"description\":\"" description                           \
	"\",\"external\":[{\"api\":\"urn:x\",\"addressType\":\"host/port\",\"protocol\":\"p\","    \
	"\"addresses\":[" addresses "]}],\"internal\":[]}"

static char text[8192];
static struct render_result result;

/* One record in a buffer of this size; the code. */
static int write_record(const char *record_text, size_t size, const char *api, struct err *err)
{
	struct record *record;
	struct buffer out;
	cr_assert_eq(record_decode(&record, record_text, strlen(record_text), NULL), 0);
	struct render_member member = { .path = "/a/c1", .record = record };
	const struct render_picture picture = { "/a", &member, 1 };
	buffer_init(&out, size);
	int code = output_picture_write(
		&picture, "web", &(struct render_filter){ .api = api }, false, &out, &result, err);
	strcpy(text, buffer_text(&out));
	buffer_finish(&out);
	record_free(record);
	return code;
}

static json_t *read_back(const char *record_text, const char *api)
{
	struct err err = ERR_INIT;
	cr_assert_eq(write_record(record_text, sizeof(text) - 1, api, &err), 0, "%s", err.msg);
	cr_assert_eq(text[strlen(text) - 1], '\n');
	json_t *json = json_loads(text, 0, NULL);
	cr_assert_not_null(json, "%s", text);
	return json;
}

static const char *string_at(const json_t *json, size_t index, const char *key)
{
	return json_string_value(
		json_object_get(json_array_get(json_object_get(json, "endpoints"), index), key));
}

Test(output_picture, endpoints_have_host_and_port_where_they_can_be_used)
{
	json_t *json = read_back(RECORD("d",
					 "{\"host\":\"0:0::1\",\"port\":\"80\"},{\"host\":\"a\"},"
					 "{\"host\":\"a..b\",\"port\":\"81\"}"),
		NULL);
	const json_t *endpoints = json_object_get(json, "endpoints");
	cr_assert_str_eq(json_string_value(json_object_get(json, "name")), "web");
	cr_assert_str_eq(json_string_value(json_object_get(json, "from")), "/a");
	cr_assert_eq(json_array_size(endpoints), 3);
	cr_assert_str_eq(string_at(json, 0, "host"), "::1");
	cr_assert_eq(json_integer_value(json_object_get(json_array_get(endpoints, 0), "port")), 80);
	cr_assert_str_eq(string_at(json, 0, "path"), "/a/c1");
	cr_assert_str_eq(string_at(json, 0, "scope"), "external");
	cr_assert_str_eq(string_at(json, 0, "api"), "urn:x");
	cr_assert_str_eq(string_at(json, 0, "protocol"), "p");
	cr_assert_str_eq(string_at(json, 0, "addressType"), "host/port");
	cr_assert_str_eq(json_string_value(json_object_get(
				 json_object_get(json_array_get(endpoints, 0), "address"), "host")),
		"0:0::1");
	cr_assert_str_eq(string_at(json, 1, "host"), "a");
	cr_assert_null(json_object_get(json_array_get(endpoints, 1), "port"));
	cr_assert_null(string_at(json, 2, "host"));
	cr_assert_null(json_object_get(json_array_get(endpoints, 2), "port"));
	cr_assert_eq(result.left_out, 0);
	json_decref(json);
}

Test(output_picture, control_characters_are_nowhere)
{
	json_t *json = read_back(
		RECORD("a\\nb",
			"{\"host\":\"a\\nb\",\"port\":\"1\"},{\"host\":\"b\",\"port\":\"2\"}"),
		NULL);
	cr_assert_eq(json_array_size(json_object_get(json, "endpoints")), 1);
	cr_assert_str_eq(string_at(json, 0, "host"), "b");
	cr_assert_eq(result.left_out, 1);
	cr_assert_not_null(strstr(result.why, "holds control characters"));
	const json_t *record = json_object_get(json_object_get(json, "records"), "/a/c1");
	cr_assert_str_eq(json_string_value(json_object_get(record, "description")), "a\ufffdb");
	cr_assert_null(strstr(text, "\\n"));
	json_decref(json);
}

Test(output_picture, the_filter_chooses_endpoints_and_no_records)
{
	json_t *json = read_back(RECORD("d", "{\"host\":\"a\",\"port\":\"1\"}"), "urn:other");
	cr_assert_eq(json_array_size(json_object_get(json, "endpoints")), 0);
	cr_assert_eq(json_object_size(json_object_get(json, "records")), 1);
	json_decref(json);
}

Test(output_picture, a_picture_beyond_the_limit_is_an_error)
{
	struct err err = ERR_INIT;
	cr_assert_eq(write_record(RECORD("d", "{\"host\":\"a\",\"port\":\"1\"}"), 100, NULL, &err),
		BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(err.msg, "more than 100 bytes"));
}
