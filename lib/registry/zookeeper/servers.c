/* The order in which the servers are tried, and the time that each try has. */
#include "lib/registry/zookeeper/zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LEAST_TRY_MS = 1000,
	LEAST_LONG_TRY_MS = 3000,
	/* A server that is just starting may never answer, but answers the next connection. */
	LEAST_SHARES = 3
};

/* The list begins anew behind `comma`, and what was before it follows. */
static void begin_behind(char **addresses, const char *comma)
{
	char *moved;
	if (asprintf(&moved, "%s,%.*s", comma + 1, (int)(comma - *addresses), *addresses) >= 0) {
		free(*addresses);
		*addresses = moved;
	}
}

size_t registry_zk_servers_count(const char *addresses)
{
	size_t count = addresses && *addresses ? 1 : 0;
	for (const char *c = addresses; count && *c; c++) {
		count += *c == ',';
	}
	return count;
}

void registry_zk_servers_rotate(char **addresses)
{
	const char *comma = *addresses ? strchr(*addresses, ',') : NULL;
	if (comma) {
		begin_behind(addresses, comma);
	}
}

void registry_zk_servers_put_last(char **addresses, const char *server)
{
	size_t len = strlen(server);
	const char *item = *addresses;
	while (item) {
		const char *comma = strchr(item, ',');
		if (comma && (size_t)(comma - item) == len && memcmp(item, server, len) == 0) {
			begin_behind(addresses, comma);
			return;
		}
		item = comma ? comma + 1 : NULL;
	}
}

int64_t registry_zk_try_ms(int timeout_ms, size_t count, unsigned tries)
{
	int64_t longest_ms = 2 * (int64_t)timeout_ms / 3;
	longest_ms = longest_ms < LEAST_LONG_TRY_MS ? LEAST_LONG_TRY_MS : longest_ms;
	int64_t try_ms = timeout_ms / 2 / (int64_t)(count < LEAST_SHARES ? LEAST_SHARES : count);
	try_ms = try_ms < LEAST_TRY_MS ? LEAST_TRY_MS : try_ms;
	for (size_t passes = tries / (count ? count : 1); passes > 0 && try_ms < longest_ms;
		passes--) {
		try_ms *= 2;
	}
	return try_ms < longest_ms ? try_ms : longest_ms;
}
