/* The server as a whole: its sockets, its limits, and the way of connections to a successor. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/http/socket.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
#include "tests/support/http_stage.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

TestSuite(http_server, .init = http_stage_begin, .fini = http_stage_end);

static bool stands(void)
{
	struct stat status;
	return stat(http_stage.path, &status) == 0;
}

static bool serves(void)
{
	int fd = http_stage_connect();
	bool good = strcmp(http_stage_ask(fd, GET), HTTP_STAGE_HELLO) == 0;
	close(fd);
	http_stage_turn();
	return good;
}

/* ---- opening and closing ---- */

Test(http_server, takes_all_with_it_when_it_closes)
{
	http_stage_open_tcp();
	int before = descriptors_count();
	int fds[] = { http_stage_connect(), http_stage_connect(), http_stage_connect() };
	int woken = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fds[0], GET);
	http_stage_send(fds[1], GET);
	http_stage_send(woken, GET GET);
	http_stage_hello(http_stage.request);
	http_close(http_stage.http);
	cr_expect_eq(http_stage.closed, 2);
	for (int i = 0; i < 3; i++) {
		char byte;
		cr_expect_eq(recv(fds[i], &byte, 1, MSG_DONTWAIT), 0);
		close(fds[i]);
	}
	close(woken);
	cr_expect_not(stands());
	cr_expect_eq(descriptors_count(), before - 2);
	cr_expect_not(ev_run(http_stage.loop, EVRUN_NOWAIT), "no watcher is left");
	http_stage.http = NULL;
	http_close(NULL);
}

Test(http_server, leaves_no_half_when_it_cannot_open)
{
	struct err err = ERR_INIT;
	struct http *http = NULL;
	http_close(http_stage.http);
	http_stage.http = NULL;
	int before = descriptors_count();
	http_stage.options.listen = "no address";
	cr_expect_eq(http_open(&http, http_stage.loop, &http_stage.options, &err), BERTH_FAILED);
	cr_expect(strstr(err.msg, "listen address no address"), "%s", err.msg);
	err_clear(&err);
	http_stage.options.listen = "";
	http_stage.options.socket_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cr_expect_eq(http_open(&http, http_stage.loop, &http_stage.options, &err), BERTH_FAILED);
	cr_expect(strstr(err.msg, "is not a listening socket"), "%s", err.msg);
	close(http_stage.options.socket_fd);
	cr_expect_null(http);
	cr_expect_not(stands());
	cr_expect_eq(descriptors_count(), before);
	cr_expect_not(ev_run(http_stage.loop, EVRUN_NOWAIT), "no watcher is left");
}

Test(http_server, listens_on_tcp_only_when_it_is_to)
{
	cr_expect_eq(http_listen_fd(http_stage.http), -1);
	http_stage.options.listen = NULL;
	http_stage_open_again();
	cr_expect_eq(http_listen_fd(http_stage.http), -1);
	http_stage_open_tcp();
	int fd = http_stage_connect_remote();
	cr_expect_str_eq(http_stage_ask_remote(fd, GET), HTTP_STAGE_HELLO);
	int at_once = 0;
	socklen_t len = sizeof(at_once);
	cr_expect_eq(getsockopt(http_stage_connection(0)->io.fd, IPPROTO_TCP, TCP_NODELAY, &at_once,
			     &len),
		0);
	cr_expect_neq(at_once, 0, "no answer waits for the next one");
	cr_expect(serves());
	close(fd);
}

/* ---- the file of the socket ---- */

Test(http_server, makes_its_socket_again_when_it_was_removed)
{
	int fd = http_stage_connect();
	http_renew_socket(http_stage.http);
	cr_expect_eq(http_stage_logged("made again"), 0, "the socket is there");
	unlink(http_stage.path);
	http_stage_pass(16); /* it looks by itself */
	cr_expect_eq(http_stage_logged("was removed or replaced; it is made again"), 1);
	cr_expect(serves());
	cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO, "connections go on");
	cr_expect(http_socket_stands(http_stage.path,
		&(struct http_place){ .device = http_socket_place(http_stage.http).device,
			.inode = http_socket_place(http_stage.http).inode }));
	close(fd);
}

/* Clients that have connected to the old socket a moment ago are served as well. */
Test(http_server, accepts_whoever_waits_before_it_leaves_the_old_socket)
{
	int before = descriptors_count();
	int fd = http_stage_knock();
	unlink(http_stage.path);
	http_renew_socket(http_stage.http);
	cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO);
	close(fd);
	http_stage_turn();
	cr_expect_eq(descriptors_count(), before, "the old socket is closed");
}

Test(http_server, says_once_that_its_socket_cannot_be_made_again)
{
	static const char missing[] = "cannot be made again";
	unlink(http_stage.path);
	cr_assert_eq(mkdir(http_stage.path, 0700), 0);
	http_renew_socket(http_stage.http);
	http_renew_socket(http_stage.http);
	cr_expect_eq(http_stage_logged(missing), 1);
	rmdir(http_stage.path);
	http_renew_socket(http_stage.http);
	cr_expect(serves());
	/* And when it happens again. */
	unlink(http_stage.path);
	cr_assert_eq(mkdir(http_stage.path, 0700), 0);
	http_renew_socket(http_stage.http);
	cr_expect_eq(http_stage_logged(missing), 2);
	rmdir(http_stage.path);
}

Test(http_server, leaves_a_socket_alone_that_another_has_made)
{
	http_stage.options.keep_socket = true;
	http_stage_open_again();
	unlink(http_stage.path);
	http_renew_socket(http_stage.http);
	cr_expect_not(stands());
	int file = open(http_stage.path, O_WRONLY | O_CREAT, 0600);
	http_close(http_stage.http);
	cr_expect(stands());
	unlink(http_stage.path);
	http_stage.options.keep_socket = false;
	http_stage.http = NULL;
	http_stage_open_again();
	unlink(http_stage.path);
	close(open(http_stage.path, O_WRONLY | O_CREAT, 0600));
	http_close(http_stage.http);
	http_stage.http = NULL;
	cr_expect(stands(), "the file of another");
	unlink(http_stage.path);
	close(file);
}

/* ---- limits ---- */

static void limit_files(rlim_t now, rlim_t most)
{
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ now, most }), 0);
}

static rlim_t file_limit(void)
{
	struct rlimit limit;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	return limit.rlim_cur;
}

static size_t local_room(void)
{
	return http_stage.http->listeners[0].max_connections;
}

Test(http_server, raises_the_limit_of_files_as_far_as_it_needs)
{
	http_stage.options.max_connections = 100;
	limit_files(150, 1000);
	http_stage_open_again();
	cr_expect_eq(file_limit(), 100 + 128);
	limit_files(150, 1000);
	http_stage_open_tcp();
	cr_expect_eq(file_limit(), 100 + 25 + 128, "a quarter as many remote ones");
	http_stage.options.max_connections = 40;
	limit_files(150, 1000);
	http_stage_open_again();
	cr_expect_eq(file_limit(), 40 + 16 + 128, "and some at least");
	limit_files(500, 1000);
	http_stage_open_again();
	cr_expect_eq(file_limit(), 500, "it never lowers it");
	http_stage.options.max_connections = 200;
	limit_files(150, 200 + 50 + 128);
	http_stage_open_again();
	cr_expect_eq(local_room(), 200, "all of them are enough");
	cr_expect_eq(http_stage_logged("the limit of open files"), 0);
}

Test(http_server, has_no_more_connections_than_files)
{
	http_stage.options.max_connections = 1000;
	limit_files(100, 400);
	http_stage_open_again();
	cr_expect_eq(local_room(), 400 - 128);
	cr_expect_eq(
		http_stage_logged("at most 272 connections: the limit of open files is 400"), 1);
	http_stage_open_tcp();
	cr_expect_eq(http_stage.http->listeners[1].max_connections, (400 - 128) / 5);
	cr_expect_eq(local_room(), 400 - 128 - (400 - 128) / 5);
	http_stage.options.listen = "";
	limit_files(100, 300);
	http_stage_open_again();
	cr_expect_eq(local_room(), 300 - 128);
	/* Of few files half are for connections. */
	limit_files(100, 200);
	http_stage_open_again();
	cr_expect_eq(local_room(), 100);
}

Test(http_server, says_how_many_files_it_needs_at_least)
{
	int fds[64];
	struct err err = ERR_INIT;
	struct http *http = NULL;
	http_close(http_stage.http);
	http_stage.http = NULL;
	/* Without gaps, so that a number is how many are open. */
	int lowest = 0;
	for (int i = 0; i < 64; i++) {
		fds[i] = dup(STDERR_FILENO);
		lowest = fds[i];
	}
	rlim_t needed = (rlim_t)lowest + 1 + 8 + 4;
	limit_files(needed - 2, needed);
	http_stage_open_tcp();
	cr_expect_eq(local_room(), 3);
	cr_expect_eq(http_stage.http->listeners[1].max_connections, 1);
	http_stage.options.listen = "";
	http_stage_open_again();
	cr_expect_eq(local_room(), 4);
	http_close(http_stage.http);
	http_stage.http = NULL;
	limit_files(needed - 1, needed - 1);
	cr_expect_eq(http_open(&http, http_stage.loop, &http_stage.options, &err), BERTH_FAILED);
	char text[128];
	snprintf(text, sizeof(text), "the limit of open files is %d, and at least %d are needed",
		(int)needed - 1, (int)needed);
	cr_expect_str_eq(err.msg, text);
	for (int i = 0; i < 64; i++) {
		close(fds[i]);
	}
}

/* ---- a successor ---- */

static void pin_and_wait(struct http_request *request)
{
	http_pin(request);
	http_stage_keep(request);
}

static void pin(struct http_request *request)
{
	http_pin(request);
	http_stage_hello(request);
}

Test(http_server, keeps_for_a_successor_what_is_idle_or_pinned)
{
	struct http_kept kept[8];
	http_stage_open_tcp();
	int idle = http_stage_connect();
	int pinned = http_stage_connect();
	int waits = http_stage_connect();
	int both = http_stage_connect();
	int remote = http_stage_connect_remote();
	http_stage.handle = pin;
	http_stage_ask(pinned, GET);
	http_stage.handle = http_stage_keep;
	http_stage_send(waits, GET);
	http_stage.handle = pin_and_wait;
	http_stage_send(both, GET);
	cr_expect_eq(http_keep(http_stage.http, kept, 8), 4);
	for (int i = 0; i < 4; i++) {
		cr_expect_eq(kept[i].local, i < 3);
		cr_expect_eq(kept[i].pinned, i == 1 || i == 2);
		cr_expect_eq(kept[i].fd >= 0, i != 2, "a request under way is cut off");
		cr_expect_gt(kept[i].id, i ? kept[i - 1].id : 0);
	}
	cr_expect_eq(http_keep(http_stage.http, kept, 3), 3);
	cr_expect_eq(http_keep(http_stage.http, kept, 0), 0);
	close(idle);
	close(pinned);
	close(waits);
	close(both);
	close(remote);
}

/* Another server takes over, in this process. */
Test(http_server, goes_on_with_the_connections_of_a_predecessor)
{
	struct http_kept kept[4];
	struct err err = ERR_INIT;
	int first = http_stage_connect();
	int second = http_stage_connect();
	http_stage.handle = pin;
	http_stage_ask(first, GET);
	uint64_t id = http_stage.request->connection;
	cr_assert_eq(http_keep(http_stage.http, kept, 4), 2);
	for (int i = 0; i < 2; i++) {
		kept[i].fd = fcntl(kept[i].fd, F_DUPFD_CLOEXEC, 0);
	}
	struct http_options options = http_stage.options;
	options.socket_fd = fcntl(http_socket_fd(http_stage.http), F_DUPFD_CLOEXEC, 0);
	options.socket_place = http_socket_place(http_stage.http);
	http_stage.http->options.keep_socket = true;
	http_close(http_stage.http);
	http_stage.pinned = 0;
	cr_assert_eq(
		http_open(&http_stage.http, http_stage.loop, &options, &err), 0, "%s", err.msg);
	cr_expect(http_adopt(http_stage.http, &kept[1]));
	cr_expect(http_adopt(http_stage.http, &kept[0]));
	cr_expect_eq(http_connections(http_stage.http), 2);
	cr_expect_str_eq(http_stage_ask(first, GET), HTTP_STAGE_HELLO);
	cr_expect_eq(http_stage.request->connection, id);
	cr_expect_str_eq(http_stage_ask(second, GET), HTTP_STAGE_HELLO);
	http_stage.handle = http_stage_hello;
	int third = http_stage_connect();
	cr_expect_str_eq(http_stage_ask(third, GET), HTTP_STAGE_HELLO);
	cr_expect_gt(http_stage.request->connection, kept[1].id, "a number names one connection");
	close(third);
	close(first);
	http_stage_turn();
	cr_expect_eq(http_stage.pinned, id);
	cr_expect_not(http_adopt(http_stage.http, &(struct http_kept){ .fd = -1, .local = true }));
	int gone = fcntl(second, F_DUPFD_CLOEXEC, 0);
	cr_expect_not(http_adopt(http_stage.http, &(struct http_kept){ .fd = gone }),
		"there is no TCP any more");
	cr_expect_eq(fcntl(gone, F_GETFD), -1);
	close(second);
}

/* An inherited socket is where the predecessor says; without its word, where the file is. */
Test(http_server, knows_the_file_of_an_inherited_socket)
{
	struct http_place place = http_socket_place(http_stage.http);
	int fd = fcntl(http_socket_fd(http_stage.http), F_DUPFD_CLOEXEC, 0);
	http_stage.http->options.keep_socket = true;
	http_stage.options.socket_fd = fd;
	http_stage.options.socket_place = (struct http_place){ .device = 1, .inode = 2 };
	http_stage.options.keep_socket = true;
	http_stage_open_again();
	cr_expect_eq(http_socket_place(http_stage.http).inode, 2);
	cr_expect_eq(http_socket_fd(http_stage.http), fd);
	http_stage.options.socket_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	http_stage.options.socket_place = (struct http_place){ .inode = 0 };
	http_stage.options.keep_socket = false;
	http_stage_open_again();
	cr_expect_eq(http_socket_place(http_stage.http).inode, place.inode);
	cr_expect_eq(http_socket_place(http_stage.http).device, place.device);
	cr_expect(serves());
}

static int only_as_0(int fd)
{
	int number = dup2(fd, STDIN_FILENO);
	close(fd);
	return number;
}

Test(http_server, inherits_descriptor_0_as_any_other_socket)
{
	http_stage.options.socket_fd = only_as_0(dup(http_socket_fd(http_stage.http)));
	http_stage.options.socket_place = (struct http_place){ .device = 1, .inode = 2 };
	http_stage.http->options.keep_socket = true;
	http_stage_open_again();
	cr_expect_eq(http_socket_fd(http_stage.http), 0);
	cr_expect_eq(http_socket_place(http_stage.http).inode, 2);
	cr_expect(serves());
	unlink(http_stage.path);
}

Test(http_server, opens_its_socket_as_descriptor_0)
{
	close(STDIN_FILENO);
	http_stage_open_again();
	cr_expect_eq(http_socket_fd(http_stage.http), 0);
	cr_expect(serves());
}

Test(http_server, makes_its_socket_again_as_descriptor_0)
{
	close(STDIN_FILENO);
	unlink(http_stage.path);
	http_renew_socket(http_stage.http);
	cr_expect_eq(http_socket_fd(http_stage.http), 0);
	cr_expect(serves());
	unlink(http_stage.path);
	cr_assert_eq(mkdir(http_stage.path, 0700), 0);
	http_renew_socket(http_stage.http);
	cr_expect_eq(http_stage_logged("cannot be made again"), 1);
	rmdir(http_stage.path);
}

Test(http_server, inherits_descriptor_0_as_any_other_tcp_socket)
{
	struct err err = ERR_INIT;
	http_stage.options.listen_fd = only_as_0(http_socket_tcp("127.0.0.1:0", &err));
	http_stage_open_again();
	cr_expect_eq(http_listen_fd(http_stage.http), 0);
	int fd = http_stage_connect_remote();
	cr_expect_str_eq(http_stage_ask_remote(fd, GET), HTTP_STAGE_HELLO);
	close(fd);
}

Test(http_server, goes_on_with_descriptor_0_as_with_any_other)
{
	struct http_kept kept;
	int fd = http_stage_connect();
	cr_assert_eq(http_keep(http_stage.http, &kept, 1), 1);
	kept.fd = only_as_0(dup(kept.fd));
	http_stage_open_again();
	cr_expect(http_adopt(http_stage.http, &kept));
	cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO);
	close(fd);
}

Test(http_server, goes_on_with_a_remote_connection)
{
	struct http_kept kept;
	http_stage_open_tcp();
	int fd = http_stage_connect_remote();
	cr_assert_eq(http_keep(http_stage.http, &kept, 1), 1);
	kept.fd = fcntl(kept.fd, F_DUPFD_CLOEXEC, 0);
	http_stage_open_again();
	cr_expect(http_adopt(http_stage.http, &kept));
	cr_expect_str_eq(http_stage_ask_remote(fd, GET), HTTP_STAGE_HELLO);
	cr_expect_not(http_stage.request->local);
	close(fd);
}

static void answer_1_MiB(struct http_request *request)
{
	static char body[1024 * 1024];
	struct http_response *response = http_response_create("text/plain", body, sizeof(body));
	http_answer(request, 200, response);
	http_response_free(response);
}

Test(http_server, goes_on_writing_before_a_successor_comes)
{
	static char bytes[1024 * 1024];
	int fd = http_stage_connect();
	http_stage.handle = answer_1_MiB;
	http_stage_send(fd, GET);
	while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
	}
	http_flush(http_stage.http);
	cr_expect_gt(recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT), 0);
	close(fd);
}

Test(http_server, finishes_what_it_can_before_a_successor_comes)
{
	struct http_kept kept[4];
	int fd = http_stage_connect();
	int other = http_stage_connect();
	(void)!write(fd, GET, strlen(GET));
	(void)!write(other, GET, 5);
	http_flush(http_stage.http);
	cr_expect_eq(http_stage.requests, 1);
	cr_expect_eq(http_keep(http_stage.http, kept, 4), 1);
	cr_expect_str_eq(http_stage_receive(fd), HTTP_STAGE_HELLO);
	close(fd);
	close(other);
}

/* ---- turns ---- */

static struct http_request *kept[2];
static size_t kept_count;

static void keep(struct http_request *request)
{
	kept[kept_count++] = request;
}

Test(http_server, serves_whoever_it_wakes)
{
	int fds[] = { http_stage_connect(), http_stage_connect() };
	http_stage.handle = keep;
	http_stage_send(fds[0], GET GET);
	http_stage_send(fds[1], GET GET);
	http_stage.handle = http_stage_hello;
	http_stage_hello(kept[1]);
	http_stage_hello(kept[0]);
	cr_expect_eq(http_stage.requests, 2, "in the next turn");
	http_stage_turn();
	cr_expect_eq(http_stage.requests, 4);
	for (int i = 0; i < 2; i++) {
		cr_expect_str_eq(http_stage_receive(fds[i]), HTTP_STAGE_HELLO HTTP_STAGE_HELLO);
		close(fds[i]);
	}
}

static void start_again(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)events;
	ev_timer_set(timer, 0., 0.);
	ev_timer_start(loop, timer);
}

Test(http_server, serves_whoever_it_wakes_though_the_loop_is_never_idle)
{
	ev_timer busy;
	int fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(fd, GET GET);
	ev_timer_init(&busy, start_again, 0., 0.);
	ev_timer_start(http_stage.loop, &busy);
	http_stage.handle = http_stage_hello;
	http_stage_hello(http_stage.request);
	http_stage_turn();
	cr_expect_eq(http_stage.requests, 2);
	ev_timer_stop(http_stage.loop, &busy);
	close(fd);
}

/* ---- the date ---- */
