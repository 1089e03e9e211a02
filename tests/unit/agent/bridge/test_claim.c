/* A record of a container, as the host takes it over. */
#include "agent/bridge/claim.h"

#include <criterion/criterion.h>
#include <string.h>

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
