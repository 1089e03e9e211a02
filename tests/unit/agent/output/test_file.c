/* The file of an output: whole, with its owner and mode, or as it was. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/output/file.h"
#include "lib/base/array.h"
#include "tests/support/file_stage.h"
#include "tests/support/scratch.h"

static char folder[SCRATCH_PATH];
static char path[SCRATCH_PATH + 20];

static void make_folder(void)
{
	scratch_folder(folder);
	snprintf(path, sizeof(path), "%s/file", folder);
}

static void remove_folder(void)
{
	unlink(path);
	cr_assert_eq(rmdir(folder), 0, "something is left behind");
}

TestSuite(output_file, .init = make_folder, .fini = remove_folder);

static const struct file_owner any = { 0644, (uid_t)-1, (gid_t)-1 };

static void write_as(const char *text, const struct file_owner *owner)
{
	struct err err = ERR_INIT;
	struct file_work work = {
		.step = FILE_REPLACE,
		.temporary = output_file_temporary(path, ""),
		.path = allocate_text(path),
		.owner = *owner,
		.data = allocate_text(text),
		.len = strlen(text),
	};
	cr_assert_eq(do_work(&work, &err), 0, "%s", err.msg);
}

static mode_t mode_of(const char *file)
{
	struct stat status;
	cr_assert_eq(stat(file, &status), 0);
	return status.st_mode & 07777;
}

Test(output_file, is_equal_with_just_that_content_and_owner)
{
	cr_assert_not(output_file_equals(path, "abc", 3, &any));
	write_as("abc", &any);
	cr_assert(output_file_equals(path, "abc", 3, &any));
	cr_assert_not(output_file_equals(path, "abd", 3, &any));
	cr_assert_not(output_file_equals(path, "ab", 2, &any));
	cr_assert_not(output_file_equals(path, "abcd", 4, &any));
	cr_assert_not(output_file_equals(
		path, "abc", 3, &(struct file_owner){ 0600, (uid_t)-1, (gid_t)-1 }));
	write_as("", &any);
	cr_assert(output_file_equals(path, "", 0, &any));
}

Test(output_file, belongs_to_whom_it_should)
{
	write_as("abc", &any);
	static const struct {
		int user; /* more than one's own; -1: any */
		int group;
		bool is_equal;
	} owners[] = { { -1, -1, true }, { 0, 0, true }, { -1, 0, true }, { 0, -1, true },
		{ 1, 0, false }, { 0, 1, false }, { 1, -1, false }, { -1, 1, false } };
	for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
		const struct file_owner owner = { 0644,
			owners[i].user < 0 ? (uid_t)-1 : geteuid() + (uid_t)owners[i].user,
			owners[i].group < 0 ? (gid_t)-1 : getegid() + (gid_t)owners[i].group };
		cr_expect_eq(output_file_equals(path, "abc", 3, &owner), owners[i].is_equal,
			"user %d, group %d", owners[i].user, owners[i].group);
	}
}

Test(output_file, takes_of_the_one_that_is_there_what_is_not_given)
{
	write_as("abc", &(struct file_owner){ 0600, (uid_t)-1, (gid_t)-1 });
	struct file_owner owner = output_file_owner(path, 0, (uid_t)-1, (gid_t)-1);
	cr_expect(owner.mode == 0600 && owner.user == geteuid() && owner.group == getegid());
	owner = output_file_owner(path, 0640, 12345, (gid_t)-1);
	cr_expect(owner.mode == 0640 && owner.user == 12345 && owner.group == getegid());
	owner = output_file_owner(path, 0640, (uid_t)-1, 12345);
	cr_expect(owner.user == geteuid() && owner.group == 12345);
	owner = output_file_owner(folder, 0, (uid_t)-1, (gid_t)-1); /* it is not a file */
	cr_expect(owner.mode == 0644 && owner.user == (uid_t)-1 && owner.group == (gid_t)-1);
}

Test(output_file, keeps_mode_and_owner_of_the_one_that_is_there)
{
	struct file_owner owner = output_file_owner(path, 0, (uid_t)-1, (gid_t)-1);
	cr_assert_eq(owner.mode, 0644);
	cr_assert_eq(owner.user, (uid_t)-1);
	write_as("a", &owner);
	cr_assert_eq(mode_of(path), 0644);
	cr_assert_eq(chmod(path, 0604), 0);
	owner = output_file_owner(path, 0, (uid_t)-1, (gid_t)-1);
	cr_assert_eq(owner.user, geteuid());
	write_as("b", &owner);
	cr_assert_eq(mode_of(path), 0604);
	owner = output_file_owner(path, 0640, (uid_t)-1, (gid_t)-1);
	write_as("c", &owner);
	cr_assert_eq(mode_of(path), 0640);
}

Test(output_file, takes_the_place_of_a_symbolic_link_and_leaves_its_target)
{
	char target[SCRATCH_PATH + 20];
	snprintf(target, sizeof(target), "%s/target", folder);
	FILE *stream = fopen(target, "we");
	fputs("abc", stream);
	fclose(stream);
	cr_assert_eq(symlink(target, path), 0);
	cr_assert_not(output_file_equals(path, "abc", 3, &any));
	write_as("new", &any);
	cr_assert(output_file_equals(path, "new", 3, &any));
	cr_assert(output_file_equals(
		target, "abc", 3, &(struct file_owner){ mode_of(target), (uid_t)-1, (gid_t)-1 }));
	unlink(target);
}

Test(output_file, takes_no_set_user_id_from_the_target_of_a_link)
{
	char target[SCRATCH_PATH + 20];
	snprintf(target, sizeof(target), "%s/target", folder);
	fclose(fopen(target, "we"));
	cr_assert_eq(chmod(target, 06755), 0);
	cr_assert_eq(symlink(target, path), 0);
	struct file_owner owner = output_file_owner(path, 0, (uid_t)-1, (gid_t)-1);
	cr_expect_eq(owner.mode, 0755);
	unlink(target);
}
