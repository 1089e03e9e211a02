#include "agent/serving/api.h"

#include <stdlib.h>

#include "agent/base/allocate.h"
#include "agent/config/own_address.h"
#include "agent/core/state.h"

enum {
	BRIDGE_DESCRIPTORS = 2200, /* of a thousand containers: a directory and a socket each */
	SPARE_CONNECTIONS = 1024,  /* besides streams and long polls */
	IDLE_TIMEOUT_MS = 60000,
};

/* `published` has room for those of all listeners. */
static struct api_options options_of(const struct agent *agent, struct api_published *published)
{
	for (size_t i = 0; i < agent->config->listen_count; i++) {
		const struct config_listen *listen = &agent->config->listens[i];
		published[i] = (struct api_published){ .name = listen->name,
			.under = listen->under,
			.under_count = listen->under_count,
			.external = listen->scope == CONFIG_LISTEN_EXTERNAL };
	}
	return (struct api_options){
		.version = BERTH_VERSION,
		.max_watchers = agent->config->agent.max_watchers,
		.heartbeat_interval_ms = agent->config->agent.heartbeat_interval_ms,
		.names_ttl_s = (uint32_t)(agent->config->dns.ttl_ms / 1000),
		.names_stale_ttl_s = (uint32_t)(agent->config->dns.stale_ttl_ms / 1000),
		.admin_group_id = agent->config->agent.admin_group_id,
		.hosts = { { agent->config->agent.own_hosts, agent->config->agent.own_host_count },
			{ agent->config->agent.listen_hosts,
				agent->config->agent.listen_host_count } },
		.zone = agent->config->agent.zone,
		.failover = agent->config->agent.failover,
		.failover_count = agent->config->agent.failover_count,
		.failover_hold_ms = agent->config->agent.failover_hold_ms,
		.published = published,
		.published_count = agent->config->listen_count,
	};
}

/* "" while there is no such address yet. */
static const char *address_of(const char *configured)
{
	return config_address_is_placeholder(configured) ? "" : configured;
}

/* For http_open(): those of the configuration, with the sockets of a predecessor. */
static struct http_listen *further_listeners(
	const struct config *config, const struct upgrade *received)
{
	struct http_listen *further = allocate_zeroed(config->listen_count, sizeof(*further));
	for (size_t i = 0; i < config->listen_count; i++) {
		const struct config_listen *listen = &config->listens[i];
		further[i] = (struct http_listen){ .name = listen->name,
			.address = address_of(listen->address),
			.fd = upgrade_listen_fd(received, listen->name, listen->address) };
	}
	return further;
}

int agent_api_open(struct agent *agent, const struct api_hooks *hooks,
	const struct upgrade *received, struct err *err)
{
	const struct config_agent *config = &agent->config->agent;
	struct api_published *published = allocate_zeroed(
		agent->config->listen_count, sizeof(*published));
	struct api_options options = options_of(agent, published);
	agent->api = api_create(agent->loop, agent->cache, agent->names, agent->lookups,
		agent->history, agent->metrics, hooks, &options);
	free(published);
	struct http_listen *further = further_listeners(agent->config, received);
	const struct http_options http = {
		.socket_path = config->socket,
		.socket_mode = config->socket_mode,
		.socket_group_id = config->socket_group_id,
		.socket_fd = received->socket_fd,
		.socket_place = received->socket_place,
		.listen = address_of(config->listen),
		.listens_later = config_address_is_placeholder(config->listen),
		.listen_fd = received->listen_fd,
		.further = further,
		.further_count = agent->config->listen_count,
		.keep_socket = received->keep_socket,
		.max_connections = config->max_watchers + SPARE_CONNECTIONS,
		.reserved = *agent->config->bridge.containers ? BRIDGE_DESCRIPTORS : 0,
		.idle_timeout_ms = IDLE_TIMEOUT_MS,
		.on_request = api_on_request,
		.wants_body = api_wants_body,
		.on_pinned_closed = api_on_pinned_closed,
		.context = agent->api,
	};
	int code = http_open(&agent->http, agent->loop, &http, err);
	free(further);
	api_set_http(agent->api, agent->http);
	api_set_shared(agent->api, agent->shared);
	api_set_sets(agent->api, agent->sets);
	return code;
}

void agent_api_adopt(struct agent *agent, const struct upgrade *received)
{
	for (size_t i = 0; i < received->connection_count; i++) {
		const struct http_kept *kept = &received->connections[i];
		if (!http_adopt(agent->http, kept) && kept->pinned) {
			api_on_pinned_closed(agent->api, kept->id);
		}
	}
}

void agent_api_pass(const struct agent *agent, struct upgrade *passed)
{
	for (size_t i = 0; i < agent->config->listen_count; i++) {
		const struct config_listen *listen = &agent->config->listens[i];
		upgrade_add_listen(passed, listen->name, listen->address,
			http_further_fd(agent->http, listen->name));
	}
}

int agent_api_listen(struct agent *agent, struct err *err)
{
	const struct config *config = agent->config;
	if (http_listen_at(agent->http, "", address_of(config->agent.listen), err)) {
		return err->code;
	}
	for (size_t i = 0; i < config->listen_count; i++) {
		const struct config_listen *further = &config->listens[i];
		if (http_listen_at(agent->http, further->name, address_of(further->address), err)) {
			return err->code;
		}
	}
	return 0;
}

void agent_api_close(struct agent *agent)
{
	http_close(agent->http);
	api_destroy(agent->api);
	agent->api = NULL;
}

void agent_api_renew_socket(struct agent *agent)
{
	http_renew_socket(agent->http);
}

void agent_api_apply_options(struct agent *agent)
{
	struct api_published *published = allocate_zeroed(
		agent->config->listen_count, sizeof(*published));
	struct api_options options = options_of(agent, published);
	api_set_options(agent->api, &options);
	free(published);
}
