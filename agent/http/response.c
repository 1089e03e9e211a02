#include "agent/http/internal.h"

#include <stdlib.h>
#include <string.h>

struct http_response *http_response_create_borrowed(const char *content_type, const char *body,
	size_t len, void (*release)(void *context), void *context)
{
	struct http_response *response = malloc(sizeof(*response));
	if (!response) {
		return NULL;
	}
	response->references = 1;
	response->mhd = MHD_create_response_from_buffer_with_free_callback_cls(
		len, (void *)(uintptr_t)body, release, context);
	if (!response->mhd) {
		free(response);
		return NULL;
	}
	if (content_type) {
		http_response_header(response, "Content-Type", content_type);
	}
	return response;
}

struct http_response *http_response_create(const char *content_type, const char *body, size_t len)
{
	char *copy = malloc(len + 1);
	if (!copy) {
		return NULL;
	}
	memcpy(copy, body, len);
	struct http_response *response = http_response_create_borrowed(
		content_type, copy, len, free, copy);
	if (!response) {
		free(copy);
	}
	return response;
}

void http_response_header(struct http_response *response, const char *name, const char *value)
{
	MHD_add_response_header(response->mhd, name, value);
}

void http_response_free(struct http_response *response)
{
	if (response && --response->references == 0) {
		MHD_destroy_response(response->mhd);
		free(response);
	}
}
