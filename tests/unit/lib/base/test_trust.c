#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/trust.h"
#include "tests/support/descriptors.h"
#include "tests/support/rights.h"
#include "tests/support/scratch.h"

enum { STRANGER = 4711 };

static char folder[SCRATCH_PATH]; /* in a sticky directory, ours, 0700 */

static char *in(const char *name)
{
	static char paths[4][SCRATCH_PATH + 320];
	static unsigned next;
	char *path = paths[next++ % 4];
	snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
	return path;
}

static bool link_goes;

ssize_t readlinkat(int folder_fd, const char *path, char *target, size_t size)
{
	errno = ENOENT;
	return link_goes ? -1 : syscall(SYS_readlinkat, folder_fd, path, target, size);
}

static void make_folder(void)
{
	scratch_folder(folder);
	cr_assert(zero(int, mkdir(in("state"), 0700)));
}

static void remove_folder(void)
{
	char command[SCRATCH_PATH + 16];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert(zero(int, system(command)));
}

TestSuite(trust, .init = make_folder, .fini = remove_folder);

static void expect(const char *path, int code, const char *says)
{
	struct err err = ERR_INIT;
	int before = descriptors_count();
	cr_expect(eq(int, trust_check_directory(path, &err), code), "%s: %s", path, err.msg);
	cr_expect(eq(int, descriptors_count(), before), "%s", path);
	cr_expect(ne(ptr, strstr(err.msg, says), NULL), "%s", err.msg);
}

Test(trust, our_own_directory_in_a_shared_one_is_good)
{
	expect(in("state"), 0, "");
	expect("/", 0, "");
}

Test(trust, a_file_that_others_can_write_is_not_trusted)
{
	chmod(in("state"), 0777);
	expect(in("state"), BERTH_NO_PATH_PERMISSIONS, "others can write to it (mode 0777)");
	chmod(in("state"), 0770);
	cr_assert(zero(int, chown(in("state"), (uid_t)-1, getegid())));
	expect(in("state"), 0, "");
}

Test(trust, a_relative_path_is_followed_from_here)
{
	cr_assert(zero(int, chdir(folder)));
	expect("state", 0, "");
	cr_assert(zero(int, symlink("state", "link")));
	expect("link", 0, "");
	chmod("state", 0777);
	expect("state", BERTH_NO_PATH_PERMISSIONS, "others can write to it (mode 0777)");
	expect("link", BERTH_NO_PATH_PERMISSIONS, "others can write to it (mode 0777)");
}

Test(trust, root_and_the_agents_user_are_trusted_and_no_other)
{
	static const struct {
		uid_t owner;
		uid_t user;
		const char *says; /* "": it is trusted */
	} cases[] = { { 0, 4712, "" }, { 4712, 4712, "" }, { 0, 0, "" },
		{ 1, 0, "it belongs to user 1, and not to root" },
		{ 1, 4712, "it belongs to user 1, and not to root or the agent's user 4712" },
		{ 4712, 1, "it belongs to user 4712, and not to root or the agent's user 1" } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = ERR_INIT;
		const struct trust_rule rule = { .user = cases[i].user };
		const struct stat status = { .st_mode = S_IFREG | 0600, .st_uid = cases[i].owner };
		int code = trust_check_status(&rule, &status, &err);
		cr_expect(eq(int, code, *cases[i].says ? BERTH_NO_PATH_PERMISSIONS : 0), "%zu", i);
		cr_expect(eq(str, err.msg, (char *)(uintptr_t)cases[i].says));
	}
}

Test(trust, a_path_has_a_greatest_length)
{
	char path[PATH_MAX + 2];
	memset(path, '/', sizeof(path));
	for (size_t len = PATH_MAX - 1; len <= PATH_MAX + 1; len++) {
		struct err err = ERR_INIT;
		path[len] = '\0';
		int code = trust_check_directory(path, &err);
		cr_expect(eq(int, code, len < PATH_MAX ? 0 : BERTH_FAILED), "%zu", len);
		path[len] = '/';
	}
}

Test(trust, in_a_sticky_directory_others_can_change_nothing_of_ours)
{
	chmod(in("state"), 01777);
	expect(in("state"), 0, "");
}

Test(trust, each_directory_on_the_way_counts)
{
	mkdir(in("state/inner"), 0700);
	expect(in("state/inner"), 0, "");
	chmod(in("state"), 0777);
	expect(in("state/inner"), BERTH_NO_PATH_PERMISSIONS, "others can write to it");
	chmod(in("state"), 01777);
	expect(in("state/inner"), 0, "");
}

Test(trust, a_link_is_followed_by_the_same_rule)
{
	cr_assert(zero(int, symlink("state", in("relative"))));
	cr_assert(zero(int, symlink(in("state"), in("absolute"))));
	cr_assert(zero(int, symlink("loop", in("loop"))));
	expect(in("relative"), 0, "");
	expect(in("absolute"), 0, "");
	expect(in("loop"), BERTH_FAILED, "Too many levels");
	mkdir(in("open"), 0777);
	chmod(in("open"), 0777);
	cr_assert(zero(int, symlink("../state", in("open/link"))));
	expect(in("open/link"), BERTH_NO_PATH_PERMISSIONS, "others can write to it");
	cr_assert(zero(int, symlink("open/link", in("indirect"))));
	expect(in("indirect"), BERTH_NO_PATH_PERMISSIONS, "others can write to it");
}

Test(trust, a_link_of_a_stranger_in_a_shared_directory_is_not_followed)
{
	rights_needed("users");
	mkdir(in("shared"), 01777);
	chmod(in("shared"), 01777);
	cr_assert(zero(int, symlink("../state", in("shared/link"))));
	expect(in("shared/link"), 0, "");
	cr_assert(zero(int, lchown(in("shared/link"), STRANGER, STRANGER)));
	expect(in("shared/link"), BERTH_NO_PATH_PERMISSIONS, "belongs to user 4711");
}

Test(trust, a_directory_of_a_stranger_is_not_trusted)
{
	rights_needed("users");
	cr_assert(zero(int, chown(in("state"), STRANGER, STRANGER)));
	expect(in("state"), BERTH_NO_PATH_PERMISSIONS, "belongs to user 4711");
}

Test(trust, an_absent_file_cannot_be_followed)
{
	expect(in("state/none/at/all"), BERTH_FAILED, "none: cannot open it: No such file");
	char path[8192];
	memset(path, 'a', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	expect(path, BERTH_FAILED, "too long");
}

Test(trust, a_file_is_trusted_by_its_owner_and_its_mode)
{
	struct err err = ERR_INIT;
	struct stat status = { .st_uid = geteuid(), .st_gid = STRANGER, .st_mode = S_IFREG | 0644 };
	cr_expect(eq(int, trust_check_file(&status, &err), 0));
	status.st_mode = S_IFREG | 0620;
	cr_expect(eq(int, trust_check_file(&status, &err), BERTH_NO_PATH_PERMISSIONS));
	cr_expect(eq(str, err.msg, "others can write to it (mode 0620)"));
	status.st_gid = getegid();
	err_clear(&err);
	cr_expect(eq(int, trust_check_file(&status, &err), 0));
	status.st_uid = STRANGER;
	cr_expect(eq(int, trust_check_file(&status, &err), BERTH_NO_PATH_PERMISSIONS));
}

Test(trust, a_name_may_be_as_long_as_the_kernel_allows)
{
	char name[NAME_MAX + 2];
	memset(name, 'a', sizeof(name) - 1);
	name[NAME_MAX] = '\0';
	cr_assert(zero(int, mkdir(in(name), 0700)));
	expect(in(name), 0, "");
	name[NAME_MAX] = 'a';
	name[NAME_MAX + 1] = '\0';
	expect(in(name), BERTH_FAILED, "too long");
}

/* In a child of this user; its root is the folder, which gets that owner and mode. */
static int check_below_root(const char *path, uid_t owner, mode_t mode, uid_t user)
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		struct err err = ERR_INIT;
		bool ready = chown(folder, owner, owner) == 0 && chmod(folder, mode) == 0 &&
			chroot(folder) == 0 && chdir("/") == 0 && seteuid(user) == 0;
		_exit(ready ? -trust_check_directory(path, &err) : 255);
	}
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_assert(ne(int, WIFEXITED(status), 0));
	return -WEXITSTATUS(status);
}

Test(trust, the_root_counts_as_every_directory)
{
	rights_needed("users");
	const int refused = BERTH_NO_PATH_PERMISSIONS;
	cr_assert(zero(int, chmod(in("state"), 0755)));
	expect(in("state"), 0, "");
	cr_assert(zero(int, chown(in("state"), STRANGER, STRANGER)));
	expect(in("state"), refused, "belongs to user 4711");
	cr_expect(eq(int, check_below_root("/", 0, 0777, 0), refused));
	cr_expect(eq(int, check_below_root("/state", 0, 0777, STRANGER), refused));
	cr_expect(zero(int, check_below_root("/", 0, 0755, 0)));
	cr_expect(zero(int, check_below_root("/state", 0, 0755, STRANGER)));
	cr_expect(eq(int, check_below_root("/state", 0, 0755, 0), refused), "of a stranger");
	/* In a user namespace, who has the root directory is who set the machine up. */
	cr_expect(zero(int, check_below_root("/state", STRANGER, 0755, 0)));
	cr_expect(zero(int, check_below_root("/state", STRANGER, 0755, STRANGER + 1)));
}

Test(trust, a_user_trusts_root_and_himself)
{
	struct err err = ERR_INIT;
	rights_needed("users");
	cr_assert(zero(int, chmod(folder, 0755)));
	cr_assert(zero(int, mkdir(in("own"), 0755)));
	cr_assert(zero(int, mkdir(in("foreign"), 0755)));
	cr_assert(zero(int, chown(in("own"), STRANGER, STRANGER)));
	cr_assert(zero(int, chown(in("foreign"), STRANGER + 1, STRANGER + 1)));
	chmod(in("state"), 0755);
	cr_assert(zero(int, seteuid(STRANGER)));
	expect(in("own"), 0, "");
	expect(in("state"), 0, "");
	expect(in("foreign"), BERTH_NO_PATH_PERMISSIONS,
		"it belongs to user 4712, and not to root or the agent's user 4711");
	cr_assert(zero(int, seteuid(0)));
	expect(in("own"), BERTH_NO_PATH_PERMISSIONS, "it belongs to user 4711, and not to root");
	const struct trust_rule rule = { .user = STRANGER };
	cr_expect(zero(int, trust_check_way(&rule, in("own"), &err)));
	const struct trust_rule nobody = { .user = 0 };
	cr_expect(eq(int, trust_check_way(&nobody, in("own"), &err), BERTH_NO_PATH_PERMISSIONS));
}

Test(trust, links_are_followed_as_often_as_the_kernel_does)
{
	char name[32] = "state";
	for (int i = 1; i <= 41; i++) {
		char next[32];
		snprintf(next, sizeof(next), "link%d", i);
		cr_assert(zero(int, symlink(name, in(next))));
		strcpy(name, next);
		expect(in(name), i <= 40 ? 0 : BERTH_FAILED, i <= 40 ? "" : "Too many levels");
	}
}

Test(trust, a_mount_may_be_read_only)
{
	int ours = open(folder, O_PATH | O_DIRECTORY);
	int of_the_kernel = open("/sys", O_PATH | O_DIRECTORY);
	struct statvfs status;
	cr_assert(zero(int, statvfs("/sys", &status)));
	cr_expect(not(trust_is_read_only(ours)));
	cr_expect(eq(int, trust_is_read_only(of_the_kernel), (status.f_flag & ST_RDONLY) != 0));
	close(ours);
	close(of_the_kernel);
}

/* As there is in most containers. */
Test(trust, a_mount_that_is_read_only_is_known_as_such)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	bool found = false;
	for (struct mntent *mount; !found && (mount = getmntent(mounts));) {
		struct statvfs status;
		int fd = hasmntopt(mount, "ro") ? open(mount->mnt_dir, O_PATH | O_CLOEXEC) : -1;
		if (fd >= 0) {
			found = fstatvfs(fd, &status) == 0 && (status.f_flag & ST_RDONLY);
			cr_expect(not(found && !trust_is_read_only(fd)), "%s", mount->mnt_dir);
			close(fd);
		}
	}
	endmntent(mounts);
}
