/* The agent's front door: how a successor goes on with connections. */

#include "tests/unit/agent/serving/serving_stage.h"

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
