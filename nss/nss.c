/*
 * libnss_berth.so.2: host names from the agent for every program that asks glibc, with a line
 * `hosts: files berth dns` in nsswitch.conf.
 *
 * glibc loads this into any process, so it keeps next to nothing between calls, blocks signals
 * while it talks to the agent, leaves errno alone on success, and never waits long. The structures
 * that it fills live in the caller's buffer; when that is too small glibc comes back with a larger
 * one.
 */
#include <errno.h>
#include <netdb.h>
#include <nss.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nss/query.h"

#define EXPORT __attribute__((visibility("default")))

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names that glibc gives */

/* glibc's <nss.h> has these types, but no prototypes of the functions that a module defines. */
EXPORT enum nss_status _nss_berth_gethostbyname4_r(const char *name, struct gaih_addrtuple **pat,
	char *buffer, size_t size, int *ret_errno, int *ret_h_errno, int32_t *ret_ttl);
EXPORT enum nss_status _nss_berth_gethostbyname3_r(const char *name, int family,
	struct hostent *host, char *buffer, size_t size, int *ret_errno, int *ret_h_errno,
	int32_t *ret_ttl, char **ret_canonical);
EXPORT enum nss_status _nss_berth_gethostbyname2_r(const char *name, int family,
	struct hostent *host, char *buffer, size_t size, int *ret_errno, int *ret_h_errno);
EXPORT enum nss_status _nss_berth_gethostbyname_r(const char *name, struct hostent *host,
	char *buffer, size_t size, int *ret_errno, int *ret_h_errno);
EXPORT enum nss_status _nss_berth_gethostbyaddr2_r(const void *address, socklen_t len, int family,
	struct hostent *host, char *buffer, size_t size, int *ret_errno, int *ret_h_errno,
	int32_t *ret_ttl);
EXPORT enum nss_status _nss_berth_gethostbyaddr_r(const void *address, socklen_t len, int family,
	struct hostent *host, char *buffer, size_t size, int *ret_errno, int *ret_h_errno);

/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- the caller's process is left as it was ---- */

struct guard {
	sigset_t signals;
	int cancel_state;
	int error;
};

static void enter(struct guard *guard)
{
	sigset_t all;
	guard->error = errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &guard->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard->cancel_state);
}

static void leave(const struct guard *guard)
{
	pthread_setcancelstate(guard->cancel_state, NULL);
	pthread_sigmask(SIG_SETMASK, &guard->signals, NULL);
	errno = guard->error;
}

/* ---- outcomes ---- */

static enum nss_status fail(
	enum nss_status status, int error, int h_error, int *ret_errno, int *ret_h_errno)
{
	*ret_errno = error;
	*ret_h_errno = h_error;
	return status;
}

static enum nss_status too_small(int *ret_errno, int *ret_h_errno)
{
	return fail(NSS_STATUS_TRYAGAIN, ERANGE, NETDB_INTERNAL, ret_errno, ret_h_errno);
}

/* For everything but FOUND. */
static enum nss_status outcome(enum nss_query_status status, int *ret_errno, int *ret_h_errno)
{
	switch (status) {
	case NSS_QUERY_LATER:
		return fail(NSS_STATUS_TRYAGAIN, EAGAIN, TRY_AGAIN, ret_errno, ret_h_errno);
	case NSS_QUERY_NO_AGENT:
		return fail(NSS_STATUS_UNAVAIL, ECONNREFUSED, NO_RECOVERY, ret_errno, ret_h_errno);
	default:
		return fail(NSS_STATUS_NOTFOUND, ENOENT, HOST_NOT_FOUND, ret_errno, ret_h_errno);
	}
}

/* ---- questions ---- */

static void add_found(struct nss_answer *answer, const struct addrinfo *found)
{
	if (answer->count == NSS_MAX_ADDRESSES) {
		return;
	}
	struct nss_address *address = &answer->addresses[answer->count++];
	const void *socket_address = found->ai_addr;
	address->family = found->ai_family;
	if (found->ai_family == AF_INET) {
		address->bytes.ipv4 = ((const struct sockaddr_in *)socket_address)->sin_addr;
	} else {
		address->bytes.ipv6 = ((const struct sockaddr_in6 *)socket_address)->sin6_addr;
	}
}

/* A component that gave a host name instead of an address: that name is for the other sources. */
static void resolve_alias(struct nss_answer *answer)
{
	static __thread bool resolving; /* an alias of an alias is followed no further */
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	if (resolving) {
		return;
	}
	resolving = true;
	if (getaddrinfo(answer->name, NULL, &hints, &found) == 0) {
		for (const struct addrinfo *at = found; at; at = at->ai_next) {
			add_found(answer, at);
		}
		freeaddrinfo(found);
	}
	resolving = false;
}

static enum nss_query_status query_name(struct nss_answer *answer, const char *name)
{
	struct guard guard;
	enum nss_query_status status;
	bool remembered = nss_query_remembered(answer, name, &status);
	/* Without a system call there is nothing to guard. */
	if (remembered && (status != NSS_QUERY_FOUND || answer->count > 0 || !answer->name[0])) {
		return status;
	}
	enter(&guard);
	status = remembered ? status : nss_query_name(answer, name);
	if (status == NSS_QUERY_FOUND && answer->count == 0 && answer->name[0]) {
		resolve_alias(answer);
	}
	leave(&guard);
	return status;
}

/* ---- memory of the caller ---- */

struct arena {
	char *at;
	size_t left;
};

/* NULL when the caller's buffer is too small. */
static void *take(struct arena *arena, size_t len, size_t alignment)
{
	size_t skip = (alignment - (uintptr_t)arena->at % alignment) % alignment;
	if (arena->left < skip || arena->left - skip < len) {
		return NULL;
	}
	char *taken = arena->at + skip;
	arena->at = taken + len;
	arena->left -= skip + len;
	return taken;
}

static char *take_text(struct arena *arena, const char *text)
{
	char *copy = take(arena, strlen(text) + 1, 1);
	return copy ? strcpy(copy, text) : NULL;
}

/* ---- forward ---- */

static size_t address_size(int family)
{
	return family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);
}

enum nss_status _nss_berth_gethostbyname4_r(const char *name, struct gaih_addrtuple **pat,
	char *buffer, size_t size, int *ret_errno, int *ret_h_errno, int32_t *ret_ttl)
{
	struct nss_answer answer;
	enum nss_query_status status = query_name(&answer, name);
	if (status != NSS_QUERY_FOUND) {
		return outcome(status, ret_errno, ret_h_errno);
	}
	if (answer.count == 0) {
		return fail(NSS_STATUS_NOTFOUND, ENOENT, NO_DATA, ret_errno, ret_h_errno);
	}
	struct arena arena = { buffer, size };
	char *canonical = take_text(&arena, name);
	struct gaih_addrtuple *tuples = take(
		&arena, answer.count * sizeof(*tuples), _Alignof(struct gaih_addrtuple));
	if (!canonical || !tuples) {
		return too_small(ret_errno, ret_h_errno);
	}
	memset(tuples, 0, answer.count * sizeof(*tuples));
	for (size_t i = 0; i < answer.count; i++) {
		tuples[i].name = canonical;
		tuples[i].family = answer.addresses[i].family;
		memcpy(tuples[i].addr, &answer.addresses[i].bytes,
			address_size(answer.addresses[i].family));
		tuples[i].next = i + 1 < answer.count ? &tuples[i + 1] : NULL;
	}
	/* The caller may bring the first tuple itself, and then keeps its place. */
	if (*pat) {
		**pat = tuples[0];
	} else {
		*pat = tuples;
	}
	if (ret_ttl) {
		*ret_ttl = 0;
	}
	*ret_h_errno = NETDB_SUCCESS;
	return NSS_STATUS_SUCCESS;
}

/* A hostent of the answer's addresses of one family. */
static bool fill_host(struct hostent *host, struct arena *arena, const char *name, int family,
	const struct nss_answer *answer)
{
	char *own_name = take_text(arena, name);
	char **aliases = take(arena, sizeof(char *), _Alignof(char *));
	char **list = take(arena, (answer->count + 1) * sizeof(char *), _Alignof(char *));
	if (!own_name || !aliases || !list) {
		return false;
	}
	size_t count = 0;
	for (size_t i = 0; i < answer->count; i++) {
		if (answer->addresses[i].family != family) {
			continue;
		}
		char *bytes = take(arena, address_size(family), _Alignof(struct in6_addr));
		if (!bytes) {
			return false;
		}
		list[count++] = memcpy(bytes, &answer->addresses[i].bytes, address_size(family));
	}
	list[count] = NULL;
	aliases[0] = NULL;
	*host = (struct hostent){ .h_name = own_name,
		.h_aliases = aliases,
		.h_addrtype = family,
		.h_length = (int)address_size(family),
		.h_addr_list = list };
	return true;
}

enum nss_status _nss_berth_gethostbyname3_r(const char *name, int family, struct hostent *host,
	char *buffer, size_t size, int *ret_errno, int *ret_h_errno, int32_t *ret_ttl,
	char **ret_canonical)
{
	struct nss_answer answer;
	family = family == AF_UNSPEC ? AF_INET : family;
	if (family != AF_INET && family != AF_INET6) {
		return fail(NSS_STATUS_UNAVAIL, EAFNOSUPPORT, NO_DATA, ret_errno, ret_h_errno);
	}
	enum nss_query_status status = query_name(&answer, name);
	if (status != NSS_QUERY_FOUND) {
		return outcome(status, ret_errno, ret_h_errno);
	}
	struct arena arena = { buffer, size };
	if (!fill_host(host, &arena, name, family, &answer)) {
		return too_small(ret_errno, ret_h_errno);
	}
	if (!host->h_addr_list[0]) {
		return fail(NSS_STATUS_NOTFOUND, ENOENT, NO_DATA, ret_errno, ret_h_errno);
	}
	if (ret_ttl) {
		*ret_ttl = 0;
	}
	if (ret_canonical) {
		*ret_canonical = host->h_name;
	}
	*ret_h_errno = NETDB_SUCCESS;
	return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_berth_gethostbyname2_r(const char *name, int family, struct hostent *host,
	char *buffer, size_t size, int *ret_errno, int *ret_h_errno)
{
	return _nss_berth_gethostbyname3_r(
		name, family, host, buffer, size, ret_errno, ret_h_errno, NULL, NULL);
}

enum nss_status _nss_berth_gethostbyname_r(const char *name, struct hostent *host, char *buffer,
	size_t size, int *ret_errno, int *ret_h_errno)
{
	return _nss_berth_gethostbyname2_r(
		name, AF_INET, host, buffer, size, ret_errno, ret_h_errno);
}

/* ---- backward ---- */

enum nss_status _nss_berth_gethostbyaddr2_r(const void *address, socklen_t len, int family,
	struct hostent *host, char *buffer, size_t size, int *ret_errno, int *ret_h_errno,
	int32_t *ret_ttl)
{
	struct nss_answer answer;
	struct guard guard;
	if ((family != AF_INET && family != AF_INET6) || len != address_size(family)) {
		return fail(NSS_STATUS_UNAVAIL, EAFNOSUPPORT, NO_DATA, ret_errno, ret_h_errno);
	}
	enter(&guard);
	enum nss_query_status status = nss_query_address(&answer, family, address);
	leave(&guard);
	if (status != NSS_QUERY_FOUND || !answer.name[0]) {
		return outcome(status == NSS_QUERY_FOUND ? NSS_QUERY_ABSENT : status, ret_errno,
			ret_h_errno);
	}
	answer.count = 1;
	answer.addresses[0].family = family;
	memcpy(&answer.addresses[0].bytes, address, len);
	struct arena arena = { buffer, size };
	if (!fill_host(host, &arena, answer.name, family, &answer)) {
		return too_small(ret_errno, ret_h_errno);
	}
	if (ret_ttl) {
		*ret_ttl = 0;
	}
	*ret_h_errno = NETDB_SUCCESS;
	return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_berth_gethostbyaddr_r(const void *address, socklen_t len, int family,
	struct hostent *host, char *buffer, size_t size, int *ret_errno, int *ret_h_errno)
{
	return _nss_berth_gethostbyaddr2_r(
		address, len, family, host, buffer, size, ret_errno, ret_h_errno, NULL);
}
