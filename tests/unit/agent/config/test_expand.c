#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config/builtin.h"
#include "agent/config/expand.h"
#include "lib/base/array.h"

static void expect(const char *text, const char *want)
{
	struct err err = ERR_INIT;
	char *have = config_expand(text, &err);
	cr_assert_not_null(have, "%s: %s", text, err.msg);
	cr_expect_str_eq(have, want);
	free(have);
}

static void expect_error(const char *text, const char *part)
{
	struct err err = ERR_INIT;
	char *have = config_expand(text, &err);
	cr_expect_null(have, "%s is not a mistake", text);
	cr_expect(strstr(err.msg, part), "\"%s\" lacks \"%s\"", err.msg, part);
	free(have);
}

static void set_variables(void)
{
	setenv("NAME", "value", 1);
	setenv("EMPTY", "", 1);
	setenv("BLANKS", "  a b\t", 1);
	setenv("LINES", "a\nb", 1);
	setenv("DOLLAR", "${NAME}$$", 1);
	unsetenv("UNSET");
}

TestSuite(config_expand, .init = set_variables);

Test(config_expand, variables_and_defaults)
{
	expect("a${NAME}b", "avalueb");
	expect("${EMPTY}", "");
	expect("${UNSET:-x y}", "x y");
	expect("${EMPTY:-x}", "x");
	expect("${NAME:-x}", "value");
	expect("${UNSET:-}", "");
	expect("${UNSET:-${EMPTY:-${NAME}}}z", "valuez");
	expect("${UNSET:-a:-b}", "a:-b");
}

Test(config_expand, other_dollars_stay)
{
	expect("$", "$");
	expect("$$", "$");
	expect("$$$$", "$$");
	expect("$${NAME}", "${NAME}");
	expect("$NAME $1 $? cost$", "$NAME $1 $? cost$");
	expect("${1} ${} ${#a} ${", "${1} ${} ${#a} ${");
}

Test(config_expand, the_value_of_a_variable_is_not_expanded_again)
{
	expect("${DOLLAR}", "${NAME}$$");
	expect("x${BLANKS}", "x  a b");
	expect("${BLANKS}", "a b");
}

Test(config_expand, mistakes)
{
	expect_error("${UNSET}", "UNSET is not set");
	expect_error("${NAME%.*}", "${NAME%.*} is neither ${NAME} nor ${NAME:-default}");
	expect_error("${NAME:8080}", "neither");
	expect_error("${NAME:?}", "neither");
	expect_error("${NAME-x}", "neither");
	expect_error("${berth.ip:x}", "neither ${berth.ip} nor");
	expect_error("a${NAME", "no closing brace");
	expect_error("${NAME:-x", "no closing brace");
	expect_error("${berth.hostnam}", "${berth.hostname}");
	expect_error("${berth.hostnam:-x}", "${berth.hostname}");
	expect_error("${UNSET:-${UNSET}}", "UNSET is not set");
	expect_error("${LINES}", "line break");
}

Test(config_expand, defaults_are_nested_so_deep_and_no_deeper)
{
	for (int depth = 1; depth <= 20; depth++) {
		char deep[400] = "";
		for (int i = 0; i < depth; i++) {
			strcat(deep, "${UNSET:-");
		}
		strcat(deep, "x");
		for (int i = 0; i < depth; i++) {
			strcat(deep, "}");
		}
		if (depth <= 16) {
			expect(deep, "x");
		} else {
			expect_error(deep, "${…} is nested more than 16 deep");
		}
	}
}

Test(config_expand, a_value_has_a_greatest_length)
{
	enum { MOST = 256 * 1024 };
	char *text = malloc(MOST + 2);
	memset(text, 'x', MOST + 2);
	text[MOST + 1] = '\0';
	setenv("LONG", text + 1, 1);
	expect("${LONG}", text + 1);
	setenv("LONG", text, 1);
	expect_error("${LONG}", "expands to more than 262144 bytes");
	free(text);
}

Test(config_expand, a_default_is_for_what_a_machine_lacks)
{
	expect("${berth.ip.no-such.0:-x}", "x");
	expect("${berth.ip.no-such:-${NAME}}", "value");
	expect_error("${berth.ip.no-such}", "no interface no-such");
	expect("${_A1:-b}", "b");
	expect("${UNSET:-a}}", "a}");
	expect("${UNSET:-a$}b", "a$b");
	expect("${UNSET:-$$}", "$");
}

Test(config_expand, one_dollar_is_expanded_alone)
{
	static const struct {
		const char *text;
		const char *expanded; /* NULL: a mistake */
		size_t len;           /* of what it takes */
	} cases[] = { { "${NAME} ${NAME}", "value", 7 }, { "$$$", "$", 2 }, { "$x", "$", 1 },
		{ "$", "$", 1 }, { "${EMPTY}x", "", 8 }, { "${UNSET:- a }", " a ", 13 },
		{ "${BLANKS}", "  a b\t", 9 }, { "${UNSET} x", NULL, 0 }, { "${LINES}", NULL, 0 },
		{ "${NAME", NULL, 0 }, { "${NAME:x}", NULL, 0 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct buffer to;
		struct err err = ERR_INIT;
		const char *end = NULL;
		buffer_init(&to, 100);
		buffer_append_text(&to, "<");
		int code = config_expand_dollar(&to, cases[i].text, &end, &err);
		cr_expect_eq(code == 0, cases[i].expanded != NULL, "%s", cases[i].text);
		cr_expect_eq(err.code, code);
		cr_expect_eq(buffer_text(&to)[0], '<');
		cr_expect_str_eq(buffer_text(&to) + 1, cases[i].expanded ? cases[i].expanded : "");
		cr_expect(code || end == cases[i].text + cases[i].len, "%s", cases[i].text);
		buffer_finish(&to);
	}
}

Test(config_expand, one_dollar_has_the_limits_of_a_value)
{
	enum { MOST = 256 * 1024 };
	char deep[300] = "";
	for (int i = 0; i < 16; i++) {
		strcat(deep, "${UNSET:-");
	}
	strcat(deep, "x}}}}}}}}}}}}}}}}");
	char *text = malloc(MOST + 2);
	memset(text, 'x', MOST + 2);
	text[MOST + 1] = '\0';
	struct buffer to;
	const char *end;
	for (int i = 0; i < 3; i++) {
		struct err err = ERR_INIT;
		buffer_init(&to, SIZE_MAX);
		setenv("LONG", text + (i == 0), 1);
		int code = config_expand_dollar(&to, i == 2 ? deep : "${LONG}", &end, &err);
		cr_expect_eq(code, i == 1 ? BERTH_LIMIT_EXCEEDED : 0);
		cr_expect_eq(to.len, i == 0 ? (size_t)MOST : i == 1 ? 0 : 1);
		buffer_finish(&to);
	}
	free(text);
}

Test(config_expand, the_inverse)
{
	static const char *const texts[] = { "", "$", "$$", "${NAME}", "a$b${UNSET}$$$" };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char *escaped = config_unexpand(texts[i]);
		expect(escaped, texts[i]);
		free(escaped);
	}
}

/* The host's first global address of IPv6 other than loopback; false when it has none. */
static bool own_ipv6(char text[INET6_ADDRSTRLEN])
{
	struct ifaddrs *interfaces;
	cr_assert_eq(getifaddrs(&interfaces), 0);
	bool found = false;
	for (const struct ifaddrs *at = interfaces; at && !found; at = at->ifa_next) {
		unsigned flags = at->ifa_flags & (IFF_UP | IFF_LOOPBACK);
		if (flags != IFF_UP || !at->ifa_addr || at->ifa_addr->sa_family != AF_INET6) {
			continue;
		}
		struct sockaddr_in6 ipv6;
		memcpy(&ipv6, at->ifa_addr, sizeof(ipv6));
		found = !IN6_IS_ADDR_LINKLOCAL(&ipv6.sin6_addr) &&
			inet_ntop(AF_INET6, &ipv6.sin6_addr, text, INET6_ADDRSTRLEN);
	}
	freeifaddrs(interfaces);
	return found;
}

Test(config_expand, the_hosts_ipv6)
{
	char text[INET6_ADDRSTRLEN];
	if (own_ipv6(text)) {
		expect("${berth.ip6}", text);
		expect("${berth.ip6:-2001:db8::1}", text);
	} else {
		expect_error("${berth.ip6}", "no interface is up with an IPv6 address");
		expect("${berth.ip6:-2001:db8::1}", "2001:db8::1");
	}
}

Test(config_expand, the_variables_of_the_host)
{
	char name[256];
	cr_assert_eq(gethostname(name, sizeof(name)), 0);
	expect("${berth.hostname}", name);
	expect("${berth.ip.lo}", "127.0.0.1");
	expect_error("${berth.ip.none0}", "none0");
	expect("${berth.ip.none0:-192.0.2.1}", "192.0.2.1");
	expect_error("${berth.ip.}", "${berth.ip}");
	setenv("CONTAINER_ID", "container_1_2", 1);
	expect("${berth.container_id}", "container_1_2");
}
