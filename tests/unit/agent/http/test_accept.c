/* Taking connections in: as many as there may be, as many at once, and after the kernel refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/failing.h"
#include "tests/support/http_stage.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

TestSuite(http_accept, .init = http_stage_begin, .fini = http_stage_end);

static bool serves(void)
{
	int fd = http_stage_connect();
	bool good = strcmp(http_stage_ask(fd, GET), HTTP_STAGE_HELLO) == 0;
	close(fd);
	http_stage_turn();
	return good;
}

/* ---- limits ---- */

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

/* ---- what the kernel says ---- */

Test(http_accept, takes_descriptor_0_as_any_other)
{
	int fd = http_stage_knock();
	close(STDIN_FILENO);
	http_stage_turn();
	cr_assert_eq(http_connections(http_stage.http), 1);
	cr_expect_eq(http_stage_connection(0)->io.fd, 0);
	cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO);
	close(fd);
}

Test(http_accept, tries_again_when_it_cannot)
{
	static const char message[] = "cannot accept a connection: ";
	static const int passing[] = { EINTR, ECONNABORTED, EAGAIN };
	for (size_t i = 0; i < ARRAY_LEN(passing); i++) {
		failing_arm("accept", 1, passing[i]);
		cr_expect(serves());
		cr_expect(failing_disarm());
	}
	cr_expect_eq(http_stage_logged(message), 0);
	for (size_t i = 1; i < 3; i++) {
		failing_arm("accept", 1, EMFILE);
		int fd = http_stage_connect();
		cr_expect(failing_disarm());
		cr_expect_eq(http_connections(http_stage.http), 0, "it rests");
		cr_expect(http_stage_is_at_rest());
		failing_arm("accept", 1, EMFILE);
		http_stage_pass(1);
		cr_expect(failing_disarm());
		cr_expect_eq(http_stage_logged(message), i, "once");
		http_stage_pass(1);
		cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO);
		cr_expect_not(timer_runs(&http_stage.http->listeners[0].retry));
		close(fd);
		http_stage_turn();
	}
}

Test(http_accept, watches_its_socket_again_after_the_kernel_refused)
{
	/* As libev does it when epoll_ctl() has failed. */
	ev_io *accept = &http_stage.http->listeners[0].accept;
	ev_io_stop(http_stage.loop, accept);
	ev_feed_event(http_stage.loop, accept, EV_ERROR | EV_READ | EV_WRITE);
	int fd = http_stage_connect();
	cr_expect_eq(http_stage_logged("cannot accept a connection: "), 1);
	cr_expect_eq(http_connections(http_stage.http), 0, "it rests");
	http_stage_pass(1);
	cr_expect_str_eq(http_stage_ask(fd, GET), HTTP_STAGE_HELLO);
	close(fd);
}

Test(http_accept, rests_though_another_client_goes)
{
	int first = http_stage_connect();
	failing_arm("accept", 1, EMFILE);
	int fd = http_stage_connect();
	cr_expect(failing_disarm());
	close(first);
	http_stage_turn();
	cr_expect_eq(http_connections(http_stage.http), 0);
	http_stage_pass(1);
	cr_expect_eq(http_connections(http_stage.http), 1);
	close(fd);
}

Test(http_accept, takes_nobody_while_the_server_closes)
{
	int fd = http_stage_connect();
	failing_arm("accept", 1, EMFILE);
	int waiting = http_stage_connect();
	failing_disarm();
	http_close(http_stage.http);
	http_stage.http = NULL;
	cr_expect_not(ev_run(http_stage.loop, EVRUN_NOWAIT), "no watcher is left");
	close(waiting);
	close(fd);
}
