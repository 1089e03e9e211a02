/*
 * Both ends of a comparison, for bench_lookup.py:
 *
 *     load serve SOCKET ANSWER
 *         a responder with nothing but libev: each request gets the bytes of the file ANSWER
 *     load ask ADDRESS CLIENTS SECONDS REQUESTS LEN [GREETING]
 *         clients in a closed loop: each sends a random one of the requests (LEN bytes each) in the
 *         file, and waits for its answer; prints rate, p50 and p99 in microseconds
 *
 * ADDRESS is a socket's path or 127.0.0.1:PORT. With SECONDS 0 every request is made once. All
 * answers must be of one length, which the first one shows; a GREETING is sent, and answered, once
 * a connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 64, SAMPLES_MAX = 1 << 22, BUFFER_BYTES = 256 * 1024, QUIET_MS = 200 };

struct bytes {
	char *data;
	size_t len;
};

static void give_up(const char *what)
{
	perror(what);
	exit(1);
}

static struct bytes read_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat status;
	if (!file || fstat(fileno(file), &status) < 0) {
		give_up(path);
	}
	struct bytes bytes = { malloc((size_t)status.st_size + 1), (size_t)status.st_size };
	if (!bytes.data || fread(bytes.data, 1, bytes.len, file) != bytes.len) {
		give_up(path);
	}
	fclose(file);
	return bytes;
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct sockaddr_un unix_address(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	return address;
}

/* ---- the responder ---- */

static struct bytes answer;

static void on_request(struct ev_loop *loop, ev_io *io, int events)
{
	(void)events;
	char request[4096];
	ssize_t len = read(io->fd, request, sizeof(request) - 1);
	request[len > 0 ? len : 0] = '\0';
	if (len <= 0 ||
		(strstr(request, "\r\n\r\n") &&
			send(io->fd, answer.data, answer.len, MSG_NOSIGNAL) < 0)) {
		ev_io_stop(loop, io);
		close(io->fd);
		free(io);
	}
}

static void on_client(struct ev_loop *loop, ev_io *listener, int events)
{
	(void)events;
	int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK);
	ev_io *io = fd < 0 ? NULL : calloc(1, sizeof(*io));
	if (io) {
		ev_io_init(io, on_request, fd, EV_READ);
		ev_io_start(loop, io);
	}
}

static int serve(const char *path, const char *answer_file)
{
	struct sockaddr_un address = unix_address(path);
	struct ev_loop *loop = ev_default_loop(0);
	ev_io listener;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	answer = read_file(answer_file);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 64) < 0) {
		give_up(path);
	}
	ev_io_init(&listener, on_client, fd, EV_READ);
	ev_io_start(loop, &listener);
	ev_run(loop, 0);
	return 0;
}

/* ---- the clients ---- */

struct client {
	int fd;
	size_t received;
	double sent_at;
};

static struct bytes requests;
static size_t request_len;
static size_t answer_len;
static char received[BUFFER_BYTES];
static float *samples;
static size_t sample_count;
static uint64_t random_state = 88172645463325252u;

static int connect_to(const char *address)
{
	const char *colon = strrchr(address, ':');
	struct sockaddr_un local = unix_address(address);
	struct sockaddr_in remote = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)(colon ? atoi(colon + 1) : 0)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(colon ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, colon ? (struct sockaddr *)&remote : (struct sockaddr *)&local,
		    colon ? sizeof(remote) : sizeof(local)) < 0) {
		give_up(address);
	}
	return fd;
}

static void send_all(int fd, const char *data, size_t len)
{
	if (write(fd, data, len) != (ssize_t)len) {
		give_up("write");
	}
}

/* An answer of unknown length is over when nothing more comes. */
static size_t read_until_quiet(int fd)
{
	size_t len = 0;
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	while (poll(&pollfd, 1, len ? QUIET_MS : 10000) == 1) {
		ssize_t more = read(fd, received, sizeof(received));
		if (more <= 0) {
			give_up("the server closed");
		}
		len += (size_t)more;
	}
	return len;
}

static void send_next(struct client *client, size_t index)
{
	client->received = 0;
	client->sent_at = now_s();
	send_all(client->fd, requests.data + index * request_len, request_len);
}

static size_t pick(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % (requests.len / request_len);
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a;
	float y = *(const float *)b;
	return (x > y) - (x < y);
}

/* True when the answer is complete. */
static int receive(struct client *client)
{
	ssize_t len = read(client->fd, received, sizeof(received));
	if (len <= 0) {
		give_up("the server closed");
	}
	client->received += (size_t)len;
	if (client->received > answer_len) {
		fprintf(stderr, "an answer of %zu bytes among those of %zu\n", client->received,
			answer_len);
		exit(1);
	}
	return client->received == answer_len;
}

static void ask_each_once(struct client *client)
{
	for (size_t i = 0; i < requests.len / request_len; i++) {
		send_next(client, i);
		size_t len = 0;
		/* The first answers differ in length from hits: "MISS". */
		while (len < answer_len - 8) {
			ssize_t more = read(client->fd, received, sizeof(received));
			if (more <= 0) {
				give_up("the server closed");
			}
			len += (size_t)more;
		}
	}
}

static void ask_for(struct client *clients, int count, double seconds)
{
	struct pollfd pollfds[CLIENTS_MAX];
	double end = now_s() + seconds;
	for (int i = 0; i < count; i++) {
		pollfds[i] = (struct pollfd){ .fd = clients[i].fd, .events = POLLIN };
		send_next(&clients[i], pick());
	}
	while (now_s() < end) {
		/* One client just waits for its answer, as a program would. */
		if (count > 1 && poll(pollfds, (nfds_t)count, -1) < 0) {
			give_up("poll");
		}
		for (int i = 0; i < count; i++) {
			if ((count > 1 && !pollfds[i].revents) || !receive(&clients[i])) {
				continue;
			}
			if (sample_count < SAMPLES_MAX) {
				samples[sample_count++] = (float)((now_s() - clients[i].sent_at) *
					1e6);
			}
			send_next(&clients[i], pick());
		}
	}
}

static int ask(char **arguments, const char *greeting_file)
{
	struct client clients[CLIENTS_MAX];
	int count = atoi(arguments[1]);
	double seconds = atof(arguments[2]);
	requests = read_file(arguments[3]);
	request_len = strtoul(arguments[4], NULL, 10);
	samples = malloc(SAMPLES_MAX * sizeof(*samples));
	for (int i = 0; i < count && i < CLIENTS_MAX; i++) {
		clients[i].fd = connect_to(arguments[0]);
		if (greeting_file) {
			struct bytes greeting = read_file(greeting_file);
			send_all(clients[i].fd, greeting.data, greeting.len);
			read_until_quiet(clients[i].fd);
			free(greeting.data);
		}
	}
	for (int round = 0; round < 2; round++) { /* the second one is a hit */
		send_next(&clients[0], 0);
		answer_len = read_until_quiet(clients[0].fd);
	}
	if (seconds <= 0) {
		ask_each_once(&clients[0]);
		return 0;
	}
	ask_for(clients, count, seconds);
	qsort(samples, sample_count, sizeof(*samples), compare);
	printf("%.0f %.2f %.2f\n", (double)sample_count / seconds,
		(double)samples[sample_count / 2], (double)samples[sample_count * 99 / 100]);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "serve") == 0) {
		return serve(argv[2], argv[3]);
	}
	if (argc >= 7 && strcmp(argv[1], "ask") == 0) {
		return ask(argv + 2, argc > 7 ? argv[7] : NULL);
	}
	fprintf(stderr, "usage: see the head of the source\n");
	return 2;
}
