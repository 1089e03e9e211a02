#include "cli/convert_write.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

static bool fits_into_a_line(const char *value)
{
	size_t len = strlen(value);
	bool has_blank_ends = len > 0 && (value[0] == ' ' || value[len - 1] == ' ');
	return !strpbrk(value, "\r\n") && !has_blank_ends;
}

static void write_value(FILE *out, const char *key, const char *value, bool doubles_dollars)
{
	if (!fits_into_a_line(value)) {
		convert_write_dropped(out, key, "its value does not fit into a line");
		return;
	}
	fprintf(out, "%s = ", key);
	for (; *value; value++) {
		fputs(*value == '$' && doubles_dollars ? "$" : "", out);
		fputc(*value, out);
	}
	fputc('\n', out);
}

void convert_write_text(FILE *out, const char *key, const char *value)
{
	write_value(out, key, value, true);
}

void convert_write_command(FILE *out, const char *key, const char *value)
{
	write_value(out, key, value, false);
}

void convert_write_dropped(FILE *out, const char *key, const char *why)
{
	fprintf(out, "; dropped: %s: %s\n", key, why);
}

static bool is_listed(const char *const *names, const char *name)
{
	while (*names && strcmp(*names, name) != 0) {
		names++;
	}
	return *names != NULL;
}

static const char *reason_for(const struct convert_drop *drops, const char *name)
{
	while (drops->name && strcmp(drops->name, name) != 0) {
		drops++;
	}
	return drops->name ? drops->why : "Berth has no such key";
}

void convert_write_rest(FILE *out, const char *prefix, const json_t *object,
	const char *const *used, const struct convert_drop *drops)
{
	const char *name;
	json_t *value;
	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		if (!is_listed(used, name)) {
			char key[256];
			snprintf(key, sizeof(key), "%s%s", prefix, name);
			for (char *c = key; *c; c++) {
				*c = iscntrl((unsigned char)*c) ? '?' : *c;
			}
			convert_write_dropped(out, key, reason_for(drops, name));
		}
	}
}

bool convert_number(const json_t *object, const char *name, double *ret_number)
{
	const json_t *number = json_object_get(object, name);
	if (!json_is_number(number)) {
		return false;
	}
	*ret_number = json_number_value(number);
	return true;
}

void convert_label(char *out, size_t size, const char *text)
{
	size_t len = 0;
	for (; *text && len + 1 < size; text++) {
		unsigned char c = (unsigned char)*text;
		bool good = isascii(c) && isalnum(c);
		if (good || (len > 0 && out[len - 1] != '-')) {
			out[len++] = good ? (char)tolower(c) : '-';
		}
	}
	while (len > 0 && out[len - 1] == '-') {
		len--;
	}
	out[len] = '\0';
}
