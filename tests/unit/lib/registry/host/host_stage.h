/*
 * A registry of the host: backend on a server that obeys the test: its event stream, and the
 * questions that it is asked.
 */
#ifndef TESTS_UNIT_LIB_REGISTRY_HOST_STAGE_H
#define TESTS_UNIT_LIB_REGISTRY_HOST_STAGE_H

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/registry/registry.h"
#include "tests/support/registry_client.h"
#include "tests/support/scratch.h"

static struct {
	char folder[SCRATCH_PATH];
	struct sockaddr_un address;
	int listener;
	int stream;
	int post;
	char asked[65536];      /* the last question */
	int request_timeout_ms; /* 0: the default */
	struct registry *registry;
	enum registry_state state;
	int states; /* how many were reported */
	char why[512];
	char *container; /* as JSON text; "-" for no word */
} stage;

static inline void on_state(void *context, enum registry_state state, const char *why)
{
	(void)context;
	stage.state = state;
	stage.states++;
	snprintf(stage.why, sizeof(stage.why), "%s", why);
}

static inline void on_container(void *context, const json_t *container)
{
	(void)context;
	free(stage.container);
	stage.container = container ? json_dumps(container, JSON_COMPACT) : strdup("-");
}

static inline void dispatch(void)
{
	registry_dispatch(stage.registry, clock_monotonic_ms());
}

static inline void open_stage(void)
{
	char url[SCRATCH_PATH + 8];
	struct err err = ERR_INIT;
	scratch_folder(stage.folder);
	snprintf(url, sizeof(url), "host:%s", stage.folder);
	stage.address.sun_family = AF_UNIX;
	snprintf(stage.address.sun_path, sizeof(stage.address.sun_path), "%s/berth.sock",
		stage.folder);
	stage.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(stage.listener, (const struct sockaddr *)&stage.address,
			     sizeof(stage.address)),
		0);
	cr_assert_eq(listen(stage.listener, 5), 0);
	stage.stream = stage.post = -1;
	const struct registry_options options = { .url = url,
		.request_timeout_ms = stage.request_timeout_ms,
		.on_state = on_state,
		.on_container = on_container };
	cr_assert_eq(registry_open(&stage.registry, &options, &err), 0, "%s", err.msg);
}

static inline void close_stage(void)
{
	registry_close(stage.registry);
	int fds[] = { stage.stream, stage.post, stage.listener };
	for (size_t i = 0; i < 3; i++) {
		if (fds[i] >= 0) {
			close(fds[i]);
		}
	}
	unlink(stage.address.sun_path);
	rmdir(stage.folder);
	free(stage.container);
	stage.container = NULL;
}

static inline void send_text(int fd, const char *text)
{
	cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* One event; the registry takes it. */
static inline void tell(const char *event)
{
	char frame[8192];
	char chunk[8300];
	snprintf(frame, sizeof(frame), "%zu\n%s", strlen(event), event);
	snprintf(chunk, sizeof(chunk), "%zx\r\n%s\r\n", strlen(frame), frame);
	send_text(stage.stream, chunk);
	dispatch();
}

/* The registry has made the connection of its stream. */
static inline void accept_stream(const char *event)
{
	char request[1024] = "";
	stage.stream = accept(stage.listener, NULL, NULL);
	cr_assert_gt(recv(stage.stream, request, sizeof(request) - 1, 0), 0);
	cr_assert(strstr(request, "GET /v1/follow HTTP/1.1\r\n") == request, "%s", request);
	send_text(stage.stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	tell(event);
}

static inline void subscribe_as(const char *event)
{
	dispatch();
	accept_stream(event);
}

#define SUBSCRIBED                                                                                 \
	"{\"type\":\"SUBSCRIBED\",\"heartbeat_interval_seconds\":60,\"stream_id\":\"a1\","         \
	"\"session_timeout_ms\":9000,\"connected\":true,\"container\":{\"name\":\"web-1\"}}"

static inline void read_question(void)
{
	size_t len = 0;
	dispatch();
	if (stage.post < 0) {
		stage.post = accept(stage.listener, NULL, NULL);
	}
	struct pollfd readable = { .fd = stage.post, .events = POLLIN };
	memset(stage.asked, 0, sizeof(stage.asked));
	while (poll(&readable, 1, 0) == 1) {
		ssize_t got = recv(stage.post, stage.asked + len, sizeof(stage.asked) - 1 - len, 0);
		cr_assert_gt(got, 0);
		len += (size_t)got;
	}
	cr_assert_gt(len, 0, "nothing is asked");
	cr_assert(strstr(stage.asked, "POST /v1/follow/a1 HTTP/1.1\r\n") == stage.asked, "%s",
		stage.asked);
}

static inline void answer_question(const char *answer)
{
	send_text(stage.post, answer);
	dispatch();
}

static inline void take_question(void)
{
	read_question();
	answer_question("HTTP/1.1 204 No Content\r\n\r\n");
}

static inline bool asks(const char *text)
{
	return strstr(stage.asked, text) != NULL;
}

/* A stage whose stream flows, and which knows when the registry was heard: long ago. */
static inline void begin(void)
{
	open_stage();
	subscribe_as(SUBSCRIBED);
	cr_assert_eq(stage.state, REGISTRY_CONNECTED);
	take_question();
	cr_assert(asks("\"confirms\":[{\"id\":1,\"max_age_ms\":3000}]"), "%s", stage.asked);
	tell("{\"type\":\"CONFIRMED\",\"id\":1}");
}

#define STAT "\"created_ms\":7,\"modified_ms\":8,\"node_id\":9,\"version\":3,\"size\":21"
#define RECORD "{\\\"type\\\":\\\"JSONServiceRecord\\\"}"

#endif
