#include "agent/dns/rate.h"

#include <netinet/in.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/hash.h"
#include "lib/base/random_bytes.h"

#define BUCKETS 1024
#define NETWORK_BYTES 8 /* of an IPv6 address */

/* It leaks DNS_RATE_BYTES a second. */
struct bucket {
	int64_t at_ms;
	int64_t bytes;
};

struct dns_rate {
	uint64_t seed;
	struct bucket buckets[BUCKETS];
};

struct dns_rate *dns_rate_create(void)
{
	struct dns_rate *rate = allocate_zeroed(1, sizeof(*rate));
	(void)random_bytes(&rate->seed, sizeof(rate->seed));
	return rate;
}

static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *ipv4 = (const void *)address;
	const struct sockaddr_in6 *ipv6 = (const void *)address;
	return address->ss_family == AF_INET6
		? IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr)
		: ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static struct bucket *bucket_of(struct dns_rate *rate, const struct sockaddr_storage *address)
{
	const struct sockaddr_in *ipv4 = (const void *)address;
	const struct sockaddr_in6 *ipv6 = (const void *)address;
	uint64_t hash = address->ss_family == AF_INET6
		? hash_bytes(rate->seed, &ipv6->sin6_addr, NETWORK_BYTES)
		: hash_bytes(rate->seed, &ipv4->sin_addr, sizeof(ipv4->sin_addr));
	return &rate->buckets[(hash ^ hash >> 32) % BUCKETS];
}

bool dns_rate_take(
	struct dns_rate *rate, const struct sockaddr_storage *address, size_t bytes, int64_t now_ms)
{
	if (bytes == 0 || is_loopback(address)) {
		return true;
	}
	struct bucket *bucket = bucket_of(rate, address);
	int64_t leaked = (now_ms - bucket->at_ms) * DNS_RATE_BYTES / 1000;
	bucket->bytes = bucket->bytes > leaked ? bucket->bytes - leaked : 0;
	bucket->at_ms = now_ms;
	if (bucket->bytes + (int64_t)bytes > DNS_RATE_BURST) {
		return false;
	}
	bucket->bytes += (int64_t)bytes;
	return true;
}
