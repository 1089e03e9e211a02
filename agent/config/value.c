#include "agent/config/value.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/duration.h"
#include "lib/base/hex.h"
#include "lib/base/utf8.h"
#include "agent/command/command.h"

/* A range in which %.15g writes no exponent. */
#define NUMBER_MIN 0.001
#define NUMBER_MAX 1000000

enum { FORMATTED_BYTES_MAX = 1024 * 1024 };

/* The largest first: the order in which config_format_size() tries them. */
static const struct {
	const char *suffix;
	int64_t factor;
} size_units[] = {
	{ "G", 1024 * 1024 * 1024 },
	{ "M", 1024 * 1024 },
	{ "K", 1024 },
	{ "", 1 },
};

int config_parse_boolean(const char *text, bool *ret_value, struct err *err)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "yes", true },
		{ "true", true },
		{ "on", true },
		{ "no", false },
		{ "false", false },
		{ "off", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcasecmp(text, words[i].word) == 0) {
			*ret_value = words[i].value;
			return 0;
		}
	}
	return err_set(err, BERTH_FAILED, "write yes or no (also true, false, on, off)");
}

/* Reads decimal digits; false when there are none or the number is too large for us. */
static bool parse_digits(const char *text, const char **ret_end, int64_t *ret_value)
{
	int64_t value = 0;
	const char *at = text;
	for (; isdigit((unsigned char)*at); at++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, *at - '0', &value)) {
			return false;
		}
	}
	*ret_end = at;
	*ret_value = value;
	return at > text;
}

int config_parse_integer(
	const char *text, int64_t min, int64_t max, int64_t *ret_value, struct err *err)
{
	const char *end;
	int64_t value;
	if (!parse_digits(text, &end, &value) || *end || value < min || value > max) {
		return err_set(err, BERTH_FAILED, "write a whole number between %lld and %lld",
			(long long)min, (long long)max);
	}
	*ret_value = value;
	return 0;
}

int config_parse_number(const char *text, double *ret_value, struct err *err)
{
	/* strtod() alone would take 0x10, inf and nan too. */
	if (*text && strspn(text, "0123456789.") == strlen(text)) {
		char *end;
		double value = strtod(text, &end);
		if (!*end && value >= NUMBER_MIN && value <= NUMBER_MAX) {
			*ret_value = value;
			return 0;
		}
	}
	return err_set(err, BERTH_FAILED, "write a number between %g and %d, like 3 or 1.5",
		NUMBER_MIN, NUMBER_MAX);
}

int config_parse_duration(
	const char *text, int64_t min_ms, int64_t max_ms, int64_t *ret_ms, struct err *err)
{
	int64_t ms;
	if (!duration_parse(text, &ms)) {
		return err_set(err, BERTH_FAILED,
			"write a whole number and its unit, ms, s, m, h "
			"or d: 500ms, 30s, 2m, 1h, 7d");
	}
	if (ms < min_ms || ms > max_ms) {
		char min[DURATION_TEXT_BYTES];
		char max[DURATION_TEXT_BYTES];
		duration_format(min, min_ms);
		duration_format(max, max_ms);
		return err_set(err, BERTH_FAILED, "allowed are %s to %s", min, max);
	}
	*ret_ms = ms;
	return 0;
}

char *config_format_duration(int64_t ms)
{
	char text[DURATION_TEXT_BYTES];
	duration_format(text, ms);
	return allocate_text(text);
}

/* A whole number of bytes, or one with a unit behind it. */
static bool parse_bytes(const char *text, int64_t *ret_bytes)
{
	const char *end;
	int64_t value;
	if (!parse_digits(text, &end, &value)) {
		return false;
	}
	for (size_t i = 0; i < ARRAY_LEN(size_units); i++) {
		if (strcmp(end, size_units[i].suffix) == 0) {
			return !__builtin_mul_overflow(value, size_units[i].factor, ret_bytes);
		}
	}
	return false;
}

int config_parse_size(
	const char *text, int64_t min, int64_t max, int64_t *ret_bytes, struct err *err)
{
	int64_t bytes;
	if (!parse_bytes(text, &bytes)) {
		return err_set(err, BERTH_FAILED,
			"write a number of bytes, or a whole number and K, M or G: 64K, 16M");
	}
	if (bytes < min || bytes > max) {
		char *smallest = config_format_size(min);
		char *largest = config_format_size(max);
		err_set(err, BERTH_FAILED, "allowed are %s to %s", smallest, largest);
		free(smallest);
		free(largest);
		return BERTH_FAILED;
	}
	*ret_bytes = bytes;
	return 0;
}

int config_parse_limit(const char *text, uint64_t *ret_limit, struct err *err)
{
	int64_t limit;
	if (strcmp(text, "unlimited") == 0) {
		*ret_limit = UINT64_MAX;
		return 0;
	}
	if (!parse_bytes(text, &limit)) {
		return err_set(err, BERTH_FAILED,
			"write a number, a whole number and K, M or G, or unlimited: 64, 16M");
	}
	*ret_limit = (uint64_t)limit;
	return 0;
}

char *config_format_size(int64_t bytes)
{
	size_t i = 0;
	while (i + 1 < ARRAY_LEN(size_units) && (bytes == 0 || bytes % size_units[i].factor != 0)) {
		i++;
	}
	return allocate_format(
		"%lld%s", (long long)(bytes / size_units[i].factor), size_units[i].suffix);
}

int config_parse_signal(const char *text, int *ret_signal, struct err *err)
{
	int number = command_signal_number(strncmp(text, "SIG", 3) == 0 ? text + 3 : text);
	if (number < 0) {
		return err_set(
			err, BERTH_FAILED, "write the name of a signal, as TERM, QUIT or INT");
	}
	*ret_signal = number;
	return 0;
}

int config_parse_mode(const char *text, unsigned *ret_mode, struct err *err)
{
	size_t len = strlen(text);
	if (len < 3 || len > 4 || strspn(text, "01234567") != len || (len == 4 && text[0] != '0')) {
		return err_set(err, BERTH_FAILED,
			"write file permissions in octal, 0000 to 0777, like 0660");
	}
	*ret_mode = (unsigned)strtoul(text, NULL, 8);
	return 0;
}

int config_parse_word(
	const char *text, const char *const *words, unsigned *ret_index, struct err *err)
{
	struct buffer allowed;
	buffer_init(&allowed, FORMATTED_BYTES_MAX);
	for (unsigned i = 0; words[i]; i++) {
		if (strcmp(text, words[i]) == 0) {
			buffer_finish(&allowed);
			*ret_index = i;
			return 0;
		}
		const char *separator = i == 0 ? "" : words[i + 1] ? ", " : " or ";
		buffer_printf(&allowed, "%s%s", separator, words[i]);
	}
	err_set(err, BERTH_FAILED, "write %s", buffer_text(&allowed));
	buffer_finish(&allowed);
	return BERTH_FAILED;
}

void config_parse_list(const char *text, char ***ret_items, size_t *ret_count)
{
	static const char separators[] = ", \t";
	char **items = NULL;
	size_t count = 0;
	for (text += strspn(text, separators); *text; text += strspn(text, separators)) {
		size_t len = strcspn(text, separators);
		items = allocate_grow(items, count, sizeof(*items));
		items[count++] = allocate_bytes(text, len);
		text += len;
	}
	*ret_items = items;
	*ret_count = count;
}

char *config_format_list(char *const *items, size_t count)
{
	struct buffer text;
	buffer_init(&text, FORMATTED_BYTES_MAX);
	for (size_t i = 0; i < count; i++) {
		buffer_printf(&text, "%s%s", i ? ", " : "", items[i]);
	}
	char *result = allocate_text(buffer_text(&text));
	buffer_finish(&text);
	return result;
}

/* Decodes the escape at `text` (behind the backslash); returns its length or 0. */
static size_t decode_escape(const char *text, char *ret_byte)
{
	static const char letters[] = "rnt\\";
	static const char bytes[] = "\r\n\t\\";
	const char *letter = *text ? strchr(letters, *text) : NULL;
	if (letter) {
		*ret_byte = bytes[letter - letters];
		return 1;
	}
	int byte = *text == 'x' ? hex_byte(text + 1) : -1;
	if (byte < 0) {
		return 0;
	}
	*ret_byte = (char)byte;
	return 3;
}

int config_parse_bytes(const char *text, char **ret_bytes, size_t *ret_len, struct err *err)
{
	char *bytes = allocate_text(text);
	size_t len = 0;
	while (*text) {
		if (*text != '\\') {
			bytes[len++] = *text++;
			continue;
		}
		size_t escape_len = decode_escape(text + 1, &bytes[len]);
		if (escape_len == 0) {
			free(bytes);
			return err_set(err, BERTH_FAILED,
				"a backslash must begin one of \\r \\n \\t \\\\ \\xHH");
		}
		len++;
		text += 1 + escape_len;
	}
	bytes[len] = '\0';
	*ret_bytes = bytes;
	*ret_len = len;
	return 0;
}

char *config_format_bytes(const char *bytes, size_t len)
{
	struct buffer text;
	buffer_init(&text, FORMATTED_BYTES_MAX);
	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)bytes[i];
		bool at_edge = i == 0 || i + 1 == len;
		if (byte == '\\') {
			buffer_append_text(&text, "\\\\");
		} else if (byte < 0x20 || byte >= 0x7f || (byte == ' ' && at_edge)) {
			buffer_printf(&text, "\\x%02x", byte);
		} else {
			buffer_append(&text, &bytes[i], 1);
		}
	}
	char *result = allocate_text(buffer_text(&text));
	buffer_finish(&text);
	return result;
}

static bool parse_status_range(
	const char *text, int64_t min, int64_t max, struct config_status_range *ret_range)
{
	const char *end;
	int64_t first;
	if (!parse_digits(text, &end, &first)) {
		return false;
	}
	int64_t last = first;
	if (*end == '-' && !parse_digits(end + 1, &end, &last)) {
		return false;
	}
	if (*end || first < min || last > max || first > last) {
		return false;
	}
	*ret_range = (struct config_status_range){ .first = (int)first, .last = (int)last };
	return true;
}

int config_parse_status_ranges(const char *text, int64_t min, int64_t max,
	struct config_status_range **ret_ranges, size_t *ret_count, struct err *err)
{
	char **items;
	size_t count;
	config_parse_list(text, &items, &count);
	struct config_status_range *ranges = NULL;
	size_t good = 0;
	while (good < count) {
		ranges = allocate_grow(ranges, good, sizeof(*ranges));
		if (!parse_status_range(items[good], min, max, &ranges[good])) {
			break;
		}
		good++;
	}
	config_free_list(items, count);
	if (good < count || count == 0) {
		free(ranges);
		return err_set(err, BERTH_FAILED,
			"write numbers from %lld to %lld and ranges of them: %s", (long long)min,
			(long long)max, max > 255 ? "200-299, 404" : "1, 3-5");
	}
	*ret_ranges = ranges;
	*ret_count = count;
	return 0;
}

bool config_status_in_ranges(const struct config_status_range *ranges, size_t count, int status)
{
	for (size_t i = 0; i < count; i++) {
		if (status >= ranges[i].first && status <= ranges[i].last) {
			return true;
		}
	}
	return false;
}

char *config_format_status_ranges(const struct config_status_range *ranges, size_t count)
{
	struct buffer text;
	buffer_init(&text, FORMATTED_BYTES_MAX);
	for (size_t i = 0; i < count; i++) {
		buffer_printf(&text, "%s%d", i ? ", " : "", ranges[i].first);
		if (ranges[i].last != ranges[i].first) {
			buffer_printf(&text, "-%d", ranges[i].last);
		}
	}
	char *result = allocate_text(buffer_text(&text));
	buffer_finish(&text);
	return result;
}

bool config_is_variable_name(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		bool letter = isalpha((unsigned char)text[i]) || text[i] == '_';
		if (!letter && (i == 0 || !isdigit((unsigned char)text[i]))) {
			return false;
		}
	}
	return len > 0;
}

bool config_is_plain_text(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char byte = (unsigned char)text[i];
		if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
			return false;
		}
	}
	return utf8_is_valid(text, len);
}

void config_free_list(char **items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(items[i]);
	}
	free(items);
}
