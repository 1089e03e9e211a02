/*
 * One question to the agent from inside any process that uses glibc: a connection, a request, an
 * answer, and everything given back. No threads and no descriptor that stays open; the only state
 * is for how long an agent that did not answer is left alone, and for a process that looks up often
 * the agent's shared map (memory.h), which answers without a connection.
 *
 * Only names below the domains of /etc/berth/nss-domains ("berth" without that file) are asked for,
 * and given for an address.
 */
#ifndef NSS_QUERY_H
#define NSS_QUERY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define NSS_NAME_BYTES 256
#define NSS_MAX_ADDRESSES 256 /* of one answer; a caller has no use for more */

enum nss_query_status {
	NSS_QUERY_FOUND,   /* the name exists; it may have nothing that was asked for */
	NSS_QUERY_ABSENT,  /* the name does not exist, or the agent does not know it */
	NSS_QUERY_LATER,   /* the agent cannot say now, or did not answer in time lately */
	NSS_QUERY_NO_AGENT /* no agent serves the socket, or this process must not ask */
};

struct nss_address {
	int family;
	union {
		struct in_addr ipv4;
		struct in6_addr ipv6;
	} bytes;
};

/* In the caller's memory. */
struct nss_answer {
	struct nss_address addresses[NSS_MAX_ADDRESSES];
	size_t count;
	/* the host name that was asked for or, for an address, that was found */
	char name[NSS_NAME_BYTES];
};

/*
 * True: the addresses of `name` are known without any system call, and *ret_status is FOUND or
 * ABSENT.
 */
bool nss_query_remembered(
	struct nss_answer *ret_answer, const char *name, enum nss_query_status *ret_status);

/* Asks for the addresses of `name`. */
enum nss_query_status nss_query_name(struct nss_answer *ret_answer, const char *name);

/* Asks for the name that has an address. */
enum nss_query_status nss_query_address(
	struct nss_answer *ret_answer, int family, const void *address);

#endif
