/* Rules of [dns] beyond single values. */
#include <string.h>

#include "agent/config/build.h"

#define MAX_LISTEN 16

static void check_listen(struct config_builder *builder, const struct config_section *section)
{
	const struct config_dns *dns = &builder->config->dns;
	const struct config_entry *entry = config_section_find(section, "listen");
	if (dns->listen_count > MAX_LISTEN) {
		config_report(builder, section, entry, "`listen`: at most %d addresses are allowed",
			MAX_LISTEN);
	}
	for (size_t i = 0; i < dns->listen_count; i++) {
		for (size_t before = 0; before < i; before++) {
			if (strcmp(dns->listen[i], dns->listen[before]) == 0) {
				config_report(builder, section, entry, "`listen` names %s twice",
					dns->listen[i]);
				return;
			}
		}
	}
}

static void check_forward(struct config_builder *builder, const struct config_section *section)
{
	const struct config_dns *dns = &builder->config->dns;
	const struct config_entry *entry = config_section_find(section, "forward");
	struct err doubt = ERR_INIT;
	for (size_t i = 0; i < dns->forward_count; i++) {
		const char *server = dns->forward[i];
		bool is_word = strcmp(server, "none") == 0 || strcmp(server, "system") == 0;
		if (is_word && dns->forward_count > 1) {
			config_report(builder, section, entry,
				"`forward`: `%s` has no other server beside it", server);
		}
		for (size_t own = 0; own < dns->listen_count; own++) {
			if (strcmp(server, dns->listen[own]) == 0) {
				err_set(&doubt, BERTH_FAILED,
					"%s is what `listen` serves: the agent does not ask itself",
					server);
			}
		}
	}
	if (doubt.code) {
		config_warn(builder, section, entry, &doubt);
	}
}

/* Resolvers answer some domains themselves (RFC 6761, RFC 6762) and never ask a server. */
static void doubt_domain(struct config_builder *builder, const struct config_section *section)
{
	static const char *const reserved[] = { "local", "localhost", "invalid", "arpa" };
	const char *domain = builder->config->dns.domain;
	const char *dot = domain ? strrchr(domain, '.') : NULL;
	const char *top = dot ? dot + 1 : domain;
	struct err doubt = ERR_INIT;
	for (size_t i = 0; top && i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		if (strcmp(top, reserved[i]) == 0) {
			err_set(&doubt, BERTH_FAILED,
				"resolvers do not ask a server like this one for names below %s",
				top);
			config_warn(
				builder, section, config_section_find(section, "domain"), &doubt);
		}
	}
}

static void doubt_fraction(struct config_builder *builder, const struct config_section *section,
	const char *key, int64_t value_ms)
{
	struct err doubt = ERR_INIT;
	if (value_ms % 1000 != 0) {
		err_set(&doubt, BERTH_FAILED,
			"a time to live has whole seconds, so this one is %lld s",
			(long long)(value_ms / 1000));
		config_warn(builder, section, config_section_find(section, key), &doubt);
	}
}

void config_rule_dns(struct config_builder *builder, const struct config_section *section)
{
	check_listen(builder, section);
	check_forward(builder, section);
	doubt_domain(builder, section);
	doubt_fraction(builder, section, "ttl", builder->config->dns.ttl_ms);
	doubt_fraction(builder, section, "stale_ttl", builder->config->dns.stale_ttl_ms);
}
