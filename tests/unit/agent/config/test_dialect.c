/* [dialect NAME]: its mistakes, and the instances that it gives. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/builtin.h"
#include "agent/config/dialect.h"
#include "lib/base/array.h"
#include "lib/dialect/dialect.h"
#include "tests/support/config_stage.h"

TestSuite(config_dialect, .init = make_folder, .fini = remove_folder);

#define HOME "[component]\npath = /a/b\n"
#define AT(name, address)                                                                          \
	"[endpoint " name "]\napi = x\nprotocol = p\naddress_type = host/port\naddress = " address \
	"\n"
#define HTTP AT("http", "10.9.8.7:8080")
/* 8 lines before the keys. */
#define DIALECT(type) HOME HTTP "[dialect d]\ntype = " type "\n"
#define REGISTRAR DIALECT("registrar")
#define REGISTRAR_KEYS "domain = web.example\nhost_type = host\n"

/* ---- mistakes ---- */

Test(config_dialect, each_mistake_is_reported_where_it_is)
{
	static const struct {
		const char *text;
		int line;
		const char *part;
	} mistakes[] = {
		{ HOME HTTP "[dialect d]\n", 8, "needs `type`" },
		{ HOME HTTP "[dialect d]\ntype = consul\n", 9, "registrar, serverset" },
		{ HOME "[dialect d]\ntype = nerve\npath = /g\n", 3, "needs an [endpoint]" },
		{ REGISTRAR "domain = web.example\n", 8, "needs `host_type`" },
		{ REGISTRAR "host_type = host\n", 8, "needs `domain`" },
		{ DIALECT("serverset"), 8, "needs `path`" },
		{ DIALECT("nerve"), 8, "needs `path`" },
		{ DIALECT("curator") "service = w\n", 8, "needs `base`" },
		{ DIALECT("curator") "base = /s\n", 8, "needs `service`" },
		{ DIALECT("serverset") "path = /g\nadditional = http, admin\n", 11,
			"no [endpoint admin]" },
		{ REGISTRAR REGISTRAR_KEYS "path = /g\n", 12, "type = registrar" },
		{ REGISTRAR REGISTRAR_KEYS "endpoint = rest\n", 12, "no [endpoint rest]" },
		{ REGISTRAR "host_type = host\ndomain = a.zookeeper\n", 11, "server's own" },
		{ REGISTRAR "host_type = host\ndomain = web..example\n", 11, "not a domain name" },
		{ REGISTRAR "host_type = host\ndomain = web.exa mple\n", 11, "not a domain name" },
		{ REGISTRAR "host_type = host\ndomain = web.a1234567890123456789012345678901"
			    "23456789012345678901234567890123\n",
			11, "not a domain name" },
		{ REGISTRAR "domain = web.example\nhost_type = a/b\n", 11, "allowed are letters" },
		{ REGISTRAR REGISTRAR_KEYS "host_name = a/b\n", 12, "not a name of a node" },
		{ REGISTRAR REGISTRAR_KEYS "address = ::1\n", 12, "is not an IPv4 address" },
		{ REGISTRAR REGISTRAR_KEYS "ttl = -1\n", 12, "not a number from 0" },
		{ REGISTRAR REGISTRAR_KEYS "ttl = 00000000001\n", 12, "not a number from 0" },
		{ REGISTRAR REGISTRAR_KEYS "ttl = 2147483648\n", 12, "not a number from 0" },
		{ REGISTRAR REGISTRAR_KEYS "ttl = 2147483648s\n", 12, "whole seconds such as 25s" },
		{ REGISTRAR REGISTRAR_KEYS "service_ttl = 1500ms\n", 12, "whole seconds" },
		{ REGISTRAR REGISTRAR_KEYS "ttl = 25 s\n", 12, "whole seconds" },
		{ REGISTRAR REGISTRAR_KEYS "port = 0\n", 12, "not a number from 1" },
		{ REGISTRAR REGISTRAR_KEYS "port = 65536\n", 12, "not a number from 1" },
		{ DIALECT("serverset") "path = /g\nadditional = admin\n", 11,
			"no [endpoint admin]" },
		{ DIALECT("serverset") "path = g\n", 10, "path" },
		{ DIALECT("curator") "base = /s\nservice = w\nssl_endpoint = tls\n", 12,
			"no [endpoint tls]" },
		{ DIALECT("curator") "base = /s\nservice = w\npayload = {\"a\":1,\"a\":2}\n", 12,
			"not JSON" },
		{ DIALECT("spring") "base = /s\n", 8, "service" },
		{ DIALECT("nerve") "path = /g\n[dialect e]\ntype = nerve\npath = /g\n", 11,
			"would be the same member" },
		{ DIALECT("serverset") "path = /g\nshard = 1\n[dialect e]\n"
				       "type = serverset\npath = /g\n",
			12, "would be the same member" },
	};
	for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
		check_one(mistakes[i].text, mistakes[i].line, mistakes[i].part);
	}
}

#define NERVE(name, component, path)                                                               \
	"[dialect " name "]\ncomponent = " component "\ntype = nerve\npath = " path "\n"           \
	"instance_id = i\n"

Test(config_dialect, members_of_one_group_need_names_of_their_own)
{
	config_unref(load(DIALECT("nerve") "path = /g\n[dialect e]\ntype = nerve\npath = /h\n"));
	config_unref(load(DIALECT(
		"nerve") "path = /g\n[dialect e]\ntype = nerve\npath = /g\ninstance_id = other\n"));
	config_unref(
		load(DIALECT("nerve") "path = /g\n[dialect e]\ntype = serverset\npath = /g\n"));
	config_unref(load(HOME "[dialect d]\ntype = registrar\n" REGISTRAR_KEYS));
	/* Those of a service have an id for each dialect. */
	config_unref(load(DIALECT("curator") "base = /s\nservice = w\n[dialect e]\n"
					     "type = curator\nbase = /s\nservice = w\n"));
	check_one(TWO AN_ENDPOINT("x", "a") AN_ENDPOINT("y", "b") NERVE("c", "a", "/f")
			  NERVE("d", "a", "/g") NERVE("e", "b", "/g"),
		27, "[dialect d] and [dialect e] would be the same member of /g");
	check_one(TWO "[dialect d]\ncomponent = x\ntype = registrar\n" REGISTRAR_KEYS, 6,
		"no [component x]");
}

/* ---- instances ---- */

struct made {
	struct config *config;
	struct config_instance *instance;
	const struct dialect_instance *dialect;
};

/* The first dialect's instance, with endpoints in these states. */
static struct made make(const char *text, const struct config_record_endpoint *endpoints)
{
	static const struct config_record_endpoint all_in[4];
	struct made made = { .config = load(text) };
	const struct config_component *component = &made.config->components[0];
	const struct config_instance_state state = {
		.endpoints = endpoints ? endpoints : all_in,
		.registered_ms = 1700000000000,
	};
	cr_assert_geq(component->dialect_count, 1);
	made.instance = config_instance_create(component, &component->dialects[0], &state);
	made.dialect = config_instance_get(made.instance);
	return made;
}

static void unmake(struct made *made)
{
	config_instance_free(made->instance);
	config_unref(made->config);
}

Test(config_dialect, an_instance_has_what_is_set)
{
	struct made made = make(REGISTRAR REGISTRAR_KEYS
		"host_name = h1\naliases = a.example b.example\naddress = 10.0.0.1\nttl = 30\n"
		"ports = 1, 2\nservice = http\nprotocol = udp\nport = 53\nservice_ttl = 45s\n",
		NULL);
	cr_expect_eq(made.dialect->type, DIALECT_REGISTRAR);
	cr_expect_str_eq(made.dialect->name, "d");
	cr_expect_str_eq(made.dialect->domain, "web.example");
	cr_expect_str_eq(made.dialect->host_name, "h1");
	cr_expect_str_eq(made.dialect->host_type, "host");
	cr_assert_eq(made.dialect->alias_count, 2);
	cr_expect_str_eq(made.dialect->aliases[1], "b.example");
	cr_expect_str_eq(made.dialect->address, "10.0.0.1");
	cr_expect_eq(made.dialect->ttl, 30);
	cr_assert_eq(made.dialect->port_count, 2);
	cr_expect_eq(made.dialect->ports[1], 2);
	cr_expect_str_eq(made.dialect->service, "http");
	cr_expect_str_eq(made.dialect->protocol, "udp");
	cr_expect_eq(made.dialect->service_port, 53);
	cr_expect_eq(made.dialect->service_ttl, 45);
	unmake(&made);
}

Test(config_dialect, a_component_without_an_endpoint_is_at_its_host)
{
	struct made made = make(HOME "[dialect d]\ntype = registrar\n" REGISTRAR_KEYS, NULL);
	char *own = NULL;
	struct err unknown = ERR_INIT;
	(void)!config_builtin("berth.ip", &own, &unknown);
	cr_expect_str_eq(made.dialect->address, own ? own : "");
	cr_expect_eq(made.dialect->endpoint.port, 0);
	cr_expect_eq(made.dialect->service_port, 0);
	cr_expect_null(config_instance_lack(made.instance));
	free(own);
	unmake(&made);
}

Test(config_dialect, times_to_live_are_seconds_in_any_unit)
{
	static const struct {
		const char *text;
		int seconds;
	} cases[] = { { "0", 0 }, { "30", 30 }, { "30s", 30 }, { "2m", 120 }, { "3000ms", 3 },
		{ "1h", 3600 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[600];
		snprintf(text, sizeof(text), "%sttl = %s\n", REGISTRAR REGISTRAR_KEYS,
			cases[i].text);
		struct made made = make(text, NULL);
		cr_expect_eq(made.dialect->ttl, cases[i].seconds, "%s", cases[i].text);
		unmake(&made);
	}
}

Test(config_dialect, a_service_of_curator_or_a_member_has_its_numbers)
{
	struct made made = make(DIALECT("serverset") "path = /g\nshard = 7\n", NULL);
	cr_expect_eq(made.dialect->shard, 7);
	cr_expect_eq(made.dialect->weight, -1);
	cr_expect_eq(made.dialect->registered_ms, 1700000000000);
	cr_expect_not(made.dialect->out_of_service);
	unmake(&made);
	made = make(DIALECT("nerve") "path = /g\nweight = 0\npath_encoding = yes\n", NULL);
	cr_expect_eq(made.dialect->weight, 0);
	cr_expect_eq(made.dialect->shard, -1);
	cr_expect(made.dialect->path_encoding);
	cr_expect_eq(made.dialect->pair_count, 0);
	unmake(&made);
	made = make(DIALECT("curator") "base = /s\nservice = w\n", NULL);
	cr_expect_str_eq(made.dialect->base, "/s");
	cr_expect_null(made.dialect->payload);
	cr_expect_eq(made.dialect->ssl_port, 0);
	unmake(&made);
}

Test(config_dialect, an_instance_has_the_id_of_its_component_if_there_is_one)
{
	struct made made = make("[component]\npath = /a/b\nid = c_1\n" HTTP
				"[dialect d]\ntype = spring\nservice = web\n",
		NULL);
	cr_expect_str_eq(made.dialect->context_id, "c_1");
	unmake(&made);
}

Test(config_dialect, an_instance_is_where_its_endpoint_is)
{
	struct made made = make(REGISTRAR REGISTRAR_KEYS, NULL);
	cr_expect_str_eq(made.dialect->address, "10.9.8.7");
	cr_expect_eq(made.dialect->service_port, 8080);
	cr_expect_eq(made.dialect->ttl, -1);
	cr_expect_eq(made.dialect->service_ttl, -1);
	cr_expect_eq(made.dialect->ssl_port, 0);
	cr_expect_eq(made.dialect->port_count, 0);
	cr_expect_null(config_instance_lack(made.instance));
	unmake(&made);
	made = make(HOME AT("admin", "10.0.0.1:1\nscope = internal") HTTP
		"[dialect d]\ntype = nerve\npath = /g\n",
		NULL);
	cr_expect_str_eq(made.dialect->endpoint.host, "10.9.8.7", "the first external one");
	unmake(&made);
	made = make(
		HOME AT("admin",
			"10.0.0.1:1\nscope = internal") "[dialect d]\ntype = nerve\npath = /g\n",
		NULL);
	cr_expect_str_eq(made.dialect->endpoint.host, "10.0.0.1", "the first, as none is external");
	unmake(&made);
	made = make(HOME HTTP AT("admin", "10.0.0.1:1") "[dialect d]\ntype = nerve\npath = /g\n"
							"endpoint = admin\nweight = 2\n"
							"labels.zone = a\nlabels.rack = b\n",
		NULL);
	cr_expect_eq(made.dialect->endpoint.port, 1);
	cr_expect_eq(made.dialect->weight, 2);
	cr_assert_eq(made.dialect->pair_count, 2);
	cr_expect_str_eq(made.dialect->pairs[0].name, "zone");
	cr_expect_str_eq(made.dialect->pairs[1].name, "rack");
	cr_expect_str_eq(made.dialect->pairs[1].value, "b");
	cr_expect_str_eq(made.dialect->instance_id, "b", "the component's name");
	unmake(&made);
}

Test(config_dialect, defaults_are_for_what_is_not_written)
{
	char *host = config_short_host_name();
	struct made made = make(REGISTRAR REGISTRAR_KEYS, NULL);
	cr_expect_str_eq(made.dialect->host_name, host);
	unmake(&made);
	made = make(DIALECT("spring") "service = web\nbase = /s\ninstance_id = i\n", NULL);
	cr_expect_str_eq(made.dialect->base, "/s");
	cr_expect_str_eq(made.dialect->instance_id, "i");
	unmake(&made);
	made = make(DIALECT("nerve") "path = /g\ninstance_id = i\n", NULL);
	cr_expect_str_eq(made.dialect->instance_id, "i");
	unmake(&made);
	free(host);
}

Test(config_dialect, a_spring_instance_has_an_id_that_stays)
{
	static const char text[] = HOME HTTP AT("tls",
		"10.0.0.1:443") "[dialect d]\ntype = spring\nservice = web\nssl_endpoint = tls\n"
				"metadata.k = v\n";
	struct made made = make(text, NULL);
	struct made again = make(text, NULL);
	cr_expect_str_eq(made.dialect->base, "/services");
	cr_expect_eq(made.dialect->ssl_port, 443);
	cr_expect_str_eq(made.dialect->pairs[0].value, "v");
	cr_expect_str_eq(made.dialect->context_id, "b");
	/* An agent that is upgraded finds its node again. */
	cr_expect_str_eq(made.dialect->instance_id, "ba7faa45-1bc7-8d78-8b5e-2110fa46c3ed");
	cr_expect_str_eq(made.dialect->instance_id, again.dialect->instance_id);
	unmake(&again);
	unmake(&made);
}

Test(config_dialect, a_member_has_every_additional_endpoint)
{
	static const char dialect[] =
		"[dialect d]\ntype = serverset\npath = /g\nadditional = metrics, admin\n";
	char text[1000] = HOME HTTP AT("admin", "10.0.0.1:1") AT("metrics", "10.0.0.2:2");
	strcat(text, dialect);
	struct made made = make(text, NULL);
	cr_assert_eq(made.dialect->additional_count, 2);
	cr_expect_str_eq(made.dialect->additional[0].name, "metrics");
	cr_expect_eq(made.dialect->additional[0].port, 2);
	cr_expect_str_eq(made.dialect->additional[1].name, "admin");
	cr_expect_str_eq(made.dialect->additional[1].host, "10.0.0.1");
	unmake(&made);
}

#define MEMBER "[dialect d]\ntype = serverset\npath = /g\nadditional = admin\n"

Test(config_dialect, an_endpoint_that_is_out_has_no_port)
{
	static const char text[] = HOME HTTP AT("admin", "10.0.0.1:1") MEMBER;
	const struct config_record_endpoint first_out[2] = { { .out = true } };
	const struct config_record_endpoint both_out[2] = { { .out = true }, { .out = true } };
	const struct config_record_endpoint second_out[2] = { { 0 }, { .out = true } };
	struct made made = make(text, first_out);
	cr_expect_eq(made.dialect->endpoint.port, 0);
	cr_expect_eq(made.dialect->additional[0].port, 1);
	cr_expect_str_eq(config_instance_lack(made.instance),
		"endpoint http is out: a check of it is not up");
	unmake(&made);
	made = make(text, both_out);
	cr_expect_eq(made.dialect->additional[0].port, 0);
	cr_expect(strstr(config_instance_lack(made.instance), "http"), "the first one is named");
	unmake(&made);
	made = make(text, second_out);
	cr_expect_eq(made.dialect->endpoint.port, 8080);
	cr_expect_str_eq(config_instance_lack(made.instance),
		"endpoint admin is out: a check of it is not up");
	unmake(&made);
}

Test(config_dialect, a_dynamic_endpoint_is_where_its_writer_says)
{
	static const char text[] = HOME
		"[endpoint http]\napi = x\nprotocol = p\naddress_type = host/port\ndynamic = yes\n"
		"[dialect d]\ntype = serverset\npath = /g\n";
	struct made made = make(text, NULL);
	cr_expect_eq(made.dialect->endpoint.port, 0);
	cr_expect_str_eq(config_instance_lack(made.instance), "endpoint http has no address yet");
	unmake(&made);
	const struct config_record_endpoint supplied = {
		.addresses = json_pack("[{s:s, s:s}]", "host", "h", "port", "80"),
	};
	made = make(text, &supplied);
	cr_expect_str_eq(made.dialect->endpoint.host, "h");
	cr_expect_eq(made.dialect->endpoint.port, 80);
	cr_expect_null(config_instance_lack(made.instance));
	unmake(&made);
	json_decref(supplied.addresses);
}

Test(config_dialect, an_address_that_names_no_host_gives_no_port)
{
	struct made made = make(HOME
		"[endpoint http]\napi = x\nprotocol = p\naddress_type = path\naddress = /run/s\n"
		"[dialect d]\ntype = curator\nbase = /s\nservice = w\npayload = [1]\n",
		NULL);
	cr_expect_eq(made.dialect->endpoint.port, 0);
	cr_expect_eq(json_array_size(made.dialect->payload), 1);
	cr_expect_null(config_instance_lack(made.instance));
	unmake(&made);
	config_instance_free(NULL);
}
