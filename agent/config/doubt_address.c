#include "agent/config/doubt_address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"

enum { PORT_DIGITS = 5, PORT_MAX = 65535, HOST_BYTES = 256 };

/* The authority of a URI; `host` is without brackets, `port` NULL when the URI has none. */
struct authority {
	const char *host;
	size_t host_len;
	const char *port;
	size_t port_len;
};

static bool begins_name(const char *text)
{
	return isalpha((unsigned char)*text) || *text == '_';
}

int config_doubt_address_text(const char *raw, struct err *err)
{
	for (const char *at = strstr(raw, "$$"); at; at = strstr(at + 2, "$$")) {
		bool braced = at[2] == '{';
		if (begins_name(at + 2 + braced)) {
			int len = (int)strcspn(at + 2, braced ? "}" : "/:.,@ ") + braced;
			return err_set(err, BERTH_FAILED,
				"the record will hold `$%.*s` as it is, since $$ is a dollar that "
				"means itself; write one $ and braces for a variable's value",
				len, at + 2);
		}
	}
	return 0;
}

/* False when the URI has no authority, or one with several hosts. */
static bool split_authority(const char *uri, struct authority *ret_authority)
{
	const char *text = strstr(uri, "://");
	if (!text) {
		return false;
	}
	text += strlen("://");
	size_t len = strcspn(text, "/?#");
	if (memchr(text, ',', len)) {
		return false; /* several hosts, each scheme in its own way */
	}
	const char *user_end = memrchr(text, '@', len);
	const char *host = user_end ? user_end + 1 : text;
	const char *end = text + len;
	const char *bracket = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : NULL;
	const char *after = bracket ? bracket : host;
	const char *colon = memchr(after, ':', (size_t)(end - after));
	host += bracket ? 1 : 0;
	const char *host_end = bracket ? bracket : colon ? colon : end;
	*ret_authority = (struct authority){
		.host = host,
		.host_len = (size_t)(host_end - host),
		.port = colon ? colon + 1 : NULL,
		.port_len = colon ? (size_t)(end - colon - 1) : 0,
	};
	return true;
}

static bool is_port(const char *port, size_t len)
{
	return len > 0 && len <= PORT_DIGITS && strspn(port, "0123456789") >= len &&
		atoi(port) >= 1 && atoi(port) <= PORT_MAX;
}

static bool is_one_of(const char *text, const char *const *words)
{
	while (*words && strcasecmp(text, *words) != 0) {
		words++;
	}
	return *words;
}

enum reach { REACH_ALL, REACH_LOOPBACK, REACH_NOWHERE };

static enum reach reach_of(const char *host)
{
	static const char *const own_names[] = { "localhost", "localhost.localdomain",
		"ip6-localhost", NULL };
	struct in_addr ipv4;
	struct in6_addr ipv6;
	if (inet_pton(AF_INET, host, &ipv4) == 1) {
		uint32_t address = ntohl(ipv4.s_addr);
		return address == INADDR_ANY              ? REACH_NOWHERE
			: address >> 24 == IN_LOOPBACKNET ? REACH_LOOPBACK
							  : REACH_ALL;
	}
	if (inet_pton(AF_INET6, host, &ipv6) == 1) {
		return IN6_IS_ADDR_UNSPECIFIED(&ipv6) ? REACH_NOWHERE
			: IN6_IS_ADDR_LOOPBACK(&ipv6) ? REACH_LOOPBACK
						      : REACH_ALL;
	}
	return is_one_of(host, own_names) ? REACH_LOOPBACK : REACH_ALL;
}

static int doubt_host(const char *host, bool others_read, struct err *err)
{
	/* The nothing of Python, Ruby, JavaScript and YAML, as their templates write it. */
	static const char *const nothing[] = { "", "None", "nil", "null", "undefined", "CHANGEME",
		NULL };
	if (is_one_of(host, nothing)) {
		return err_set(err, BERTH_FAILED,
			"the host is \"%s\": a template had no value for it", host);
	}
	switch (reach_of(host)) {
	case REACH_NOWHERE:
		return err_set(err, BERTH_FAILED,
			"%s is an address to listen at: no client can connect to it; write "
			"${berth.ip}",
			host);
	case REACH_LOOPBACK:
		return others_read ? err_set(err, BERTH_FAILED,
					     "%s is every client's own machine, and clients of "
					     "other machines read this registry; write ${berth.ip}",
					     host)
				   : 0;
	case REACH_ALL:
		break;
	}
	return 0;
}

static int doubt_uri(const char *uri, bool others_read, struct err *err)
{
	struct authority authority;
	char host[HOST_BYTES];
	if (!split_authority(uri, &authority)) {
		return 0;
	}
	if (authority.port && !is_port(authority.port, authority.port_len)) {
		return err_set(err, BERTH_FAILED, "the port \"%.*s\" is not a number from 1 to %d",
			(int)authority.port_len, authority.port, PORT_MAX);
	}
	/* file:///run/x names no host; http://:8080/ lacks one. */
	if (authority.host_len >= sizeof(host) || (authority.host_len == 0 && !authority.port)) {
		return 0;
	}
	memcpy(host, authority.host, authority.host_len);
	host[authority.host_len] = '\0';
	return doubt_host(host, others_read, err);
}

int config_doubt_address(const json_t *address, bool others_read, struct err *err)
{
	static const char *const keys[] = { "host", "hostname" };
	const char *uri = json_string_value(json_object_get(address, "uri"));
	if (uri) {
		return doubt_uri(uri, others_read, err);
	}
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *host = json_string_value(json_object_get(address, keys[i]));
		if (host) {
			return doubt_host(host, others_read, err);
		}
	}
	return 0;
}
