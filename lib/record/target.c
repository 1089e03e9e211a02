#include "lib/record/target.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"

#define HOST_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
#define ADDRESS_BYTES "0123456789abcdefABCDEF:."
#define SCHEME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.:"

static bool read_host(struct record_target *target, const char *host, size_t len, bool bracketed)
{
	if (len == 0 || len >= sizeof(target->host)) {
		return false;
	}
	memcpy(target->host, host, len);
	target->host[len] = '\0';
	/*
	 * In the other address types an IPv6 address needs no brackets, and a colon gives it away.
	 */
	bool is_ipv6 = bracketed || strchr(target->host, ':');
	return strspn(target->host, is_ipv6 ? ADDRESS_BYTES : HOST_BYTES) == len;
}

/* An absent or empty port counts as no port; anything but 1 to 65535 is a mistake. */
static bool read_port(struct record_target *target, const char *port, size_t len)
{
	unsigned number = 0;
	if (len > 5) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		if (port[i] < '0' || port[i] > '9') {
			return false;
		}
		number = 10 * number + (unsigned)(port[i] - '0');
	}
	if (number > UINT16_MAX || (len > 0 && number == 0)) {
		return false;
	}
	target->port = (uint16_t)number;
	return true;
}

static uint16_t default_port(const char *uri, size_t scheme_len)
{
	static const struct {
		const char *scheme;
		uint16_t port;
	} ports[] = { { "http", 80 }, { "https", 443 }, { "ws", 80 }, { "wss", 443 } };
	for (size_t i = 0; i < ARRAY_LEN(ports); i++) {
		if (strlen(ports[i].scheme) == scheme_len &&
			strncasecmp(uri, ports[i].scheme, scheme_len) == 0) {
			return ports[i].port;
		}
	}
	return 0;
}

bool record_target_read_uri(struct record_target *ret_target, const char *uri)
{
	size_t scheme_len = strspn(uri, SCHEME_BYTES);
	/* The colon before the slashes is a byte that a scheme such as jdbc:mysql may hold, too. */
	if (scheme_len < 2 || uri[scheme_len - 1] != ':' ||
		strncmp(uri + scheme_len, "//", 2) != 0) {
		return false;
	}
	const char *authority = uri + scheme_len + 2;
	size_t len = strcspn(authority, "/?#");
	const char *at = memrchr(authority, '@', len);
	const char *host = at ? at + 1 : authority;
	len -= (size_t)(host - authority);
	bool bracketed = host[0] == '[';
	const char *end = bracketed ? memchr(host, ']', len) : memchr(host, ':', len);
	if (bracketed && !end) {
		return false;
	}
	size_t host_len = end ? (size_t)(end - host) : len;
	const char *rest = host + host_len + (bracketed ? 1 : 0);
	size_t rest_len = len - (size_t)(rest - host);
	if (rest_len > 0 && rest[0] != ':') {
		return false;
	}
	struct record_target target = { 0 };
	if (!read_host(&target, host + (bracketed ? 1 : 0), host_len - (bracketed ? 1 : 0),
		    bracketed) ||
		!read_port(&target, rest + 1, rest_len > 0 ? rest_len - 1 : 0)) {
		return false;
	}
	target.port = target.port ? target.port : default_port(uri, scheme_len - 1);
	*ret_target = target;
	return true;
}

bool record_target_read(
	struct record_target *ret_target, const char *address_type, const json_t *address)
{
	static const char *const host_keys[] = { "hostname", "host" };
	if (strcmp(address_type, "uri") == 0) {
		const char *uri = json_string_value(json_object_get(address, "uri"));
		return uri && record_target_read_uri(ret_target, uri);
	}
	if (strncmp(address_type, "x-", 2) == 0) {
		return false; /* only its users know what its keys mean */
	}
	const char *port = json_string_value(json_object_get(address, "port"));
	struct record_target target = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(host_keys); i++) {
		const char *host = json_string_value(json_object_get(address, host_keys[i]));
		if (host && read_host(&target, host, strlen(host), false) &&
			read_port(&target, port ? port : "", port ? strlen(port) : 0)) {
			*ret_target = target;
			return true;
		}
	}
	return false;
}
