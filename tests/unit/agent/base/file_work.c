/* A file that is put in place: whole, with its owner and mode, or as it was. */
#include "agent/base/file_work.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/file_stage.h"
#include "tests/support/rights.h"
#include "tests/support/scratch.h"

static char folder[SCRATCH_PATH];
static char path[SCRATCH_PATH + 20];
static char temporary[SCRATCH_PATH + 20];

static void make_folder(void)
{
	scratch_folder(folder);
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(temporary, sizeof(temporary), "%s/.file.new", folder);
}

static void remove_folder(void)
{
	unlink(path);
	cr_assert_eq(rmdir(folder), 0, "something is left behind");
}

TestSuite(file_work, .init = make_folder, .fini = remove_folder);

static int try_step(enum file_step step, const char *head, const char *text, struct err *err)
{
	struct file_work work = {
		.step = step,
		.temporary = allocate_text(temporary),
		.path = allocate_text(path),
		.owner = { 0640, geteuid(), getegid() },
		.head = head ? allocate_text(head) : NULL,
		.data = text ? allocate_text(text) : NULL,
		.len = text ? strlen(text) : 0,
	};
	return do_work(&work, err);
}

static void do_step(enum file_step step, const char *text)
{
	struct err err = ERR_INIT;
	cr_assert_eq(try_step(step, NULL, text, &err), 0, "%s", err.msg);
}

static const char *content(const char *name)
{
	static char text[100];
	FILE *file = fopen(name, "r");
	size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[len] = '\0';
	if (file) {
		fclose(file);
	}
	return file ? text : "absent";
}

Test(file_work, a_prepared_file_is_beside_the_place_until_it_is_committed)
{
	do_step(FILE_REPLACE, "old");
	do_step(FILE_PREPARE, "new");
	cr_assert_str_eq(content(path), "old");
	cr_assert_str_eq(content(temporary), "new");
	do_step(FILE_COMMIT, NULL);
	cr_assert_str_eq(content(path), "new");
	cr_assert_str_eq(content(temporary), "absent");
}

Test(file_work, has_the_mode_and_what_is_in_front_of_the_data)
{
	struct stat status;
	struct err err = ERR_INIT;
	cr_assert_eq(try_step(FILE_REPLACE, "head ", "data", &err), 0, "%s", err.msg);
	cr_assert_str_eq(content(path), "head data");
	cr_assert_eq(stat(path, &status), 0);
	cr_assert_eq(status.st_mode & 07777, 0640);
}

Test(file_work, the_new_file_of_a_killed_writer_is_replaced)
{
	do_step(FILE_PREPARE, "half");
	do_step(FILE_REPLACE, "whole");
	cr_assert_str_eq(content(path), "whole");
}

Test(file_work, is_removed_once_and_again)
{
	do_step(FILE_REPLACE, "x");
	do_step(FILE_REMOVE, NULL);
	cr_assert_str_eq(content(path), "absent");
	do_step(FILE_REMOVE, NULL);
}

Test(file_work, that_cannot_be_done_says_why_and_leaves_no_new_file)
{
	struct err err = ERR_INIT;
	cr_assert_eq(mkdir(path, 0700), 0);
	cr_assert_eq(try_step(FILE_REPLACE, NULL, "a", &err), BERTH_FAILED);
	cr_assert_not_null(strstr(err.msg, "in place: Is a directory"), "%s", err.msg);
	cr_assert_str_eq(content(temporary), "absent");
	err_clear(&err);
	cr_assert_eq(try_step(FILE_REMOVE, NULL, NULL, &err), BERTH_FAILED);
	rmdir(path);
	err_clear(&err);
	snprintf(temporary, sizeof(temporary), "%s/no/file", folder);
	cr_assert_eq(try_step(FILE_PREPARE, NULL, "a", &err), BERTH_FAILED);
	cr_assert_not_null(strstr(err.msg, "cannot make "), "%s", err.msg);
	cr_assert_not_null(strstr(err.msg, "No such file"), "%s", err.msg);
}

/* ---- calls that fail ---- */

Test(file_work, a_file_is_given_to_its_owner)
{
	static const struct {
		uid_t user;
		gid_t group;
		unsigned expected_user, expected_group;
	} cases[] = { { 4711, 4712, 4711, 4712 }, { 4711, (gid_t)-1, 4711, 4713 },
		{ (uid_t)-1, 4712, 0, 4712 }, { (uid_t)-1, (gid_t)-1, 0, 4713 }, { 0, 0, 0, 0 },
		{ (uid_t)-1, 0, 0, 0 }, { 0, (gid_t)-1, 0, 4713 } };
	rights_needed("users");
	cr_assert_eq(setegid(4713), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = ERR_INIT;
		struct stat status;
		struct file_work work = {
			.step = FILE_REPLACE,
			.temporary = allocate_text(temporary),
			.path = allocate_text(path),
			.owner = { 0604, cases[i].user, cases[i].group },
			.data = allocate_text("x"),
			.len = 1,
		};
		cr_assert_eq(do_work(&work, &err), 0, "%s", err.msg);
		cr_assert_eq(stat(path, &status), 0);
		cr_expect_eq(status.st_uid, cases[i].expected_user);
		cr_expect_eq(status.st_gid, cases[i].expected_group);
		cr_expect_eq(status.st_mode & 07777, 0604);
	}
}
