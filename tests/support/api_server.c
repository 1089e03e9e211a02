#include "tests/support/api_server.h"

#include <ev.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/api/api.h"
#include "lib/base/clock.h"

struct server {
	struct ev_loop *loop;
	struct registry *registry;
	struct cache *cache;
	struct history *history;
	struct metrics *metrics;
	struct api *api;
	struct http *http;
	ev_io io;
	ev_timer deadline;
	ev_prepare prepare;
	ev_signal term;
	json_t *endpoint;
	uint64_t holder;
};

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)events;
	registry_dispatch(((struct server *)io->data)->registry, clock_monotonic_ms());
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	registry_dispatch(((struct server *)timer->data)->registry, clock_monotonic_ms());
}

static void on_prepare(struct ev_loop *loop, ev_prepare *prepare, int events)
{
	(void)events;
	struct server *server = prepare->data;
	int64_t deadline = registry_deadline_ms(server->registry);
	ev_timer_stop(loop, &server->deadline);
	if (deadline != INT64_MAX) {
		int64_t wait = deadline - clock_monotonic_ms();
		ev_timer_set(&server->deadline, wait > 0 ? (double)wait / 1000. : 0., 0.);
		ev_timer_start(loop, &server->deadline);
	}
}

static void on_term(struct ev_loop *loop, ev_signal *watcher, int events)
{
	(void)watcher;
	(void)events;
	ev_break(loop, EVBREAK_ALL);
}

static void on_state(void *context, enum registry_state state, const char *why)
{
	(void)why;
	struct server *server = context;
	if (server->cache) {
		cache_on_registry_state(server->cache, state);
	}
}

/* ---- hooks ---- */

static json_t *agent_status(void *context)
{
	struct server *server = context;
	return json_pack("{s:s, s:O*}", "registry",
		registry_state_name(registry_state(server->registry)), "endpoint", server->endpoint);
}

static json_t *checks(void *context)
{
	(void)context;
	return json_array();
}

static bool live(void *context)
{
	(void)context;
	return true;
}

static bool ready(void *context, struct err *err)
{
	(void)context;
	err_set(err, BERTH_FAILED, "component web is not registered");
	return false;
}

static int drain(void *context, const char *reason, int64_t for_ms, struct err *err)
{
	struct server *server = context;
	(void)err;
	char why[64];
	snprintf(why, sizeof(why), "%s for %lld ms", reason, (long long)for_ms);
	history_add(server->history, 1, "agent", "", "drained", why);
	return 0;
}

static int undrain(void *context, struct err *err)
{
	(void)err;
	history_add(((struct server *)context)->history, 2, "agent", "drained", "", "asked to");
	return 0;
}

static json_t *reload(void *context)
{
	(void)context;
	return json_pack(
		"[{s:s, s:i, s:s}]", "file", "berth.ini", "line", 3, "message", "unknown key");
}

static int check_run(void *context, const char *name, void (*done)(void *, json_t *),
	void *done_context, struct err *err)
{
	(void)context;
	if (strcmp(name, "http") != 0) {
		return err_set(err, BERTH_PATH_NOT_FOUND, "no check %s", name);
	}
	done(done_context, json_pack("{s:s}", "verdict", "passing"));
	return 0;
}

static void check_run_forget(void *context, const char *name, void *done_context)
{
	(void)context;
	(void)name;
	(void)done_context;
}

static int check_report(void *context, const char *name, const char *status, const char *output,
	const struct http_peer *peer, struct err *err)
{
	(void)context;
	(void)status;
	(void)output;
	if (!peer->known || peer->uid != getuid()) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS, "not yours");
	}
	return strcmp(name, "ttl") == 0 ? 0
					: err_set(err, BERTH_PATH_NOT_FOUND, "no check %s", name);
}

static int endpoint_set(void *context, const char *name, const json_t *addresses,
	const struct http_peer *peer, uint64_t connection, bool *ret_hold, struct err *err)
{
	(void)name;
	(void)peer;
	(void)err;
	struct server *server = context;
	json_decref(server->endpoint);
	server->endpoint = json_deep_copy(addresses);
	server->holder = connection;
	*ret_hold = true;
	return 0;
}

static int endpoint_clear(
	void *context, const char *name, const struct http_peer *peer, struct err *err)
{
	(void)name;
	(void)peer;
	(void)err;
	struct server *server = context;
	json_decref(server->endpoint);
	server->endpoint = NULL;
	return 0;
}

static void connection_closed(void *context, uint64_t connection)
{
	struct server *server = context;
	if (connection == server->holder) {
		json_decref(server->endpoint);
		server->endpoint = NULL;
	}
}

static bool may_administer(void *context, const struct http_peer *peer)
{
	(void)context;
	return peer->uid == getuid();
}

/* ---- the process ---- */

static void fail(const struct err *err)
{
	fprintf(stderr, "api_server: %s\n", err->msg);
	_exit(1);
}

static void open_registry(struct server *server, const char *directory)
{
	char url[600];
	struct err err = ERR_INIT;
	snprintf(url, sizeof(url), "dir:%s/registry", directory);
	struct registry_options options = { .url = url, .on_state = on_state, .context = server };
	if (registry_open(&server->registry, &options, &err)) {
		fail(&err);
	}
	ev_io_init(&server->io, on_io, registry_fd(server->registry), EV_READ);
	ev_timer_init(&server->deadline, on_deadline, 0., 0.);
	ev_prepare_init(&server->prepare, on_prepare);
	ev_set_priority(&server->prepare, EV_MINPRI); /* after the cache has made its requests */
	server->io.data = server->deadline.data = server->prepare.data = server;
	ev_io_start(server->loop, &server->io);
	ev_prepare_start(server->loop, &server->prepare);
}

static void open_http(struct server *server, const struct api_server_options *options)
{
	char path[600];
	struct err err = ERR_INIT;
	snprintf(path, sizeof(path), "%s/berth.sock", options->directory);
	struct http_options http_options = {
		.socket_path = path,
		.socket_mode = 0660,
		.socket_group_id = (unsigned)-1,
		.socket_fd = -1,
		.listen = options->listen ? options->listen : "",
		.listen_fd = -1,
		.max_connections = options->max_watchers + 64,
		.idle_timeout_ms = options->idle_timeout_ms,
		.on_request = api_on_request,
		.on_pinned_closed = api_on_pinned_closed,
		.context = server->api,
	};
	if (http_open(&server->http, server->loop, &http_options, &err)) {
		fail(&err);
	}
	api_set_http(server->api, server->http);
}

static void open_all(struct server *server, const struct api_server_options *options)
{
	server->loop = ev_loop_new(EVFLAG_AUTO);
	open_registry(server, options->directory);
	struct cache_options cache_options = {
		.max_size_bytes = options->max_size_bytes,
		.resync_ms = 600000,
		.release_front = api_release_front,
	};
	server->cache = cache_create(server->loop, server->registry, &cache_options);
	server->history = history_create();
	server->metrics = metrics_create();
	struct api_hooks hooks = { agent_status, checks, live, ready, drain, undrain, reload,
		check_run, check_run_forget, check_report, endpoint_set, endpoint_clear,
		connection_closed, may_administer, server, NULL };
	struct api_options api_options = {
		.version = "0.0.0-test",
		.max_watchers = options->max_watchers,
		.heartbeat_interval_ms = options->heartbeat_interval_ms,
	};
	server->api = api_create(server->loop, server->cache, server->registry, server->history,
		server->metrics, &hooks, &api_options);
	open_http(server, options);
}

static void close_all(struct server *server)
{
	http_close(server->http);
	api_destroy(server->api);
	cache_destroy(server->cache);
	ev_io_stop(server->loop, &server->io);
	ev_timer_stop(server->loop, &server->deadline);
	ev_prepare_stop(server->loop, &server->prepare);
	ev_signal_stop(server->loop, &server->term);
	registry_close(server->registry);
	history_destroy(server->history);
	metrics_destroy(server->metrics);
	json_decref(server->endpoint);
	ev_loop_destroy(server->loop);
}

static void serve(const struct api_server_options *options, int ready_fd)
{
	struct server server = { .holder = 0 };
	signal(SIGPIPE, SIG_IGN);
	open_all(&server, options);
	ev_signal_init(&server.term, on_term, SIGTERM);
	ev_signal_start(server.loop, &server.term);
	close(ready_fd);
	ev_run(server.loop, 0);
	close_all(&server);
}

pid_t api_server_start(const struct api_server_options *options)
{
	char path[600];
	snprintf(path, sizeof(path), "%s/registry", options->directory);
	mkdir(path, 0755);
	int ready[2];
	if (pipe(ready) < 0) {
		abort();
	}
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		close(ready[0]);
		serve(options, ready[1]);
		exit(0);
	}
	close(ready[1]);
	char byte;
	while (read(ready[0], &byte, 1) > 0) {
	}
	close(ready[0]);
	return pid;
}

int api_server_stop(pid_t pid)
{
	int status;
	kill(pid, SIGTERM);
	return waitpid(pid, &status, 0) == pid ? status : -1;
}
