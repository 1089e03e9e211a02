/* Query parameters and header fields of a client: every byte is looked at, and none beyond. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/http/internal.h"
#include "lib/http/field.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_decoding(const char *text)
{
	char out[64];
	int len = http_decode(text, strlen(text), out, sizeof(out));
	assert(len < (int)sizeof(out));
	if (len >= 0) {
		assert(strlen(out) == (size_t)len && (size_t)len <= strlen(text));
		for (int i = 0; i < len; i++) {
			assert((unsigned char)out[i] >= 0x20 && out[i] != 0x7f);
		}
	}
	char small[1];
	assert(http_decode(text, strlen(text), small, sizeof(small)) <= 0);
}

static void check_headers(const char *text)
{
	static const char tag[] = "\"0-0123456789abcdef\"";
	bool plain = http_accepts(text, "text/plain", false);
	assert(!plain || http_accepts(text, "text/plain", true));
	(void)http_has_token(text, "no-cache");
	assert(!http_tag_matches(text, tag, false) || http_tag_matches(text, tag, true));
	(void)http_tag_matches(text, "W/\"0-1\"", true);
	assert(!http_tag_matches(text, "W/\"0-1\"", false) || *text == '*' || strchr(text, '*'));
	assert(!http_accepts(NULL, "text/plain", false) && http_max_age_seconds(NULL) == -1);
	assert(!http_has_token(NULL, "x") && !http_tag_matches(NULL, tag, true));
	assert(http_wait_seconds(NULL) == 0 && http_max_age_seconds(text) >= -1);
	int wait = http_wait_seconds(text);
	assert(wait >= 0 && wait <= 600);
}

/* The parts of a field line, which need not end with a NUL. */
static void check_parts(const char *data, size_t len)
{
	const char *text = data;
	size_t text_len = len;
	http_trim(&text, &text_len);
	assert(text >= data && text + text_len <= data + len);
	assert(text_len == 0 || !strchr(" \t", text[0]) || !text[0]);
	assert(http_token_len(data, len) <= len);
	assert(!http_is_field_text(data, len) || !memchr(data, '\n', len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	check_parts((const char *)data, len);
	char *text = strndup((const char *)data, len);
	if (text) {
		check_decoding(text);
		check_headers(text);
	}
	free(text);
	return 0;
}
