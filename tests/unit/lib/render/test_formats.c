/* Every format, with the endpoints of one record. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/render/locality.h"
#include "lib/render/render.h"

TestSuite(render_formats);

#define A(host, port) "{\"host\":\"" host "\",\"port\":\"" port "\"}"
#define ENDPOINT(api, addresses)                                                                   \
	"{\"api\":\"" api                                                                          \
	"\",\"addressType\":\"host/port\",\"protocol\":\"p\",\"addresses\":[" addresses "]}"
#define RECORD(attributes, endpoint)                                                               \
	"{\"type\":\"JSONServiceRecord\"," attributes "\"external\":[" endpoint "],\"internal\":[]}"
#define ONE(addresses) RECORD("", ENDPOINT("urn:a", addresses))
#define WEIGHT(weight, addresses) RECORD("\"weight\":" weight ",", ENDPOINT("urn:a", addresses))

static struct render_result result;
static char text[1 << 16];

static const char *address_of(void *context, const char *name, size_t index)
{
	static const char *const addresses[] = { "10.0.0.7", "::7" };
	cr_assert_eq(context, text);
	return strcmp(name, "two") == 0 && index < 2 ? addresses[index] : NULL;
}

static const char *write_as(const struct render_options *options, const char *record_text)
{
	struct record *record;
	struct buffer out;
	struct err err = ERR_INIT;
	cr_assert_eq(record_decode(&record, record_text, strlen(record_text), &err), 0, "%s: %s",
		record_text, err.msg);
	const struct render_member member = { .path = "/a/c1", .record = record };
	const struct render_picture picture = { "/a", &member, 1 };
	buffer_init(&out, sizeof(text) - 1);
	cr_assert_eq(render_write(&out, &picture, options, &result, &err), 0, "%s", err.msg);
	strcpy(text, buffer_text(&out));
	buffer_finish(&out);
	record_free(record);
	return text;
}

#define LABELS                                                                                     \
	"\"labels\":{\"__meta_berth_path\":\"/a/c1\",\"__meta_berth_name\":\"c1\","                \
	"\"__meta_berth_scope\":\"external\",\"__meta_berth_api\":\"urn:a\","                      \
	"\"__meta_berth_protocol\":\"p\""
#define JSON_OBJECT "\n{\"path\":\"/a/c1\",\"scope\":\"external\",\"api\":\"urn:a\","
#define JSON_ITEM(host, port)                                                                      \
	"\"protocol\":\"p\",\"addressType\":\"host/port\",\"address\":{\"host\":\"" host           \
	"\",\"port\":\"" port "\"}}"

static const struct {
	enum render_format format;
	const char *record;
	const char *text;
	const char *why; /* behind "left out: /a/c1 " */
} rows[] = {
	{ RENDER_LINES, ONE(A("a", "1") "," A("::1", "2")), "a:1\n[::1]:2\n", "" },
	{ RENDER_LINES, ONE(A("a\\u001bb", "1")), "", "\"a\\x1bb:1\" holds control characters" },
	{ RENDER_LINES, ONE("{\"x\":\"1\"}"), "", "has no text" },
	{ RENDER_JSON, ONE(A("a", "1") "," A("b", "2")),
		"[" JSON_OBJECT JSON_ITEM("a", "1") "," JSON_OBJECT JSON_ITEM("b", "2") "\n]\n",
		"" },
	{ RENDER_JSON, ONE(A("a\\u202eb", "1")),
		"[" JSON_OBJECT JSON_ITEM("a\\u202eb", "1") "\n]\n", "" },
	{ RENDER_PROMETHEUS, ONE(A("a", "1")), "[\n{\"targets\":[\"a:1\"]," LABELS "}}\n]\n", "" },
	{ RENDER_PROMETHEUS,
		RECORD("\"yarn:component\":\"httpd\",\"yarn:hostname\":\"h\\u202e1\","
		       "\"description\":\"\",",
			ENDPOINT("urn:a", A("::1", "1"))),
		"[\n{\"targets\":[\"[::1]:1\"]," LABELS ",\"__meta_berth_component\":\"httpd\","
		"\"__meta_berth_hostname\":\"h\\u202e1\"}}\n]\n",
		"" },
	{ RENDER_PROMETHEUS, ONE(A("a", "")), "[]\n", "has no port" },
	{ RENDER_HAPROXY, WEIGHT("3", A("::1", "1") "," A("a", "2")),
		"    server berth:c1 [::1]:1 weight 3\n"
		"    server berth:c1_2 a:2 weight 3 init-addr last,libc,none\n",
		"" },
	{ RENDER_HAPROXY, ONE(A("a..b", "1")), "",
		"\"a..b:1\" names neither an address nor a host name" },
	{ RENDER_NGINX, WEIGHT("3", A("::1", "1") "," A("two", "2")),
		"server [::1]:1 weight=3;\nserver 10.0.0.7:2 weight=3;\n"
		"server [::7]:2 weight=3;\n",
		"" },
	{ RENDER_NGINX, ONE(A("two", "") "," A("other", "1")), "server 127.0.0.1:9 down;\n",
		"has no port; /a/c1 \"other:1\" is a name without an address" },
	{ RENDER_HOSTS, ONE(A("a", "1") "," A("1.2.3.4", "")),
		"# components of /a\n1.2.3.4\tc1.a.berth\n", "\"a:1\" is a name, not an address" },
	{ RENDER_HOSTS, ONE(A("..", "1")), "# components of /a\n",
		"\"..:1\" names neither an address nor a host name" },
	{ RENDER_ENV, ONE(A("::1", "1") "," A("-", "2") "," A("b", "")),
		"_9_A_1=[::1]:1\n_9_A_1_HOST=::1\n_9_A_1_PORT=1\n_9_A_2=b\n_9_A_2_HOST=b\n"
		"_9_A_COUNT=2\n_9_A=\"[::1]:1 b\"\n",
		"\"-:2\" names neither an address nor a host name" },
};

Test(render_formats, each_keeps_what_it_can_hold_and_names_the_rest)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct render_options options = { .format = rows[i].format,
			.name = "9-a",
			.domain = "berth",
			.address_of = address_of,
			.address_context = text };
		char why[RENDER_WHY_BYTES];
		snprintf(why, sizeof(why), "%s%s", *rows[i].why ? "left out: /a/c1 " : "",
			rows[i].why);
		cr_expect_str_eq(write_as(&options, rows[i].record), rows[i].text, "%s: %s",
			render_format_names[rows[i].format], text);
		cr_expect_str_eq(
			result.why, why, "%s: %s", render_format_names[rows[i].format], result.why);
	}
}

Test(render_formats, nginx_gets_no_name_that_nobody_looks_up)
{
	write_as(&(struct render_options){ .format = RENDER_NGINX }, ONE(A("two", "1")));
	cr_expect_str_eq(text, "server 127.0.0.1:9 down;\n");
	cr_expect_eq(result.left_out, 1);
}

Test(render_formats, a_backend_is_named_where_it_has_a_name)
{
	static const char *const backends[][2] = { { NULL, "" }, { "", "" },
		{ "web", "backend web\n" } };
	for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
		const struct render_options options = { .format = RENDER_HAPROXY,
			.backend = backends[i][0] };
		cr_expect_str_eq(write_as(&options, ONE("")), backends[i][1]);
	}
}

#define SOCKET(host, port)                                                                         \
	"{\"endpoint\":{\"address\":{\"socket_address\":{\"address\":\"" host                      \
	"\",\"port_value\":" port "}}}"

Test(render_formats, envoy_gets_the_addresses_of_one_cluster)
{
	static const struct {
		const char *record;
		const char *text; /* in the list of endpoints */
		const char *why;
	} envoy[] = {
		{ WEIGHT("4", A("::1", "1") "," A("10.0.0.1", "2")),
			"\n" SOCKET("::1", "1") ",\"load_balancing_weight\":4},\n" SOCKET(
				"10.0.0.1", "2") ",\"load_balancing_weight\":4}\n",
			"" },
		{ ONE(A("::1", "1")), "\n" SOCKET("::1", "1") "}\n", "" },
		{ ONE(A("a", "1") "," A("::1", "")), "\n",
			"left out: /a/c1 \"a:1\" is a name, and Envoy takes addresses only; "
			"/a/c1 has no port" },
	};
	for (size_t i = 0; i < ARRAY_LEN(envoy); i++) {
		static const char head[] =
			"{\"resources\":[{\"@type\":\"type.googleapis.com/"
			"envoy.config.endpoint.v3.ClusterLoadAssignment\",\"cluster_name\":\"9-a\","
			"\"endpoints\":[{\"lb_endpoints\":[";
		static const char tail[] = "]}]}],\"version_info\":\"";
		const struct render_options options = { .format = RENDER_ENVOY, .name = "9-a" };
		char wanted[2000];
		write_as(&options, envoy[i].record);
		snprintf(wanted, sizeof(wanted), "%s%s%s", head, envoy[i].text, tail);
		cr_expect_eq(strncmp(text, wanted, strlen(wanted)), 0, "%s", text);
		cr_expect_str_eq(text + strlen(wanted) + 16, "\"}\n");
		cr_expect_str_eq(result.why, envoy[i].why, "%s", result.why);
	}
}

/* A record with one address, and these attributes, each with a comma behind it. */
static struct record *member(const char *host, const char *attributes)
{
	char json[500];
	struct record *record;
	snprintf(json, sizeof(json),
		"{\"type\":\"JSONServiceRecord\",%s\"external\":[{\"api\":\"\","
		"\"protocolType\":\"tcp\",\"addressType\":\"host/port\",\"addresses\":["
		"{\"host\":\"%s\",\"port\":\"80\"}]}]}",
		attributes, host);
	cr_assert_eq(record_decode(&record, json, strlen(json), NULL), 0, "%s", json);
	return record;
}

Test(render_formats, envoy_gets_localities_with_weights_priorities_and_health)
{
	struct record *records[] = { member("10.0.0.1", "\"berth:zone\":\"us/b\",\"weight\":3,"),
		member("10.0.0.2", "\"berth:zone\":\"eu/a/r'1/x\","),
		member("10.0.0.3", "\"berth:health\":\"draining\","),
		member("10.0.0.4", "\"berth:zone\":\"us/b\",\"berth:health\":\"warning\",") };
	struct render_member members[] = { { .path = "/a/c1", .record = records[0] },
		{ .path = "/a/c2", .record = records[1] },
		{ .path = "/a/c3", .record = records[2] },
		{ .path = "/a/c4", .record = records[3] } };
	static const char *const parts[] = {
		"{\"locality\":{\"region\":\"eu\",\"zone\":\"a\",\"sub_zone\":\"r'1/x\"},",
		"\"10.0.0.2\",\"port_value\":80}}}}\n],\"load_balancing_weight\":1},",
		"{\"lb_endpoints\":[\n",
		"\"10.0.0.3\",\"port_value\":80}}},\"health_status\":\"DRAINING\"}\n],",
		"\"priority\":1,\"load_balancing_weight\":1},",
		"{\"locality\":{\"region\":\"us\",\"zone\":\"b\"},\"lb_endpoints\":[\n",
		"\"10.0.0.1\",\"port_value\":80}}},\"load_balancing_weight\":3},\n",
		"\"10.0.0.4\",\"port_value\":80}}},\"health_status\":\"DEGRADED\"}\n],",
		"\"priority\":1,\"load_balancing_weight\":4}]}],\"version_info\":\"",
	};
	const struct render_picture picture = { "/a", members, 4 };
	render_by_nearness(members, 4, "eu/a");
	const struct render_options options = { .format = RENDER_ENVOY, .name = "a" };
	struct buffer out;
	struct render_result got;
	struct err err = ERR_INIT;
	buffer_init(&out, 1 << 16);
	cr_assert_eq(render_write(&out, &picture, &options, &got, &err), 0);
	const char *at = buffer_text(&out);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const char *found = strstr(at, parts[i]);
		cr_assert(found, "%s is not in %s", parts[i], at);
		at = found + strlen(parts[i]);
	}
	cr_expect_eq(got.items, 4);
	buffer_finish(&out);
	for (size_t i = 0; i < picture.count; i++) {
		record_free(records[i]);
	}
}

Test(render_formats, a_weight_is_a_number_from_0_to_65535_and_else_1)
{
	static const struct {
		const char *attribute;
		unsigned weight;
	} weights[] = { { "1", 1 }, { "0", 0 }, { "65535", 65535 }, { "65536", 1 }, { "-5", 1 },
		{ "7.0", 1 }, { "true", 1 }, { "\"7\"", 7 }, { "\"65535\"", 65535 },
		{ "\"65536\"", 1 }, { "\"0\"", 0 }, { "\"00007\"", 7 }, { "\"000007\"", 1 },
		{ "\"7x\"", 1 }, { "\"-7\"", 1 }, { "\"\"", 1 } };
	for (size_t i = 0; i < ARRAY_LEN(weights); i++) {
		char json[200];
		struct record *record;
		snprintf(json, sizeof(json), "{\"type\":\"JSONServiceRecord\",\"weight\":%s}",
			weights[i].attribute);
		cr_assert_eq(record_decode(&record, json, strlen(json), NULL), 0, "%s", json);
		cr_expect_eq(render_weight(record), weights[i].weight, "%s", json);
		record_free(record);
	}
}

/* ---- a text that is made in parts ---- */

static int write_part(struct buffer *out, enum render_format format, const char *record_text,
	size_t *items, struct err *err)
{
	const struct render_options options = { .format = format };
	struct record *record;
	cr_assert_eq(record_decode(&record, record_text, strlen(record_text), NULL), 0);
	const struct render_member member = { .path = "/a/c1", .record = record };
	const struct render_picture picture = { "/a", &member, 1 };
	int code = render_write_items(out, &picture, &options, items, err);
	record_free(record);
	return code;
}

Test(render_formats, parts_follow_each_other)
{
	struct buffer out;
	struct err err = ERR_INIT;
	size_t items = 0;
	buffer_init(&out, 1000);
	cr_assert_eq(write_part(&out, RENDER_JSON, ONE(""), &items, &err), 0);
	cr_assert_eq(items, 0);
	cr_assert_eq(write_part(&out, RENDER_JSON, ONE(A("a", "1")), &items, &err), 0);
	cr_assert_eq(items, 1);
	cr_assert_eq(write_part(&out, RENDER_JSON, ONE(A("b\\u202e", "2")), &items, &err), 0);
	cr_assert_eq(items, 2);
	cr_expect_str_eq(buffer_text(&out),
		JSON_OBJECT JSON_ITEM("a", "1") "," JSON_OBJECT JSON_ITEM("b\\u202e", "2"));
	buffer_finish(&out);
}

Test(render_formats, a_part_beyond_the_limit_is_an_error)
{
	struct buffer out;
	struct err err = ERR_INIT;
	size_t items = 0;
	buffer_init(&out, 40);
	cr_assert_eq(write_part(&out, RENDER_JSON, ONE(A("a", "1")), &items, &err),
		BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(err.msg, "/a as json have more than 40 bytes"), "%s", err.msg);
	buffer_finish(&out);
}
