#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/bridge/describe.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/text.h"
#include "lib/record/record.h"

enum { LABELS = 16, PORTS = 4 };

struct row {
	const char *labels; /* NAME=VALUE, separated by |; a variable begins with $ */
	const char
		*ports; /* "80:8080", "53/udp:53", "80" for one that is not published, by blanks */
	const char *form;   /* of the runtime's labels, and words of its other options */
	const char *result; /* "PATH API PROTOCOL HOST:PORT, check TYPE TARGET", "! problem" … */
};

/* ---- from texts to facts ---- */

static void add_label(struct bridge_facts *facts, const char *text)
{
	bool is_variable = *text == '$';
	const char *equals = strchr(text, '=');
	struct config_name_value *pair = is_variable ? &facts->variables[facts->variable_count++]
						     : &facts->labels[facts->label_count++];
	text += is_variable;
	pair->name = allocate_bytes(text, (size_t)(equals - text));
	pair->value = allocate_text(equals + 1);
}

static void add_port(struct bridge_facts *facts, const char *text)
{
	struct facts_port *port = &facts->ports[facts->port_count++];
	const char *slash = strchr(text, '/');
	const char *colon = strchr(text, ':');
	const char *at = strchr(text, '@');
	port->number = (unsigned)atoi(text);
	port->protocol = allocate_text(slash ? "udp" : "tcp");
	port->host = allocate_text(at ? at + 1 : "0.0.0.0");
	port->host_port = colon ? (unsigned)atoi(colon + 1) : 0;
}

static void each_word(const char *text, char separator, struct bridge_facts *facts,
	void (*add)(struct bridge_facts *facts, const char *word))
{
	while (*text) {
		const char *end = strchrnul(text, separator);
		char *word = allocate_bytes(text, (size_t)(end - text));
		add(facts, word);
		free(word);
		text = *end ? end + 1 : end;
	}
}

static void make_facts(struct bridge_facts *facts, const struct row *row)
{
	memset(facts, 0, sizeof(*facts));
	text_printf(facts->id, sizeof(facts->id), "0123456789abcdef");
	facts->error = allocate_text("");
	facts->name = allocate_text("web-1");
	facts->image = allocate_text("dockerfile/redis:latest");
	facts->host_name = allocate_text("inside");
	facts->network_mode = allocate_text(strstr(row->form, "hosted") ? "host" : "bridge");
	facts->labels = allocate_zeroed(LABELS, sizeof(*facts->labels));
	facts->variables = allocate_zeroed(LABELS, sizeof(*facts->variables));
	facts->ports = allocate_zeroed(PORTS, sizeof(*facts->ports));
	facts->networks = allocate_zeroed(1, sizeof(*facts->networks));
	facts->network_count = 1;
	facts->networks[0].name = allocate_text("backend");
	facts->networks[0].ip = allocate_text(strstr(row->form, "six") ? "" : "172.17.0.2");
	facts->networks[0].ip6 = allocate_text("2001:db8::2");
	each_word(row->labels, '|', facts, add_label);
	each_word(row->ports, ' ', facts, add_port);
}

/* ---- from services to a text ---- */

static void append_service(struct buffer *out, const struct bridge_service *service)
{
	struct record *record = NULL;
	struct err err = ERR_INIT;
	buffer_printf(out, "%s%s", out->len ? "; " : "", service->config->components[0].path);
	if (!service->data) {
		buffer_printf(out, " ? %s", service->mistake->msg);
		return;
	}
	cr_assert_eq(record_decode(&record, service->data, service->len, &err), 0, "%s", err.msg);
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		char *address = NULL;
		cr_assert_eq(record_address_text(endpoint.address_type,
				     json_array_get(endpoint.addresses, 0), &address),
			0);
		buffer_printf(out, " %s %s %s", endpoint.api, endpoint.protocol, address);
		free(address);
	}
	static const char *const shown[] = { "colour", "tags", "region" };
	for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
		const char *value = json_string_value(record_attribute(record, shown[i]));
		if (value) {
			buffer_printf(out, " %s=%s", shown[i], value);
		}
	}
	for (size_t i = 0; i < service->config->check_count; i++) {
		buffer_printf(out, ", check %s", service->config->checks[i].target);
	}
	record_free(record);
}

ParameterizedTestParameters(labels, describe)
{
#define ENDPOINT "berth.endpoint.http.port=80"
	static struct row rows[] = {
		/* places */
		{ "berth.path=/s/web|" ENDPOINT, "80:8080", "berth",
			"/s/web http tcp 192.0.2.7:8080" },
		{ "berth.name=web|" ENDPOINT, "80:8080", "berth",
			"/services/web/components/0123456789ab http tcp 192.0.2.7:8080" },
		{ "berth.name=web|berth.instance=c1|" ENDPOINT, "80:8080", "berth",
			"/services/web/components/c1 http tcp 192.0.2.7:8080" },
		{ "berth.user=joe|berth.service_class=web|berth.instance=prod|berth.name=c1", "",
			"berth", "/users/joe/web/prod/components/c1" },
		{ "berth.user=joe|berth.service_class=web", "", "berth",
			"! label berth.user: needs service_class and instance, too" },
		{ "org.x.path=/s/web|org.x.endpoint.a.port=80", "80:1", "org.x",
			"/s/web a tcp 192.0.2.7:1" },
		{ "berth.path=/s/web", "", "org.x", "" },
		/* addresses */
		{ "berth.path=/s/web|" ENDPOINT, "80:8080@10.1.1.1", "berth",
			"/s/web http tcp 10.1.1.1:8080" },
		{ "berth.path=/s/web|" ENDPOINT, "80:8080@127.0.0.1", "berth",
			"/s/web ? endpoint http: port 80/tcp is published at 127.0.0.1 alone, "
			"which "
			"no other host reaches" },
		{ "berth.path=/s/web|" ENDPOINT, "80:8080@:: 80:8081", "berth",
			"/s/web http tcp 192.0.2.7:8081" },
		{ "berth.path=/s/web|" ENDPOINT, "", "berth hosted",
			"/s/web http tcp 192.0.2.7:80" },
		{ "berth.path=/s/web|" ENDPOINT, "80:8080", "berth own",
			"/s/web http tcp 172.17.0.2:80" },
		{ "berth.path=/s/web|" ENDPOINT, "", "berth network",
			"/s/web http tcp 172.17.0.2:80" },
		{ "berth.path=/s/web|" ENDPOINT, "80:8080", "berth own six",
			"/s/web http tcp [2001:db8::2]:80" },
		{ "berth.path=/s/web|" ENDPOINT, "", "berth",
			"/s/web ? endpoint http: port 80/tcp is not published (`network` of "
			"[runtime docker] announces the container's own address)" },
		{ "berth.path=/s/web|berth.endpoint.dns.port=53/udp", "53/udp:5353", "berth",
			"/s/web dns tcp 192.0.2.7:5353" },
		{ "berth.path=/s/web|" ENDPOINT "|berth.endpoint.http.address_type=uri|"
		  "berth.endpoint.http.address=http://{host}:{port}/a|"
		  "berth.endpoint.http.protocol=REST",
			"80:8080", "berth", "/s/web http REST http://192.0.2.7:8080/a" },
		{ "berth.path=/s/web|berth.endpoint.http.port=http", "", "berth",
			"/s/web ? endpoint http: must be a port of the container, such as 80 or "
			"53/udp" },
		/* checks */
		{ "berth.path=/s/web|" ENDPOINT
		  "|berth.check.a.type=http|berth.check.a.path=/health",
			"80:8080", "berth",
			"/s/web http tcp 192.0.2.7:8080, check http://192.0.2.7:8080/health" },
		{ "berth.path=/s/web|" ENDPOINT "|berth.check.a.type=tcp|berth.check.a.port=81",
			"80:8080 81:8081", "berth",
			"/s/web http tcp 192.0.2.7:8080, check 192.0.2.7:8081" },
		{ "berth.path=/s/web|" ENDPOINT
		  "|berth.check.a.type=grpc|berth.check.a.service=shop.v1.Shop",
			"80:8080", "berth",
			"/s/web http tcp 192.0.2.7:8080, check 192.0.2.7:8080" },
		{ "berth.path=/s/web|" ENDPOINT "|berth.check.a.type=command", "80:8080", "berth",
			"/s/web ? check a needs a type: http, tcp or grpc" },
		/* other values */
		{ "berth.path=/s/web|berth.attribute.colour=${HOME}", "", "berth",
			"/s/web colour=${HOME}" },
		{ "berth.path=/s/web|berth.colour=blue", "", "berth",
			"/s/web! label berth.colour: there is no such label" },
		{ "berth.path=/s/web|berth.ignore=yes", "", "berth", "ignored" },
		{ "berth.path=/S", "", "berth",
			"! label berth.path: path \"/S\": element 1 \"S\" holds a character that "
			"is "
			"not allowed; an element has 1 to 63 characters of a-z, 0-9 and, not at "
			"its "
			"ends, -" },
		/* a default of the host's */
		{ "", "", "berth default", "/services/web-1" },
		{ "berth.path=/s/web", "", "berth default", "/s/web" },
		/* Registrator's user guide, "Service Object": names and ports. */
		{ "", "6379:10000", "registrator",
			"/services/redis/components/0123456789ab-6379 redis tcp 192.0.2.7:10000" },
		{ "$SERVICE_NAME=db|$SERVICE_TAGS=master,backups|$SERVICE_REGION=us2", "6379:10000",
			"registrator",
			"/services/db/components/0123456789ab-6379 db tcp 192.0.2.7:10000 "
			"tags=master,backups region=us2" },
		{ "", "443:4443 80:8000", "registrator",
			"/services/redis-443/components/0123456789ab-443 redis-443 tcp "
			"192.0.2.7:4443; /services/redis-80/components/0123456789ab-80 redis-80 "
			"tcp "
			"192.0.2.7:8000" },
		{ "$SERVICE_443_NAME=https|$SERVICE_443_ID=https.12345|$SERVICE_80_NAME=http|"
		  "$SERVICE_TAGS=www",
			"443:4443 80:8000", "registrator",
			"/services/https/components/https-12345-31429e3a https tcp 192.0.2.7:4443 "
			"tags=www; /services/http/components/0123456789ab-80 http tcp "
			"192.0.2.7:8000 tags=www" },
		{ "SERVICE_NAME=web", "443:4443 80:8000", "registrator",
			"/services/web-443/components/0123456789ab-443 web-443 tcp 192.0.2.7:4443; "
			"/services/web-80/components/0123456789ab-80 web-80 tcp 192.0.2.7:8000" },
		{ "$SERVICE_443_IGNORE=true", "443:4443 80:8000", "registrator",
			"/services/redis-80/components/0123456789ab-80 redis-80 tcp "
			"192.0.2.7:8000" },
		{ "SERVICE_IGNORE=yes", "80:8000", "registrator", "ignored" },
		{ "$SERVICE_NAME=dns", "53/udp:53", "registrator",
			"/services/dns/components/0123456789ab-53-udp dns udp 192.0.2.7:53 "
			"tags=udp" },
		{ "SERVICE_NAME=label|$SERVICE_NAME=variable", "80:1", "registrator",
			"/services/label/components/0123456789ab-80 label tcp 192.0.2.7:1" },
		{ "SERVICE_NAME=web|SERVICE_80_CHECK_HTTP=/health|SERVICE_80_CHECK_INTERVAL=15s",
			"80:8000", "registrator",
			"/services/web/components/0123456789ab-80 web tcp 192.0.2.7:8000, check "
			"http://192.0.2.7:8000/health" },
		{ "SERVICE_NAME=web|SERVICE_CHECK_SCRIPT=curl", "80:8000", "registrator",
			"/services/web/components/0123456789ab-80 web tcp 192.0.2.7:8000! "
			"check_script of port 80 is not taken: no label runs a command" },
		{ "SERVICE_NAME=web", "80", "registrator", "! port 80/tcp is not published" },
		{ "berth.path=/s/web", "80:8000", "berth registrator", "/s/web" },
	};
	return cr_make_param_array(struct row, rows, ARRAY_LEN(rows));
}

ParameterizedTest(struct row *row, labels, describe)
{
	char *forms[2];
	struct config_name_value defaults = { (char *)"berth.path",
		(char *)"/services/${container.name}" };
	struct config_container policy = { .labels = &defaults,
		.label_count = strstr(row->form, "default") != NULL };
	struct config_runtime runtime = { .name = (char *)"docker",
		.labels = forms,
		.address = (char *)(strstr(row->form, "own") ? "container" : "192.0.2.7"),
		.network = (char *)(strstr(row->form, "network") ? "backend" : ""),
		.base = (char *)"/services" };
	if (strstr(row->form, "berth")) {
		forms[runtime.label_count++] = (char *)"berth";
	}
	if (strstr(row->form, "org.x")) {
		forms[runtime.label_count++] = (char *)"org.x";
	}
	if (strstr(row->form, "registrator")) {
		forms[runtime.label_count++] = (char *)"registrator";
	}
	struct bridge_facts facts;
	struct bridge_services services;
	struct buffer out;
	buffer_init(&out, 65536);
	make_facts(&facts, row);
	bridge_services_make(&services, &facts, &runtime, &policy);
	for (size_t i = 0; !services.ignored && i < services.count; i++) {
		append_service(&out, &services.items[i]);
	}
	for (size_t i = 0; i < services.problem_count; i++) {
		buffer_printf(&out, "! %s", services.problems[i]);
	}
	if (services.ignored) {
		buffer_append_text(&out, "ignored");
	}
	cr_assert_str_eq(buffer_text(&out), row->result, "%s: %s", row->labels, buffer_text(&out));
	buffer_finish(&out);
	bridge_services_finish(&services);
	bridge_facts_finish(&facts);
}
