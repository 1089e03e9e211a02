/*
 * Opening, driving and closing a handle.
 */
#include "lib/berth.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <poll.h>

#include "lib/client/handle.h"
#include "lib/base/json_text.h"
#include "lib/base/path.h"
#include "lib/base/clock.h"

#define DEFAULT_TIMEOUT_MS 10000

int handle_fail(struct berth_failure *failure, const struct err *err)
{
	if (failure) {
		failure->code = err->code;
		snprintf(failure->message, sizeof(failure->message), "%s", err->msg);
	}
	return err->code;
}

int handle_need_agent(const struct berth *berth, const char *what, struct err *err)
{
	return berth->client
		? 0
		: err_set(err, BERTH_FAILED, "%s is for an agent, and this handle is on a registry",
			  what);
}

int handle_need_registry(const struct berth *berth, const char *what, struct err *err)
{
	return berth->registry
		? 0
		: err_set(err, BERTH_FAILED, "%s is for a registry, and this handle is on an agent",
			  what);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static bool is_registry_url(const char *where)
{
	/* A URL of another kind is refused as such, and not taken for the path of a socket. */
	return registry_is_url(where) || strstr(where, "://");
}

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

int berth_open(struct berth **ret_berth, const char *where, const struct berth_options *options,
	struct berth_failure *failure)
{
	static const struct berth_options defaults;
	struct err err = ERR_INIT;
	struct berth *berth = calloc(1, sizeof(*berth));
	if (!berth) {
		err_set(&err, BERTH_FAILED, "out of memory");
		return handle_fail(failure, &err);
	}
	if (!options) {
		options = &defaults;
	}
	list_init(&berth->watches);
	berth->epoll_fd = -1;
	berth->timer_fd = -1;
	berth->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
	bool registry = where && is_registry_url(where);
	if (open_descriptors(berth, &err) != 0 ||
		(registry ? handle_open_registry(berth, where, options, &err)
			  : handle_open_agent(berth, where, &err)) != 0) {
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

/* ---- the loop -------------------------------------------------------------------------------- */

int berth_fd(const struct berth *berth)
{
	return berth->epoll_fd;
}

void handle_arm(struct berth *berth)
{
	int64_t due_ms = handle_watches_deadline_ms(berth);
	int64_t handle_ms = berth->ops->due_ms(berth);
	due_ms = handle_ms < due_ms ? handle_ms : due_ms;
	struct itimerspec timer = { .it_value.tv_sec = 0 };
	if (due_ms != INT64_MAX) {
		/* Zero would disarm it. */
		due_ms = due_ms > 0 ? due_ms : 1;
		timer.it_value.tv_sec = due_ms / 1000;
		timer.it_value.tv_nsec = (long)(due_ms % 1000) * 1000000;
	}
	timerfd_settime(berth->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
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
	handle_watches_deliver(berth);
	handle_arm(berth);
	return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

void berth_answer_finish(struct berth_answer *answer)
{
	free(answer->json);
	answer->json = NULL;
}

void berth_paths_finish(struct berth_paths *paths)
{
	for (size_t i = 0; i < paths->count; i++) {
		free(paths->items[i]);
	}
	free(paths->items);
	for (size_t i = 0; i < paths->foreign_count; i++) {
		free(paths->foreign[i]);
	}
	free(paths->foreign);
	*paths = (struct berth_paths){ .items = NULL };
}

int answer_from_json(struct berth_answer *ret, const json_t *json, struct err *err)
{
	char *text = json_text(json, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!text) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	*ret = (struct berth_answer){ .json = text, .len = strlen(text) };
	return 0;
}
