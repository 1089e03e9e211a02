/* Records when memory is short: whole, or an error. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "tests/support/failing.h"
#include "tests/unit/lib/record/record_text.h"

TestSuite(record);

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

Test(record, without_any_memory_the_error_says_so)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	json_set_alloc_funcs(scarce_malloc, free);
	allocations_left = 0;
	cr_expect_eq(record_decode(&record, HTTPD, strlen(HTTPD), &err), BERTH_FAILED);
	json_set_alloc_funcs(malloc, free);
	cr_expect_str_eq(err.msg, "no memory for a service record");
}

/* Every spelling that a reader changes. */
static const char odd[] =
	"{\"type\":\"JSONServiceRecord\",\"description\":7,\"yarn:id\":\"c\",\"nul\":\"\\u0000\","
	"\"external\":[null,{\"api\":true,\"addressType\":\"zktriple\",\"protocolType\":\"zk\","
	"\"addresses\":[[\"h\",1,\"/a\"]]},{\"api\":0.5,\"addressType\":\"host/port\","
	"\"protocol\":\"\",\"protocolType\":\"p\","
	"\"addresses\":[{\"hostname\":\"h\",\"port\":80,\"x\":null}]}],\"more\":{\"a\":[1,2]},"
	"\"twice\":1,\"twice\":2}";

static int change(struct record *record)
{
	size_t count = record_endpoint_count(record);
	int code = record_set_text(record, "description", "changed");
	if (code == 0) {
		code = record_add_endpoint_take(record, "internal", "i", "http", "uri",
			json_pack("[{s:s}]", "uri", "http://h/"));
	}
	bool right = code ||
		(strcmp(record_description(record), "changed") == 0 &&
			record_endpoint_count(record) == count + 1);
	return right ? code : FAILING_WRONG;
}

static int read_and_write(void *context)
{
	const char *expected = context;
	struct record *record = NULL;
	char *text = NULL;
	size_t len = 0;
	int code = record_decode(&record, odd, strlen(odd), NULL);
	if (code) { /* nobody may take the record for a bad one */
		return code == BERTH_FAILED ? code : FAILING_WRONG;
	}
	code = record_encode(record, &text, &len, NULL);
	if (code == 0) {
		code = change(record);
	}
	bool right = code == BERTH_FAILED || (text && (!expected || strcmp(text, expected) == 0));
	record_free(record);
	free(text);
	return right ? code : FAILING_WRONG;
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
	if (!record_json(record)) {
		record_free(record);
		return FAILING_WRONG;
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

/* Writes a record that is too large; 0 when it is refused for that. */
static int write_too_large(void *context)
{
	char *text = NULL;
	size_t len = 0;
	int code = record_encode(context, &text, &len, NULL);
	free(text);
	return code == BERTH_LIMIT_EXCEEDED ? 0 : code ? code : FAILING_WRONG;
}

Test(record, without_memory_its_size_is_known_or_it_is_not_written)
{
	char *large = malloc(LIMIT_RECORD_BYTES + 1);
	memset(large, 'x', LIMIT_RECORD_BYTES);
	large[LIMIT_RECORD_BYTES] = '\0';
	struct record *record = record_create();
	cr_assert_eq(record_set_text(record, "large", large), 0);
	failing_check_memory("size", write_too_large, record);
	record_free(record);
	free(large);
}

static int write_addresses(void *context)
{
	static const char *const texts[][2] = { { "uri", "http://h" }, { "host/port", "[::1]:80" },
		{ "zookeeper", "h:1/p" } };
	json_t *const *addresses = context;
	bool right = true;
	int code = 0;
	for (size_t i = 0; i < 3 && code == 0; i++) {
		char *text = NULL;
		code = record_address_text(texts[i][0], addresses[i], &text);
		right = right && (code < 0 ? !text : text && strcmp(text, texts[i][1]) == 0);
		free(text);
	}
	return right ? code : FAILING_WRONG;
}

Test(record, without_memory_an_address_has_no_text_but_an_error)
{
	json_t *addresses[] = { json_pack("{s:s}", "uri", "http://h"),
		json_pack("{s:s, s:s}", "host", "::1", "port", "80"),
		json_pack("{s:s, s:s, s:s}", "hostname", "h", "port", "1", "path", "/p") };
	failing_check_memory("address", write_addresses, addresses);
	for (size_t i = 0; i < 3; i++) {
		json_decref(addresses[i]);
	}
}
