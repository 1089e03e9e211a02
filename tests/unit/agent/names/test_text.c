/* The text of names: labels, reverse names, labels of addresses. */
#include <criterion/criterion.h>

#include "agent/names/internal.h"
#include "lib/base/array.h"

TestSuite(names_text);

#define L63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define L61 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A16 "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a."

/* ---- labels ---- */

Test(names_text, a_domain_is_taken_off_the_end)
{
	static const struct {
		const char *name;
		const char *domain;
		const char *rest; /* NULL: the name is elsewhere */
	} rows[] = { { "a.berth", "berth", "a" }, { "berth", "berth", "" },
		{ "a.b.x.berth", "x.berth", "a.b" }, { "a.y.berth", "x.berth", NULL },
		{ "a.x.birth", "x.berth", NULL }, { "berth", "x.berth", NULL },
		{ "berth.a", "berth", NULL }, { "aberth", "berth", NULL },
		{ "a.berth", "be..rth", NULL } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct names_labels labels;
		char rest[NAMES_NAME_BYTES];
		cr_assert(names_split(&labels, rows[i].name));
		bool is_below = names_take_domain(&labels, rows[i].domain);
		cr_assert_eq(is_below, rows[i].rest != NULL, "%s", rows[i].name);
		names_join(rest, &labels);
		cr_expect_str_eq(rest, is_below ? rows[i].rest : rows[i].name);
	}
}

/* ---- addresses ---- */

#define NIBBLES_30 "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2"

static const struct {
	const char *name;
	const char *address; /* NULL: it says none */
} reverse_names[] = {
	{ "1.0.0.10.in-addr.arpa", "10.0.0.1" },
	{ "255.255.255.255.in-addr.arpa", "255.255.255.255" },
	{ "2551.255.255.255.in-addr.arpa", NULL },
	{ "255.2551.255.255.in-addr.arpa", NULL },
	{ "255.255.2551.255.in-addr.arpa", NULL },
	{ "255.255.255.2551.in-addr.arpa", NULL },
	{ "256.0.0.10.in-addr.arpa", NULL },
	{ "x.0.0.10.in-addr.arpa", NULL },
	{ "0.0.10.in-addr.arpa", NULL },
	{ "1.1.0.0.10.in-addr.arpa", NULL },
	{ "1.0.0.10.ip6.arpa", NULL },
	{ "1.0.0.10.in-addr.org", NULL },
	{ "f." NIBBLES_30 ".ip6.arpa", "2001:db8::f" },
	{ "10." NIBBLES_30 ".ip6.arpa", NULL },
	{ "g." NIBBLES_30 ".ip6.arpa", NULL },
	{ "1.00." NIBBLES_30 ".ip6.arpa", NULL },
	{ NIBBLES_30 ".ip6.arpa", NULL },
	{ "1.1." NIBBLES_30 ".ip6.arpa", NULL },
	{ "f." NIBBLES_30 ".in-addr.arpa", NULL },
};

/* A failure leaves the result alone. */
static const struct names_address before = { .family = -1 };

static void expect_address(
	const char *what, bool found, const struct names_address *address, const char *text)
{
	struct names_address wanted = before;
	cr_assert(!text || names_read_address(&wanted, text));
	cr_expect_eq(found, text != NULL, "%s", what);
	cr_expect(names_address_equal(address, &wanted), "%s", what);
}

Test(names_text, reverse_names_say_an_address)
{
	for (size_t i = 0; i < ARRAY_LEN(reverse_names); i++) {
		struct names_labels labels;
		struct names_address address = before;
		const char *name = reverse_names[i].name;
		cr_assert(names_split(&labels, name));
		bool found = names_read_reverse(&address, &labels);
		expect_address(name, found, &address, reverse_names[i].address);
	}
}

static const struct {
	const char *label;
	const char *address;
} address_labels[] = {
	{ "ip-10-0-0-1", "10.0.0.1" },
	{ "ip-255-255-255-255", "255.255.255.255" },
	{ "ip-255-255-255-2555", NULL },
	{ "ip-" L61, NULL },
	{ "ip-10-0-0", NULL },
	{ "ip-10-0-0-256", NULL },
	{ "ip10-0-0-1", NULL },
	{ "ix-10-0-0-1", NULL },
	{ "ip6-20010db8000000000000000000000001", "2001:db8::1" },
	{ "ip6-2001fdb8000000000000000000000a0f", "2001:fdb8::a0f" },
	{ "ip6-20010db800000000000000000000001", NULL },
	{ "ip6-20010db80000000000000000000000001", NULL },
	{ "ip6-g0010db8000000000000000000000001", NULL },
	{ "ip6-20010db800000000000000000000000g", NULL },
	{ "ip4-20010db8000000000000000000000001", NULL },
	{ "ip6-", NULL },
	{ "", NULL },
};

Test(names_text, a_label_says_an_address)
{
	for (size_t i = 0; i < ARRAY_LEN(address_labels); i++) {
		struct names_address address = before;
		const char *label = address_labels[i].label;
		char written[64];
		bool found = names_read_address_label(&address, label);
		expect_address(label, found, &address, address_labels[i].address);
		if (found) {
			names_write_address_label(written, &address);
			cr_expect_str_eq(written, label);
		}
	}
}

Test(names_text, addresses_and_containers_have_keys_of_their_own)
{
	struct names_address ip4;
	struct names_address ip6;
	struct names_address other;
	uint64_t one = 0;
	uint64_t two = 0;
	cr_assert(names_read_address(&ip4, "1.2.3.4") && names_read_address(&ip6, "102:304::"));
	cr_assert(names_read_address(&other, "1.2.3.5"));
	cr_expect_neq(names_address_key(&ip4), names_address_key(&ip6));
	cr_expect_neq(names_address_key(&ip4), names_address_key(&other));
	cr_expect(names_container_key(&one, "ctr-1") && names_container_key(&two, "ctr-2"));
	cr_expect_neq(one, two);
	cr_expect_not(names_container_key(&one, "ctr"));
	cr_expect_not(names_container_key(&one, "xctr-1"));
}
