#include "lib/registry/url.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"

static const char dir_prefix[] = "dir:";
static const char host_prefix[] = "host:";
static const char zookeeper_prefix[] = "zookeeper://";
static const char tls_prefix[] = "zookeeper+tls://";
static const char allowed[] =
	"allowed are dir:/path, zookeeper://host:port,host:port/root (or zookeeper+tls://) and, in "
	"a container, host:/path";

enum { MAX_PORT = 65535, MAX_DISPLAY_BYTES = 16384 };

struct prefix {
	const char *text;
	enum registry_url_kind kind;
};

static const struct prefix prefixes[] = {
	{ dir_prefix, REGISTRY_URL_DIR },
	{ host_prefix, REGISTRY_URL_HOST },
	{ zookeeper_prefix, REGISTRY_URL_ZOOKEEPER },
	{ tls_prefix, REGISTRY_URL_ZOOKEEPER },
};

static const struct prefix *prefix_of(const char *text)
{
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		if (strncmp(text, prefixes[i].text, strlen(prefixes[i].text)) == 0) {
			return &prefixes[i];
		}
	}
	return NULL;
}

const char *registry_url_rest(const char *text, enum registry_url_kind *ret_kind)
{
	const struct prefix *prefix = prefix_of(text);
	if (!prefix) {
		return NULL;
	}
	*ret_kind = prefix->kind;
	return text + strlen(prefix->text);
}

static int copy(
	char *out, size_t size, const char *from, size_t len, const char *what, struct err *err)
{
	if (len >= size) {
		return err_set(err, BERTH_FAILED, "%s has %zu bytes; at most %zu are allowed", what,
			len, size - 1);
	}
	memcpy(out, from, len);
	out[len] = '\0';
	return 0;
}

static int parse_port(
	struct registry_url_server *server, const char *text, size_t len, struct err *err)
{
	unsigned port = 0;
	for (size_t i = 0; i < len && port <= MAX_PORT; i++) {
		if (text[i] < '0' || text[i] > '9') {
			port = MAX_PORT + 1;
		} else {
			port = port * 10 + (unsigned)(text[i] - '0');
		}
	}
	if (len == 0 || port == 0 || port > MAX_PORT) {
		return err_set(err, BERTH_FAILED, "port \"%.*s\": allowed are 1 to %d",
			len > 20 ? 20 : (int)len, text, MAX_PORT);
	}
	snprintf(server->port, sizeof(server->port), "%u", port);
	return 0;
}

static bool name_valid(const char *host)
{
	static const char name[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	return *host && host[strspn(host, name)] == '\0';
}

/* An address, or one with the number of its zone, such as fe80::1%2. */
static bool ipv6_valid(const char *host)
{
	char address[INET6_ADDRSTRLEN] = "";
	struct in6_addr parsed;
	size_t len = strcspn(host, "%");
	if (len >= sizeof(address)) {
		return false;
	}
	memcpy(address, host, len);
	const char *zone = host[len] ? host + len + 1 : "0";
	return inet_pton(AF_INET6, address, &parsed) == 1 && *zone &&
		zone[strspn(zone, "0123456789")] == '\0';
}

/* host, host:port, [address] or [address]:port. */
static int parse_server(
	struct registry_url_server *server, const char *text, size_t len, struct err *err)
{
	bool ipv6 = len > 0 && text[0] == '[';
	const char *host = text + (ipv6 ? 1 : 0);
	const char *end = memchr(text, ipv6 ? ']' : ':', len);
	if (ipv6 && !end) {
		return err_set(err, BERTH_FAILED, "an IPv6 address is not closed by ]");
	}
	size_t host_len = end ? (size_t)(end - host) : len;
	if (copy(server->host, sizeof(server->host), host, host_len, "a host name", err)) {
		return err->code;
	}
	if (ipv6 ? !ipv6_valid(server->host) : !name_valid(server->host)) {
		return err_set(err, BERTH_FAILED,
			"\"%s\" is not a host; allowed are names, IPv4 addresses and "
			"[IPv6 addresses]",
			server->host);
	}
	const char *port = end ? end + (ipv6 ? 1 : 0) : text + len;
	if (port == text + len) {
		strcpy(server->port, REGISTRY_URL_DEFAULT_PORT);
		return 0;
	}
	if (*port != ':') {
		return err_set(err, BERTH_FAILED, "behind ] only :port is allowed");
	}
	return parse_port(server, port + 1, (size_t)(text + len - port - 1), err);
}

/*
 * Text behind a comma that is a further server: h2:2181, or h2 with the same root behind it. A
 * root's element may look like that, but no server of ZooKeeper has a port below 1024.
 */
static bool is_further_server(const char *text, const char *root, size_t root_len)
{
	size_t len = strcspn(text, "/,");
	struct registry_url_server server;
	struct err ignored = ERR_INIT;
	bool same_root = strncmp(text + len, root, root_len) == 0 && text[len] &&
		(!text[len + root_len] || text[len + root_len] == ',');
	if (parse_server(&server, text, len, &ignored)) {
		return false;
	}
	bool has_port = len > strlen(server.port) && text[len - strlen(server.port) - 1] == ':';
	return same_root || (has_port && atoi(server.port) >= 1024);
}

/* Other programs write connect strings in forms that would be odd roots here. */
static int check_connect_string(const char *servers, const char *root, struct err *err)
{
	size_t root_len = strcspn(root, ",");
	const char *question = strchr(root, '?');
	if (question && strchr(question, '=')) {
		return err_set(err, BERTH_FAILED,
			"\"%s\": a registry URL has no parameters; `session_timeout`, `auth` and "
			"others are keys of [registry]",
			question);
	}
	for (const char *comma = root + root_len; *comma; comma += 1 + strcspn(comma + 1, ",")) {
		if (is_further_server(comma + 1, root, root_len)) {
			return err_set(err, BERTH_FAILED,
				"the root belongs behind the last server alone: %.*s,%.*s%.*s",
				(int)(root - servers), servers, (int)strcspn(comma + 1, "/,"),
				comma + 1, (int)root_len, root);
		}
	}
	return 0;
}

static int parse_root(struct registry_url *url, const char *root, struct err *err)
{
	if (!*root) {
		root = REGISTRY_URL_DEFAULT_ROOT;
	}
	if (path_root_check(root, strlen(root), err)) {
		return err->code;
	}
	return copy(url->path, sizeof(url->path), root, strlen(root), "the root", err);
}

int registry_url_parse_servers(struct registry_url *ret_url, const char *rest, struct err *err)
{
	struct registry_url url = { .kind = REGISTRY_URL_ZOOKEEPER };
	size_t servers_len = strcspn(rest, "/");
	if (memchr(rest, '@', servers_len)) {
		return err_set(err, BERTH_FAILED,
			"a registry URL holds no user or password; they belong in auth_file");
	}
	const char *end = rest + servers_len;
	for (const char *server = rest; server <= end;) {
		const char *comma = memchr(server, ',', (size_t)(end - server));
		size_t len = (size_t)((comma ? comma : end) - server);
		if (url.servers_count == REGISTRY_URL_MAX_SERVERS) {
			return err_set(err, BERTH_FAILED, "at most %d servers are allowed",
				REGISTRY_URL_MAX_SERVERS);
		}
		if (parse_server(&url.servers[url.servers_count], server, len, err)) {
			return err->code;
		}
		url.servers_count++;
		server += len + 1;
	}
	if (check_connect_string(rest, end, err) || parse_root(&url, end, err)) {
		return err->code;
	}
	*ret_url = url;
	return 0;
}

static int parse_directory(struct registry_url *ret_url, const struct prefix *prefix,
	const char *path, struct err *err)
{
	struct registry_url url = { .kind = prefix->kind };
	if (path[0] != '/') {
		return err_set(err, BERTH_FAILED,
			"\"%s\" is not an absolute path; allowed is %s/path", path, prefix->text);
	}
	if (copy(url.path, sizeof(url.path), path, strlen(path), "the directory", err)) {
		return err->code;
	}
	*ret_url = url;
	return 0;
}

/* The URL as it may be shown; anything before an @ might be a secret. */
static char *masked(const char *text)
{
	const char *authority = strstr(text, "://");
	authority = authority ? authority + 3 : text;
	const char *at = strrchr(authority, '@');
	char *shown = NULL;
	int len = at ? asprintf(&shown, "%.*s***%s", (int)(authority - text), text, at)
		     : asprintf(&shown, "%s", text);
	return len < 0 ? NULL : shown;
}

static int parse(struct registry_url *ret_url, const char *text, struct err *err)
{
	const struct prefix *prefix = prefix_of(text);
	if (!prefix) {
		return err_set(err, BERTH_FAILED, "%s", allowed);
	}
	const char *rest = text + strlen(prefix->text);
	switch (prefix->kind) {
	case REGISTRY_URL_DIR:
	case REGISTRY_URL_HOST:
		return parse_directory(ret_url, prefix, rest, err);
	case REGISTRY_URL_ZOOKEEPER:
		break;
	}
	if (registry_url_parse_servers(ret_url, rest, err)) {
		return err->code;
	}
	ret_url->tls = prefix->text == tls_prefix;
	return 0;
}

int registry_url_parse(struct registry_url *ret_url, const char *text, struct err *err)
{
	if (parse(ret_url, text, err)) {
		char *shown = masked(text);
		err_wrap(err, "registry URL \"%s\"", shown ? shown : "");
		free(shown);
		return err->code;
	}
	return 0;
}

static void show_servers(struct buffer *out, const struct registry_url *url)
{
	buffer_append_text(out, url->tls ? tls_prefix : zookeeper_prefix);
	for (size_t i = 0; i < url->servers_count; i++) {
		const struct registry_url_server *server = &url->servers[i];
		bool ipv6 = strchr(server->host, ':') != NULL;
		buffer_printf(out, "%s%s%s%s:%s", i ? "," : "", ipv6 ? "[" : "", server->host,
			ipv6 ? "]" : "", server->port);
	}
	buffer_append_text(out, url->path);
}

char *registry_url_display(const char *text)
{
	struct registry_url url;
	struct err err = ERR_INIT;
	if (registry_url_parse(&url, text, &err)) {
		return masked(text);
	}
	switch (url.kind) {
	case REGISTRY_URL_DIR:
	case REGISTRY_URL_HOST:
		/*
		 * A path may hold an @; only a path that looks like an authority may hold a
		 * secret.
		 */
		return strncmp(url.path, "//", 2) == 0 ? masked(text) : strdup(text);
	case REGISTRY_URL_ZOOKEEPER:
		break;
	}
	struct buffer out;
	buffer_init(&out, MAX_DISPLAY_BYTES);
	show_servers(&out, &url);
	char *shown = buffer_take(&out, NULL);
	buffer_finish(&out);
	return shown;
}
