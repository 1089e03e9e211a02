/*
 * The host: backend: what a container sees of the registry, by the host's agent.
 *
 *   host.c   state, tasks, what is asked: this file; each question is a POST (lib/peer/post.h)
 *   node.c   an answer as the result of a task
 *
 * The answers and all that changes come by one event stream (lib/peer/stream.h; GET /v1/follow in
 * docs/PROTOCOL.md), in the order in which they were true for the host's agent. So a confirmation
 * proves all that came before it, as old as the host's agent says and as the question is: this
 * backend counts from the time at which it asked.
 *
 *   CONNECTING --SUBSCRIBED--> CONNECTED <--STALE, FRESH--> AWAY
 *        '------- no stream -----> AWAY <---- no stream ----'
 *
 * Nothing is written here: a container's own records are those of the dir: registry next to the
 * socket.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/peer/stream.h"
#include "lib/registry/host/node.h"
#include "lib/peer/post.h"
#include "lib/registry/url.h"

enum { CONFIRM_SHARE = 3, MOST_DROPS = 4096, STREAM_ID_BYTES = 32 };

struct host_backend {
	struct registry_backend base;
	char *directory;
	char *socket_path;
	int epoll_fd;
	struct client_stream *stream;
	struct client_post post;

	enum registry_state state;
	bool lost; /* the stream broke since the last dispatch */
	char stream_id[STREAM_ID_BYTES];
	char session_name[96];
	int session_timeout_ms;
	int64_t heard_ms;
	int64_t first_heard_ms; /* by what the stream began with */

	struct list tasks; /* `tag` 0: not asked yet */
	json_t *drops;     /* watches that are to end: an array of objects */
	bool fresh;        /* there is something to ask */
	uint64_t last_id;
	/* The confirmation under way; one at a time. 0: none. */
	uint64_t confirm_id;
	int64_t confirm_asked_ms;
	bool confirm_wanted; /* by nobody's task: when it was heard is not known */
};

static struct host_backend *self(struct registry_backend *backend)
{
	return (struct host_backend *)backend;
}

/* ---- state ---- */

static void report_state(struct host_backend *host, enum registry_state state, const char *why)
{
	if (host->state != state) {
		host->state = state;
		host->base.core.state(host->base.core.core, state, why);
	}
}

static void complete(struct host_backend *host, struct registry_task *task)
{
	list_remove(&task->link);
	host->base.core.completed(host->base.core.core, task);
}

/* Those that callbacks submit meanwhile stay. */
static void fail_all(struct host_backend *host, const char *why)
{
	struct list failed;
	list_init(&failed);
	list_move_all(&failed, &host->tasks);
	while (!list_empty(&failed)) {
		struct registry_task *task = LIST_ITEM(failed.next, struct registry_task, link);
		err_set(&task->ret_err, BERTH_REGISTRY_UNAVAILABLE, "%s", why);
		complete(host, task);
	}
}

static void lose(struct host_backend *host)
{
	char why[512];
	const struct err *trouble = client_stream_trouble(host->stream);
	bool old = trouble->code == BERTH_PATH_NOT_FOUND;
	text_printf(why, sizeof(why), "the host's agent at %s %s: %s", host->socket_path,
		old ? "does not know this request (is it older than this agent?)"
		    : "cannot be reached",
		trouble->msg);
	host->lost = false;
	client_post_close(&host->post);
	json_array_clear(host->drops);
	host->confirm_id = 0;
	*host->stream_id = '\0';
	host->base.core.container(host->base.core.core, NULL);
	report_state(host, REGISTRY_AWAY, why);
	fail_all(host, why);
}

/* ---- events ---- */

static const char *text_of(const json_t *event, const char *member)
{
	const char *text = json_string_value(json_object_get(event, member));
	return text ? text : "";
}

static void take_container(struct host_backend *host, const json_t *event)
{
	const json_t *container = json_object_get(event, "container");
	if (json_is_object(container)) {
		text_printf(host->session_name, sizeof(host->session_name), "container %s",
			text_of(container, "name"));
	}
	host->base.core.container(
		host->base.core.core, json_is_object(container) ? container : NULL);
}

static void hear(struct host_backend *host, int64_t heard_ms)
{
	host->heard_ms = heard_ms > host->heard_ms ? heard_ms : host->heard_ms;
}

static void take_state(struct host_backend *host, const json_t *event, bool connected)
{
	const char *why = text_of(event, "why");
	if (connected) {
		/* The next answers may come before the first confirmation, or without any. */
		hear(host, host->first_heard_ms);
		report_state(host, REGISTRY_CONNECTED, "by the host's agent");
	} else {
		report_state(host, REGISTRY_AWAY,
			*why ? why : "the host's agent cannot reach its registry");
		fail_all(host, "the host's agent cannot reach its registry");
	}
	host->confirm_wanted = connected;
}

/* A host's agent that has never heard its registry hears it later than it was asked, if at all. */
static void take_first_age(struct host_backend *host, const json_t *age, bool connected)
{
	int64_t asked_ms = client_stream_asked_ms(host->stream);
	json_int_t age_ms = json_integer_value(age);
	if (json_is_integer(age) && age_ms >= 0 && age_ms < asked_ms) {
		host->first_heard_ms = asked_ms - age_ms;
	} else {
		host->first_heard_ms = age || connected ? INT64_MIN : asked_ms;
	}
}

static void on_subscribed(struct host_backend *host, const json_t *event)
{
	json_int_t timeout_ms = json_integer_value(json_object_get(event, "session_timeout_ms"));
	if (timeout_ms >= 0 && timeout_ms <= INT32_MAX) {
		host->session_timeout_ms = (int)timeout_ms;
	}
	text_printf(host->stream_id, sizeof(host->stream_id), "%s", text_of(event, "stream_id"));
	if (host->stream_id[strspn(host->stream_id, "0123456789abcdef")]) {
		*host->stream_id = '\0'; /* it is to be part of a request */
	}
	bool connected = json_is_true(json_object_get(event, "connected"));
	take_first_age(host, json_object_get(event, "heard_ms"), connected);
	take_container(host, event);
	take_state(host, event, connected);
}

static struct registry_task *find_asked(struct host_backend *host, uint64_t id)
{
	for (struct list *at = host->tasks.next; at != &host->tasks; at = at->next) {
		struct registry_task *task = LIST_ITEM(at, struct registry_task, link);
		if (task->tag == id) {
			return task;
		}
	}
	return NULL;
}

static uint64_t id_of(const json_t *event)
{
	json_int_t id = json_integer_value(json_object_get(event, "id"));
	return id > 0 ? (uint64_t)id : UINT64_MAX;
}

static void on_read(struct host_backend *host, const json_t *event)
{
	struct registry_task *task = find_asked(host, id_of(event));
	if (task && !task->confirms) {
		host_node_take(task, event);
		complete(host, task);
	}
}

static void on_changed(struct host_backend *host, const json_t *event)
{
	bool list = json_is_true(json_object_get(event, "list"));
	host->base.core.notified(host->base.core.core, text_of(event, "path"),
		list ? REGISTRY_WATCH_CHILDREN : REGISTRY_WATCH_DATA, false);
}

static void on_confirmed(struct host_backend *host, const json_t *event)
{
	const json_t *heard = json_object_get(event, "heard_ms");
	uint64_t id = id_of(event);
	struct registry_task *task;
	if (id != host->confirm_id) {
		return;
	}
	host->confirm_id = 0;
	bool confirmed = json_is_integer(heard) && json_integer_value(heard) >= 0;
	if (confirmed && json_integer_value(heard) < host->confirm_asked_ms) {
		hear(host, host->confirm_asked_ms - json_integer_value(heard));
	}
	while ((task = find_asked(host, id)) != NULL) {
		if (!confirmed) {
			err_set(&task->ret_err, BERTH_REGISTRY_UNAVAILABLE,
				"the host's agent has not heard its registry");
		}
		complete(host, task);
	}
}

static void on_event_take(void *context, json_t *event)
{
	struct host_backend *host = context;
	const char *type = text_of(event, "type");
	if (strcmp(type, "READ") == 0) {
		on_read(host, event);
	} else if (strcmp(type, "CHANGED") == 0) {
		on_changed(host, event);
	} else if (strcmp(type, "CONFIRMED") == 0) {
		on_confirmed(host, event);
	} else if (strcmp(type, "SUBSCRIBED") == 0 || strcmp(type, "RESYNC") == 0) {
		on_subscribed(host, event);
	} else if (strcmp(type, "STALE") == 0 || strcmp(type, "FRESH") == 0) {
		take_state(host, event, *type == 'F');
	} else if (strcmp(type, "CONTAINER") == 0) {
		take_container(host, event);
	} else if (!event || strcmp(type, "LOST") == 0) {
		host->lost = true;
	}
	json_decref(event);
}

/* ---- questions ---- */

static void ask_reads(struct host_backend *host, struct buffer *body)
{
	const char *separator = "";
	buffer_append_text(body, ",\"reads\":[");
	for (struct list *at = host->tasks.next;
		at != &host->tasks && body->len < CLIENT_POST_BYTES - 2 * LIMIT_PATH_BYTES;
		at = at->next) {
		struct registry_task *task = LIST_ITEM(at, struct registry_task, link);
		if (task->tag == 0 && !task->confirms) {
			task->tag = ++host->last_id;
			buffer_printf(body,
				"%s{\"id\":%llu,\"path\":\"%s\",\"list\":%s,\"watch\":%s}",
				separator, (unsigned long long)task->tag, task->path,
				task->operation == REGISTRY_OP_CHILDREN ? "true" : "false",
				task->watch ? "true" : "false");
			separator = ",";
		}
	}
	buffer_append_text(body, "]");
}

static void ask_drops(struct host_backend *host, struct buffer *body)
{
	size_t count = json_array_size(host->drops);
	buffer_append_text(body, "\"drops\":[");
	for (size_t i = 0; i < count && body->len < CLIENT_POST_BYTES / 2; i++) {
		const json_t *last = json_array_get(host->drops, json_array_size(host->drops) - 1);
		buffer_printf(body, "%s{\"path\":\"%s\",\"list\":%s}", i ? "," : "",
			text_of(last, "path"),
			json_is_true(json_object_get(last, "list")) ? "true" : "false");
		json_array_remove(host->drops, json_array_size(host->drops) - 1);
	}
	buffer_append_text(body, "]");
}

/* Of all that wait, the one with the tightest bound decides. */
static void ask_confirmation(struct host_backend *host, struct buffer *body, int64_t now_ms)
{
	int64_t since_ms = host->confirm_wanted ? now_ms - host->session_timeout_ms / CONFIRM_SHARE
						: INT64_MIN;
	bool wanted = host->confirm_wanted;
	if (host->confirm_id != 0) {
		return;
	}
	for (struct list *at = host->tasks.next; at != &host->tasks; at = at->next) {
		struct registry_task *task = LIST_ITEM(at, struct registry_task, link);
		if (task->tag == 0 && task->confirms) {
			wanted = true;
			since_ms = task->since_ms > since_ms ? task->since_ms : since_ms;
			task->tag = host->last_id + 1;
		}
	}
	if (!wanted) {
		return;
	}
	host->confirm_id = ++host->last_id;
	host->confirm_asked_ms = now_ms;
	host->confirm_wanted = false;
	buffer_printf(body, ",\"confirms\":[{\"id\":%llu,\"max_age_ms\":%lld}]",
		(unsigned long long)host->confirm_id,
		(long long)(since_ms < now_ms ? now_ms - since_ms : 0));
}

static bool may_ask(const struct host_backend *host)
{
	return host->fresh && !host->post.busy && host->state == REGISTRY_CONNECTED &&
		*host->stream_id;
}

static void ask(struct host_backend *host, int64_t now_ms)
{
	char target[64];
	struct buffer body;
	struct err err = ERR_INIT;
	buffer_init(&body, CLIENT_POST_BYTES);
	buffer_append_text(&body, "{");
	ask_drops(host, &body);
	/* A later drop would end the watch of a read that goes before it. */
	if (json_array_size(host->drops) == 0) {
		ask_reads(host, &body);
	}
	ask_confirmation(host, &body, now_ms);
	buffer_append_text(&body, "}");
	text_printf(target, sizeof(target), "/v1/follow/%s", host->stream_id);
	int code = body.failed
		? err_set(&err, BERTH_FAILED, "no memory to ask the host's agent")
		: client_post_send(&host->post, target, buffer_text(&body), now_ms, &err);
	buffer_finish(&body);
	if (code) {
		client_stream_break(host->stream, &err, now_ms);
	}
}

static bool has_unasked(const struct host_backend *host)
{
	bool any = json_array_size(host->drops) > 0;
	for (const struct list *at = host->tasks.next; at != &host->tasks && !any; at = at->next) {
		const struct registry_task *task = LIST_ITEM(at, struct registry_task, link);
		any = task->tag == 0 && (!task->confirms || host->confirm_id == 0);
	}
	return any || (host->confirm_wanted && host->confirm_id == 0);
}

/* ---- tasks ---- */

static bool is_read(const struct registry_task *task)
{
	return task->operation == REGISTRY_OP_GET || task->operation == REGISTRY_OP_CHILDREN ||
		task->operation == REGISTRY_OP_STAT;
}

static struct registry_task *next_over(struct host_backend *host, int64_t now_ms)
{
	for (struct list *at = host->tasks.next; at != &host->tasks; at = at->next) {
		struct registry_task *task = LIST_ITEM(at, struct registry_task, link);
		if (!is_read(task)) {
			err_set(&task->ret_err, BERTH_NO_PATH_PERMISSIONS,
				"a container's records are written in dir:%s/%s, not through the "
				"host's agent",
				host->directory, REGISTRY_URL_HOST_RECORDS);
			return task;
		}
		if (now_ms >= task->deadline_ms) {
			bool sent = task->tag != 0;
			err_set(&task->ret_err, sent ? BERTH_TIMEOUT : BERTH_REGISTRY_UNAVAILABLE,
				"the host's agent has not answered in time: %s", task->path);
			return task;
		}
	}
	return NULL;
}

static void host_dispatch(struct registry_backend *backend, int64_t now_ms)
{
	struct host_backend *host = self(backend);
	struct err err = ERR_INIT;
	struct registry_task *task;
	client_stream_dispatch(host->stream, now_ms);
	if (!host->lost && client_post_dispatch(&host->post, now_ms, &err)) {
		client_stream_break(host->stream, &err, now_ms);
	}
	host->fresh = has_unasked(host);
	if (!host->lost && may_ask(host)) {
		ask(host, now_ms);
	}
	if (host->lost) {
		lose(host);
	}
	while ((task = next_over(host, now_ms)) != NULL) {
		complete(host, task);
	}
	host->fresh = has_unasked(host);
}

static int64_t host_deadline_ms(const struct registry_backend *backend)
{
	const struct host_backend *host = (const struct host_backend *)backend;
	int64_t deadline_ms = client_stream_due_ms(host->stream);
	if (may_ask(host)) {
		return 0;
	}
	if (host->post.busy && host->post.deadline_ms < deadline_ms) {
		deadline_ms = host->post.deadline_ms;
	}
	for (const struct list *at = host->tasks.next; at != &host->tasks; at = at->next) {
		const struct registry_task *task = LIST_ITEM(at, struct registry_task, link);
		int64_t due_ms = is_read(task) ? task->deadline_ms : 0;
		deadline_ms = due_ms < deadline_ms ? due_ms : deadline_ms;
	}
	return deadline_ms;
}

static int host_fd(const struct registry_backend *backend)
{
	return ((const struct host_backend *)backend)->epoll_fd;
}

static void host_submit(struct registry_backend *backend, struct registry_task *task)
{
	struct host_backend *host = self(backend);
	task->tag = 0;
	list_append(&host->tasks, &task->link);
	host->fresh = true;
}

static void host_abandon(struct registry_backend *backend, struct registry_task *task)
{
	(void)backend;
	list_remove(&task->link);
}

static void host_unwatch(
	struct registry_backend *backend, const char *path, enum registry_watch_kind kind)
{
	struct host_backend *host = self(backend);
	/* A watch that stays by mistake costs the host's agent one message. */
	if (host->state == REGISTRY_CONNECTED && json_array_size(host->drops) < MOST_DROPS) {
		(void)json_array_append_new(host->drops,
			json_pack("{s:s, s:b}", "path", path, "list",
				kind == REGISTRY_WATCH_CHILDREN));
		host->fresh = true;
	}
}

static const char *host_session_name(const struct registry_backend *backend)
{
	return ((const struct host_backend *)backend)->session_name;
}

static int host_session_timeout_ms(const struct registry_backend *backend)
{
	return ((const struct host_backend *)backend)->session_timeout_ms;
}

static int64_t host_heard_ms(const struct registry_backend *backend)
{
	return ((const struct host_backend *)backend)->heard_ms;
}

static json_t *host_session(const struct registry_backend *backend)
{
	(void)backend;
	return NULL;
}

/* ---- life ---- */

static void host_close(struct registry_backend *backend)
{
	struct host_backend *host = self(backend);
	client_stream_free(host->stream);
	client_post_finish(&host->post);
	if (host->epoll_fd >= 0) {
		close(host->epoll_fd);
	}
	json_decref(host->drops);
	free(host->socket_path);
	free(host->directory);
	free(host);
}

static json_t *host_detach(struct registry_backend *backend)
{
	host_close(backend);
	return NULL;
}

static int host_check(
	const struct registry_options *options, const char **ret_option, struct err *err)
{
	struct registry_url url;
	struct sockaddr_un address;
	if (registry_url_parse(&url, options->url, err)) {
		return err->code;
	}
	if (options->secure || strcmp(options->auth, "none") != 0) {
		*ret_option = options->secure ? "secure" : "auth";
		return err_set(err, BERTH_FAILED,
			"with url = host: the host's agent writes to the registry, by its own "
			"identity: %s belongs into its configuration",
			*ret_option);
	}
	if (strlen(url.path) + strlen("/" REGISTRY_URL_HOST_SOCKET) >= sizeof(address.sun_path)) {
		*ret_option = "url";
		return err_set(err, BERTH_FAILED,
			"the path %s/%s is too long for a socket: at most %zu bytes", url.path,
			REGISTRY_URL_HOST_SOCKET, sizeof(address.sun_path) - 1);
	}
	return 0;
}

static int host_open(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core, struct err *err)
{
	struct host_backend *host = calloc(1, sizeof(*host));
	if (!host) {
		return err_set(err, BERTH_FAILED, "no memory for a registry");
	}
	host->base = (struct registry_backend){ .ops = &registry_host_ops, .core = *core };
	host->state = REGISTRY_CONNECTING;
	host->heard_ms = INT64_MIN;
	host->session_timeout_ms = options->session_timeout_ms;
	list_init(&host->tasks);
	host->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	host->drops = json_array();
	host->directory = strdup(rest);
	if (asprintf(&host->socket_path, "%s/%s", rest, REGISTRY_URL_HOST_SOCKET) < 0) {
		host->socket_path = NULL;
	}
	client_post_init(&host->post, host->socket_path, host->epoll_fd);
	if (host->epoll_fd < 0 || !host->drops || !host->directory || !host->socket_path) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot follow the host's agent");
	} else if (client_stream_create(&host->stream, host->socket_path, "/v1/follow",
			   host->epoll_fd, on_event_take, host, err) == 0) {
		*ret_backend = &host->base;
		return 0;
	}
	host_close(&host->base);
	return err->code;
}

const struct registry_backend_ops registry_host_ops = {
	.scheme = "host",
	.check = host_check,
	.open = host_open,
	.close = host_close,
	.detach = host_detach,
	.session = host_session,
	.fd = host_fd,
	.deadline_ms = host_deadline_ms,
	.dispatch = host_dispatch,
	.submit = host_submit,
	.abandon = host_abandon,
	.unwatch = host_unwatch,
	.session_name = host_session_name,
	.session_timeout_ms = host_session_timeout_ms,
	.heard_ms = host_heard_ms,
};
