/* Responses: a body with the fields that go with it, to be answered any number of times. */
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/http/internal.h"
#include "lib/base/json_text.h"

enum { HEAD_BYTES = 4096 };

struct http_response *http_response_create_borrowed(const char *content_type, const char *body,
	size_t len, void (*release)(void *context), void *context)
{
	struct http_response *response = allocate_zeroed(1, sizeof(*response));
	response->references = 1;
	response->body = body;
	response->len = len;
	response->release = release;
	response->context = context;
	response->fd = -1;
	buffer_init(&response->head, HEAD_BYTES);
	if (content_type) {
		buffer_printf(&response->head, "Content-Type: %s\r\n", content_type);
		buffer_printf(&response->head, "Content-Length: %zu\r\n", len);
	}
	response->content_len = response->head.len;
	buffer_append_text(&response->head, "\r\n");
	return response;
}

struct http_response *http_response_create(const char *content_type, const char *body, size_t len)
{
	char *copy = allocate_bytes(body, len);
	return http_response_create_borrowed(content_type, copy, len, free, copy);
}

/* Text from outside may not be UTF-8; a problem document always is. */
static json_t *text_json(const char *text)
{
	json_t *string = json_string(text);
	return string ? string : json_string("(not UTF-8)");
}

struct http_response *http_response_create_problem(int status, const char *title,
	const char *detail, const char *instance, json_t *members_take)
{
	json_t *json = json_pack("{s:s, s:s, s:i, s:o, s:o*}", "type", "about:blank", "title",
		title, "status", status, "detail", text_json(detail), "instance",
		instance ? text_json(instance) : NULL);
	if (members_take) {
		json_object_update(json, members_take);
		json_decref(members_take);
	}
	char *text = allocated(json_text(json, JSON_COMPACT));
	json_decref(json);
	struct http_response *response = http_response_create_borrowed(
		"application/problem+json", text, strlen(text), free, text);
	if (status == 503) {
		http_response_header(response, "Retry-After", "1");
	}
	return response;
}

void http_response_header(struct http_response *response, const char *name, const char *value)
{
	response->head.len -= 2; /* the empty line comes behind */
	buffer_printf(&response->head, "%s: %s\r\n\r\n", name, value);
}

void http_response_etag(struct http_response *response, const char *etag)
{
	response->etag = response->head.len + strlen("ETag: ") - 2;
	response->etag_len = strlen(etag);
	http_response_header(response, "ETag", etag);
}

bool http_response_descriptor(struct http_response *response, int fd)
{
	response->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return response->fd >= 0;
}

struct http_response *http_response_pack(struct http_response *response_take)
{
	struct buffer head = response_take->head;
	struct http_response *response = allocated(
		realloc(response_take, sizeof(*response) + head.len));
	memcpy(response->packed, head.data, head.len);
	response->head = (struct buffer){
		.data = response->packed, .len = head.len, .size = head.len, .max = head.len
	};
	buffer_finish(&head);
	return response;
}

void http_response_free(struct http_response *response)
{
	if (response && --response->references == 0) {
		if (response->fd >= 0) {
			close(response->fd);
		}
		if (response->head.data != response->packed) {
			buffer_finish(&response->head);
		}
		if (response->release) {
			response->release(response->context);
		}
		free(response);
	}
}
