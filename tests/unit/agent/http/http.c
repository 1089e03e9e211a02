/* The server as a whole: its sockets, its limits, and the way of connections to a successor. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/http/socket.h"
#include "tests/support/descriptors.h"
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

static size_t local_room(void)
{
	return http_stage.http->listeners[0].max_connections;
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

TestSuite(http_accept, .init = http_stage_begin, .fini = http_stage_end);

Test(http_accept, goes_on_when_a_connection_of_a_full_server_ends)
{
	int fds[4];
	http_stage.options.max_connections = 4;
	http_stage_open_again();
	for (int i = 0; i < 3; i++) {
		fds[i] = http_stage_connect();
	}
	/* A user alone does not fill it: so the fourth place is taken from the limit. */
	http_stage.http->listeners[0].max_connections = 3;
	fds[3] = http_stage_connect();
	cr_expect_eq(http_connections(http_stage.http), 3, "it waits");
	cr_expect(http_stage_is_at_rest());
	http_stage.http->listeners[0].max_connections = 5;
	close(fds[0]);
	http_stage_turn();
	cr_expect_str_eq(http_stage_ask(fds[3], GET), HTTP_STAGE_HELLO);
	close(fds[1]);
	close(fds[2]);
	close(fds[3]);
}

Test(http_accept, gives_way_to_others_between_many_clients)
{
	enum { CLIENTS = 100 };
	int fds[CLIENTS];
	http_stage.options.max_connections = 200;
	http_stage_open_again();
	for (int i = 0; i < CLIENTS; i++) {
		fds[i] = http_stage_knock();
	}
	ev_run(http_stage.loop, EVRUN_NOWAIT);
	cr_expect_lt(http_connections(http_stage.http), CLIENTS, "others have a turn meanwhile");
	http_stage_turn();
	cr_expect_eq(http_connections(http_stage.http), CLIENTS);
	for (int i = 0; i < CLIENTS; i++) {
		cr_expect_str_eq(http_stage_ask(fds[i], GET), HTTP_STAGE_HELLO);
		close(fds[i]);
	}
}

/* A socket that is closed with bytes unread takes the answer from the client, or resets it. */
Test(http_accept, reads_the_request_of_a_client_that_it_refuses)
{
	int fds[7];
	char bytes[4096];
	http_stage.options.max_connections = 8;
	http_stage_open_again();
	for (size_t i = 0; i < 6; i++) {
		fds[i] = http_stage_connect();
	}
	fds[6] = http_stage_knock();
	cr_assert_eq(write(fds[6], GET, strlen(GET)), (ssize_t)strlen(GET));
	http_stage_turn();
	ssize_t len = recv(fds[6], bytes, sizeof(bytes), MSG_DONTWAIT);
	cr_assert_gt(len, 0);
	cr_expect_eq(strncmp(bytes, "HTTP/1.1 503 Service Unavailable\r\n", 34), 0);
	cr_expect_eq(recv(fds[6], bytes, sizeof(bytes), MSG_DONTWAIT), 0, "a plain end");
	for (size_t i = 0; i < 7; i++) {
		close(fds[i]);
	}
}
