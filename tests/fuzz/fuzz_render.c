/*
 * Records that any writer may have put into the registry, as the configuration of other programs:
 * a value never makes a line, a quote or a JSON member of its own in any format.
 */
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/render/render.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char NAMED[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:[]%";

static bool has_only(const char *text, size_t len, const char *bytes)
{
	size_t i = 0;
	while (i < len && text[i] && strchr(bytes, text[i])) {
		i++;
	}
	return i == len;
}

/* Words of letters, digits and what addresses need, one blank between them. */
static void check_words(const char *line, const char *begin, const char *end)
{
	size_t len = strlen(line);
	size_t end_len = strlen(end);
	assert(strncmp(line, begin, strlen(begin)) == 0 && len >= end_len);
	assert(strcmp(line + len - end_len, end) == 0);
	line += strlen(begin);
	for (const char *stop = line + strlen(line) - end_len; line < stop;) {
		size_t word = strcspn(line, " \t");
		word = word < (size_t)(stop - line) ? word : (size_t)(stop - line);
		assert(word > 0);
		assert(has_only(line, word, NAMED) || strncmp(line, "weight=", 7) == 0 ||
			strncmp(line, "last,libc,none", word) == 0);
		line += word + (line + word < stop);
	}
}

static void check_variable(const char *line)
{
	const char *equals = strchr(line, '=');
	assert(equals &&
		has_only(line, (size_t)(equals - line), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"));
	const char *value = equals + 1;
	size_t len = strlen(value);
	if (*value == '"') {
		assert(len >= 2 && value[len - 1] == '"');
		value++;
		len -= 2;
	}
	for (size_t i = 0; i < len; i++) {
		assert(value[i] == ' ' || strchr(NAMED, value[i]));
	}
}

static void check_line(enum render_format format, const char *line)
{
	if (format == RENDER_HAPROXY && *line != 'b') {
		check_words(line, "    server ", "");
	} else if (format == RENDER_NGINX) {
		check_words(line, "server ", ";");
	} else if (format == RENDER_HOSTS && *line != '#') {
		check_words(line, "", "");
	} else if (format == RENDER_ENV) {
		check_variable(line);
	}
}

static void check_json(const char *text, size_t items, bool envoy)
{
	json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert(json);
	assert(envoy ? json_object_size(json) == 2 : json_array_size(json) == items);
	json_decref(json);
}

static void check_format(const struct render_picture *picture, enum render_format format)
{
	const struct render_options options = { .format = format,
		.name = "the-set",
		.backend = picture->count % 2 ? "web" : "",
		.domain = "berth" };
	struct render_result result;
	struct err err = ERR_INIT;
	struct buffer out;
	buffer_init(&out, 1 << 20);
	if (render_write(&out, picture, &options, &result, &err) == 0) {
		char *text = (char *)(uintptr_t)buffer_text(&out);
		assert(strlen(text) == out.len);
		if (format == RENDER_JSON || format == RENDER_PROMETHEUS ||
			format == RENDER_ENVOY) {
			check_json(text, result.items, format == RENDER_ENVOY);
		} else {
			assert(out.len == 0 || text[out.len - 1] == '\n');
			for (char *line; (line = strsep(&text, "\n"));) {
				if (*line) {
					check_line(format, line);
				}
			}
		}
	} else {
		assert(err.code == BERTH_LIMIT_EXCEEDED);
	}
	buffer_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct record *record = NULL;
	if (record_decode(&record, (const char *)data, len, NULL)) {
		return 0;
	}
	const struct render_member members[] = { { .path = "/services/web", .record = record },
		{ .path = "/services/web/b.c/d", .record = record, .tier = len & 1 } };
	for (size_t count = 0; count <= 2; count++) {
		const struct render_picture picture = { "/services/web", members, count };
		for (int format = 0; format < RENDER_FORMATS; format++) {
			check_format(&picture, (enum render_format)format);
		}
	}
	record_free(record);
	return 0;
}
