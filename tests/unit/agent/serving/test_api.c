/* The agent's front door: its sockets, what they show, and how a successor goes on with them. */

#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/unit/agent/serving/serving_stage.h"

#define LOCAL "Host: localhost\r\n"
#define PUBLISHED "[listen out]\naddress = 127.0.0.1:0\nunder = /out/**\n"
#define ALL "[listen all]\naddress = 127.0.0.2:0\nunder = /out/**, /app/**\nscope = all\n"

static const char *get_from(struct serving *serving, const char *listener, const char *target)
{
	int fd = http_further_fd(serving->agent.http, listener);
	return ask_over(serving, knock_at(fd), target, LOCAL);
}

static bool is_there(const struct serving *serving, const char *name)
{
	return access(in(serving, name), F_OK) == 0;
}

static void fill(struct serving *serving)
{
	put(serving, "/app", AT_HOST("10.0.0.1"));
	put(serving, "/out", AT_HOST("10.0.0.2"));
}

/* ---- sockets ---- */

SERVED(serving_api, it_answers_on_the_socket_of_the_configuration, "socket_mode = 0640\n")
{
	struct stat info;
	fill(serving);
	cr_expect(has(get(serving, "/v1/resolve/app"), "\"10.0.0.1\""), "%s", serving->answer);
	cr_expect(has(get(serving, "/v1/agent"), "\"phase\""), "%s", serving->answer);
	cr_expect(has(get(serving, "/metrics"), "berth_clients 1"), "%s", serving->answer);
	cr_assert_eq(stat(in(serving, "s"), &info), 0);
	cr_expect_eq(info.st_mode & 0777, 0640);
	agent_api_close(&serving->agent);
	cr_expect_null(serving->agent.api);
	cr_expect_not(is_there(serving, "s"));
	serving->agent.http = NULL;
}

SERVED(serving_api, local_clients_may_map_its_answers, "")
{
	cr_expect(has(get(serving, "/v1/shared"), "HTTP/1.1 200"), "%s", serving->answer);
	cr_expect(has(get(serving, "/metrics"), "\nberth_shared_maps_total 1\n"));
}

SERVED(serving_api, one_watcher_at_most_is_no_limit_for_others, "max_watchers = 1\n")
{
	int fds[10];
	fill(serving);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		fds[i] = knock(serving);
		go_on(serving);
	}
	cr_expect(has(get(serving, "/v1/resolve/app"), "HTTP/1.1 200"), "%s", serving->answer);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		close(fds[i]);
	}
	go_on(serving);
}

/* The limit of open files that such an agent has given itself. */
static rlim_t limit_with(struct serving *serving, const char *text)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 256;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	config_unref(serving->agent.config);
	serving->agent.config = configure(serving, text);
	serve(serving);
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur;
}

PREPARED(serving_api, there_are_descriptors_for_watchers_and_for_containers, "")
{
	struct rlimit most;
	getrlimit(RLIMIT_NOFILE, &most);
	if (most.rlim_max < 8000) {
		serve(serving);
		return; /* they cannot be had here */
	}
	cr_assert_eq(mkdir(in(serving, "all"), 0755), 0);
	rlim_t without = limit_with(serving, "max_watchers = 3000\n");
	cr_expect_gt(without, 4000, "connections that watch nothing have some, too");
	cr_expect_lt(without, 5000);
	serve_no_more(serving);
	serving->received = (struct upgrade){ .socket_fd = -1, .listen_fd = -1, .xds_fd = -1 };
	rlim_t with = limit_with(serving, "max_watchers = 3000\n[bridge]\ncontainers = @/all\n");
	cr_expect_gt(with, without + 2000, "each of a thousand has two");
}

SERVED(serving_api, a_socket_that_was_removed_is_made_again, "")
{
	cr_assert_eq(unlink(in(serving, "s")), 0);
	agent_api_renew_socket(&serving->agent);
	cr_expect(has(get(serving, "/v1/agent"), "HTTP/1.1 200"));
}

SERVED(serving_api, one_that_another_agent_serves_is_left_alone, "")
{
	struct agent other = serving->agent;
	struct api_hooks hooks = agent_hooks(&other);
	struct upgrade none = { .socket_fd = -1, .listen_fd = -1 };
	struct err err = ERR_INIT;
	other.api = NULL;
	other.http = NULL;
	cr_expect_eq(agent_api_open(&other, &hooks, &none, &err), BERTH_FAILED);
	cr_expect(has(err.msg, in(serving, "s")), "%s", err.msg);
	agent_api_close(&other);
	cr_expect(has(get(serving, "/v1/agent"), "HTTP/1.1 200"));
}

PREPARED(serving_api, a_socket_of_the_service_manager_is_not_removed, "")
{
	serve(serving);
	int fd = dup(http_socket_fd(serving->agent.http));
	serve_no_more(serving);
	put_in(serving, "s", "the manager's");
	serving->received = (struct upgrade){
		.socket_fd = fd, .listen_fd = -1, .xds_fd = -1, .keep_socket = true
	};
	serve(serving);
	cr_expect_eq(http_socket_fd(serving->agent.http), fd);
	agent_api_close(&serving->agent);
	serving->agent.http = NULL;
	cr_expect(is_there(serving, "s"));
}

PREPARED(serving_api, clients_over_tcp_have_to_name_it_as_it_is_named,
	"listen = 127.0.0.1:1\nlisten_hosts = web.example.org\n")
{
	int fd = serving->received.listen_fd = listening_socket();
	serve(serving);
	connect_registry(serving);
	cr_expect_eq(http_listen_fd(serving->agent.http), fd);
	cr_expect(has(ask_over(serving, knock_at(fd), "/v1/list/", LOCAL), "HTTP/1.1 200"));
	cr_expect(has(ask_over(serving, knock_at(fd), "/v1/list/", "Host: web.example.org\r\n"),
		"HTTP/1.1 200"));
	cr_expect(has(ask_over(serving, knock_at(fd), "/v1/list/", "Host: evil.example\r\n"),
		"HTTP/1.1 421"));
}

/* ---- further listeners ---- */

SERVED(serving_api, each_listener_shows_its_own_part, PUBLISHED ALL)
{
	fill(serving);
	cr_expect(has(get_from(serving, "out", "/v1/resolve/out"), "\"10.0.0.2\""), "%s",
		serving->answer);
	cr_expect_not(has(serving->answer, "secret"));
	cr_expect(has(get_from(serving, "out", "/v1/resolve/app"), "HTTP/1.1 404"));
	cr_expect(has(get_from(serving, "all", "/v1/resolve/app"), "\"10.0.0.1\""), "%s",
		serving->answer);
	cr_expect(has(serving->answer, "secret"));
}

SERVED(serving_api, a_reload_changes_what_it_shows, PUBLISHED ALL)
{
	fill(serving);
	reload(serving, "[listen out]\naddress = 127.0.0.1:0\nunder = /app/**\nscope = all\n" ALL);
	cr_expect(
		has(get_from(serving, "out", "/v1/resolve/app"), "secret"), "%s", serving->answer);
	cr_expect(has(get_from(serving, "out", "/v1/resolve/out"), "HTTP/1.1 404"));
	cr_expect(
		has(get_from(serving, "all", "/v1/resolve/app"), "secret"), "%s", serving->answer);
}

SERVED(serving_api, a_successor_gets_the_sockets_of_all, PUBLISHED ALL)
{
	struct upgrade passed = { 0 };
	agent_api_pass(&serving->agent, &passed);
	cr_assert_eq(passed.listen_count, 2);
	cr_expect_eq(upgrade_listen_fd(&passed, "out", "127.0.0.1:0"),
		http_further_fd(serving->agent.http, "out"));
	cr_expect_eq(upgrade_listen_fd(&passed, "all", "127.0.0.2:0"),
		http_further_fd(serving->agent.http, "all"));
	free(passed.listens);
}

PREPARED(serving_api, the_sockets_of_a_predecessor_are_used_by_name, PUBLISHED ALL)
{
	int out = listening_socket();
	upgrade_add_listen(&serving->received, "out", "127.0.0.1:0", out);
	serve(serving);
	connect_registry(serving);
	cr_expect_eq(http_further_fd(serving->agent.http, "out"), out);
	cr_expect_neq(http_further_fd(serving->agent.http, "all"), out);
	cr_expect_geq(http_further_fd(serving->agent.http, "all"), 0);
}

/* ---- names ---- */

SERVED(serving_api, a_name_says_how_long_it_may_be_kept, "[dns]\nttl = 7s\nstale_ttl = 11s\n")
{
	fill(serving);
	cr_expect(has(get(serving, "/v1/names/app.berth"), "\"ttl\":7,"), "%s", serving->answer);
	change_registry(serving, REGISTRY_AWAY);
	cr_expect(has(get(serving, "/v1/names/app.berth"), "\"ttl\":11,"), "%s", serving->answer);
	reload(serving, "[dns]\nttl = 9s\nstale_ttl = 12s\n");
	cr_expect(has(get(serving, "/v1/names/app.berth"), "\"ttl\":12,"), "%s", serving->answer);
}

/* ---- connections of a predecessor ---- */

#define HELD                                                                                       \
	"[component a]\npath = /a\n[endpoint e]\ncomponent = a\napi = x\nprotocol = http\n"        \
	"address_type = host/port\ndynamic = yes\nhold = connection\n"

SERVED(serving_api, a_connection_of_a_predecessor_goes_on, "")
{
	int pair[2];
	struct upgrade received = { .connection_count = 1 };
	fill(serving);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	struct http_kept kept = { .fd = pair[0], .id = 4711, .local = true };
	received.connections = &kept;
	agent_api_adopt(&serving->agent, &received);
	cr_expect_eq(http_connections(serving->agent.http), 1);
	cr_expect(has(ask_over(serving, pair[1], "/v1/resolve/app", "Host: a\r\n"), "10.0.0.1"));
}

/* The addresses of the endpoint, supplied over this connection; its number. */
static uint64_t supply(struct serving *serving, int fd)
{
	static const char request[] =
		"PUT /v1/agent/endpoints/e HTTP/1.1\r\nHost: a\r\n"
		"Content-Type: application/json\r\n"
		"Content-Length: 30\r\n\r\n{\"addresses\": [\"10.0.0.9:80\"]}";
	struct http_kept kept[4];
	cr_assert_eq(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
	go_on(serving);
	ssize_t len = recv(fd, serving->answer, sizeof(serving->answer) - 1, MSG_DONTWAIT);
	serving->answer[len > 0 ? len : 0] = '\0';
	cr_assert(has(serving->answer, "HTTP/1.1 204"), "%s", serving->answer);
	cr_assert_eq(http_keep(serving->agent.http, kept, 4), 1);
	cr_assert(kept[0].pinned);
	return kept[0].id;
}

static bool is_supplied(struct serving *serving)
{
	json_t *json = component_json(agent_components_find(&serving->agent, "a"));
	char *text = json_dumps(json, 0);
	bool supplied = has(text, "10.0.0.9");
	free(text);
	json_decref(json);
	return supplied;
}

SERVED(serving_api, what_a_connection_held_that_has_ended_is_withdrawn, HELD)
{
	struct upgrade received = { .connection_count = 2 };
	int fd = knock(serving);
	uint64_t id = supply(serving, fd);
	cr_expect(is_supplied(serving));
	struct http_kept kept[2] = { { .fd = -1, .id = id, .local = true },
		{ .fd = -1, .id = id + 1, .local = true, .pinned = true } };
	received.connections = kept;
	agent_api_adopt(&serving->agent, &received);
	cr_expect(is_supplied(serving), "that was another connection");
	kept[1].id = id;
	agent_api_adopt(&serving->agent, &received);
	cr_expect_not(is_supplied(serving));
	close(fd);
	go_on(serving);
}

SERVED(serving_api, an_open_one_goes_on_to_hold_it, HELD)
{
	int pair[2];
	struct upgrade received = { .connection_count = 1 };
	int fd = knock(serving);
	uint64_t id = supply(serving, fd);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	struct http_kept kept = { .fd = pair[0], .id = id, .local = true, .pinned = true };
	received.connections = &kept;
	agent_api_adopt(&serving->agent, &received);
	go_on(serving);
	cr_expect(is_supplied(serving));
	close(pair[1]);
	close(fd);
	RUN_UNTIL(serving->agent.loop, !is_supplied(serving));
}
