/* Rules of [agent] beyond single values. */
#include <stdlib.h>

#include "agent/base/allocate.h"
#include "agent/config/build.h"
#include "agent/config/builtin.h"
#include "agent/config/value.h"

static void add_own_host_take(struct config_agent *agent, char *host)
{
	agent->own_hosts = allocate_grow(
		agent->own_hosts, agent->own_host_count, sizeof(*agent->own_hosts));
	agent->own_hosts[agent->own_host_count++] = host;
}

static void add_builtin(struct config_agent *agent, const char *name)
{
	char *host = NULL;
	struct err unknown = ERR_INIT;
	if (config_builtin(name, &host, &unknown) == 0) {
		add_own_host_take(agent, host);
	}
}

void config_add_own_hosts(struct config_agent *agent, const char *address)
{
	struct err bad = ERR_INIT;
	char *host;
	char *port;
	if (config_parse_host_port(address, 0, &host, &port, &bad)) {
		return;
	}
	free(port);
	if (agent->own_host_count == 0) {
		add_own_host_take(agent, allocate_text("localhost"));
		add_own_host_take(agent, config_short_host_name());
		add_builtin(agent, "berth.hostname");
		add_builtin(agent, "berth.fqdn");
	}
	add_own_host_take(agent, host);
}

void config_rule_agent(struct config_builder *builder)
{
	struct config_agent *agent = &builder->config->agent;
	if (agent->stop_on_count == 0) {
		config_fault(builder, "stop_on",
			"`stop_on`: name a signal that stops the agent, such as TERM");
	}
	if (!config_lacks(builder, "listen") && !config_is_bad(builder, "listen")) {
		config_add_own_hosts(agent, agent->listen);
	}
}
