/*
 * Requests of any client to the socket API, with their bodies: each is answered in HTTP, by a
 * status that exists, and with JSON where the answer says so; what an order changes are only the
 * components, checks and endpoints of the configuration, by values that fit.
 * The first byte holds the flags below, the rest are the client's bytes.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/api/api.h"
#include "agent/base/log.h"
#include "lib/base/buffer.h"
#include "lib/http/reader.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/names_stage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* STRANGER: the client is another user (when root runs the test), whose group is the agent's. */
enum { REMOTE = 1, AWAY = 2, ONE_PROBLEM = 4, TWO_PROBLEMS = 8, FAILING = 16, STRANGER = 32 };
enum { ADMIN_GROUP = 64, TURNS = 4, ANOTHER_USER = 65534 };

/* The check c is refused at once: no program runs, and port 9 of the own host serves nothing. */
static const char CONFIG[] = "[registry]\nurl = dir:/here\n"
			     "[component]\nname = web\npath = /services/web\n"
			     "[endpoint e]\ndynamic = yes\nhold = connection\napi = a\n"
			     "protocol = tcp\naddress_type = host/port\nwriter = user:root\n"
			     "[endpoint u]\ndynamic = yes\napi = u\nprotocol = http\n"
			     "address_type = uri\nwriter = group:root\n"
			     "[check t]\ntype = ttl\nwriter = group:root\n"
			     "[check c]\ntype = tcp\ntarget = 127.0.0.1:9\n";

struct stage {
	struct cache_stage cache; /* first: it has the loop and the registry */
	struct names_lookups *names;
	struct history *history;
	struct metrics *metrics;
	struct check_scheduler *scheduler;
	struct check_set *checks;
	struct component *component;
	struct api *api;
	struct http *http;
	unsigned flags;
};

static struct config *config;
static char socket_path[64];

static void read_config(void)
{
	char path[64];
	struct config_problems problems;
	int fd = memfd_create("fuzz.ini", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	assert(fd >= 0 && write(fd, CONFIG, sizeof(CONFIG) - 1) == (ssize_t)sizeof(CONFIG) - 1);
	int code = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	assert(code == 0);
	config_problems_finish(&problems);
	close(fd);
	snprintf(socket_path, sizeof(socket_path), "/tmp/fuzz-api-%d", (int)getpid());
	log_set(LOG_LEVEL_ERROR, false);
}

/* ---- the agent behind the API ---- */

static struct component *find(void *context, size_t index)
{
	const struct stage *stage = context;
	return index == 0 ? stage->component : NULL;
}

static struct check *find_check(void *context, size_t index)
{
	const struct stage *stage = context;
	return check_set_at(stage->checks, index);
}

static int act(void *context, struct api_act *act, struct err *err)
{
	const struct stage *stage = context;
	if (act->component && strcmp(act->component, "web") != 0) {
		return err_set(err, BERTH_PATH_NOT_FOUND, "no component has this label");
	}
	switch (act->kind) {
	case API_STATUS:
	case API_BRIDGE:
		act->result = json_object();
		return 0;
	case API_READY:
		return stage->flags & AWAY && !act->away_ok
			? err_set(err, BERTH_REGISTRY_UNAVAILABLE, "the registry is away")
			: 0;
	case API_DRAIN_CONTAINER:
		assert(*act->container);
		assert(act->reason && act->for_ms >= 0 && act->for_ms / 1000 <= INT32_MAX);
		return 0;
	case API_DRAIN:
		assert(act->reason && act->for_ms >= 0 && act->for_ms / 1000 <= INT32_MAX);
		drain_begin(component_drain(stage->component), act->reason,
			(double)act->for_ms / 1000, 1e9);
		return 0;
	case API_UNDRAIN:
		drain_end(component_drain(stage->component));
		return 0;
	case API_RELOAD:
		act->result = json_array();
		for (unsigned i = stage->flags / ONE_PROBLEM % 4; i > 0; i--) {
			json_array_append_new(act->result, json_string("a problem"));
		}
		return stage->flags & FAILING ? err_set(err, BERTH_FAILED, "no memory") : 0;
	case API_UPDATE_METRICS:
	case API_UNDAMP:
	case API_UNDRAIN_CONTAINER:
		return 0;
	}
	return 0;
}

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	assert(result->verdict >= 0 && result->verdict < CHECK_VERDICT_COUNT);
}

static void on_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	const struct stage *stage = context;
	assert(*from && *to && *why);
	component_check_changed(stage->component, check);
}

static void on_transition(void *context, const struct transition *transition)
{
	const struct stage *stage = context;
	(void)history_add(stage->history, 1e9, transition);
}

static void on_component(void *context, struct component *component)
{
	(void)context;
	(void)component;
}

static bool on_write(void *context, struct component *component)
{
	on_component(context, component);
	return true;
}

static void open_component(struct stage *stage)
{
	const struct check_callbacks callbacks = { on_result, on_change, NULL, stage };
	const struct component_environment environment = { .loop = stage->cache.loop,
		.lookups = stage->cache.registry,
		.registry = stage->cache.registry,
		.on_transition = on_transition,
		.on_announced = on_component,
		.on_write = on_write,
		.context = stage };
	stage->scheduler = check_scheduler_create(stage->cache.loop, 1);
	stage->checks = check_set_create(stage->scheduler, &callbacks);
	struct component_environment with_checks = environment;
	with_checks.checks = stage->checks;
	stage->component = component_create(&with_checks, &config->components[0], NULL);
	check_set_arrange(stage->checks, config, NULL);
}

static void open_api(struct stage *stage)
{
	const struct api_options options = { .version = "1",
		.max_watchers = 4,
		.heartbeat_interval_ms = 60000,
		.admin_group_id = stage->flags & ADMIN_GROUP ? 0 : (unsigned)-1 };
	const struct api_hooks hooks = { find, find_check, act, stage };
	stage->api = api_create(stage->cache.loop, stage->cache.cache, stage->names,
		stage->cache.registry, stage->history, stage->metrics, &hooks, &options);
	const struct http_options http = { .socket_path = socket_path,
		.socket_mode = 0600,
		.socket_group_id = (unsigned)-1,
		.socket_fd = -1,
		.listen = stage->flags & REMOTE ? "127.0.0.1:0" : "",
		.listen_fd = -1,
		.max_connections = 8,
		.idle_timeout_ms = 60000,
		.on_request = api_on_request,
		.wants_body = api_wants_body,
		.on_pinned_closed = api_on_pinned_closed,
		.context = stage->api };
	struct err err = ERR_INIT;
	assert(http_open(&stage->http, stage->cache.loop, &http, &err) == 0);
	api_set_http(stage->api, stage->http);
}

static void open_stage(struct stage *stage, unsigned flags)
{
	*stage = (struct stage){ .flags = flags };
	cache_stage_open(&stage->cache,
		&(struct cache_options){
			.max_size_bytes = 64 * 1024, .release_rendering = api_release_rendering });
	memory_put(stage->cache.registry, "/services", "");
	memory_put(stage->cache.registry, "/services/db", cache_stage_record("h:1"));
	if (flags & AWAY) {
		memory_set_state(stage->cache.registry, REGISTRY_AWAY);
	}
	stage->names = names_stage_create(stage->cache.loop, stage->cache.cache);
	stage->history = history_create();
	stage->metrics = metrics_create();
	open_component(stage);
	open_api(stage);
}

static void close_stage(struct stage *stage)
{
	http_close(stage->http);
	assert(api_watchers(stage->api) == 0);
	api_destroy(stage->api);
	component_destroy(stage->component);
	check_set_destroy(stage->checks);
	check_scheduler_destroy(stage->scheduler);
	names_stage_destroy(stage->names);
	cache_stage_close(&stage->cache);
	history_destroy(stage->history);
	metrics_destroy(stage->metrics);
}

/* ---- the client ---- */

/* A connection to the agent; its descriptor. */
static int connect_to(const struct stage *stage)
{
	int ends[2];
	bool stranger = stage->flags & STRANGER && geteuid() == 0;
	assert(!stranger || seteuid(ANOTHER_USER) == 0);
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	assert(!stranger || seteuid(0) == 0);
	const struct http_kept kept = { .fd = ends[1], .id = 1, .local = !(stage->flags & REMOTE) };
	assert(http_adopt(stage->http, &kept));
	return ends[0];
}

/* All that has come, up to what `answer` may hold. */
static void receive(int fd, struct buffer *answer)
{
	char bytes[16 * 1024];
	for (ssize_t got; (got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0;) {
		buffer_append(answer, bytes, (size_t)got);
	}
}

static void check_answer(const struct http_reader *reader, const struct buffer *body)
{
	const char *type = http_reader_field(reader, HTTP_FIELD_CONTENT_TYPE);
	assert(reader->status >= 100 && reader->status < 600);
	if (body->len > 0 && type && strstr(type, "json") && !strstr(type, "seq")) {
		json_t *json = json_loadb(buffer_text(body), body->len, 0, NULL);
		assert(json);
		json_decref(json);
	}
}

/* The first answer; for the rest would have to be known which of the requests were HEAD. */
static void check_answers(const struct buffer *answer, bool head)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct http_reader reader;
	struct buffer body;
	const char *data = buffer_text(answer);
	const char *end = data + answer->len;
	data += strncmp(data, go_on, sizeof(go_on) - 1) == 0 ? sizeof(go_on) - 1 : 0;
	buffer_init(&body, SIZE_MAX);
	/* As any server's: what HTTP/1.0 gets may end with the connection. */
	http_reader_init(&reader, HTTP_FOREIGN_ANSWER);
	reader.bodiless = head;
	for (enum http_event event = HTTP_EVENT_HEAD;
		event == HTTP_EVENT_HEAD || event == HTTP_EVENT_BODY;) {
		event = http_reader_next(&reader, &data, end);
		assert(event != HTTP_EVENT_REFUSED);
		if (event == HTTP_EVENT_BODY) {
			buffer_append(&body, reader.body, reader.body_len);
		} else if (event == HTTP_EVENT_END) {
			check_answer(&reader, &body);
		}
	}
	http_reader_finish(&reader);
	buffer_finish(&body);
}

/* Empty lines may precede a request. */
static bool is_head(const uint8_t *data, size_t len)
{
	while (len > 0 && (*data == '\r' || *data == '\n')) {
		data++;
		len--;
	}
	return len >= 4 && memcmp(data, "HEAD", 4) == 0;
}

static void talk(struct stage *stage, const uint8_t *data, size_t len)
{
	struct buffer answer;
	buffer_init(&answer, SIZE_MAX);
	int fd = connect_to(stage);
	assert(send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len);
	shutdown(fd, SHUT_WR);
	for (int i = 0; i < TURNS; i++) {
		cache_stage_turn(&stage->cache);
		receive(fd, &answer);
	}
	check_answers(&answer, is_head(data, len));
	close(fd);
	cache_stage_turn(&stage->cache);
	buffer_finish(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct stage stage;
	if (len == 0 || len > 16 * 1024) {
		return 0; /* what a socket holds at once */
	}
	if (!config) {
		read_config();
	}
	open_stage(&stage, data[0]);
	talk(&stage, data + 1, len - 1);
	close_stage(&stage);
	return 0;
}
