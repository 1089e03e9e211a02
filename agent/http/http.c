/*
 * The server as a whole: its listeners and limits, the rule for silent connections, and the
 * way of connections to a successor.
 */
#include "agent/http/http.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/http/internal.h"
#include "agent/http/socket.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

enum {
	RESERVED = 128,     /* descriptors for everything but connections, */
	LEAST_RESERVED = 8, /* and how many of them must be free at the start */
	FEWEST_CONNECTIONS = 4,
	/* There may be a quarter as many remote connections as local ones, besides them. */
	REMOTE_SHARE = 4,
	FEWEST_REMOTE = 16,
	SWEEPS = 4 /* in an idle timeout */
};

static void start_sweep(struct http *http)
{
	timer_start(&http->sweep, http->options.idle_timeout_ms / SWEEPS);
}

static void on_sweep(void *context)
{
	struct http *http = context;
	double limit = clock_monotonic_s() - http->options.idle_timeout_ms / 1000.;
	struct list *next;
	for (struct list *at = http->connections.next; at != &http->connections; at = next) {
		next = at->next;
		http_connection_sweep(LIST_ITEM(at, struct connection, link), limit);
	}
	http_renew_socket(http);
	start_sweep(http);
}

/* Serves connections in the order in which they were woken. */
static void on_kick(struct ev_loop *loop, ev_idle *idle, int events)
{
	(void)events;
	struct http *http = idle->data;
	struct list batch;
	ev_idle_stop(loop, idle);
	list_init(&batch);
	list_move_all(&batch, &http->woken);
	while (!list_empty(&batch)) {
		struct connection *connection = LIST_ITEM(batch.next, struct connection, woken);
		list_remove(&connection->woken);
		http_connection_run(connection, EV_CUSTOM);
	}
}

static void init_watchers(struct http *http)
{
	timer_init(&http->sweep, http->loop, "idle connections", on_sweep, http);
	start_sweep(http);
	ev_idle_init(&http->kick, on_kick);
	ev_set_priority(&http->kick, EV_MAXPRI); /* or a busy loop would never get to it */
	http->kick.data = http;
}

/* ---- opening and closing ---- */

/*
 * The number of open descriptors: the lowest free one, as long as there are no gaps.
 */
static rlim_t count_open(void)
{
	int free_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	if (free_fd >= 0) {
		close(free_fd);
	}
	return free_fd < 0 ? 0 : (rlim_t)free_fd;
}

/*
 * The descriptors that connections may not use: the rest of the agent opens files for the registry,
 * for checks and for its state.
 */
static rlim_t reserve_of(rlim_t limit, rlim_t reserved)
{
	rlim_t least = count_open() + LEAST_RESERVED;
	rlim_t good = limit / 2 < reserved ? limit / 2 : reserved;
	return least > good ? least : good;
}

static rlim_t raise_limit(rlim_t wanted)
{
	struct rlimit limit = { .rlim_cur = wanted, .rlim_max = wanted };
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < wanted) {
		limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur;
}

/*
 * As many descriptors as the connections of all listeners need, and no more connections than there
 * are descriptors.
 */
static int fit_limits(struct http *http, int remotes, struct err *err)
{
	int *local = &http->options.max_connections;
	int remote = *local / REMOTE_SHARE > FEWEST_REMOTE ? *local / REMOTE_SHARE : FEWEST_REMOTE;
	rlim_t connections = (rlim_t)*local + (rlim_t)remote * (rlim_t)remotes;
	rlim_t reserved = (rlim_t)RESERVED + (rlim_t)http->options.reserved;
	rlim_t limit = raise_limit(connections + reserved);
	rlim_t reserve = reserve_of(limit, reserved);
	rlim_t fewest = reserve + (rlim_t)FEWEST_CONNECTIONS + (rlim_t)http->options.further_count;
	if (limit < fewest) {
		return err_set(err, BERTH_FAILED,
			"the limit of open files is %ju, and at least %ju are needed",
			(uintmax_t)limit, (uintmax_t)fewest);
	}
	if (limit < reserve + connections) {
		int left = (int)(limit - reserve);
		int share = left / (REMOTE_SHARE + remotes);
		remote = share > 0 ? share : 1;
		*local = left - remote * remotes;
		log_warn("http", "at most %d connections: the limit of open files is %ju", *local,
			(uintmax_t)limit);
	}
	http->max_remote = remote;
	return 0;
}

/*
 * Takes the descriptor; -1: there is none yet. `name` and `address` are NULL for the Unix socket.
 */
static void add_listener(struct http *http, int fd, const char *name, const char *address)
{
	bool local = !address;
	struct listener *listener = &http->listeners[http->listener_count++];
	*listener = (struct listener){ .http = http,
		.pool = listener,
		.fd = fd,
		.local = local,
		.name = name && *name ? allocate_text(name) : NULL,
		.address = address ? allocate_text(address) : NULL,
		.max_connections = (size_t)(local ? http->options.max_connections
						  : http->max_remote) };
	if (fd >= 0) {
		http_accept_start(listener);
	}
}

static int open_local(struct http *http, struct err *err)
{
	const struct http_options *options = &http->options;
	int fd = options->socket_fd;
	if (fd < 0) {
		fd = http_socket_unix(
			options->socket_path, options->socket_mode, options->socket_group_id, err);
	} else if (http_socket_adopt(fd, err)) {
		return err->code;
	}
	if (fd < 0) {
		return fd;
	}
	bool known = options->socket_fd >= 0 && options->socket_place.inode != 0;
	http->socket_place = known ? options->socket_place : http_socket_find(http->socket_path);
	add_listener(http, fd, NULL, NULL);
	return 0;
}

/* A listener over TCP; `name` is "" for that of `listen`. */
static int open_remote(
	struct http *http, const char *name, const char *address, int inherited_fd, struct err *err)
{
	int fd = inherited_fd;
	if (fd < 0 && *address) {
		fd = http_socket_tcp(address, err);
	} else if (fd >= 0) {
		(void)http_socket_adopt(fd, err);
	}
	if (err->code) {
		return err->code;
	}
	add_listener(http, fd, name, address);
	return 0;
}

static int open_further(struct http *http, const struct http_options *options, struct err *err)
{
	for (size_t i = 0; i < options->further_count; i++) {
		const struct http_listen *listen = &options->further[i];
		if (open_remote(http, listen->name, listen->address, listen->fd, err)) {
			return err_wrap(err, "[listen %s]", listen->name);
		}
	}
	return 0;
}

int http_open(struct http **ret_http, struct ev_loop *loop, const struct http_options *options,
	struct err *err)
{
	struct http *http = allocate_zeroed(1, sizeof(*http));
	http->loop = loop;
	http->options = *options;
	http->options.socket_path = http->socket_path = allocate_text(options->socket_path);
	http->options.further = NULL;
	http->listeners = allocate_zeroed(2 + options->further_count, sizeof(*http->listeners));
	list_init(&http->connections);
	list_init(&http->clients);
	http->lines = (struct log_rate)LOG_RATE_OF_ALL;
	list_init(&http->woken);
	list_init(&http->containers);
	memcpy(http->date, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n", HTTP_DATE_BYTES);
	/* There may be a listener later, see http_listen_at(). */
	bool tcp = options->listen_fd >= 0 || (options->listen && *options->listen) ||
		options->listens_later;
	init_watchers(http);
	if (fit_limits(http, tcp + (int)options->further_count, err) || open_local(http, err) ||
		(tcp &&
			open_remote(http, "", options->listen ? options->listen : "",
				options->listen_fd, err)) ||
		open_further(http, options, err)) {
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
	/*
	 * The socket is unlinked while the agent still serves it: so no other program takes the
	 * name for a stale one. A file that another process has put into its place stays.
	 */
	if (!http->options.keep_socket) {
		http_socket_unlink(http->socket_path, &http->socket_place);
	}
	http->closing = true;
	for (size_t i = 0; i < http->listener_count; i++) {
		if (http->listeners[i].fd >= 0) {
			http_listener_stop(&http->listeners[i]);
		}
	}
	while (!list_empty(&http->connections)) {
		http_connection_destroy(LIST_ITEM(http->connections.next, struct connection, link));
	}
	http_clients_finish(http);
	timer_stop(&http->sweep);
	ev_idle_stop(http->loop, &http->kick);
	for (size_t i = 0; i < http->listener_count; i++) {
		free(http->listeners[i].name);
		free(http->listeners[i].address);
	}
	free(http->listeners);
	free(http->socket_path);
	free(http);
}

void http_renew_socket(struct http *http)
{
	const struct http_options *options = &http->options;
	struct err err = ERR_INIT;
	if (options->keep_socket || http_socket_stands(http->socket_path, &http->socket_place)) {
		return;
	}
	int fd = http_socket_unix(
		http->socket_path, options->socket_mode, options->socket_group_id, &err);
	if (fd >= 0) {
		log_warn("http", "%s was removed or replaced; it is made again", http->socket_path);
		http->socket_place = http_socket_find(http->socket_path);
		http_accept_replace(&http->listeners[0], fd);
	} else if (!http->socket_missing) {
		log_warn("http", "%s was removed or replaced, and cannot be made again: %s",
			http->socket_path, err.msg);
	}
	http->socket_missing = fd < 0;
}

/* ---- for a successor ---- */

void http_flush(struct http *http)
{
	struct list *next;
	for (struct list *at = http->connections.next; at != &http->connections; at = next) {
		next = at->next;
		http_connection_run(
			LIST_ITEM(at, struct connection, link), EV_READ | EV_WRITE | EV_CUSTOM);
	}
}

size_t http_keep(const struct http *http, struct http_kept *kept, size_t max)
{
	size_t count = 0;
	for (struct list *at = http->connections.next; at != &http->connections && count < max;
		at = at->next) {
		const struct connection *connection = LIST_ITEM(at, struct connection, link);
		bool idle = connection->state == HTTP_IDLE;
		if (idle || connection->pinned) {
			kept[count] = (struct http_kept){ .fd = idle ? connection->io.fd : -1,
				.id = connection->request.connection,
				.local = connection->request.local,
				.pinned = connection->pinned };
			text_printf(kept[count].container, sizeof(kept[count].container), "%s",
				connection->request.container ? connection->request.container : "");
			text_printf(kept[count].listener, sizeof(kept[count].listener), "%s",
				connection->request.listener ? connection->request.listener : "");
			count++;
		}
	}
	return count;
}

static struct listener *listener_of_container(struct http *http, const char *name)
{
	for (struct list *at = http->containers.next; at != &http->containers; at = at->next) {
		struct http_container *container = LIST_ITEM(at, struct http_container, link);
		if (strcmp(container->name, name) == 0) {
			return &container->listener;
		}
	}
	return NULL;
}

/* `name` is "" for the Unix socket and for `listen`. */
static struct listener *listener_for(const struct http *http, bool local, const char *name)
{
	for (size_t i = 0; i < http->listener_count; i++) {
		struct listener *listener = &http->listeners[i];
		if (listener->local == local &&
			strcmp(listener->name ? listener->name : "", name) == 0) {
			return listener;
		}
	}
	return NULL;
}

int http_listen_at(struct http *http, const char *name, const char *address, struct err *err)
{
	struct listener *listener = listener_for(http, false, name);
	if (!listener || strcmp(listener->address, address) == 0) {
		return 0;
	}
	int fd = *address ? http_socket_tcp(address, err) : -1;
	if (err->code) {
		return err->code;
	}
	if (listener->fd >= 0 && fd >= 0) {
		http_accept_replace(listener, fd);
	} else if (fd >= 0) {
		listener->fd = fd;
		http_accept_start(listener);
	} else {
		http_listener_stop(listener);
		listener->fd = -1;
	}
	free(listener->address);
	listener->address = allocate_text(address);
	return 0;
}

bool http_adopt(struct http *http, const struct http_kept *kept)
{
	struct listener *listener = *kept->container
		? listener_of_container(http, kept->container)
		: listener_for(http, kept->local, kept->listener);
	if (kept->fd < 0) {
		return false;
	}
	if (!listener) {
		close(kept->fd);
		return false;
	}
	/* The connection keeps its number; those that come later follow the highest. */
	http->next_connection = http->next_connection > kept->id ? http->next_connection : kept->id;
	http_connection_create(listener, kept->fd, kept->id)->pinned = kept->pinned;
	return true;
}

struct http_place http_socket_place(const struct http *http)
{
	return http->socket_place;
}

int http_socket_fd(const struct http *http)
{
	return http->listeners[0].fd;
}

int http_listen_fd(const struct http *http)
{
	return http_further_fd(http, "");
}

int http_further_fd(const struct http *http, const char *name)
{
	const struct listener *listener = listener_for(http, false, name);
	return listener ? listener->fd : -1;
}

size_t http_connections(const struct http *http)
{
	return http->connection_count;
}

size_t http_requests(const struct http *http)
{
	return http->requests;
}
