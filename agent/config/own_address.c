#include "agent/config/own_address.h"

#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/own_addresses.h"
#include "agent/base/socket_address.h"
#include "lib/base/buffer.h"
#include "lib/base/text.h"
#include "lib/registry/url.h"

#define IP "berth.ip"
#define IP6 "berth.ip6"
#define OF_INTERFACE "berth.ip."
#define NO_IP "192.0.0.8"
#define NO_IP6 "100:0:0:1::"

enum { SERVER_BYTES = 80 };

static struct sockaddr_storage servers[REGISTRY_URL_MAX_SERVERS];
static size_t server_count;
static bool of_url; /* the servers are numeric in the URL */

/* ---- the way to the registry ---- */

void config_address_set_url(const char *url)
{
	struct registry_url parsed;
	struct err err = ERR_INIT;
	struct sockaddr_storage numeric[REGISTRY_URL_MAX_SERVERS];
	size_t count = 0;
	if (registry_url_parse(&parsed, url, &err) || parsed.kind != REGISTRY_URL_ZOOKEEPER) {
		parsed.servers_count = 0;
	}
	for (size_t i = 0; i < parsed.servers_count; i++) {
		char text[SERVER_BYTES];
		socklen_t len;
		const char *host = parsed.servers[i].host;
		text_printf(text, sizeof(text), strchr(host, ':') ? "[%.60s]:%s" : "%.60s:%s", host,
			parsed.servers[i].port);
		count += socket_address_read(&numeric[count], &len, text);
	}
	if (count > 0 || of_url) {
		memcpy(servers, numeric, count * sizeof(*servers));
		server_count = count;
	}
	of_url = count > 0;
}

void config_address_set_server(const char *server)
{
	struct sockaddr_storage source;
	socklen_t len;
	/* Of several servers the first one decides, as long as a route leads there. */
	if (!of_url && (server_count == 0 || !socket_address_source(&source, &servers[0]))) {
		server_count = socket_address_read(&servers[0], &len, server);
	}
}

/* ---- names ---- */

bool config_is_address_name(const char *name)
{
	return strcmp(name, IP) == 0 || strcmp(name, IP6) == 0 ||
		(strncmp(name, OF_INTERFACE, strlen(OF_INTERFACE)) == 0 &&
			name[strlen(OF_INTERFACE)]);
}

static char *list_all(const struct own_addresses *addresses)
{
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	for (size_t i = 0; i < addresses->count; i++) {
		if (addresses->items[i].family == AF_INET) {
			buffer_printf(&text, "%s %s\n", addresses->items[i].interface,
				addresses->items[i].text);
		}
	}
	char *result = allocate_text(buffer_text(&text));
	buffer_finish(&text);
	return result;
}

int config_find_address(const char *name, char **ret_value, struct err *err)
{
	struct own_addresses addresses;
	bool is_ipv6 = strcmp(name, IP6) == 0;
	bool is_main = is_ipv6 || strcmp(name, IP) == 0;
	const char *interface = name + strlen(OF_INTERFACE);
	const char *found;
	own_addresses_read(&addresses);
	if (strcmp(name, CONFIG_EVERY_ADDRESS) == 0) {
		*ret_value = list_all(&addresses);
		own_addresses_finish(&addresses);
		return 0;
	}
	if (is_main) {
		found = own_addresses_main(
			&addresses, is_ipv6 ? AF_INET6 : AF_INET, servers, server_count);
	} else {
		found = own_addresses_of(&addresses, AF_INET, interface);
	}
	if (found) {
		*ret_value = allocate_text(found);
	} else if (is_main) {
		err_set(err, BERTH_FAILED,
			"${%s}: no interface is up with an %s address that others can reach", name,
			is_ipv6 ? "IPv6" : "IPv4");
	} else {
		err_set(err, BERTH_FAILED,
			"${%s}: there is no interface %s that is up with an IPv4 address", name,
			interface);
	}
	own_addresses_finish(&addresses);
	return err->code;
}

const char *config_address_placeholder(const char *name)
{
	return strcmp(name, IP6) == 0 ? NO_IP6 : NO_IP;
}

bool config_address_is_placeholder(const char *host_port)
{
	return strncmp(host_port, NO_IP ":", strlen(NO_IP ":")) == 0 ||
		strncmp(host_port, "[" NO_IP6 "]", strlen("[" NO_IP6 "]")) == 0;
}
