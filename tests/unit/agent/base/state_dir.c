/* The state directory: one agent at a time, documents that survive it, and what it is without. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/state_dir.h"
#include "tests/support/descriptors.h"
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

Test(state_dir, is_one_agent_s_at_a_time)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert_eq(save(&directory, 7), 0);
	struct state_dir second;
	int before = descriptors_count();
	cr_assert_eq(state_dir_init(&second, path, -1, files, &err), BERTH_FILE_ALREADY_EXISTS);
	cr_assert_eq(descriptors_count(), before, "the lock file is closed");
	cr_assert(strstr(err.msg, "another agent uses"), "%s", err.msg);
	expect_empty(&second);
	state_dir_finish(&directory);
}

/* Each user of a document has a say. */
Test(state_dir, is_in_trouble_until_all_of_it_is_saved)
{
	struct state_dir directory;
	struct err err = ERR_INIT;
	char document[sizeof(path) + 8];
	int other = 1;
	cr_assert_eq(state_dir_init(&directory, path, -1, files, &err), 0, "%s", err.msg);
	cr_assert(state_dir_saved(&directory));
	snprintf(document, sizeof(document), "%s/drain", path);
	cr_assert_eq(mkdir(document, 0700), 0);
	static int code;
	state_dir_save_text_take(&directory, "drain", allocate_text("{}"), 2, on_done, &code);
	(void)file_queue_wait(files, 60000);
	cr_assert_eq(code, BERTH_FAILED);
	cr_assert_not(state_dir_saved(&directory));
	cr_assert_eq(rmdir(document), 0);
	answers = 0;
	state_dir_save_text_take(&directory, "drain", allocate_text("{}"), 2, on_done, &other);
	cr_assert_eq(wait_for(&other), 0);
	cr_assert(state_dir_saved(&directory), "the newest content is there");
	state_dir_finish(&directory);
}
