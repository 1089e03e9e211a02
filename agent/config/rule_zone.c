/* Rules of [zone DOMAIN]. */
#include <string.h>

#include "agent/config/build.h"
#include "agent/config/verify.h"

/* True when `name` is `domain` or below it. */
static bool is_below(const char *name, const char *domain)
{
	size_t len = strlen(name);
	size_t domain_len = strlen(domain);
	return len >= domain_len && strcmp(name + len - domain_len, domain) == 0 &&
		(len == domain_len || name[len - domain_len - 1] == '.');
}

/* A name has one answer: that of the zone, or that of the registry's own domain. */
static void refuse_own_domain(struct config_builder *builder, const struct config_zone *zone)
{
	const char *domain = builder->config->dns.domain;
	if (is_below(zone->name, domain) || is_below(domain, zone->name)) {
		config_fault(builder, NULL,
			"[zone %s]: `domain` of [dns] is %s; one cannot be below the other",
			zone->name, domain);
	}
}

static void doubt_listen(struct config_builder *builder)
{
	if (builder->config->dns.listen_count == 0) {
		config_doubt(builder, NULL, "nobody can ask for its names: [dns] has no `listen`");
	}
}

void config_rule_zone(struct config_builder *builder, const struct config_zone *zone)
{
	struct err err = ERR_INIT;
	if (!*zone->name) {
		return; /* the reader of sections has reported it */
	}
	if (config_verify_domain(zone->name, &err)) {
		config_fault(builder, NULL, "[zone %s]: %s", zone->name, err.msg);
		return;
	}
	if (!strchr(zone->name, '.')) {
		config_fault(builder, NULL,
			"[zone %s]: a domain of one label is not allowed; write one of two or more",
			zone->name);
	}
	refuse_own_domain(builder, zone);
	doubt_listen(builder);
}
