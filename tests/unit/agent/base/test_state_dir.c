/* The state directory: one agent at a time, documents that survive it, and what it is without. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/state_dir.h"
#include "lib/base/array.h"
#include "tests/support/descriptors.h"
#include "tests/support/failing.h"
#include "tests/support/file_stage.h"
#include "tests/support/scratch.h"

static char folder[SCRATCH_PATH];
static char path[SCRATCH_PATH + 20];
static struct file_queue *files;

static void make_folder(void)
{
	files = file_queue_create(ev_default_loop(0));
	scratch_folder(folder);
	snprintf(path, sizeof(path), "%s/state", folder);
}

static void remove_folder(void)
{
	char command[SCRATCH_PATH + 16];
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
	file_queue_destroy(files);
}

TestSuite(state_dir, .init = make_folder, .fini = remove_folder);

static int answers;

static void on_done(void *context, const struct err *err)
{
	answers++;
	*(int *)context = err->code;
}

static int wait_for(const int *code)
{
	cr_assert(file_queue_wait(files, 60000));
	cr_expect_eq(answers, 1, "once");
	answers = 0;
	return *code;
}

static int save(struct state_dir *directory, int number)
{
	static int code;
	code = 1;
	json_t *document = json_pack("{s:i}", "number", number);
	state_dir_save(directory, "drain", document, on_done, &code);
	json_decref(document);
	return wait_for(&code);
}

static int save_passing(struct state_dir *directory, int number)
{
	static int code;
	code = 1;
	json_t *document = json_pack("{s:i}", "number", number);
	state_dir_save_passing(directory, "drain", document, on_done, &code);
	json_decref(document);
	return wait_for(&code);
}

static int erase(struct state_dir *directory)
{
	static int code;
	code = 1;
	state_dir_remove(directory, "drain", on_done, &code);
	return wait_for(&code);
}

/* The number that was saved; 0: no document, -1: not to be read. */
static int load(const struct state_dir *directory)
{
	struct err err = ERR_INIT;
	json_t *document = state_dir_load(directory, "drain", &err);
	int number = (int)json_integer_value(json_object_get(document, "number"));
	json_decref(document);
	return err.code ? -1 : number;
}

Test(state_dir, keeps_documents_until_they_are_removed)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert(state_dir_usable(&directory));
	cr_assert_eq(load(&directory), 0);
	cr_assert_eq(save(&directory, 7), 0);
	state_dir_finish(&directory);
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert_eq(load(&directory), 7);
	cr_assert_eq(save_passing(&directory, 8), 0);
	cr_assert_eq(load(&directory), 8);
	cr_assert_eq(erase(&directory), 0);
	cr_assert_eq(load(&directory), 0);
	cr_assert_eq(erase(&directory), 0);
	state_dir_finish(&directory);
	state_dir_finish(&directory);
}

Test(state_dir, a_lock_passes_to_a_successor_of_the_same_process)
{
	struct state_dir directory;
	struct state_dir successor;
	struct err err = ERR_INIT;
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert_eq(state_dir_init(&successor, path, dup(directory.lock_fd), files, &err), 0);
	cr_assert(state_dir_usable(&successor));
	state_dir_finish(&directory);
	cr_assert_eq(save(&successor, 1), 0);
	state_dir_finish(&successor);
}

Test(state_dir, a_document_that_is_no_json_is_damaged)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert_eq(state_file_write(path, "drain", "drain", "{", 1, &err), 0, "%s", err.msg);
	cr_assert_eq(load(&directory), -1);
	state_dir_finish(&directory);
}

static void expect_empty(struct state_dir *directory)
{
	cr_assert_not(state_dir_usable(directory));
	cr_assert_eq(load(directory), 0);
	cr_assert_eq(save(directory, 1), BERTH_FAILED);
	cr_assert_eq(erase(directory), BERTH_FAILED);
	state_dir_finish(directory);
}

Test(state_dir, one_that_strangers_may_write_is_an_empty_one)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	cr_assert_eq(mkdir(path, 0777), 0);
	cr_assert_eq(chmod(path, 0777), 0);
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), BERTH_FAILED);
	cr_assert(strstr(err.msg, "is not trusted"), "%s", err.msg);
	expect_empty(&directory);
	err_clear(&err);
	int lock_fd = dup(0);
	cr_assert_eq(state_dir_init(&directory, path, lock_fd, files, &err), BERTH_FAILED);
	cr_assert_lt(fcntl(lock_fd, F_GETFD), 0, "it is closed");
	expect_empty(&directory);
}

Test(state_dir, without_a_step_it_is_an_empty_one)
{
	static const struct {
		const char *kind;
		int error;
	} calls[] = { { "mkdir", ENOSPC }, { "open", EACCES }, { "stat", EIO },
		{ "lock", ENOLCK } };
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		struct state_dir directory;
		struct err err = ERR_INIT;
		failing_arm(calls[i].kind, 1, calls[i].error);
		cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), BERTH_FAILED);
		cr_assert(failing_disarm(), "%s", calls[i].kind);
		cr_expect_not_null(strstr(err.msg, strerror(calls[i].error)), "%s", err.msg);
		expect_empty(&directory);
		rmdir(path);
	}
}

Test(state_dir, waits_for_a_predecessor_that_is_about_to_end)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	failing_arm("lock", 1, EWOULDBLOCK);
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert(failing_disarm());
	cr_assert_eq(save(&directory, 7), 0);
	/* A process has it once. */
	struct state_dir second;
	int before = descriptors_count();
	failing_arm("poll", 1, EINTR);
	cr_assert_eq(state_dir_init(&second, path, -1, files, &err), BERTH_FILE_ALREADY_EXISTS);
	cr_assert(failing_disarm(), "it pauses between its tries");
	cr_assert_eq(descriptors_count(), before, "the lock file is closed");
	cr_assert(strstr(err.msg, "another agent uses"), "%s", err.msg);
	expect_empty(&second);
	state_dir_finish(&directory);
}

Test(state_dir, a_document_lasts_unless_it_is_passing)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	failing_arm("fsync", 1, EIO); /* of the child */
	cr_expect_eq(save_passing(&directory, 8), 0);
	cr_expect_not(failing_disarm());
	failing_arm("fsync", 1, EIO);
	cr_expect_eq(save(&directory, 9), BERTH_FAILED);
	cr_expect(failing_disarm());
	cr_expect_eq(load(&directory), 8);
	state_dir_finish(&directory);
}

Test(state_dir, its_lock_is_of_its_owner_alone)
{
	struct state_dir directory;
	struct stat status;
	char lock[sizeof(path) + 8];
	struct err err = ERR_INIT;
	umask(0);
	int before = descriptors_count();
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	snprintf(lock, sizeof(lock), "%s/lock", path);
	cr_assert_eq(stat(lock, &status), 0);
	cr_expect_eq(status.st_mode & 07777, 0600);
	cr_expect_eq(fcntl(directory.lock_fd, F_GETFD), FD_CLOEXEC);
	cr_expect_eq(descriptors_count(), before + 1);
	state_dir_finish(&directory);
	cr_expect_eq(descriptors_count(), before);
	char other[sizeof(path) + 8];
	snprintf(other, sizeof(other), "%s/other", path);
	cr_assert_eq(rename(lock, other), 0);
	cr_assert_eq(symlink(other, lock), 0);
	cr_expect_eq(state_dir_init(&directory, path, -1, files, &err), BERTH_FAILED);
	expect_empty(&directory);
}

/* The lock file is opened behind the elements of the path: this fails, once. */
static void fail_to_open_the_lock(int error)
{
	uint64_t elements = 1;
	for (const char *c = path; *c; c++) {
		elements += *c == '/';
	}
	failing_arm("open", elements + 1, error);
}

Test(state_dir, whose_lock_cannot_be_opened_is_an_empty_one)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	fail_to_open_the_lock(EMFILE);
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), BERTH_FAILED);
	cr_assert(failing_disarm());
	cr_assert(strstr(err.msg, "cannot lock the state directory: /"), "%s", err.msg);
	cr_assert(strstr(err.msg, "/lock: Too many open files"), "%s", err.msg);
	expect_empty(&directory);
}

Test(state_dir, may_be_read_only)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert_eq(save(&directory, 7), 0);
	state_dir_finish(&directory);
	fail_to_open_the_lock(EROFS);
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert(failing_disarm());
	cr_assert_eq(load(&directory), 7);
	cr_expect_eq(fcntl(directory.lock_fd, F_GETFD), FD_CLOEXEC);
	state_dir_finish(&directory);
	char lock[sizeof(path) + 8];
	char other[sizeof(path) + 8];
	snprintf(lock, sizeof(lock), "%s/lock", path);
	snprintf(other, sizeof(other), "%s/other", path);
	cr_assert_eq(rename(lock, other), 0);
	cr_assert_eq(symlink(other, lock), 0);
	fail_to_open_the_lock(EROFS);
	cr_expect_eq(state_dir_init(&directory, path, -1, files, &err), BERTH_FAILED);
	cr_assert(failing_disarm());
	expect_empty(&directory);
}
