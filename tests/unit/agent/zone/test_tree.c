/* Nodes of a domain that come, change and go, and the answers from them. */
#include <arpa/nameser.h>
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "tests/support/registry_client.h"
#include "tests/unit/agent/zone/tree_stage.h"

TestSuite(zone_tree);

/* "CODE address …" of an A question. */
static const char *ask(struct stage *stage, const char *name, int unknown, unsigned rotation)
{
	static char text[256];
	struct zone_answer answer;
	zone_answer_name(&answer, stage->tree, name, ns_t_a, unknown, rotation);
	text_printf(text, sizeof(text), "%d", answer.rcode);
	for (size_t i = 0; i < answer.count; i++) {
		size_t len = strlen(text);
		text_printf(text + len, sizeof(text) - len, " %u", answer.records[i].address[3]);
	}
	strcat(text, *answer.soa_owner ? " soa" : "");
	strcat(text, answer.holds ? "" : " doubted");
	zone_answer_finish(&answer);
	return text;
}

static const char *reverse(struct stage *stage, uint8_t last)
{
	static char name[ZONE_NAME_BYTES];
	const uint8_t address[4] = { 10, 0, 0, last };
	struct zone_answer answer;
	if (!zone_answer_address(&answer, stage->tree, address)) {
		return "none";
	}
	cr_expect_eq(answer.records[0].type, ns_t_ptr);
	zone_node_name(answer.records[0].node, name);
	zone_answer_finish(&answer);
	return name;
}

Test(zone_tree, everything_is_read_once_and_then_followed)
{
	struct stage stage;
	open_stage(&stage, 100);
	cr_expect_eq(stage.settled, 1);
	cr_expect_eq(zone_tree_count(stage.tree), 4);
	cr_expect_str_eq(zone_tree_domain(stage.tree), "z.org");
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 1 2");
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 1), "0 2 1");
	cr_expect_str_eq(ask(&stage, "A.Web.Z.org", ns_r_refused, 0), "0 1");
	cr_expect_str_eq(reverse(&stage, 2), "b.web.z.org");

	memory_put(stage.registry, "//org/z/web/aa", HOST("10.0.0.3"));
	memory_remove(stage.registry, "//org/z/web/b");
	turn(&stage);
	cr_expect_eq(stage.settled, 2);
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 1 3");
	cr_expect_str_eq(reverse(&stage, 2), "none");
	memory_put(stage.registry, "//org/z/web/aa", HOST("10.0.0.4"));
	turn(&stage);
	cr_expect_str_eq(ask(&stage, "aa.web.z.org", ns_r_refused, 0), "0 4");
	cr_expect_str_eq(reverse(&stage, 3), "none");
	close_stage(&stage);
}

Test(zone_tree, a_domain_that_goes_at_once_takes_all_with_it)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_remove(stage.registry, "//org/z/web/a");
	memory_remove(stage.registry, "//org/z/web/b");
	memory_remove(stage.registry, "//org/z/web");
	memory_remove(stage.registry, "//org/z");
	turn(&stage);
	cr_expect_eq(zone_tree_count(stage.tree), 1);
	cr_expect(zone_tree_settled(stage.tree));
	cr_expect_eq(zone_tree_root(stage.tree)->data_known, ZONE_ABSENT);
	cr_expect_eq(zone_tree_root(stage.tree)->child_count, 0);
	cr_expect_str_eq(reverse(&stage, 1), "none");
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_nxdomain, 0), "3 soa");
	close_stage(&stage);
}

Test(zone_tree, an_address_leads_to_the_host_that_came_last)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/Alias", HOST("10.0.0.1"));
	turn(&stage);
	cr_expect_str_eq(reverse(&stage, 1), "alias.z.org");
	cr_expect_str_eq(ask(&stage, "alias.z.org", ns_r_refused, 0), "0 1");
	cr_expect_str_eq(ask(&stage, "aliasx.z.org", ns_r_refused, 0), "5");
	memory_remove(stage.registry, "//org/z/Alias");
	turn(&stage);
	cr_expect_str_eq(reverse(&stage, 1), "a.web.z.org");
	close_stage(&stage);
}

Test(zone_tree, a_tree_that_is_too_large_denies_nothing)
{
	struct stage stage;
	open_stage(&stage, 3);
	cr_expect(zone_tree_partial(stage.tree));
	cr_expect_eq(zone_tree_count(stage.tree), 3);
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 1");
	cr_expect_str_eq(ask(&stage, "b.web.z.org", ns_r_refused, 0), "2");
	close_stage(&stage);
}

static void refuse(void *context, const struct registry_task *task, struct err *err)
{
	const char *path = context;
	if (strcmp(task->path, path) == 0) {
		err_set(err, BERTH_NO_PATH_PERMISSIONS, "not you");
	}
}

Test(zone_tree, a_node_that_may_not_be_read_is_not_denied)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_on_task(stage.registry, refuse, "//org/z/secret");
	memory_put(stage.registry, "//org/z/secret", SERVICE);
	turn(&stage);
	cr_expect_str_eq(ask(&stage, "secret.z.org", ns_r_refused, 0), "2");
	cr_expect_str_eq(ask(&stage, "a.secret.z.org", ns_r_refused, 0), "2");
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 1 2");
	close_stage(&stage);
}

Test(zone_tree, after_an_outage_answers_are_doubted_until_they_are_confirmed)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_set_state(stage.registry, REGISTRY_AWAY);
	registry_dispatch(stage.registry, 0);
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 1 2 doubted");
	cr_expect_str_eq(ask(&stage, "x.z.org", ns_r_refused, 0), "5 doubted");
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	turn(&stage);
	(void)ask(&stage, "web.z.org", ns_r_refused, 0);
	turn(&stage);
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 1 2");
	close_stage(&stage);
}

#define LABEL_63 "a23456789-123456789-123456789-123456789-123456789-123456789-123"

Test(zone_tree, a_label_and_a_name_have_the_lengths_of_dns)
{
	static const char parent[] = "//org/z/" LABEL_63 "/" LABEL_63 "/" LABEL_63;
	char path[512];
	char name[ZONE_NAME_BYTES];
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/" LABEL_63, HOST("10.0.0.3"));
	memory_put(stage.registry, "//org/z/" LABEL_63 "4", HOST("10.0.0.4"));
	memory_put(stage.registry, "//org/z/" LABEL_63 "/" LABEL_63, "");
	memory_put(stage.registry, parent, "");
	for (int len = 55; len <= 56; len++) {
		text_printf(path, sizeof(path), "%s/%.*s", parent, len, LABEL_63);
		memory_put(stage.registry, path, HOST("10.0.0.5"));
	}
	turn(&stage);
	cr_expect_eq(zone_tree_count(stage.tree), 8);
	cr_expect_str_eq(ask(&stage, LABEL_63 ".z.org", ns_r_refused, 0), "0 3");
	cr_expect_str_eq(ask(&stage, LABEL_63 "4.z.org", ns_r_refused, 0), "5");
	text_printf(name, sizeof(name), "%.*s." LABEL_63 "." LABEL_63 "." LABEL_63 ".z.org", 55,
		LABEL_63);
	cr_expect_eq(strlen(name), 253);
	cr_expect_str_eq(ask(&stage, name, ns_r_refused, 0), "0 5");
	cr_expect_str_eq(reverse(&stage, 5), name);
	close_stage(&stage);
}

Test(zone_tree, each_child_is_found_by_its_name_alone_in_any_case)
{
	static const char *const names[] = { "Cc", "bb", "ba", "b", "c", "d-", "d0", "da", "A" };
	const size_t count = ARRAY_LEN(names);
	struct stage stage;
	open_stage(&stage, 100);
	for (size_t i = 0; i < count; i++) {
		char text[64];
		char path[64];
		text_printf(path, sizeof(path), "//org/z/%s", names[i]);
		text_printf(text, sizeof(text),
			"{\"type\":\"host\",\"host\":{\"address\":\"10.0.1.%zu\"}}", i);
		memory_put(stage.registry, path, text);
	}
	turn(&stage);
	for (size_t i = 0; i < count; i++) {
		char text[64];
		char name[64];
		text_printf(name, sizeof(name), "%s.z.org", names[i]);
		text_printf(text, sizeof(text), "0 %zu", i);
		cr_expect_str_eq(ask(&stage, name, ns_r_refused, 0), text, "%s", name);
	}
	cr_expect_str_eq(ask(&stage, "cc.z.org", ns_r_refused, 0), "0 0");
	cr_expect_str_eq(ask(&stage, "d.z.org", ns_r_refused, 0), "5");
	cr_expect_str_eq(ask(&stage, "ccc.z.org", ns_r_refused, 0), "5");
	cr_expect_str_eq(ask(&stage, "e.z.org", ns_r_refused, 0), "5");
	memory_remove(stage.registry, "//org/z/Cc");
	turn(&stage);
	cr_expect_str_eq(ask(&stage, "cc.z.org", ns_r_refused, 0), "5");
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_r_refused, 0), "0 8");
	close_stage(&stage);
}

Test(zone_tree, a_list_that_changes_everywhere_keeps_who_stays)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/web/c", HOST("10.0.0.3"));
	memory_put(stage.registry, "//org/z/web/d", HOST("10.0.0.4"));
	turn(&stage);
	size_t watches = memory_armed_watches(stage.registry);
	const struct zone_node *web = zone_node_child(zone_tree_root(stage.tree), "web", 3);
	const struct zone_node *stays = zone_node_child(web, "c", 1);
	memory_remove(stage.registry, "//org/z/web/a");
	memory_remove(stage.registry, "//org/z/web/b");
	memory_remove(stage.registry, "//org/z/web/d");
	memory_put(stage.registry, "//org/z/web/aa", HOST("10.0.0.5"));
	memory_put(stage.registry, "//org/z/web/bb", HOST("10.0.0.6"));
	memory_put(stage.registry, "//org/z/web/e", HOST("10.0.0.7"));
	turn(&stage);
	cr_expect(zone_node_child(web, "c", 1) == stays);
	cr_expect_eq(zone_tree_count(stage.tree), 6);
	cr_expect(zone_tree_settled(stage.tree));
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 5 6 3 7");
	cr_expect_eq(memory_armed_watches(stage.registry), watches);
	for (uint8_t last = 1; last <= 4; last++) {
		cr_expect_str_eq(reverse(&stage, last), last == 3 ? "c.web.z.org" : "none");
	}
	close_stage(&stage);
}

Test(zone_tree, only_a_host_that_has_this_address_is_found_by_it)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/host",
		"{\"type\":\"host\",\"host\":{\"address\":\"10.0.0.3\"}}");
	memory_put(stage.registry, "//org/z/base",
		"{\"type\":\"database\",\"database\":{\"primary\":\"tcp://10.0.0.4\"}}");
	memory_put(stage.registry, "//org/z/blank", "{\"type\":\"host\",\"host\":{}}");
	turn(&stage);
	cr_expect_str_eq(reverse(&stage, 3), "host.z.org");
	cr_expect_str_eq(reverse(&stage, 4), "none");
	cr_expect_str_eq(ask(&stage, "base.z.org", ns_r_refused, 0), "0 4");
	const uint8_t zero[4] = { 0 };
	cr_expect_null(zone_tree_of_address(stage.tree, zero));
	memory_put(stage.registry, "//org/z/host", "{\"type\":\"host\",\"host\":{}}");
	turn(&stage);
	cr_expect_str_eq(reverse(&stage, 3), "none");
	/* More addresses than the index has places: some share one. */
	for (unsigned i = 0; i < 3000; i++) {
		const uint8_t other[4] = { 10, 1, (uint8_t)(i / 256), (uint8_t)(i % 256) };
		cr_expect_null(zone_tree_of_address(stage.tree, other));
	}
	close_stage(&stage);
}

Test(zone_tree, hosts_of_one_address_keep_their_order_when_they_are_confirmed)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/alias", HOST("10.0.0.1"));
	turn(&stage);
	memory_put(stage.registry, "//org/z/web/a", HOST("10.0.0.1") " ");
	turn(&stage);
	cr_expect_str_eq(reverse(&stage, 1), "a.web.z.org");
	memory_set_state(stage.registry, REGISTRY_AWAY);
	registry_dispatch(stage.registry, 0);
	memory_set_state(stage.registry, REGISTRY_CONNECTED);
	turn(&stage);
	cr_expect_str_eq(reverse(&stage, 1), "a.web.z.org");
	cr_expect_eq(stage.settled, 2);
	close_stage(&stage);
}

Test(zone_tree, as_many_nodes_as_may_be_are_the_whole_tree)
{
	struct stage stage;
	open_stage(&stage, 4);
	cr_expect_not(zone_tree_partial(stage.tree));
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 1 2");
	cr_expect_str_eq(ask(&stage, "x.web.z.org", ns_r_refused, 0), "5");
	memory_put(stage.registry, "//org/z/no node", "");
	turn(&stage);
	cr_expect_not(zone_tree_partial(stage.tree), "it would not be followed anyway");
	close_stage(&stage);
}

Test(zone_tree, an_ephemeral_node_has_no_children_to_wait_for)
{
	struct stage stage;
	open_stage(&stage, 100);
	const struct registry_options options = { .foreign_paths = true };
	struct registry *owner = memory_open("zone", &options);
	struct answer answer = { 0 };
	client_add(owner);
	client_wait_state(owner, REGISTRY_CONNECTED);
	cr_assert_eq(client_put(owner, "//org/z/host", HOST("10.0.0.3"), REGISTRY_BIND_CREATE, true,
			     &answer),
		0, "%s", answer.err.msg);
	turn(&stage);
	const struct zone_node *host = zone_node_child(zone_tree_root(stage.tree), "host", 4);
	cr_assert_not_null(host);
	cr_expect_null(host->list_watch);
	cr_expect(zone_tree_settled(stage.tree));
	cr_expect_str_eq(ask(&stage, "host.z.org", ns_r_refused, 0), "0 3");
	cr_expect_str_eq(ask(&stage, "a.host.z.org", ns_r_refused, 0), "5");
	answer_clear(&answer);
	client_close(owner);
	close_stage(&stage);
}
