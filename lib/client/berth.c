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
#include "lib/base/path.h"
#include "lib/base/clock.h"

#define DEFAULT_TIMEOUT_MS 10000
#define DEFAULT_SOCKET BERTH_RUNSTATEDIR "/berth/berth.sock"

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

/* ---- opening and closing ---------------------------------------------------------------------- */

static bool is_registry_url(const char *where)
{
	return strncmp(where, "dir:", 4) == 0 || strstr(where, "://");
}

static void on_registry_state(void *context, enum registry_state state, const char *why)
{
	(void)why;
	handle_watches_registry_state(context, state);
}

static int open_registry(
	struct berth *berth, const char *url, const struct berth_options *options, struct err *err)
{
	struct registry_options registry_options = {
		.url = url,
		.session_timeout_ms = options->session_timeout_ms,
		.request_timeout_ms = berth->timeout_ms,
		.auth = options->auth_file ? "digest" : "none",
		.auth_file = options->auth_file,
		.secure = options->secure,
		.system_accounts = options->system_accounts ? options->system_accounts
							    : REGISTRY_SYSTEM_ACCOUNTS,
		.realm = options->realm,
		.on_state = on_registry_state,
		.context = berth,
	};
	return registry_open(&berth->registry, &registry_options, err);
}

static int open_agent(struct berth *berth, const char *where, struct err *err)
{
	if (!where || !*where) {
		where = getenv("BERTH_SOCKET");
	}
	if (!where || !*where) {
		where = DEFAULT_SOCKET;
	}
	return client_create(
		&berth->client, strncmp(where, "unix:", 5) == 0 ? where + 5 : where, err);
}

static int open_descriptors(struct berth *berth, struct err *err)
{
	berth->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	berth->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
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
	berth->epoll_fd = -1;
	berth->timer_fd = -1;
	berth->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
	bool registry = where && is_registry_url(where);
	if (open_descriptors(berth, &err) != 0 ||
		(registry ? open_registry(berth, where, options, &err)
			  : open_agent(berth, where, &err)) != 0) {
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
	registry_close(berth->registry);
	client_free(berth->client);
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

void berth_set_timeout(struct berth *berth, int timeout_ms)
{
	berth->timeout_ms = timeout_ms > 0 ? timeout_ms : DEFAULT_TIMEOUT_MS;
}

/* ---- the loop --------------------------------------------------------------------------------- */

int berth_fd(const struct berth *berth)
{
	return berth->epoll_fd;
}

void handle_arm(struct berth *berth)
{
	int64_t due_ms = handle_watches_deadline_ms(berth);
	if (berth->registry) {
		/* A registry may have replaced its descriptor; one that is there already is no harm. */
		struct epoll_event event = { .events = EPOLLIN };
		epoll_ctl(berth->epoll_fd, EPOLL_CTL_ADD, registry_fd(berth->registry), &event);
		int64_t registry_ms = registry_deadline_ms(berth->registry);
		due_ms = registry_ms < due_ms ? registry_ms : due_ms;
	}
	struct itimerspec timer = { .it_value.tv_sec = 0 };
	if (due_ms != INT64_MAX) {
		/* Zero would disarm it. */
		due_ms = due_ms > 0 ? due_ms : 1;
		timer.it_value.tv_sec = due_ms / 1000;
		timer.it_value.tv_nsec = (due_ms % 1000) * 1000000;
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
	if (berth->registry) {
		registry_dispatch(berth->registry, now_ms);
	}
	handle_watches_dispatch(berth, now_ms);
	handle_watches_deliver(berth);
	handle_arm(berth);
	return 0;
}

/* ---- answers ---------------------------------------------------------------------------------- */

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
	paths->items = NULL;
	paths->count = 0;
}

int answer_from_json(struct berth_answer *ret, const json_t *json, struct err *err)
{
	char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
	if (!text) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	*ret = (struct berth_answer){ .json = text, .len = strlen(text) };
	return 0;
}

/* ---- asking an agent -------------------------------------------------------------------------- */

int handle_target(char *out, size_t size, const char *verb, const char *path, const char *query,
	struct err *err)
{
	int code = path_check(path, strlen(path), err);
	if (code != 0) {
		return code;
	}
	int len = snprintf(out, size, "/v1/%s%s%s", verb, path, query);
	return len < 0 || (size_t)len >= size
		? err_set(err, BERTH_LIMIT_EXCEEDED, "the request is too long")
		: 0;
}

void handle_query(struct buffer *query, const char *name, const char *value)
{
	if (!value) {
		return;
	}
	buffer_printf(query, "%c%s=", query->len ? '&' : '?', name);
	for (; *value; value++) {
		unsigned char byte = (unsigned char)*value;
		bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
			(byte >= 'A' && byte <= 'Z') || strchr("-._~/", byte);
		buffer_printf(query, plain ? "%c" : "%%%02X", byte);
	}
}

int handle_request(struct berth *berth, const struct client_request *request,
	struct berth_answer *ret, struct err *err)
{
	struct client_response response;
	int code = client_call(berth->client, request, berth->timeout_ms, &response, NULL, err);
	if (code != 0) {
		return code;
	}
	struct berth_answer answer = { .freshness = { response.age_s, response.stale } };
	answer.json = buffer_take(&response.body, &answer.len);
	memcpy(answer.tag, response.tag, sizeof(answer.tag));
	client_response_finish(&response);
	if (!answer.json) {
		return err_set(err, BERTH_FAILED, "out of memory");
	}
	*ret = answer;
	return 0;
}

int handle_get(struct berth *berth, const char *target, struct berth_answer *ret, struct err *err)
{
	struct client_request request = { .method = "GET", .target = target };
	return handle_request(berth, &request, ret, err);
}
