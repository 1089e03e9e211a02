#include "lib/record/select.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/record/service.h"

int select_add(char *out, const char *name, const char *value, struct err *err)
{
	size_t used = strlen(out);
	size_t lines = 0;
	for (const char *at = out; *at; at++) {
		lines += *at == '\n';
	}
	if (!*name || strpbrk(name, "=\n") || strchr(value, '\n') ||
		strlen(value) >= SELECT_VALUE_BYTES) {
		return err_set(err, BERTH_FAILED,
			"attribute.%s: needs a name without \"=\", and a value of at most %d bytes",
			name, SELECT_VALUE_BYTES - 1);
	}
	if (lines == SELECT_MOST || used + strlen(name) + strlen(value) + 3 > SELECT_BYTES) {
		return err_set(err, BERTH_FAILED, "there may be %d attributes, of %d bytes",
			SELECT_MOST, SELECT_BYTES);
	}
	snprintf(out + used, SELECT_BYTES - used, "%s=%s\n", name, value);
	return 0;
}

bool select_text(char out[SELECT_VALUE_BYTES], const json_t *value)
{
	int len = -1;
	if (json_is_string(value)) {
		len = snprintf(out, SELECT_VALUE_BYTES, "%s", json_string_value(value));
	} else if (json_is_integer(value)) {
		len = snprintf(
			out, SELECT_VALUE_BYTES, "%lld", (long long)json_integer_value(value));
	} else if (json_is_real(value)) {
		enum { DIGITS = 17 }; /* as few as say the number */
		for (int digits = 1; digits <= DIGITS; digits++) {
			len = snprintf(
				out, SELECT_VALUE_BYTES, "%.*g", digits, json_real_value(value));
			digits = strtod(out, NULL) == json_real_value(value) ? DIGITS : digits;
		}
	} else if (json_is_boolean(value)) {
		len = snprintf(
			out, SELECT_VALUE_BYTES, "%s", json_is_true(value) ? "true" : "false");
	}
	return len >= 0 && len < SELECT_VALUE_BYTES;
}

static bool holds(const struct record *record, const char *line, size_t len)
{
	char name[SELECT_BYTES];
	char text[SELECT_VALUE_BYTES];
	size_t name_len = strcspn(line, "=");
	snprintf(name, sizeof(name), "%.*s", (int)name_len, line);
	const char *value = line + name_len + 1;
	size_t value_len = len - name_len - 1;
	return select_text(text, record_attribute(record, name)) && strlen(text) == value_len &&
		memcmp(text, value, value_len) == 0;
}

bool select_takes(const char *selection, const struct record *record)
{
	for (const char *at = selection ? selection : ""; *at;) {
		size_t len = strcspn(at, "\n");
		if (!holds(record, at, len)) {
			return false;
		}
		at += len + (at[len] == '\n');
	}
	return true;
}

bool select_has_labels(const struct record *record, const char *name, const char *value)
{
	char text[SELECT_VALUE_BYTES];
	const char *key;
	json_t *of_key;
	json_object_foreach ((json_t *)(uintptr_t)record_json(record), key, of_key) {
		if (record_text_is_label(key, name) && select_text(text, of_key) &&
			record_text_is_label(text, value)) {
			return true;
		}
	}
	return false;
}
