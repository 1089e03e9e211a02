/*
 * The dir: backend, operation by operation.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/dir_client.h"
#include "lib/base/clock.h"

static char root[512];
static struct dir_client client;
static char data[1024];

static void set_up(void)
{
	snprintf(root, sizeof(root), "%s", dir_root_make());
	dir_client_open(&client, root, NULL);
}

static void tear_down(void)
{
	if (client.backend != NULL) {
		dir_client_close(&client);
	}
	dir_root_remove(root);
}

TestSuite(dir, .init = set_up, .fini = tear_down, .timeout = 120);

Test(dir, is_connected_with_its_first_dispatch)
{
	cr_assert_eq(client.state, REGISTRY_CONNECTED);
}

Test(dir, a_record_is_one_json_file_in_the_nodes_directory)
{
	cr_assert_eq(dir_create(&client, "/a", "", false), 0);
	cr_assert_eq(dir_create(&client, "/a/b", "{\"k\":1}", false), 0);
	cr_assert(is_on_disk("/a/b/_record"));
	cr_assert_not(is_on_disk("/a/b/_owner"));
	cr_assert_eq(dir_get(&client, "/a/b", data, sizeof(data), NULL), 0);
	cr_assert_str_eq(data, "{\"k\":1}");
}

Test(dir, create_needs_a_parent_and_a_free_place)
{
	cr_assert_eq(dir_create(&client, "/a/b", "x", false), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	cr_assert_eq(dir_create(&client, "/a", "y", false), BERTH_FILE_ALREADY_EXISTS);
	cr_assert_eq(dir_create(&client, "/", "y", false), BERTH_FILE_ALREADY_EXISTS);
}

Test(dir, an_ephemeral_node_has_no_children_and_ends_with_its_owner)
{
	struct dir_client other;
	struct registry_stat stat;

	dir_client_open(&other, root, NULL);
	cr_assert_eq(dir_create(&other, "/e", "x", true), 0);
	cr_assert_eq(dir_create(&client, "/e/below", "x", false), BERTH_NO_CHILDREN_FOR_EPHEMERALS);
	cr_assert_eq(dir_stat(&client, "/e", &stat), 0);
	cr_assert(stat.ephemeral && !stat.own);
	cr_assert_eq(dir_stat(&other, "/e", &stat), 0);
	cr_assert(stat.ephemeral && stat.own);
	cr_assert_str_eq(dir_list(&client, "/"), "e");
	dir_client_close(&other);
	cr_assert_eq(dir_stat(&client, "/e", &stat), BERTH_PATH_NOT_FOUND);
	cr_assert_str_eq(dir_list(&client, "/"), "");
	cr_assert_not(is_on_disk("/e"), "a closed owner cleans up");
}
Test(dir, set_changes_the_version_and_only_the_expected_one)
{
	struct registry_stat before, after;

	cr_assert_eq(dir_set(&client, "/a", "x", NULL), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_create(&client, "/a", "one", false), 0);
	cr_assert_eq(dir_get(&client, "/a", data, sizeof(data), &before), 0);
	cr_assert_eq(dir_set(&client, "/a", "two", &before), 0);
	cr_assert_eq(dir_get(&client, "/a", data, sizeof(data), &after), 0);
	cr_assert_str_eq(data, "two");
	cr_assert_eq(after.node_id, before.node_id);
	cr_assert_gt(after.version, before.version);
	cr_assert_eq(dir_set(&client, "/a", "three", &before), BERTH_FILE_ALREADY_EXISTS);
	cr_assert_eq(after.size, 3u);
}

Test(dir, a_version_grows_even_if_the_clock_was_set_back)
{
	struct timespec future[2] = { { .tv_sec = 4000000000 }, { .tv_sec = 4000000000 } };
	struct registry_stat before, after;

	cr_assert_eq(dir_create(&client, "/a", "one", false), 0);
	cr_assert_eq(utimensat(AT_FDCWD, on_disk("/a/_record"), future, 0), 0);
	cr_assert_eq(dir_stat(&client, "/a", &before), 0);
	cr_assert_eq(dir_set(&client, "/a", "two", NULL), 0);
	cr_assert_eq(dir_stat(&client, "/a", &after), 0);
	cr_assert_gt(after.version, before.version);
}

Test(dir, replace_swaps_exactly_the_expected_node)
{
	struct registry_stat first, second;

	cr_assert_eq(dir_create(&client, "/a", "one", false), 0);
	cr_assert_eq(dir_stat(&client, "/a", &first), 0);
	cr_assert_eq(dir_replace(&client, "/a", "two", true, &first), 0);
	cr_assert_eq(dir_stat(&client, "/a", &second), 0);
	cr_assert(second.ephemeral && second.own);
	cr_assert_neq(second.node_id, first.node_id);
	cr_assert_gt(second.version, first.version);
	cr_assert_eq(dir_replace(&client, "/a", "no", true, &first), BERTH_FILE_ALREADY_EXISTS);
	cr_assert_eq(dir_replace(&client, "/b", "no", true, &first), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_replace(&client, "/a", "three", false, &second), 0);
	dir_client_close(&client);
	dir_client_open(&client, root, NULL);
	cr_assert_eq(dir_get(&client, "/a", data, sizeof(data), NULL), 0, "it is persistent now");
	cr_assert_str_eq(data, "three");
}

Test(dir, a_node_with_children_is_neither_deleted_nor_replaced)
{
	struct registry_stat stat;

	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	cr_assert_eq(dir_create(&client, "/a/b", "x", false), 0);
	cr_assert_eq(dir_stat(&client, "/a", &stat), 0);
	cr_assert_eq(stat.children, 1u);
	cr_assert_eq(dir_delete(&client, "/a", NULL), BERTH_PATH_IS_NOT_EMPTY_DIRECTORY);
	cr_assert_eq(
		dir_replace(&client, "/a", "y", true, &stat), BERTH_NO_CHILDREN_FOR_EPHEMERALS);
	cr_assert_eq(dir_delete(&client, "/a/b", NULL), 0);
	cr_assert_eq(dir_delete(&client, "/a/b", NULL), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_delete(&client, "/a", &stat), 0);
	cr_assert_eq(dir_delete(&client, "/", NULL), BERTH_NO_PATH_PERMISSIONS);
}

Test(dir, a_node_made_again_has_another_identity)
{
	uint64_t ids[100];

	for (size_t i = 0; i < 100; i++) {
		struct registry_stat stat;

		cr_assert_eq(dir_create(&client, "/a", "", i % 2 == 0), 0);
		cr_assert_eq(dir_stat(&client, "/a", &stat), 0);
		cr_assert_eq(dir_delete(&client, "/a", &stat), 0);
		ids[i] = stat.node_id;
		for (size_t j = 0; j < i; j++) {
			cr_assert_neq(ids[j], ids[i]);
		}
	}
}

Test(dir, files_that_are_not_berths_are_not_nodes_and_are_never_deleted)
{
	struct registry_stat stat;

	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	cr_assert_eq(mkdir(on_disk("/a/Upper"), 0755), 0);
	cr_assert_eq(symlink("/etc", on_disk("/a/link")), 0);
	cr_assert_eq(close(creat(on_disk("/a/file"), 0644)), 0);
	cr_assert_str_eq(dir_list(&client, "/a"), "");
	cr_assert_str_eq(dir_list(&client, "/"), "a", "the work directory is not a child");
	cr_assert_eq(dir_stat(&client, "/a/link", &stat), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_stat(&client, "/a/link/ssh", &stat), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_stat(&client, "/a/file", &stat), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_create(&client, "/a/file", "x", false), BERTH_FAILED);
	cr_assert_eq(dir_create(&client, "/a/link/b", "x", false), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_delete(&client, "/a", NULL), BERTH_PATH_IS_NOT_EMPTY_DIRECTORY);
	cr_assert(is_on_disk("/a/Upper") && is_on_disk("/a/link") && is_on_disk("/a/file"));
}

/*
 * Puts something odd at /odd/_record, expects a clear refusal and that the record can be repaired
 * and deleted.
 */
static void check_odd_record(int (*make)(void), int code)
{
	struct registry_stat stat;

	cr_assert_eq(dir_create(&client, "/odd", "", false), 0);
	cr_assert_eq(make(), 0);
	cr_assert_eq(dir_get(&client, "/odd", data, sizeof(data), NULL), code);
	cr_assert_eq(dir_stat(&client, "/odd", &stat), 0);
	cr_assert_str_eq(dir_list(&client, "/"), "odd");
	cr_assert_eq(dir_set(&client, "/odd", "good", NULL), 0);
	cr_assert_eq(dir_get(&client, "/odd", data, sizeof(data), NULL), 0);
	cr_assert_str_eq(data, "good");
	cr_assert_eq(unlink(on_disk("/odd/_record")), 0);
	cr_assert_eq(make(), 0);
	cr_assert_eq(dir_delete(&client, "/odd", NULL), 0);
}

static int make_symlink(void)
{
	return symlink("/etc/passwd", on_disk("/odd/_record"));
}

static int make_fifo(void)
{
	return mkfifo(on_disk("/odd/_record"), 0644);
}

static int make_huge(void)
{
	return close(creat(on_disk("/odd/_record"), 0644)) != 0
		? -1
		: truncate(on_disk("/odd/_record"), (off_t)1 << 40);
}

Test(dir, a_record_that_is_a_symlink_is_not_followed)
{
	check_odd_record(make_symlink, BERTH_INVALID_RECORD);
}

Test(dir, a_record_that_is_a_fifo_does_not_block)
{
	check_odd_record(make_fifo, BERTH_INVALID_RECORD);
}

Test(dir, a_huge_record_is_not_read)
{
	check_odd_record(make_huge, BERTH_NO_RECORD);
}

Test(dir, an_owner_file_that_nobody_can_lock_means_a_dead_node)
{
	struct registry_stat stat;

	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	cr_assert_eq(mkfifo(on_disk("/a/_owner"), 0644), 0);
	cr_assert_eq(dir_stat(&client, "/a", &stat), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_create(&client, "/a", "y", true), 0);
	cr_assert_eq(dir_get(&client, "/a", data, sizeof(data), &stat), 0);
	cr_assert_str_eq(data, "y");
}

Test(dir, the_leftovers_of_a_crash_are_swept_and_never_seen)
{
	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	dir_client_close(&client);
	cr_assert_eq(mkdir(on_disk("/_tmp/4711-1"), 0755), 0); /* a node not yet in place */
	cr_assert_eq(close(creat(on_disk("/_tmp/4711-1/_record"), 0644)), 0);
	cr_assert_eq(close(creat(on_disk("/_tmp/4711-1/_owner"), 0644)), 0);
	cr_assert_eq(
		mkdir(on_disk("/_tmp/4711-2"), 0755), 0); /* one with a dead child, being deleted */
	cr_assert_eq(mkdir(on_disk("/_tmp/4711-2/child"), 0755), 0);
	cr_assert_eq(close(creat(on_disk("/_tmp/4711-2/child/_owner"), 0644)), 0);
	cr_assert_eq(close(creat(on_disk("/_tmp/4711-3"), 0644)), 0); /* a record */
	dir_client_open(&client, root, NULL);
	cr_assert_str_eq(dir_list(&client, "/"), "a");
	cr_assert_eq(dir_create(&client, "/b", "x", false), 0);
	cr_assert_str_eq(dir_list(&client, "/"), "a b");
	cr_assert_eq(rmdir(on_disk("/_tmp")), 0, "nothing is left in it");
	cr_assert_eq(dir_create(&client, "/c", "x", false), 0, "it is made again");
}

/* A dead ephemeral node, as a process that was killed leaves it. */
static void make_dead(const char *path)
{
	char name[1024];

	cr_assert_eq(mkdir(on_disk(path), 0755), 0);
	snprintf(name, sizeof(name), "%s/_owner", path);
	cr_assert_eq(close(creat(on_disk(name), 0644)), 0);
	snprintf(name, sizeof(name), "%s/_record", path);
	cr_assert_eq(close(creat(on_disk(name), 0644)), 0);
}

Test(dir, dead_nodes_are_absent_for_every_operation)
{
	struct registry_stat stat;

	cr_assert_eq(dir_create(&client, "/a", "", false), 0);
	make_dead("/a/dead");
	cr_assert_eq(dir_get(&client, "/a/dead", data, sizeof(data), NULL), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_set(&client, "/a/dead", "x", NULL), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_delete(&client, "/a/dead", NULL), BERTH_PATH_NOT_FOUND);
	cr_assert_str_eq(dir_list(&client, "/a/dead"), "PathNotFound");
	cr_assert_eq(dir_create(&client, "/a/dead/child", "x", false), BERTH_PATH_NOT_FOUND);
	cr_assert_str_eq(dir_list(&client, "/a"), "");
	cr_assert_eq(dir_stat(&client, "/a", &stat), 0);
	cr_assert_eq(stat.children, 0u);
	cr_assert_eq(dir_create(&client, "/a/dead", "alive", false), 0);
	cr_assert_eq(dir_delete(&client, "/a/dead", NULL), 0);
	make_dead("/a/dead");
	cr_assert_eq(dir_delete(&client, "/a", NULL), 0, "they do not keep their parent");
	cr_assert_not(is_on_disk("/a"));
}

Test(dir, an_ephemeral_create_clears_dead_siblings)
{
	make_dead("/dead");
	cr_assert_eq(dir_create(&client, "/alive", "x", true), 0);
	cr_assert_not(is_on_disk("/dead"));
}

Test(dir, a_write_waits_for_the_lock_until_its_deadline_while_reads_go_on)
{
	struct registry_task write = {
		.operation = REGISTRY_OP_CREATE, .path = "/b", .data = "x", .len = 1
	};
	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	int lock_fd = open(on_disk("/_tmp"), O_RDONLY | O_DIRECTORY);
	cr_assert_eq(flock(lock_fd, LOCK_EX), 0);
	write.deadline_ms = clock_monotonic_ms() + 30000;
	registry_dir_ops.submit(client.backend, &write);
	cr_assert_eq(dir_get(&client, "/a", data, sizeof(data), NULL), 0);
	cr_assert_eq(write.ret_err.code, 0, "it has time");
	cr_assert_not(is_on_disk("/b"));
	write.deadline_ms = clock_monotonic_ms(); /* now it has none */
	DIR_CLIENT_UNTIL(&client, client.completed == &write);
	cr_assert_eq(write.ret_err.code, BERTH_TIMEOUT);
	cr_assert_not_null(strstr(write.ret_err.msg, "write lock"));

	memset(&write.ret_err, 0, sizeof(write.ret_err));
	write.deadline_ms = clock_monotonic_ms() + 30000;
	client.completed = NULL;
	registry_dir_ops.submit(client.backend, &write);
	dir_client_turn(&client, 0);
	cr_assert_null(client.completed);
	close(lock_fd);
	DIR_CLIENT_UNTIL(&client, client.completed == &write);
	cr_assert_eq(write.ret_err.code, 0);
}

Test(dir, an_abandoned_task_is_not_done)
{
	struct registry_task first = { .operation = REGISTRY_OP_CREATE, .path = "/first" };
	struct registry_task second = { .operation = REGISTRY_OP_CREATE, .path = "/second" };

	first.deadline_ms = second.deadline_ms = clock_monotonic_ms() + 30000;
	registry_dir_ops.submit(client.backend, &first);
	registry_dir_ops.submit(client.backend, &second);
	registry_dir_ops.abandon(client.backend, &first);
	DIR_CLIENT_UNTIL(&client, client.completed == &second);
	cr_assert_str_eq(dir_list(&client, "/"), "second");
}

Test(dir, a_root_that_vanishes_is_away_until_it_is_back)
{
	char aside[600];

	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	cr_assert_eq(dir_watch(&client, "/a", REGISTRY_WATCH_DATA), 0);
	snprintf(aside, sizeof(aside), "%s-aside", root);
	cr_assert_eq(rename(root, aside), 0);
	DIR_CLIENT_UNTIL(&client, client.state == REGISTRY_AWAY);
	cr_assert_eq(dir_get(&client, "/a", data, sizeof(data), NULL), BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_eq(dir_create(&client, "/b", "x", false), BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_not(is_on_disk(""), "it is not made again");
	dir_client_clear(&client);
	cr_assert_eq(rename(aside, root), 0);
	DIR_CLIENT_UNTIL(&client, client.state == REGISTRY_CONNECTED);
	DIR_CLIENT_UNTIL(&client, client.notified[REGISTRY_WATCH_DATA] > 0);
	cr_assert_eq(dir_get(&client, "/a", data, sizeof(data), NULL), 0);
}

Test(dir, a_root_without_parent_is_away_until_it_has_one)
{
	char url[600];
	struct dir_client late;

	snprintf(url, sizeof(url), "%s/not/yet", root);
	dir_client_open(&late, url, NULL);
	cr_assert_eq(late.state, REGISTRY_AWAY);
	cr_assert_eq(mkdir(on_disk("/not"), 0755), 0);
	DIR_CLIENT_UNTIL(&late, late.state == REGISTRY_CONNECTED);
	cr_assert_eq(dir_create(&late, "/a", "x", false), 0);
	dir_client_close(&late);
}

Test(dir, the_first_write_makes_the_root_and_reading_does_not)
{
	char url[600];
	struct dir_client reader, writer;

	snprintf(url, sizeof(url), "%s/new", root);
	dir_client_open(&reader, url, NULL);
	dir_client_open(&writer, url, NULL);
	cr_assert_eq(reader.state, REGISTRY_CONNECTED);
	cr_assert_eq(dir_watch(&reader, "/a", REGISTRY_WATCH_DATA), BERTH_PATH_NOT_FOUND);
	cr_assert_str_eq(dir_list(&reader, "/"), "PathNotFound");
	cr_assert_eq(dir_set(&writer, "/a", "x", NULL), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_delete(&writer, "/a", NULL), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_create(&writer, "/a/b", "x", false), BERTH_PATH_NOT_FOUND);
	cr_assert_not(is_on_disk("/new"));
	cr_assert_eq(dir_create(&writer, "/a", "x", true), 0);
	DIR_CLIENT_UNTIL(&reader, reader.notified[REGISTRY_WATCH_DATA] > 0);
	cr_assert_eq(dir_get(&reader, "/a", data, sizeof(data), NULL), 0);
	dir_client_close(&writer);
	dir_client_close(&reader);
}

Test(dir, a_root_that_cannot_be_made_is_an_error_of_the_write)
{
	char url[600];
	struct dir_client late;

	snprintf(url, sizeof(url), "%s/new", root);
	dir_client_open(&late, url, NULL);
	int file = open(on_disk("/new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(file, 0);
	close(file);
	cr_assert_neq(dir_create(&late, "/a", "x", false), 0);
	DIR_CLIENT_UNTIL(&late, late.state == REGISTRY_AWAY);
	cr_assert_eq(unlink(on_disk("/new")), 0);
	DIR_CLIENT_UNTIL(&late, late.state == REGISTRY_CONNECTED);
	cr_assert_eq(dir_create(&late, "/a", "x", false), 0);
	dir_client_close(&late);
}

Test(dir, a_url_needs_an_absolute_path)
{
	struct registry_options options = { 0 };
	struct registry_core core = { 0 };
	struct registry_backend *backend = NULL;
	struct err err = ERR_INIT;

	cr_assert_eq(
		registry_dir_ops.open(&backend, "relative", &options, &core, &err), BERTH_FAILED);
	cr_assert_not_null(strstr(err.msg, "absolute"));
	cr_assert_null(backend);
}

static size_t count_descriptors(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 1024; fd++) {
		count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
	}
	return count;
}

Test(dir, no_descriptor_is_leaked)
{
	size_t before = count_descriptors();
	struct dir_client other;
	struct registry_stat stat;

	dir_client_open(&other, root, NULL);
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(dir_create(&other, "/a", "x", false), 0);
		cr_assert_eq(dir_create(&other, "/a/e", "x", true), 0);
		cr_assert_eq(
			dir_create(&other, "/a/e/no", "x", true), BERTH_NO_CHILDREN_FOR_EPHEMERALS);
		cr_assert_eq(dir_create(&other, "/a/e", "x", true), BERTH_FILE_ALREADY_EXISTS);
		cr_assert_eq(dir_watch(&other, "/a", REGISTRY_WATCH_CHILDREN), 0);
		cr_assert_eq(dir_watch(&other, "/a/e", REGISTRY_WATCH_DATA), 0);
		cr_assert_eq(
			dir_watch(&other, "/x/y/z", REGISTRY_WATCH_DATA), BERTH_PATH_NOT_FOUND);
		cr_assert_eq(dir_stat(&other, "/a/e", &stat), 0);
		cr_assert_eq(dir_replace(&other, "/a/e", "y", true, &stat), 0);
		cr_assert_eq(dir_set(&other, "/a/e", "z", NULL), 0);
		cr_assert_eq(dir_delete(&other, "/a/e", NULL), 0);
		cr_assert_eq(dir_delete(&other, "/a", NULL), 0);
		registry_dir_ops.unwatch(other.backend, "/a", REGISTRY_WATCH_CHILDREN);
	}
	cr_assert_eq(dir_create(&other, "/last", "x", true), 0);
	dir_client_close(&other);
	cr_assert_eq(count_descriptors(), before);
}

/* Otherwise any user with the right to read could keep a dead record alive. */
Test(dir, a_readers_lock_does_not_keep_the_record_of_a_dead_owner)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	cr_assert_eq(mkdir(on_disk("/e"), 0755), 0);
	cr_assert_eq(close(creat(on_disk("/e/_record"), 0644)), 0);
	cr_assert_eq(close(creat(on_disk("/e/_owner"), 0644)), 0);
	int fd = open(on_disk("/e/_owner"), O_RDONLY);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	cr_assert_eq(dir_stat(&client, "/e", NULL), BERTH_PATH_NOT_FOUND);
	close(fd);
}

Test(dir, only_those_who_may_write_can_take_the_write_lock)
{
	struct stat tmp;

	cr_assert_eq(chmod(root, 0775), 0);
	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	cr_assert_eq(stat(on_disk("/_tmp"), &tmp), 0);
	cr_assert_eq(tmp.st_mode & 07777, 0770);
}

/* ---- A root that others may write ---- */

static mode_t mode_on_disk(const char *path)
{
	struct stat stat;
	return lstat(on_disk(path), &stat) == 0 ? stat.st_mode & 07777 : 0;
}

/* The work directory of this user, or another name for it; static. */
static const char *own_tmp(unsigned number)
{
	static char name[64];
	snprintf(name, sizeof(name), number ? "/_tmp-%u-%u" : "/_tmp-%u", (unsigned)geteuid(),
		number);
	return name;
}

static int lock_on_disk(const char *path)
{
	int fd = open(on_disk(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(flock(fd, LOCK_EX), 0);
	return fd;
}

Test(dir, an_own_ephemeral_node_ends_though_another_holds_the_write_lock)
{
	struct dir_client other;
	struct registry_stat stat;
	dir_client_open(&other, root, NULL);
	cr_assert_eq(dir_create(&other, "/e", "x", true), 0);
	cr_assert_eq(dir_stat(&other, "/e", &stat), 0);
	int lock_fd = lock_on_disk("/_tmp");
	cr_assert_eq(dir_delete(&other, "/e", &stat), 0);
	cr_assert_eq(dir_stat(&client, "/e", &stat), BERTH_PATH_NOT_FOUND);
	close(lock_fd);
	cr_assert_eq(dir_create(&client, "/f", "x", true), 0);
	cr_assert_not(is_on_disk("/e"), "the next writer near by takes the directory away");
	dir_client_close(&other);
}

Test(dir, no_version_but_the_expected_one_of_an_own_ephemeral_node_ends)
{
	struct registry_stat before;
	cr_assert_eq(dir_create(&client, "/e", "x", true), 0);
	cr_assert_eq(dir_stat(&client, "/e", &before), 0);
	cr_assert_eq(dir_set(&client, "/e", "y", NULL), 0);
	cr_assert_eq(dir_delete(&client, "/e", &before), BERTH_FILE_ALREADY_EXISTS);
	cr_assert_eq(dir_stat(&client, "/e", &before), 0);
	cr_assert(before.own);
}

Test(dir, closing_ends_own_nodes_though_another_holds_the_write_lock)
{
	struct dir_client other;
	struct registry_stat stat;
	dir_client_open(&other, root, NULL);
	cr_assert_eq(dir_create(&other, "/e", "x", true), 0);
	int lock_fd = lock_on_disk("/_tmp");
	dir_client_close(&other);
	cr_assert_eq(dir_stat(&client, "/e", &stat), BERTH_PATH_NOT_FOUND);
	close(lock_fd);
}

Test(dir, in_a_root_that_all_may_write_nobody_can_lock_or_plant_anything_in_the_way)
{
	cr_assert_eq(chmod(root, 01777), 0);
	cr_assert_eq(mkdir(on_disk("/_tmp"), 0777), 0);
	int lock_fd = lock_on_disk("/_tmp");
	cr_assert_eq(symlink("/etc", on_disk(own_tmp(0))), 0);
	cr_assert_eq(close(creat(on_disk(own_tmp(1)), 0644)), 0);
	cr_assert_eq(mkdir(on_disk(own_tmp(2)), 0755), 0); /* others can open it, and so lock it */
	cr_assert_eq(dir_create(&client, "/a", "x", false), 0);
	cr_assert_eq(mode_on_disk(own_tmp(3)), 0700);
	/* A name that is free again changes nothing: all processes of the user stay together. */
	cr_assert_eq(unlink(on_disk(own_tmp(0))), 0);
	cr_assert_eq(dir_set(&client, "/a", "y", NULL), 0);
	cr_assert_not(is_on_disk(own_tmp(0)));
	cr_assert_str_eq(dir_list(&client, "/"), "a", "work directories are not children");
	close(lock_fd);
}

Test(dir, the_top_of_a_root_that_all_may_write_is_everybodys_too)
{
	mode_t mask = umask(022);
	cr_assert_eq(chmod(root, 01777), 0);
	cr_assert_eq(dir_create(&client, "/users", "", false), 0);
	cr_assert_eq(mode_on_disk("/users"), 01777);
	cr_assert_eq(dir_create(&client, "/users/joe", "", false), 0);
	cr_assert_eq(mode_on_disk("/users/joe"), 0755);
	cr_assert_eq(dir_create(&client, "/record", "x", false), 0);
	cr_assert_eq(mode_on_disk("/record"), 0755);
	umask(mask);
}

Test(dir, a_node_can_be_made_for_a_user)
{
	const struct passwd *user = getpwuid(geteuid());
	struct registry_task task = { .operation = REGISTRY_OP_CREATE, .path = "/joe" };
	struct registry_task other = { .operation = REGISTRY_OP_CREATE,
		.path = "/no",
		.home_of = "no such user",
		.sequential = true };
	struct stat stat;
	cr_assert_not_null(user);
	task.home_of = user->pw_name;
	cr_assert_eq(dir_client_run(&client, &task), BERTH_FAILED);
	cr_assert_not_null(strstr(task.ret_err.msg, "1777"), "nobody else may write in the root");
	cr_assert_not(is_on_disk("/joe"));
	cr_assert_eq(chmod(root, 01777), 0);
	memset(&task.ret_err, 0, sizeof(task.ret_err));
	cr_assert_eq(dir_client_run(&client, &task), 0);
	cr_assert_eq(lstat(on_disk("/joe"), &stat), 0);
	cr_assert_eq(stat.st_uid, geteuid());
	cr_assert_eq(dir_client_run(&client, &other), BERTH_FAILED);
	cr_assert_not_null(strstr(other.ret_err.msg, "no such user"));
	cr_assert_null(other.ret_data);
	cr_assert_not(is_on_disk("/no0000000000"));
}

Test(dir, a_root_where_all_may_remove_everything_is_worth_a_line)
{
	struct dir_client other;
	cr_assert_eq(client.logged, 0);
	cr_assert_eq(chmod(root, 0777), 0);
	dir_client_open(&other, root, NULL);
	cr_assert_eq(other.logged, 1);
	dir_client_close(&other);
	cr_assert_eq(chmod(root, 01777), 0);
	dir_client_open(&other, root, NULL);
	cr_assert_eq(other.logged, 0);
	dir_client_close(&other);
}
