#include "agent/check/result.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[CHECK_VERDICT_COUNT] = {
	[CHECK_PASSING] = "passing",
	[CHECK_WARNING] = "warning",
	[CHECK_FAILING] = "failing",
	[CHECK_TIMED_OUT] = "timed-out",
	[CHECK_COULD_NOT_RUN] = "could-not-run",
};

const char *check_verdict_name(enum check_verdict verdict)
{
	return names[verdict];
}

int check_verdict_from_name(const char *name)
{
	for (int i = 0; i < CHECK_VERDICT_COUNT; i++) {
		if (strcmp(names[i], name) == 0) {
			return i;
		}
	}
	return -1;
}

bool check_verdict_good(enum check_verdict verdict)
{
	return verdict == CHECK_PASSING || verdict == CHECK_WARNING;
}

/* The length of the UTF-8 character at `text`: 0 when it is none, more than `len` when it is cut. */
static size_t character_length(const unsigned char *text, size_t len)
{
	static const struct {
		unsigned char mask, lead,
			least;      /* least: of the second byte, against overlong forms */
		unsigned char most; /* of the second byte, against surrogates and beyond U+10FFFF */
		size_t length;
	} forms[] = {
		{ 0xff, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xff, 0xed, 0x80, 0x9f, 3 },
		{ 0xff, 0xf0, 0x90, 0xbf, 4 },
		{ 0xff, 0xf4, 0x80, 0x8f, 4 },
		{ 0xf0, 0xe0, 0x80, 0xbf, 3 },
		{ 0xfc, 0xf0, 0x80, 0xbf, 4 },
		{ 0xe0, 0xc0, 0x80, 0xbf, 2 },
	};
	if (text[0] < 0x80) {
		return text[0] ? 1 : 0;
	}
	if (text[0] == 0xc0 || text[0] == 0xc1) {
		return 0;
	}
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if ((text[0] & forms[i].mask) != forms[i].lead) {
			continue;
		}
		for (size_t at = 1; at < forms[i].length && at < len; at++) {
			unsigned char least = at == 1 ? forms[i].least : 0x80;
			unsigned char most = at == 1 ? forms[i].most : 0xbf;
			if (text[at] < least || text[at] > most) {
				return 0;
			}
		}
		return forms[i].length;
	}
	return 0;
}

void check_result_copy_valid(char *valid, const char *data, size_t len, bool cut)
{
	size_t used = 0;
	while (used < len) {
		size_t length = character_length((const unsigned char *)data + used, len - used);
		if (length > len - used && cut) {
			break;
		}
		if (length == 0 || length > len - used) {
			valid[used++] = '?';
			continue;
		}
		memmove(valid + used, data + used, length);
		used += length;
	}
	valid[used] = '\0';
}

void check_result_set_output(struct check_result *result, const char *data, size_t len, bool cut)
{
	if (len > CHECK_OUTPUT_BYTES) {
		len = CHECK_OUTPUT_BYTES;
		cut = true;
	}
	check_result_copy_valid(result->output, data, len, cut);
	result->output_cut = cut;
}

void check_result_set_detail(struct check_result *result, const char *format, ...)
{
	char text[sizeof(result->detail)];
	va_list arguments;
	va_start(arguments, format);
	int len = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	check_result_copy_valid(result->detail, text, strlen(text), len >= (int)sizeof(text));
}

json_t *check_result_json(const struct check_result *result)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:f, s:f}", "verdict",
		check_verdict_name(result->verdict), "detail", result->detail, "output",
		result->output, "output_cut", result->output_cut, "started", result->started,
		"duration", result->duration_s);
}

bool check_result_from_json(struct check_result *result, const json_t *json)
{
	const char *name, *detail, *output;
	int output_cut;
	double started, duration_s;
	if (json_unpack((json_t *)json, "{s:s, s:s, s:s, s:b, s:F, s:F}", "verdict", &name,
		    "detail", &detail, "output", &output, "output_cut", &output_cut, "started",
		    &started, "duration", &duration_s)) {
		return false;
	}
	int verdict = check_verdict_from_name(name);
	if (verdict < 0) {
		return false;
	}
	*result = (struct check_result){
		.verdict = (enum check_verdict)verdict,
		.started = started,
		.duration_s = duration_s,
	};
	check_result_set_detail(result, "%s", detail);
	check_result_set_output(result, output, strlen(output), output_cut != 0);
	return true;
}
