/* Addresses of checks: host:port and http URLs. */
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/value.h"

enum { PORT_MAX = 65535 };

#define HOST_PORT_HELP "write host:port, like localhost:8080, 127.0.0.1:8080 or [::1]:8080"
#define HTTP_URL_HELP "write http://host:port/path or https://host:port/path"

/*
 * Letters of host names and of IPv4 and IPv6 addresses; whether such a host exists is seen when it
 * is used.
 */
static bool host_valid(const char *host, size_t len, bool bracketed)
{
	static const char name_bytes[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	static const char v6_bytes[] = "0123456789abcdefABCDEF:.%"
				       "ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ-_";
	const char *allowed = bracketed ? v6_bytes : name_bytes;
	return len > 0 && len <= 255 && strspn(host, allowed) >= len;
}

/* Splits `len` bytes of "host", "host:port" or "[v6]:port"; false for any other form. */
static bool split_authority(const char *text, size_t len, const char **ret_host,
	size_t *ret_host_len, const char **ret_port, size_t *ret_port_len)
{
	const char *end = text + len;
	bool bracketed = *text == '[';
	const char *host = bracketed ? text + 1 : text;
	const char *host_end = memchr(host, bracketed ? ']' : ':', (size_t)(end - host));
	if (!host_end) {
		if (bracketed) {
			return false;
		}
		host_end = end;
	}
	const char *rest = bracketed ? host_end + 1 : host_end;
	if (rest < end && *rest != ':') {
		return false;
	}
	*ret_host = host;
	*ret_host_len = (size_t)(host_end - host);
	*ret_port = rest < end ? rest + 1 : NULL;
	*ret_port_len = rest < end ? (size_t)(end - rest - 1) : 0;
	return host_valid(host, *ret_host_len, bracketed);
}

static bool port_valid(const char *port, size_t len, int min_port)
{
	int value = 0;
	for (size_t i = 0; i < len; i++) {
		if (port[i] < '0' || port[i] > '9' || i > 4) {
			return false;
		}
		value = value * 10 + (port[i] - '0');
	}
	return len > 0 && value >= min_port && value <= PORT_MAX;
}

int config_parse_host_port(
	const char *text, int min_port, char **ret_host, char **ret_port, struct err *err)
{
	const char *host;
	const char *port;
	size_t host_len;
	size_t port_len;
	if (strstr(text, "://")) {
		return err_set(err, BERTH_FAILED,
			"write host:port alone, without a scheme and a path: 127.0.0.1:80");
	}
	if (!split_authority(text, strlen(text), &host, &host_len, &port, &port_len) || !port) {
		return err_set(err, BERTH_FAILED, HOST_PORT_HELP);
	}
	if (!port_valid(port, port_len, min_port)) {
		return err_set(err, BERTH_FAILED, "the port must be a number from %d to %d",
			min_port, PORT_MAX);
	}
	*ret_host = allocate_bytes(host, host_len);
	*ret_port = allocate_bytes(port, port_len);
	return 0;
}

int config_parse_http_url(const char *text, char **ret_host, char **ret_port, char **ret_path,
	bool *ret_tls, struct err *err)
{
	static const char scheme[] = "http://";
	static const char tls_scheme[] = "https://";
	bool tls = strncasecmp(text, tls_scheme, sizeof(tls_scheme) - 1) == 0;
	if (!tls && strncasecmp(text, scheme, sizeof(scheme) - 1) != 0) {
		return err_set(err, BERTH_FAILED, HTTP_URL_HELP);
	}
	if (strncasecmp(text, "https://unix:", 13) == 0) {
		return err_set(err, BERTH_FAILED,
			"a Unix socket is asked without TLS: write http://unix:/path:/uri");
	}
	const char *authority = text + (tls ? sizeof(tls_scheme) : sizeof(scheme)) - 1;
	size_t authority_len = strcspn(authority, "/?#");
	const char *path = authority + authority_len;
	if (memchr(authority, '@', authority_len)) {
		return err_set(err, BERTH_FAILED,
			"a user and password cannot be given here; " HTTP_URL_HELP);
	}
	const char *host;
	const char *port;
	size_t host_len;
	size_t port_len;
	if (!split_authority(authority, authority_len, &host, &host_len, &port, &port_len)) {
		return err_set(err, BERTH_FAILED, HTTP_URL_HELP);
	}
	if (port && !port_valid(port, port_len, 1)) {
		return err_set(
			err, BERTH_FAILED, "the port must be a number from 1 to %d", PORT_MAX);
	}
	if (strpbrk(path, " \t#")) {
		return err_set(
			err, BERTH_FAILED, "blanks and fragments cannot be sent; " HTTP_URL_HELP);
	}
	*ret_host = allocate_bytes(host, host_len);
	*ret_port = port ? allocate_bytes(port, port_len) : allocate_text(tls ? "443" : "80");
	*ret_path = allocate_format("%s%s", *path == '/' ? "" : "/", path);
	*ret_tls = tls;
	return 0;
}
