/* The watches of the dir: backend notice every change on the way to a node. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/dir_client.h"

static char root[512];
static struct dir_client writer, watcher;

static void set_up(void)
{
	snprintf(root, sizeof(root), "%s", dir_root_make());
	dir_client_open(&writer, root, NULL);
	dir_client_open(&watcher, root, NULL);
}

static void tear_down(void)
{
	dir_client_close(&writer);
	dir_client_close(&watcher);
	dir_root_remove(root);
}

TestSuite(dir_watch, .init = set_up, .fini = tear_down, .timeout = 120);

/* Arms the watch, waits for pending notifications, arms it again: later notifications are new. */
static int arm(const char *path, enum registry_watch_kind kind)
{
	int result = dir_watch(&watcher, path, kind);

	for (int i = 0; i < 3; i++) {
		dir_client_turn(&watcher, 0);
	}
	result = dir_watch(&watcher, path, kind);
	dir_client_clear(&watcher);
	return result;
}

static void await(const char *path, enum registry_watch_kind kind)
{
	DIR_CLIENT_UNTIL(&watcher, watcher.notified[kind] > 0);
	cr_assert_str_eq(watcher.notified_path, path);
}

Test(dir_watch, data_is_created_changed_swapped_and_deleted)
{
	struct registry_stat stat;

	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(dir_create(&writer, "/a", "one", false), 0);
	await("/a", REGISTRY_WATCH_DATA);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(dir_set(&writer, "/a", "two", NULL), 0);
	await("/a", REGISTRY_WATCH_DATA);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(dir_stat(&writer, "/a", &stat), 0);
	cr_assert_eq(dir_replace(&writer, "/a", "three", true, &stat), 0);
	await("/a", REGISTRY_WATCH_DATA);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(
		dir_set(&writer, "/a", "four", NULL), 0, "the mark has moved to the new directory");
	await("/a", REGISTRY_WATCH_DATA);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(dir_delete(&writer, "/a", NULL), 0);
	await("/a", REGISTRY_WATCH_DATA);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), BERTH_PATH_NOT_FOUND);
}

Test(dir_watch, children_are_added_and_removed_but_their_data_does_not_matter)
{
	cr_assert_eq(dir_create(&writer, "/a", "", false), 0);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_CHILDREN), 0);
	cr_assert_eq(dir_create(&writer, "/a/b", "x", true), 0);
	await("/a", REGISTRY_WATCH_CHILDREN);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_CHILDREN), 0);
	cr_assert_eq(dir_delete(&writer, "/a/b", NULL), 0);
	await("/a", REGISTRY_WATCH_CHILDREN);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_CHILDREN), 0);
	cr_assert_eq(dir_delete(&writer, "/a", NULL), 0);
	await("/a", REGISTRY_WATCH_CHILDREN);
}

/* Makes or removes the first `levels` directories of /a/b/c/d. */
static void set_levels(int from, int to)
{
	static const char *const paths[] = { "/a", "/a/b", "/a/b/c", "/a/b/c/d" };

	for (; from < to; from++) {
		cr_assert_eq(dir_create(&writer, paths[from], "x", false), 0);
	}
	for (; from > to; from--) {
		cr_assert_eq(dir_delete(&writer, paths[from - 1], NULL), 0);
	}
}

/*
 * From every depth that exists to every other, armed before, with the watcher looking on only
 * afterwards.
 */
Test(dir_watch, ancestors_come_and_go_in_all_orders)
{
	for (int from = 0; from <= 4; from++) {
		for (int to = 0; to <= 4; to++) {
			set_levels(0, from);
			cr_assert_eq(arm("/a/b/c/d", REGISTRY_WATCH_DATA),
				from == 4 ? 0 : BERTH_PATH_NOT_FOUND);
			set_levels(from, to);
			if ((from == 4) != (to == 4)) {
				await("/a/b/c/d", REGISTRY_WATCH_DATA);
			}
			set_levels(to, 0);
			cr_assert_eq(arm("/a/b/c/d", REGISTRY_WATCH_DATA), BERTH_PATH_NOT_FOUND);
			set_levels(0, 4);
			await("/a/b/c/d", REGISTRY_WATCH_DATA);
			set_levels(4, 0);
		}
	}
}

Test(dir_watch, a_whole_tree_that_is_moved_by_hand_is_noticed)
{
	char from[600], to[600];

	set_levels(0, 4);
	cr_assert_eq(arm("/a/b/c/d", REGISTRY_WATCH_DATA), 0);
	snprintf(from, sizeof(from), "%s/a", root);
	snprintf(to, sizeof(to), "%s/moved", root);
	cr_assert_eq(rename(from, to), 0);
	await("/a/b/c/d", REGISTRY_WATCH_DATA);
	cr_assert_eq(arm("/a/b/c/d", REGISTRY_WATCH_DATA), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(arm("/moved/b/c/d", REGISTRY_WATCH_DATA), 0, "its marks have come with it");
	cr_assert_eq(dir_set(&writer, "/moved/b/c/d", "y", NULL), 0);
	await("/moved/b/c/d", REGISTRY_WATCH_DATA);
	cr_assert_eq(rename(to, from), 0);
	DIR_CLIENT_UNTIL(&watcher, watcher.notified[REGISTRY_WATCH_DATA] >= 2);
}

Test(dir_watch, a_removed_watch_is_silent)
{
	cr_assert_eq(dir_create(&writer, "/a", "x", false), 0);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(arm("/b", REGISTRY_WATCH_DATA), BERTH_PATH_NOT_FOUND);
	registry_dir_ops.unwatch(watcher.backend, "/a", REGISTRY_WATCH_DATA);
	cr_assert_eq(dir_set(&writer, "/a", "y", NULL), 0);
	cr_assert_eq(dir_create(&writer, "/b", "x", false), 0);
	await("/b", REGISTRY_WATCH_DATA);
	cr_assert_eq(watcher.notified[REGISTRY_WATCH_DATA], 1);
}

Test(dir_watch, readers_wake_nobody)
{
	char data[64];

	cr_assert_eq(dir_create(&writer, "/a", "x", false), 0);
	cr_assert_eq(dir_create(&writer, "/a/e", "x", true), 0);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_CHILDREN), 0);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(arm("/b", REGISTRY_WATCH_DATA), BERTH_PATH_NOT_FOUND);
	for (int i = 0; i < 10; i++) {
		cr_assert_eq(dir_get(&writer, "/a", data, sizeof(data), NULL), 0);
		cr_assert_eq(dir_get(&writer, "/a/e", data, sizeof(data), NULL), 0);
		cr_assert_str_eq(dir_list(&writer, "/a"), "e");
	}
	cr_assert_eq(dir_create(&writer, "/b", "x", false), 0);
	await("/b", REGISTRY_WATCH_DATA);
	cr_assert_eq(watcher.notified[REGISTRY_WATCH_DATA], 1);
	cr_assert_eq(watcher.notified[REGISTRY_WATCH_CHILDREN], 0);
}

static long read_limit(const char *path)
{
	FILE *file = fopen(path, "r");
	long limit = 0;

	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%ld", &limit), 1);
	fclose(file);
	return limit;
}

/* More events than the kernel queues, and then the event that counts. */
Test(dir_watch, an_overflow_of_the_queue_loses_nothing)
{
	long limit = read_limit("/proc/sys/fs/inotify/max_queued_events");
	char path[2][600];

	cr_assert_eq(dir_create(&writer, "/a", "x", false), 0);
	cr_assert_eq(dir_create(&writer, "/b", "x", false), 0);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(arm("/b", REGISTRY_WATCH_DATA), 0);
	snprintf(path[0], sizeof(path[0]), "%s/b/x", root);
	snprintf(path[1], sizeof(path[1]), "%s/b/y", root);
	cr_assert_eq(close(creat(path[0], 0644)), 0);
	for (long i = 0; i < limit / 2 + 10; i++) { /* two events each */
		cr_assert_eq(rename(path[i % 2], path[1 - i % 2]), 0);
	}
	cr_assert_eq(dir_set(&writer, "/a", "y", NULL), 0);
	DIR_CLIENT_UNTIL(&watcher, watcher.notified[REGISTRY_WATCH_DATA] >= 2);
	cr_assert_eq(arm("/a", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(dir_set(&writer, "/a", "z", NULL), 0);
	await("/a", REGISTRY_WATCH_DATA);
}
