#include "agent/base/own_addresses.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/socket_address.h"
#include "lib/base/array.h"
#include "lib/base/text.h"

enum { V4_IN_V6 = 12 /* bytes before an address in its IPv6 form */ };

/* The flags of linux/if_addr.h, which has no place next to net/if.h. */
enum {
	ADDRESS_TEMPORARY = 0x01,
	ADDRESS_FAILED = 0x08, /* another machine has it */
	ADDRESS_DEPRECATED = 0x20,
	ADDRESS_TENTATIVE = 0x40,
	NOT_FOR_OTHERS = ADDRESS_TEMPORARY | ADDRESS_FAILED | ADDRESS_DEPRECATED | ADDRESS_TENTATIVE
};

/* ---- reading ---- */

static bool flags_of(int fd, const char *interface, short *ret_flags)
{
	struct ifreq request = { 0 };
	/* An address may have a label of its own, "eth0:1". */
	text_printf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	bool found = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
	*ret_flags = request.ifr_flags;
	return found;
}

static bool is_public(const void *bytes, sa_family_t family)
{
	if (family == AF_INET6) {
		struct in6_addr ipv6;
		memcpy(&ipv6, bytes, sizeof(ipv6));
		return !IN6_IS_ADDR_LOOPBACK(&ipv6) && !IN6_IS_ADDR_LINKLOCAL(&ipv6) &&
			!IN6_IS_ADDR_UNSPECIFIED(&ipv6) && !IN6_IS_ADDR_V4MAPPED(&ipv6);
	}
	const uint8_t *ipv4 = bytes;
	return ipv4[0] != 0 && ipv4[0] != IN_LOOPBACKNET && !(ipv4[0] == 169 && ipv4[1] == 254);
}

static void add(struct own_addresses *addresses, int fd, const char *interface, sa_family_t family,
	const void *bytes, unsigned flags)
{
	short interface_flags;
	struct own_address address = { .family = family };
	if (!flags_of(fd, interface, &interface_flags) || !(interface_flags & IFF_UP) ||
		!inet_ntop(family, bytes, address.text, sizeof(address.text))) {
		return;
	}
	text_printf(address.interface, sizeof(address.interface), "%s", interface);
	address.public = !(interface_flags & IFF_LOOPBACK) && is_public(bytes, family) &&
		!(flags & NOT_FOR_OTHERS);
	addresses->items = allocate_grow(
		addresses->items, addresses->count, sizeof(*addresses->items));
	addresses->items[addresses->count++] = address;
}

static void read_ipv4(struct own_addresses *addresses, int fd)
{
	struct ifconf list = { 0 };
	if (ioctl(fd, SIOCGIFCONF, &list) < 0) {
		return;
	}
	/* A few more may have come meanwhile. */
	list.ifc_len += 4 * (int)sizeof(struct ifreq);
	struct ifreq *items = allocate_zeroed(1, (size_t)list.ifc_len);
	list.ifc_req = items;
	size_t count = ioctl(fd, SIOCGIFCONF, &list) < 0
		? 0
		: (size_t)list.ifc_len / sizeof(struct ifreq);
	for (size_t i = 0; i < count; i++) {
		struct sockaddr_in ipv4;
		memcpy(&ipv4, &items[i].ifr_addr, sizeof(ipv4));
		if (ipv4.sin_family == AF_INET) {
			add(addresses, fd, items[i].ifr_name, AF_INET, &ipv4.sin_addr, 0);
		}
	}
	free(items);
}

static void read_ipv6(struct own_addresses *addresses, int fd)
{
	FILE *file = fopen("/proc/self/net/if_inet6", "re");
	char line[256];
	while (file && fgets(line, sizeof(line), file)) {
		struct in6_addr ipv6;
		char interface[IF_NAMESIZE];
		unsigned flags;
		int at = 0;
		while (at < (int)sizeof(ipv6) &&
			sscanf(line + 2 * at, "%2hhx", &ipv6.s6_addr[at]) == 1) {
			at++;
		}
		if (at == (int)sizeof(ipv6) &&
			sscanf(line + 2 * at, " %*x %*x %*x %x %15s", &flags, interface) == 2) {
			add(addresses, fd, interface, AF_INET6, &ipv6, flags);
		}
	}
	if (file) {
		fclose(file);
	}
}

void own_addresses_read(struct own_addresses *ret_addresses)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) { /* a kernel without IPv4 */
		fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	}
	*ret_addresses = (struct own_addresses){ 0 };
	if (fd >= 0) {
		read_ipv4(ret_addresses, fd);
		read_ipv6(ret_addresses, fd);
		close(fd);
	}
}

void own_addresses_finish(struct own_addresses *addresses)
{
	free(addresses->items);
	*addresses = (struct own_addresses){ 0 };
}

/* ---- choosing ---- */

static const struct own_address *find(
	const struct own_addresses *addresses, sa_family_t family, const char *text)
{
	for (size_t i = 0; i < addresses->count; i++) {
		const struct own_address *address = &addresses->items[i];
		if (address->family == family && strcmp(address->text, text) == 0) {
			return address;
		}
	}
	return NULL;
}

static const char *public_of(
	const struct own_addresses *addresses, sa_family_t family, const char *interface)
{
	for (size_t i = 0; i < addresses->count; i++) {
		const struct own_address *address = &addresses->items[i];
		if (address->public && address->family == family &&
			strcmp(address->interface, interface) == 0) {
			return address->text;
		}
	}
	return NULL;
}

static bool text_of(const struct sockaddr_storage *address, char text[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *ipv4 = (const void *)address;
	const struct sockaddr_in6 *ipv6 = (const void *)address;
	return inet_ntop(address->ss_family,
		address->ss_family == AF_INET6 ? (const void *)&ipv6->sin6_addr : &ipv4->sin_addr,
		text, INET6_ADDRSTRLEN);
}

/* The kernel may send from a passing address: then another one of that interface. */
static const char *of_route(
	const struct own_addresses *addresses, const struct sockaddr_storage *to)
{
	struct sockaddr_storage source;
	char text[INET6_ADDRSTRLEN];
	if (!socket_address_source(&source, to) || !text_of(&source, text)) {
		return NULL;
	}
	const struct own_address *address = find(addresses, to->ss_family, text);
	if (!address) {
		return NULL;
	}
	return address->public ? address->text
			       : public_of(addresses, to->ss_family, address->interface);
}

/* Names by which container engines and hypervisors call the networks within a machine. */
static bool is_inner(const char *interface)
{
	static const char *const beginnings[] = { "docker", "br-", "virbr", "lxcbr", "lxdbr",
		"podman", "cni", "veth", "cali", "flannel", "kube-", "nerdctl", "vmnet",
		"vboxnet" };
	for (size_t i = 0; i < ARRAY_LEN(beginnings); i++) {
		if (strncmp(interface, beginnings[i], strlen(beginnings[i])) == 0) {
			return true;
		}
	}
	return false;
}

static const char *first(const struct own_addresses *addresses, sa_family_t family)
{
	const char *inner = NULL;
	for (size_t i = 0; i < addresses->count; i++) {
		const struct own_address *address = &addresses->items[i];
		if (!address->public || address->family != family) {
			continue;
		}
		if (!is_inner(address->interface)) {
			return address->text;
		}
		inner = inner ? inner : address->text;
	}
	return inner;
}

const char *own_addresses_main(const struct own_addresses *addresses, sa_family_t family,
	const struct sockaddr_storage *servers, size_t server_count)
{
	/* Servers of the root of DNS: the default route leads there. */
	const char *far = family == AF_INET6 ? "[2001:503:ba3e::2:30]:53" : "198.41.0.4:53";
	struct sockaddr_storage to;
	socklen_t len;
	const char *found = NULL;
	for (size_t i = 0; i < server_count && !found; i++) {
		found = servers[i].ss_family == family ? of_route(addresses, &servers[i]) : NULL;
	}
	if (!found && socket_address_read(&to, &len, far)) {
		found = of_route(addresses, &to);
	}
	return found ? found : first(addresses, family);
}

const char *own_addresses_of(
	const struct own_addresses *addresses, sa_family_t family, const char *interface)
{
	const char *public = public_of(addresses, family, interface);
	for (size_t i = 0; i < addresses->count && !public; i++) {
		const struct own_address *address = &addresses->items[i];
		if (address->family == family && strcmp(address->interface, interface) == 0) {
			public = address->text;
		}
	}
	return public;
}

/* ---- what comes here ---- */

static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *ipv4 = (const void *)address;
	const struct sockaddr_in6 *ipv6 = (const void *)address;
	return address->ss_family == AF_INET6
		? IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr)
		: ntohl(ipv4->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
}

static bool is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a;
	const struct sockaddr_in *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a;
	const struct sockaddr_in6 *b6 = (const void *)b;
	return a->ss_family == b->ss_family &&
		(a->ss_family == AF_INET6 ? IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr)
					  : a4->sin_addr.s_addr == b4->sin_addr.s_addr);
}

static bool is_ours(const struct sockaddr_storage *address)
{
	struct own_addresses addresses;
	char text[INET6_ADDRSTRLEN];
	bool ours = text_of(address, text);
	own_addresses_read(&addresses);
	ours = ours && find(&addresses, address->ss_family, text);
	own_addresses_finish(&addresses);
	return ours;
}

/* Where a packet to this address goes. */
static struct sockaddr_storage destination(const struct sockaddr_storage *to)
{
	struct sockaddr_storage address = *to;
	struct sockaddr_in *ipv4 = (void *)&address;
	struct sockaddr_in6 *ipv6 = (void *)&address;
	if (address.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr)) {
		struct sockaddr_in mapped = { .sin_family = AF_INET, .sin_port = ipv6->sin6_port };
		memcpy(&mapped.sin_addr, ipv6->sin6_addr.s6_addr + V4_IN_V6,
			sizeof(mapped.sin_addr));
		address = (struct sockaddr_storage){ 0 };
		memcpy(&address, &mapped, sizeof(mapped));
	}
	if (!socket_address_is_wildcard(&address)) {
		return address;
	}
	if (address.ss_family == AF_INET6) {
		ipv6->sin6_addr = in6addr_loopback;
	} else {
		ipv4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	return address;
}

bool own_addresses_hear(const struct sockaddr_storage *to, const struct sockaddr_storage *listen)
{
	/* The ports of both families lie at the same place. */
	const struct sockaddr_storage target = destination(to);
	if (target.ss_family != listen->ss_family ||
		((const struct sockaddr_in *)(const void *)&target)->sin_port !=
			((const struct sockaddr_in *)(const void *)listen)->sin_port) {
		return false;
	}
	if (!socket_address_is_wildcard(listen)) {
		return is_same_host(&target, listen);
	}
	return is_loopback(&target) || is_ours(&target);
}
