/*
 * The host's agent as a container's agent reads it: each line of the input is an event of GET
 * /v1/follow. With any events the registry asks for its users' wishes alone, answers a request
 * once, and never claims that the server was heard later than it asked.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/registry/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char folder[64];
static struct sockaddr_un address;
static int listener = -1;

static void remove_folder(void)
{
	unlink(address.sun_path);
	rmdir(folder);
}

static void start_listening(void)
{
	snprintf(folder, sizeof(folder), "/tmp/fuzz-host-%d", (int)getpid());
	(void)mkdir(folder, 0700);
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/berth.sock", folder);
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert(bind(listener, (const struct sockaddr *)&address, sizeof(address)) == 0);
	assert(listen(listener, 8) == 0);
	atexit(remove_folder);
}

struct stage {
	struct registry *registry;
	int stream;
	int post;
	int answers[3];
};

static void dispatch(struct stage *stage)
{
	int64_t now_ms = clock_monotonic_ms();
	registry_dispatch(stage->registry, now_ms);
	assert(registry_heard_ms(stage->registry, now_ms) <= clock_monotonic_ms());
}

static bool send_text(int fd, const char *text, size_t len)
{
	return send(fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

/* The question, if there is one, gets its 204. */
static void answer_question(struct stage *stage)
{
	static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";
	char question[64 * 1024];
	dispatch(stage);
	if (stage->post < 0) {
		stage->post = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	}
	ssize_t got = stage->post < 0 ? -1 : recv(stage->post, question, sizeof(question), 0);
	if (got > 0) {
		assert(memcmp(question, "POST /v1/follow/", 16) == 0 ||
			memcmp(question, "GET /v1/follow ", 15) == 0);
		(void)send_text(stage->post, answer, strlen(answer));
	} else if (got == 0) {
		close(stage->post);
		stage->post = -1;
	}
	dispatch(stage);
}

static void tell(struct stage *stage, const char *event, size_t len)
{
	char head[64];
	char length[32];
	int length_len = snprintf(length, sizeof(length), "%zu\n", len);
	int head_len = snprintf(head, sizeof(head), "%zx\r\n%s", len + (size_t)length_len, length);
	(void)(send_text(stage->stream, head, (size_t)head_len) &&
		send_text(stage->stream, event, len) && send_text(stage->stream, "\r\n", 2));
	answer_question(stage);
}

static void on_change(void *context, const struct registry_result *result)
{
	(void)context;
	assert(result->err.code == 0 || result->err.msg[0]);
}

static void on_answer(void *context, const struct registry_result *result)
{
	int *answers = context;
	assert(++*answers == 1);
	on_change(NULL, result);
}

static void subscribe(struct stage *stage)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const char event[] =
		"{\"type\":\"SUBSCRIBED\",\"stream_id\":\"a1\",\"connected\":true,"
		"\"session_timeout_ms\":9000,\"container\":{\"name\":\"web-1\"}}";
	char request[1024];
	dispatch(stage);
	stage->stream = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert(stage->stream >= 0 && recv(stage->stream, request, sizeof(request), 0) > 0);
	(void)send_text(stage->stream, head, strlen(head));
	tell(stage, event, strlen(event));
	assert(registry_state(stage->registry) == REGISTRY_CONNECTED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct stage stage = { .stream = -1, .post = -1 };
	struct err err = ERR_INIT;
	char url[80];
	if (len > 16 * 1024) {
		return 0; /* as much as a socket holds at once */
	}
	if (listener < 0) {
		start_listening();
	}
	snprintf(url, sizeof(url), "host:%s", folder);
	const struct registry_options options = { .url = url };
	assert(registry_open(&stage.registry, &options, &err) == 0);
	subscribe(&stage);
	struct registry_watch *watches[] = {
		registry_watch(stage.registry, "/a", REGISTRY_WATCH_DATA, on_change, NULL),
		registry_watch(stage.registry, "/a", REGISTRY_WATCH_CHILDREN, on_change, NULL),
	};
	registry_stat(stage.registry, "/b", on_answer, &stage.answers[0]);
	registry_list(stage.registry, "/b", on_answer, &stage.answers[1]);
	registry_confirm(stage.registry, 0, on_answer, &stage.answers[2]);
	answer_question(&stage);
	const char *at = (const char *)data;
	const char *end = at + len;
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		tell(&stage, at, (size_t)(stop - at));
		at = stop + 1;
	}
	registry_unwatch(watches[0]);
	answer_question(&stage);
	registry_close(stage.registry);
	close(stage.stream);
	if (stage.post >= 0) {
		close(stage.post);
	}
	for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
		close(fd);
	}
	return 0;
}
