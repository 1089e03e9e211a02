#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "agent/component/outcome.h"
#include "lib/base/array.h"

static struct component_outcome hosted(void)
{
	return (struct component_outcome){ .hosted = true };
}

static void say(struct component_outcome *outcome, const char *state)
{
	json_t *record = state ? json_pack("{s:s, s:s}", "state", state, "why", "because") : NULL;
	component_outcome_take(outcome, true, record);
	json_decref(record);
}

static enum announce_state shown(struct component_outcome *outcome, enum announce_state own)
{
	component_outcome_show(outcome, own, "its check is up", 4711);
	return outcome->shown;
}

Test(component_outcome, the_hosts_word_decides_about_a_record_that_is_written)
{
	static const struct {
		const char *state;
		enum announce_state shown;
	} rows[] = { { NULL, ANNOUNCE_WRITING }, { "registered", ANNOUNCE_REGISTERED },
		{ "outdated", ANNOUNCE_OUTDATED }, { "conflict", ANNOUNCE_CONFLICT },
		{ "refused", ANNOUNCE_FAILED }, { "failed", ANNOUNCE_FAILED },
		{ "waiting", ANNOUNCE_WAITING }, { "lingering", ANNOUNCE_WAITING },
		{ "of a later version", ANNOUNCE_WAITING } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct component_outcome outcome = hosted();
		say(&outcome, rows[i].state);
		cr_assert_eq(shown(&outcome, ANNOUNCE_REGISTERED), rows[i].shown, "%s",
			rows[i].state ? rows[i].state : "-");
	}
}

Test(component_outcome, a_record_that_the_host_may_have_seen_is_asked_for)
{
	struct component_outcome outcome = hosted();
	say(&outcome, NULL);
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	cr_assert(not(component_outcome_is_unseen(&outcome, ANNOUNCE_REGISTERED)));
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	cr_assert(component_outcome_is_unseen(&outcome, ANNOUNCE_WITHDRAWN));
	say(&outcome, NULL); /* the list may be older than the record */
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	component_outcome_asked(&outcome);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
}

Test(component_outcome, a_record_that_was_seen_goes_by_the_hosts_word)
{
	struct component_outcome outcome = hosted();
	say(&outcome, NULL);
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	say(&outcome, "writing");
	(void)shown(&outcome, ANNOUNCE_WITHDRAWN);
	cr_assert(not(component_outcome_is_unseen(&outcome, ANNOUNCE_WITHDRAWN)));
	cr_assert(eq(int, outcome.shown, ANNOUNCE_WITHDRAWING));
	say(&outcome, NULL);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
}

Test(component_outcome, nobody_waits_for_a_host_that_is_away)
{
	struct component_outcome outcome = hosted();
	say(&outcome, NULL);
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	component_outcome_take(&outcome, false, NULL);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
	say(&outcome, NULL); /* it is back, and looked since */
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
}

Test(component_outcome, reasons_are_the_hosts_where_it_decides)
{
	struct component_outcome outcome = hosted();
	say(&outcome, "refused");
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	cr_assert(eq(str, outcome.shown_why, "the host's agent says refused: because"));
	say(&outcome, "registered");
	(void)shown(&outcome, ANNOUNCE_REGISTERED);
	cr_assert(eq(str, outcome.shown_why, "its check is up"));
	(void)shown(&outcome, ANNOUNCE_CONFLICT);
	cr_assert(eq(str, outcome.shown_why, "its check is up"));
}

Test(component_outcome, a_record_is_withdrawn_when_the_host_has_it_no_longer)
{
	struct component_outcome outcome = hosted();
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
	say(&outcome, "registered");
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	component_outcome_take(&outcome, false, NULL);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	say(&outcome, "waiting"); /* its registry is away */
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWING));
	say(&outcome, NULL);
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_WITHDRAWN), ANNOUNCE_WITHDRAWN));
}

Test(component_outcome, a_state_keeps_its_time)
{
	struct component_outcome outcome = hosted();
	say(&outcome, "registered");
	cr_assert(component_outcome_show(&outcome, ANNOUNCE_REGISTERED, "", 1));
	cr_assert(not(component_outcome_show(&outcome, ANNOUNCE_REGISTERED, "", 2)));
	cr_assert(eq(dbl, outcome.shown_since, 1));
}

Test(component_outcome, elsewhere_the_own_announcement_decides)
{
	struct component_outcome outcome = { .hosted = false };
	cr_assert(eq(int, shown(&outcome, ANNOUNCE_REGISTERED), ANNOUNCE_REGISTERED));
}
