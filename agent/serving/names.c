#include "agent/serving/names.h"

#include <arpa/nameser.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/allocate.h"
#include "agent/config/own_address.h"
#include "lib/base/array.h"

static void set_zones(struct agent *agent)
{
	const struct config *config = agent->config;
	struct zone_options *zones = allocate_zeroed(config->zone_count, sizeof(*zones));
	for (size_t i = 0; i < config->zone_count; i++) {
		bool is_nxdomain = config->zones[i].unknown == CONFIG_ZONE_NXDOMAIN;
		zones[i] = (struct zone_options){ .domain = config->zones[i].name,
			.unknown = is_nxdomain ? ns_r_nxdomain : ns_r_refused };
	}
	zones_set(agent->zones, zones, config->zone_count);
	free(zones);
}

static void on_server(void *context, const char *server, enum dns_server_state from,
	enum dns_server_state to, const char *why)
{
	char *subject = allocate_format("dns server %s", server);
	agent_event(context,
		&(struct transition){ .subject = subject,
			.from = dns_server_state_names[from],
			.to = dns_server_state_names[to],
			.why = why,
			.trouble = to != DNS_SERVER_ASKED });
	free(subject);
}

/* Those that exist: free(), not its texts. */
static char **addresses_of(const struct agent *agent, size_t *ret_count)
{
	const struct config_dns *config = &agent->config->dns;
	char **addresses = allocate_zeroed(config->listen_count, sizeof(*addresses));
	size_t count = 0;
	for (size_t i = 0; i < config->listen_count; i++) {
		if (!config_address_is_placeholder(config->listen[i])) {
			addresses[count++] = config->listen[i];
		}
	}
	*ret_count = count;
	return addresses;
}

static struct dns_options options_of(struct agent *agent)
{
	const struct config_dns *config = &agent->config->dns;
	bool refuses = config->forward_count == 1 && strcmp(config->forward[0], "none") == 0;
	return (struct dns_options){
		.zones = agent->zones,
		.domain = config->domain,
		.ttl_s = (uint32_t)(config->ttl_ms / 1000),
		.stale_ttl_s = (uint32_t)(config->stale_ttl_ms / 1000),
		.near = config->prefer == CONFIG_PREFER_ZONE ? agent->config->agent.zone : NULL,
		.forward = config->forward,
		.forward_count = refuses ? 0 : config->forward_count,
		.on_server = { .on_state = on_server, .context = agent },
	};
}

/* Closes the sockets whose addresses the configuration does not name any more. */
static void close_unused(const struct agent *agent, const struct dns_socket *sockets, size_t count)
{
	struct dns_socket used[2 * DNS_MAX_LISTENERS];
	size_t used_count = agent->dns ? dns_sockets(agent->dns, used) : 0;
	for (size_t i = 0; i < count; i++) {
		bool is_used = false;
		for (size_t at = 0; at < used_count; at++) {
			is_used = is_used || used[at].fd == sockets[i].fd;
		}
		if (!is_used) {
			close(sockets[i].fd);
		}
	}
}

/* Takes the sockets. */
static int open_dns(
	struct agent *agent, const struct dns_socket *sockets, size_t count, struct err *err)
{
	struct dns_options options = options_of(agent);
	char **addresses = addresses_of(agent, &options.listen_count);
	int code = 0;
	options.listen = addresses;
	options.inherited = sockets;
	options.inherited_count = count;
	if (options.listen_count > 0) {
		set_zones(agent);
		code = dns_create(&agent->dns, agent->loop, agent->names, &options, err);
	}
	close_unused(agent, sockets, count);
	free(addresses);
	return code;
}

int agent_names_open(struct agent *agent, struct upgrade *received, struct err *err)
{
	/* The domain is fixed: the configuration that holds it may go before the lookups do. */
	agent->domain = allocate_text(agent->config->dns.domain);
	agent->sets = sets_create(agent->loop, agent->cache, agent->domain);
	agent->names = names_lookups_create(agent->loop, agent->cache, agent->sets, agent->domain);
	names_lookups_set_further(agent->names, agent->config->agent.failover,
		agent->config->agent.failover_count, agent->config->agent.failover_hold_ms);
	agent->zones = zones_create(agent->loop, agent->lookups, agent->cache);
	int code = open_dns(agent, received->dns, received->dns_count, err);
	received->dns_count = 0;
	return code;
}

/* Whether the listeners have just the addresses of the configuration. */
static bool listens(const struct agent *agent)
{
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	size_t count = agent->dns ? dns_sockets(agent->dns, sockets) : 0;
	size_t wanted;
	char **addresses = addresses_of(agent, &wanted);
	bool same = count == 2 * wanted;
	for (size_t i = 0; same && i < count; i++) {
		same = strcmp(sockets[i].address, addresses[i / 2]) == 0;
	}
	free(addresses);
	return same;
}

int agent_names_listen(struct agent *agent, struct err *err)
{
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	if (listens(agent)) {
		return 0;
	}
	size_t count = agent->dns ? dns_pass_sockets(agent->dns, sockets) : 0;
	dns_destroy(agent->dns);
	agent->dns = NULL;
	return open_dns(agent, sockets, count, err);
}

void agent_names_close(struct agent *agent)
{
	dns_destroy(agent->dns);
	names_lookups_destroy(agent->names);
	sets_destroy(agent->sets);
	zones_destroy(agent->zones);
	free(agent->domain);
	agent->dns = NULL;
	agent->names = NULL;
	agent->sets = NULL;
	agent->zones = NULL;
	agent->domain = NULL;
}

void agent_names_apply_options(struct agent *agent)
{
	if (agent->dns) {
		set_zones(agent);
		const struct dns_options options = options_of(agent);
		dns_set_options(agent->dns, &options);
	}
}

void agent_names_pass(struct agent *agent, struct upgrade *passed)
{
	struct dns_socket sockets[2 * DNS_MAX_LISTENERS];
	size_t count = agent->dns ? dns_pass_sockets(agent->dns, sockets) : 0;
	for (size_t i = 0; i < count; i++) {
		passed->dns = allocate_grow(passed->dns, passed->dns_count, sizeof(*passed->dns));
		passed->dns[passed->dns_count++] = sockets[i];
	}
}

void agent_names_update_metrics(struct agent *agent)
{
	static const struct {
		int code;
		const char *name;
	} replies[] = { { ns_r_noerror, "noerror" }, { ns_r_formerr, "formerr" },
		{ ns_r_servfail, "servfail" }, { ns_r_nxdomain, "nxdomain" },
		{ ns_r_notimpl, "notimp" }, { ns_r_refused, "refused" } };
	struct metrics *metrics = agent->metrics;
	static const struct dns_counts none;
	const struct dns_counts *counts = agent->dns ? dns_counts(agent->dns) : &none;
	metrics_set(metrics, METRIC_DNS_QUERIES, "udp", (double)counts->queries[0]);
	metrics_set(metrics, METRIC_DNS_QUERIES, "tcp", (double)counts->queries[1]);
	for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
		metrics_set(metrics, METRIC_DNS_REPLIES, replies[i].name,
			(double)counts->replies[replies[i].code]);
	}
	for (int state = 0; state < DNS_SERVER_STATES; state++) {
		size_t count = agent->dns ? dns_count_servers(agent->dns, state) : 0;
		metrics_set(
			metrics, METRIC_DNS_SERVERS, dns_server_state_names[state], (double)count);
	}
	metrics_set(metrics, METRIC_DNS_STALE, "", (double)counts->stale);
	metrics_set(metrics, METRIC_DNS_FORWARDED, "", (double)counts->forwarded);
	metrics_set(metrics, METRIC_DNS_TRUNCATED, "", (double)counts->truncated);
	metrics_set(metrics, METRIC_DNS_LIMITED, "", (double)counts->limited);
	metrics_set(metrics, METRIC_DNS_DROPPED, "", (double)counts->dropped);
}
