/*
 * The dir: backend among several processes: owners that die, stop or exec, writers that race.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/amount.h"
#include "tests/support/dir_client.h"
#include "tests/support/rights.h"
#include "lib/base/clock.h"

static char root[512];
static struct dir_client client;
static int ready[2]; /* a pipe: a byte from each owner that has its record */

static void set_up(void)
{
	cr_assert_eq(pipe(ready), 0);
	snprintf(root, sizeof(root), "%s", dir_root_make_in_memory());
	dir_client_open(&client, root, NULL);
}

static void tear_down(void)
{
	dir_client_close(&client);
	dir_root_remove(root);
}

TestSuite(dir_process, .init = set_up, .fini = tear_down, .timeout = 240);

/* Runs `body` in a child that dies with us. */
static pid_t start(void (*body)(void))
{
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body();
		_exit(0);
	}
	return pid;
}

static int finish(pid_t pid)
{
	int status = -1;

	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void own(void)
{
	struct dir_client owner;

	dir_client_open(&owner, root, NULL);
	if (dir_create(&owner, "/a/owned", "x", true) != 0 || write(ready[1], "", 1) != 1) {
		_exit(1);
	}
	for (;;) {
		pause();
	}
}

static void watch_owned(void)
{
	cr_assert_eq(dir_watch(&client, "/a", REGISTRY_WATCH_CHILDREN), 0);
	cr_assert_eq(dir_watch(&client, "/a/owned", REGISTRY_WATCH_DATA), 0);
}

/*
 * A child that owns /a/owned, seen by `client`, which has both kinds of watches on it. The record
 * can be seen before all is done that makes it: until then its maker holds the write lock, and the
 * news of it may be under way.
 */
static pid_t start_owner(void)
{
	char byte;
	pid_t pid;

	cr_assert_eq(dir_create(&client, "/a", "", false), 0);
	pid = start(own);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	watch_owned();
	for (int i = 0; i < 3; i++) {
		dir_client_turn(&client, 0);
	}
	watch_owned();
	dir_client_clear(&client);
	return pid;
}

Test(dir_process, a_killed_owners_record_is_gone_and_watchers_know)
{
	pid_t pid = start_owner();
	struct registry_stat stat;

	kill(pid, SIGKILL);
	finish(pid);
	cr_assert_eq(dir_stat(&client, "/a/owned", &stat), BERTH_PATH_NOT_FOUND,
		"at once, for every reader");
	cr_assert_str_eq(dir_list(&client, "/a"), "");
	DIR_CLIENT_UNTIL(&client, client.notified[REGISTRY_WATCH_DATA] > 0);
	DIR_CLIENT_UNTIL(&client, client.notified[REGISTRY_WATCH_CHILDREN] > 0);
}

/*
 * Only notifications are looked at, so each death must be announced with the lock free when read.
 */
Test(dir_process, no_death_is_missed)
{
	cr_assert_eq(dir_create(&client, "/a", "", false), 0);
	for (int round = 0; round < 30; round++) {
		struct registry_stat stat;
		pid_t pid = start(own);

		DIR_CLIENT_UNTIL(&client, dir_stat(&client, "/a/owned", &stat) == 0);
		kill(pid, SIGKILL); /* armed while it dies */
		for (;;) {
			/*
			 * Before it is armed: the news of the last owner's remains may come
			 * between, and becomes the only one.
			 */
			dir_client_clear(&client);
			cr_assert_eq(dir_watch(&client, "/a", REGISTRY_WATCH_CHILDREN), 0);
			if (strcmp(dir_list(&client, "/a"), "") == 0) {
				break;
			}
			DIR_CLIENT_UNTIL(&client, client.notified[REGISTRY_WATCH_CHILDREN] > 0);
		}
		finish(pid);
	}
}

Test(dir_process, a_stopped_owner_keeps_its_record)
{
	pid_t pid = start_owner();
	struct registry_stat stat;
	int status;

	kill(pid, SIGSTOP);
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	cr_assert(WIFSTOPPED(status));
	cr_assert_eq(dir_stat(&client, "/a/owned", &stat), 0);
	cr_assert_str_eq(dir_list(&client, "/a"), "owned");
	cr_assert_eq(dir_create(&client, "/a/owned", "y", false), BERTH_FILE_ALREADY_EXISTS);
	kill(pid, SIGKILL);
	finish(pid);
	cr_assert_eq(dir_create(&client, "/a/owned", "y", false), 0);
}

enum { ROUNDS = AMOUNT(1000) };

/* Adds 1 to the number at /counter, ROUNDS times, each time only over the version that it read. */
static void count_up(void)
{
	struct dir_client counter;

	dir_client_open(&counter, root, NULL);
	for (int done = 0; done < ROUNDS;) {
		struct registry_stat stat;
		char data[32];
		int result;

		if (dir_get(&counter, "/counter", data, sizeof(data), &stat) != 0) {
			dir_die("the counter was not there");
		}
		snprintf(data, sizeof(data), "%d", atoi(data) + 1);
		/* Each way to write counts, and none shows a moment without the node. */
		result = done % 2 == 0 ? dir_set(&counter, "/counter", data, &stat)
				       : dir_replace(&counter, "/counter", data, false, &stat);
		if (result == 0) {
			done++;
		} else if (result != BERTH_FILE_ALREADY_EXISTS) {
			dir_die(berth_error_name(result));
		}
	}
	dir_client_close(&counter);
}

Test(dir_process, racing_updates_lose_nothing)
{
	char data[32];
	pid_t pid;

	cr_assert_eq(dir_create(&client, "/counter", "0", false), 0);
	pid = start(count_up);
	count_up();
	cr_assert_eq(finish(pid), 0);
	cr_assert_eq(dir_get(&client, "/counter", data, sizeof(data), NULL), 0);
	cr_assert_eq(atoi(data), 2 * ROUNDS);
}

/* Creates and deletes the same nodes as another process; the race must explain every error. */
static void make_and_remove(void)
{
	struct dir_client racer;

	dir_client_open(&racer, root, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		struct registry_stat stat;
		char data[32];
		int made = dir_create(&racer, "/p", "", false);
		int child = dir_create(&racer, "/p/c", "x", round % 2 == 0);
		int got = dir_get(&racer, "/p/c", data, sizeof(data), &stat);
		int gone = dir_delete(&racer, "/p/c", NULL);
		int parent_gone = dir_delete(&racer, "/p", NULL);

		if ((made != 0 && made != BERTH_FILE_ALREADY_EXISTS) ||
			(child != 0 && child != BERTH_FILE_ALREADY_EXISTS &&
				child != BERTH_PATH_NOT_FOUND) ||
			(got != 0 && got != BERTH_PATH_NOT_FOUND) ||
			(got == 0 && strcmp(data, "x") != 0) ||
			(gone != 0 && gone != BERTH_PATH_NOT_FOUND) ||
			(parent_gone != 0 && parent_gone != BERTH_PATH_NOT_FOUND &&
				parent_gone != BERTH_PATH_IS_NOT_EMPTY_DIRECTORY)) {
			char codes[128];
			snprintf(codes, sizeof(codes),
				"an error that no race explains: %s %s %s \"%s\" %s %s",
				berth_error_name(made), berth_error_name(child),
				berth_error_name(got), got == 0 ? data : "", berth_error_name(gone),
				berth_error_name(parent_gone));
			dir_die(codes);
		}
	}
	dir_client_close(&racer);
}

/*
 * Two processes are the first in the same new registry at once, in NEW_REGISTRIES one after
 * another.
 */
enum { NEW_REGISTRIES = 300 };

static void be_first(const char *path)
{
	for (int i = 0; i < NEW_REGISTRIES; i++) {
		char url[600];
		struct dir_client first;

		snprintf(url, sizeof(url), "%s/%d", root, i);
		dir_client_open(&first, url, NULL);
		if (dir_create(&first, path, "x", false) != 0) {
			dir_die("the first node could not be made");
		}
		/* For the other one: the next registry is begun together. */
		for (int64_t until_ms = clock_monotonic_ms() + 30000;
			strcmp(dir_list(&first, "/"), "a b") != 0;) {
			if (clock_monotonic_ms() > until_ms) {
				dir_die("the other one does not begin");
			}
		}
		dir_client_close(&first);
	}
}

static void be_first_with_a(void)
{
	be_first("/a");
}

Test(dir_process, two_can_begin_a_registry_at_once)
{
	pid_t pid = start(be_first_with_a);

	be_first("/b");
	cr_assert_eq(finish(pid), 0);
}

Test(dir_process, racing_creates_and_deletes_give_no_odd_error)
{
	pid_t pid = start(make_and_remove);

	make_and_remove();
	cr_assert_eq(finish(pid), 0);
	cr_assert_str_eq(dir_list(&client, "/"), "");
}

/*
 * The program that the owner becomes: goes on with the session that its environment holds, then
 * waits to be killed.
 */
__attribute__((constructor)) static void become_successor(void)
{
	const char *session = getenv("TEST_DIR_SESSION");
	struct dir_client successor;
	struct registry_stat stat;
	json_t *json;

	if (session == NULL) {
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	json = json_loads(session, 0, NULL);
	dir_client_open(&successor, getenv("TEST_DIR_ROOT"), json);
	json_decref(json);
	if (dir_stat(&successor, "/kept", &stat) != 0 || !stat.own ||
		dir_stat(&successor, "/lost", &stat) != 0 || stat.own ||
		dir_create(&successor, "/adopted", "x", true) != 0) {
		_exit(1);
	}
	for (;;) {
		pause();
	}
}

static void own_and_exec(void)
{
	struct dir_client owner;
	struct registry_stat stat;
	json_t *session;

	dir_client_open(&owner, root, NULL);
	if (dir_create(&owner, "/kept", "x", true) != 0 ||
		dir_create(&owner, "/lost", "x", true) != 0 ||
		dir_stat(&client, "/lost", &stat) != 0 ||
		dir_replace(&client, "/lost", "not yours", false, &stat) != 0) {
		_exit(1);
	}
	session = registry_dir_ops.detach(owner.backend);
	setenv("TEST_DIR_SESSION", json_dumps(session, 0), 1);
	setenv("TEST_DIR_ROOT", root, 1);
	execl("/proc/self/exe", "successor", (char *)NULL);
	_exit(1);
}

Test(dir_process, ephemeral_nodes_survive_exec_and_die_with_the_successor)
{
	struct registry_stat before, after;
	pid_t pid = start(own_and_exec);

	DIR_CLIENT_UNTIL(&client, dir_stat(&client, "/kept", &before) == 0);
	DIR_CLIENT_UNTIL(&client, dir_stat(&client, "/adopted", &after) == 0);
	cr_assert_eq(dir_stat(&client, "/kept", &after), 0);
	cr_assert_eq(after.node_id, before.node_id);
	cr_assert_eq(after.version, before.version);
	cr_assert(after.ephemeral && !after.own);
	kill(pid, SIGKILL);
	finish(pid);
	cr_assert_str_eq(dir_list(&client, "/"), "lost");
}

Test(dir_process, a_detached_session_can_be_taken_up_again_in_the_same_process)
{
	struct registry_stat stat;
	json_t *session;

	cr_assert_eq(dir_create(&client, "/e", "x", true), 0);
	session = registry_dir_ops.detach(client.backend);
	dir_client_open(&client, root, session);
	json_decref(session);
	cr_assert_eq(dir_stat(&client, "/e", &stat), 0);
	cr_assert(stat.own);
}

/*
 * A user namespace of its own has limits of its own; it can be had only by a process with a single
 * thread.
 */
static void forbid_watches(void)
{
	cr_assert_eq(unshare(CLONE_NEWUSER), 0);
	int fd = open("/proc/sys/user/max_inotify_watches", O_WRONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, "0\n", 2), 2);
	close(fd);
}

static void watch_without_watches(void)
{
	struct dir_client watcher;

	forbid_watches();
	dir_client_open(&watcher, root, NULL);
	if (dir_watch(&watcher, "/a", REGISTRY_WATCH_CHILDREN) != 0) {
		_exit(1);
	}
	for (int i = 0; i < 2; i++) {
		if (dir_watch(&watcher, "/a", REGISTRY_WATCH_DATA) != 0) {
			_exit(1);
		}
		dir_client_clear(&watcher);
		DIR_CLIENT_UNTIL(&watcher, watcher.notified[REGISTRY_WATCH_DATA] > 0);
	}
	DIR_CLIENT_UNTIL(&watcher, watcher.logged > 0);
	_exit(watcher.logged == 1 ? 0 : 1);
}

Test(dir_process, a_path_that_cannot_be_watched_is_read_every_second_and_logged_once)
{
	rights_needed("limits");
	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	cr_assert_eq(finish(start(watch_without_watches)), 0);
}
