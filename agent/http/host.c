#include "agent/http/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

static bool is_ipv4(const char *text, size_t len)
{
	char address[INET_ADDRSTRLEN];
	struct in_addr bytes;
	if (len >= sizeof(address)) {
		return false;
	}
	memcpy(address, text, len);
	address[len] = '\0';
	return inet_pton(AF_INET, address, &bytes) == 1;
}

static bool is_name(const char *text, size_t len, const char *name)
{
	size_t name_len = strlen(name);
	name_len -= name_len > 1 && name[name_len - 1] == '.';
	len -= len > 1 && text[len - 1] == '.';
	return strcmp(name, "*") == 0 || (len == name_len && strncasecmp(text, name, len) == 0);
}

bool http_host_is_own(const char *host, size_t len, char *const *names, size_t count)
{
	if (len == 0 || host[0] == '[') {
		return true;
	}
	const char *colon = memchr(host, ':', len);
	len = colon ? (size_t)(colon - host) : len;
	bool is_own = is_ipv4(host, len);
	for (size_t i = 0; i < count && !is_own; i++) {
		is_own = is_name(host, len, names[i]);
	}
	return is_own;
}
