#include "nss/query.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/http/reader.h"

#define SOCKET_PATH BERTH_RUNSTATEDIR "/berth/berth.sock"
#define PATIENCE_MS 3000 /* the agent itself waits 2 s for a name that it has to read */
#define MAX_ANSWER_BYTES (256 << 10)

/* The agent sets this for itself and its commands: it must not wait for its own answer. */
static bool may_ask(void)
{
	const char *word = secure_getenv("BERTH_NSS");
	return !word || strcmp(word, "off") != 0;
}

static int connect_to_agent(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = secure_getenv("BERTH_SOCKET");
	path = path && *path ? path : SOCKET_PATH;
	if (strlen(path) >= sizeof(address.sun_path)) {
		return -1;
	}
	strcpy(address.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* On a Unix socket connecting is done at once or not at all. */
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool wait_for(int fd, short events, int64_t deadline_ms)
{
	int64_t left = deadline_ms - clock_monotonic_ms();
	struct pollfd descriptor = { .fd = fd, .events = events };
	return left > 0 && poll(&descriptor, 1, (int)left) > 0;
}

static bool send_request(int fd, const char *name, int64_t deadline_ms)
{
	char request[NSS_NAME_BYTES + 128];
	int len = snprintf(request, sizeof(request),
		"GET /v1/names/%s HTTP/1.1\r\nHost: berth\r\nAccept: text/plain\r\n"
		"Connection: close\r\n\r\n",
		name);
	for (int sent = 0; sent < len;) {
		ssize_t part = send(fd, request + sent, (size_t)(len - sent), MSG_NOSIGNAL);
		if (part >= 0) {
			sent += (int)part;
		} else if (errno != EAGAIN || !wait_for(fd, POLLOUT, deadline_ms)) {
			return false;
		}
	}
	return true;
}

/* The status of the answer, 0 without an answer; `body` receives its body. */
static int read_answer(int fd, struct buffer *body, int64_t deadline_ms)
{
	struct http_reader reader;
	char bytes[4096];
	int status = 0;
	http_reader_init(&reader, HTTP_ANSWER);
	while (wait_for(fd, POLLIN, deadline_ms)) {
		ssize_t len = recv(fd, bytes, sizeof(bytes), 0);
		if (len <= 0) {
			break;
		}
		const char *at = bytes;
		enum http_event event;
		do {
			event = http_reader_next(&reader, &at, bytes + len);
			if (event == HTTP_EVENT_BODY) {
				buffer_append(body, reader.body, reader.body_len);
			}
		} while (event == HTTP_EVENT_HEAD || event == HTTP_EVENT_BODY);
		if (event == HTTP_EVENT_END && !body->failed) {
			status = reader.status;
		}
		if (event != HTTP_EVENT_MORE) {
			break;
		}
	}
	http_reader_finish(&reader);
	return status;
}

static void add_address(struct nss_answer *answer, int family, const char *text)
{
	struct nss_address *address = &answer->addresses[answer->count];
	if (answer->count < NSS_MAX_ADDRESSES && inet_pton(family, text, &address->bytes) == 1) {
		address->family = family;
		answer->count++;
	}
}

/* Lines of a type, a blank and its data, as PROTOCOL.md has them. */
static void read_lines(struct nss_answer *answer, char *text)
{
	char *rest = text;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *data = strchr(line, ' ');
		if (!data) {
			continue;
		}
		*data++ = '\0';
		if (strcmp(line, "A") == 0) {
			add_address(answer, AF_INET, data);
		} else if (strcmp(line, "AAAA") == 0) {
			add_address(answer, AF_INET6, data);
		} else if ((strcmp(line, "CNAME") == 0 || strcmp(line, "PTR") == 0) &&
			strlen(data) < sizeof(answer->name) && !answer->name[0]) {
			strcpy(answer->name, data);
		}
	}
}

static enum nss_query_status ask(struct nss_answer *ret_answer, const char *name)
{
	int64_t deadline_ms = clock_monotonic_ms() + PATIENCE_MS;
	int fd = may_ask() ? connect_to_agent() : -1;
	if (fd < 0) {
		return NSS_QUERY_NO_AGENT;
	}
	struct buffer body;
	buffer_init(&body, MAX_ANSWER_BYTES);
	int status = send_request(fd, name, deadline_ms) ? read_answer(fd, &body, deadline_ms) : 0;
	close(fd);
	if (status == 200 && body.data) {
		read_lines(ret_answer, body.data);
	}
	buffer_finish(&body);
	switch (status) {
	case 200:
		return NSS_QUERY_FOUND;
	case 400:
	case 404:
		return NSS_QUERY_ABSENT;
	default:
		return NSS_QUERY_LATER;
	}
}

enum nss_query_status nss_query_name(struct nss_answer *ret_answer, const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	ret_answer->count = 0;
	ret_answer->name[0] = '\0';
	/*
	 * Single labels are host names of this machine; a name with other bytes cannot be in the
	 * registry.
	 */
	if (!strchr(name, '.') || strlen(name) >= NSS_NAME_BYTES ||
		strspn(name, allowed) != strlen(name)) {
		return NSS_QUERY_ABSENT;
	}
	return ask(ret_answer, name);
}

enum nss_query_status nss_query_address(
	struct nss_answer *ret_answer, int family, const void *address)
{
	char name[NSS_NAME_BYTES];
	const uint8_t *bytes = address;
	char *at = name;
	ret_answer->count = 0;
	ret_answer->name[0] = '\0';
	if (family == AF_INET) {
		snprintf(name, sizeof(name), "%u.%u.%u.%u.in-addr.arpa", bytes[3], bytes[2],
			bytes[1], bytes[0]);
	} else {
		for (size_t i = sizeof(struct in6_addr); i-- > 0;) {
			at += sprintf(at, "%x.%x.", bytes[i] & 15, bytes[i] >> 4);
		}
		strcpy(at, "ip6.arpa");
	}
	return ask(ret_answer, name);
}
