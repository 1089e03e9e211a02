/* The nodes that a process owns: which they are, how they end, and how a successor takes them. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/registry/dir/session.h"
#include "tests/support/descriptors.h"
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

static enum dir_kind kind_of(const char *path)
{
	return look_at(path).kind;
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
