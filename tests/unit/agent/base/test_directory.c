#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

Test(directory, an_existing_one_stays_as_it_is)
{
	struct err err = ERR_INIT;
	const struct directory_owner owner = { geteuid(), getegid() };
	cr_assert(zero(int, mkdir(in("a"), 0700)));
	cr_assert(zero(int, directory_make(in("a"), NULL, &err)));
	cr_assert(zero(int, directory_make(in("a"), &owner, &err)), "%s", err.msg);
	expect("a", 0700, geteuid());
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

Test(directory, an_error_names_the_element_that_could_not_be_made)
{
	char text[PATH_MAX + 64];
	struct err err = ERR_INIT;
	FILE *file = fopen(in("file"), "w");
	fclose(file);
	cr_expect(eq(int, directory_make(in("file/b/c"), NULL, &err), err.code));
	snprintf(text, sizeof(text), "cannot make the directory %s: Not a directory", in("file/b"));
	cr_expect(eq(str, err.msg, text));
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

/* In a child, as another user, who may not give its files away. */
static int make_as_another(const struct directory_owner *owner, struct err *ret_err)
{
	int ends[2];
	int status = 0;
	cr_assert(zero(int, pipe(ends)));
	pid_t child = fork();
	if (child == 0) {
		struct err err = ERR_INIT;
		bool ready = setegid(4712) == 0 && seteuid(4711) == 0;
		int code = ready ? directory_make(in("a"), owner, &err) : 0;
		bool told = write(ends[1], &err, sizeof(err)) == (ssize_t)sizeof(err);
		_exit(ready && told && code == err.code ? 0 : 1);
	}
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_assert(zero(int, status));
	cr_assert(eq(int, (int)read(ends[0], ret_err, sizeof(*ret_err)), (int)sizeof(*ret_err)));
	close(ends[0]);
	close(ends[1]);
	return ret_err->code;
}

Test(directory, one_that_its_owner_cannot_get_is_an_error)
{
	const struct directory_owner another = { 4713, 4712 };
	const struct directory_owner same = { 4711, 4712 };
	char text[PATH_MAX + 64];
	struct err err = ERR_INIT;
	rights_needed("users");
	cr_assert(zero(int, chown(folder, 4711, 4712)));
	cr_expect(eq(int, make_as_another(&another, &err), BERTH_FAILED));
	snprintf(text, sizeof(text), "cannot give %s to user 4713: Operation not permitted",
		in("a"));
	cr_expect(eq(str, err.msg, text));
	cr_assert(zero(int, rmdir(in("a"))));
	cr_expect(zero(int, make_as_another(&same, &err)), "%s", err.msg);
	expect("a", 0755, 4711);
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

Test(directory, for_another_the_path_has_to_be_absolute_and_of_a_length)
{
	const struct directory_owner owner = { geteuid(), getegid() };
	struct err err = ERR_INIT;
	char path[PATH_MAX + 1];
	cr_expect(eq(int, directory_make("no-such-place", &owner, &err), BERTH_FAILED));
	cr_expect(eq(str, err.msg, "no-such-place is not an absolute path"));
	memset(path, 'a', PATH_MAX);
	path[0] = '/';
	path[PATH_MAX] = '\0';
	err = (struct err)ERR_INIT;
	cr_expect(eq(int, directory_make(path, &owner, &err), BERTH_FAILED));
	cr_expect(eq(int, err.msg[0], '/'), "it is not tried: %s", err.msg);
}

Test(directory, an_empty_path_is_nothing_to_make)
{
	const struct directory_owner owner = { geteuid(), getegid() };
	struct err err = ERR_INIT;
	char *empty = strdup("");
	cr_expect(zero(int, directory_make(empty, NULL, &err)), "%s", err.msg);
	cr_expect(zero(int, directory_make(empty, &owner, &err)), "%s", err.msg);
	cr_expect(zero(int, directory_make_for("/", &owner, &err)), "%s", err.msg);
	free(empty);
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

/* In a child, whose root is the folder and stays so. */
static int make_below_root(const char *path, mode_t mode_of_root)
{
	const struct directory_owner owner = { geteuid(), getegid() };
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		struct err err = ERR_INIT;
		bool ready = chmod(folder, mode_of_root) == 0 && chroot(folder) == 0 &&
			chdir("/") == 0;
		_exit(ready ? directory_make(path, &owner, &err) != 0 : 2);
	}
	cr_assert(eq(int, waitpid(child, &status, 0), child));
	cr_assert(ne(int, WIFEXITED(status), 0));
	return WEXITSTATUS(status);
}

Test(directory, the_root_counts_too_when_a_directory_is_made_in_it)
{
	const struct directory_owner owner = { geteuid(), getegid() };
	struct err err = ERR_INIT;
	rights_needed("users");
	cr_expect(zero(int, directory_make(in("first"), &owner, &err)), "%s", err.msg);
	cr_expect(zero(int, make_below_root("/good", 0755)));
	expect("good", 0755, geteuid());
	cr_expect(eq(int, make_below_root("/bad", 0777), 1));
	cr_expect(ne(int, access(in("bad"), F_OK), 0));
}
