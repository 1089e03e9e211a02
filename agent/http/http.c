#include "agent/http/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/http/socket.h"
#include "agent/base/log.h"

enum {
	POOL_BYTES = 16 * 1024, /* HTTP_TARGET_BYTES + HTTP_HEADER_BYTES, and our answer's head */
	/* There may be thousands of local streams; libmicrohttpd refuses what does not fit: 414, 431. */
	LOCAL_POOL_BYTES = 6 * 1024,
	POOL_INCREMENT = 1024,
	/* A longer body is refused at once; a shorter one, if too long, at its end. */
	DISCARDED_BODY_BYTES = 1024 * 1024,
	SPARE_DESCRIPTORS = 128, /* for everything but connections */
	REMOTE_SHARE =
		4, /* there may be a quarter as many remote connections as local ones, beside them */
	FEWEST_REMOTE = 16,
	HANGUP_BATCH = 64,
	FLUSH_TURNS = 64
};

/* ---- running ---- */

static void run(struct http *http)
{
	bool more = false;
	for (size_t i = 0; i < http->listener_count; i++) {
		struct MHD_Daemon *daemon = http->listeners[i].daemon;
		MHD_run(daemon);
		MHD_UNSIGNED_LONG_LONG timeout_ms;
		more = more || (MHD_get_timeout(daemon, &timeout_ms) == MHD_YES && timeout_ms == 0);
	}
	if (more) {
		ev_idle_start(http->loop, &http->kick);
	}
}

static void on_ready(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	struct listener *listener = io->data;
	run(listener->http);
}

static void on_kick(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)events;
	ev_idle_stop(loop, idle);
	run(idle->data);
}

static void on_sweep(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)events;
	struct http *http = timer->data;
	ev_tstamp limit = ev_now(loop) - http->options.idle_timeout_ms / 1000.;
	for (struct list *at = http->connections.next; at != &http->connections; at = at->next) {
		struct connection *connection = LIST_ITEM(at, struct connection, link);
		if (connection->suspended || connection->streaming || connection->pinned) {
			connection->last = ev_now(loop);
		} else if (connection->last < limit) {
			shutdown(connection->fd,
				SHUT_RDWR); /* libmicrohttpd sees the end and closes it */
		}
	}
}

/* ---- peers that hang up while nobody reads from them ---- */

static void on_hangup(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	struct http *http = io->data;
	struct epoll_event ready[HANGUP_BATCH];
	int count = epoll_wait(http->hangup_epoll, ready, HANGUP_BATCH, 0);
	for (int i = 0; i < count; i++) {
		struct connection *connection = ready[i].data.ptr;
		connection->half_closed = true;
		if (ready[i].events & (EPOLLHUP | EPOLLERR) ||
			http_connection_has_left(connection)) {
			connection->gone = true;
			http_connection_resume(connection);
		}
	}
}

/* ---- requests ---- */

static enum http_method method_from(const char *text)
{
	static const struct {
		const char *name;
		enum http_method method;
	} methods[] = {
		{ "GET", HTTP_GET },
		{ "HEAD", HTTP_HEAD },
		{ "POST", HTTP_POST },
		{ "PUT", HTTP_PUT },
		{ "DELETE", HTTP_DELETE },
	};
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (strcmp(text, methods[i].name) == 0) {
			return methods[i].method;
		}
	}
	return HTTP_OTHER;
}

struct head {
	struct http_request *request;
	unsigned long long body_len;
};

static enum MHD_Result collect_header(
	void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
	(void)kind;
	struct head *head = context;
	struct http_request *request = head->request;
	if (strcasecmp(name, "Accept") == 0) {
		request->accept = value;
	} else if (strcasecmp(name, "Cache-Control") == 0) {
		request->cache_control = value;
	} else if (strcasecmp(name, "If-None-Match") == 0) {
		request->if_none_match = value;
	} else if (strcasecmp(name, "Prefer") == 0) {
		request->prefer = value;
	} else if (strcasecmp(name, "Content-Length") == 0) {
		head->body_len = strtoull(value ? value : "", NULL, 10);
	}
	return MHD_YES;
}

static enum MHD_Result refuse(
	struct connection *connection, int status, const char *title, const char *detail)
{
	struct buffer body;
	buffer_init(&body, 1024);
	buffer_printf(&body,
		"{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"detail\":\"%s\"}\n",
		title, status, detail);
	struct http_response *response = http_response_create(
		"application/problem+json", buffer_text(&body), body.len);
	buffer_finish(&body);
	connection->answered = true;
	enum MHD_Result result = http_connection_queue(connection, status, response);
	http_response_free(response);
	return result;
}

/* For an answer that came after the handler had returned. */
static enum MHD_Result queue_answer(struct connection *connection)
{
	struct http_response *answer = connection->answer;
	connection->answer = NULL;
	enum MHD_Result result = http_connection_queue(connection, connection->status, answer);
	http_response_free(answer);
	return result;
}

/* Hands the complete request to its handler; what it does not answer at once is suspended. */
static enum MHD_Result dispatch(struct connection *connection)
{
	struct http *http = connection->http;
	connection->request.body = buffer_text(&connection->body);
	connection->request.body_len = connection->body.len;
	connection->in_handler = true;
	http->options.on_request(http->options.context, &connection->request);
	connection->in_handler = false;
	if (!connection->answered) {
		return http_connection_suspend(connection) ? MHD_YES : MHD_NO;
	}
	return connection->queued;
}

/* A proxy's client names us in the target too: http://berth/live. */
static const char *path_of(const char *url)
{
	static const char scheme[] = "http://";
	if (*url == '/' || strncasecmp(url, scheme, sizeof(scheme) - 1) != 0) {
		return url;
	}
	const char *path = strchr(url + sizeof(scheme) - 1, '/');
	return path ? path : "/";
}

static enum MHD_Result begin(
	struct connection *connection, const char *url, const char *method, const char *version)
{
	struct http_request *request = &connection->request;
	request->method = method_from(method);
	request->path = path_of(url);
	request->accept = NULL;
	request->cache_control = NULL;
	request->if_none_match = NULL;
	request->prefer = NULL;
	connection->active = true;
	connection->http->requests++;
	connection->last = ev_now(connection->http->loop);
	struct head head = { .request = request };
	MHD_get_connection_values(connection->mhd, MHD_HEADER_KIND, collect_header, &head);
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	if (connection->target_end - url > HTTP_TARGET_BYTES) {
		return refuse(connection, 414, "InvalidPathname", "the request target is too long");
	}
	if (info && info->header_size > HTTP_HEADER_BYTES + (size_t)(connection->target_end - url)) {
		return refuse(connection, 431, "LimitExceeded",
			"the request's header fields are too long");
	}
	/* A NUL in the target would make us serve what stands before it: the version does not follow then. */
	if (version != connection->target_end + 1) {
		return refuse(connection, 400, "InvalidPathname",
			"the request target holds a NUL byte or a blank");
	}
	/* A body that is only somewhat too long is read and refused at its end: who still writes would not see our answer. */
	if (head.body_len > DISCARDED_BODY_BYTES) {
		return refuse(connection, 413, "LimitExceeded", "the request body is too long");
	}
	return MHD_YES; /* to be called again with the body; an answer from here would close the connection */
}

static enum MHD_Result on_access(void *context, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload_data, size_t *upload_data_size,
	void **request_context)
{
	(void)context;
	(void)mhd;
	struct connection *connection = *request_context;
	if (!connection->active) {
		return begin(connection, url, method, version);
	}
	if (*upload_data_size > 0) {
		buffer_append(&connection->body, upload_data, *upload_data_size);
		*upload_data_size = 0;
		return MHD_YES;
	}
	if (connection->gone || connection->http->closing) {
		return MHD_NO;
	}
	if (connection->answer) {
		return queue_answer(connection);
	}
	if (connection->answered) {
		return MHD_NO;
	}
	if (connection->body.failed) {
		return refuse(connection, 413, "LimitExceeded", "the request body is too long");
	}
	return dispatch(connection);
}

/* Called when the request line has been read: the one place where its raw end can be seen. */
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
	(void)context;
	struct connection *connection =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	connection->heard = true;
	connection->target_end = target + strlen(target);
	return connection;
}

static size_t keep_raw(void *context, struct MHD_Connection *mhd, char *text)
{
	(void)context;
	(void)mhd;
	return strlen(text);
}

static void on_completed(void *context, struct MHD_Connection *mhd, void **request_context,
	enum MHD_RequestTerminationCode code)
{
	(void)context;
	(void)mhd;
	(void)code;
	struct connection *connection = *request_context;
	if (!connection || !connection->active) {
		return;
	}
	if (connection->streaming) {
		connection->stream.on_closed(connection->stream.context);
	} else if (!connection->answered && connection->on_closed) {
		connection->on_closed(connection->on_closed_context);
	}
	http_response_free(connection->answer);
	connection->answer = NULL;
	connection->on_closed = NULL;
	connection->answered = false;
	connection->streaming = false;
	connection->lasting = false;
	connection->heard = false;
	connection->active = false;
	connection->http->requests--;
	buffer_finish(&connection->body);
	connection->last = ev_now(connection->http->loop);
}

static void start_connection(
	struct listener *listener, struct MHD_Connection *mhd, void **socket_context)
{
	struct http *http = listener->http;
	struct connection *connection = calloc(1, sizeof(*connection));
	if (!connection) {
		log_error("http", "no memory for a connection");
		abort();
	}
	connection->http = http;
	connection->mhd = mhd;
	connection->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	connection->request.connection = ++http->next_connection;
	connection->request.local = listener->local;
	buffer_init(&connection->body, HTTP_BODY_BYTES);
	connection->last = ev_now(http->loop);
	list_append(&http->connections, &connection->link);
	http->connection_count++;
	listener->connections++;
	*socket_context = connection;
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
	enum MHD_ConnectionNotificationCode code)
{
	struct listener *listener = context;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		start_connection(listener, mhd, socket_context);
		return;
	}
	listener->connections--;
	http_accept_more(listener);
	struct connection *connection = *socket_context;
	struct http *http = connection->http;
	if (connection->watched) {
		epoll_ctl(http->hangup_epoll, EPOLL_CTL_DEL, connection->fd, NULL);
	}
	list_remove(&connection->link);
	http->connection_count--;
	uint64_t id = connection->request.connection;
	bool pinned = connection->pinned;
	buffer_finish(&connection->body);
	free(connection);
	if (pinned) {
		http->options.on_pinned_closed(http->options.context, id);
	}
}

/* ---- opening and closing ---- */

static int remote_limit(const struct http *http)
{
	int share = http->options.max_connections / REMOTE_SHARE;
	return share > FEWEST_REMOTE ? share : FEWEST_REMOTE;
}

static int start_daemon(struct http *http, int fd, bool local, struct err *err)
{
	struct listener *listener = &http->listeners[http->listener_count];
	listener->http = http;
	listener->local = local;
	listener->fd = fd;
	listener->max_connections = (size_t)(local ? http->options.max_connections
						   : remote_limit(http));
	/* Local clients have our clock. */
	unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
		(local ? (unsigned)MHD_USE_SUPPRESS_DATE_NO_CLOCK : 0);
	listener->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_access, listener,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)(local ? LOCAL_POOL_BYTES : POOL_BYTES),                  /**/
		MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)POOL_INCREMENT,   /**/
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)listener->max_connections, /**/
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, listener,            /**/
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, listener,              /**/
		MHD_OPTION_URI_LOG_CALLBACK, on_target, listener,                 /**/
		MHD_OPTION_UNESCAPE_CALLBACK, keep_raw, listener,                 /**/
		MHD_OPTION_END);
	if (!listener->daemon) {
		close(fd);
		return err_set(err, BERTH_FAILED, "cannot start the HTTP server");
	}
	int epoll_fd = MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	ev_io_init(&listener->io, on_ready, epoll_fd, EV_READ);
	listener->io.data = listener;
	ev_io_start(http->loop, &listener->io);
	http_accept_start(listener);
	http->listener_count++;
	return 0;
}

/* As many descriptors as the connections of all listeners need, and no more connections than there are descriptors. */
static void fit_limits(struct http *http, bool tcp)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
		return;
	}
	rlim_t spare = SPARE_DESCRIPTORS + (tcp ? FEWEST_REMOTE : 0);
	rlim_t connections = (rlim_t)http->options.max_connections;
	rlim_t wanted = connections + (tcp ? connections / REMOTE_SHARE : 0) + spare;
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		if (limit.rlim_cur < wanted && limit.rlim_cur > spare) {
			rlim_t left = limit.rlim_cur - spare;
			http->options.max_connections =
				(int)(tcp ? left * REMOTE_SHARE / (REMOTE_SHARE + 1) : left);
			log_warn("http", "at most %d connections: the limit of open files is %ju",
				http->options.max_connections, (uintmax_t)limit.rlim_cur);
		}
	}
}

static int open_listener(struct http *http, bool local, struct err *err)
{
	const struct http_options *options = &http->options;
	int fd = local ? options->socket_fd : options->listen_fd;
	if (fd >= 0) {
		if (http_socket_adopt(fd, err)) {
			return err->code;
		}
	} else if (local) {
		fd = http_socket_unix(
			options->socket_path, options->socket_mode, options->socket_group_id, err);
	} else {
		fd = http_socket_tcp(options->listen, err);
	}
	return fd < 0 ? fd : start_daemon(http, fd, local, err);
}

static int open_hangup(struct http *http, struct err *err)
{
	http->hangup_epoll = epoll_create1(EPOLL_CLOEXEC);
	if (http->hangup_epoll < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "epoll_create1");
	}
	ev_io_init(&http->hangup, on_hangup, http->hangup_epoll, EV_READ);
	http->hangup.data = http;
	ev_io_start(http->loop, &http->hangup);
	return 0;
}

static void init_watchers(struct http *http)
{
	ev_idle_init(&http->kick, on_kick);
	ev_set_priority(&http->kick, EV_MAXPRI); /* or a busy loop would never get to it */
	http->kick.data = http;
	double period = http->options.idle_timeout_ms / 4000.;
	ev_timer_init(&http->sweep, on_sweep, period, period);
	http->sweep.data = http;
	ev_timer_start(http->loop, &http->sweep);
}

int http_open(struct http **ret_http, struct ev_loop *loop, const struct http_options *options,
	struct err *err)
{
	struct http *http = calloc(1, sizeof(*http));
	char *path = strdup(options->socket_path);
	if (!http || !path) {
		free(http);
		free(path);
		return err_set(err, BERTH_FAILED, "no memory");
	}
	http->loop = loop;
	http->options = *options;
	http->options.socket_path = http->socket_path = path;
	http->hangup_epoll = -1;
	list_init(&http->connections);
	bool tcp = options->listen_fd >= 0 || (options->listen && options->listen[0]);
	fit_limits(http, tcp);
	init_watchers(http);
	if (open_hangup(http, err) || open_listener(http, true, err) ||
		(tcp && open_listener(http, false, err))) {
		http_close(http);
		return err->code;
	}
	*ret_http = http;
	return 0;
}

void http_close(struct http *http)
{
	if (!http) {
		return;
	}
	http->closing = true;
	for (struct list *at = http->connections.next; at != &http->connections; at = at->next) {
		http_connection_resume(LIST_ITEM(at, struct connection, link));
	}
	/* Unlinked while still served: nobody can take the name for a stale one, and we cannot unlink a successor's. */
	if (http->listener_count > 0 && !http->options.keep_socket) {
		unlink(http->socket_path);
	}
	for (size_t i = 0; i < http->listener_count; i++) {
		http_accept_stop(&http->listeners[i]);
		ev_io_stop(http->loop, &http->listeners[i].io);
		MHD_stop_daemon(http->listeners[i].daemon);
	}
	ev_timer_stop(http->loop, &http->sweep);
	ev_idle_stop(http->loop, &http->kick);
	if (http->hangup_epoll >= 0) {
		ev_io_stop(http->loop, &http->hangup);
		close(http->hangup_epoll);
	}
	free(http->socket_path);
	free(http);
}

/* ---- for a successor ---- */

void http_flush(struct http *http)
{
	for (int turn = 0; turn < FLUSH_TURNS; turn++) {
		ev_idle_stop(http->loop, &http->kick);
		run(http);
		if (!ev_is_active(&http->kick)) {
			return;
		}
	}
}

size_t http_keep(const struct http *http, struct http_kept *kept, size_t max)
{
	size_t count = 0;
	for (struct list *at = http->connections.next; at != &http->connections && count < max;
		at = at->next) {
		const struct connection *connection = LIST_ITEM(at, struct connection, link);
		bool busy = connection->heard || connection->active || connection->gone;
		if (!busy || connection->pinned) {
			kept[count++] = (struct http_kept){ busy ? -1 : connection->fd,
				connection->request.connection, connection->request.local,
				connection->pinned };
		}
	}
	return count;
}

static struct listener *listener_for(struct http *http, bool local)
{
	for (size_t i = 0; i < http->listener_count; i++) {
		if (http->listeners[i].local == local) {
			return &http->listeners[i];
		}
	}
	return NULL;
}

bool http_adopt(struct http *http, const struct http_kept *kept)
{
	struct listener *listener = listener_for(http, kept->local);
	if (kept->fd < 0) {
		return false;
	}
	if (!listener) {
		close(kept->fd);
		return false;
	}
	/* The connection keeps its number; those that come later follow the highest. */
	uint64_t highest = http->next_connection > kept->id ? http->next_connection : kept->id;
	http->next_connection = kept->id - 1;
	bool taken = http_accept_add(listener, kept->fd);
	http->next_connection = highest;
	if (taken && kept->pinned) {
		http_connection_pin(LIST_ITEM(http->connections.prev, struct connection, link));
	}
	ev_idle_start(http->loop, &http->kick);
	return taken;
}

int http_socket_fd(const struct http *http)
{
	return http->listeners[0].fd;
}

int http_listen_fd(const struct http *http)
{
	return http->listener_count > 1 ? http->listeners[1].fd : -1;
}

size_t http_connections(const struct http *http)
{
	return http->connection_count;
}

size_t http_requests(const struct http *http)
{
	return http->requests;
}
