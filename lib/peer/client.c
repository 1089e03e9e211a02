#include "lib/peer/client.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/json_read.h"
#include "lib/base/text.h"
#include "lib/http/reader.h"
#include "lib/base/clock.h"

#define DEFAULT_SOCKET BERTH_RUNSTATEDIR "/berth/berth.sock"

enum { READ_BYTES = 64 * 1024, QUEUE_FULL_WAIT_MS = 5, REQUEST_BYTES = 1024 * 1024 };

struct client {
	char *socket_path;
	int fd; /* -1 while not connected */
	struct http_reader reader;
	struct berth_freshness freshness; /* of the last answer, whatever its status was */
	char tag[BERTH_TAG_BYTES];        /* likewise */
};

/* How far an attempt came: what is safe to try again depends on it. */
enum attempt { ATTEMPT_DONE, ATTEMPT_FAILED, ATTEMPT_NOT_SENT, ATTEMPT_NOT_ANSWERED };

const char *client_socket(const char *where)
{
	static const char prefix[] = "unix:";
	where = where && *where ? where : secure_getenv("BERTH_SOCKET");
	where = where && *where ? where : DEFAULT_SOCKET;
	return strncmp(where, prefix, strlen(prefix)) == 0 ? where + strlen(prefix) : where;
}

int client_create(struct client **ret_client, const char *socket_path, struct err *err)
{
	struct sockaddr_un address;
	if (strlen(socket_path) >= sizeof(address.sun_path)) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"%s: the path of a socket has at most %zu bytes", socket_path,
			sizeof(address.sun_path) - 1);
	}
	struct client *client = calloc(1, sizeof(*client));
	if (!client || !(client->socket_path = strdup(socket_path))) {
		free(client);
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	client->fd = -1;
	http_reader_init(&client->reader, HTTP_ANSWER);
	*ret_client = client;
	return 0;
}

static void disconnect(struct client *client)
{
	if (client->fd >= 0) {
		close(client->fd);
		client->fd = -1;
	}
}

void client_free(struct client *client)
{
	if (!client) {
		return;
	}
	disconnect(client);
	http_reader_finish(&client->reader);
	free(client->socket_path);
	free(client);
}

const char *client_socket_path(const struct client *client)
{
	return client->socket_path;
}

/* ---- the connection ---- */

static int connect_failed(const char *socket_path, int reason, struct err *err)
{
	if (reason == EACCES || reason == EPERM) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS,
			"cannot reach the agent at %s: %s; socket_mode and socket_group in section "
			"[agent] of its configuration name the users who may connect",
			socket_path, strerror(reason));
	}
	return err_set_errno(
		err, BERTH_AGENT_UNAVAILABLE, reason, "cannot reach the agent at %s", socket_path);
}

int client_connect(const char *socket_path, int64_t deadline_ms, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	memccpy(address.sun_path, socket_path, '\0', sizeof(address.sun_path) - 1);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot make a socket");
	}
	while (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		int reason = errno;
		if (reason == EAGAIN && clock_monotonic_ms() < deadline_ms) {
			/* The agent's queue is full; no event reports when it no longer is. */
			poll(NULL, 0, QUEUE_FULL_WAIT_MS);
			continue;
		}
		close(fd);
		return connect_failed(socket_path, reason, err);
	}
	return fd;
}

static int wait_for(struct client *client, short events, int64_t deadline_ms, struct err *err)
{
	for (;;) {
		int64_t left_ms = deadline_ms - clock_monotonic_ms();
		struct pollfd poller = { .fd = client->fd, .events = events };
		int ready = left_ms > 0 ? poll(&poller, 1, (int)left_ms) : 0;
		if (ready > 0) {
			return 0;
		}
		if (ready == 0) {
			return err_set(err, BERTH_TIMEOUT, "the agent at %s did not answer in time",
				client->socket_path);
		}
		if (errno != EINTR) {
			return err_set_errno(err, BERTH_FAILED, errno, "cannot wait for the agent");
		}
	}
}

/* True when the agent has closed the idle connection, or sends bytes without a request. */
static bool idle_connection_dead(const struct client *client)
{
	char byte;
	ssize_t got = recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* ---- one request ---- */

static enum attempt send_all(
	struct client *client, const struct buffer *request, int64_t deadline_ms, struct err *err)
{
	size_t sent = 0;
	while (sent < request->len) {
		ssize_t put = send(
			client->fd, request->data + sent, request->len - sent, MSG_NOSIGNAL);
		if (put >= 0) {
			sent += (size_t)put;
		} else if (errno == EAGAIN) {
			if (wait_for(client, POLLOUT, deadline_ms, err) != 0) {
				return ATTEMPT_FAILED;
			}
		} else if (errno != EINTR) {
			err_set_errno(err, BERTH_AGENT_UNAVAILABLE, errno,
				"the agent at %s broke the connection", client->socket_path);
			return ATTEMPT_NOT_SENT;
		}
	}
	return ATTEMPT_DONE;
}

static enum attempt receive(
	struct client *client, struct buffer *body, int64_t deadline_ms, struct err *err)
{
	char bytes[READ_BYTES];
	bool begun = false;
	http_reader_restart(&client->reader);
	while (client->reader.state != HTTP_READER_DONE) {
		ssize_t got = recv(client->fd, bytes, sizeof(bytes), 0);
		if (got > 0) {
			size_t used;
			begun = true;
			if (http_reader_feed(
				    &client->reader, bytes, (size_t)got, body, &used, err) != 0) {
				return ATTEMPT_FAILED;
			}
		} else if (got == 0 || errno == ECONNRESET) {
			err_set(err, BERTH_AGENT_UNAVAILABLE,
				"the agent at %s closed the connection "
				"before its answer was complete",
				client->socket_path);
			return begun ? ATTEMPT_FAILED : ATTEMPT_NOT_ANSWERED;
		} else if (errno == EAGAIN) {
			if (wait_for(client, POLLIN, deadline_ms, err) != 0) {
				return ATTEMPT_FAILED;
			}
		} else if (errno != EINTR) {
			err_set_errno(err, BERTH_FAILED, errno, "cannot read the agent's answer");
			return ATTEMPT_FAILED;
		}
	}
	return ATTEMPT_DONE;
}

static int write_request(struct buffer *out, const struct client_request *request, struct err *err)
{
	buffer_printf(out, "%s %s HTTP/1.1\r\nHost: berth\r\nAccept: %s\r\n", request->method,
		request->target, request->accept ? request->accept : "application/json");
	if (request->tag) {
		buffer_printf(out, "If-None-Match: %s\r\nPrefer: wait=%u\r\n", request->tag,
			request->wait_s);
	}
	if (request->shared) {
		buffer_append_text(out, "Prefer: shared\r\n");
	}
	if (request->no_cache) {
		buffer_append_text(out, "Cache-Control: no-cache\r\n");
	}
	if (request->body) {
		buffer_printf(out,
			"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			strlen(request->body), request->body);
	} else if (strcmp(request->method, "GET") != 0) {
		buffer_append_text(out, "Content-Length: 0\r\n\r\n");
	} else {
		buffer_append_text(out, "\r\n");
	}
	return out->failed ? err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long") : 0;
}

static enum attempt attempt(struct client *client, const struct buffer *text, struct buffer *body,
	int64_t deadline_ms, struct err *err)
{
	if (client->fd < 0) {
		int fd = client_connect(client->socket_path, deadline_ms, err);
		if (fd < 0) {
			return ATTEMPT_FAILED;
		}
		client->fd = fd;
	}
	enum attempt result = send_all(client, text, deadline_ms, err);
	if (result == ATTEMPT_DONE) {
		result = receive(client, body, deadline_ms, err);
	}
	if (result != ATTEMPT_DONE || !client->reader.keep_alive) {
		disconnect(client);
	}
	return result;
}

/* Sends, and sends again when a kept connection turns out to be closed. */
static int exchange(struct client *client, const struct client_request *request,
	struct buffer *body, int64_t deadline_ms, struct err *err)
{
	struct buffer text;
	buffer_init(&text, REQUEST_BYTES);
	int ret = write_request(&text, request, err);
	if (ret == 0) {
		if (client->fd >= 0 && idle_connection_dead(client)) {
			disconnect(client);
		}
		bool kept = client->fd >= 0;
		struct err first = ERR_INIT;
		enum attempt result = attempt(client, &text, body, deadline_ms, &first);
		bool again = result == ATTEMPT_NOT_SENT ||
			(result == ATTEMPT_NOT_ANSWERED && strcmp(request->method, "POST") != 0);
		if (kept && again) {
			result = attempt(client, &text, body, deadline_ms, err);
		} else if (result != ATTEMPT_DONE) {
			err_set(err, first.code, "%s", first.msg);
		}
		ret = result == ATTEMPT_DONE ? 0 : err->code;
	}
	buffer_finish(&text);
	return ret;
}

/* ---- the answer ---- */

static int code_of_status(int status)
{
	switch (status) {
	case 403:
		return BERTH_NO_PATH_PERMISSIONS;
	case 404:
		return BERTH_PATH_NOT_FOUND;
	case 413:
	case 422:
		return BERTH_LIMIT_EXCEEDED;
	case 503:
		return BERTH_REGISTRY_UNAVAILABLE;
	case 504:
		return BERTH_TIMEOUT;
	default:
		return BERTH_FAILED;
	}
}

int client_problem(int status, const struct buffer *body, struct err *err)
{
	json_t *problem = json_read(buffer_text(body), body->len, 0, NULL);
	const char *title = json_string_value(json_object_get(problem, "title"));
	const char *detail = json_string_value(json_object_get(problem, "detail"));
	int code = title ? berth_error_from_name(title) : BERTH_OK;
	if (code == BERTH_OK || (code == BERTH_FAILED && strcmp(title, "Failed") != 0)) {
		code = code_of_status(status);
	}
	if (detail && *detail) {
		err_set(err, code, "%s", detail);
	} else if (title && *title) {
		err_set(err, code, "the agent answered: %s", title);
	} else {
		err_set(err, code, "the agent answered with HTTP status %d", status);
	}
	json_decref(problem);
	return code;
}

static void read_freshness(const struct http_reader *reader, struct berth_freshness *freshness)
{
	const char *age = http_reader_field(reader, HTTP_FIELD_AGE);
	const char *cache = http_reader_field(reader, HTTP_FIELD_X_CACHE);
	freshness->age_s = age ? strtol(age, NULL, 10) : 0;
	freshness->stale = cache && strcmp(cache, "STALE") == 0;
}

static void read_tag(const struct http_reader *reader, char to[BERTH_TAG_BYTES])
{
	const char *tag = http_reader_field(reader, HTTP_FIELD_ETAG);
	text_printf(to, BERTH_TAG_BYTES, "%s", tag ? tag : "");
}

int client_check_filter(const char *target, const struct http_reader *reader, struct err *err)
{
	const char *query = strchr(target, '?');
	bool overlooked = query && strstr(query, "attribute.") &&
		!http_reader_field(reader, HTTP_FIELD_X_FILTER);
	return overlooked ? err_set(err, BERTH_FAILED,
				    "this agent is older: it does not filter by attributes")
			  : 0;
}

int client_call(struct client *client, const struct client_request *request, int timeout_ms,
	struct client_response *ret, struct buffer *ret_problem, struct err *err)
{
	struct client_response response = { .tag = "" };
	client->freshness = (struct berth_freshness){ .stale = false };
	client->tag[0] = '\0';
	buffer_init(&response.body, CLIENT_BODY_BYTES);
	int64_t deadline_ms = clock_monotonic_ms() + timeout_ms + (int64_t)request->wait_s * 1000;
	int code = exchange(client, request, &response.body, deadline_ms, err);
	if (code == 0) {
		read_freshness(&client->reader, &client->freshness);
		read_tag(&client->reader, client->tag);
	}
	if (code == 0 && client->reader.status == 304) {
		code = err_set(err, BERTH_TIMEOUT, "nothing has changed");
	} else if (code == 0 && client->reader.status / 100 != 2) {
		code = client_problem(client->reader.status, &response.body, err);
		if (ret_problem) {
			buffer_append(ret_problem, response.body.data, response.body.len);
		}
	} else if (code == 0) {
		code = client_check_filter(request->target, &client->reader, err);
	}
	if (code != 0) {
		buffer_finish(&response.body);
		return code;
	}
	memcpy(response.tag, client->tag, sizeof(response.tag));
	*ret = response;
	return 0;
}

struct berth_freshness client_freshness(const struct client *client)
{
	return client->freshness;
}

const char *client_tag(const struct client *client)
{
	return client->tag;
}

void client_set_fresh(struct client *client)
{
	client->freshness = (struct berth_freshness){ .stale = false };
}

void client_response_finish(struct client_response *response)
{
	buffer_finish(&response->body);
}
