/* Single nodes of Registrar's, and their meaning. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/zone/facts.h"
#include "lib/base/array.h"
#include "lib/base/text.h"

TestSuite(zone_facts);

static const struct {
	const char *data;
	enum zone_kind kind;
	const char *address; /* "" for none */
	int ttl_s;
	const char *rest; /* the ports of a host; name, protocol and port of a service */
} nodes[] = {
	{ "", ZONE_NOTHING, "", -1, "" },
	{ "null", ZONE_NOTHING, "", -1, "" },
	{ "{", ZONE_NOTHING, "", -1, "" },
	{ "[]", ZONE_NOTHING, "", -1, "" },
	{ "{}", ZONE_NOTHING, "", -1, "" },
	{ "{\"type\":1}", ZONE_NOTHING, "", -1, "" },
	{ "{\"type\":\"host\"}", ZONE_NOTHING, "", -1, "" },
	{ "{\"type\":\"host\",\"host\":[]}", ZONE_NOTHING, "", -1, "" },
	{ "{\"type\":\"host\",\"host\":{}}", ZONE_HOST, "", -1, "" },
	{ "{\"type\":\"teapot\",\"teapot\":{},\"ttl\":1}", ZONE_OTHER, "", 1, "" },
	{ "{\"type\":\"host\",\"host\":{\"address\":\"1.2.3.4\"}}", ZONE_HOST, "1.2.3.4", -1, "" },
	{ "{\"type\":\"db_host\",\"db_host\":{\"address\":\"1.2.3.4\"}}", ZONE_HOST, "1.2.3.4", -1,
		"" },
	{ "{\"type\":\"load_balancer\",\"load_balancer\":{\"ttl\":0},\"ttl\":9}", ZONE_INSTANCE, "",
		0, "" },
	{ "{\"type\":\"moray_host\",\"moray_host\":{\"ttl\":-1},\"ttl\":9}", ZONE_INSTANCE, "", 9,
		"" },
	{ "{\"type\":\"redis_host\",\"redis_host\":{\"ttl\":2147483647}}", ZONE_INSTANCE, "",
		2147483647, "" },
	{ "{\"type\":\"ops_host\",\"ops_host\":{\"ttl\":2147483648}}", ZONE_INSTANCE, "", -1, "" },
	{ "{\"type\":\"rr_host\",\"rr_host\":{\"ttl\":\"5\","
	  "\"ports\":[0,1,65535,65536,\"7\",null]}}",
		ZONE_INSTANCE, "", -1, "1 65535 " },
	{ "{\"type\":\"host\",\"host\":{\"address\":\"2001:db8::1\",\"ports\":8}}", ZONE_HOST, "",
		-1, "" },
	{ "{\"type\":\"host\",\"host\":{\"address\":null}}", ZONE_HOST, "", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://u@1.2.3.4/m\",\"ttl\":60}}",
		ZONE_DATABASE, "1.2.3.4", 60, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://1.2.3.4:5432\"}}",
		ZONE_DATABASE, "1.2.3.4", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://a/b@1.2.3.4\"}}", ZONE_DATABASE,
		"", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://a.b.c.d.e.f.g.h.i.j\"}}",
		ZONE_DATABASE, "", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"1.2.3.4\"}}", ZONE_DATABASE, "", -1,
		"" },
	{ "{\"type\":\"database\",\"database\":{}}", ZONE_DATABASE, "", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://a@b@254.254.254.254:1/a\"}}",
		ZONE_DATABASE, "254.254.254.254", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://1254.254.254.254/\"}}",
		ZONE_DATABASE, "", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://1.2.3.4?@5.6.7.8\"}}",
		ZONE_DATABASE, "1.2.3.4", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://1.2.3.4#@5.6.7.8\"}}",
		ZONE_DATABASE, "1.2.3.4", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://\"}}", ZONE_DATABASE, "", -1,
		"" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":\"tcp://@1.2.3.4:\"}}", ZONE_DATABASE,
		"1.2.3.4", -1, "" },
	{ "{\"type\":\"database\",\"database\":{\"primary\":5,\"ports\":[1]}}", ZONE_DATABASE, "",
		-1, "" },
	{ "{\"type\":\"host\",\"host\":{\"ports\":[7],\"ttl\":1.5}}", ZONE_HOST, "", -1, "7 " },
	{ "{\"type\":\"host\",\"host\":{\"ports\":[],\"ttl\":null},\"ttl\":0}", ZONE_HOST, "", 0,
		"" },
	{ "{\"type\":\"host\",\"host\":{\"ports\":[-1,0]}}", ZONE_HOST, "", -1, "" },
	{ "{\"type\":\"service\",\"service\":{\"service\":[],\"srvce\":\"_a\",\"proto\":\"_b\","
	  "\"port\":65535}}",
		ZONE_SERVICE, "", -1, "_a _b 65535" },
	{ "{\"type\":\"service\",\"service\":{\"srvce\":1,\"proto\":\"\",\"port\":65536}}",
		ZONE_SERVICE, "", -1, "  0" },
	{ "{\"type\":\"service\",\"service\":{\"service\":{\"srvce\":\"_http\",\"proto\":\"_tcp\","
	  "\"port\":80,\"ttl\":45},\"ttl\":4},\"ttl\":3}",
		ZONE_SERVICE, "", 45, "_http _tcp 80" },
	{ "{\"type\":\"service\",\"service\":{\"srvce\":\"_a\",\"proto\":\"_b\",\"port\":1,"
	  "\"ttl\":4},\"ttl\":3}",
		ZONE_SERVICE, "", 4, "_a _b 1" },
	{ "{\"type\":\"service\",\"service\":{\"port\":\"80\"},\"ttl\":3}", ZONE_SERVICE, "", 3,
		"  0" },
	{ "{\"type\":\"service\",\"service\":{\"srvce\":"
	  "\"_23456789_123456789_123456789_123456789_123456789_123456789_123\","
	  "\"proto\":\"_23456789_123456789_123456789_123456789_123456789_123456789_1234\"}}",
		ZONE_SERVICE, "", -1,
		"_23456789_123456789_123456789_123456789_123456789_123456789_123  0" },
};

Test(zone_facts, every_value_that_is_not_as_it_should_be_is_not_there)
{
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		struct zone_facts facts;
		char address[32] = "";
		char rest[256] = "";
		zone_facts_read(&facts, nodes[i].data, strlen(nodes[i].data));
		if (facts.has_address) {
			text_printf(address, sizeof(address), "%u.%u.%u.%u", facts.address[0],
				facts.address[1], facts.address[2], facts.address[3]);
		}
		if (facts.kind == ZONE_SERVICE) {
			text_printf(rest, sizeof(rest), "%s %s %u", facts.name, facts.protocol,
				facts.port);
		}
		for (size_t port = 0; port < facts.port_count; port++) {
			size_t len = strlen(rest);
			text_printf(rest + len, sizeof(rest) - len, "%u ", facts.ports[port]);
		}
		cr_expect_eq(facts.kind, nodes[i].kind, "%s", nodes[i].data);
		cr_expect_eq(facts.ttl_s, nodes[i].ttl_s, "%s: %d", nodes[i].data, facts.ttl_s);
		cr_expect_str_eq(address, nodes[i].address, "%s", nodes[i].data);
		cr_expect_str_eq(rest, nodes[i].rest, "%s", nodes[i].data);
		zone_facts_finish(&facts);
		cr_expect_null(facts.ports);
	}
}

Test(zone_facts, a_host_has_a_bounded_number_of_ports)
{
	char data[1024] = "{\"type\":\"host\",\"host\":{\"ports\":[1";
	for (int i = 0; i < ZONE_MAX_PORTS; i++) {
		size_t len = strlen(data);
		text_printf(data + len, sizeof(data) - len, ",%d", i + 2);
	}
	strcat(data, "]}}");
	struct zone_facts facts;
	zone_facts_read(&facts, data, strlen(data));
	cr_assert_eq(facts.port_count, ZONE_MAX_PORTS);
	cr_expect_eq(facts.ports[ZONE_MAX_PORTS - 1], ZONE_MAX_PORTS);
	zone_facts_finish(&facts);
}
