#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/directory.h"
#include "tests/support/rights.h"
#include "tests/support/scratch.h"

static char folder[SCRATCH_PATH]; /* in a sticky directory, ours, 0700 */

static char *in(const char *name)
{
	static char path[PATH_MAX + SCRATCH_PATH];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void make_folder(void)
{
	scratch_folder(folder);
}

static void remove_folder(void)
{
	char command[SCRATCH_PATH + 16];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert(zero(int, system(command)));
}

TestSuite(directory, .init = make_folder, .fini = remove_folder);

static void expect(const char *name, mode_t mode, uid_t owner)
{
	struct stat status;
	cr_assert(zero(int, stat(in(name), &status)), "%s", name);
	cr_expect(eq(int, (int)(status.st_mode & 07777), (int)mode), "%s", name);
	cr_expect(eq(int, (int)status.st_uid, (int)owner), "%s", name);
}

Test(directory, missing_parents_are_made_with_a_mode_that_no_umask_changes)
{
	struct err err = ERR_INIT;
	umask(0077);
	cr_assert(zero(int, directory_make(in("a/b/c"), NULL, &err)), "%s", err.msg);
	expect("a", 0755, geteuid());
	expect("a/b/c", 0755, geteuid());
	cr_expect(eq(int, (int)umask(0077), 0077), "the umask is as before");
	cr_assert(zero(int, directory_make(in("a/b"), NULL, &err)), "it is there");
}

Test(directory, the_directory_of_a_file)
{
	struct err err = ERR_INIT;
	cr_assert(zero(int, directory_make_for(in("a.b/c/file"), NULL, &err)), "%s", err.msg);
	expect("a.b/c", 0755, geteuid());
	cr_expect(ne(int, access(in("a.b/c/file"), F_OK), 0));
	cr_expect(zero(int, directory_make_for("/file", NULL, &err)), "the root is there");
	cr_expect(zero(int, directory_make_for("file", NULL, &err)));
	cr_assert(zero(int, chdir(folder)));
	cr_expect(zero(int, directory_make("d", NULL, &err)), "%s", err.msg);
	cr_expect(zero(int, directory_make_for("e/file", NULL, &err)), "%s", err.msg);
	expect("d", 0755, geteuid());
	expect("e", 0755, geteuid());
}

Test(directory, the_last_one_is_given_to_its_owner)
{
	const struct directory_owner owner = { 4711, 4712 };
	struct err err = ERR_INIT;
	struct stat status;
	rights_needed("users");
	cr_assert(zero(int, directory_make(in("a/b"), &owner, &err)), "%s", err.msg);
	expect("a", 0755, 0);
	expect("a/b", 0755, 4711);
	cr_assert(zero(int, stat(in("a/b"), &status)));
	cr_expect(eq(int, (int)status.st_gid, 4712));
}

Test(directory, nothing_is_made_for_another_where_strangers_can_write)
{
	const struct directory_owner owner = { geteuid(), getegid() };
	struct err err = ERR_INIT;
	cr_assert(zero(int, mkdir(in("open"), 0777)));
	cr_assert(zero(int, chmod(in("open"), 0777)));
	cr_expect(eq(int, directory_make(in("open/a"), &owner, &err), BERTH_NO_PATH_PERMISSIONS));
	cr_expect(ne(int, access(in("open/a"), F_OK), 0));
}

Test(directory, an_existing_one_is_good_where_strangers_can_write)
{
	const struct directory_owner owner = { geteuid(), getegid() };
	struct err err = ERR_INIT;
	cr_assert(zero(int, mkdir(in("open"), 0777)));
	cr_assert(zero(int, mkdir(in("open/a"), 0700)));
	cr_assert(zero(int, chmod(in("open"), 0777)));
	cr_expect(zero(int, directory_make(in("open/a"), &owner, &err)), "%s", err.msg);
}
