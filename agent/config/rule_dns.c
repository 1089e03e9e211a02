/* Rules of [dns] beyond single values. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/resolv_conf.h"
#include "agent/base/own_addresses.h"
#include "agent/base/socket_address.h"
#include "agent/config/build.h"
#include "agent/config/own_address.h"
#include "agent/config/value.h"
#include "lib/base/array.h"

#define MAX_LISTEN 16

static void check_listen(struct config_builder *builder)
{
	const struct config_dns *dns = &builder->config->dns;
	if (dns->listen_count > MAX_LISTEN) {
		config_fault(builder, "listen", "`listen`: at most %d addresses are allowed",
			MAX_LISTEN);
	}
	for (size_t i = 0; i < dns->listen_count; i++) {
		for (size_t before = 0; before < i; before++) {
			if (strcmp(dns->listen[i], dns->listen[before]) == 0 &&
				!config_address_is_placeholder(dns->listen[i])) {
				config_fault(builder, "listen", "`listen` names %s twice",
					dns->listen[i]);
				return;
			}
		}
	}
}

/* Addresses that only this machine, or a network of its owner, leads to. */
static bool is_private(const char *host)
{
	static const struct {
		uint32_t network;
		uint32_t mask;
	} networks[] = { { 0x7f000000, 0xff000000 }, { 0x0a000000, 0xff000000 },
		{ 0xac100000, 0xfff00000 }, { 0xc0a80000, 0xffff0000 }, { 0xa9fe0000, 0xffff0000 },
		{ 0x64400000, 0xffc00000 } };
	struct in6_addr ipv6;
	struct in_addr ipv4;
	bool found = false;
	if (inet_pton(AF_INET6, host, &ipv6) == 1) {
		return IN6_IS_ADDR_LOOPBACK(&ipv6) || IN6_IS_ADDR_LINKLOCAL(&ipv6) ||
			(ipv6.s6_addr[0] & 0xfe) == 0xfc;
	}
	bool is_ipv4 = inet_pton(AF_INET, host, &ipv4) == 1;
	for (size_t i = 0; i < ARRAY_LEN(networks) && is_ipv4; i++) {
		found = found || (ntohl(ipv4.s_addr) & networks[i].mask) == networks[i].network;
	}
	return found;
}

static void doubt_listen(struct config_builder *builder)
{
	const struct config_dns *dns = &builder->config->dns;
	for (size_t i = 0; i < dns->listen_count; i++) {
		struct err bad = ERR_INIT;
		char *host;
		char *port;
		if (config_address_is_placeholder(dns->listen[i]) ||
			config_parse_host_port(dns->listen[i], 1, &host, &port, &bad)) {
			continue;
		}
		if (!is_private(host)) {
			config_doubt(builder, "listen",
				"strangers may reach %s, read the registry there, and have "
				"answers sent to others: let a firewall keep them out",
				dns->listen[i]);
		}
		free(host);
		free(port);
	}
}

/* The address of `listen` at which the agent hears what is sent to the server; NULL: none. */
static const char *own_address(const struct config_dns *dns, const char *server)
{
	struct sockaddr_storage to;
	struct sockaddr_storage own;
	socklen_t len;
	for (size_t i = 0; i < dns->listen_count; i++) {
		if (socket_address_read(&to, &len, server) &&
			socket_address_read(&own, &len, dns->listen[i]) &&
			own_addresses_hear(&to, &own)) {
			return dns->listen[i];
		}
	}
	return NULL;
}

static void doubt_server(const struct config_dns *dns, const char *server, struct err *doubt)
{
	const char *own = own_address(dns, server);
	if (own) {
		bool same = strcmp(own, server) == 0;
		err_set(doubt, BERTH_FAILED,
			"%s is what `listen` serves%s%s: the agent does not ask itself", server,
			same ? "" : " as ", same ? "" : own);
	}
}

static void doubt_system(const struct config_dns *dns, struct err *doubt)
{
	char servers[RESOLV_CONF_SERVERS][RESOLV_CONF_SERVER_BYTES];
	size_t count = resolv_conf_read(servers);
	size_t own = 0;
	for (size_t i = 0; i < count; i++) {
		own += own_address(dns, servers[i]) != NULL;
	}
	if (own == count) {
		err_set(doubt, BERTH_FAILED, RESOLV_CONF " here names no server%s",
			count > 0 ? " but this agent, which does not ask itself" : "");
	}
}

static void check_forward(struct config_builder *builder)
{
	const struct config_dns *dns = &builder->config->dns;
	struct err doubt = ERR_INIT;
	for (size_t i = 0; i < dns->forward_count; i++) {
		const char *server = dns->forward[i];
		bool is_word = strcmp(server, "none") == 0 || strcmp(server, "system") == 0;
		if (is_word && dns->forward_count > 1) {
			config_fault(builder, "forward",
				"`forward`: `%s` has no other server next to it", server);
		}
		if (!is_word) {
			doubt_server(dns, server, &doubt);
		} else if (strcmp(server, "system") == 0) {
			doubt_system(dns, &doubt);
		}
	}
	if (doubt.code) {
		config_doubt(builder, "forward", "%s", doubt.msg);
	}
}

/* Resolvers answer some domains themselves (RFC 6761, RFC 6762) and never ask a server. */
static void doubt_domain(struct config_builder *builder)
{
	static const char *const reserved[] = { "local", "localhost", "invalid", "arpa" };
	const char *domain = builder->config->dns.domain;
	const char *dot = strrchr(domain, '.');
	const char *top = dot ? dot + 1 : domain;
	for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
		if (strcmp(top, reserved[i]) == 0) {
			config_doubt(builder, "domain",
				"resolvers do not ask a server like this one for names below %s",
				top);
		}
	}
}

static void doubt_fraction(struct config_builder *builder, const char *key, int64_t value_ms)
{
	if (value_ms % 1000 != 0) {
		config_doubt(builder, key,
			"a time to live has whole seconds, so this one is %lld s",
			(long long)(value_ms / 1000));
	}
}

void config_rule_dns(struct config_builder *builder)
{
	check_listen(builder);
	doubt_listen(builder);
	check_forward(builder);
	doubt_domain(builder);
	doubt_fraction(builder, "ttl", builder->config->dns.ttl_ms);
	doubt_fraction(builder, "stale_ttl", builder->config->dns.stale_ttl_ms);
}
