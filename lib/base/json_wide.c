#include "lib/base/json_wide.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buffer.h"
#include "lib/base/json_read.h"

/* Nearly that of a double, so that no rounding by a writer makes it larger than a double. */
#define LARGEST "1.7976931348623e308"

/* The parser itself is asked: its bounds are what matters, and strtod() follows the locale. */
static bool overflows(const char *number, size_t flags)
{
	json_error_t error;
	json_t *read = json_loads(number, JSON_DECODE_ANY | flags, &error);
	bool refused = !read && json_error_code(&error) == json_error_numeric_overflow;
	json_decref(read);
	return refused;
}

static void append_number(struct buffer *out, const char *text, size_t len)
{
	char *number = strndup(text, len);
	if (!number) {
		out->failed = true;
	} else if (!overflows(number, 0)) {
		buffer_append(out, number, len);
	} else if (!overflows(number, JSON_DECODE_INT_AS_REAL)) {
		buffer_printf(out, "%s.0", number);
	} else {
		buffer_append_text(out, *number == '-' ? "-" LARGEST : LARGEST);
	}
	free(number);
}

static size_t digits(const char *data, size_t len, size_t at)
{
	while (at < len && data[at] >= '0' && data[at] <= '9') {
		at++;
	}
	return at;
}

static size_t skip_one_of(const char *data, size_t len, size_t at, const char *either)
{
	return at < len && (data[at] == either[0] || data[at] == either[1]) ? at + 1 : at;
}

/* Of what looks like a number or its exponent. 0: nothing like that begins here. */
static size_t number_len(const char *data, size_t len)
{
	size_t at = digits(data, len, skip_one_of(data, len, 0, "--"));
	at = digits(data, len, skip_one_of(data, len, at, ".."));
	size_t exponent = skip_one_of(data, len, at, "eE");
	return exponent == at ? at : digits(data, len, skip_one_of(data, len, exponent, "+-"));
}

/* From its opening quote to behind the closing one. */
static size_t string_len(const char *data, size_t len)
{
	size_t at = 1;
	while (at < len && data[at] != '"') {
		at += data[at] == '\\' ? 2 : 1;
	}
	return at < len ? at + 1 : len;
}

/* The same document with numbers that fit. Invalid JSON stays invalid. */
static void narrow(struct buffer *out, const char *data, size_t len)
{
	size_t at = 0;
	while (at < len && !out->failed) {
		size_t step = number_len(data + at, len - at);
		if (step > 0) {
			append_number(out, data + at, step);
		} else {
			step = data[at] == '"' ? string_len(data + at, len - at) : 1;
			buffer_append(out, data + at, step);
		}
		at += step;
	}
}

json_t *json_wide_loadb(const char *data, size_t len, size_t flags, json_error_t *error)
{
	json_error_t own = { 0 };
	json_error_t *failure = error ? error : &own;
	json_t *json = json_read(data, len, flags, failure);
	if (json || json_error_code(failure) != json_error_numeric_overflow) {
		return json;
	}
	struct buffer narrowed;
	/* The shortest number that is replaced, 1e309, grows to no more than this. */
	buffer_init(&narrowed, len * sizeof(LARGEST));
	narrow(&narrowed, data, len);
	if (!narrowed.failed) {
		json = json_read(buffer_text(&narrowed), narrowed.len, flags, failure);
	}
	buffer_finish(&narrowed);
	return json;
}
