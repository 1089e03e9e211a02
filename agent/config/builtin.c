#include "agent/config/builtin.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/config/container_id.h"
#include "lib/base/text.h"

enum { HOST_NAME_BYTES = 256 };

static const char interface_prefix[] = "berth.ip.";

static void get_host_name(char name[HOST_NAME_BYTES])
{
	if (gethostname(name, HOST_NAME_BYTES) != 0) {
		snprintf(name, HOST_NAME_BYTES, "localhost");
	}
	name[HOST_NAME_BYTES - 1] = '\0';
}

char *config_short_host_name(void)
{
	char name[HOST_NAME_BYTES];
	get_host_name(name);
	name[strcspn(name, ".")] = '\0';
	for (char *at = name; *at; at++) {
		*at = (char)tolower((unsigned char)*at);
	}
	return allocate_text(name);
}

static int find_host_name(const char *name, char **ret_value, struct err *err)
{
	(void)name;
	(void)err;
	char host_name[HOST_NAME_BYTES];
	get_host_name(host_name);
	*ret_value = allocate_text(host_name);
	return 0;
}

static int resolve_fqdn(const char *host_name, const char *name, char **ret_value, struct err *err)
{
	struct addrinfo hints = { .ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int why = getaddrinfo(host_name, NULL, &hints, &found);
	if (why) {
		return err_set(err, BERTH_FAILED, "${%s}: the host name %s cannot be resolved: %s",
			name, host_name, gai_strerror(why));
	}
	*ret_value = allocate_text(found->ai_canonname ? found->ai_canonname : host_name);
	freeaddrinfo(found);
	return 0;
}

/*
 * A host name with a domain is taken as it is; only a bare one costs a look into DNS, and only once
 * for a process: a reload must not make lookups wait for a resolver.
 */
static int find_fqdn(const char *name, char **ret_value, struct err *err)
{
	static char asked[HOST_NAME_BYTES];
	static char answer[NI_MAXHOST];
	char host_name[HOST_NAME_BYTES];
	get_host_name(host_name);
	if (strchr(host_name, '.')) {
		*ret_value = allocate_text(host_name);
		return 0;
	}
	if (strcmp(asked, host_name) == 0) {
		*ret_value = allocate_text(answer);
		return 0;
	}
	int code = resolve_fqdn(host_name, name, ret_value, err);
	if (code == 0) {
		text_printf(asked, sizeof(asked), "%s", host_name);
		text_printf(answer, sizeof(answer), "%s", *ret_value);
	}
	return code;
}

static bool is_global(const struct in6_addr *address)
{
	return !IN6_IS_ADDR_LOOPBACK(address) && !IN6_IS_ADDR_LINKLOCAL(address) &&
		!IN6_IS_ADDR_UNSPECIFIED(address);
}

/*
 * The text of an interface's address of this family; false for another family, or an interface that
 * is down.
 */
static bool address_text(const struct ifaddrs *interface, int family, char text[INET6_ADDRSTRLEN])
{
	if (!interface->ifa_addr || interface->ifa_addr->sa_family != family ||
		!(interface->ifa_flags & IFF_UP)) {
		return false;
	}
	if (family == AF_INET) {
		struct sockaddr_in ipv4;
		memcpy(&ipv4, interface->ifa_addr, sizeof(ipv4));
		return inet_ntop(family, &ipv4.sin_addr, text, INET6_ADDRSTRLEN);
	}
	struct sockaddr_in6 ipv6;
	memcpy(&ipv6, interface->ifa_addr, sizeof(ipv6));
	return is_global(&ipv6.sin6_addr) &&
		inet_ntop(family, &ipv6.sin6_addr, text, INET6_ADDRSTRLEN);
}

/* `name` NULL: the first interface other than loopback. */
static char *find_address(int family, const char *name)
{
	struct ifaddrs *interfaces;
	if (getifaddrs(&interfaces) != 0) {
		return NULL;
	}
	char *found = NULL;
	for (const struct ifaddrs *at = interfaces; at && !found; at = at->ifa_next) {
		char text[INET6_ADDRSTRLEN];
		bool wanted = name ? strcmp(at->ifa_name, name) == 0
				   : !(at->ifa_flags & IFF_LOOPBACK);
		if (wanted && address_text(at, family, text)) {
			found = allocate_text(text);
		}
	}
	freeifaddrs(interfaces);
	return found;
}

static int find_ip(const char *name, char **ret_value, struct err *err)
{
	bool ipv6 = strcmp(name, "berth.ip6") == 0;
	char *found = find_address(ipv6 ? AF_INET6 : AF_INET, NULL);
	if (!found) {
		return err_set(err, BERTH_FAILED,
			"${%s}: no interface is up with an %s address, other than loopback", name,
			ipv6 ? "IPv6" : "IPv4");
	}
	*ret_value = found;
	return 0;
}

static int find_interface_ip(const char *name, char **ret_value, struct err *err)
{
	const char *interface = name + strlen(interface_prefix);
	char *found = find_address(AF_INET, interface);
	if (!found) {
		return err_set(err, BERTH_FAILED,
			"${%s}: there is no interface %s that is up with an IPv4 address", name,
			interface);
	}
	*ret_value = found;
	return 0;
}

static char *container_id_in(const char *path, char *(*find)(const char *text))
{
	FILE *stream = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	char *found = NULL;
	/* Neither file can hold a NUL byte: this reads all of it. */
	if (stream && getdelim(&text, &size, '\0', stream) > 0) {
		found = find(text);
	}
	free(text);
	if (stream) {
		fclose(stream);
	}
	return found;
}

/* A variable that an operator sets goes before a guess: on YARN a Docker container has both. */
static int find_container_id(const char *name, char **ret_value, struct err *err)
{
	const char *given = getenv("CONTAINER_ID");
	char *found = given && *given
		? allocate_text(given)
		: container_id_in("/proc/self/cgroup", container_id_of_cgroup);
	if (!found) {
		found = container_id_in("/proc/self/mountinfo", container_id_of_mounts);
	}
	if (!found) {
		return err_set(err, BERTH_FAILED,
			"${%s}: neither $CONTAINER_ID nor /proc/self/cgroup nor "
			"/proc/self/mountinfo tells a container's id; set CONTAINER_ID",
			name);
	}
	*ret_value = found;
	return 0;
}

static const struct {
	const char *name;
	const char *variable; /* for a shell */
	int (*find)(const char *name, char **ret_value, struct err *err);
	bool slow; /* may ask the resolver */
} builtins[] = {
	{ "berth.hostname", "BERTH_HOSTNAME", find_host_name, false },
	{ "berth.fqdn", "BERTH_FQDN", find_fqdn, true },
	{ "berth.ip", "BERTH_IP", find_ip, false },
	{ "berth.ip6", "BERTH_IP6", find_ip, false },
	{ "berth.container_id", "BERTH_CONTAINER_ID", find_container_id, false },
};

static int find_nothing(const char *name, char **ret_value, struct err *err)
{
	(void)ret_value;
	return err_set(err, BERTH_FAILED,
		"${%s} is not known; there are ${berth.hostname}, ${berth.fqdn}, ${berth.ip}, "
		"${berth.ip6}, ${berth.ip.INTERFACE} and ${berth.container_id}",
		name);
}

static int (*finder_of(const char *name))(const char *name, char **ret_value, struct err *err)
{
	for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++) {
		if (strcmp(name, builtins[i].name) == 0) {
			return builtins[i].find;
		}
	}
	size_t prefix_len = strlen(interface_prefix);
	bool interface = strncmp(name, interface_prefix, prefix_len) == 0 && name[prefix_len];
	return interface ? find_interface_ip : find_nothing;
}

int config_builtin(const char *name, char **ret_value, struct err *err)
{
	return finder_of(name)(name, ret_value, err);
}

bool config_builtin_known(const char *name)
{
	return finder_of(name) != find_nothing;
}

static void each_interface(
	void (*take)(void *context, const char *variable, const char *value), void *context)
{
	struct ifaddrs *interfaces;
	if (getifaddrs(&interfaces) != 0) {
		return;
	}
	for (const struct ifaddrs *at = interfaces; at; at = at->ifa_next) {
		char text[INET6_ADDRSTRLEN];
		char variable[IF_NAMESIZE + sizeof("BERTH_IP_")];
		if (address_text(at, AF_INET, text)) {
			text_printf(variable, sizeof(variable), "BERTH_IP_%s", at->ifa_name);
			for (char *c = variable; *c; c++) {
				*c = isalnum((unsigned char)*c) ? *c : '_';
			}
			take(context, variable, text);
		}
	}
	freeifaddrs(interfaces);
}

void config_builtin_each(const char *text,
	void (*take)(void *context, const char *variable, const char *value), void *context)
{
	for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++) {
		struct err unused = ERR_INIT;
		char *value = NULL;
		if ((!builtins[i].slow || strstr(text, builtins[i].variable)) &&
			builtins[i].find(builtins[i].name, &value, &unused) == 0) {
			take(context, builtins[i].variable, value);
		}
		free(value);
	}
	each_interface(take, context);
}
