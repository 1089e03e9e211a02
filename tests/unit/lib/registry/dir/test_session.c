/* The nodes that a process owns: which they are, how they end, and how a successor takes them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/registry/dir/session.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
#include "tests/support/scratch.h"

static char root[SCRATCH_PATH];
static int root_fd;
static struct dir_session session;
static int descriptors; /* before the first node */

static void set_up(void)
{
	scratch_folder(root);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	session = (struct dir_session){ 0 };
	descriptors = descriptors_count();
}

static const char *in_root(const char *path, const char *file)
{
	static char full[SCRATCH_PATH + 64];
	snprintf(full, sizeof(full), "%s%s%s", root, path, file);
	return full;
}

static void remove_node(const char *path)
{
	unlink(in_root(path, "/_owner"));
	rmdir(in_root(path, ""));
}

static void tear_down(void)
{
	remove_node("/a");
	remove_node("/b");
	remove_node("/c");
	rmdir(root);
}

TestSuite(dir_session, .init = set_up, .fini = tear_down);

/* An ephemeral node, with a lock that a descriptor of its owner holds. */
static int make_node(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	cr_assert_eq(mkdir(in_root(path, ""), 0700), 0);
	int fd = open(in_root(path, "/_owner"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	return fd;
}

static int add_node(const char *path)
{
	struct err err = ERR_INIT;
	int fd = make_node(path);
	cr_assert_eq(dir_session_add(&session, path, fd, &err), 0);
	return fd;
}

static struct dir_node look_at(const char *path)
{
	struct err err = ERR_INIT;
	struct dir_node node;
	cr_assert_eq(dir_node_open(&node, root_fd, path, strlen(path), &err), 0);
	dir_node_close(&node);
	return node;
}

static bool owns(const char *path)
{
	struct dir_node node = look_at(path);
	return dir_session_owns(&session, &node);
}

static void drop(const char *path)
{
	struct dir_node node = look_at(path);
	dir_session_drop(&session, &node);
}

static enum dir_kind kind_of(const char *path)
{
	return look_at(path).kind;
}

Test(dir_session, the_nodes_of_a_session_are_those_that_were_added)
{
	add_node("/a");
	add_node("/b");
	int other = make_node("/c");
	cr_assert(owns("/a"));
	cr_assert(owns("/b"));
	cr_assert(!owns("/c"));
	struct dir_node elsewhere = look_at("/a");
	elsewhere.owner_device++;
	cr_assert(!dir_session_owns(&session, &elsewhere));
	struct dir_node persistent = { .owner_device = elsewhere.owner_device - 1 };
	cr_assert(!dir_session_owns(&session, &persistent));
	drop("/c");
	cr_assert_eq(session.count, 2);
	drop("/a");
	cr_assert_eq(session.count, 1);
	cr_assert_str_eq(session.owned[0].path, "/b");
	cr_assert_eq(kind_of("/a"), DIR_DEAD);
	cr_assert_eq(kind_of("/b"), DIR_EPHEMERAL);
	dir_session_finish(&session);
	cr_assert_eq(kind_of("/b"), DIR_DEAD);
	cr_assert_eq(kind_of("/c"), DIR_EPHEMERAL);
	cr_assert_eq(session.count, 0);
	cr_assert_null(session.owned);
	close(other);
	cr_assert_eq(descriptors_count(), descriptors);
}

static off_t size_of(const char *path)
{
	struct stat stat;
	cr_assert_eq(lstat(in_root(path, "/_owner"), &stat), 0);
	return stat.st_size;
}

/* An owner that was killed leaves its number in the file. */
Test(dir_session, the_file_of_an_owner_that_ended_its_node_is_empty)
{
	int fds[] = { add_node("/a"), add_node("/b") };
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(write(fds[i], "pid 1\n", 6), 6);
	}
	drop("/a");
	cr_assert_eq(size_of("/a"), 0);
	cr_assert_eq(size_of("/b"), 6);
	dir_session_finish(&session);
	cr_assert_eq(size_of("/b"), 0);
}

/* A program that was started without standard input gets its number for other files. */
Test(dir_session, the_descriptor_with_number_0_is_one_like_others)
{
	close(0);
	cr_assert_eq(add_node("/a"), 0);
	dir_session_release(&session);
	cr_assert_eq(kind_of("/a"), DIR_DEAD);
	cr_assert_lt(fcntl(0, F_GETFD), 0);
	dir_session_finish(&session);
}

/* As in a child that writes a file. */
Test(dir_session, a_copy_of_a_descriptor_keeps_no_node_alive)
{
	int copies[] = { dup(add_node("/a")), dup(add_node("/b")) };
	drop("/a");
	cr_assert_eq(kind_of("/a"), DIR_DEAD);
	dir_session_finish(&session);
	cr_assert_eq(kind_of("/b"), DIR_DEAD);
	close(copies[0]);
	close(copies[1]);
}

Test(dir_session, released_nodes_are_dead_and_still_known)
{
	int first = add_node("/a");
	add_node("/b");
	dir_session_release(&session);
	cr_assert_eq(kind_of("/a"), DIR_DEAD);
	cr_assert_eq(kind_of("/b"), DIR_DEAD);
	cr_assert(owns("/a"));
	cr_assert(owns("/b"));
	/* The number belongs to somebody else from now on. */
	int taken = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cr_assert_eq(taken, first);
	dir_session_finish(&session);
	cr_assert_geq(fcntl(taken, F_GETFD), 0);
	close(taken);
	cr_assert_eq(descriptors_count(), descriptors);
}

static bool survives_exec(int fd)
{
	int flags = fcntl(fd, F_GETFD);
	cr_assert_geq(flags, 0);
	return !(flags & FD_CLOEXEC);
}

static json_t *lock_of(const char *path, int fd)
{
	return json_pack("{s:s, s:i}", "path", path, "fd", fd);
}

Test(dir_session, a_successor_takes_the_nodes_of_its_predecessor)
{
	int a = add_node("/a");
	int b = add_node("/b");
	json_t *detached = dir_session_detach(&session);
	json_t *expected = json_pack(
		"{s:s, s:[o, o]}", "backend", "dir", "locks", lock_of("/a", a), lock_of("/b", b));
	cr_assert(json_equal(detached, expected));
	cr_assert_eq(session.count, 0);
	cr_assert_null(session.owned);
	cr_assert(survives_exec(a));
	cr_assert(survives_exec(b));
	cr_assert_eq(kind_of("/a"), DIR_EPHEMERAL);
	dir_session_adopt(&session, root_fd, detached);
	cr_assert(owns("/a"));
	cr_assert(owns("/b"));
	cr_assert(!survives_exec(a));
	cr_assert(!survives_exec(b));
	dir_session_finish(&session);
	cr_assert_eq(kind_of("/a"), DIR_DEAD);
	cr_assert_eq(descriptors_count(), descriptors);
	json_decref(expected);
	json_decref(detached);
}

Test(dir_session, nodes_gone_or_made_by_another_are_closed_and_not_taken)
{
	int gone = add_node("/a");
	int other = add_node("/b");
	add_node("/c");
	json_t *detached = dir_session_detach(&session);
	remove_node("/a");
	/* Another process has put its own node there. */
	remove_node("/b");
	int theirs = make_node("/b");
	dir_session_adopt(&session, root_fd, detached);
	cr_assert_eq(session.count, 1);
	cr_assert(owns("/c"));
	cr_assert_lt(fcntl(gone, F_GETFD), 0);
	cr_assert_lt(fcntl(other, F_GETFD), 0);
	dir_session_finish(&session);
	close(theirs);
	cr_assert_eq(descriptors_count(), descriptors);
	json_decref(detached);
}

/* Another program has locked the node's _owner file since. */
Test(dir_session, a_node_without_our_lock_is_not_ours)
{
	struct flock lock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	int fd = add_node("/a");
	json_t *detached = dir_session_detach(&session);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	int theirs = open(in_root("/a", "/_owner"), O_RDWR | O_CLOEXEC);
	lock.l_type = F_WRLCK;
	cr_assert_eq(fcntl(theirs, F_OFD_SETLK, &lock), 0);
	dir_session_adopt(&session, root_fd, detached);
	cr_assert_eq(session.count, 0);
	cr_assert_lt(fcntl(fd, F_GETFD), 0);
	close(theirs);
	json_decref(detached);
}

static void adopt(json_t *detached)
{
	dir_session_adopt(&session, root_fd, detached);
	cr_assert_eq(session.count, 0);
	json_decref(detached);
}

Test(dir_session, a_state_that_is_none_of_ours_touches_no_descriptor)
{
	int fd = make_node("/a");
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	json_t *not_a_number = json_pack("{s:s, s:s}", "path", "/a", "fd", "3");
	adopt(json_pack("{s:s, s:[o]}", "backend", "zookeeper", "locks", lock_of("/a", fd)));
	adopt(json_pack("{s:[o]}", "locks", lock_of("/a", fd)));
	adopt(json_pack("{s:s}", "backend", "dir"));
	adopt(json_pack("{s:s, s:[o]}", "backend", "dir", "locks", lock_of("a", fd)));
	adopt(json_pack("{s:s, s:[{s:i}]}", "backend", "dir", "locks", "fd", fd));
	adopt(json_pack("{s:s, s:[o]}", "backend", "dir", "locks", not_a_number));
	adopt(json_pack("{s:s, s:[o]}", "backend", "dir", "locks", lock_of("/a", ends[0])));
	adopt(json_pack("{s:s, s:[o]}", "backend", "dir", "locks", lock_of("/a", 9999)));
	cr_assert_geq(fcntl(ends[0], F_GETFD), 0, "a pipe was never ours");
	cr_assert_eq(kind_of("/a"), DIR_EPHEMERAL);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

Test(dir_session, without_memory_the_node_dies)
{
	struct err err = ERR_INIT;
	bool fired = true;
	add_node("/a");
	int fd = make_node("/b");
	for (int number = 1; fired; number++) {
		int copy = dup(fd);
		err_clear(&err);
		failing_arm("alloc", (uint64_t)number, ENOMEM);
		int code = dir_session_add(&session, "/b", copy, &err);
		fired = failing_disarm();
		cr_assert_eq(code, fired ? BERTH_FAILED : 0);
		cr_assert_eq(session.count, fired ? 1 : 2);
		cr_assert_eq(fcntl(copy, F_GETFD) < 0, fired);
	}
	close(fd);
	dir_session_finish(&session);
	cr_assert_eq(descriptors_count(), descriptors);
}

static int add_and_finish(void *context)
{
	struct err err = ERR_INIT;
	int code = dir_session_add(&session, "/a", dup(*(const int *)context), &err);
	dir_session_finish(&session);
	return code;
}

Test(dir_session, a_node_whose_file_cannot_be_looked_at_leaves_nothing)
{
	int fd = make_node("/a");
	failing_check("an own node", "stat", EIO, add_and_finish, &fd);
	close(fd);
}

Test(dir_session, a_node_that_a_successor_would_not_know_of_dies)
{
	bool fired = true;
	for (int number = 1; fired; number++) {
		add_node("/a");
		failing_arm("alloc", (uint64_t)number, ENOMEM);
		json_t *detached = dir_session_detach(&session);
		fired = failing_disarm();
		bool told = json_array_size(json_object_get(detached, "locks")) == 1;
		cr_assert(fired || told);
		cr_assert_eq(kind_of("/a"), told ? DIR_EPHEMERAL : DIR_DEAD);
		cr_assert_eq(session.count, 0);
		dir_session_adopt(&session, root_fd, detached);
		dir_session_finish(&session);
		json_decref(detached);
		remove_node("/a");
	}
}
