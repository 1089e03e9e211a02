/*
 * The serving half of an agent, wired as in one: cache, further registries, names, API, outputs and
 * berth-xds, on a registry in memory and, for further ones, directories. No main process runs.
 *
 * The text of a configuration begins with more keys of [agent]; @ is the folder of the test, which
 * holds the agent's socket, its state directory, and directories for further registries. The test
 * puts its own berth-xds and berth-zookeeper there.
 */
#ifndef TESTS_UNIT_AGENT_SERVING_SERVING_STAGE_H
#define TESTS_UNIT_AGENT_SERVING_SERVING_STAGE_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/core/upgrade.h"
#include "agent/life/hooks.h"
#include "agent/life/stop.h"
#include "agent/registration/bridge.h"
#include "agent/registration/checks.h"
#include "agent/registration/components.h"
#include "agent/registration/drain.h"
#include "agent/registration/persistent.h"
#include "agent/serving/api.h"
#include "agent/serving/cache.h"
#include "agent/serving/further.h"
#include "agent/serving/metrics.h"
#include "agent/serving/names.h"
#include "agent/serving/outputs.h"
#include "agent/serving/xds.h"
#include "lib/base/text.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/run_until.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

#define ENDPOINTS(scope, api, type, address)                                                       \
	"\"" scope "\":[{\"api\":\"" api "\",\"addressType\":\"" type                              \
	"\",\"protocol\":\"http\",\"addresses\":[{" address "}]}]"
#define AT_HOST(host)                                                                              \
	"{\"type\":\"JSONServiceRecord\",\"description\":\"" host "\",\"yarn:ip\":\"" host         \
	"\"," ENDPOINTS("external", "x", "host/port",                                              \
		"\"host\":\"" host "\",\"port\":\"80\"") "," ENDPOINTS("internal", "y", "uri",     \
		"\"uri\":\"http://secret\"") "}"

struct serving {
	struct agent agent;
	struct upgrade received; /* from a predecessor, or a service manager */
	char folder[SCRATCH_PATH];
	char log[SCRATCH_PATH];
	int wakes;             /* calls of agent_reconsider() */
	struct registry *east; /* another user of a further registry; NULL: none */
	char answer[64 * 1024];
};

/* The place of a file in the folder. Static. */
static inline const char *in(const struct serving *serving, const char *name)
{
	static char path[SCRATCH_PATH + 64];
	snprintf(path, sizeof(path), "%s/%s", serving->folder, name);
	return path;
}

/* The content of a file in the folder; "" when there is none. Static. */
static inline const char *text_in(const struct serving *serving, const char *name)
{
	static char text[16384];
	int fd = open(in(serving, name), O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	text[len > 0 ? len : 0] = '\0';
	if (fd >= 0) {
		close(fd);
	}
	return text;
}

static inline void put_in(const struct serving *serving, const char *name, const char *text)
{
	FILE *file = fopen(in(serving, name), "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

/* How often the log says so. */
static inline size_t logged(const struct serving *serving, const char *text)
{
	static char log[64 * 1024];
	int fd = open(serving->log, O_RDONLY | O_CLOEXEC);
	ssize_t len = read(fd, log, sizeof(log) - 1);
	close(fd);
	log[len > 0 ? len : 0] = '\0';
	size_t count = 0;
	for (const char *at = log; (at = strstr(at, text)) != NULL; at++) {
		count++;
	}
	return count;
}

static inline struct config *configure(const struct serving *serving, const char *text)
{
	FILE *file = fopen(in(serving, "berth.ini"), "w");
	cr_assert_not_null(file);
	fprintf(file, "[registry]\nurl = dir:%s/d\n[agent]\nsocket = %s/s\nstate_dir = %s/state\n",
		serving->folder, serving->folder, serving->folder);
	for (const char *at = text; *at; at++) {
		if (*at == '@') {
			fputs(serving->folder, file);
		} else {
			fputc(*at, file);
		}
	}
	fclose(file);
	struct config *config = NULL;
	struct config_problems problems;
	int code = config_load(&config, in(serving, "berth.ini"), &problems);
	config_problems_print(&problems, stdout);
	config_problems_finish(&problems);
	cr_assert_eq(code, 0);
	return config;
}

static inline void on_serving_wake(struct ev_loop *loop, ev_async *watcher, int events)
{
	(void)loop;
	(void)events;
	struct serving *serving = watcher->data;
	serving->wakes++;
	agent_components_update_gates(&serving->agent);
	agent_components_go_on(&serving->agent);
}

static inline void on_serving_state(void *context, enum registry_state state, const char *why)
{
	struct serving *serving = context;
	struct agent *agent = &serving->agent;
	if (agent->cache) {
		shared_on_registry_state(agent->shared, state);
		cache_on_registry_state(agent->cache, state);
	}
	agent_components_on_registry_state(agent, state, why);
	agent_wake(agent);
}

/* ---- its life ---- */

/* The other parts of the agent. */
static inline void base_open(struct serving *serving)
{
	struct agent *agent = &serving->agent;
	struct err err = ERR_INIT;
	agent->state = (struct state_dir){ .lock_fd = -1 };
	agent->files = file_queue_create(agent->loop);
	int code = state_dir_init(
		&agent->state, agent->config->agent.state_dir, -1, agent->files, &err);
	cr_assert(code == 0 || code == BERTH_FAILED, "%s", err.msg);
	agent->metrics = metrics_create();
	agent_history_load(agent, NULL);
	agent_drain_load(agent, NULL);
	agent_stop_init(agent);
}

/* In the order of an agent's start; the code of what fails. */
static inline int try_serve(struct serving *serving, struct err *err)
{
	struct agent *agent = &serving->agent;
	struct api_hooks hooks = agent_hooks(agent);
	agent_cache_open(agent, NULL);
	int code = agent_further_open(agent, NULL, err);
	if (code == 0) {
		code = agent_names_open(agent, &serving->received, err);
	}
	if (code == 0) {
		code = agent_api_open(agent, &hooks, &serving->received, err);
	}
	if (code) {
		return code;
	}
	agent_persistent_load(agent);
	agent_checks_create(agent, NULL);
	agent_components_create(agent, NULL);
	if (agent_bridge_open(agent, &serving->received, err)) {
		return err->code;
	}
	agent_api_adopt(agent, &serving->received);
	agent_outputs_open(agent);
	return agent_xds_open(agent, &serving->received, err);
}

static inline void serve_no_more(struct serving *serving)
{
	struct agent *agent = &serving->agent;
	if (agent->cache) {
		agent_cache_save(agent);
		agent_further_save(agent);
		cr_assert(file_queue_wait(agent->files, 60000));
	}
	agent_bridge_close(agent);
	agent_components_destroy(agent);
	agent_checks_destroy(agent);
	agent_outputs_close(agent);
	agent_xds_close(agent);
	agent_api_close(agent);
	agent_names_close(agent);
	agent_further_close(agent);
	agent_cache_close(agent);
	ev_periodic_stop(agent->loop, &agent->drain_end_timer);
	timer_stop(&agent->drain_retry_timer);
	timer_stop(&agent->phase_timer);
	timer_stop(&agent->history_timer);
	history_destroy(agent->history);
	metrics_destroy(agent->metrics);
	agent_persistent_finish(agent);
	cr_assert(file_queue_wait(agent->files, 60000));
	agent_bridge_forget(agent);
	state_dir_finish(&agent->state);
	file_queue_destroy(agent->files);
	ev_clear_pending(agent->loop, &agent->reconsider);
}

static inline void serve(struct serving *serving)
{
	struct err err = ERR_INIT;
	base_open(serving);
	cr_assert_eq(try_serve(serving, &err), 0, "%s", err.msg);
}

/* The agent ends, and another one starts with the same files. */
static inline void serve_again(struct serving *serving)
{
	serve_no_more(serving);
	serving->received = (struct upgrade){ .socket_fd = -1, .listen_fd = -1, .xds_fd = -1 };
	serve(serving);
}

static inline void connect_registry(struct serving *serving)
{
	struct agent *agent = &serving->agent;
	RUN_UNTIL(agent->loop, registry_state(agent->registry) == REGISTRY_CONNECTED);
}

/* Everything but the opening: a test may prepare more. */
static inline struct serving *serving_prepare(struct serving *serving, const char *text)
{
	struct agent *agent = &serving->agent;
	const struct registry_options registry = { .foreign_paths = true,
		.hidden = CONFIG_NET,
		.on_state = on_serving_state,
		.context = serving };
	int fd = scratch_file(serving->log);
	cr_assert_geq(dup2(fd, STDERR_FILENO), 0);
	close(fd);
	log_set(LOG_LEVEL_INFO, false);
	scratch_folder(serving->folder);
	scratch_programs(serving->folder);
	agent->loop = ev_default_loop(EVFLAG_AUTO);
	agent->config = configure(serving, text);
	agent->config_path = "berth.ini";
	agent->started = ev_time();
	agent->xds_fd = -1;
	ev_async_init(&agent->reconsider, on_serving_wake);
	agent->reconsider.data = serving;
	serving->received = (struct upgrade){ .socket_fd = -1, .listen_fd = -1, .xds_fd = -1 };
	agent->lookups = agent->registry = memory_open("serving", &registry);
	agent->scheduler = check_scheduler_create(agent->loop, 4);
	registry_loop_init(&agent->registry_driver, agent->loop, agent->registry);
	return serving;
}

static inline struct serving *serving_begin(struct serving *serving, const char *text)
{
	serve(serving_prepare(serving, text));
	connect_registry(serving);
	return serving;
}

static inline void serving_end(struct serving *serving)
{
	struct agent *agent = &serving->agent;
	char command[SCRATCH_PATH + 16];
	serve_no_more(serving);
	if (serving->east) {
		client_close(serving->east);
	}
	check_scheduler_destroy(agent->scheduler);
	registry_loop_finish(&agent->registry_driver);
	registry_close(agent->registry);
	config_unref(agent->config);
	free(serving->received.dns);
	free(serving->received.listens);
	ev_loop_destroy(agent->loop);
	snprintf(command, sizeof(command), "rm -rf %s", serving->folder);
	cr_assert_eq(system(command), 0);
	unlink(serving->log);
}

/* An agent with this configuration that is connected to its registry. */
#define SERVED(suite, name, text)                                                                  \
	STAGED_TEST(suite, name, struct serving *, serving,                                        \
		serving_begin(&(struct serving){ 0 }, text), serving_end)

/* The same before it is opened: the test does that with serve(), or try_serve(). */
#define PREPARED(suite, name, text)                                                                \
	STAGED_TEST(suite, name, struct serving *, serving,                                        \
		serving_prepare(&(struct serving){ 0 }, text), serving_end)

/* In the order of a reload. */
static inline void reload_take(struct serving *serving, struct config *next_take)
{
	struct agent *agent = &serving->agent;
	agent_components_reload(agent, next_take);
	agent_api_apply_options(agent);
	agent_cache_apply_options(agent);
	agent_names_apply_options(agent);
	agent_further_reload(agent);
	agent_outputs_reload(agent);
	agent_further_retire(agent);
	agent_metrics_forget_removed(agent);
}

static inline void reload(struct serving *serving, const char *text)
{
	reload_take(serving, configure(serving, text));
}

/* Everything that is ready happens. */
static inline void go_on(const struct serving *serving)
{
	for (int i = 0; i < 20; i++) {
		ev_run(serving->agent.loop, EVRUN_NOWAIT);
	}
}

/* ---- registries ---- */

static inline void put(struct serving *serving, const char *path, const char *data)
{
	memory_put(serving->agent.registry, path, data);
}

/* The same in the registry in a directory of the folder, as another user of it. */
static inline void put_east(struct serving *serving, const char *path, const char *data)
{
	struct answer answer = { 0 };
	char url[SCRATCH_PATH + 16];
	if (!serving->east) {
		snprintf(url, sizeof(url), "dir:%s/east", serving->folder);
		serving->east = client_open(url);
	}
	struct registry_bind bind = {
		.data = data, .len = strlen(data), .parents = true, .mode = REGISTRY_BIND_OVERWRITE
	};
	cr_assert_eq(client_bind(serving->east, path, &bind, &answer), 0, "%s", answer.err.msg);
	answer_clear(&answer);
}

/* ---- what it shows ---- */

/* Is the line among the metrics? */
static inline bool has_metric(struct serving *serving, const char *line)
{
	struct buffer out;
	char whole[256];
	buffer_init(&out, 1024 * 1024);
	agent_metrics_update(&serving->agent);
	buffer_append_text(&out, "\n");
	metrics_write(serving->agent.metrics, METRICS_PROMETHEUS, &out);
	snprintf(whole, sizeof(whole), "\n%s\n", line);
	bool found = strstr(buffer_text(&out), whole) != NULL;
	buffer_finish(&out);
	return found;
}

/* Is there a series of this name and labels, "berth_registered{component=\"a\""? */
static inline bool has_series(struct serving *serving, const char *begin)
{
	struct buffer out;
	char whole[256];
	buffer_init(&out, 1024 * 1024);
	metrics_write(serving->agent.metrics, METRICS_PROMETHEUS, &out);
	snprintf(whole, sizeof(whole), "\n%s", begin);
	bool found = strstr(buffer_text(&out), whole) != NULL;
	buffer_finish(&out);
	return found;
}

/* The transitions of the subject, "waiting>current(why) …". Static. */
static inline const char *history_of(const struct serving *serving, const char *subject)
{
	static char text[4096];
	size_t len = 0, index;
	json_t *entry, *history = history_json(serving->agent.history, true);
	text[0] = '\0';
	json_array_foreach (history, index, entry) {
		if (strcmp(json_string_value(json_object_get(entry, "subject")), subject) == 0) {
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s>%s(%s) ",
				json_string_value(json_object_get(entry, "from")),
				json_string_value(json_object_get(entry, "to")),
				json_string_value(json_object_get(entry, "why")));
		}
	}
	json_decref(history);
	return text;
}

/* ---- clients ---- */

static inline void on_bytes(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	(void)io;
	(void)events;
}

static inline int knock(const struct serving *serving)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	text_printf(address.sun_path, sizeof(address.sun_path), "%s", in(serving, "s"));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(connect(fd, (void *)&address, sizeof(address)), 0);
	return fd;
}

/* Sends a request; the answer is the connection's last one. Takes the descriptor. */
static inline const char *ask_over(
	struct serving *serving, int fd_take, const char *target, const char *fields)
{
	char text[1024];
	size_t got = 0;
	ssize_t len = 1;
	ev_io io;
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nConnection: close\r\n%s\r\n", target,
		fields);
	cr_assert_eq(send(fd_take, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
	ev_io_init(&io, on_bytes, fd_take, EV_READ);
	ev_io_start(serving->agent.loop, &io);
	while (len != 0) {
		RUN_UNTIL(serving->agent.loop,
			(len = recv(fd_take, serving->answer + got,
				 sizeof(serving->answer) - 1 - got, MSG_DONTWAIT)) >= 0);
		got += (size_t)len;
	}
	serving->answer[got] = '\0';
	ev_io_stop(serving->agent.loop, &io);
	close(fd_take);
	return serving->answer;
}

static inline const char *get(struct serving *serving, const char *target)
{
	return ask_over(serving, knock(serving), target, "Host: a\r\n");
}

static inline bool has(const char *answer, const char *text)
{
	return strstr(answer, text) != NULL;
}

/* A listening TCP socket, as a service manager passes it: its port is the kernel's choice. */
static inline int listening_socket(void)
{
	struct err err = ERR_INIT;
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(fd, (void *)&address, sizeof(address)), 0, "%s", err.msg);
	cr_assert_eq(listen(fd, 16), 0);
	return fd;
}

#endif
