/* A container's registry, and what becomes of the records in it. */
#include <errno.h>
#include <sys/syscall.h>

#include "agent/base/log.h"
#include "agent/bridge/claim.h"
#include "tests/unit/agent/bridge/container_stage.h"

/* ---- records that come, change and go ---- */

CONTAINER_TEST(a_live_record_is_announced_changed_and_withdrawn)
{
	run(stage);
	cr_expect_str_eq(state(stage, "/services/db"), "");
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	close(owner);
	owner = own(stage, "/services/db", RECORD("another"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "another"));
	stage_withdraw(owner);
	run(stage);
	cr_expect_str_eq(why(stage, "/services/db"), "the container has withdrawn it");
	cr_expect_str_eq(state(stage, "/services/db"), "withdrawing");
	settle(stage);
	cr_expect_str_eq(state(stage, "/services/db"), "");
	cr_expect_null(stage_node(&stage->common, "/services/db"));
}

CONTAINER_TEST(a_record_goes_with_its_owner)
{
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	close(owner);
	run(stage);
	cr_expect_str_eq(why(stage, "/services/db"), "its owner has died");
	settle(stage);
	cr_expect_null(stage_node(&stage->common, "/services/db"));
}

CONTAINER_TEST(the_container_says_who_it_is)
{
	cr_expect_str_eq(bridge_container_name(stage->container), "web-1");
	int own_fd = open(stage_file(&stage->common, "web-1"), O_RDONLY | O_CLOEXEC);
	int other = open(stage_file(&stage->common, "state"), O_RDONLY | O_CLOEXEC);
	cr_expect(bridge_container_is(stage->container, own_fd));
	cr_expect_not(bridge_container_is(stage->container, other));
	cr_expect_not(bridge_container_is(stage->container, -1));
	close(own_fd);
	close(other);
	run(stage);
	cr_expect_str_eq(report(stage, "name"), "\"web-1\"");
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	cr_expect_str_eq(report(stage, "why"), "\"\"");
	cr_expect_str_eq(report(stage, "since"), "1700000000.0");
	cr_expect_str_eq(report(stage, "policy"), "\"web-*\"");
	cr_expect_str_eq(report(stage, "more"), "false");
	cr_expect_str_eq(report(stage, "unbounded"), "true");
	bridge_container_set_policy(stage->container, NULL, 0);
	cr_expect_str_eq(report(stage, "policy"), "\"\"");
}

/* ---- the policy ---- */

static const char *refusal(struct stage *stage, const char *path)
{
	run(stage);
	return strcmp(state(stage, path), "refused") == 0 ? why(stage, path) : "not refused";
}

CONTAINER_TEST(the_policy_refuses)
{
	int owners[] = { own(stage, "/services/db", "no record"),
		own(stage, "/other", RECORD("x")) };
	cr_expect_str_eq(
		refusal(stage, "/other"), "`allow` of [container web-*] does not have the path");
	cr_expect(strstr(refusal(stage, "/services/db"), "InvalidRecord: "), "%s",
		why(stage, "/services/db"));
	size_t counts[BRIDGE_CLAIM_LINGERING + 1] = { 0 };
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_REFUSED], 2);
	cr_expect_eq(counts[BRIDGE_CLAIM_HELD], 0);
	bridge_container_set_policy(stage->container, NULL, 0);
	cr_expect_str_eq(refusal(stage, "/other"), "no [container] matches web-1");
	close(owners[0]);
	close(owners[1]);
}

CONTAINER_TEST(a_new_policy_is_in_force_at_once)
{
	char tier[] = "tier", gold[] = "gold";
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	stage->allow[0] = (char *)(uintptr_t) "/none/*";
	bridge_container_set_policy(stage->container, &stage->policy, 0);
	cr_expect_leq(due_in(stage), 0);
	pass(stage, 20);
	cr_expect_str_eq(state(stage, "/services/db"), "refused");
	settle(stage);
	cr_expect_null(stage_node(&stage->common, "/services/db"));
	stage->allow[0] = (char *)(uintptr_t) "/services/*";
	stage->attribute = (struct config_name_value){ .name = tier, .value = gold };
	stage->policy.attribute_count = 1;
	bridge_container_set_policy(stage->container, &stage->policy, 0);
	pass(stage, 2000);
	cr_expect(registers(stage, "/services/db", "\"tier\":\"gold\""));
	cr_expect_str_eq(why(stage, "/services/db"), "the container has it");
	close(owner);
}

CONTAINER_TEST(the_number_of_records_and_their_bytes_have_bounds)
{
	int owners[] = { own(stage, "/services/a", RECORD("1")),
		own(stage, "/services/b", RECORD("2")), own(stage, "/services/c", RECORD("3")) };
	stage->policy.max_records = 2;
	run(stage);
	size_t counts[BRIDGE_CLAIM_LINGERING + 1] = { 0 };
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_HELD], 2);
	cr_expect_eq(counts[BRIDGE_CLAIM_REFUSED], 1);
	const char *paths[] = { "/services/a", "/services/b", "/services/c" };
	for (int i = 0; i < 3; i++) {
		if (strcmp(state(stage, paths[i]), "refused") == 0) {
			cr_expect_str_eq(
				why(stage, paths[i]), "max_records = 2 of [container web-*]");
		}
	}
	settle(stage);
	size_t size = strlen(stage_node(&stage->common, "/services/a")
			? stage_node(&stage->common, "/services/a")
			: stage_node(&stage->common, "/services/b"));
	stage->policy.max_records = 3;
	stage->policy.max_bytes = 3 * size;
	bridge_container_set_policy(stage->container, &stage->policy, 0);
	run(stage);
	memset(counts, 0, sizeof(counts));
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_HELD], 3, "all that fit, to the byte");
	stage->policy.max_bytes = 3 * size - 1;
	bridge_container_set_policy(stage->container, &stage->policy, 0);
	run(stage);
	memset(counts, 0, sizeof(counts));
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_HELD], 2);
	cr_expect_eq(counts[BRIDGE_CLAIM_REFUSED], 1);
	char expected[100];
	snprintf(expected, sizeof(expected), "max_bytes = %zu of [container web-*]", 3 * size - 1);
	for (int i = 0; i < 3; i++) {
		if (strcmp(state(stage, paths[i]), "refused") == 0) {
			cr_expect_str_eq(why(stage, paths[i]), expected);
		}
		close(owners[i]);
	}
}

CONTAINER_TEST(a_refused_record_is_accepted_when_it_is_mended)
{
	int owner = own(stage, "/services/db", "oops");
	run(stage);
	cr_expect_str_eq(state(stage, "/services/db"), "refused");
	close(owner);
	owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	stage_put(&stage->common, "web-1/registry/services/db/" DIR_RECORD, "oops", 4);
	run(stage);
	cr_expect_str_eq(state(stage, "/services/db"), "refused");
	settle(stage);
	cr_expect_null(stage_node(&stage->common, "/services/db"));
	stage_put(&stage->common, "web-1/registry/services/db/" DIR_RECORD, RECORD("one"),
		strlen(RECORD("one")));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	close(owner);
}

/* ---- linger ---- */

CONTAINER_TEST(a_record_lingers_for_its_owners_successor)
{
	bridge_container_set_policy(stage->container, &stage->policy, 700);
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	close(owner);
	run(stage);
	cr_expect_str_eq(state(stage, "/services/db"), "lingering");
	cr_expect_str_eq(why(stage, "/services/db"), "its owner has died");
	cr_expect_eq(due_in(stage), 700);
	size_t counts[BRIDGE_CLAIM_LINGERING + 1] = { 0 };
	bridge_container_count(stage->container, counts);
	cr_expect_eq(counts[BRIDGE_CLAIM_LINGERING], 1);
	pass(stage, 400);
	run(stage);
	cr_expect_eq(due_in(stage), 300, "it counts from the first look");
	owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	quiet(stage);
	close(owner);
	run(stage);
	cr_expect_eq(due_in(stage), 700, "another death");
	pass(stage, 699);
	run(stage);
	cr_expect_str_eq(state(stage, "/services/db"), "lingering");
	settle(stage);
	cr_expect(stage_has(&stage->common, "/services/db", "one"));
	pass(stage, 1);
	cr_expect_str_eq(why(stage, "/services/db"), "its owner has died");
	settle(stage);
	cr_expect_null(stage_node(&stage->common, "/services/db"));
}

CONTAINER_TEST(a_successor_with_another_record_changes_it)
{
	bridge_container_set_policy(stage->container, &stage->policy, 700);
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	close(owner);
	run(stage);
	owner = own(stage, "/services/db", RECORD("other"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "other"));
	close(owner);
}

CONTAINER_TEST(a_record_that_was_withdrawn_or_refused_does_not_linger)
{
	bridge_container_set_policy(stage->container, &stage->policy, 700);
	int owners[] = { own(stage, "/services/db", RECORD("one")),
		own(stage, "/other", RECORD("x")) };
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	stage_withdraw(owners[0]);
	close(owners[1]);
	run(stage);
	cr_expect_str_eq(why(stage, "/services/db"), "the container has withdrawn it");
	cr_expect_str_eq(state(stage, "/other"), "");
	settle(stage);
	cr_expect_null(stage_node(&stage->common, "/services/db"));
}

/* ---- the subdirectory ---- */

static void expect_refused(struct stage *stage, const char *text)
{
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"refused\"");
	cr_expect(strstr(report(stage, "why"), text), "%s", report(stage, "why"));
	cr_expect_eq(due_in(stage), 1000);
}

CONTAINER_TEST(a_subdirectory_that_others_can_write_is_not_served)
{
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	static const mode_t bad[] = { 0777, 0775, 0757 };
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(chmod(stage_file(&stage->common, "web-1"), bad[i]), 0);
		expect_refused(stage,
			"the subdirectory can be written by others than root: it must belong to "
			"root, with mode 0755");
	}
	settle(stage);
	cr_expect_null(stage_node(&stage->common, "/services/db"));
	cr_assert_eq(chmod(stage_file(&stage->common, "web-1"), 0755), 0);
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	cr_expect_str_eq(report(stage, "why"), "\"\"");
	cr_expect(registers(stage, "/services/db", "one"));
	close(owner);
}

CONTAINER_TEST(a_registry_that_is_no_directory_is_named)
{
	stage_remove(&stage->common, "web-1/registry");
	stage_put(&stage->common, "web-1/registry", "", 0);
	expect_refused(stage, "cannot open registry/ as a directory: ");
	cr_assert_eq(unlink(stage_file(&stage->common, "web-1/registry")), 0);
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	struct stat made;
	cr_assert_eq(stat(stage_file(&stage->common, "web-1/registry"), &made), 0);
	cr_expect_eq(made.st_mode & 0777, 0755);
}

CONTAINER_TEST(a_socket_that_cannot_be_made_is_named)
{
	stage_put(&stage->common, "web-1/berth.sock", "", 0);
	expect_refused(stage, "berth.sock exists and is not a socket");
	struct bridge_socket passed = { .fd = -1 };
	cr_expect_not(bridge_container_pass(stage->container, &passed));
	cr_assert_eq(unlink(stage_file(&stage->common, "web-1/berth.sock")), 0);
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	cr_expect(bridge_container_pass(stage->container, &passed));
	cr_expect_str_eq(passed.container, "web-1");
	close(passed.fd);
}

CONTAINER_TEST(a_subdirectory_that_is_gone_cannot_be_served)
{
	run(stage);
	stage_remove(&stage->common, "web-1");
	expect_refused(stage, "cannot make registry/: ");
}

static int fchown_error;

int fchown(int fd, uid_t user, gid_t group)
{
	errno = fchown_error;
	return fchown_error ? -1 : (int)syscall(SYS_fchown, fd, user, group);
}

CONTAINER_TEST(a_registry_that_cannot_be_given_to_its_owner_is_told)
{
	stage->policy.owner_uid = geteuid() + 1;
	stage->policy.owner_gid = getegid();
	fchown_error = EROFS;
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"refused\"");
	cr_expect(strstr(report(stage, "why"), "cannot give registry/ to its owner: "), "%s",
		report(stage, "why"));
	fchown_error = 0;
}

CONTAINER_TEST(a_subdirectory_of_another_user_is_not_served)
{
	if (geteuid() != 0) {
		return;
	}
	cr_assert_eq(chown(stage_file(&stage->common, "web-1"), 12345, 0), 0);
	expect_refused(stage, "the subdirectory can be written by others than root");
	cr_assert_eq(chown(stage_file(&stage->common, "web-1"), 0, 0), 0);
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
}

/* Only root can give it to another user. */
CONTAINER_TEST(the_registry_belongs_to_the_policys_owner)
{
	struct stat before;
	struct stat after;
	cr_assert_eq(stat(stage_file(&stage->common, "web-1/registry"), &before), 0);
	stage->policy.owner_uid = before.st_uid;
	stage->policy.owner_gid = before.st_gid;
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	cr_assert_eq(stat(stage_file(&stage->common, "web-1/registry"), &after), 0);
	cr_expect_eq(before.st_ctim.tv_nsec, after.st_ctim.tv_nsec, "nothing is to be given");
	for (unsigned more = 1; more < 4; more++) {
		stage->policy.owner_uid = before.st_uid + (more & 1);
		stage->policy.owner_gid = before.st_gid + (more >> 1);
		run(stage);
		cr_assert_eq(stat(stage_file(&stage->common, "web-1/registry"), &after), 0);
		if (geteuid() == 0) {
			cr_expect_eq(after.st_uid, stage->policy.owner_uid);
			cr_expect_eq(after.st_gid, stage->policy.owner_gid);
			cr_expect_str_eq(report(stage, "state"), "\"served\"");
		} else {
			cr_expect(
				strstr(report(stage, "why"), "cannot give registry/ to its owner"));
		}
	}
}

/* ---- neighbours and successors ---- */

CONTAINER_TEST(records_go_with_the_container_or_stay_for_a_successor)
{
	int owner = own(stage, "/services/db", RECORD("one"));
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	bridge_container_destroy(stage->container, false);
	settle(stage);
	cr_expect(stage_has(&stage->common, "/services/db", "one"));
	open_container(stage);
	run(stage);
	cr_expect(registers(stage, "/services/db", "one"));
	bridge_container_destroy(stage->container, true);
	cr_expect_str_eq(announce_why(bridge_publish_find(stage->publish, "/services/db", "web-1")),
		"the container's subdirectory has gone");
	settle(stage);
	cr_expect_null(stage_node(&stage->common, "/services/db"));
	open_container(stage);
	close(owner);
}

/* Announced by a predecessor: it costs no write, and goes if its owner has died meanwhile. */
CONTAINER_TEST(a_predecessors_records_are_looked_at_first)
{
	int owners[] = { own(stage, "/services/a", RECORD("1")),
		own(stage, "/services/b", RECORD("2")) };
	run(stage);
	cr_expect(registers(stage, "/services/a", "1"));
	cr_expect(registers(stage, "/services/b", "2"));
	bridge_container_destroy(stage->container, false);
	bridge_publish_destroy(stage->publish);
	json_t *inherited = json_pack("{s:s, s:s}", "/services/a", "web-1", "/services/b", "web-1");
	open_publish(stage, inherited);
	json_decref(inherited);
	cr_assert(file_queue_wait(stage->common.files, 60000));
	close(owners[1]);
	stage->policy.rate = 1;
	open_container(stage);
	bridge_container_expect(stage->container, "/services/a");
	bridge_container_expect(stage->container, "/services/b");
	int owner = own(stage, "/services/c", RECORD("3"));
	run(stage);
	settle(stage);
	cr_expect(registers(stage, "/services/a", "1"));
	cr_expect_null(stage_node(&stage->common, "/services/b"));
	cr_expect(registers(stage, "/services/c", "3"), "the one write that the rate allows");
	close(owners[0]);
	close(owner);
}

/* The host has heard of the path, and has never seen a node there. */
CONTAINER_TEST(a_path_that_is_gone_before_the_look_is_no_refusal)
{
	bridge_container_expect(stage->container, "/services/never");
	cr_expect_str_eq(state(stage, "/services/never"), "new");
	run(stage);
	cr_expect_str_eq(state(stage, "/services/never"), "");
}

CONTAINER_TEST(a_predecessors_socket_is_taken_once)
{
	struct bridge_socket passed = { .fd = -1 };
	run(stage);
	cr_assert(bridge_container_pass(stage->container, &passed));
	bridge_container_destroy(stage->container, false);
	const struct bridge_container_environment environment = {
		.watches = stage->watches,
		.publish = stage->publish,
		.http = stage->common.http,
		.sockets = &passed,
		.socket_count = 1,
		.on_due = on_due,
		.context = stage,
	};
	int fd = open(stage_file(&stage->common, "web-1"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	stage->container = bridge_container_create(&environment, "web-1", fd);
	bridge_container_set_policy(stage->container, &stage->policy, 0);
	int taken = passed.fd;
	run(stage);
	cr_expect_eq(passed.fd, -1);
	cr_expect_geq(fcntl(taken, F_GETFD), 0, "it listens");
	bridge_container_forget_inherited(stage->container);
	run(stage);
	cr_expect_str_eq(report(stage, "state"), "\"served\"");
	cr_assert_eq(unlink(stage_file(&stage->common, "web-1/berth.sock")), 0);
	run(stage);
	cr_expect_eq(access(stage_file(&stage->common, "web-1/berth.sock"), F_OK), 0);
}

/* ---- the log ---- */

/* Eight refusals at once, and then one in a second, each once. */
CONTAINER_TEST(refusals_have_a_bound_in_the_log)
{
	int owners[12];
	int log = stage_begin_log();
	for (int i = 0; i < 12; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/other%d", i);
		owners[i] = own(stage, path, RECORD("one"));
	}
	run(stage);
	cr_expect_eq(stage_logged(log, "is not registered"), 8);
	run(stage);
	cr_expect_eq(stage_logged(log, "is not registered"), 0);
	stage->now_ms += 2500;
	for (int i = 0; i < 12; i++) {
		char name[64];
		snprintf(name, sizeof(name), "web-1/registry/other%d/" DIR_RECORD, i);
		stage_put(&stage->common, name, "oops", 4);
	}
	stage->allow[1] = (char *)(uintptr_t) "/**";
	run(stage);
	cr_expect_eq(stage_logged(log, "is not registered"), 2);
	stage->now_ms += 3600000;
	stage->allow[1] = (char *)(uintptr_t) "/none";
	run(stage);
	cr_expect_eq(stage_logged(log, "is not registered"), 8);
	for (int i = 0; i < 12; i++) {
		close(owners[i]);
	}
	close(log);
}

/* Each once, until it is over. */
CONTAINER_TEST(mistakes_of_a_container_are_told_once)
{
	int log = stage_begin_log();
	run(stage);
	run(stage);
	cr_expect_eq(stage_logged(log, "registry/ is not a file system of its own"), 1);
	for (int round = 0; round < 2; round++) {
		cr_assert_eq(chmod(stage_file(&stage->common, "web-1"), 0777), 0);
		run(stage);
		run(stage);
		cr_expect_eq(
			stage_logged(log, "container web-1: the subdirectory can be written"), 1);
		cr_assert_eq(chmod(stage_file(&stage->common, "web-1"), 0755), 0);
		run(stage);
		cr_expect_eq(stage_logged(log, "container"), 0);
	}
	close(log);
}
