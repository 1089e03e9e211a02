/*
 * Every part of a record that was read can be looked at; a record that can be written is read back
 * as the same.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/record/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void look_at_address(const char *type, const json_t *address)
{
	char *text;
	if (record_address_text(type, address, &text)) {
		abort();
	}
	struct err err = ERR_INIT;
	json_t *again = text ? record_address_parse(type, text, &err) : NULL;
	json_t *unexplained = text ? record_address_parse(type, text, NULL) : NULL;
	assert(!again == !unexplained);
	json_decref(unexplained);
	json_decref(again);
	free(text);
}

static void look_at(const struct record *record)
{
	assert(strlen(record_description(record)) <= LIMIT_RECORD_BYTES);
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		assert(endpoint.api && endpoint.protocol && endpoint.address_type);
		for (size_t at = 0; at < json_array_size(endpoint.addresses); at++) {
			const json_t *address = json_array_get(endpoint.addresses, at);
			assert(json_is_object(address));
			look_at_address(endpoint.address_type, address);
		}
	}
}

static void check_round_trip(const struct record *record)
{
	char *text = NULL;
	size_t len = 0;
	struct err err = ERR_INIT;
	int code = record_encode(record, &text, &len, &err);
	if (code) {
		assert(record_encode(record, &text, &len, NULL) == code);
		assert(record_check(record, NULL) == code);
		assert(err.code == BERTH_INVALID_RECORD || err.code == BERTH_LIMIT_EXCEEDED);
		return;
	}
	assert(len <= LIMIT_RECORD_BYTES);
	struct record *again = NULL;
	assert(record_decode(&again, text, len, NULL) == 0);
	assert(record_equal(record, again));
	char *text_again = NULL;
	size_t len_again = 0;
	assert(record_encode(again, &text_again, &len_again, NULL) == 0);
	assert(len == len_again && memcmp(text, text_again, len) == 0);
	free(text_again);
	record_free(again);
	free(text);
}

/* As the payload of a configuration, which has to be right in all its parts. */
static void read_strictly(const char *data, size_t len)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	int code = record_decode_strictly(&record, data, len, &err);
	assert((code == 0) == (record != NULL) && (code == 0) == !err.msg[0]);
	if (record) {
		struct record *again = NULL;
		assert(record_decode(&again, data, len, NULL) == 0);
		record_free(again);
	}
	record_free(record);
}

/* As the address of an endpoint, in the one-line form of each type. */
static void read_address(const char *text)
{
	static const char *const types[] = { "uri", "host/port", "zookeeper", "x-mine", "x-",
		"none" };
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct err err = ERR_INIT;
		json_t *address = record_address_parse(types[i], text, &err);
		assert(!address == (err.msg[0] != '\0'));
		if (address) {
			look_at_address(types[i], address);
		}
		json_decref(address);
	}
}

/* The trimmed bytes are the same record, or the same rubbish. */
static void trim(const uint8_t *data, size_t len)
{
	char *copy = malloc(len + 1);
	assert(copy);
	memcpy(copy, data, len);
	copy[len] = '\0';
	read_address(copy);
	size_t trimmed = len;
	record_trim(copy, &trimmed);
	assert(trimmed <= len);
	struct record *one = NULL;
	struct record *other = NULL;
	int code = record_decode(&one, (const char *)data, len, NULL);
	assert(record_decode(&other, copy, trimmed, NULL) == code);
	assert(code || record_equal(one, other));
	record_free(one);
	record_free(other);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct record *record = NULL;
	trim(data, len);
	read_strictly((const char *)data, len);
	struct err err = ERR_INIT;
	int code = record_decode(&record, (const char *)data, len, &err);
	struct record *unexplained = NULL;
	assert(record_decode(&unexplained, (const char *)data, len, NULL) == code);
	record_free(unexplained);
	if (code) {
		assert(!record && err.msg[0]);
		assert(code == BERTH_NO_RECORD || code == BERTH_INVALID_RECORD);
		return 0;
	}
	look_at(record);
	check_round_trip(record);
	record_free(record);
	return 0;
}
