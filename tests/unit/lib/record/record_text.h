/* Records as text, and functions that expect something of them. */
#ifndef TESTS_UNIT_LIB_RECORD_RECORD_TEXT_H
#define TESTS_UNIT_LIB_RECORD_RECORD_TEXT_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record/record.h"

#define HEAD "{\"type\":\"JSONServiceRecord\","
#define ENDPOINT_HEAD "{\"api\":\"a\",\"addressType\":\"uri\",\"protocol\":\"REST\",\"addresses\":"

/* As a Hadoop cluster wrote it. */
#define HTTPD                                                                                      \
	"{\"type\":\"JSONServiceRecord\",\"description\":\"httpd-1\",\"external\":[],"             \
	"\"internal\":[],\"yarn:id\":\"container_e50_1451931954322_0016_01_000002\","              \
	"\"yarn:persistence\":\"container\",\"yarn:ip\":\"172.17.0.19\","                          \
	"\"yarn:hostname\":\"host1\",\"yarn:component\":\"httpd\"}"

static inline struct record *read_record(const char *text)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(record_decode(&record, text, strlen(text), &err), 0, "%s: %s", text, err.msg);
	return record;
}

static inline void expect_refusal(int code, const char *data, size_t len, const char *complaint)
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

static inline void expect_written(const struct record *record, const char *expected)
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
static inline void expect_unwritable(struct record *record, int code, const char *complaint)
{
	char *text = NULL;
	size_t len = 0;
	struct err err = ERR_INIT;
	cr_assert_eq(record_encode(record, &text, &len, &err), code, "%s", err.msg);
	cr_assert_null(text);
	cr_assert_not_null(strstr(err.msg, complaint), "%s", err.msg);
	record_free(record);
}

static inline void expect_rewritten(const char *text, const char *expected)
{
	struct record *record = read_record(text);
	expect_written(record, expected);
	record_free(record);
}

#endif
