/* Questions for names and addresses of a domain, and every record of their answers. */
#include <arpa/nameser.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/text.h"
#include "tests/unit/agent/zone/tree_stage.h"

TestSuite(zone_answer);

static void append(char text[1024], const char *what, const struct zone_record *record)
{
	char name[ZONE_NAME_BYTES] = "";
	size_t len = strlen(text);
	if (record->node) {
		zone_node_name(record->node, name);
	}
	text_printf(text + len, 1024 - len, "%s %s", what, record->type == ns_t_srv ? "srv" : "a");
	len = strlen(text);
	text_printf(text + len, 1024 - len, " %us", record->ttl_s);
	len = strlen(text);
	if (record->type == ns_t_srv) {
		text_printf(text + len, 1024 - len, " %s:%u", name, record->port);
	} else {
		text_printf(text + len, 1024 - len, " .%u%s%s", record->address[3],
			*name ? " of " : "", name);
	}
}

/* "CODE; a TTLs .LAST; srv TTLs TARGET:PORT; + a TTLs .LAST of NAME; soa NAME TTLs". */
static const char *say_with(
	struct stage *stage, const char *name, uint16_t type, int unknown, unsigned rotation)
{
	static char text[1024];
	struct zone_answer answer;
	zone_answer_name(&answer, stage->tree, name, type, unknown, rotation);
	text_printf(text, sizeof(text), "%d", answer.rcode);
	for (size_t i = 0; i < answer.count; i++) {
		append(text, ";", &answer.records[i]);
	}
	for (size_t i = 0; i < answer.glue_count; i++) {
		append(text, "; +", &answer.glue[i]);
	}
	if (*answer.soa_owner) {
		size_t len = strlen(text);
		text_printf(text + len, sizeof(text) - len, "; soa %s %us", answer.soa_owner,
			answer.soa_ttl_s);
	}
	strcat(text, answer.holds ? "" : "; doubted");
	zone_answer_finish(&answer);
	cr_expect_null(answer.records);
	return text;
}

static const char *say(struct stage *stage, const char *name, uint16_t type)
{
	return say_with(stage, name, type, ns_r_refused, 0);
}

#define SERVICE_WITH(rest)                                                                         \
	"{\"type\":\"service\",\"service\":{\"srvce\":\"_http\",\"proto\":\"_tcp\"" rest "}}"
#define INSTANCE_WITH(address, rest)                                                               \
	"{\"type\":\"rr_host\",\"rr_host\":{\"address\":\"" address "\"" rest "}}"
#define PLAIN_HOST(address, rest)                                                                  \
	"{\"type\":\"host\",\"host\":{\"address\":\"" address "\"" rest "}}"

Test(zone_answer, the_shorter_time_to_live_of_service_and_instance_counts)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/web", SERVICE_WITH(",\"ttl\":45"));
	memory_put(stage.registry, "//org/z/web/a", INSTANCE_WITH("10.0.0.1", ",\"ttl\":44"));
	memory_put(stage.registry, "//org/z/web/b", INSTANCE_WITH("10.0.0.2", ",\"ttl\":46"));
	memory_put(stage.registry, "//org/z/web/c", INSTANCE_WITH("10.0.0.3", ""));
	memory_put(stage.registry, "//org/z/web/d", INSTANCE_WITH("10.0.0.4", ",\"ttl\":0"));
	turn(&stage);
	cr_expect_str_eq(
		say(&stage, "web.z.org", ns_t_a), "0; a 44s .1; a 45s .2; a 45s .3; a 0s .4");
	memory_put(stage.registry, "//org/z/web", SERVICE_WITH(""));
	turn(&stage);
	cr_expect_str_eq(
		say(&stage, "web.z.org", ns_t_a), "0; a 30s .1; a 30s .2; a 30s .3; a 0s .4");
	cr_expect_str_eq(say(&stage, "b.web.z.org", ns_t_a), "0; a 46s .2");
	cr_expect_str_eq(say(&stage, "c.web.z.org", ns_t_a), "0; a 30s .3");
	close_stage(&stage);
}

Test(zone_answer, srv_names_the_ports_of_each_instance_and_its_address)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/web", SERVICE_WITH(",\"ttl\":45,\"port\":80"));
	memory_put(stage.registry, "//org/z/web/a",
		INSTANCE_WITH("10.0.0.1", ",\"ttl\":44,\"ports\":[1,2]"));
	memory_put(stage.registry, "//org/z/web/b", INSTANCE_WITH("10.0.0.2", ""));
	turn(&stage);
	cr_expect_str_eq(say(&stage, "_http._tcp.web.z.org", ns_t_srv),
		"0; srv 45s a.web.z.org:1; srv 45s a.web.z.org:2; srv 45s b.web.z.org:80; "
		"+ a 44s .1 of a.web.z.org; + a 45s .2 of b.web.z.org");
	cr_expect_str_eq(say_with(&stage, "_HTTP._Tcp.Web.Z.Org", ns_t_srv, ns_r_refused, 3),
		"0; srv 45s b.web.z.org:80; srv 45s a.web.z.org:1; srv 45s a.web.z.org:2; "
		"+ a 45s .2 of b.web.z.org; + a 44s .1 of a.web.z.org");
	memory_put(stage.registry, "//org/z/web", SERVICE_WITH(",\"port\":1"));
	memory_remove(stage.registry, "//org/z/web/a");
	turn(&stage);
	cr_expect_str_eq(say(&stage, "_http._tcp.web.z.org", ns_t_srv),
		"0; srv 30s b.web.z.org:1; + a 30s .2 of b.web.z.org");
	memory_put(stage.registry, "//org/z/web", SERVICE_WITH(""));
	turn(&stage);
	cr_expect_str_eq(say(&stage, "_http._tcp.web.z.org", ns_t_srv),
		"0; + a 30s .2 of b.web.z.org", "it has no port");
	close_stage(&stage);
}

Test(zone_answer, srv_is_of_the_service_and_the_protocol_that_the_node_names)
{
	static const struct {
		const char *name;
		const char *answer;
	} questions[] = {
		{ "_x._tcp.web.z.org",
			"0; srv 30s a.web.z.org:8; srv 30s b.web.z.org:8; + a 30s .1 of "
			"a.web.z.org; + a 30s .2 of b.web.z.org" },
		{ "_xy._tcp.web.z.org", "3" },
		{ "_._tcp.web.z.org", "3" },
		{ "_x._tc.web.z.org", "3" },
		{ "_x._tcpp.web.z.org", "3" },
		{ "_y._tcp.web.z.org", "3" },
		{ "_x._udp.web.z.org", "3" },
		{ "_x.web.z.org", "5" },
		{ "_x.tcp.web.z.org", "5" },
		{ "x._tcp.web.z.org", "5" },
		{ "_x_._tcp.web.z.org", "5" },
		{ "web.z.org", "5" },
		{ "z.org", "5" },
		{ "_x._tcp.z.org", "5" },
		{ "_x._tcp.none.z.org", "5" },
		{ "_x._tcp.a.web.z.org", "0; soa a.web.z.org 30s" },
		{ "_x._tcp.timed.z.org", "0; soa timed.z.org 7s" },
		{ "_x._tcp._y._tcp.web.z.org", "5" },
	};
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/timed", PLAIN_HOST("10.0.0.3", ",\"ttl\":7"));
	turn(&stage);
	for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
		cr_expect_str_eq(say(&stage, questions[i].name, ns_t_srv), questions[i].answer,
			"%s", questions[i].name);
	}
	close_stage(&stage);
}

Test(zone_answer, a_name_that_is_there_has_no_other_types)
{
	static const struct {
		const char *name;
		uint16_t type;
		int unknown;
		const char *answer;
	} questions[] = {
		{ "a.web.z.org", ns_t_aaaa, ns_r_refused, "0; soa z.org 30s" },
		{ "web.z.org", ns_t_txt, ns_r_refused, "0; soa z.org 30s" },
		{ "blank.z.org", ns_t_a, ns_r_refused, "0; soa z.org 30s" },
		{ "other.z.org", ns_t_a, ns_r_refused, "0; soa z.org 30s" },
		{ "empty.z.org", ns_t_aaaa, ns_r_refused, "0; soa z.org 30s" },
		{ "empty.z.org", ns_t_a, ns_r_refused, "2" },
		{ "_x._tcp.empty.z.org", ns_t_srv, ns_r_refused, "2" },
		{ "base.z.org", ns_t_a, ns_r_refused, "0; a 9s .4" },
		{ "z.org", ns_t_a, ns_r_refused, "5" },
		{ "z.org", ns_t_a, ns_r_nxdomain, "3; soa z.org 30s" },
		{ "z.org", ns_t_soa, ns_r_refused, "0; soa z.org 30s" },
		{ "_x._tcp.none.z.org", ns_t_srv, ns_r_nxdomain, "3; soa z.org 30s" },
	};
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/blank", "{\"type\":\"host\",\"host\":{}}");
	memory_put(stage.registry, "//org/z/other", "{\"type\":\"teapot\",\"teapot\":{}}");
	memory_put(stage.registry, "//org/z/empty", "");
	memory_put(stage.registry, "//org/z/base",
		"{\"type\":\"database\",\"database\":{\"primary\":\"tcp://10.0.0.4\",\"ttl\":9}}");
	turn(&stage);
	for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
		cr_expect_str_eq(say_with(&stage, questions[i].name, questions[i].type,
					 questions[i].unknown, 0),
			questions[i].answer, "%s", questions[i].name);
	}
	close_stage(&stage);
}

Test(zone_answer, the_labels_of_srv_records_are_not_denied)
{
	static const struct {
		const char *name;
		int unknown;
		const char *answer;
	} questions[] = {
		{ "_tcp.web.z.org", ns_r_nxdomain, "0; soa z.org 30s" },
		{ "_x._tcp.web.z.org", ns_r_nxdomain, "0; soa z.org 30s" },
		{ "_tcp.web.z.org", ns_r_refused, "5" },
		{ "tcp.web.z.org", ns_r_nxdomain, "3; soa z.org 30s" },
		{ "_tcp.a.web.z.org", ns_r_nxdomain, "3; soa z.org 30s" },
		{ "_tcp.z.org", ns_r_nxdomain, "3; soa z.org 30s" },
	};
	struct stage stage;
	open_stage(&stage, 100);
	for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
		cr_expect_str_eq(
			say_with(&stage, questions[i].name, ns_t_a, questions[i].unknown, 0),
			questions[i].answer, "%s", questions[i].name);
	}
	close_stage(&stage);
}

Test(zone_answer, only_instances_with_an_address_are_members_of_a_service)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/web/h", PLAIN_HOST("10.0.0.3", ""));
	memory_put(stage.registry, "//org/z/web/i", "{\"type\":\"rr_host\",\"rr_host\":{}}");
	memory_put(stage.registry, "//org/z/web/j", INSTANCE_WITH("10.0.0.5", ""));
	turn(&stage);
	cr_expect_str_eq(say(&stage, "web.z.org", ns_t_a), "0; a 30s .1; a 30s .2; a 30s .5");
	cr_expect_str_eq(say_with(&stage, "web.z.org", ns_t_a, ns_r_refused, 4),
		"0; a 30s .5; a 30s .1; a 30s .2");
	cr_expect_str_eq(say_with(&stage, "web.z.org", ns_t_a, ns_r_refused, 7),
		"0; a 30s .5; a 30s .1; a 30s .2");
	close_stage(&stage);
}

Test(zone_answer, an_answer_has_a_bounded_number_of_records)
{
	enum { INSTANCES = ZONE_MAX_RECORDS / ZONE_MAX_PORTS + 2 };
	struct stage stage;
	char data[1024] =
		"{\"type\":\"rr_host\",\"rr_host\":{\"address\":\"10.0.0.1\",\"ports\":[1";
	open_stage(&stage, 100);
	for (int i = 1; i < ZONE_MAX_PORTS; i++) {
		strcat(data, ",7");
	}
	strcat(data, "]}}");
	for (int i = 0; i < INSTANCES; i++) {
		char path[64];
		text_printf(path, sizeof(path), "//org/z/many/i%d", i);
		if (i == 0) {
			memory_put(stage.registry, "//org/z/many", SERVICE);
		}
		memory_put(stage.registry, path, data);
	}
	for (int i = 0; i < 100 && (i < 2 || !zone_tree_settled(stage.tree)); i++) {
		turn(&stage);
	}
	struct zone_answer answer;
	zone_answer_name(&answer, stage.tree, "_x._tcp.many.z.org", ns_t_srv, ns_r_refused, 0);
	cr_expect_eq(answer.count, ZONE_MAX_RECORDS);
	cr_expect_eq(answer.glue_count, INSTANCES - 2);
	zone_answer_finish(&answer);
	close_stage(&stage);
}

/* Questions of each kind, while nothing is known to be true. */
Test(zone_answer, every_answer_from_memory_is_doubted_in_an_outage)
{
	static const struct {
		const char *name;
		uint16_t type;
		const char *answer;
	} questions[] = {
		{ "a.web.z.org", ns_t_a, "0; a 30s .1; doubted" },
		{ "a.web.z.org", ns_t_aaaa, "0; soa z.org 30s; doubted" },
		{ "_x._tcp.a.web.z.org", ns_t_srv, "0; soa a.web.z.org 30s; doubted" },
		{ "_y._tcp.web.z.org", ns_t_srv, "3; doubted" },
		{ "z.org", ns_t_a, "5; doubted" },
		{ "z.org", ns_t_soa, "0; soa z.org 30s; doubted" },
		{ "b.a.web.z.org", ns_t_a, "5; doubted" },
	};
	struct stage stage;
	open_stage(&stage, 100);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	registry_dispatch(stage.registry, 0);
	for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
		cr_expect_str_eq(say(&stage, questions[i].name, questions[i].type),
			questions[i].answer, "%s", questions[i].name);
	}
	close_stage(&stage);
}

/* The reads of a kind, of //org/z/web and all below it, that get no answer. */
static void time_out(void *context, const struct registry_task *task, struct err *err)
{
	const enum registry_operation *operation = context;
	if (task->operation == *operation && strncmp(task->path, "//org/z/web", 11) == 0) {
		err_set(err, BERTH_TIMEOUT, "no answer");
	}
}

Test(zone_answer, a_read_without_an_answer_leaves_what_was_known_and_makes_it_doubtful)
{
	static const struct {
		enum registry_operation operation;
		const char *other; /* the answer for a type that the node does not have */
	} reads[] = { { REGISTRY_OP_CHILDREN, "0; soa z.org 30s" },
		{ REGISTRY_OP_GET, "0; soa z.org 30s; doubted" } };
	for (size_t i = 0; i < 2; i++) {
		enum registry_operation operation = reads[i].operation;
		struct stage stage;
		open_stage(&stage, 100);
		memory_set_state(stage.registry, REGISTRY_AWAY);
		registry_dispatch(stage.registry, 0);
		memory_on_task(stage.registry, time_out, &operation);
		memory_set_state(stage.registry, REGISTRY_CONNECTED);
		turn(&stage);
		(void)say(&stage, "web.z.org", ns_t_a);
		turn(&stage);
		cr_expect_str_eq(say(&stage, "web.z.org", ns_t_aaaa), reads[i].other);
		cr_expect_str_eq(
			say(&stage, "web.z.org", ns_t_a), "0; a 30s .1; a 30s .2; doubted");
		cr_expect_str_eq(say(&stage, "x.web.z.org", ns_t_a), "5; doubted");
		cr_expect_str_eq(say(&stage, "a.web.z.org", ns_t_a),
			operation == REGISTRY_OP_GET ? "0; a 30s .1; doubted" : "0; a 30s .1");
		struct zone_answer answer;
		const uint8_t address[4] = { 10, 0, 0, 1 };
		cr_assert(zone_answer_address(&answer, stage.tree, address));
		cr_expect_eq(answer.holds, operation != REGISTRY_OP_GET);
		zone_answer_finish(&answer);
		cr_expect_eq(zone_tree_count(stage.tree), 4);
		memory_on_task(stage.registry, NULL, NULL);
		for (int64_t now_ms = 0; now_ms < 120000; now_ms += 1000) {
			registry_dispatch(stage.registry, now_ms);
		}
		cr_expect_str_eq(say(&stage, "web.z.org", ns_t_a), "0; a 30s .1; a 30s .2");
		close_stage(&stage);
	}
}
