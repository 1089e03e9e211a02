/* Nodes of a container's registry, whose owners live, have died or have ended them. */
#include "agent/bridge/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/registry/registry_dir.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

struct stage {
	char folder[SCRATCH_PATH];
	int registry;
	struct bridge_tree_node node;
	char live[512]; /* paths, each with a blank behind it */
	int directories;
	int descriptors;
};

static const char *in(const struct stage *stage, const char *path, const char *file)
{
	static char full[SCRATCH_PATH + LIMIT_PATH_BYTES];
	snprintf(full, sizeof(full), "%s%s%s", stage->folder, path, file);
	return full;
}

static struct stage *begin(struct stage *stage)
{
	scratch_folder(stage->folder);
	stage->descriptors = descriptors_count();
	stage->registry = open(stage->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return stage;
}

static void end(struct stage *stage)
{
	char command[SCRATCH_PATH + 16];
	free(stage->node.data);
	close(stage->registry);
	cr_expect_eq(descriptors_count(), stage->descriptors);
	snprintf(command, sizeof(command), "rm -rf %s", stage->folder);
	cr_assert_eq(system(command), 0);
}

#define TREE_TEST(name)                                                                            \
	STAGED_TEST(bridge_tree, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

static void put(const struct stage *stage, const char *path, const char *file, const char *text)
{
	int fd = open(in(stage, path, file), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* A node with a record; returns the descriptor that has its owner's lock. */
static int make(const struct stage *stage, const char *path, const char *record)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	cr_assert_eq(mkdir(in(stage, path, ""), 0700), 0);
	put(stage, path, "/" DIR_RECORD, record);
	put(stage, path, "/" DIR_OWNER, "me");
	int fd = open(in(stage, path, "/" DIR_OWNER), O_RDWR | O_CLOEXEC);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	return fd;
}

static enum bridge_tree_kind look(
	struct stage *stage, const char *path, const struct bridge_tree_version *known)
{
	free(stage->node.data);
	bridge_tree_look(&stage->node, stage->registry, path, known);
	return stage->node.kind;
}

TREE_TEST(a_node_has_the_kind_that_its_owner_gives_it)
{
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_ABSENT);
	cr_expect_eq(look(stage, "/a/b", NULL), BRIDGE_TREE_ABSENT);
	int owner = make(stage, "/a", "record");
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_LIVE);
	cr_assert_eq(stage->node.err.code, 0, "%s", stage->node.err.msg);
	cr_expect_str_eq(stage->node.data, "record");
	cr_expect_eq(stage->node.len, 6);
	close(owner);
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_DEAD);
	cr_expect_null(stage->node.data);
	put(stage, "/a", "/" DIR_OWNER, "");
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_ENDED);
	cr_assert_eq(unlink(in(stage, "/a", "/" DIR_OWNER)), 0);
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_PERSISTENT);
}

TREE_TEST(an_owner_that_is_no_file_is_dead)
{
	cr_assert_eq(mkdir(in(stage, "/a", ""), 0700), 0);
	cr_assert_eq(mkfifo(in(stage, "/a", "/" DIR_OWNER), 0600), 0);
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_DEAD);
}

TREE_TEST(a_record_of_a_known_version_is_not_read_again)
{
	int owner = make(stage, "/a", "one");
	look(stage, "/a", NULL);
	const struct bridge_tree_version first = stage->node.version;
	cr_expect_eq(first.size, 3);
	look(stage, "/a", &first);
	cr_expect_null(stage->node.data);
	struct bridge_tree_version others[4] = { first, first, first, first };
	others[0].inode++;
	others[1].size++;
	others[2].modified_ns++;
	others[3].changed_ns++;
	for (int i = 0; i < 4; i++) {
		look(stage, "/a", &others[i]);
		cr_expect_not_null(stage->node.data, "%d", i);
	}
	close(owner);
}

TREE_TEST(a_record_that_is_none_says_why)
{
	int owner = make(stage, "/a", "one");
	cr_assert_eq(unlink(in(stage, "/a", "/" DIR_RECORD)), 0);
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_LIVE);
	cr_expect_eq(stage->node.err.code, BERTH_NO_RECORD);
	cr_assert_eq(symlink("/etc/passwd", in(stage, "/a", "/" DIR_RECORD)), 0);
	look(stage, "/a", NULL);
	cr_expect_eq(stage->node.err.code, BERTH_INVALID_RECORD);
	cr_expect(strstr(stage->node.err.msg, strerror(ENXIO)), "%s", stage->node.err.msg);
	unlink(in(stage, "/a", "/" DIR_RECORD));
	put(stage, "/a", "/" DIR_RECORD, "");
	cr_assert_eq(truncate(in(stage, "/a", "/" DIR_RECORD), LIMIT_RECORD_BYTES + 1), 0);
	look(stage, "/a", NULL);
	cr_expect_eq(stage->node.err.code, BERTH_LIMIT_EXCEEDED);
	cr_expect_null(stage->node.data);
	cr_assert_eq(truncate(in(stage, "/a", "/" DIR_RECORD), LIMIT_RECORD_BYTES), 0);
	look(stage, "/a", NULL);
	cr_expect_eq(stage->node.err.code, 0);
	cr_expect_eq(stage->node.len, LIMIT_RECORD_BYTES);
	close(owner);
}

TREE_TEST(a_directory_is_opened_for_this_process_alone)
{
	put(stage, "", "/file", "x");
	for (int same_mount = 0; same_mount < 2; same_mount++) {
		int fd = bridge_tree_open(stage->registry, ".", same_mount);
		cr_assert_geq(fd, 0);
		cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
		cr_expect_lt(bridge_tree_open(stage->registry, "file", same_mount), 0);
		cr_expect_eq(errno, ENOTDIR);
		cr_expect_lt(bridge_tree_open(stage->registry, "..", same_mount), 0);
		cr_expect_lt(bridge_tree_open(stage->registry, "/", same_mount), 0);
	}
}

TREE_TEST(no_link_on_the_way_is_followed)
{
	cr_assert_eq(mkdir(in(stage, "/a", ""), 0700), 0);
	cr_assert_eq(mkdir(in(stage, "/a/b", ""), 0700), 0);
	cr_assert_eq(symlink("a", in(stage, "/link", "")), 0);
	int fd = bridge_tree_open(stage->registry, "a/b", true);
	cr_expect_geq(fd, 0);
	close(fd);
	for (int same_mount = 0; same_mount < 2; same_mount++) {
		cr_expect_lt(bridge_tree_open(stage->registry, "link", same_mount), 0);
		cr_expect_lt(bridge_tree_open(stage->registry, "link/b", same_mount), 0);
	}
}

/* The kernel would wait for the one that has the lease. */
TREE_TEST(no_lease_is_waited_for)
{
	int owner = make(stage, "/a", "one");
	signal(SIGIO, SIG_IGN);
	int lease = open(in(stage, "/a", "/" DIR_RECORD), O_RDWR | O_CLOEXEC);
	if (fcntl(lease, F_SETLEASE, F_WRLCK) == 0) {
		cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_LIVE);
		cr_expect_eq(stage->node.err.code, BERTH_INVALID_RECORD);
		cr_expect(strstr(stage->node.err.msg, strerror(EWOULDBLOCK)), "%s",
			stage->node.err.msg);
	}
	close(lease);
	close(owner);
}

/* ---- nodes that change under the look ---- */

#ifdef SYS_newfstatat

static struct stage *swapped; /* whose node /a is another one at each look; NULL: none */
static int swaps;             /* to come */
static int names_seen;        /* calls */

int fstatat(int directory, const char *restrict name, struct stat *restrict stat, int flags)
{
	names_seen++;
	if (swapped && swaps > 0) {
		char command[3 * SCRATCH_PATH];
		swaps--;
		snprintf(command, sizeof(command),
			"cd '%s' && mv a old$$ && mkdir a && mv next a/%s", swapped->folder,
			DIR_OWNER);
		if (swaps == 0) {
			cr_assert_eq(system(command), 0);
		} else {
			snprintf(command, sizeof(command),
				"cd '%s' && mv a old$$ && mkdir a && echo me >a/%s",
				swapped->folder, DIR_OWNER);
			cr_assert_eq(system(command), 0);
		}
	}
	return (int)syscall(SYS_newfstatat, directory, name, stat, flags);
}

TREE_TEST(a_node_that_is_replaced_is_looked_at_again)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	close(make(stage, "/a", "one"));
	names_seen = 0;
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_DEAD);
	cr_expect_eq(names_seen, 1, "it is the one at its path");
	/* The next one's owner lives; one more comes between, whose owner is dead. */
	for (int round = 1; round < 3; round++) {
		put(stage, "", "/next", "me");
		int owner = open(in(stage, "", "/next"), O_RDWR | O_CLOEXEC);
		cr_assert_eq(fcntl(owner, F_OFD_SETLK, &lock), 0);
		swapped = stage;
		swaps = round;
		names_seen = 0;
		cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_LIVE);
		cr_expect_eq(names_seen, round);
		swapped = NULL;
		close(owner);
	}
	swapped = stage;
	swaps = 100;
	names_seen = 0;
	cr_expect_eq(look(stage, "/a", NULL), BRIDGE_TREE_DEAD, "it comes to an end");
	cr_expect_eq(names_seen, 8);
	swapped = NULL;
}

#endif

TREE_TEST(a_link_leads_nowhere)
{
	int owner = make(stage, "/a", "one");
	cr_assert_eq(symlink("a", in(stage, "/b", "")), 0);
	cr_expect_eq(look(stage, "/b", NULL), BRIDGE_TREE_ABSENT);
	cr_expect_lt(bridge_tree_open(stage->registry, "..", false), 0);
	close(owner);
}

/* ---- the walk ---- */

static void on_directory(void *context, int fd)
{
	cr_expect_geq(fd, 0);
	++((struct stage *)context)->directories;
}

static void on_unseen(void *context)
{
	(void)context;
	cr_expect_fail("nothing is lacking");
}

static void on_live(void *context, const char *path)
{
	struct stage *stage = context;
	size_t len = strlen(stage->live);
	snprintf(stage->live + len, sizeof(stage->live) - len, "%s ", path);
}

static bool walk(struct stage *stage, size_t max_entries)
{
	const struct bridge_tree_walk walk = { max_entries, on_directory, on_live, on_unseen,
		stage };
	stage->live[0] = '\0';
	stage->directories = 0;
	return bridge_tree_walk(&walk, stage->registry);
}

TREE_TEST(a_walk_tells_each_directory_and_the_nodes_whose_owners_live)
{
	int owners[] = { make(stage, "/a", "1"), make(stage, "/a/b", "2"), make(stage, "/c", "3") };
	close(owners[2]);
	mkdir(in(stage, "/_hidden", ""), 0700);
	mkdir(in(stage, "/.dot", ""), 0700);
	mkdir(in(stage, "/No name", ""), 0700);
	cr_assert_eq(symlink("a", in(stage, "/link", "")), 0);
	cr_expect(walk(stage, 1000));
	cr_expect_str_eq(stage->live, "/a /a/b ");
	cr_expect_eq(stage->directories, 4, "the root, a, a/b and c");
	close(owners[0]);
	cr_expect(walk(stage, 1000));
	cr_expect_str_eq(stage->live, "/a/b ");
	close(owners[1]);
}

TREE_TEST(a_walk_has_bounds)
{
	int owner = make(stage, "/a", "1");
	/* With "." and "..", three in the root and four in the node. */
	cr_expect(walk(stage, 7));
	cr_expect_not(walk(stage, 6));
	cr_expect_not(walk(stage, 0));
	close(owner);
	char path[LIMIT_PATH_BYTES] = "/a";
	for (int depth = 2; depth <= 40; depth++) {
		strcat(path, "/d");
		cr_assert_eq(mkdir(in(stage, path, ""), 0700), 0);
	}
	cr_expect_not(walk(stage, 1000));
	cr_expect_eq(
		stage->directories, 33, "thirty-two below each other, and one that is too deep");
}

TREE_TEST(a_walk_that_is_over_visits_nothing_more)
{
	for (int i = 0; i < 30; i++) {
		char path[16];
		snprintf(path, sizeof(path), "/n%d", i);
		cr_assert_eq(mkdir(in(stage, path, ""), 0700), 0);
	}
	cr_expect_not(walk(stage, 4));
	cr_expect_leq(stage->directories, 5, "the root, and an entry each");
}

TREE_TEST(the_longest_path_is_looked_at)
{
	char path[LIMIT_PATH_BYTES + 64] = "";
	size_t len = 0;
	while (len < LIMIT_PATH_BYTES - 2) {
		size_t more = LIMIT_PATH_BYTES - 2 - len > 62 ? 40 : LIMIT_PATH_BYTES - 3 - len;
		path[len++] = '/';
		memset(path + len, 'd', more);
		len += more;
		path[len] = '\0';
		cr_assert_eq(mkdir(in(stage, path, ""), 0700), 0);
	}
	strcat(path, "/x");
	cr_assert_eq(strlen(path), LIMIT_PATH_BYTES);
	int owner = make(stage, path, "one");
	cr_expect_eq(look(stage, path, NULL), BRIDGE_TREE_LIVE);
	cr_expect_str_eq(stage->node.data, "one");
	close(owner);
}

/* Directories with 40 letters each, and a last one, so that its path has so many bytes. */
static int directories_of(struct stage *stage, size_t bytes)
{
	char path[LIMIT_PATH_BYTES + 64] = "";
	size_t len = 0;
	while (len < bytes) {
		size_t more = bytes - len > 62 ? 40 : bytes - len - 1;
		path[len++] = '/';
		memset(path + len, 'd', more);
		len += more;
		path[len] = '\0';
		mkdir(in(stage, path, ""), 0700);
	}
	cr_assert_eq(len, bytes);
	cr_expect(walk(stage, 1000));
	return stage->directories;
}

TREE_TEST(a_walk_leaves_out_paths_that_are_too_long)
{
	int most = directories_of(stage, LIMIT_PATH_BYTES);
	cr_expect_eq(directories_of(stage, LIMIT_PATH_BYTES), most, "they are there");
	char command[SCRATCH_PATH + 16];
	snprintf(command, sizeof(command), "rm -rf %s/d*", stage->folder);
	cr_assert_eq(system(command), 0);
	cr_expect_eq(directories_of(stage, LIMIT_PATH_BYTES + 1), most - 1, "all but the last");
	cr_assert_eq(system(command), 0);
	cr_expect_eq(directories_of(stage, LIMIT_PATH_BYTES - 1), most);
}
