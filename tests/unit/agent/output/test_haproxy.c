#include "agent/output/haproxy.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/scratch.h"

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static bool refusing;

/* Criterion has sockets of its own. */
static bool is_ours(int file)
{
	struct sockaddr_un peer = { .sun_family = AF_UNSPEC };
	socklen_t len = sizeof(peer);
	return getpeername(file, (struct sockaddr *)&peer, &len) == 0 &&
		peer.sun_family == AF_UNIX && strcmp(peer.sun_path, address.sun_path) == 0;
}

int epoll_ctl(int set, int operation, int file, struct epoll_event *event)
{
	int (*real)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl");
	if (refusing && operation == EPOLL_CTL_ADD && is_ours(file)) {
		refusing = false;
		errno = ENOMEM;
		return -1;
	}
	return real(set, operation, file, event);
}

static struct err last;
static int ends;

static void on_done(void *context, const struct err *err, size_t changes)
{
	(void)context;
	(void)changes;
	last = err ? *err : (struct err)ERR_INIT;
	ends++;
}

Test(haproxy, a_connection_that_the_kernel_does_not_watch_fails_at_once)
{
	char folder[SCRATCH_PATH];
	scratch_folder(folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/h", folder);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 1), 0);

	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct haproxy *haproxy = haproxy_create(loop, address.sun_path, "web", on_done, NULL);
	const struct render_picture nobody = { .from = "/a" };
	const struct render_filter any = { 0 };
	haproxy_want(haproxy, &nobody, &any);
	refusing = true;
	for (int i = 0; i < 3; i++) {
		ev_run(loop, EVRUN_NOWAIT); /* libev itself does not wake for a refusal */
	}
	cr_assert_eq(ends, 1);
	cr_assert_not(refusing);
	cr_assert_not_null(
		strstr(last.msg, "the kernel refuses to watch the connection"), "%s", last.msg);
	haproxy_destroy(haproxy);
	ev_loop_destroy(loop);
	close(listener);
	unlink(address.sun_path);
	rmdir(folder);
}
