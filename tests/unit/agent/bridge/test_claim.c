/* A record of a container, as the host takes it over. */
#include "agent/bridge/claim.h"

#include <criterion/criterion.h>
#include <string.h>

Test(bridge_claim, a_change_of_the_record_is_noted)
{
	const struct bridge_version version = { .inode = 7 };
	struct err none = ERR_INIT, mistake = ERR_INIT;
	struct bridge_claim *claim = bridge_claim_create("/services/db");
	err_set(&mistake, BERTH_INVALID_RECORD, "no record");
	bridge_claim_take(claim, &version, "one", 3, &none);
	cr_expect(claim->changed);
	claim->changed = false;
	bridge_claim_take(claim, &version, "one", 3, &none);
	cr_expect_not(claim->changed, "the same again");
	bridge_claim_take(claim, &version, "two", 3, &none);
	cr_expect(claim->changed);
	bridge_claim_take(claim, &version, "", 0, &mistake);
	cr_expect_null(claim->data);
	cr_expect_eq(claim->mistake->code, BERTH_INVALID_RECORD);
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
