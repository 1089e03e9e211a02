/* LINK: cli/web_request.o */
/*
 * The bytes on the port of `berth web`: a request passes only with the own host and the secret
 * name, and without a body; what the agent then gets is one request for the same thing, which holds
 * the secret nowhere.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/web_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_written(const struct buffer *out, const struct http_reader *request)
{
	struct http_reader reader;
	const char *at = buffer_text(out);
	const char *end = at + out->len;
	http_reader_init(&reader, HTTP_REQUEST);
	assert(http_reader_next(&reader, &at, end) == HTTP_EVENT_HEAD);
	assert(strcmp(http_reader_method(&reader), http_reader_method(request)) == 0);
	assert(strcmp(http_reader_target(&reader), http_reader_target(request) + WEB_TOKEN_BYTES) ==
		0);
	assert(strcmp(http_reader_query(&reader), http_reader_query(request)) == 0);
	assert(strcmp(http_reader_field(&reader, HTTP_FIELD_HOST), "berth") == 0);
	assert(!reader.keep_alive);
	assert(http_reader_next(&reader, &at, end) == HTTP_EVENT_END && at == end);
	http_reader_finish(&reader);
}

static void judge(const struct web_site *site, const struct http_reader *request)
{
	const char *why = NULL;
	int status = web_request_judge(site, request, &why);
	if (status) {
		assert(status >= 400 && status < 500 && *why);
		return;
	}
	assert(strncmp(http_reader_target(request) + 1, site->token, WEB_TOKEN_BYTES - 1) == 0);
	struct buffer out;
	buffer_init(&out, WEB_REQUEST_BYTES);
	web_request_write(&out, request);
	assert(!out.failed);
	check_written(&out, request);
	buffer_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct web_site site = { .token = "0123456789abcdef0123456789abcdef" };
	struct http_reader reader;
	if (len == 0) {
		return 0;
	}
	site.port = data[0] & 1 ? 80 : 8080;
	const char *at = (const char *)data + 1;
	const char *end = (const char *)data + len;
	http_reader_init(&reader, HTTP_REQUEST);
	if (http_reader_next(&reader, &at, end) == HTTP_EVENT_HEAD) {
		judge(&site, &reader);
	}
	http_reader_finish(&reader);
	return 0;
}
