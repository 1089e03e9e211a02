/* When the bridge looks into a container's registry, and how much a container may ask of it. */
#include <sys/resource.h>

#include "agent/bridge/claim.h"
#include "tests/unit/agent/bridge/container_stage.h"

/* ---- the rate ---- */

CONTAINER_TEST(writes_beyond_the_rate_wait)
{
	stage->policy.rate = 2;
	bridge_container_destroy(stage->container, false);
	open_container(stage);
	int owners[] = { own(stage, "/services/a", RECORD("1")),
		own(stage, "/services/b", RECORD("2")), own(stage, "/services/c", RECORD("3")) };
	run(stage);
	size_t counts[BRIDGE_CLAIM_LINGERING + 1] = { 0 };
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_HELD], 2);
	cr_expect_eq(counts[BRIDGE_CLAIM_WAITING], 1);
	cr_expect_eq(due_in(stage), 501, "a write each 500 ms, and it is behind that");
	const char *paths[] = { "/services/a", "/services/b", "/services/c" };
	settle(stage);
	for (int i = 0; i < 3; i++) {
		if (strcmp(state(stage, paths[i]), "waiting") == 0) {
			cr_expect_str_eq(
				why(stage, paths[i]), "the container writes faster than its rate");
		}
	}
	pass(stage, 250);
	memset(counts, 0, sizeof(counts));
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_WAITING], 1);
	pass(stage, 251);
	memset(counts, 0, sizeof(counts));
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_HELD], 3);
	cr_expect_eq(counts[BRIDGE_CLAIM_WAITING], 0);
	settle(stage);
	/* A held record whose change has to wait stays what it is. */
	stage_put(&stage->common, "web-1/registry/services/a/" DIR_RECORD, RECORD("other"),
		strlen(RECORD("other")));
	run(stage);
	cr_expect_str_neq(state(stage, "/services/a"), "waiting");
	cr_expect_eq(due_in(stage), 500);
	pass(stage, 500);
	cr_expect(registers(stage, "/services/a", "other"));
	/* After a long rest there are as many as in a second, and no more. */
	stage->now_ms += 60000;
	for (int i = 0; i < 3; i++) {
		char name[64];
		snprintf(name, sizeof(name), "web-1/registry%s/" DIR_RECORD, paths[i]);
		stage_put(&stage->common, name, RECORD("again"), strlen(RECORD("again")));
	}
	run(stage);
	cr_expect_eq(due_in(stage), 501);
	settle(stage);
	int changed = 0;
	for (int i = 0; i < 3; i++) {
		changed += stage_has(&stage->common, paths[i], "again");
		close(owners[i]);
	}
	cr_expect_eq(changed, 2);
}

/* ---- when it looks ---- */

CONTAINER_TEST(without_an_event_it_looks_now_and_then)
{
	run(stage);
	cr_expect_eq(due_in(stage), 1000, "a mount makes no event");
	int owner = own(stage, "/services/db", RECORD("one"));
	bridge_container_run(stage->container, stage->now_ms + 999);
	cr_expect_str_eq(state(stage, "/services/db"), "", "nothing is due");
	pass(stage, 1000);
	cr_expect_str_neq(state(stage, "/services/db"), "");
	cr_expect_eq(due_in(stage), 10000);
	cr_expect(registers(stage, "/services/db", "one"));
	hear(stage);
	stage_withdraw(owner);
	pass(stage, 10000);
	cr_expect_str_eq(why(stage, "/services/db"), "the container has withdrawn it");
	cr_expect_eq(due_in(stage), 10000, "the claim was there when the look began");
}

CONTAINER_TEST(before_its_time_it_looks_at_nothing)
{
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	quiet(stage);
	close(owner);
	pass(stage, 1);
	cr_expect_str_eq(state(stage, "/services/db"), "registered", "nobody has heard of it");
	pass(stage, 10000);
	cr_expect_str_eq(why(stage, "/services/db"), "its owner has died");
}

CONTAINER_TEST(an_event_asks_for_a_look)
{
	run(stage);
	int dues = stage->dues;
	int owner = own(stage, "/services/db", RECORD("one"));
	hear(stage);
	cr_expect_gt(stage->dues, dues);
	cr_expect_leq(due_in(stage), 0);
	pass(stage, 0);
	cr_expect_str_neq(state(stage, "/services/db"), "");
	hear(stage);
	pass(stage, 100);
	hear(stage);
	cr_expect_geq(due_in(stage), 1000);
	/* The directory of a node is watched, too, and the subdirectory. */
	stage_put(&stage->common, "web-1/registry/services/db/" DIR_RECORD, RECORD("other"),
		strlen(RECORD("other")));
	hear(stage);
	cr_expect_leq(due_in(stage), 0);
	pass(stage, 0);
	cr_expect(registers(stage, "/services/db", "other"));
	hear(stage);
	stage->now_ms = clock_ms;
	pass(stage, 200);
	hear(stage);
	cr_expect_geq(due_in(stage), 1000);
	cr_assert_eq(mkdir(stage_file(&stage->common, "web-1/more"), 0755), 0);
	hear(stage);
	cr_expect_leq(due_in(stage), 0);
	close(owner);
}

/* The lock goes a moment after the file was closed. */
CONTAINER_TEST(behind_the_end_of_an_owner_it_looks_again_and_again)
{
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	hear(stage);
	pass(stage, 5000);
	hear(stage);
	pass(stage, 5000);
	hear(stage);
	int64_t rest_ms = due_in(stage);
	cr_expect_gt(rest_ms, 4000);
	/* Another descriptor of the owner's is closed: the lock is held still. */
	close(open(stage_file(&stage->common, "web-1/registry/services/db/" DIR_OWNER),
		O_RDWR | O_CLOEXEC));
	hear(stage);
	cr_expect_leq(due_in(stage), 0);
	for (int64_t wait_ms = 1; wait_ms <= 64; wait_ms *= 2) {
		pass(stage, due_in(stage) > 0 ? due_in(stage) : 0);
		cr_expect_eq(due_in(stage), wait_ms);
	}
	pass(stage, 64);
	cr_expect_gt(due_in(stage), 1000, "no further look is due");
	cr_expect_str_neq(state(stage, "/services/db"), "");
	close(owner);
	hear(stage);
	pass(stage, 0);
	cr_expect_str_eq(why(stage, "/services/db"), "its owner has died");
}

CONTAINER_TEST(it_rests_nine_times_as_long_as_a_look_takes)
{
	stage->now_ms = clock_ms = BEGIN_MS + 5000;
	clock_step_ms = 10;
	bridge_container_run(stage->container, stage->now_ms);
	clock_step_ms = 0;
	bridge_container_doubt(stage->container);
	int64_t rest_ms = due_in(stage);
	cr_expect_eq(rest_ms % 90, 0, "%d", (int)rest_ms);
	cr_expect_gt(rest_ms, 0);
	cr_expect_leq(rest_ms, 360);
	stage->now_ms += rest_ms;
	clock_ms = stage->now_ms;
	clock_step_ms = 500;
	bridge_container_run(stage->container, stage->now_ms);
	clock_step_ms = 0;
	bridge_container_doubt(stage->container);
	cr_expect_eq(due_in(stage), 1000, "a second at most");
}

CONTAINER_TEST(directories_that_have_gone_elsewhere_are_not_watched)
{
	char elsewhere[SCRATCH_PATH + 32];
	run(stage);
	int watched = stage_watched();
	cr_assert_eq(mkdir(stage_file(&stage->common, "web-1/registry/deep"), 0755), 0);
	run(stage);
	cr_expect_eq(stage_watched(), watched + 1);
	snprintf(elsewhere, sizeof(elsewhere), "%s", stage_file(&stage->common, "elsewhere"));
	cr_assert_eq(rename(stage_file(&stage->common, "web-1/registry/deep"), elsewhere), 0);
	run(stage);
	cr_expect_eq(stage_watched(), watched);
}

/* ---- floods ---- */

static void flood(struct stage *stage, int files)
{
	for (int i = 0; i < files; i++) {
		char name[64];
		snprintf(name, sizeof(name), "web-1/registry/services/f%d", i % 10);
		int fd = open(stage_file(&stage->common, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		close(fd);
		unlink(stage_file(&stage->common, name));
	}
}

CONTAINER_TEST(a_flood_of_events_ends_them_for_a_second)
{
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	hear(stage);
	pass(stage, 10000);
	hear(stage);
	flood(stage, 600);
	hear(stage);
	cr_expect_str_eq(report(stage, "state"), "\"throttled\"");
	cr_expect_eq(due_in(stage), 200);
	close(owner);
	hear(stage);
	cr_expect_eq(due_in(stage), 200, "there are no events");
	pass(stage, 200);
	cr_expect_str_eq(why(stage, "/services/db"), "its owner has died");
	cr_expect_eq(due_in(stage), 200);
	owner = own(stage, "/services/a", RECORD("one"));
	hear(stage);
	cr_expect_eq(due_in(stage), 200);
	pass(stage, 200);
	cr_expect_str_neq(state(stage, "/services/a"), "", "it looks all the same");
	pass(stage, 599);
	cr_expect_str_eq(report(stage, "state"), "\"throttled\"");
	pass(stage, 1);
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	stage_withdraw(owner);
	hear(stage);
	cr_expect_leq(due_in(stage), 0, "events come again");
}

/* So many, to the event. */
CONTAINER_TEST(a_flood_has_more_than_512_events)
{
	int log = stage_begin_log();
	run(stage);
	quiet(stage);
	stage->now_ms += 5000;
	clock_ms = stage->now_ms;
	for (int i = 0; i < 256; i++) {
		cr_assert_eq(mkdir(stage_file(&stage->common, "web-1/registry/x"), 0755), 0);
		cr_assert_eq(rmdir(stage_file(&stage->common, "web-1/registry/x")), 0);
	}
	hear(stage);
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	cr_expect_eq(stage_logged(log, "changes its registry too fast"), 0);
	cr_assert_eq(mkdir(stage_file(&stage->common, "web-1/registry/x"), 0755), 0);
	hear(stage);
	cr_expect_str_eq(report(stage, "state"), "\"throttled\"");
	cr_expect_eq(
		stage_logged(log, "changes its registry too fast: looking 5 times a second"), 1);
	close(log);
}

/* Of the same bound as refusals: eight at once. */
CONTAINER_TEST(floods_have_a_bound_in_the_log)
{
	int owners[8];
	int log = stage_begin_log();
	for (int i = 0; i < 8; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/other%d", i);
		owners[i] = own(stage, path, RECORD("one"));
	}
	run(stage);
	cr_expect_eq(stage_logged(log, "is not registered"), 8);
	flood(stage, 600);
	hear(stage);
	cr_expect_str_eq(report(stage, "state"), "\"throttled\"");
	cr_expect_eq(stage_logged(log, "changes its registry too fast"), 0);
	for (int i = 0; i < 8; i++) {
		close(owners[i]);
	}
	close(log);
}

CONTAINER_TEST(many_events_over_some_time_are_no_flood)
{
	run(stage);
	hear(stage);
	for (int i = 0; i < 5; i++) {
		stage->now_ms += 101;
		flood(stage, 100); /* 400 events */
		hear(stage);
	}
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	stage->now_ms += 100;
	flood(stage, 100);
	hear(stage);
	cr_expect_str_eq(report(stage, "state"), "\"throttled\"", "in one window");
}

CONTAINER_TEST(a_walk_has_a_bound)
{
	stage->policy.max_records = 1;
	bridge_container_set_policy(stage->container, &stage->policy, 0);
	for (int i = 0; i < 256 + 16 - 5; i++) {
		char name[64];
		snprintf(name, sizeof(name), "web-1/registry/services/f%d", i);
		stage_put(&stage->common, name, "", 0);
	}
	int log = stage_begin_log();
	run(stage);
	cr_expect_str_eq(report(stage, "more"), "false");
	cr_expect_eq(stage_logged(log, "web-1 has more than"), 0);
	stage_put(&stage->common, "web-1/registry/services/one-more", "", 0);
	run(stage);
	run(stage);
	cr_expect_str_eq(report(stage, "more"), "true");
	cr_expect_eq(stage_logged(log, "web-1 has more than 272 files and directories"), 1);
	close(log);
	cr_assert_eq(unlink(stage_file(&stage->common, "web-1/registry/services/one-more")), 0);
	run(stage);
	cr_expect_str_eq(report(stage, "more"), "false");
}

CONTAINER_TEST(refused_records_are_named_as_far_as_a_bound_goes)
{
	int owners[66];
	stage->policy.max_records = 1;
	bridge_container_set_policy(stage->container, &stage->policy, 0);
	for (int i = 0; i < 65; i++) {
		char path[64];
		snprintf(path, sizeof(path), "/services/n%d", i);
		owners[i] = own(stage, path, RECORD("one"));
	}
	/* Each has four entries: more than a walk visits for one record. */
	stage->policy.max_records = 40;
	run(stage);
	stage->policy.max_records = 1;
	run(stage);
	size_t counts[BRIDGE_CLAIM_LINGERING + 1] = { 0 };
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_REFUSED], 64);
	for (int i = 0; i < 65; i++) {
		close(owners[i]);
	}
}

/* ---- without descriptors ---- */

/* With each one more it gets further, until it sees all: what it cannot see, it leaves as it is. */
CONTAINER_TEST(a_look_that_lacks_a_descriptor_changes_nothing)
{
	struct rlimit limit;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	int owner = own(stage, "/services/a", RECORD("1"));
	run(stage);
	settle(stage);
	cr_assert_str_eq(state(stage, "/services/a"), "registered");
	int free_fd = dup(STDIN_FILENO);
	close(free_fd);
	int late = own(stage, "/services/late", RECORD("2"));
	free_fd++;
	for (rlim_t spare = 0; spare < 5; spare++) {
		const struct rlimit less = { (rlim_t)free_fd + spare, limit.rlim_max };
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &less), 0);
		stage->now_ms += 2000;
		clock_ms = stage->now_ms;
		bridge_container_doubt(stage->container);
		bridge_container_run(stage->container, stage->now_ms);
		cr_expect_gt(due_in(stage), 0, "it does not look again and again");
		cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
		cr_expect_str_eq(state(stage, "/services/a"), "registered", "%d", (int)spare);
	}
	/* It came meanwhile, and is found without an event. */
	pass(stage, 2000);
	settle(stage);
	cr_expect_str_eq(state(stage, "/services/late"), "registered");
	close(owner);
	close(late);
	stage->now_ms += 2000;
	run(stage);
	cr_expect_str_neq(state(stage, "/services/a"), "registered");
}
