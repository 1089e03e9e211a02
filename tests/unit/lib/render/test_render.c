/* One picture in every format. */
#include <criterion/criterion.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/render/render.h"

TestSuite(render);

#define FROM "/users/joe/web/prod/components"

static const char *const records[][2] = {
	{ FROM,
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"urn:lb\","
		"\"addressType\":\"hostname\",\"protocol\":\"http\","
		"\"addresses\":[{\"hostname\":\"lb.example.org\"}]}]}" },
	{ FROM "/c1",
		"{\"type\":\"JSONServiceRecord\",\"description\":\"a \\\"web\\\"\","
		"\"yarn:id\":\"id_1\",\"weight\":\"5\",\"external\":[{\"api\":\"urn:rest\","
		"\"addressType\":\"host/port\",\"protocol\":\"http\","
		"\"addresses\":[{\"host\":\"10.0.0.1\",\"port\":\"80\"},{\"host\":\"2001:db8::1\","
		"\"port\":\"80\"}]}],\"internal\":[{\"api\":\"urn:log\",\"addressType\":\"path\","
		"\"protocol\":\"\",\"addresses\":[{\"path\":\"/var/log\"}]}]}" },
	{ FROM "/c2",
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"urn:rest\","
		"\"addressType\":\"uri\",\"protocol\":\"HTTP\","
		"\"addresses\":[{\"uri\":\"http://c2.example.org:8080/a\"}]}]}" },
};

#define COUNT (ARRAY_LEN(records))

static struct render_member members[COUNT];
static struct render_result result;
static char addresses_of_names[1];
static char text[1 << 16];

/* The addresses of c2.example.org. */
static const char *address_of(void *context, const char *name, size_t index)
{
	static const char *const addresses[] = { "10.0.0.7", "::7" };
	cr_assert_eq(context, addresses_of_names);
	return strcmp(name, "c2.example.org") == 0 && index < 2 ? addresses[index] : NULL;
}

static const char *write_as(enum render_format format, const char *api, size_t count)
{
	struct render_options options = { .format = format,
		.filter = { .api = api },
		.name = "web-1",
		.backend = format == RENDER_HAPROXY && !api ? "web" : NULL,
		.domain = "berth",
		.address_of = address_of,
		.address_context = addresses_of_names };
	struct render_picture picture = { FROM, members, count };
	struct buffer out;
	struct err err = ERR_INIT;
	for (size_t i = 0; i < COUNT; i++) {
		struct record *record = NULL;
		cr_assert_eq(record_decode(&record, records[i][1], strlen(records[i][1]), &err), 0,
			"%s", err.msg);
		members[i] = (struct render_member){ .path = records[i][0], .record = record };
	}
	buffer_init(&out, sizeof(text) - 1);
	cr_assert_eq(render_write(&out, &picture, &options, &result, &err), 0, "%s", err.msg);
	strcpy(text, buffer_text(&out));
	buffer_finish(&out);
	for (size_t i = 0; i < COUNT; i++) {
		record_free((struct record *)(uintptr_t)members[i].record);
	}
	return text;
}

#define LABELS(name, protocol)                                                                     \
	"\"labels\":{\"__meta_berth_path\":\"" FROM "/" name "\","                                 \
	"\"__meta_berth_name\":\"" name "\",\"__meta_berth_scope\":\"external\","                  \
	"\"__meta_berth_api\":\"urn:rest\",\"__meta_berth_protocol\":\"" protocol "\""
#define C1_LABELS                                                                                  \
	LABELS("c1", "http")                                                                       \
	",\"__meta_berth_id\":\"id_1\",\"__meta_berth_description\":\"a \\\"web\\\"\","            \
	"\"__meta_berth_attribute_weight\":\"5\"}"

#define C1_NAMES                                                                                   \
	"c1.components.prod.web.joe.users.berth c1.prod.web.joe.berth prod.web.joe.users.berth "   \
	"prod.web.joe.berth\n"

static const struct {
	enum render_format format;
	const char *api;
	const char *text;
	size_t left_out;
} rows[] = {
	{ RENDER_LINES, NULL,
		"lb.example.org\n10.0.0.1:80\n[2001:db8::1]:80\n/var/log\n"
		"http://c2.example.org:8080/a\n",
		0 },
	{ RENDER_LINES, "urn:rest", "10.0.0.1:80\n[2001:db8::1]:80\nhttp://c2.example.org:8080/a\n",
		0 },
	{ RENDER_JSON, "urn:log",
		"[\n{\"path\":\"" FROM
		"/c1\",\"scope\":\"internal\",\"api\":\"urn:log\",\"protocol\":\"\","
		"\"addressType\":\"path\",\"address\":{\"path\":\"/var/log\"},\"weight\":5}\n]\n",
		0 },
	{ RENDER_PROMETHEUS, NULL,
		"[\n{\"targets\":[\"10.0.0.1:80\"]," C1_LABELS
		"},\n{\"targets\":[\"[2001:db8::1]:80\"]," C1_LABELS "},\n"
		"{\"targets\":[\"c2.example.org:8080\"]," LABELS("c2", "HTTP") "}}\n]\n",
		2 },
	{ RENDER_HAPROXY, NULL,
		"backend web\n    server berth:c1 10.0.0.1:80 weight 5\n"
		"    server berth:c1_2 [2001:db8::1]:80 weight 5\n"
		"    server berth:c2 c2.example.org:8080 init-addr last,libc,none\n",
		2 },
	{ RENDER_NGINX, "urn:rest",
		"server 10.0.0.1:80 weight=5;\nserver [2001:db8::1]:80 weight=5;\n"
		"server 10.0.0.7:8080;\nserver [::7]:8080;\n",
		0 },
	{ RENDER_HOSTS, "urn:rest",
		"# components of " FROM "\n10.0.0.1\t" C1_NAMES "2001:db8::1\t" C1_NAMES, 1 },
	{ RENDER_ENV, NULL,
		"WEB_1_1=lb.example.org\nWEB_1_1_HOST=lb.example.org\n"
		"WEB_1_2=10.0.0.1:80\nWEB_1_2_HOST=10.0.0.1\nWEB_1_2_PORT=80\n"
		"WEB_1_3=[2001:db8::1]:80\nWEB_1_3_HOST=2001:db8::1\nWEB_1_3_PORT=80\n"
		"WEB_1_4=c2.example.org:8080\nWEB_1_4_HOST=c2.example.org\nWEB_1_4_PORT=8080\n"
		"WEB_1_COUNT=4\nWEB_1=\"lb.example.org 10.0.0.1:80 "
		"[2001:db8::1]:80 c2.example.org:8080\"\n",
		1 },
};

Test(render, every_format_prints_what_it_can_hold)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_str_eq(write_as(rows[i].format, rows[i].api, COUNT), rows[i].text, "%s",
			render_format_names[rows[i].format]);
		cr_expect_eq(result.left_out, rows[i].left_out, "%s",
			render_format_names[rows[i].format]);
	}
}

Test(render, envoy_gets_addresses_with_a_version_that_follows_them)
{
	json_t *first = json_loads(write_as(RENDER_ENVOY, NULL, COUNT), 0, NULL);
	json_t *again = json_loads(write_as(RENDER_ENVOY, NULL, COUNT), 0, NULL);
	json_t *other = json_loads(write_as(RENDER_ENVOY, "urn:lb", COUNT), 0, NULL);
	cr_assert(json_equal(first, again));
	cr_assert_str_neq(json_string_value(json_object_get(first, "version_info")),
		json_string_value(json_object_get(other, "version_info")));
	const json_t *assignment = json_array_get(json_object_get(first, "resources"), 0);
	cr_assert_str_eq(json_string_value(json_object_get(assignment, "cluster_name")), "web-1");
	const json_t *endpoints = json_object_get(
		json_array_get(json_object_get(assignment, "endpoints"), 0), "lb_endpoints");
	cr_assert_eq(json_array_size(endpoints), 2);
	cr_assert_eq(json_integer_value(json_object_get(
			     json_array_get(endpoints, 0), "load_balancing_weight")),
		5);
	json_decref(first);
	json_decref(again);
	json_decref(other);
}

Test(render, an_empty_set_keeps_the_formats_form)
{
	static const char *const empty[] = { "", "[]\n", "[]\n", NULL, "",
		"server 127.0.0.1:9 down;\n", "# components of " FROM "\n",
		"WEB_1_COUNT=0\nWEB_1=\"\"\n" };
	for (int format = 0; format < RENDER_FORMATS; format++) {
		const char *written = write_as((enum render_format)format, "urn:none", COUNT);
		if (empty[format]) {
			cr_expect_str_eq(written, empty[format], "%s", render_format_names[format]);
		}
		cr_expect_eq(result.items, 0);
	}
}

Test(render, a_set_beyond_the_limit_is_an_error)
{
	struct render_options options = { .format = RENDER_ENV, .name = "web" };
	struct render_picture picture = { FROM, members, COUNT };
	write_as(RENDER_LINES, NULL, COUNT);
	struct err err = ERR_INIT;
	struct record *record = NULL;
	cr_assert_eq(record_decode(&record, records[1][1], strlen(records[1][1]), &err), 0);
	members[0] = members[1] = members[2] = (struct render_member){ .path = FROM "/c1",
		.record = record };
	struct buffer out;
	buffer_init(&out, 40);
	cr_assert_eq(render_write(&out, &picture, &options, &result, &err), BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(err.msg, "as env have more than 40 bytes"), "%s", err.msg);
	buffer_finish(&out);
	record_free(record);
}

Test(render, servers_are_named_by_their_paths)
{
	char name[RENDER_SERVER_NAME_BYTES];
	render_server_name(name, "/a/b", "/a/b/c1", 0);
	cr_assert_str_eq(name, "berth:c1");
	render_server_name(name, "/a/b", "/a/b/c/d", 2);
	cr_assert_str_eq(name, "berth:c.d_3");
	render_server_name(name, "/a/b", "/a/b", 0);
	cr_assert_str_eq(name, "berth:_b");
	render_server_name(name, "/a/b", "/a/b", 1);
	cr_assert_str_eq(name, "berth:_b_2");
	render_server_name(name, "/", "/a/b", 1);
	cr_assert_str_eq(name, "berth:a.b_2");
}

/* The line of /etc/hosts for a record of this path. */
static const char *hosts_line(const char *path)
{
	static const char address[] =
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"x\","
		"\"addressType\":\"hostname\",\"protocol\":\"\","
		"\"addresses\":[{\"hostname\":\"::\"}]}]}";
	struct render_options options = { .format = RENDER_HOSTS, .domain = "berth" };
	struct err err = ERR_INIT;
	struct record *record;
	struct buffer out;
	cr_assert_eq(record_decode(&record, address, strlen(address), NULL), 0);
	const struct render_member member = { .path = path, .record = record };
	const struct render_picture picture = { "/", &member, 1 };
	buffer_init(&out, sizeof(text) - 1);
	cr_assert_eq(render_write(&out, &picture, &options, &result, &err), 0);
	strcpy(text, buffer_text(&out));
	buffer_finish(&out);
	record_free(record);
	const char *line = strchr(text, '\t');
	return line ? line + 1 : "";
}

Test(render, hosts_have_the_names_that_dns_answers)
{
	cr_expect_str_eq(hosts_line("/services/db"), "db.services.berth\n");
	cr_expect_str_eq(
		hosts_line("/users/joe/web/prod"), "prod.web.joe.users.berth prod.web.joe.berth\n");
	cr_expect_str_eq(hosts_line("/users/joe/services/web/prod"),
		"prod.web.services.joe.users.berth prod.web.joe.berth\n");
	cr_expect_str_eq(hosts_line("/users/joe/services/web/prod/components/c1"),
		"c1.components.prod.web.services.joe.users.berth c1.prod.web.joe.berth "
		"prod.web.services.joe.users.berth prod.web.joe.berth\n");
	cr_expect_str_eq(hosts_line("/services/cart/components/i1"),
		"i1.components.cart.services.berth i1.cart.services.berth cart.services.berth\n");
	cr_expect_str_eq(hosts_line("/services/cart"), "cart.services.berth\n");
	cr_expect_str_eq(hosts_line("/users/joe/web"), "web.joe.users.berth\n");
	cr_expect_str_eq(hosts_line("/users"), "users.berth\n");
	cr_expect_str_eq(hosts_line("/users/joe/web/prod/components"),
		"components.prod.web.joe.users.berth\n");
	cr_expect_str_eq(
		hosts_line("/users/joe/web/prod/other"), "other.prod.web.joe.users.berth\n");
	cr_expect_str_eq(hosts_line("/users/joe/web/prod/components/c1/more"),
		"more.c1.components.prod.web.joe.users.berth\n");
	cr_expect_str_eq(hosts_line("/user/joe/web/prod"), "prod.web.joe.user.berth\n");
}

Test(render, instances_are_members_with_an_address_that_the_filter_lets_through)
{
	write_as(RENDER_LINES, NULL, COUNT);
	struct record *kept[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		cr_assert_eq(
			record_decode(&kept[i], records[i][1], strlen(records[i][1]), NULL), 0);
		members[i].record = kept[i];
	}
	struct render_picture picture = { FROM, members, COUNT };
	cr_assert_eq(
		render_count_instances(&picture,
			&(struct render_filter){ .api = NULL, .protocol = NULL, .scope = NULL }),
		3);
	cr_assert_eq(render_count_instances(&picture,
			     &(struct render_filter){ .api = "", .protocol = "", .scope = "" }),
		3);
	cr_assert_eq(render_count_instances(&picture,
			     &(struct render_filter){
				     .api = "urn:rest", .protocol = NULL, .scope = NULL }),
		2);
	cr_assert_eq(render_count_instances(&picture,
			     &(struct render_filter){
				     .api = NULL, .protocol = NULL, .scope = "internal" }),
		1);
	for (size_t i = 0; i < COUNT; i++) {
		record_free(kept[i]);
	}
}
