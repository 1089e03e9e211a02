/* The share of one client: of connections, of watchers, of bytes; and who one client is. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/http_stage.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

TestSuite(http_share, .init = http_stage_begin, .fini = http_stage_end);

/* ---- the kernel's word about a client, as the test wants it ---- */

static uid_t user = 1000;
static bool unknown;
static struct sockaddr_storage remote;

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	if (level != SOL_SOCKET || name != SO_PEERCRED) {
		return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
	}
	if (unknown) {
		errno = ENOPROTOOPT;
		return -1;
	}
	*(struct ucred *)value = (struct ucred){ .pid = 1, .uid = user, .gid = 7 };
	return 0;
}

int getpeername(int fd, __SOCKADDR_ARG address, socklen_t *len)
{
	if (remote.ss_family == AF_UNSPEC) {
		return (int)syscall(SYS_getpeername, fd, address, len);
	}
	if (unknown) {
		errno = ENOTCONN;
		return -1;
	}
	memcpy((void *)(uintptr_t) * (void **)(void *)&address, &remote, sizeof(remote));
	*len = sizeof(remote);
	return 0;
}

static void close_all(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		close(fds[i]);
	}
	http_stage_turn();
}

/* ---- connections ---- */

Test(http_share, of_connections_leaves_room_for_another_user)
{
	int fds[10];
	http_stage.options.max_connections = 8;
	http_stage_open_again();
	for (size_t i = 0; i < 6; i++) {
		fds[i] = http_stage_connect();
	}
	cr_expect_eq(http_connections(http_stage.http), 6);
	fds[6] = http_stage_connect();
	(void)!write(fds[6], GET, strlen(GET)); /* as a client does that has not heard yet */
	const char *answer = http_stage_receive(fds[6]);
	cr_expect_eq(strncmp(answer, "HTTP/1.1 503 Service Unavailable\r\n", 34), 0, "%s", answer);
	cr_expect(strstr(answer, "\"title\":\"LimitExceeded\""), "%s", answer);
	cr_expect(http_stage_has_closed(fds[6]));
	cr_expect_eq(http_connections(http_stage.http), 6);
	user = 1001;
	fds[7] = http_stage_connect();
	cr_expect_str_eq(http_stage_ask(fds[7], GET), HTTP_STAGE_HELLO);
	cr_expect_eq(http_connections(http_stage.http), 7);
	/* A client that gives one back gets another. */
	user = 1000;
	close(fds[0]);
	close(fds[1]);
	http_stage_turn();
	fds[0] = http_stage_connect();
	cr_expect_str_eq(http_stage_ask(fds[0], GET), HTTP_STAGE_HELLO);
	close_all(fds + 2, 6);
	close_all(fds, 1);
}

/* ---- who one client is ---- */

static struct client *client_of(bool local)
{
	const struct listener listener = { .http = http_stage.http };
	remote.ss_family = local ? AF_UNIX : remote.ss_family;
	return http_client_get(&listener, -1);
}

static struct client *client_at(const char *address)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&remote;
	struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&remote;
	memset(&remote, 0, sizeof(remote));
	bool is_v6 = strchr(address, ':') != NULL;
	remote.ss_family = is_v6 ? AF_INET6 : AF_INET;
	void *bytes = is_v6 ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr;
	cr_assert_eq(inet_pton(remote.ss_family, address, bytes), 1);
	return client_of(false);
}

static bool are_one(const char *one, const char *other)
{
	struct client *first = client_at(one);
	struct client *second = client_at(other);
	bool same = first == second;
	http_client_release(first);
	http_client_release(second);
	return same;
}

Test(http_share, is_of_an_address_and_in_ipv6_of_a_network)
{
	cr_expect(are_one("192.0.2.1", "192.0.2.1"));
	cr_expect_not(are_one("192.0.2.1", "192.0.2.2"));
	cr_expect_not(are_one("192.0.2.1", "193.0.2.1"));
	cr_expect(are_one("192.0.2.1", "::ffff:192.0.2.1"));
	cr_expect_not(are_one("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
	cr_expect(are_one("2001:db8:0:1::1", "2001:db8:0:1:ffff::2"));
	cr_expect_not(are_one("2001:db8:0:1::1", "2001:db8:0:2::1"));
	cr_expect_not(are_one("2001:db8:0:1::1", "2002:db8:0:1::1"));
	/* These have the same bytes. */
	cr_expect_not(are_one("32.1.13.184", "2001:db8::"));
}

Test(http_share, is_of_a_user)
{
	struct client *root = NULL;
	user = 0;
	root = client_of(true);
	cr_expect_eq(client_of(true), root);
	user = 0x01000000;
	struct client *other = client_of(true);
	cr_expect_neq(other, root);
	/* Address 0.0.0.0 has the bytes of user 0. */
	struct client *nobody = client_at("0.0.0.0");
	cr_expect_neq(nobody, root);
	unknown = true;
	struct client *hidden = client_of(true);
	cr_expect(hidden != root && hidden != other && hidden != nobody);
	cr_expect_eq(client_of(false), hidden);
	struct client *const all[] = { root, root, other, nobody, hidden, hidden };
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		http_client_release(all[i]);
	}
}

Test(http_share, is_of_a_container_whoever_of_it_comes)
{
	struct http_container web = { .name = (char *)"web" };
	struct http_container db = { .name = (char *)"db" };
	const struct listener of_web = {
		.http = http_stage.http, .local = true, .container = &web
	};
	const struct listener of_db = { .http = http_stage.http, .local = true, .container = &db };
	user = 0;
	struct client *root = client_of(true);
	struct client *first = http_client_get(&of_web, -1);
	user = 1000;
	struct client *second = http_client_get(&of_web, -1);
	struct client *other = http_client_get(&of_db, -1);
	cr_expect_eq(first, second);
	cr_expect(first != other && first != root && other != root);
	struct client *const all[] = { root, first, second, other };
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		http_client_release(all[i]);
	}
}

/* ---- watchers ---- */

static struct http_request *keep_one(int *fd)
{
	*fd = http_stage_connect();
	http_stage.handle = http_stage_keep;
	http_stage_send(*fd, GET);
	return http_stage.request;
}

Test(http_share, of_searches_leaves_room_for_another_user)
{
	int fds[8];
	int other;
	for (size_t i = 0; i < 6; i++) {
		struct http_request *request = keep_one(&fds[i]);
		cr_expect(http_search(request, i, 8), "%zu", i);
	}
	struct http_request *seventh = keep_one(&fds[6]);
	cr_expect_not(http_search(seventh, 6, 8));
	cr_expect(http_watch(seventh, 0, 8), "a share of its own");
	user = 1001;
	struct http_request *another = keep_one(&other);
	cr_expect(http_search(another, 6, 8));
	cr_expect_not(http_search(another, 8, 8), "all together");
	/* A search ends with its request, or before. */
	close(fds[0]);
	http_stage_turn();
	cr_expect(http_search(seventh, 6, 8));
	http_end_search(seventh);
	http_end_search(seventh);
	cr_expect(http_search(seventh, 6, 8));
	for (size_t i = 1; i < 7; i++) {
		close(fds[i]);
	}
	close(other);
	http_stage_turn();
}

Test(http_share, of_watchers_leaves_room_for_another_user)
{
	struct http_request *requests[8];
	int fds[9];
	int other;
	/* Each is the first, second, ... of all that watch; 8 may. */
	for (size_t i = 0; i < 6; i++) {
		requests[i] = keep_one(&fds[i]);
		cr_expect(http_watch(requests[i], i, 8), "%zu", i);
	}
	struct http_request *seventh = keep_one(&fds[6]);
	cr_expect_not(http_watch(seventh, 6, 8));
	user = 1001;
	struct http_request *another = keep_one(&other);
	cr_expect(http_watch(another, 6, 8));
	cr_expect_not(http_watch(another, 8, 8), "all together");
	cr_expect_not(http_watch(another, 9, 8));
	/* A watch ends with its request, whether that is answered or not. */
	http_stage_hello(requests[0]);
	http_stage_turn();
	cr_expect(http_watch(seventh, 5, 8));
	close(fds[1]);
	http_stage_turn();
	user = 1000;
	requests[0] = keep_one(&fds[7]);
	cr_expect(http_watch(requests[0], 5, 8));
	/* And only once: the next request of the connection has not watched. */
	http_stage.handle = http_stage_hello;
	http_stage_ask(fds[0], GET);
	struct http_request *last = keep_one(&fds[8]);
	cr_expect_not(http_watch(last, 6, 8));
	close_all(fds, 1);
	close_all(fds + 2, 7);
	close(other);
}

Test(http_share, forgets_the_watchers_that_have_ended)
{
	int stays;
	struct http_request *request = keep_one(&stays);
	for (size_t i = 0; i < 30; i++) {
		int fd;
		struct http_request *watcher = keep_one(&fd);
		cr_assert(http_watch(watcher, 0, 8), "%zu", i);
		if (i % 2) {
			http_stage_hello(watcher);
		}
		close_all(&fd, 1);
	}
	cr_expect(http_watch(request, 7, 8), "none is left");
	close(stays);
}

/* ---- bytes ---- */

Test(http_share, of_bytes_leaves_room_for_another_user)
{
	int fd;
	int other;
	struct http_request *request = keep_one(&fd);
	user = 1001;
	struct http_request *another = keep_one(&other);
	enum { THREE_QUARTERS = HTTP_HELD_BYTES / 4 * 3 };
	cr_expect(http_has_room(request));
	http_hold(request, THREE_QUARTERS - 1);
	cr_expect(http_has_room(request));
	http_hold(request, THREE_QUARTERS);
	cr_expect_not(http_has_room(request));
	cr_expect(http_has_room(another));
	http_hold(another, HTTP_HELD_BYTES / 4);
	cr_expect_not(http_has_room(another));
	http_hold(request, 0);
	cr_expect(http_has_room(request));
	cr_expect(http_has_room(another));
	http_hold(request, THREE_QUARTERS);
	close(fd);
	http_stage_turn();
	cr_expect_eq(http_stage.http->held, HTTP_HELD_BYTES / 4);
	close(other);
	http_stage_turn();
	cr_expect_eq(http_stage.http->held, 0);
}
