/* Numeric addresses, and which of them lead to a socket of this machine. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "agent/base/own_addresses.h"
#include "agent/base/socket_address.h"
#include "lib/base/array.h"

Test(socket_address, is_numeric_and_has_a_port)
{
	static const char *const good[] = { "127.0.0.1:53", "[::1]:53", "0.0.0.0:0", "[::]:65535" };
	static const char *const bad[] = { "", "53", ":53", "127.0.0.1", "127.0.0.1:", "::1:53",
		"[::1:53", "[]:53", "[1]:53", "localhost:53", "127.0.0.1:port",
		"::ffff:127.0.0.1:53",
		"127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1.127.0.0.1:53" };
	struct sockaddr_storage address;
	socklen_t len;
	char padded[80];
	for (int digits = 60; digits < 70; digits++) {
		snprintf(padded, sizeof(padded), "%0*d:53", digits, 1);
		cr_expect_eq(
			socket_address_read(&address, &len, padded), digits < 64, "%d", digits);
	}
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		cr_expect(socket_address_read(&address, &len, good[i]), "%s", good[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cr_expect_not(socket_address_read(&address, &len, bad[i]), "%s", bad[i]);
	}
}

Test(socket_address, arrives_where_it_is_bound_or_behind_a_wildcard)
{
	static const struct {
		const char *to;
		const char *listen;
		bool arrives;
	} rows[] = {
		{ "127.0.0.1:53", "127.0.0.1:53", true },
		{ "127.0.0.1:53", "127.0.0.1:54", false },
		{ "127.0.0.2:53", "127.0.0.1:53", false },
		{ "127.0.0.2:53", "0.0.0.0:53", true },
		{ "127.0.0.2:54", "0.0.0.0:53", false },
		{ "0.0.0.0:53", "127.0.0.1:53", true },
		{ "0.0.0.0:53", "0.0.0.0:53", true },
		{ "0.0.0.0:53", "127.0.0.2:53", false },
		{ "[::ffff:127.0.0.3]:53", "0.0.0.0:53", true },
		{ "[::ffff:127.0.0.3]:53", "[::]:53", false },
		{ "[::1]:53", "[::]:53", true },
		{ "[::1]:53", "0.0.0.0:53", false },
		{ "[::]:53", "[::1]:53", true },
		{ "192.0.2.77:53", "0.0.0.0:53", false },
		{ "[2001:db8::77]:53", "[::]:53", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sockaddr_storage to;
		struct sockaddr_storage listen;
		socklen_t len;
		cr_assert(socket_address_read(&to, &len, rows[i].to), "%s", rows[i].to);
		cr_assert(socket_address_read(&listen, &len, rows[i].listen), "%s", rows[i].listen);
		cr_expect_eq(own_addresses_hear(&to, &listen), rows[i].arrives, "%s at %s",
			rows[i].to, rows[i].listen);
	}
}
