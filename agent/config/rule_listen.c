/* Rules of [listen NAME]. */
#include <string.h>

#include "agent/config/build.h"
#include "agent/config/own_address.h"

/*
 * The option that listens at `address` already, or NULL. `before`: the number of further listeners.
 */
static const char *who_listens(const struct config *config, const char *address, size_t before)
{
	if (strcmp(config->agent.listen, address) == 0) {
		return "`listen` in [agent]";
	}
	for (size_t i = 0; i < before; i++) {
		if (strcmp(config->listens[i].address, address) == 0) {
			return "another [listen NAME]";
		}
	}
	return NULL;
}

void config_rule_listen(struct config_builder *builder, const struct config_listen *listen)
{
	struct config *config = builder->config;
	if (config_lacks(builder, "address")) {
		config_fault(builder, NULL,
			"[listen %s] needs an `address`: host:port, such as 0.0.0.0:8931",
			builder->section->name);
		return;
	}
	if (config_is_bad(builder, "address")) {
		return;
	}
	bool waits = config_address_is_placeholder(listen->address);
	const char *other = waits ? NULL
				  : who_listens(config, listen->address, config->listen_count - 1);
	if (other) {
		config_fault(builder, "address", "`address`: %s listens at %s, too", other,
			listen->address);
	}
	if (config_lacks(builder, "under")) {
		config_doubt(builder, NULL,
			"[listen %s] has no `under`: it shows nothing; write a path and /**, such "
			"as /users/joe/**",
			builder->section->name);
	}
	config_add_own_hosts(&config->agent, listen->address);
}
