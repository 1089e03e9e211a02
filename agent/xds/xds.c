#include "agent/xds/xds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/timer.h"
#include "agent/command/spawn.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/json_read.h"
#include "lib/base/program_find.h"

#define PROGRAM "berth-xds"

enum { FIRST_PAUSE_MS = 200, LAST_PAUSE_MS = 30000, STEADY_S = 60, LINE_BYTES = 4096 };

/* A pipe from the child, read by lines. */
struct xds_pipe {
	ev_io io; /* its descriptor is -1 while no child runs */
	struct buffer line;
	void (*on_line)(struct xds *xds, const char *line);
};

struct xds {
	struct ev_loop *loop;
	char *listen;
	int listen_fd;
	char **argv;
	json_t *offer; /* the options that decide what its clients get */
	struct command_launch *launch;
	ev_child child;
	pid_t pid; /* 0: none runs */
	double started;
	struct xds_pipe log;
	struct xds_pipe status;
	json_t *figures; /* NULL: none yet */
	struct timer pause;
	int64_t pause_ms;
	uint64_t restarts;
	void (*on_state)(void *context, bool runs, const char *why);
	void *context;
};

/* ---- its lines ---- */

/* "berth-xds: warn: text"; what the loader or a sanitizer prints has another form. */
static void on_log_line(struct xds *xds, const char *line)
{
	static const struct {
		const char *beginning;
		enum log_level level;
	} levels[] = { { PROGRAM ": error: ", LOG_LEVEL_ERROR },
		{ PROGRAM ": warn: ", LOG_LEVEL_WARN }, { PROGRAM ": info: ", LOG_LEVEL_INFO } };
	(void)xds;
	for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
		size_t len = strlen(levels[i].beginning);
		if (strncmp(line, levels[i].beginning, len) == 0) {
			log_at(levels[i].level, "xds", "%s", line + len);
			return;
		}
	}
	log_warn("xds", "%s", line);
}

static void on_status_line(struct xds *xds, const char *line)
{
	json_t *figures = json_read_text(line, 0);
	if (json_is_object(figures)) {
		json_decref(xds->figures);
		xds->figures = figures;
	} else {
		json_decref(figures);
	}
}

static void take_lines(struct xds *xds, struct xds_pipe *pipe)
{
	char *end;
	while (pipe->line.len > 0 && (end = memchr(pipe->line.data, '\n', pipe->line.len))) {
		*end = '\0';
		pipe->on_line(xds, pipe->line.data);
		buffer_consume(&pipe->line, (size_t)(end - pipe->line.data) + 1);
	}
	if (pipe->line.len >= LINE_BYTES / 2) {
		pipe->on_line(xds, buffer_text(&pipe->line)); /* a line without an end */
		buffer_clear(&pipe->line);
	}
}

static void pipe_close(struct xds *xds, struct xds_pipe *pipe)
{
	if (pipe->io.fd >= 0) {
		ev_io_stop(xds->loop, &pipe->io);
		close(pipe->io.fd);
		pipe->io.fd = -1;
	}
	buffer_finish(&pipe->line);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct xds *xds = io->data;
	struct xds_pipe *pipe = io == &xds->log.io ? &xds->log : &xds->status;
	char bytes[LINE_BYTES / 2];
	ssize_t len = read(io->fd, bytes, sizeof(bytes));
	(void)loop;
	(void)events;
	if (len > 0) {
		buffer_append(&pipe->line, bytes, (size_t)len);
		take_lines(xds, pipe);
	} else if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
		pipe_close(xds, pipe);
	}
}

/* The end for the child; -1 where there is none, and its text goes where ours does. */
static int pipe_open(struct xds *xds, struct xds_pipe *pipe)
{
	int ends[2];
	pipe_close(xds, pipe);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
		return -1;
	}
	ev_io_set(&pipe->io, ends[0], EV_READ);
	ev_io_start(xds->loop, &pipe->io);
	return ends[1];
}

static void pipe_init(
	struct xds *xds, struct xds_pipe *pipe, void (*on_line)(struct xds *xds, const char *line))
{
	ev_io_init(&pipe->io, on_readable, -1, EV_READ);
	pipe->io.data = xds;
	pipe->on_line = on_line;
	buffer_init(&pipe->line, LINE_BYTES);
}

/* ---- the process ---- */

static void wait_and_try_again(struct xds *xds, const char *why)
{
	xds->pause_ms = xds->pause_ms == 0 ? FIRST_PAUSE_MS : 2 * xds->pause_ms;
	xds->pause_ms = xds->pause_ms < LAST_PAUSE_MS ? xds->pause_ms : LAST_PAUSE_MS;
	timer_start(&xds->pause, xds->pause_ms);
	xds->on_state(xds->context, false, why);
}

static int spawn(struct xds *xds, struct err *err)
{
	int log_fd = pipe_open(xds, &xds->log);
	int status_fd = pipe_open(xds, &xds->status);
	const struct command_spawn spawn = { .argv = xds->argv,
		.launch = xds->launch,
		/* In another session it would count as an orphan of the next command that ends. */
		.placement = COMMAND_FOREGROUND,
		.files = { xds->listen_fd, status_fd, log_fd },
		.death_signal = SIGTERM };
	int pid = status_fd < 0 ? err_set_errno(err, BERTH_FAILED, errno, "no pipe for " PROGRAM)
				: command_spawn(&spawn, err);
	if (log_fd >= 0) {
		close(log_fd);
	}
	if (status_fd >= 0) {
		close(status_fd);
	}
	return pid;
}

static void start(struct xds *xds)
{
	struct err err = ERR_INIT;
	int pid = spawn(xds, &err);
	if (pid < 0) {
		wait_and_try_again(xds, err.msg);
		return;
	}
	char why[32];
	xds->pid = pid;
	xds->started = ev_time();
	ev_child_set(&xds->child, pid, 0);
	ev_child_start(xds->loop, &xds->child);
	snprintf(why, sizeof(why), "pid %d", pid);
	xds->on_state(xds->context, true, why);
}

static void on_pause_end(void *context)
{
	struct xds *xds = context;
	xds->restarts++;
	start(xds);
}

static void on_child(struct ev_loop *loop, ev_child *child, int events)
{
	struct xds *xds = child->data;
	char why[64];
	int status = child->rstatus;
	(void)events;
	ev_child_stop(loop, child);
	/* Its last words. */
	on_readable(loop, &xds->log.io, EV_READ);
	/* Figures that were not read are of a child that is no more. */
	pipe_close(xds, &xds->status);
	xds->pid = 0;
	json_decref(xds->figures);
	xds->figures = NULL;
	if (ev_time() - xds->started > STEADY_S) {
		xds->pause_ms = 0;
	}
	if (WIFSIGNALED(status)) {
		snprintf(why, sizeof(why), "killed by signal %d", WTERMSIG(status));
	} else {
		snprintf(why, sizeof(why), "exited with %d", WEXITSTATUS(status));
	}
	wait_and_try_again(xds, why);
}

/* ---- life ---- */

static void add(char **argv, size_t *count, const char *option, const char *value)
{
	argv[(*count)++] = allocate_text(option);
	argv[(*count)++] = allocate_text(value);
}

static char **make_argv(const struct config *config)
{
	enum { OPTIONS = 10 };
	const struct config_xds *xds = &config->xds;
	char number[24];
	char program[PATH_MAX];
	char **argv = allocate_zeroed(
		2 * (OPTIONS + xds->serve_count + xds->failover_count), sizeof(*argv));
	size_t count = 0;
	program_find(program, sizeof(program), PROGRAM);
	argv[count++] = allocate_text(program);
	add(argv, &count, "--socket", config->agent.socket);
	add(argv, &count, "--listen-fd", "0");
	add(argv, &count, "--status-fd", "1");
	add(argv, &count, "--domain", config->dns.domain);
	snprintf(number, sizeof(number), "%d", xds->min_instances);
	add(argv, &count, "--min-instances", number);
	if (xds->prefer == CONFIG_XDS_ZONE) {
		add(argv, &count, "--zone", config->agent.zone);
	}
	snprintf(number, sizeof(number), "%lld", (long long)xds->failover_hold_ms);
	add(argv, &count, "--failover-hold", number);
	for (size_t i = 0; i < xds->failover_count; i++) {
		add(argv, &count, "--failover", xds->failover[i]);
	}
	for (size_t i = 0; i < xds->serve_count; i++) {
		add(argv, &count, "--serve", xds->serve[i]);
	}
	return argv;
}

static json_t *make_offer(const struct config *config)
{
	const struct config_xds *xds = &config->xds;
	json_t *failover = json_array();
	for (size_t i = 0; i < xds->failover_count; i++) {
		json_array_append_new(failover, json_string(xds->failover[i]));
	}
	return json_pack("{s:s, s:i, s:s?, s:o}", "domain", config->dns.domain, "min_instances",
		xds->min_instances, "zone",
		xds->prefer == CONFIG_XDS_ZONE ? config->agent.zone : NULL, "failover", failover);
}

struct xds *xds_create(const struct xds_options *options)
{
	/* Its loader is done when it enters its cage, which gives the pages of the start back. */
	static const struct command_variable variables[] = { { "LD_BIND_NOW", "1" } };
	const struct command_launch_options launch = { .variables = variables,
		.variable_count = 1,
		.user = "",
		.cwd = "/",
		.no_new_privileges = true };
	struct xds *xds = allocate_zeroed(1, sizeof(*xds));
	xds->loop = options->loop;
	xds->listen = allocate_text(options->config->xds.listen);
	xds->listen_fd = options->listen_fd;
	xds->argv = make_argv(options->config);
	xds->offer = make_offer(options->config);
	xds->launch = command_launch_create(&launch);
	xds->on_state = options->on_state;
	xds->context = options->context;
	ev_child_init(&xds->child, on_child, 0, 0);
	xds->child.data = xds;
	pipe_init(xds, &xds->log, on_log_line);
	pipe_init(xds, &xds->status, on_status_line);
	timer_init(&xds->pause, xds->loop, "xds", on_pause_end, xds);
	start(xds);
	return xds;
}

void xds_destroy(struct xds *xds)
{
	if (!xds) {
		return;
	}
	ev_child_stop(xds->loop, &xds->child);
	timer_stop(&xds->pause);
	if (xds->pid > 0) {
		kill(xds->pid, SIGTERM);
	}
	pipe_close(xds, &xds->log);
	pipe_close(xds, &xds->status);
	command_launch_destroy(xds->launch);
	for (char **word = xds->argv; *word; word++) {
		free(*word);
	}
	free(xds->argv);
	json_decref(xds->offer);
	json_decref(xds->figures);
	free(xds->listen);
	free(xds);
}

bool xds_runs(const struct xds *xds)
{
	return xds->pid > 0;
}

static double figure(const struct xds *xds, const char *name)
{
	return json_number_value(json_object_get(xds->figures, name));
}

struct xds_counts xds_counts(const struct xds *xds)
{
	return (struct xds_counts){ .connections = figure(xds, "connections"),
		.names = figure(xds, "names"),
		.refusals = figure(xds, "refusals"),
		.restarts = xds->restarts };
}

json_t *xds_json(const struct xds *xds)
{
	json_t *json = json_pack("{s:s, s:b, s:i, s:I}", "listen", xds->listen, "running",
		xds_runs(xds), "pid", (int)xds->pid, "restarts", (json_int_t)xds->restarts);
	json_object_update(json, xds->offer);
	if (xds->figures) {
		json_object_update(json, xds->figures);
	}
	return json;
}
