/* A record of a container, as the host takes it over. */
#include "agent/bridge/claim.h"

#include <criterion/criterion.h>
#include <string.h>

#define RECORD(more) "{\"type\":\"JSONServiceRecord\",\"description\":\"d\"" more "}"

static bool reads(
	struct bridge_claim *claim, const char *text, const struct config_container *policy)
{
	const struct bridge_tree_node node = {
		.kind = BRIDGE_TREE_LIVE,
		.version = { .inode = 7 },
		.data = (char *)(uintptr_t)text,
		.len = strlen(text),
	};
	claim->changed = false;
	bridge_claim_read(claim, &node, policy);
	cr_expect_eq(claim->version.inode, 7);
	return claim->data != NULL;
}

Test(bridge_claim, a_change_of_the_record_is_noted)
{
	struct bridge_claim *claim = bridge_claim_create("/services/db");
	cr_expect_str_eq(claim->path, "/services/db");
	cr_expect(reads(claim, RECORD(""), NULL));
	cr_expect(claim->changed);
	cr_expect(reads(claim, RECORD(""), NULL));
	cr_expect_not(claim->changed, "the same again");
	cr_expect(reads(claim, RECORD(",\"x\":\"y\""), NULL));
	cr_expect(claim->changed);
	cr_expect(strstr(claim->data, "\"x\":\"y\""), "%s", claim->data);
	cr_expect_eq(claim->len, strlen(claim->data));
	bridge_claim_free(claim);
}

Test(bridge_claim, another_text_is_a_mistake_until_it_is_a_record)
{
	struct bridge_claim *claim = bridge_claim_create("/services/db");
	cr_expect_not(reads(claim, "{", NULL));
	cr_expect_eq(claim->mistake.code, BERTH_INVALID_RECORD);
	cr_expect_eq(claim->len, 0);
	cr_expect(claim->changed);
	cr_expect(reads(claim, RECORD(""), NULL));
	cr_expect_eq(claim->mistake.code, 0);
	struct bridge_tree_node unread = { .kind = BRIDGE_TREE_LIVE };
	err_set(&unread.err, BERTH_LIMIT_EXCEEDED, "too long");
	bridge_claim_read(claim, &unread, NULL);
	cr_expect_null(claim->data);
	cr_expect_eq(claim->mistake.code, BERTH_LIMIT_EXCEEDED);
	cr_expect_str_eq(claim->mistake.msg, "too long");
	bridge_claim_free(claim);
}

Test(bridge_claim, the_policy_pins_attributes)
{
	char tier[] = "tier", gold[] = "gold", bad[] = "\xff", zone[] = "zone", eu[] = "eu";
	struct config_name_value attributes[] = { { .name = tier, .value = gold },
		{ .name = zone, .value = eu } };
	const struct config_container policy = { .attributes = attributes, .attribute_count = 2 };
	struct bridge_claim *claim = bridge_claim_create("/services/db");
	cr_expect(reads(claim, RECORD(",\"tier\":\"lead\""), &policy));
	cr_expect(strstr(claim->data, "\"tier\":\"gold\""), "%s", claim->data);
	cr_expect(strstr(claim->data, "\"zone\":\"eu\""), "%s", claim->data);
	attributes[1].value = bad;
	cr_expect_not(reads(claim, RECORD(""), &policy));
	cr_expect_str_eq(claim->mistake.msg, "an attribute of the policy is not UTF-8 text");
	bridge_claim_free(claim);
}

Test(bridge_claim, a_state_is_news_when_it_or_its_reason_is_another)
{
	struct bridge_claim *claim = bridge_claim_create("/services/db");
	claim->since = 1;
	cr_expect(bridge_claim_set_state(claim, BRIDGE_CLAIM_NEW, "why"));
	cr_expect_eq(claim->since, 1, "the state is the same");
	cr_expect_not(bridge_claim_set_state(claim, BRIDGE_CLAIM_NEW, "why"));
	cr_expect(bridge_claim_set_state(claim, BRIDGE_CLAIM_REFUSED, "why"));
	cr_expect_gt(claim->since, 1);
	cr_expect_str_eq(claim->why, "why");
	cr_expect_str_eq(bridge_claim_state_name(claim->state), "refused");
	cr_expect_str_eq(bridge_claim_state_name(BRIDGE_CLAIM_LINGERING), "lingering");
	bridge_claim_free(claim);
}
