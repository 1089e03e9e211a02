/* Looks up the names of the servers, in random order. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/random_bytes.h"
#include "lib/registry/zookeeper/worker/worker.h"

enum { SERVERS_MAX = 64 };

/*
 * One address as the client library reads it: "127.0.0.1:2181" or "::1:2181", without brackets,
 * because the library takes all before the last colon for the host.
 */
struct server {
	char text[NI_MAXHOST + 16];
};

struct servers {
	struct server list[SERVERS_MAX];
	size_t count;
};

static void add(struct servers *servers, const struct addrinfo *address)
{
	char host[NI_MAXHOST];
	char port[16];
	if (servers->count == SERVERS_MAX ||
		getnameinfo(address->ai_addr, address->ai_addrlen, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV)) {
		return;
	}
	struct server *server = &servers->list[servers->count];
	snprintf(server->text, sizeof(server->text), "%s:%s", host, port);
	for (size_t i = 0; i < servers->count; i++) {
		if (strcmp(servers->list[i].text, server->text) == 0) {
			return;
		}
	}
	servers->count++;
}

/* "[::1]:2181" is cut in place into host and port. */
static void split(char *server, char **ret_host, char **ret_port)
{
	*ret_port = strrchr(server, ':');
	*(*ret_port)++ = '\0';
	*ret_host = server;
	size_t len = strlen(server);
	if (server[0] == '[' && server[len - 1] == ']') {
		server[len - 1] = '\0';
		(*ret_host)++;
	}
}

static void resolve_one(struct servers *servers, char *server, struct err *err)
{
	char *host;
	char *port;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	split(server, &host, &port);
	int rc = getaddrinfo(host, port, &hints, &found);
	if (rc != 0) {
		err_set(err, BERTH_REGISTRY_UNAVAILABLE, "cannot resolve '%s': %s", host,
			gai_strerror(rc));
		return;
	}
	for (struct addrinfo *address = found; address; address = address->ai_next) {
		add(servers, address);
	}
	freeaddrinfo(found);
}

static void shuffle(struct servers *servers)
{
	for (size_t left = servers->count; left > 1; left--) {
		unsigned random;
		(void)random_bytes(&random, sizeof(random));
		struct server last = servers->list[left - 1];
		servers->list[left - 1] = servers->list[random % left];
		servers->list[random % left] = last;
	}
}

int zk_worker_resolve(struct buffer *out, const char *servers, struct err *err)
{
	struct servers found = { .count = 0 };
	struct err first = ERR_INIT;
	char *copy = strdup(servers);
	if (!copy) {
		return err_set(err, BERTH_FAILED, "no memory");
	}
	char *rest = copy;
	for (char *server; (server = strsep(&rest, ","));) {
		resolve_one(&found, server, &first);
	}
	free(copy);
	if (found.count == 0) {
		*err = first;
		return first.code
			? first.code
			: err_set(err, BERTH_REGISTRY_UNAVAILABLE, "no server has an address");
	}
	shuffle(&found);
	for (size_t i = 0; i < found.count; i++) {
		buffer_printf(out, "%s%s", i ? "," : "", found.list[i].text);
	}
	return out->failed ? err_set(err, BERTH_FAILED, "no memory") : 0;
}
