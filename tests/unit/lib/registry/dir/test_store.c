/* Nodes written to disk: the result, the rest in the work directory, failing calls. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/linux_calls.h"
#include "lib/registry/dir/store.h"
#include "tests/failures/points.h"
#include "tests/support/clock_call.h"
#include "tests/support/dir_client.h"
#include "tests/support/failing.h"

static char root[512];
static struct dir_store store;
static const struct timespec *stopped_at; /* the time of day; NULL: it goes on */

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	if (stopped_at && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		*ret_time = *stopped_at;
		return 0;
	}
	return (int)syscall(CLOCK_CALL, clock, ret_time);
}

static int naps;

int nanosleep(const struct timespec *time, struct timespec *rest)
{
	(void)rest;
	cr_assert_eq(time->tv_sec, 0);
	naps++;
	return 0;
}

static struct err err;

static void set_up(void)
{
	umask(022);
	snprintf(root, sizeof(root), "%s", dir_root_make());
	store = (struct dir_store){ .lock_fd = -1 };
	store.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = (struct err)ERR_INIT;
}

static void tear_down(void)
{
	close(store.root_fd);
	dir_root_remove(root);
}

TestSuite(dir_store, .init = set_up, .fini = tear_down, .timeout = 120);

static unsigned mode_of(const char *path)
{
	struct stat stat;
	return lstat(on_disk(path), &stat) == 0 ? stat.st_mode & 07777 : 0;
}

static void make_folder(const char *path)
{
	cr_assert_eq(mkdir(on_disk(path), 0755), 0, "%s", path);
}

static void make_file(const char *path, const char *data)
{
	int fd = open(on_disk(path), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	cr_assert_eq(write(fd, data, strlen(data)), (ssize_t)strlen(data));
	close(fd);
}

static const char *content_of(const char *path)
{
	static char data[64];
	int fd = open(on_disk(path), O_RDONLY | O_CLOEXEC);
	ssize_t len = fd >= 0 ? read(fd, data, sizeof(data) - 1) : 0;
	close(fd);
	data[len > 0 ? len : 0] = '\0';
	return data;
}

/* Nothing is left in the work directory: it can be removed. */
static bool is_clean(void)
{
	return rmdir(on_disk("/_tmp")) == 0 || errno == ENOENT;
}

static struct dir_node look_at(const char *path)
{
	struct dir_node node;
	struct err ignored = ERR_INIT;
	cr_assert_eq(dir_node_open(&node, store.root_fd, path, strlen(path), &ignored), 0);
	return node;
}

static int lock(void)
{
	err_clear(&err);
	return dir_store_lock(&store, &err);
}

/* Under the lock; the code. */
static int place_below(
	struct dir_node *parent, const struct dir_write *write, bool exchange, int *ret_owner_fd)
{
	int locked = lock();
	if (locked < 0) {
		return locked;
	}
	int code = dir_store_place(&store, parent, write, exchange, ret_owner_fd, &err);
	dir_store_unlock(&store);
	return code;
}

static int place(const struct dir_write *write, bool exchange, int *ret_owner_fd)
{
	struct dir_node parent = look_at("/");
	int code = place_below(&parent, write, exchange, ret_owner_fd);
	dir_node_close(&parent);
	return code;
}

static int remove_node(const char *path, bool all)
{
	struct dir_node parent = look_at("/");
	cr_assert_eq(lock(), 1);
	int code = dir_store_remove(&store, &parent, path + 1, path, all, &err);
	dir_store_unlock(&store);
	dir_node_close(&parent);
	return code;
}

/* Others than those who may write in the root can neither open the work directory nor lock it. */
Test(dir_store, the_work_directory_is_for_those_who_may_write_in_the_root)
{
	static const unsigned modes[][2] = { { 0755, 0700 }, { 0700, 0700 }, { 0775, 0770 },
		{ 02770, 02770 }, { 0750, 0700 }, { 0770, 0770 }, { 0705, 0700 } };
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		cr_assert_eq(chmod(root, modes[i][0]), 0);
		cr_assert_eq(lock(), 1);
		dir_store_unlock(&store);
		cr_assert_eq(
			mode_of("/_tmp"), modes[i][1], "%o: %o", modes[i][0], mode_of("/_tmp"));
		cr_assert(is_clean());
	}
}

/* All that a node may have: records of both kinds, what writers keep, nodes below it. */
static void make_full(void)
{
	make_folder("/a");
	make_file("/a/_record", "x");
	make_file("/a/._record.crc", "x");
	make_file("/a/_sequence", "1");
	make_file("/a/_container", "");
	make_file("/a/_foreign", "");
	make_file("/a/_owner", "");
	make_folder("/a/dead");
	make_file("/a/dead/_owner", "");
	make_file("/a/dead/_record", "x");
	make_folder("/a/Host_1");
	make_file("/a/Host_1/_foreign", "");
	make_file("/a/Host_1/_record", "x");
}

Test(dir_store, other_files_go_with_a_node_only_when_all_is_to_go)
{
	make_full();
	make_file("/a/Other", "");
	make_folder("/a/Folder");
	make_file("/a/Folder/.hidden", "");
	make_file("/a/.hidden", "");
	cr_assert_eq(remove_node("/a", true), 0);
	cr_assert(is_clean());
	make_full();
	make_file("/a/Other", "other");
	cr_assert_eq(remove_node("/a", false), 0);
	cr_assert(!is_clean());
}

/* A link to a directory is removed, and its target stays as it is. */
Test(dir_store, a_link_in_a_removed_node_is_not_followed)
{
	make_folder("/precious");
	make_file("/precious/_record", "x");
	make_file("/precious/_owner", "x");
	for (int all = 0; all < 2; all++) {
		make_folder("/a");
		cr_assert_eq(symlink("../precious", on_disk("/a/link")), 0);
		cr_assert_eq(symlink("../../precious", on_disk("/a/other")), 0);
		cr_assert_eq(remove_node("/a", all), 0);
		cr_assert(is_clean());
		cr_assert_str_eq(content_of("/precious/_record"), "x");
		cr_assert(is_on_disk("/precious/_owner"));
	}
}

Test(dir_store, leftovers_are_swept_with_the_first_lock)
{
	make_folder("/_tmp");
	make_folder("/_tmp/1-1");
	make_file("/_tmp/1-1/_record", "x");
	make_file("/_tmp/1-2", "x");
	make_folder("/_tmp/1-3");
	make_file("/_tmp/1-3/Precious", "x");
	cr_assert_eq(lock(), 1);
	dir_store_unlock(&store);
	cr_assert_str_eq(content_of("/_tmp/1-3/Precious"), "x");
	cr_assert_eq(unlink(on_disk("/_tmp/1-3/Precious")), 0);
	cr_assert_eq(rmdir(on_disk("/_tmp/1-3")), 0);
	cr_assert(is_clean());
}

static int64_t version_of(const char *path)
{
	struct registry_stat stat = { 0 };
	struct dir_node node = look_at(path);
	cr_assert_eq(dir_node_stat(&node, path, &stat, &err), 0);
	dir_node_close(&node);
	return stat.version;
}

/* Also when the clock was set back since. */
Test(dir_store, a_version_is_greater_than_the_one_before)
{
	const int64_t future = INT64_C(4000000000999999999);
	struct dir_write write = { .path = "/a", .data = "x", .len = 1 };
	int owner_fd;
	cr_assert_eq(place(&write, false, &owner_fd), 0);
	int64_t first = version_of("/a");
	cr_assert_lt(first, future);
	write.previous_version = future;
	cr_assert_eq(place(&write, true, &owner_fd), 0);
	cr_assert_eq(version_of("/a"), future + 1);
	write.previous_version = first;
	struct dir_node node = look_at("/a");
	cr_assert_eq(lock(), 1);
	cr_assert_eq(dir_store_set(&store, &node, &write, &err), 0);
	cr_assert_lt(version_of("/a"), future);
	cr_assert_gt(version_of("/a"), first);
	dir_store_unlock(&store);
	dir_node_close(&node);
}

static int64_t version_after(int64_t previous_version)
{
	const struct dir_write write = {
		.path = "/a", .data = "x", .len = 1, .previous_version = previous_version
	};
	int owner_fd;
	cr_assert_eq(place(&write, is_on_disk("/a"), &owner_fd), 0, "%s", err.msg);
	return version_of("/a");
}

Test(dir_store, a_version_that_is_the_present_moment_is_followed_by_the_next)
{
	const struct timespec now = { .tv_sec = 2000000000, .tv_nsec = 999999998 };
	const int64_t present = INT64_C(2000000000999999998);
	stopped_at = &now;
	cr_assert_eq(version_after(present - 2), present);
	cr_assert_eq(version_after(present - 1), present);
	cr_assert_eq(version_after(present), present + 1);
	cr_assert_eq(version_after(present + 1), present + 2);
	stopped_at = NULL;
}

/*
 * A time of birth is that of a clock's tick: within one tick another directory could have the same
 * inode and time.
 */
Test(dir_store, a_removed_node_was_born_before_the_present_tick)
{
	const struct dir_write write = { .path = "/a", .ephemeral = true };
	static const struct {
		int later_s;
		int later_ns;
		int naps;
	} rows[] = { { 0, 0, 16 }, { 0, -1, 16 }, { 0, 1, 0 }, { 1, 0, 0 }, { -1, 0, 0 } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct statx born;
		int owner_fd;
		cr_assert_eq(place(&write, false, &owner_fd), 0);
		close(owner_fd);
		cr_assert_eq(statx(AT_FDCWD, on_disk("/a"), 0, STATX_BTIME, &born), 0);
		const struct timespec now = { .tv_sec = born.stx_btime.tv_sec + rows[i].later_s,
			.tv_nsec = (long)born.stx_btime.tv_nsec + rows[i].later_ns };
		naps = 0;
		stopped_at = &now;
		cr_assert_eq(remove_node("/a", false), 0);
		stopped_at = NULL;
		cr_assert(
			naps == rows[i].naps || !(born.stx_mask & STATX_BTIME), "%zu: %d", i, naps);
	}
}

Test(dir_store, a_record_is_replaced_as_a_whole_and_its_checksum_goes)
{
	const struct dir_write write = { .path = "/a", .data = "long", .len = 4 };
	const struct dir_write shorter = { .path = "/a", .data = "s", .len = 1 };
	int owner_fd;
	cr_assert_eq(place(&write, false, &owner_fd), 0);
	make_file("/a/._record.crc", "x");
	int old = open(on_disk("/a/_record"), O_RDONLY | O_CLOEXEC);
	struct dir_node node = look_at("/a");
	cr_assert_eq(lock(), 1);
	cr_assert_eq(dir_store_set(&store, &node, &shorter, &err), 0);
	dir_store_unlock(&store);
	dir_node_close(&node);
	char data[8] = "";
	cr_assert_eq(read(old, data, sizeof(data)), 4);
	cr_assert_str_eq(data, "long");
	close(old);
	cr_assert_str_eq(content_of("/a/_record"), "s");
	cr_assert(!is_on_disk("/a/._record.crc"));
	cr_assert(is_clean());
}

static unsigned next_number(void)
{
	struct dir_node node = look_at("/");
	unsigned number = 4711;
	err_clear(&err);
	cr_assert_eq(dir_store_next_number(&node, "/", &number, &err), 0, "%s", err.msg);
	dir_node_close(&node);
	return number;
}

Test(dir_store, numbers_of_children_count_from_0_and_never_again)
{
	cr_assert_eq(next_number(), 0);
	cr_assert_eq(next_number(), 1);
	cr_assert_str_eq(content_of("/_sequence"), "0000000002\n");
	cr_assert_eq(mode_of("/_sequence"), 0644);
	make_file("/_sequence", "9");
	cr_assert_eq(next_number(), 9);
	cr_assert_eq(next_number(), 10);
	make_file("/_sequence", "nonsense");
	cr_assert_eq(next_number(), 0);
	make_file("/_sequence", "0000000000000079 and more");
	cr_assert_eq(next_number(), 7, "no more is read than there is room for");
}

/* ---- Calls that fail ---- */

/* How many calls of fsync() another record of the node makes. */
static int syncs_of_set(bool ephemeral)
{
	const struct dir_write write = {
		.path = "/", .data = "x", .len = 1, .ephemeral = ephemeral
	};
	struct dir_node node = look_at("/");
	bool fired = true;
	int count = -1;
	while (fired) {
		cr_assert_eq(lock(), 1);
		failing_arm("fsync", (uint64_t)++count + 1, EIO);
		(void)!dir_store_set(&store, &node, &write, &err);
		fired = failing_disarm();
		dir_store_unlock(&store);
	}
	dir_node_close(&node);
	return count;
}

/* How many calls of fsync() a node makes. */
static int syncs_of(const struct dir_write *write)
{
	bool fired = true;
	int count = -1;
	while (fired) {
		int owner_fd = -1;
		failing_arm("fsync", (uint64_t)++count + 1, EIO);
		(void)place(write, false, &owner_fd);
		fired = failing_disarm();
		if (owner_fd >= 0) {
			close(owner_fd);
		}
		if (is_on_disk(write->path)) {
			cr_assert_eq(remove_node(write->path, false), 0);
		}
	}
	return count;
}

/* Of a persistent node the record, the node and the entry for it; a power cut ends the others. */
Test(dir_store, persistent_nodes_are_on_the_disk_when_they_are_reported)
{
	cr_assert_eq(syncs_of(&(struct dir_write){ .path = "/a", .data = "x", .len = 1 }), 3);
	cr_assert_eq(syncs_of(&(struct dir_write){ .path = "/a" }), 2);
	cr_assert_eq(syncs_of(&(struct dir_write){
			     .path = "/a", .data = "x", .len = 1, .ephemeral = true }),
		0);
	cr_assert_eq(syncs_of_set(false), 2);
	cr_assert_eq(syncs_of_set(true), 0);
}

/* The name of this user's work directory with a number; static. */
static const char *own_tmp(unsigned number)
{
	static char name[64];
	snprintf(name, sizeof(name), number ? "/_tmp-%u-%u" : "/_tmp-%u", (unsigned)geteuid(),
		number);
	return name;
}

Test(dir_store, in_a_root_for_everybody_each_user_has_a_work_directory)
{
	cr_assert_eq(chmod(root, 01777), 0);
	cr_assert_eq(lock(), 1);
	dir_store_unlock(&store);
	cr_assert_eq(mode_of(own_tmp(0)), 0700);
	cr_assert(!is_on_disk("/_tmp"));
	cr_assert_eq(lock(), 1);
	dir_store_unlock(&store);
	cr_assert(!is_on_disk(own_tmp(1)));
}

Test(dir_store, names_that_others_have_taken_are_passed)
{
	cr_assert_eq(chmod(root, 01777), 0);
	make_folder(own_tmp(0)); /* others may open it */
	make_file(own_tmp(2), "");
	cr_assert_eq(lock(), 1);
	dir_store_unlock(&store);
	cr_assert_eq(mode_of(own_tmp(1)), 0700);
	cr_assert_eq(rmdir(on_disk(own_tmp(0))), 0);
	cr_assert_eq(lock(), 1);
	dir_store_unlock(&store);
	cr_assert(!is_on_disk(own_tmp(0)), "all processes of the user agree");
	for (unsigned i = 0; i < 64; i++) {
		if (i != 1 && i != 2) {
			make_file(own_tmp(i), "");
		}
	}
	cr_assert_eq(lock(), 1);
	dir_store_unlock(&store);
	cr_assert_eq(rmdir(on_disk(own_tmp(1))), 0);
	make_file(own_tmp(1), "");
	cr_assert_eq(lock(), BERTH_NO_PATH_PERMISSIONS);
}
