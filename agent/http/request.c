/*
 * A request as its handler sees it: the parts of its head, its parameters, and the client.
 */
#include <string.h>
#include <strings.h>

#include "agent/http/internal.h"
#include "agent/http/socket.h"
#include "lib/base/array.h"
#include "lib/base/hex.h"

static const struct {
	const char *name;
	enum http_method method;
} methods[] = {
	{ "GET", HTTP_GET },
	{ "HEAD", HTTP_HEAD },
	{ "POST", HTTP_POST },
	{ "PUT", HTTP_PUT },
	{ "DELETE", HTTP_DELETE },
	{ "OPTIONS", HTTP_OPTIONS },
	{ "PATCH", HTTP_OTHER },
	{ "TRACE", HTTP_OTHER },
};

static bool read_method(const char *text, enum http_method *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (strcmp(text, methods[i].name) == 0) {
			*ret = methods[i].method;
			return true;
		}
	}
	return false;
}

/* A client of a proxy names the host in the target too, and that counts: http://berth/live. */
static void read_target(struct http_request *request, const char *target, const char *host_field)
{
	static const char scheme[] = "http://";
	request->path = target;
	request->host = host_field ? host_field : "";
	request->host_len = strlen(request->host);
	if (*target != '/' && strncasecmp(target, scheme, sizeof(scheme) - 1) == 0) {
		request->host = target + sizeof(scheme) - 1;
		request->host_len = strcspn(request->host, "/");
		const char *path = request->host + request->host_len;
		request->path = *path ? path : "/";
	}
}

bool http_request_fill(struct connection *connection)
{
	const struct http_reader *reader = &connection->reader;
	struct http_request *request = &connection->request;
	read_target(
		request, http_reader_target(reader), http_reader_field(reader, HTTP_FIELD_HOST));
	request->query = http_reader_query(reader);
	request->accept = http_reader_field(reader, HTTP_FIELD_ACCEPT);
	request->cache_control = http_reader_field(reader, HTTP_FIELD_CACHE_CONTROL);
	request->if_none_match = http_reader_field(reader, HTTP_FIELD_IF_NONE_MATCH);
	request->last_event_id = http_reader_field(reader, HTTP_FIELD_LAST_EVENT_ID);
	request->prefer = http_reader_field(reader, HTTP_FIELD_PREFER);
	request->body = buffer_text(&connection->body);
	request->body_len = connection->body.len;
	return read_method(http_reader_method(reader), &request->method);
}

void http_peer(const struct http_request *request, struct http_peer *peer)
{
	*peer = (struct http_peer){ .known = false };
	if (request->local && !request->container) {
		http_socket_peer(http_connection_of(request)->io.fd, peer);
	}
}

/* ---- parameters ---- */

int http_decode(const char *text, size_t len, char *out, size_t size)
{
	const char *end = text + len;
	size_t count = 0;
	for (; text < end; text++) {
		int value = (unsigned char)*text;
		if (*text == '+') {
			value = ' ';
		} else if (*text == '%') {
			value = end - text > 2 ? hex_byte(text + 1) : -1;
			text += 2;
		}
		if (value < 0x20 || value == 0x7f || count + 1 >= size) {
			return -1;
		}
		out[count++] = (char)value;
	}
	out[count] = '\0';
	return (int)count;
}

int http_parameter(const struct http_request *request, const char *name, char *out, size_t size,
	struct err *err)
{
	size_t name_len = strlen(name);
	for (const char *at = request->query; *at; at += *at == '&') {
		size_t len = strcspn(at, "&");
		if (len > name_len && at[name_len] == '=' && memcmp(at, name, name_len) == 0) {
			const char *value = at + name_len + 1;
			return http_decode(value, len - name_len - 1, out, size) >= 0
				? 1
				: err_set(err, BERTH_FAILED,
					  "query parameter %s: not text of at most %zu bytes", name,
					  size - 1);
		}
		at += len;
	}
	return 0;
}
