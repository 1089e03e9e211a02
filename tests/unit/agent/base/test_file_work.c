/* A file that is put in place: whole, with its owner and mode, or as it was. */
#include "agent/base/file_work.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/failing.h"
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

/* Not by the calls that fail on purpose. */
static const char *content(const char *name)
{
	static char text[100];
	long fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY);
	if (fd < 0) {
		return "absent";
	}
	long len = syscall(SYS_read, fd, text, sizeof(text) - 1);
	syscall(SYS_close, fd);
	text[len > 0 ? len : 0] = '\0';
	return text;
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

Test(file_work, a_folder_that_cannot_be_saved_is_no_failure)
{
	static const int errors[] = { EACCES, EINVAL };
	do_step(FILE_REPLACE, "old");
	for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
		struct err err = ERR_INIT;
		failing_arm("open", 2, errors[i]); /* behind the file itself */
		int code = try_step(FILE_REPLACE, NULL, "new", &err);
		cr_assert(failing_disarm());
		cr_assert_eq(code, 0, "%s", err.msg);
	}
	cr_assert_str_eq(content(path), "new");
}

/* ---- calls that fail ---- */

static int replace(void *context)
{
	struct err err = ERR_INIT;
	int code = try_step(FILE_REPLACE, "the ", context, &err);
	bool right = strcmp(content(path), "the new") == 0;
	cr_assert_str_eq(content(temporary), "absent");
	return code ? code : right ? 0 : FAILING_WRONG;
}

Test(file_work, a_call_that_fails_is_reported_and_leaves_a_whole_file)
{
	static const struct {
		const char *kind;
		int error;
	} calls[] = { { "open", EMFILE }, { "write", ENOSPC }, { "write", EINTR }, { "write", 0 },
		{ "fsync", EIO }, { "close", EIO }, { "stat", EIO }, { "chmod", EPERM },
		{ "rename", EIO } };
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		failing_check("file", calls[i].kind, calls[i].error, replace, "new");
		cr_assert_str_eq(content(path), "the new");
	}
}

Test(file_work, that_is_passing_waits_for_no_disk)
{
	struct err err = ERR_INIT;
	struct file_work work = {
		.step = FILE_REPLACE,
		.temporary = allocate_text(temporary),
		.path = allocate_text(path),
		.owner = { 0640, geteuid(), getegid() },
		.data = allocate_text("new"),
		.len = 3,
		.passing = true,
	};
	failing_arm("fsync", 1, EIO);
	cr_assert_eq(do_work(&work, &err), 0, "%s", err.msg);
	cr_assert(!failing_disarm());
	cr_assert_str_eq(content(path), "new");
	cr_assert_str_eq(content(temporary), "absent");
}

Test(file_work, a_step_that_fails_says_which_one_and_changes_nothing)
{
	static const struct {
		const char *kind;
		int error;
		const char *says;
		enum file_step step;
	} calls[] = { { "open", EMFILE, "cannot make /", FILE_PREPARE },
		{ "write", ENOSPC, "cannot write /", FILE_PREPARE },
		{ "stat", EIO, "cannot set owner and mode of /", FILE_PREPARE },
		{ "chmod", EPERM, "cannot set owner and mode of /", FILE_PREPARE },
		{ "fsync", EIO, "cannot save /", FILE_PREPARE },
		{ "close", EIO, "cannot write /", FILE_PREPARE },
		{ "rename", EIO, "cannot put /", FILE_REPLACE } };
	do_step(FILE_REPLACE, "old");
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		for (enum file_step step = calls[i].step; step <= FILE_REPLACE; step++) {
			struct err err = ERR_INIT;
			if (step == FILE_COMMIT) {
				continue;
			}
			failing_arm(calls[i].kind, 1, calls[i].error);
			int code = try_step(step, "the ", "new", &err);
			cr_assert(failing_disarm());
			cr_expect_eq(code, BERTH_FAILED, "%s", calls[i].kind);
			cr_expect(strstr(err.msg, calls[i].says) == err.msg, "%s", err.msg);
			cr_expect(strstr(err.msg, strerror(calls[i].error)), "%s", err.msg);
			cr_expect_str_eq(content(path), "old");
			cr_expect_str_eq(content(temporary), "absent");
		}
	}
}

/* The owner is set before the mode, and only if it is another. */
Test(file_work, an_owner_that_is_right_is_not_set)
{
	const struct {
		struct file_owner owner;
		bool same;
	} cases[] = { { { 0640, (uid_t)-1, (gid_t)-1 }, true },
		{ { 0640, geteuid(), getegid() }, true }, { { 0640, geteuid(), (gid_t)-1 }, true },
		{ { 0640, (uid_t)-1, getegid() }, true }, { { 0640, 4711, (gid_t)-1 }, false },
		{ { 0640, (uid_t)-1, 4711 }, false }, { { 0640, geteuid(), 4711 }, false } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (uint64_t call = 1; call <= 2; call++) {
			struct err err = ERR_INIT;
			struct file_work work = {
				.step = FILE_REPLACE,
				.temporary = allocate_text(temporary),
				.path = allocate_text(path),
				.owner = cases[i].owner,
				.data = allocate_text("x"),
				.len = 1,
			};
			failing_arm("chmod", call, EPERM);
			bool failed = do_work(&work, &err) != 0;
			(void)failing_disarm();
			cr_expect_eq(failed, call == 1 || !cases[i].same, "%zu, %d", i, (int)call);
			unlink(path);
		}
	}
}

Test(file_work, a_link_in_the_place_of_the_new_file_is_not_followed)
{
	struct err err = ERR_INIT;
	do_step(FILE_REPLACE, "old");
	cr_assert_eq(symlink("file", temporary), 0);
	failing_arm("unlink", 1, EPERM);
	cr_expect_eq(try_step(FILE_PREPARE, NULL, "new", &err), BERTH_FAILED);
	cr_assert(failing_disarm());
	cr_expect_str_eq(content(path), "old");
	unlink(temporary);
}

Test(file_work, the_root_is_a_folder_too)
{
	struct err err = ERR_INIT;
	snprintf(path, sizeof(path), "/no-file-of-berth");
	cr_expect_eq(try_step(FILE_REMOVE, NULL, NULL, &err), 0, "%s", err.msg);
}

Test(file_work, a_passing_file_is_committed_in_a_step_of_its_own)
{
	for (enum file_step step = FILE_PREPARE; step <= FILE_COMMIT; step++) {
		struct err err = ERR_INIT;
		struct file_work work = {
			.step = step,
			.temporary = allocate_text(temporary),
			.path = allocate_text(path),
			.owner = { 0640, (uid_t)-1, (gid_t)-1 },
			.data = allocate_text("new"),
			.len = 3,
			.passing = true,
		};
		cr_expect_eq(do_work(&work, &err), 0, "%s", err.msg);
	}
	cr_expect_str_eq(content(path), "new");
}

static int write_and_remove(void *context)
{
	(void)context;
	struct err err = ERR_INIT;
	int code = try_step(FILE_REPLACE, NULL, "x", &err);
	return code ? code : try_step(FILE_REMOVE, NULL, NULL, &err);
}

Test(file_work, a_removal_that_fails_is_reported)
{
	failing_check("file", "open", EMFILE, write_and_remove, NULL);
	failing_check("file", "fsync", EIO, write_and_remove, NULL);
}

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
