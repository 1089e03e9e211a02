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

static void fill(struct serving *serving)
{
	put(serving, "/app", AT_HOST("10.0.0.1"));
	put(serving, "/out", AT_HOST("10.0.0.2"));
}

/* ---- sockets ---- */

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

/* ---- further listeners ---- */

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

/* ---- connections of a predecessor ---- */

#define HELD                                                                                       \
	"[component a]\npath = /a\n[endpoint e]\ncomponent = a\napi = x\nprotocol = http\n"        \
	"address_type = host/port\ndynamic = yes\nhold = connection\n"

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
