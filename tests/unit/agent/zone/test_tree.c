/* Nodes of a domain that come, change and go, and the answers from them. */
#include <arpa/nameser.h>
#include <criterion/criterion.h>
#include <string.h>

#include "agent/zone/answer.h"
#include "lib/base/text.h"
#include "tests/support/memory_backend.h"

TestSuite(zone_tree);

#define HOST(address) "{\"type\":\"moray_host\",\"moray_host\":{\"address\":\"" address "\"}}"
#define SERVICE                                                                                    \
	"{\"type\":\"service\",\"service\":{\"srvce\":\"_x\",\"proto\":\"_tcp\",\"port\":8}}"

struct stage {
	struct registry *registry;
	struct zone_tree *tree;
	unsigned settled;
};

static void on_settled(void *context)
{
	struct stage *stage = context;
	stage->settled++;
	cr_expect(zone_tree_settled(stage->tree));
}

static void turn(struct stage *stage)
{
	for (int i = 0; i < 20; i++) {
		registry_dispatch(stage->registry, 0);
	}
}

static void open_stage(struct stage *stage, size_t max_nodes)
{
	const struct registry_options options = { .foreign_paths = true };
	*stage = (struct stage){ .registry = memory_open("zone", &options) };
	memory_put(stage->registry, "//org", "");
	memory_put(stage->registry, "//org/z", "");
	memory_put(stage->registry, "//org/z/web", SERVICE);
	memory_put(stage->registry, "//org/z/web/a", HOST("10.0.0.1"));
	memory_put(stage->registry, "//org/z/web/b", HOST("10.0.0.2"));
	stage->tree = zone_tree_create(stage->registry, "z.org", max_nodes, on_settled, stage);
	cr_expect_not(zone_tree_settled(stage->tree));
	turn(stage);
}

static void close_stage(struct stage *stage)
{
	zone_tree_destroy(stage->tree);
	registry_close(stage->registry);
}

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

Test(zone_tree, a_whole_branch_goes_and_comes_back)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_remove(stage.registry, "//org/z/web/a");
	memory_remove(stage.registry, "//org/z/web/b");
	memory_remove(stage.registry, "//org/z/web");
	turn(&stage);
	cr_expect_eq(zone_tree_count(stage.tree), 1);
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "5");
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_nxdomain, 0), "3 soa");
	memory_remove(stage.registry, "//org/z");
	turn(&stage);
	cr_expect_str_eq(ask(&stage, "z.org", ns_r_refused, 0), "5");
	memory_put(stage.registry, "//org/z", "");
	memory_put(stage.registry, "//org/z/web", "");
	memory_put(stage.registry, "//org/z/web/c", HOST("10.0.0.9"));
	turn(&stage);
	cr_expect_str_eq(ask(&stage, "c.web.z.org", ns_r_refused, 0), "0 9");
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "2");
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

Test(zone_tree, names_that_no_host_has_are_passed_over)
{
	struct stage stage;
	open_stage(&stage, 100);
	memory_put(stage.registry, "//org/z/web/My Node", HOST("10.0.0.7"));
	memory_put(stage.registry, "//org/z/web/a.b", HOST("10.0.0.8"));
	memory_put(stage.registry, "//org/z/web/under_score", HOST("10.0.0.9"));
	turn(&stage);
	cr_expect_str_eq(ask(&stage, "web.z.org", ns_r_refused, 0), "0 1 2 9");
	cr_expect_eq(zone_tree_count(stage.tree), 5);
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
