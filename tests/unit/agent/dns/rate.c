/* An address gets so many bytes over UDP beyond those that it sent. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "agent/base/socket_address.h"
#include "agent/dns/internal.h"
#include "agent/dns/rate.h"

static struct dns_rate *rate;

static void begin(void)
{
	rate = dns_rate_create();
}

static void end(void)
{
	free(rate);
}

TestSuite(dns_rate, .init = begin, .fini = end);

/* How many kilobytes an address gets out of 1000. */
static int take(const char *text, int64_t now_ms)
{
	struct sockaddr_storage address;
	socklen_t len;
	int count = 0;
	cr_assert(socket_address_read(&address, &len, text), "%s", text);
	for (int i = 0; i < 1000; i++) {
		count += dns_rate_take(rate, &address, 1024, now_ms);
	}
	return count;
}

Test(dns_rate, an_address_gets_a_burst_and_then_a_rate)
{
	cr_expect_eq(take("192.0.2.1:53", 1000), 128);
	cr_expect_eq(take("192.0.2.1:4000", 1000), 0);
	cr_expect_eq(take("192.0.2.1:53", 1500), 32);
	cr_expect_eq(take("192.0.2.1:53", 2500), 64);
	cr_expect_eq(take("192.0.2.1:53", 1000000), 128);
	/* Answers that are no longer than their questions. */
	struct sockaddr_storage address;
	socklen_t len;
	cr_assert(socket_address_read(&address, &len, "192.0.2.1:53"));
	cr_expect(dns_rate_take(rate, &address, 0, 1000000));
}

Test(dns_rate, a_full_bucket_takes_not_a_byte_but_answers_of_the_length_of_their_questions)
{
	struct sockaddr_storage address;
	socklen_t len;
	cr_assert(socket_address_read(&address, &len, "192.0.2.1:53"));
	cr_assert(dns_rate_take(rate, &address, DNS_RATE_BURST, 1000));
	cr_expect(dns_rate_take(rate, &address, 0, 1000));
	cr_expect_not(dns_rate_take(rate, &address, 1, 1000));
	cr_expect(dns_rate_take(rate, &address, 0, 1000));
	cr_expect_not(dns_rate_take(rate, &address, DNS_RATE_BYTES + 1, 2000));
	cr_expect(dns_rate_take(rate, &address, DNS_RATE_BYTES, 2000));
}

Test(dns_rate, a_clock_that_stands_gives_nothing_away)
{
	cr_expect_eq(take("192.0.2.1:53", INT64_C(1) << 40), 128);
	for (int i = 0; i < 100; i++) {
		cr_expect_eq(take("192.0.2.1:53", INT64_C(1) << 40), 0);
	}
}

Test(dns_rate, addresses_count_by_themselves_and_networks_of_ipv6_as_one)
{
	int whole = 0;
	for (int i = 0; i < 20; i++) {
		char text[32];
		sprintf(text, "198.51.100.%d:53", i);
		whole += take(text, 1000) == 128;
	}
	cr_expect_geq(whole, 15); /* two may share a bucket */
	int first = take("[2001:db8::1]:53", 500000);
	cr_expect_eq(first, 128);
	cr_expect_eq(take("[2001:db8::2:3]:53", 500000), 0);
}

Test(dns_rate, loopback_is_free)
{
	cr_expect_eq(take("127.0.0.1:53", 1000), 1000);
	cr_expect_eq(take("127.9.9.9:53", 1000), 1000);
	cr_expect_eq(take("[::1]:53", 1000), 1000);
}
