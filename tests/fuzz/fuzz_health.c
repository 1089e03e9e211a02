/* LINK: probe/health.o */
/*
 * A server's answer to a check of type grpc: its first byte says how long the part is that comes as
 * header fields, the rest is the body. No bytes crash its reader, which keeps a few KiB of them at
 * most; there is a verdict with a reason, and how the body comes in pieces makes no difference.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "probe/health.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool judge(const char *fields, size_t fields_len, const char *body, size_t len, size_t piece,
	char words[HEALTH_WORDS_BYTES])
{
	struct health health = { 0 };
	for (size_t at = 0; at < fields_len;) {
		const char *newline = memchr(fields + at, '\n', fields_len - at);
		size_t line = newline ? (size_t)(newline - fields) - at + 1 : fields_len - at;
		health_take_field(&health, fields + at, line);
		at += line;
	}
	for (size_t at = 0; at < len; at += piece) {
		if (!health_take(&health, body + at, len - at < piece ? len - at : piece)) {
			assert(health.wrong);
			break;
		}
	}
	bool serves = health_judge(&health, "app", words);
	assert(words[0] && strlen(words) < HEALTH_WORDS_BYTES);
	assert(!serves || (health.has_status && health.status == 0 && !health.wrong));
	return serves;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char whole[HEALTH_WORDS_BYTES];
	char pieces[HEALTH_WORDS_BYTES];
	if (len == 0) {
		return 0;
	}
	size_t fields_len = data[0] < len ? data[0] : len - 1;
	const char *fields = (const char *)data + 1;
	const char *body = fields + fields_len;
	size_t body_len = len - 1 - fields_len;
	bool serves = judge(fields, fields_len, body, body_len, len, whole);
	assert(judge(fields, fields_len, body, body_len, 1, pieces) == serves);
	return 0;
}
