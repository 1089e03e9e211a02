/*
 * Making, driving and closing a handle, on whatever is meant.
 */
#include "lib/berth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <poll.h>

#include "lib/client/handle.h"
#include "lib/base/clock.h"

#define DEFAULT_TIMEOUT_MS 10000

/* ---- opening and closing ---- */

static int open_descriptors(struct berth *berth, struct err *err)
{
	berth->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	berth->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	struct epoll_event event = { .events = EPOLLIN };
	if (berth->epoll_fd < 0 || berth->timer_fd < 0 ||
		epoll_ctl(berth->epoll_fd, EPOLL_CTL_ADD, berth->timer_fd, &event) != 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot make a pollable descriptor");
	}
	return 0;
}

int handle_create(struct berth **ret_berth, struct err *err)
{
	struct berth *berth = calloc(1, sizeof(*berth));
	if (!berth) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	list_init(&berth->watches);
	berth->epoll_fd = -1;
	berth->timer_fd = -1;
	berth->timeout_ms = DEFAULT_TIMEOUT_MS;
	if (open_descriptors(berth, err) != 0) {
		berth_close(berth);
		return err->code;
	}
	*ret_berth = berth;
	return 0;
}

static bool is_registry_url(const char *where)
{
	/* A URL of another kind is refused as such, and not taken for the path of a socket. */
	return registry_is_url(where) || strstr(where, "://");
}

int berth_open(struct berth **ret_berth, const char *where, const struct berth_options *options,
	struct berth_failure *failure)
{
	static const struct berth_options defaults;
	struct berth *berth = NULL;
	struct err err = ERR_INIT;
	options = options ? options : &defaults;
	int code = handle_create(&berth, &err);
	if (berth) {
		berth_set_timeout(berth, options->timeout_ms);
		code = where && is_registry_url(where)
			? handle_open_registry(berth, where, options, &err)
			: handle_open_agent(berth, where, &err);
	}
	if (code != 0) {
		berth_close(berth);
		return handle_fail(failure, &err);
	}
	handle_arm(berth);
	*ret_berth = berth;
	return 0;
}

void berth_close(struct berth *berth)
{
	if (!berth) {
		return;
	}
	handle_watches_free(berth);
	if (berth->ops) {
		berth->ops->close(berth);
	}
	if (berth->timer_fd >= 0) {
		close(berth->timer_fd);
	}
	if (berth->epoll_fd >= 0) {
		close(berth->epoll_fd);
	}
	free(berth);
}

bool berth_is_registry(const struct berth *berth)
{
	return berth->registry != NULL;
}

void berth_set_shared(struct berth *berth, bool on)
{
	memory_set(&berth->memory, on);
}

void berth_set_timeout(struct berth *berth, int timeout_ms)
{
	berth->timeout_ms = timeout_ms > 0 ? timeout_ms : DEFAULT_TIMEOUT_MS;
}

/* ---- the loop ---- */

int berth_fd(const struct berth *berth)
{
	return berth->epoll_fd;
}

int berth_dispatch(struct berth *berth, int timeout_ms, struct berth_failure *failure)
{
	handle_arm(berth);
	struct pollfd poller = { .fd = berth->epoll_fd, .events = POLLIN };
	if (poll(&poller, 1, timeout_ms) < 0 && errno != EINTR) {
		struct err err = ERR_INIT;
		err_set_errno(&err, BERTH_FAILED, errno, "cannot wait for events");
		return handle_fail(failure, &err);
	}
	int64_t now_ms = clock_monotonic_ms();
	berth->ops->dispatch(berth, now_ms);
	handle_watches_dispatch(berth, now_ms);
	handle_arm(berth);
	return 0;
}
