/* The ZooKeeper backend's table, and the worker's life: started, listened to, replaced. */
#include "lib/registry/zookeeper/zookeeper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/path.h"
#include "lib/base/text.h"

enum {
	RESTART_FIRST_MS = 50, /* doubled with each failure, back to 0 when a connection lasted */
	RESTART_LONGEST_MS = 5000,
	RESTARTS_A_SESSION =
		16, /* the session must not run out while its next worker is waited for */
	STABLE_MS = 1000,
	BEGIN_MS = 60000,      /* a worker's time for looking up names, before it connects */
	FRAMES_AT_ONCE = 1000, /* then the loop serves others */
	LINES_A_SECOND = 20,   /* of a worker, in our log */
	READ_LOG_BYTES = 4096,
	LINE_MOST_BYTES = 300
};

static struct registry_zk *zk_of(struct registry_backend *backend)
{
	return (struct registry_zk *)backend;
}

/* ---- the worker ---- */

static void poll_log(struct registry_zk *zk)
{
	struct epoll_event event = { .events = EPOLLIN };
	if (zk->worker.log_fd >= 0 &&
		epoll_ctl(zk->epoll_fd, EPOLL_CTL_ADD, zk->worker.log_fd, &event) < 0) {
		zk->replace_why = "the kernel does not watch the ZooKeeper worker's log";
	}
}

static void schedule_restart(struct registry_zk *zk)
{
	bool lasted = zk->connected_at_ms != 0 && zk->now_ms - zk->connected_at_ms >= STABLE_MS;
	int delay_ms = lasted ? 0 : zk->restart_delay_ms;
	zk->restart_at_ms = zk->now_ms + delay_ms;
	zk->restart_delay_ms = delay_ms == 0 ? RESTART_FIRST_MS : delay_ms * 2;
	int longest_ms = zk->wanted_timeout_ms / RESTARTS_A_SESSION;
	if (longest_ms > RESTART_LONGEST_MS) {
		longest_ms = RESTART_LONGEST_MS;
	}
	if (zk->restart_delay_ms > longest_ms) {
		zk->restart_delay_ms = longest_ms;
	}
	zk->connected_at_ms = 0;
	if (zk->restart_at_ms < zk->not_before_ms) {
		zk->restart_at_ms = zk->not_before_ms;
	}
	if (zk->restart_at_ms < zk->pause_until_ms) {
		zk->restart_at_ms = zk->pause_until_ms;
	}
}

/* Without a good file the agent goes on with what it has. */
static void try_credential_again(struct registry_zk *zk)
{
	struct err err = ERR_INIT;
	zk->not_before_ms = 0;
	registry_zk_log(zk, REGISTRY_LOG_INFO, "the refused credentials are tried again");
	if (registry_zk_reread_credential(zk, &err) < 0) {
		registry_zk_log(zk, REGISTRY_LOG_WARN, "%s", err.msg);
	}
}

/* It goes on with the session, if there is one. */
static int spawn_worker(struct registry_zk *zk, struct err *err)
{
	struct zk_hello hello = {
		.servers = zk->servers,
		.addresses = zk->addresses ? zk->addresses : "",
		.look_up = zk->look_up,
		.timeout_ms = (uint32_t)zk->wanted_timeout_ms,
		.session_id = zk->session.id,
		.auth = zk->auth,
		.credential = zk->credential,
		.tls = zk->tls,
		.ends_in_silence = registry_zk_wants_end_in_silence(zk),
	};
	memcpy(hello.session_password, zk->session.password, sizeof(hello.session_password));
	int code = zk_worker_process_start(&zk->worker, &hello, err);
	explicit_bzero(&hello, sizeof(hello));
	return code;
}

static int start_worker(struct registry_zk *zk, struct err *err)
{
	zk->restart_at_ms = INT64_MAX;
	zk->stuck_at_ms = zk->now_ms + BEGIN_MS;
	zk->worker_complained = false;
	zk->worker_spoke = false;
	zk->closed = 0;
	zk->started_ms = clock_monotonic_ms();
	zk->said_ms = zk->started_ms;
	zk->no_worker = spawn_worker(zk, err) < 0;
	if (zk->no_worker) {
		zk->stuck_at_ms = INT64_MAX;
		return err->code;
	}
	registry_zk_quota_begin(&zk->quota, zk->now_ms);
	registry_zk_poll_worker(zk, EPOLL_CTL_ADD, false);
	poll_log(zk);
	return 0;
}

static void start_worker_again(struct registry_zk *zk)
{
	struct err err = ERR_INIT;
	if (zk->not_before_ms != 0) {
		try_credential_again(zk);
	}
	if (start_worker(zk, &err)) {
		registry_zk_attempt_failed(zk, err.msg);
		if (registry_zk_warning_due(zk)) {
			registry_zk_log(zk, REGISTRY_LOG_ERROR, "%s", err.msg);
		}
		schedule_restart(zk);
		registry_zk_jobs_fail_unsent(zk, BERTH_REGISTRY_UNAVAILABLE, zk->trouble);
	}
}

/*
 * Its session, if any, is left standing. Kills and waits first: a session must never have two
 * holders.
 */
static void drop_worker(struct registry_zk *zk, const char *why)
{
	zk_worker_process_end(&zk->worker);
	zk->replace_why = NULL;
	zk->frames_wait = false;
	zk->stuck_at_ms = INT64_MAX;
	schedule_restart(zk);
	registry_zk_on_worker_lost(zk, why);
}

/* False for the lines of this second that are too many; the first of them says so. */
static bool may_log(struct registry_zk *zk)
{
	int64_t second = zk->now_ms / 1000;
	if (zk->log_second != second) {
		zk->log_second = second;
		zk->log_lines = 0;
	}
	zk->log_lines++;
	if (zk->log_lines == LINES_A_SECOND + 1) {
		registry_zk_log(zk, REGISTRY_LOG_DEBUG,
			"more lines of the ZooKeeper worker in this second are left out");
	}
	return zk->log_lines <= LINES_A_SECOND;
}

static void on_log(struct registry_zk *zk, const struct zk_log *log)
{
	if (log->kind == ZK_LOG_CLOSED) {
		registry_zk_on_closed(zk);
	}
	if (!may_log(zk)) {
		return;
	}
	if (log->kind == ZK_LOG_DETAIL) {
		registry_zk_log(zk, REGISTRY_LOG_DEBUG, "ZooKeeper: %s", log->message);
		return;
	}
	if (log->kind == ZK_LOG_CAGE) {
		/* The first worker's cage is news, and so is a different one. */
		bool same = strcmp(zk->cage, log->message) == 0;
		text_printf(zk->cage, sizeof(zk->cage), "%s", log->message);
		registry_zk_log(zk, same ? REGISTRY_LOG_DEBUG : REGISTRY_LOG_INFO,
			"the ZooKeeper worker's %s", log->message);
		return;
	}
	if (zk->contact != REGISTRY_ZK_NONE) {
		snprintf(zk->trouble, sizeof(zk->trouble), "%s", log->message);
		registry_zk_log(zk, REGISTRY_LOG_DEBUG, "ZooKeeper: %s", log->message);
		return;
	}
	registry_zk_complain(zk, log);
}

static void on_event(struct registry_zk *zk, const struct zk_event *event)
{
	size_t root_len = strlen(zk->root);
	const char *path = event->path + root_len;
	char foreign[REGISTRY_ZK_PATH_SIZE];
	if (strncmp(event->path, zk->root, root_len) != 0 || (*path != '/' && *path != '\0')) {
		snprintf(foreign, sizeof(foreign), "/%s", event->path);
		path = foreign;
	}
	zk->backend.core.notified(zk->backend.core.core, *path ? path : "/",
		event->kind == ZK_EVENT_DATA ? REGISTRY_WATCH_DATA : REGISTRY_WATCH_CHILDREN,
		event->gone);
}

static int on_frame(struct registry_zk *zk, const struct zk_frame *frame)
{
	struct zk_session session;
	struct zk_result result;
	struct zk_event event;
	struct zk_log log;
	if (zk_session_decode(&session, frame) == 0) {
		registry_zk_on_session(zk, &session);
	} else if (zk_result_decode(&result, frame) == 0) {
		if (result.tag == REGISTRY_ZK_TAG_CONTACT) {
			registry_zk_on_contact(zk, result.rc);
		} else {
			registry_zk_on_result(zk, &result);
		}
	} else if (zk_event_decode(&event, frame) == 0) {
		on_event(zk, &event);
	} else if (zk_log_decode(&log, frame) == 0) {
		on_log(zk, &log);
	} else {
		return -1;
	}
	return 0;
}

static void note_word(struct registry_zk *zk)
{
	zk->worker_spoke = true;
	if (registry_zk_wants_end_in_silence(zk)) {
		zk->silent_ends = 0;
	}
}

/*
 * -1 when the worker sends an invalid frame. Callbacks may queue requests, but do not touch
 * worker.in.
 */
static int handle_frames(struct registry_zk *zk)
{
	size_t used = 0;
	int rc = 0;
	zk->frames_wait = false;
	for (int count = 0; rc == 0 && !zk->replace_why; count++) {
		struct zk_frame frame;
		long len = zk_frame_next(
			&frame, zk->worker.in.data + used, zk->worker.in.len - used);
		if (len <= 0) {
			rc = (int)len;
			break;
		}
		note_word(zk);
		if (count == FRAMES_AT_ONCE) {
			zk->frames_wait = true;
			break;
		}
		if (!registry_zk_quota_take(&zk->quota, zk->now_ms)) {
			registry_zk_refuse_worker(
				zk, "the ZooKeeper worker sends more than it was asked for");
			break;
		}
		rc = on_frame(zk, &frame);
		used += (size_t)len;
	}
	buffer_consume(&zk->worker.in, used);
	return rc;
}

/* Of the libraries: they write past the client's own log. */
static void read_log(struct registry_zk *zk)
{
	char text[READ_LOG_BYTES];
	char *rest = text;
	if (zk_worker_process_read_log(&zk->worker, text, sizeof(text)) == 0) {
		return;
	}
	if (!registry_zk_quota_take(&zk->quota, zk->now_ms)) {
		registry_zk_refuse_worker(zk, "the ZooKeeper worker writes without end");
	}
	for (char *line; (line = strsep(&rest, "\n"));) {
		char words[LINE_MOST_BYTES];
		if (*line) {
			text_printf(words, sizeof(words), "%s", line);
			on_log(zk, &(struct zk_log){ ZK_LOG_LIBRARY, words });
		}
	}
}

static void listen_to_worker(struct registry_zk *zk)
{
	if (zk->worker.fd < 0) {
		return;
	}
	registry_zk_flush(zk);
	read_log(zk);
	bool gone = zk_worker_process_receive(&zk->worker) < 0;
	bool nonsense = zk->worker.in.len > 0 && handle_frames(zk) < 0;
	if (zk->replace_why) {
		drop_worker(zk, zk->replace_why);
	} else if ((gone && !zk->frames_wait) || nonsense) {
		if (zk->contact == REGISTRY_ZK_NONE && !zk->worker_complained) {
			registry_zk_attempt_failed(zk, "the ZooKeeper worker ended");
		}
		drop_worker(zk, "the ZooKeeper worker ended");
		zk->silent_ends += !zk->worker_spoke;
		registry_zk_log(zk,
			registry_zk_warning_due(zk) ? REGISTRY_LOG_WARN : REGISTRY_LOG_DEBUG,
			"the ZooKeeper worker %s; starting another one",
			gone ? "ended" : "cannot be understood");
	}
}

/* ---- the table ---- */

static void zk_free(struct registry_zk *zk)
{
	zk_worker_process_end(&zk->worker);
	registry_zk_jobs_finish(zk);
	if (zk->epoll_fd >= 0) {
		close(zk->epoll_fd);
	}
	registry_zk_unconfigure(zk);
	free(zk);
}

static int zk_open(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core, struct err *err)
{
	struct registry_zk *zk = calloc(1, sizeof(*zk));
	if (!zk) {
		return err_set(err, BERTH_FAILED, "no memory for a ZooKeeper registry");
	}
	zk->backend = (struct registry_backend){ .ops = &registry_zk_ops, .core = *core };
	list_init(&zk->finished);
	zk->state = REGISTRY_CONNECTING;
	zk->lost_at_ms = INT64_MAX;
	zk->heard_ms = INT64_MIN;
	zk->stuck_at_ms = INT64_MAX;
	zk->next_deadline_ms = INT64_MAX;
	zk->free_job = UINT32_MAX;
	zk->jitter = (unsigned)clock_monotonic_ms() ^ (unsigned)getpid();
	zk_worker_process_init(&zk->worker);
	zk->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (zk->epoll_fd < 0) {
		err_set_errno(err, BERTH_FAILED, errno, "no epoll descriptor");
	}
	if (err->code || registry_zk_configure(zk, rest, options, err)) {
		zk_free(zk);
		return err->code;
	}
	/*
	 * The process comes up while the caller prepares the rest. If it cannot be started, the
	 * first dispatch() tries again, and says why; until then tasks wait for it.
	 */
	struct err ignored = ERR_INIT;
	zk->now_ms = clock_monotonic_ms();
	if (start_worker(zk, &ignored)) {
		zk->no_worker = false;
		zk->restart_at_ms = 0;
	}
	*ret_backend = &zk->backend;
	return 0;
}

/* The state that the worker reported last; 0 while it has reported none. */
static int read_session_state(struct zk_worker_process *worker)
{
	int state = 0;
	struct zk_frame frame;
	long len;
	while ((len = zk_frame_next(&frame, worker->in.data, worker->in.len)) > 0) {
		struct zk_session session;
		if (zk_session_decode(&session, &frame) == 0) {
			state = (int)session.state;
		}
		buffer_consume(&worker->in, (size_t)len);
	}
	return len < 0 ? (int)ZK_SESSION_EXPIRED : state;
}

/* The worker that had the session was frozen: another one goes on with it, and ends it. */
static void close_with_another_worker(struct registry_zk *zk, int64_t until_ms)
{
	struct err err = ERR_INIT;
	int state = 0;
	if (spawn_worker(zk, &err)) {
		return; /* the session ends by itself */
	}
	while ((state == 0 || state == ZK_SESSION_CONNECTING) &&
		zk_worker_process_wait(&zk->worker, (int)(until_ms - clock_monotonic_ms()))) {
		state = read_session_state(&zk->worker);
	}
	if (state == ZK_SESSION_CONNECTED) {
		int64_t left_ms = until_ms - clock_monotonic_ms();
		zk_worker_process_close(&zk->worker, left_ms > 0 ? (int)left_ms : 0);
	}
}

static void zk_close(struct registry_backend *backend)
{
	struct registry_zk *zk = zk_of(backend);
	int64_t until_ms = clock_monotonic_ms() + zk->close_timeout_ms;
	if (zk->contact != REGISTRY_ZK_NONE &&
		!zk_worker_process_close(&zk->worker, zk->close_timeout_ms / 2)) {
		close_with_another_worker(zk, until_ms);
	}
	zk_free(zk);
}

static json_t *zk_detach(struct registry_backend *backend)
{
	struct registry_zk *zk = zk_of(backend);
	json_t *session = registry_zk_session_encode(zk);
	zk_free(zk);
	return session;
}

static json_t *zk_session(const struct registry_backend *backend)
{
	return registry_zk_session_encode((const struct registry_zk *)backend);
}

static int zk_fd(const struct registry_backend *backend)
{
	return ((const struct registry_zk *)backend)->epoll_fd;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t zk_deadline_ms(const struct registry_backend *backend)
{
	const struct registry_zk *zk = (const struct registry_zk *)backend;
	if (!list_empty(&zk->finished) || zk->replace_why || zk->frames_wait) {
		return 0;
	}
	return earlier(registry_zk_session_deadline_ms(zk),
		earlier(zk->restart_at_ms, zk->next_deadline_ms));
}

static void zk_dispatch(struct registry_backend *backend, int64_t now_ms)
{
	struct registry_zk *zk = zk_of(backend);
	zk->now_ms = now_ms;
	registry_zk_jobs_deliver(zk);
	listen_to_worker(zk);
	registry_zk_session_timers(zk);
	if (zk->replace_why) {
		bool known = zk->contact == REGISTRY_ZK_NONE && !registry_zk_warning_due(zk);
		registry_zk_log(zk, known ? REGISTRY_LOG_DEBUG : REGISTRY_LOG_WARN,
			"%s; starting another worker", zk->replace_why);
		drop_worker(zk, zk->replace_why);
	}
	if (now_ms >= zk->restart_at_ms) {
		start_worker_again(zk);
	}
	registry_zk_jobs_deadlines(zk);
}

static void zk_submit(struct registry_backend *backend, struct registry_task *task)
{
	registry_zk_submit(zk_of(backend), task);
}

static void zk_abandon(struct registry_backend *backend, struct registry_task *task)
{
	registry_zk_abandon(zk_of(backend), task);
}

static void zk_unwatch(
	struct registry_backend *backend, const char *path, enum registry_watch_kind kind)
{
	struct registry_zk *zk = zk_of(backend);
	char full[REGISTRY_ZK_PATH_SIZE];
	struct zk_request request = {
		.operation = kind == REGISTRY_WATCH_DATA ? ZK_UNWATCH_DATA : ZK_UNWATCH_CHILDREN,
		.path = registry_zk_path(zk, full, path),
	};
	/*
	 * Without a connection the library's tables cannot be changed; such a watch fires once at
	 * most, unheard.
	 */
	if (zk->contact != REGISTRY_ZK_NONE) {
		registry_zk_send(zk, &request);
	}
}

static int zk_reauthenticate(struct registry_backend *backend, struct err *err)
{
	struct registry_zk *zk = zk_of(backend);
	int changed = registry_zk_reread_credential(zk, err);
	if (changed < 0) {
		return changed;
	}
	if (changed || zk->state == REGISTRY_DENIED) {
		zk->not_before_ms = 0;
		if (zk->worker.fd < 0) {
			zk->restart_at_ms = 0;
		} else {
			zk->replace_why = "the credentials have changed";
		}
	}
	return 0;
}

static const char *zk_session_name(const struct registry_backend *backend)
{
	return ((const struct registry_zk *)backend)->name;
}

static const char *zk_server(const struct registry_backend *backend)
{
	return ((const struct registry_zk *)backend)->server;
}

static const char *zk_root(const struct registry_backend *backend)
{
	return ((const struct registry_zk *)backend)->root;
}

static int zk_session_timeout_ms(const struct registry_backend *backend)
{
	const struct registry_zk *zk = (const struct registry_zk *)backend;
	return zk->session.timeout_ms ? zk->session.timeout_ms : zk->wanted_timeout_ms;
}

static int64_t zk_heard_ms(const struct registry_backend *backend)
{
	return ((const struct registry_zk *)backend)->heard_ms;
}

const struct registry_backend_ops registry_zk_ops = {
	.scheme = "zookeeper",
	.check = registry_zk_check,
	.open = zk_open,
	.close = zk_close,
	.detach = zk_detach,
	.session = zk_session,
	.fd = zk_fd,
	.deadline_ms = zk_deadline_ms,
	.dispatch = zk_dispatch,
	.submit = zk_submit,
	.abandon = zk_abandon,
	.unwatch = zk_unwatch,
	.reauthenticate = zk_reauthenticate,
	.root = zk_root,
	.session_name = zk_session_name,
	.server = zk_server,
	.session_timeout_ms = zk_session_timeout_ms,
	.heard_ms = zk_heard_ms,
};
