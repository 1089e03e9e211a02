/* Watches on directories that the test changes by hand, under a clock of the test. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/limits.h"
#include "lib/registry/dir/node.h"
#include "lib/registry/dir/watch.h"
#include "tests/support/dir_client.h"
#include "tests/support/failing.h"

static char root[512];
static int root_fd;
static struct dir_watches *watches;
static int64_t now_ms;
static struct err err;

/* Since clear(). */
static struct {
	int count[2]; /* by kind */
	char path[2][LIMIT_PATH_BYTES + 1];
	int logged;
} told;

static void on_notified(void *context, const char *path, enum registry_watch_kind kind, bool gone)
{
	(void)context;
	(void)gone;
	told.count[kind]++;
	snprintf(told.path[kind], sizeof(told.path[kind]), "%s", path);
}

static void on_log(void *context, enum registry_log_level level, const char *message)
{
	(void)context;
	(void)message;
	cr_assert_eq(level, REGISTRY_LOG_WARN);
	told.logged++;
}

static void clear(void)
{
	memset(&told, 0, sizeof(told));
}

static int create(void)
{
	static const struct registry_core core = { .notified = on_notified, .log = on_log };
	watches = NULL;
	err_clear(&err);
	return dir_watches_create(&watches, root, -1, &core, &err);
}

static void turn(void)
{
	dir_watches_dispatch(watches, root_fd, now_ms);
}

/* Lets the time pass until nothing is due any more. */
static void settle(void)
{
	turn();
	for (int i = 0; i < 100 && dir_watches_deadline_ms(watches) != INT64_MAX; i++) {
		now_ms = dir_watches_deadline_ms(watches);
		turn();
	}
	cr_assert_eq(dir_watches_deadline_ms(watches), INT64_MAX);
}

static void set_up(void)
{
	snprintf(root, sizeof(root), "%s", dir_root_make());
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	now_ms = 1000000;
	cr_assert_eq(create(), 0);
	settle();
	clear();
}

static void tear_down(void)
{
	dir_watches_destroy(watches);
	close(root_fd);
	dir_root_remove(root);
}

TestSuite(dir_watches, .init = set_up, .fini = tear_down, .timeout = 120);

static void make(const char *path)
{
	cr_assert_eq(mkdirat(root_fd, path + 1, 0755), 0, "%s", path);
}

static void take_away(const char *path)
{
	cr_assert_eq(unlinkat(root_fd, path + 1, AT_REMOVEDIR), 0, "%s", path);
}

static void move(const char *from, const char *to)
{
	cr_assert_eq(renameat(root_fd, from + 1, root_fd, to + 1), 0);
}

/* Makes the file, or opens it, and closes it as a writer. */
static void touch(const char *path)
{
	int fd = openat(root_fd, path + 1, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	cr_assert_geq(fd, 0, "%s", path);
	close(fd);
}

static void set_lock(int fd, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
}

/* A living owner's descriptor. */
static int make_owner(const char *path)
{
	int fd = openat(root_fd, path + 1, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	cr_assert_geq(fd, 0);
	set_lock(fd, F_WRLCK);
	return fd;
}

/* After the news of what was before. */
static void arm(const char *path, enum registry_watch_kind kind)
{
	turn();
	cr_assert_eq(dir_watches_arm(watches, path, kind, &err), 0, "%s", err.msg);
}

static void arm_child(const char *path, const char *name)
{
	cr_assert_eq(dir_watches_arm_child(watches, path, name, &err), 0, "%s", err.msg);
}

/* Expects that a dispatch notifies so often, by kind. */
static void expect(int data, int children)
{
	clear();
	turn();
	cr_assert_eq(
		told.count[REGISTRY_WATCH_DATA], data, "data: %d", told.count[REGISTRY_WATCH_DATA]);
	cr_assert_eq(told.count[REGISTRY_WATCH_CHILDREN], children, "children: %d",
		told.count[REGISTRY_WATCH_CHILDREN]);
}

/* How many directories the kernel watches for us. */
static int kernel_watches(void)
{
	char path[64], line[256];
	int count = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", dir_watches_fd(watches));
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		count += strncmp(line, "inotify wd:", 11) == 0;
	}
	if (file) {
		fclose(file);
	}
	return count;
}

Test(dir_watches, a_node_that_comes_changes_and_goes_is_told_of)
{
	arm("/a", REGISTRY_WATCH_DATA);
	cr_assert_eq(dir_watches_deadline_ms(watches), INT64_MAX);
	expect(0, 0);
	make("/a");
	expect(1, 0);
	cr_assert_str_eq(told.path[REGISTRY_WATCH_DATA], "/a");
	expect(0, 0);
	touch("/a/_record");
	expect(0, 0); /* not armed since */
	arm("/a", REGISTRY_WATCH_DATA);
	settle();
	touch("/x");
	move("/x", "/a/_record");
	expect(1, 0);
	arm("/a", REGISTRY_WATCH_DATA);
	touch("/a/_record");
	expect(1, 0);
	arm("/a", REGISTRY_WATCH_DATA);
	cr_assert_eq(unlinkat(root_fd, "a/_record", 0), 0);
	expect(1, 0);
	arm("/a", REGISTRY_WATCH_DATA);
	take_away("/a");
	expect(1, 0);
	arm("/a", REGISTRY_WATCH_DATA);
	make("/a");
	expect(1, 0);
}

Test(dir_watches, children_that_come_and_go_are_told_of_and_their_content_is_not)
{
	make("/a");
	arm("/a", REGISTRY_WATCH_CHILDREN);
	settle();
	make("/a/b");
	expect(0, 1);
	cr_assert_str_eq(told.path[REGISTRY_WATCH_CHILDREN], "/a");
	arm("/a", REGISTRY_WATCH_CHILDREN);
	touch("/a/file");
	expect(0, 1);
	arm("/a", REGISTRY_WATCH_CHILDREN);
	touch("/a/file"); /* which is there already */
	touch("/a/_record");
	touch("/a/_sequence");
	touch("/a/_container");
	touch("/a/b/_record");
	expect(0, 0);
	make("/a/_x");
	expect(0, 0);
	take_away("/a/_x");
	expect(0, 0);
	cr_assert_eq(unlinkat(root_fd, "a/b/_record", 0), 0);
	take_away("/a/b");
	expect(0, 1);
}

Test(dir_watches, a_moved_directory_is_watched_at_its_new_place)
{
	make("/a");
	arm("/a", REGISTRY_WATCH_DATA);
	arm("/b", REGISTRY_WATCH_DATA);
	settle();
	move("/a", "/b");
	expect(2, 0);
	arm("/a", REGISTRY_WATCH_DATA);
	arm("/b", REGISTRY_WATCH_DATA);
	touch("/b/_record");
	expect(1, 0);
	cr_assert_str_eq(told.path[REGISTRY_WATCH_DATA], "/b");
	cr_assert_eq(kernel_watches(), 2);
	arm("/b", REGISTRY_WATCH_DATA);
	dir_watches_remove(watches, "/a", REGISTRY_WATCH_DATA);
	touch("/b/_record");
	expect(1, 0);
}

Test(dir_watches, a_directory_that_was_swapped_for_another_is_watched)
{
	make("/a");
	make("/b");
	arm("/a", REGISTRY_WATCH_DATA);
	settle();
	move("/b", "/a");
	expect(1, 0);
	arm("/a", REGISTRY_WATCH_DATA);
	settle();
	cr_assert_eq(kernel_watches(), 2);
	touch("/a/_record");
	expect(1, 0);
}

Test(dir_watches, the_owners_file_makes_and_ends_an_ephemeral_node)
{
	make("/a");
	arm("/a", REGISTRY_WATCH_DATA);
	arm("/", REGISTRY_WATCH_CHILDREN);
	settle();
	int owner = make_owner("/a/_owner");
	expect(1, 1);
	cr_assert_str_eq(told.path[REGISTRY_WATCH_CHILDREN], "/");
	arm("/a", REGISTRY_WATCH_DATA);
	arm("/", REGISTRY_WATCH_CHILDREN);
	close(owner);
	expect(1, 1);
	arm("/a", REGISTRY_WATCH_DATA);
	arm("/", REGISTRY_WATCH_CHILDREN);
	cr_assert_eq(unlinkat(root_fd, "a/_owner", 0), 0);
	expect(1, 1);
}

/* /a with the living child e, and a watch of its children. */
static int watch_living_child(void)
{
	make("/a");
	make("/a/e");
	int owner = make_owner("/a/e/_owner");
	arm("/a", REGISTRY_WATCH_CHILDREN);
	arm_child("/a", "e");
	dir_watches_children_known(watches, "/a");
	settle();
	return owner;
}

Test(dir_watches, the_death_of_a_child_is_told_of)
{
	int owner = watch_living_child();
	close(owner);
	expect(0, 1);
	cr_assert_str_eq(told.path[REGISTRY_WATCH_CHILDREN], "/a");
}

/* The kernel tells of a closed file before it releases the lock. */
Test(dir_watches, a_lock_that_is_released_after_the_news_is_noticed)
{
	int owner = watch_living_child();
	touch("/a/e/_owner");
	expect(0, 0);
	cr_assert_eq(dir_watches_deadline_ms(watches), now_ms + 1);
	set_lock(owner, F_UNLCK);
	expect(0, 0); /* not yet */
	now_ms++;
	expect(0, 1);
	cr_assert_eq(dir_watches_deadline_ms(watches), INT64_MAX);
	close(owner);
}

/* A death is seen after twice the time that it took, at most. */
Test(dir_watches, a_slow_death_is_looked_for_ever_more_seldom_and_not_for_ever)
{
	int owner = watch_living_child();
	int64_t began_ms = now_ms;
	touch("/a/e/_owner");
	expect(0, 0);
	while (dir_watches_deadline_ms(watches) != INT64_MAX) {
		int64_t next_ms = dir_watches_deadline_ms(watches);
		cr_assert_gt(next_ms, now_ms);
		cr_assert_leq(next_ms - now_ms, now_ms - began_ms + 1);
		now_ms = next_ms;
		expect(0, 0);
		cr_assert_lt(now_ms - began_ms, 120000);
	}
	cr_assert_gt(now_ms - began_ms, 16000);
	close(owner);
	expect(0, 1);
}

Test(dir_watches, children_that_a_reading_does_not_name_are_watched_no_more)
{
	make("/a");
	make("/a/one");
	make("/a/two");
	for (int i = 0; i < 2; i++) {
		arm("/a", REGISTRY_WATCH_CHILDREN);
		arm_child("/a", "one");
		arm_child("/a", "two");
		dir_watches_children_known(watches, "/a");
		cr_assert_eq(kernel_watches(), 4);
	}
	arm("/a", REGISTRY_WATCH_CHILDREN);
	arm_child("/a", "two");
	dir_watches_children_known(watches, "/a");
	cr_assert_eq(kernel_watches(), 3);
	settle();
	touch("/a/two/_owner");
	expect(0, 1);
	dir_watches_remove(watches, "/a", REGISTRY_WATCH_CHILDREN);
	cr_assert_eq(kernel_watches(), 1);
	dir_watches_children_known(watches, "/a");
}

Test(dir_watches, directories_that_no_watch_needs_are_watched_no_more)
{
	make("/a");
	make("/a/b");
	arm("/a/b", REGISTRY_WATCH_DATA);
	arm("/a/b", REGISTRY_WATCH_CHILDREN);
	arm("/a/b/none/none", REGISTRY_WATCH_DATA);
	cr_assert_eq(kernel_watches(), 3);
	dir_watches_remove(watches, "/a/b/none/none", REGISTRY_WATCH_DATA);
	dir_watches_remove(watches, "/a/b", REGISTRY_WATCH_CHILDREN);
	dir_watches_remove(watches, "/never", REGISTRY_WATCH_DATA);
	cr_assert_eq(kernel_watches(), 3);
	settle();
	touch("/a/b/_record");
	expect(1, 0);
	arm("/a/b", REGISTRY_WATCH_DATA);
	dir_watches_remove(watches, "/a/b", REGISTRY_WATCH_DATA);
	cr_assert_eq(kernel_watches(), 1);
	touch("/a/b/_record");
	expect(0, 0);
}

Test(dir_watches, a_change_of_everything_tells_also_those_who_have_not_read_again)
{
	arm("/a", REGISTRY_WATCH_DATA);
	dir_watches_all_changed(watches);
	expect(1, 0);
	dir_watches_all_changed(watches);
	expect(1, 0);
	expect(0, 0);
}

Test(dir_watches, the_longest_path_is_told_of)
{
	char path[LIMIT_PATH_BYTES + 1];
	memset(path, 'a', sizeof(path));
	for (size_t i = 0; i < LIMIT_PATH_BYTES; i += 2) {
		path[i] = '/';
	}
	path[LIMIT_PATH_BYTES] = '\0';
	arm(path, REGISTRY_WATCH_DATA);
	make("/a");
	expect(1, 0);
	cr_assert_str_eq(told.path[REGISTRY_WATCH_DATA], path);
	dir_watches_remove(watches, path, REGISTRY_WATCH_DATA);
}

/* Arms a watch of the path, and lets the kernel refuse it. */
static void arm_refused(const char *path)
{
	turn();
	failing_arm("inotify", 1, ENOSPC);
	int code = dir_watches_arm(watches, path, REGISTRY_WATCH_DATA, &err);
	cr_assert(failing_disarm());
	cr_assert_eq(code, 0);
}

Test(dir_watches, a_path_that_cannot_be_watched_is_told_of_every_second)
{
	make("/a");
	make("/b");
	arm_refused("/a");
	cr_assert_eq(told.logged, 1);
	cr_assert_leq(dir_watches_deadline_ms(watches), now_ms);
	for (int i = 0; i < 2; i++) {
		expect(0, 0);
		cr_assert_eq(dir_watches_deadline_ms(watches), now_ms + 1000);
		now_ms += 999;
		expect(0, 0);
		now_ms++;
		expect(1, 0);
		dir_watches_remove(watches, "/a", REGISTRY_WATCH_DATA);
		cr_assert_eq(dir_watches_deadline_ms(watches), INT64_MAX, "nobody asks");
		clear();
		arm_refused("/a");
		cr_assert_eq(told.logged, 1, "again, as there was nothing for a while");
	}
	clear();
	arm_refused("/b");
	cr_assert_eq(told.logged, 0);
	now_ms += 1000;
	expect(2, 0);
	arm("/a", REGISTRY_WATCH_DATA);
	arm("/b", REGISTRY_WATCH_DATA);
	settle();
	touch("/a/_record");
	expect(1, 0);
}

Test(dir_watches, without_inotify_to_spare_they_look_once_a_second_until_there_is_some)
{
	dir_watches_destroy(watches);
	failing_arm("inotify", 1, EMFILE);
	cr_assert_eq(create(), 0, "%s", err.msg);
	cr_assert(failing_disarm());
	cr_assert_eq(dir_watches_fd(watches), -1);
	arm("/a", REGISTRY_WATCH_DATA);
	turn();
	make("/a");
	now_ms += 1000;
	expect(1, 0);
	cr_assert_geq(dir_watches_fd(watches), 0);
}
