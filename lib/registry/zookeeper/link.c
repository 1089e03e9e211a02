/* The way to the worker, for the session and the jobs: sending, complaints, its replacement. */
#include "lib/registry/zookeeper/zookeeper.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "lib/base/clock.h"
#include "lib/base/path.h"

enum {
	WARN_AGAIN_MS = 10000,
	COMPLAINT_MS = 1500 /* of the library before it is passed on */
};

void registry_zk_log(struct registry_zk *zk, enum registry_log_level level, const char *format, ...)
{
	char message[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	zk->backend.core.log(zk->backend.core.core, level, message);
}

const char *registry_zk_path(const struct registry_zk *zk, char *out, const char *path)
{
	if (path_is_foreign(path)) {
		snprintf(out, REGISTRY_ZK_PATH_SIZE, "%s", path + 1);
		return out;
	}
	bool root = path[0] == '/' && path[1] == '\0';
	snprintf(out, REGISTRY_ZK_PATH_SIZE, "%s%s", zk->root, root && *zk->root ? "" : path);
	return out;
}

/* ---- sending ---- */

void registry_zk_poll_worker(struct registry_zk *zk, int operation, bool writing)
{
	struct epoll_event event = { .events = writing ? EPOLLIN | EPOLLOUT : EPOLLIN };
	if (epoll_ctl(zk->epoll_fd, operation, zk->worker.fd, &event) < 0 && !zk->replace_why) {
		zk->replace_why = "the kernel does not watch the ZooKeeper worker's socket";
	}
	zk->polls_writing = writing;
}

void registry_zk_flush(struct registry_zk *zk)
{
	bool left = !zk_worker_process_flush(&zk->worker);
	if (zk->worker.fd >= 0 && left != zk->polls_writing) {
		registry_zk_poll_worker(zk, EPOLL_CTL_MOD, left);
	}
}

int registry_zk_send(struct registry_zk *zk, struct zk_request *request)
{
	int rc = zk_worker_process_send(&zk->worker, request);
	zk->said_ms = clock_monotonic_ms();
	registry_zk_quota_ask(&zk->quota);
	registry_zk_flush(zk);
	return rc;
}

void registry_zk_say_alive(struct registry_zk *zk)
{
	zk_worker_process_say_alive(&zk->worker);
	zk->said_ms = clock_monotonic_ms();
	registry_zk_flush(zk);
}

/* False when it does not come from the server. */
static bool take_answer(struct registry_zk *zk, int32_t rc, int64_t sent_ms)
{
	bool answered = rc == ZK_RC_OK || (rc < ZK_RC_API_ERROR && !registry_zk_is_loss(rc));
	if (!answered) {
		return false;
	}
	zk->answered_ms = zk->now_ms;
	if (sent_ms > zk->heard_ms) {
		zk->heard_ms = sent_ms;
	}
	return true;
}

void registry_zk_heard(struct registry_zk *zk, int32_t rc, int64_t sent_ms)
{
	(void)take_answer(zk, rc, sent_ms);
}

bool registry_zk_contact_heard(struct registry_zk *zk, int32_t rc)
{
	if (zk->contact != REGISTRY_ZK_ASKED || !take_answer(zk, rc, zk->asked_ms)) {
		return false;
	}
	zk->contact = REGISTRY_ZK_HEARD;
	return true;
}

/* ---- trouble ---- */

bool registry_zk_warning_due(struct registry_zk *zk)
{
	if (zk->contact != REGISTRY_ZK_NONE ||
		(zk->warned_at_ms != 0 && zk->now_ms - zk->warned_at_ms < WARN_AGAIN_MS)) {
		return false;
	}
	zk->warned_at_ms = zk->now_ms;
	return true;
}

bool registry_zk_attempt_failed(struct registry_zk *zk, const char *why)
{
	bool news = strcmp(zk->trouble, why) != 0;
	zk->attempts++;
	snprintf(zk->trouble, sizeof(zk->trouble), "%s", why);
	if (zk->backend.core.attempt) {
		zk->backend.core.attempt(zk->backend.core.core, zk->trouble, zk->attempts);
	}
	return news || (zk->attempts & (zk->attempts - 1)) == 0;
}

/*
 * The worker's own lines are for people. The library's lines are too, but it repeats itself for as
 * long as a server is away: now and then is enough, and nothing as long as the next attempt may
 * mend it.
 */
void registry_zk_complain(struct registry_zk *zk, const struct zk_log *log)
{
	if (zk->complained_at_ms == 0) {
		zk->complained_at_ms = zk->now_ms;
	}
	zk->worker_complained = true;
	bool lasts = zk->now_ms - zk->complained_at_ms >= COMPLAINT_MS;
	bool news = registry_zk_attempt_failed(zk, log->message);
	bool warn = log->kind == ZK_LOG_OWN ? news : lasts && registry_zk_warning_due(zk);
	registry_zk_log(zk, warn ? REGISTRY_LOG_WARN : REGISTRY_LOG_DEBUG,
		"ZooKeeper: %s, attempt %u", log->message, zk->attempts);
}

void registry_zk_refuse_worker(struct registry_zk *zk, const char *why)
{
	zk->replace_why = why;
	registry_zk_log(zk, REGISTRY_LOG_WARN, "%s; starting another worker", why);
}
