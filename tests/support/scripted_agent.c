#include "tests/support/scripted_agent.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un address;
static int listener = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The answers to come; the last one stays. */
static struct answer {
	uint8_t *bytes;
	size_t len;
} answers[2];
static size_t next;

static void remove_socket(void)
{
	unlink(address.sun_path);
}

/* The request is read first: bytes that nobody read would break the connection. */
static void serve(int fd)
{
	char request[64 * 1024];
	if (recv(fd, request, sizeof(request), 0) <= 0) {
		return;
	}
	pthread_mutex_lock(&lock);
	const struct answer *answer = &answers[next];
	next = 1;
	for (size_t sent = 0; sent < answer->len;) {
		ssize_t part = send(fd, answer->bytes + sent, answer->len - sent, MSG_NOSIGNAL);
		if (part <= 0) {
			break;
		}
		sent += (size_t)part;
	}
	pthread_mutex_unlock(&lock);
}

static void *run(void *context)
{
	(void)context;
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) {
			serve(fd);
			close(fd);
		}
	}
	return NULL;
}

static void start(void)
{
	pthread_t thread;
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/scripted-agent-%d",
		(int)getpid());
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int failed = bind(listener, (const struct sockaddr *)&address, sizeof(address)) ||
		listen(listener, 64) || pthread_create(&thread, NULL, run, NULL);
	assert(!failed);
	atexit(remove_socket);
}

static void replace(struct answer *answer, const uint8_t *bytes, size_t len)
{
	free(answer->bytes);
	answer->bytes = malloc(len + 1);
	assert(answer->bytes);
	memcpy(answer->bytes, bytes, len);
	answer->len = len;
}

void scripted_agent_set_two(
	const uint8_t *first, size_t first_len, const uint8_t *second, size_t second_len)
{
	if (listener < 0) {
		start();
	}
	pthread_mutex_lock(&lock);
	replace(&answers[0], first, first_len);
	replace(&answers[1], second, second_len);
	next = 0;
	pthread_mutex_unlock(&lock);
}

void scripted_agent_set(const uint8_t *answer, size_t len)
{
	scripted_agent_set_two(answer, len, answer, len);
}

const char *scripted_agent_path(void)
{
	return address.sun_path;
}
