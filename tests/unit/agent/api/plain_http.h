/*
 * In the place of HTTP, for the API: a client has one request, takes bytes of a stream when a test
 * says so, and there is room for more when the test says so. For one file of a program.
 */
#ifndef TESTS_UNIT_AGENT_API_PLAIN_HTTP_H
#define TESTS_UNIT_AGENT_API_PLAIN_HTTP_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/http/http.h"
#include "lib/program/log_rate.h"

struct http_response {
	char *body;
	bool retry;
	bool stale;
};

/* A client with one request, and with one parameter in it. */
struct client {
	struct http_request request; /* first */
	const char *parameter;       /* NULL: none */
	char value[64];
	int status;
	char body[512]; /* its beginning */
	bool retry;
	bool stale;
	void (*on_closed)(void *context);
	void *on_closed_context;
	struct http_stream_callbacks stream; /* of its answer, when it became one */
	size_t held;                         /* bytes that wait for it */
	size_t wakes;
	bool ended;
};

static bool plain_http_has_room = true;

static struct client *client_of(const struct http_request *request)
{
	return (struct client *)(uintptr_t)request;
}

int http_parameter(const struct http_request *request, const char *name, char *out, size_t size,
	struct err *err)
{
	(void)err;
	const struct client *client = client_of(request);
	bool found = client->parameter && strcmp(name, client->parameter) == 0;
	snprintf(out, size, "%s", found ? client->value : "");
	return found;
}

int http_decode(const char *text, size_t len, char *out, size_t size)
{
	snprintf(out, size, "%.*s", (int)len, text);
	return (int)len;
}

struct http_response *http_response_create_borrowed(const char *content_type, const char *body,
	size_t len, void (*release)(void *context), void *context)
{
	struct http_response *response = http_response_create(content_type, body, len);
	release(context);
	return response;
}

struct http_response *http_response_create(const char *content_type, const char *body, size_t len)
{
	(void)content_type;
	struct http_response *response = calloc(1, sizeof(*response));
	response->body = strndup(body, len);
	return response;
}

void http_response_header(struct http_response *response, const char *name, const char *value)
{
	response->retry = response->retry || strcmp(name, "Retry-After") == 0;
	response->stale = response->stale || strcmp(value, "STALE") == 0;
}

void http_response_etag(struct http_response *response, const char *etag)
{
	http_response_header(response, "ETag", etag);
}

struct http_response *http_response_create_problem(int status, const char *title,
	const char *detail, const char *instance, json_t *members_take)
{
	(void)instance;
	json_decref(members_take);
	char *body;
	int len = asprintf(&body, "{\"title\":\"%s\",\"detail\":\"%s\"}", title, detail);
	struct http_response *response = http_response_create(
		"application/problem+json", body, (size_t)len);
	free(body);
	response->retry = status == 503;
	return response;
}

void http_response_free(struct http_response *response)
{
	if (response) {
		free(response->body);
		free(response);
	}
}

void http_answer(struct http_request *request, int status, struct http_response *response)
{
	struct client *client = client_of(request);
	cr_assert_eq(client->status, 0, "answered twice");
	client->status = status;
	snprintf(client->body, sizeof(client->body), "%s", response->body);
	client->retry = response->retry;
	client->stale = response->stale;
}

void http_on_closed(struct http_request *request, void (*on_closed)(void *context), void *context)
{
	client_of(request)->on_closed = on_closed;
	client_of(request)->on_closed_context = context;
}

void http_stream(struct http_request *request, const char *content_type, const char *fields,
	const struct http_stream_callbacks *callbacks)
{
	(void)content_type;
	(void)fields;
	client_of(request)->stream = *callbacks;
}

void http_stream_wake(struct http_request *request)
{
	client_of(request)->wakes++;
}

void http_stream_end(struct http_request *request)
{
	client_of(request)->ended = true;
}

void http_peer(const struct http_request *request, struct http_peer *peer)
{
	(void)request;
	peer->known = false;
}

bool http_watch(struct http_request *request, size_t total, size_t limit)
{
	(void)request;
	return total < limit;
}

bool http_search(struct http_request *request, size_t total, size_t limit)
{
	return http_watch(request, total, limit);
}

void http_end_search(const struct http_request *request)
{
	(void)request;
}

void http_hold(struct http_request *request, size_t bytes)
{
	client_of(request)->held = bytes;
}

struct http_response *http_response_pack(struct http_response *response_take)
{
	return response_take;
}

bool http_response_descriptor(struct http_response *response, int fd)
{
	(void)response;
	(void)fd;
	return false;
}

bool http_may_hand_over(const struct http_request *request)
{
	(void)request;
	return false;
}

bool http_has_room(const struct http_request *request)
{
	(void)request;
	return plain_http_has_room;
}

struct log_rate *http_log_rate(const struct http_request *request)
{
	static struct log_rate lines;
	(void)request;
	return &lines;
}

void http_set_lasting(struct http_request *request)
{
	(void)request;
}

void http_pin(const struct http_request *request)
{
	(void)request;
}

size_t http_connections(const struct http *http)
{
	(void)http;
	return 0;
}

#endif
