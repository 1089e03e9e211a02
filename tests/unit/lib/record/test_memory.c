/* Records when memory is short: whole, or an error. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
