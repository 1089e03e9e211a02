/* Nodes on disk, as readers find them: kinds, stat, records, children; and calls that fail. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/limits.h"
#include "lib/registry/dir/node.h"
#include "tests/failures/points.h"
#include "tests/support/descriptors.h"
#include "tests/support/dir_client.h"
#include "tests/support/failing.h"

enum { LONGEST = LIMIT_RECORD_BYTES, SCANNED = 1024 * 1024 };

static char root[512];
static int root_fd;
static struct err err;

static void set_up(void)
{
	snprintf(root, sizeof(root), "%s", dir_root_make());
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = (struct err)ERR_INIT;
}

static void tear_down(void)
{
	close(root_fd);
	dir_root_remove(root);
}

TestSuite(dir_node, .init = set_up, .fini = tear_down, .timeout = 120);

static void make_folder(const char *path)
{
	cr_assert_eq(mkdirat(root_fd, path + 1, 0755), 0, "%s", path);
}

static void make_file(const char *path, const char *data, size_t len)
{
	int fd = openat(root_fd, path + 1, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(write(fd, data, len), (ssize_t)len);
	close(fd);
}

/* The owner's file of a living node: its descriptor. */
static int make_owner(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	make_file(path, "", 0);
	int fd = openat(root_fd, path + 1, O_RDWR | O_CLOEXEC);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	return fd;
}

/* /a is persistent and has a record, a living child, a dead one, and two other files. */
static int make_tree(void)
{
	make_folder("/a");
	make_file("/a/_record", "record", 6);
	make_folder("/a/alive");
	make_folder("/a/dead");
	make_file("/a/dead/_owner", "", 0);
	make_folder("/a/Other");
	make_file("/a/file", "", 0);
	return make_owner("/a/alive/_owner");
}

static int open_node(struct dir_node *ret_node, const char *path)
{
	err_clear(&err);
	return dir_node_open(ret_node, root_fd, path, strlen(path), &err);
}

static enum dir_kind kind_of(const char *path)
{
	struct dir_node node;
	cr_assert_eq(open_node(&node, path), 0, "%s: %s", path, err.msg);
	cr_assert_eq(node.fd >= 0, node.kind != DIR_ABSENT);
	dir_node_close(&node);
	cr_assert_eq(node.fd, -1);
	return node.kind;
}

static struct registry_stat stat_of(const char *path)
{
	struct registry_stat stat;
	struct dir_node node;
	cr_assert_eq(open_node(&node, path), 0);
	cr_assert_eq(dir_node_stat(&node, path, &stat, &err), 0, "%s", err.msg);
	dir_node_close(&node);
	return stat;
}

Test(dir_node, each_kind_is_told_from_the_others)
{
	int owner_fd = make_tree();
	cr_assert_eq(kind_of("/"), DIR_PERSISTENT);
	cr_assert_eq(kind_of("/a"), DIR_PERSISTENT);
	cr_assert_eq(kind_of("/a/alive"), DIR_EPHEMERAL);
	cr_assert_eq(kind_of("/a/dead"), DIR_DEAD);
	cr_assert_eq(kind_of("/a/none"), DIR_ABSENT);
	cr_assert_eq(kind_of("/a/none/none"), DIR_ABSENT);
	cr_assert_eq(kind_of("/a/file"), DIR_ABSENT);
	cr_assert_eq(kind_of("/a/file/none"), DIR_ABSENT);
	cr_assert(stat_of("/a/alive").ephemeral);
	cr_assert(!stat_of("/a").ephemeral);
	close(owner_fd);
	cr_assert_eq(kind_of("/a/alive"), DIR_DEAD);
}

/* An element has room for the longest name of a directory, a path for LIMIT_PATH_BYTES. */
Test(dir_node, a_path_that_is_too_long_names_nothing)
{
	char path[LIMIT_PATH_BYTES + 2];
	char name[DIR_NAME_BYTES + 1];
	struct dir_node node;
	memset(name, 'a', DIR_NAME_BYTES);
	name[DIR_NAME_BYTES] = '\0';
	snprintf(path, sizeof(path), "/%s", name);
	make_folder(path);
	snprintf(path, sizeof(path), "/%s/b", name);
	make_folder(path);
	cr_assert_eq(kind_of(path), DIR_PERSISTENT);
	snprintf(path, sizeof(path), "/%sa/b", name);
	cr_assert_eq(kind_of(path), DIR_ABSENT);
	snprintf(path, sizeof(path), "/%saa/b", name);
	int descriptors = descriptors_count();
	cr_assert_eq(kind_of(path), DIR_ABSENT);
	cr_assert_eq(descriptors_count(), descriptors);
	memset(path, 'a', sizeof(path));
	for (size_t i = 0; i < LIMIT_PATH_BYTES; i += 100) {
		path[i] = '/';
	}
	path[LIMIT_PATH_BYTES] = '\0';
	cr_assert_eq(kind_of(path), DIR_ABSENT);
	path[LIMIT_PATH_BYTES] = 'a';
	path[LIMIT_PATH_BYTES + 1] = '\0';
	cr_assert_eq(open_node(&node, path), BERTH_INVALID_PATHNAME);
}

Test(dir_node, a_node_is_current_until_another_has_its_place)
{
	struct dir_node node;
	make_folder("/a");
	make_folder("/b");
	cr_assert_eq(open_node(&node, "/a"), 0);
	cr_assert(dir_node_current(&node, root_fd, "/a"));
	cr_assert(!dir_node_current(&node, root_fd, "/none"));
	cr_assert_eq(renameat(root_fd, "b", root_fd, "a"), 0);
	cr_assert(!dir_node_current(&node, root_fd, "/a"));
	dir_node_close(&node);
}

static void set_time(const char *path, int64_t seconds, long nanoseconds)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		{ .tv_sec = seconds, .tv_nsec = nanoseconds } };
	cr_assert_eq(utimensat(root_fd, path + 1, times, 0), 0);
}

Test(dir_node, a_node_with_the_inode_number_of_another_time_has_another_identity)
{
	uint64_t ids[2];
	make_folder("/a");
	make_folder("/b");
	ids[0] = stat_of("/a").node_id;
	ids[1] = stat_of("/b").node_id;
	cr_assert_neq(ids[0], ids[1]);
	cr_assert_eq(stat_of("/a").node_id, ids[0]);
}

/* The record of /a; the code. */
static int read_record(char **ret_data, size_t *ret_len, struct registry_stat *stat)
{
	struct dir_node node;
	cr_assert_eq(open_node(&node, "/a"), 0);
	*stat = (struct registry_stat){ .version = -1, .size = 1 };
	int code = dir_node_read(&node, "/a", ret_data, ret_len, stat, &err);
	dir_node_close(&node);
	return code;
}

Test(dir_node, a_record_comes_with_its_length_version_and_end)
{
	struct registry_stat stat;
	char *data;
	size_t len;
	make_folder("/a");
	cr_assert_eq(read_record(&data, &len, &stat), 0);
	cr_assert_str_eq(data, "");
	cr_assert_eq(len, 0);
	cr_assert_eq(stat.version, 0);
	cr_assert_eq(stat.size, 0);
	free(data);
	make_file("/a/_record", "a\0record", 8);
	set_time("/a/_record", 1, 5);
	cr_assert_eq(read_record(&data, &len, &stat), 0);
	cr_assert_eq(len, 8);
	cr_assert_eq(memcmp(data, "a\0record", 9), 0);
	cr_assert_eq(stat.version, 1000000005);
	cr_assert_eq(stat.size, 8);
	free(data);
}

static void make_record_of(size_t bytes)
{
	make_file("/a/_record", "", 0);
	int fd = openat(root_fd, "a/_record", O_WRONLY | O_CLOEXEC);
	cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
	close(fd);
}

Test(dir_node, the_largest_record_is_read_and_a_larger_one_is_not)
{
	struct registry_stat stat;
	char *data = NULL;
	size_t len = 0;
	make_folder("/a");
	make_record_of(LONGEST);
	cr_assert_eq(read_record(&data, &len, &stat), 0);
	cr_assert_eq(len, LONGEST);
	free(data);
	data = NULL;
	make_record_of(LONGEST + 1);
	cr_assert_eq(read_record(&data, &len, &stat), BERTH_NO_RECORD);
	cr_assert_null(data);
	cr_assert_eq(stat.size, LONGEST + 1);
	cr_assert_gt(stat.version, 0);
}

/* Of a file that is too large, with the marker of records at this place. */
static int code_with_marker_at(size_t at)
{
	struct registry_stat stat;
	char *data = NULL;
	size_t len = 0;
	make_record_of(2 * SCANNED);
	int fd = openat(root_fd, "a/_record", O_WRONLY | O_CLOEXEC);
	cr_assert_eq(pwrite(fd, RECORD_TYPE, strlen(RECORD_TYPE), (off_t)at),
		(ssize_t)strlen(RECORD_TYPE));
	close(fd);
	int code = read_record(&data, &len, &stat);
	cr_assert_null(data);
	return code;
}

/* Wherever it is, also across the end of a block; what lies behind the first MB is not read. */
Test(dir_node, a_record_that_is_too_large_is_known_by_its_marker)
{
	make_folder("/a");
	cr_assert_eq(code_with_marker_at(0), BERTH_INVALID_RECORD);
	for (size_t at = 16 * 1024 - 2 * strlen(RECORD_TYPE); at <= 16 * 1024; at++) {
		cr_assert_eq(code_with_marker_at(at), BERTH_INVALID_RECORD, "%zu", at);
	}
	for (size_t at = 2 * 16 * 1024 - 3 * strlen(RECORD_TYPE); at <= 2 * 16 * 1024; at++) {
		cr_assert_eq(code_with_marker_at(at), BERTH_INVALID_RECORD, "%zu", at);
	}
	cr_assert_eq(code_with_marker_at(SCANNED - 100), BERTH_INVALID_RECORD);
	cr_assert_eq(code_with_marker_at(SCANNED + 64 * 1024), BERTH_NO_RECORD);
}

static bool is_nodes_name(const char *name)
{
	return dir_is_nodes_name(root_fd, name);
}

Test(dir_node, a_name_is_an_element_or_marked_as_foreign)
{
	char longest[DIR_NAME_BYTES + 2];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	make_folder("/Host_1");
	make_folder("/_x");
	make_folder("/.x");
	cr_assert(is_nodes_name("web-1"));
	cr_assert(!is_nodes_name("Host_1"));
	make_file("/Host_1/_foreign", "", 0);
	make_file("/_x/_foreign", "", 0);
	make_file("/.x/_foreign", "", 0);
	cr_assert(is_nodes_name("Host_1"));
	cr_assert(!is_nodes_name("_x"));
	cr_assert(!is_nodes_name(".x"));
	cr_assert(!is_nodes_name(longest));
	longest[DIR_NAME_BYTES] = '\0';
	longest[0] = 'A';
	cr_assert_eq(mkdirat(root_fd, longest, 0755), 0);
	cr_assert(!is_nodes_name(longest));
	int folder = openat(root_fd, longest, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(mknodat(folder, DIR_FOREIGN, S_IFREG | 0644, 0), 0);
	close(folder);
	cr_assert(is_nodes_name(longest));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct dir_child *)a)->name, ((const struct dir_child *)b)->name);
}

/* A long path stands for many children: the list would hold it once for each. */
Test(dir_node, more_children_than_a_list_may_hold_are_refused)
{
	static char path[LIMIT_LIST_BYTES / 5 + 1];
	struct dir_children children;
	struct dir_node node;
	int owner_fd = make_tree();
	cr_assert_eq(open_node(&node, "/a"), 0);
	cr_assert_eq(dir_node_children(&node, "/a", &children, &err), 0);
	cr_assert_lt(children.count + children.foreign_count, 5);
	dir_children_free(&children);
	memset(path, 'a', sizeof(path) - 1);
	make_file("/a/file2", "", 0);
	make_file("/a/file3", "", 0);
	cr_assert_eq(dir_node_children(&node, path, &children, &err), BERTH_LIMIT_EXCEEDED);
	cr_assert_not_null(strstr(err.msg, "larger than 16 MiB"));
	err_clear(&err);
	dir_node_close(&node);
	close(owner_fd);
}

Test(dir_node, children_and_other_files_are_told_apart)
{
	struct dir_children children;
	struct dir_node node;
	int owner_fd = make_tree();
	make_file("/a/_owner-of-nothing", "", 0);
	make_file("/a/_sequence", "1", 1);
	make_file("/a/_container", "", 0);
	make_file("/a/_foreign", "", 0);
	make_file("/a/._record.crc", "", 0);
	cr_assert_eq(open_node(&node, "/a"), 0);
	cr_assert_eq(dir_node_children(&node, "/a", &children, &err), 0);
	cr_assert_eq(children.count, 2);
	cr_assert_eq(children.live, 1);
	qsort(children.entries, children.count, sizeof(children.entries[0]), by_name);
	cr_assert_str_eq(children.entries[0].name, "alive");
	cr_assert_eq(children.entries[0].kind, DIR_EPHEMERAL);
	cr_assert_str_eq(children.entries[1].name, "dead");
	cr_assert_eq(children.entries[1].kind, DIR_DEAD);
	cr_assert_eq(children.foreign_count, 3, "Other, file and _owner-of-nothing");
	dir_children_free(&children);
	cr_assert_eq(children.count, 0);
	dir_node_close(&node);
	close(owner_fd);
}

/* A user who may not open a child sees that it is there. */
Test(dir_node, a_child_that_may_not_be_opened_is_listed)
{
	struct dir_children children;
	struct dir_node node;
	make_folder("/e");
	int owner_fd = make_owner("/e/_owner");
	cr_assert_eq(open_node(&node, "/"), 0);
	failing_arm("open", 3, EACCES); /* after the directory itself */
	int code = dir_node_children(&node, "/", &children, &err);
	cr_assert(failing_disarm());
	cr_assert_eq(code, 0, "%s", err.msg);
	cr_assert_eq(err.code, 0);
	cr_expect_eq(children.count, 1);
	cr_expect_eq(children.live, 1);
	dir_children_free(&children);
	dir_node_close(&node);
	close(owner_fd);
}
