#include "agent/check/result.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/utf8.h"
#include "lib/base/text.h"

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

void check_result_set_output(struct check_result *result, const char *data, size_t len, bool cut)
{
	if (len > CHECK_OUTPUT_BYTES) {
		len = CHECK_OUTPUT_BYTES;
		cut = true;
	}
	utf8_copy_valid(result->output, data, len, cut);
	result->output_cut = cut;
}

void check_result_set_detail(struct check_result *result, const char *format, ...)
{
	char text[sizeof(result->detail)];
	va_list arguments;
	va_start(arguments, format);
	int len = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	utf8_copy_valid(result->detail, text, strlen(text), len >= (int)sizeof(text));
}

void check_result_last_line(const struct check_result *result, char *out, size_t size)
{
	static const char blanks[] = " \t\r\n";
	const char *begin = result->output;
	const char *end = begin + strlen(begin);
	while (end > begin && strchr(blanks, end[-1])) {
		end--;
	}
	const char *newline = end > begin ? memrchr(begin, '\n', (size_t)(end - begin)) : NULL;
	begin = newline ? newline + 1 : begin;
	begin += strspn(begin, blanks);
	text_printf(out, size, "%.*s", end > begin ? (int)(end - begin) : 0, begin);
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
