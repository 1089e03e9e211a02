#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "agent/base/drains.h"
#include "lib/base/array.h"

Test(drain, ends_by_itself_after_its_time)
{
	struct drain drain = { 0 };
	drain_begin(&drain, "upgrade", 3, 100);
	cr_assert(not(drain_expire(&drain, 102.9)));
	cr_assert(drain_expire(&drain, 103));
	cr_assert(not(drain.active));
	cr_assert(not(drain_expire(&drain, 104)), "it ends once");
}

Test(drain, a_second_one_replaces_reason_and_end_but_not_the_beginning)
{
	struct drain drain = { 0 };
	drain_begin(&drain, "upgrade", 3, 100);
	drain_begin(&drain, "disk", 0, 101);
	cr_assert(eq(str, drain.reason, "disk"));
	cr_assert(eq(dbl, drain.since, 100));
	cr_assert(eq(dbl, drain.until, 0));
}

Test(drain, survives_as_json)
{
	struct drain drain = { 0 };
	drain_begin(&drain, "upgrade", 30, 100);
	json_t *json = drain_json(&drain);
	struct drain loaded = { 0 };
	cr_assert(drain_from_json(&loaded, json, 110));
	cr_assert(loaded.active);
	cr_assert(eq(dbl, loaded.since, 100));
	cr_assert(eq(dbl, loaded.until, 130));
	cr_assert(eq(str, loaded.reason, "upgrade"));
	json_decref(json);
}

Test(drain, a_drain_that_expired_meanwhile_is_loaded_as_over)
{
	struct drain drain = { 0 };
	drain_begin(&drain, "upgrade", 3, 100);
	json_t *json = drain_json(&drain);
	struct drain loaded = { 0 };
	cr_assert(drain_from_json(&loaded, json, 200));
	cr_assert(not(loaded.active));
	json_decref(json);
}

Test(drain, a_wrong_shape_is_refused)
{
	struct drain drain = { 0 };
	json_t *json = json_pack("{s:s}", "active", "perhaps");
	cr_assert(not(drain_from_json(&drain, json, 0)));
	json_decref(json);
	cr_assert(not(drain_from_json(&drain, NULL, 0)));
}

Test(drain, is_described_with_its_reason_if_it_has_one)
{
	struct drain drain = { 0 };
	char text[64];
	drain_begin(&drain, "", 0, 1000);
	drain_describe(&drain, text, sizeof(text));
	cr_assert(eq(str, text, "draining"));
	drain_begin(&drain, "disk", 0, 1000);
	drain_describe(&drain, text, sizeof(text));
	cr_assert(eq(str, text, "draining: disk"));
}

Test(drain, is_quiet_after_two_looks_in_a_row)
{
	static const struct {
		bool quiet;
		bool ends;
	} looks[] = { { true, false }, { false, false }, { true, false }, { true, true },
		{ true, false } };
	struct drain drain = { 0 };
	drain_begin(&drain, "", 0, 1000);
	for (size_t i = 0; i < ARRAY_LEN(looks); i++) {
		cr_assert(eq(int, drain_look(&drain, looks[i].quiet), looks[i].ends));
		cr_assert(eq(int, drain_is_quiet(&drain), i >= 3));
	}
	drain_end(&drain);
	cr_assert(not(drain_is_quiet(&drain)));
}

Test(drain, one_of_many_ends_alone)
{
	struct drains drains = { .items = NULL };
	for (int i = 0; i < 3; i++) {
		char name[] = { (char)('a' + i), '\0' };
		drain_begin(&drains_add(&drains, name)->drain, name, 0, 100);
	}
	cr_assert(eq(ptr, drains_add(&drains, "b"), drains_find(&drains, "b")));
	drains_remove(&drains, drains_find(&drains, "a"));
	cr_assert(eq(ptr, drains_find(&drains, "a"), NULL));
	cr_assert(eq(str, drains_find(&drains, "b")->drain.reason, "b"));
	cr_assert(eq(str, drains_find(&drains, "c")->drain.reason, "c"));
	drains_finish(&drains);
}
