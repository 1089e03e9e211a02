/*
 * Registry URLs: zookeeper://h1:2181,h2:2181,[::1]:2181/registry, the same with zookeeper+tls://,
 * dir:/path, and host:/path, where the host's agent has mounted a container's directory.
 *
 * A URL holds no credentials (they belong in auth_file), so that it can be shown anywhere.
 */
#ifndef LIB_REGISTRY_URL_H
#define LIB_REGISTRY_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

#define REGISTRY_URL_MAX_SERVERS 32
/* In the directory of a host: URL: the host agent's socket, and the registry of the own records. */
#define REGISTRY_URL_HOST_SOCKET "berth.sock"
#define REGISTRY_URL_HOST_RECORDS "registry"
#define REGISTRY_URL_DEFAULT_PORT "2181"
#define REGISTRY_URL_DEFAULT_ROOT "/registry"

enum registry_url_kind { REGISTRY_URL_DIR, REGISTRY_URL_HOST, REGISTRY_URL_ZOOKEEPER };

#define REGISTRY_URL_KINDS (REGISTRY_URL_ZOOKEEPER + 1)

struct registry_url_server {
	char host[256]; /* a name or a numeric address; IPv6 without its brackets */
	char port[6];
};

struct registry_url {
	enum registry_url_kind kind;
	bool tls;
	struct registry_url_server servers[REGISTRY_URL_MAX_SERVERS];
	size_t servers_count;
	/*
	 * dir, host: the absolute directory. zookeeper: the registry's root node, "/" or "/a/B c".
	 */
	char path[1025];
};

/*
 * The text behind the prefix of a registry URL, and the kind; NULL when `text` is not a registry
 * URL.
 */
const char *registry_url_rest(const char *text, enum registry_url_kind *ret_kind);

/* 0, or FAILED with a message that quotes the URL without secrets and names the allowed forms. */
int registry_url_parse(struct registry_url *ret_url, const char *text, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/*
 * The same of what a backend's open() gets: h1:2181,[::1]:2181/registry, the URL behind
 * "zookeeper://".
 */
int registry_url_parse_servers(struct registry_url *ret_url, const char *rest, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/*
 * A canonical spelling for people, without secrets even when `text` is not a valid URL; malloc'ed,
 * NULL without memory.
 */
char *registry_url_display(const char *text);

#endif
