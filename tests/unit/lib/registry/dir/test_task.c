/* The operations of a dir: backend, each carried out at once, and what they leave on the disk. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/registry/dir/task.h"
#include "tests/support/dir_client.h"
#include "tests/support/failing.h"

static char root[512];
static struct dir_context context;

static void open_context(void)
{
	static const struct registry_core core;
	struct err err = ERR_INIT;
	context = (struct dir_context){ .store.lock_fd = -1 };
	context.store.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_eq(dir_watches_create(&context.watches, root, -1, &core, &err), 0);
}

static void close_context(void)
{
	dir_session_finish(&context.session);
	dir_watches_destroy(context.watches);
	close(context.store.root_fd);
	free(context.swept_path);
}

static void set_up(void)
{
	umask(022);
	snprintf(root, sizeof(root), "%s", dir_root_make());
	open_context();
}

static void tear_down(void)
{
	close_context();
	dir_root_remove(root);
}

TestSuite(dir_task, .init = set_up, .fini = tear_down, .timeout = 120);

static void touch(const char *path)
{
	int fd = open(on_disk(path), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	cr_assert_geq(fd, 0, "%s", path);
	close(fd);
}

static void make_folder(const char *path)
{
	cr_assert_eq(mkdir(on_disk(path), 0755), 0, "%s", path);
}

/* As a process that was killed leaves it. */
static void make_dead(const char *path)
{
	char owner[256];
	snprintf(owner, sizeof(owner), "%s/_owner", path);
	make_folder(path);
	touch(owner);
}

static struct registry_task task_of(
	enum registry_operation operation, const char *path, const char *data)
{
	return (struct registry_task){
		.operation = operation, .path = path, .data = data, .len = data ? strlen(data) : 0
	};
}

/* Carries it out, under the lock when it writes; the code. */
static int run(struct registry_task *task)
{
	if (!dir_task_writes(task)) {
		dir_task_run(&context, task);
	} else if (dir_store_lock(&context.store, &task->ret_err) > 0) {
		dir_task_run(&context, task);
		dir_store_unlock(&context.store);
	}
	return task->ret_err.code;
}

static int run_and_finish(struct registry_task *task)
{
	int code = run(task);
	dir_task_finish(task);
	return code;
}

static int create(const char *path, const char *data, bool ephemeral)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, path, data);
	task.ephemeral = ephemeral;
	return run_and_finish(&task);
}

static int make_container(const char *path)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, path, NULL);
	task.container = true;
	return run_and_finish(&task);
}

static int delete_node(const char *path)
{
	struct registry_task task = task_of(REGISTRY_OP_DELETE, path, NULL);
	return run_and_finish(&task);
}

static struct registry_stat stat_of(const char *path)
{
	struct registry_task task = task_of(REGISTRY_OP_STAT, path, NULL);
	cr_assert_eq(run_and_finish(&task), 0, "%s: %s", path, task.ret_err.msg);
	return task.ret_stat;
}

static const char *data_of(const char *path)
{
	static char data[64];
	struct registry_task task = task_of(REGISTRY_OP_GET, path, NULL);
	int code = run(&task);
	snprintf(data, sizeof(data), "%s", code ? "none" : task.ret_data);
	dir_task_finish(&task);
	return data;
}

Test(dir_task, a_write_that_expects_another_version_or_node_changes_nothing)
{
	cr_assert_eq(create("/a", "one", false), 0);
	struct registry_stat stat = stat_of("/a");
	for (int i = 0; i < 2; i++) {
		struct registry_task task = task_of(REGISTRY_OP_SET, "/a", "two");
		task.has_expected = true;
		task.expected = stat;
		task.expected.version += i == 0;
		task.expected.node_id += i == 1;
		cr_assert_eq(run_and_finish(&task), BERTH_FILE_ALREADY_EXISTS);
		task.operation = REGISTRY_OP_REPLACE;
		err_clear(&task.ret_err);
		cr_assert_eq(run_and_finish(&task), BERTH_FILE_ALREADY_EXISTS);
		task.operation = REGISTRY_OP_DELETE;
		err_clear(&task.ret_err);
		cr_assert_eq(run_and_finish(&task), BERTH_FILE_ALREADY_EXISTS);
	}
	cr_assert_str_eq(data_of("/a"), "one");
	cr_assert_eq(stat_of("/a").version, stat.version);
}

static unsigned mode_of(const char *path)
{
	struct stat stat;
	return lstat(on_disk(path), &stat) == 0 ? stat.st_mode & 07777 : 0;
}

Test(dir_task, top_nodes_are_for_everybody_where_the_root_is)
{
	static const struct {
		mode_t root;
		mode_t top;
	} rows[] = { { 0700, 0755 }, { 0777, 0755 }, { 01755, 0755 }, { 01777, 01777 } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char top[16];
		char below[32];
		snprintf(top, sizeof(top), "/top%zu", i);
		snprintf(below, sizeof(below), "%s/below", top);
		cr_assert_eq(chmod(root, rows[i].root), 0);
		cr_assert_eq(create(top, NULL, false), 0);
		cr_assert_eq(create(below, NULL, false), 0);
		cr_expect_eq(mode_of(top), rows[i].top, "%o: %o", rows[i].root, mode_of(top));
		cr_expect_eq(mode_of(below), 0755);
		snprintf(below, sizeof(below), "/record%zu", i);
		cr_assert_eq(create(below, "x", false), 0);
		cr_expect_eq(mode_of(below), 0755, "a record is its maker's");
		snprintf(below, sizeof(below), "/own%zu", i);
		cr_assert_eq(create(below, NULL, true), 0);
		cr_expect_eq(mode_of(below), 0755, "so is what goes with it");
	}
}

Test(dir_task, a_home_is_given_to_its_user_and_is_not_made_where_it_would_be_of_no_use)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/users", NULL);
	const struct passwd *user = getpwuid(geteuid());
	cr_assert_not_null(user);
	task.home_of = user->pw_name;
	cr_assert_eq(chmod(root, 01775), 0);
	cr_expect_eq(run_and_finish(&task), BERTH_FAILED);
	cr_expect(strstr(task.ret_err.msg, "mode 1777"), "%s", task.ret_err.msg);
	cr_assert_eq(chmod(root, 01777), 0);
	cr_expect(!is_on_disk("/users"));
	task = task_of(REGISTRY_OP_CREATE, "/users", NULL);
	task.home_of = user->pw_name;
	failing_arm("chmod", 1, EPERM);
	int code = run_and_finish(&task);
	cr_expect(failing_disarm());
	cr_expect_eq(code, BERTH_NO_PATH_PERMISSIONS, "it would not be the user's");
	cr_expect(!is_on_disk("/users"));
	task = task_of(REGISTRY_OP_CREATE, "/users", NULL);
	task.home_of = user->pw_name;
	cr_expect_eq(run_and_finish(&task), 0, "%s", task.ret_err.msg);
	cr_expect(is_on_disk("/users"));
}

Test(dir_task, nothing_is_made_below_a_dead_or_an_ephemeral_node)
{
	make_dead("/dead");
	cr_assert_eq(create("/dead/child", "x", false), BERTH_PATH_NOT_FOUND);
	cr_assert(!is_on_disk("/dead/child"));
	cr_assert_eq(create("/alive", "x", true), 0);
	cr_assert_eq(create("/alive/child", "x", false), BERTH_NO_CHILDREN_FOR_EPHEMERALS);
	cr_assert(!is_on_disk("/alive/child"));
	cr_assert_eq(create("/none/child", "x", false), BERTH_PATH_NOT_FOUND);
}

/* True when the disk was asked to keep what the task did. */
static bool is_synced(enum registry_operation operation, const char *path, bool ephemeral)
{
	struct registry_task task = task_of(operation, path, "x");
	task.ephemeral = ephemeral;
	failing_arm("fsync", 1, EIO);
	(void)run_and_finish(&task);
	return failing_disarm();
}

Test(dir_task, the_disk_keeps_what_outlives_a_process_and_nothing_else)
{
	cr_assert_eq(create("/a", "x", false), 0);
	cr_assert_eq(create("/e", "x", true), 0);
	cr_expect(is_synced(REGISTRY_OP_CREATE, "/new", false));
	cr_expect(is_synced(REGISTRY_OP_SET, "/a", false));
	cr_expect(is_synced(REGISTRY_OP_DELETE, "/a", false));
	cr_expect_not(is_synced(REGISTRY_OP_CREATE, "/own", true));
	cr_expect_not(is_synced(REGISTRY_OP_SET, "/e", false));
	cr_expect_not(is_synced(REGISTRY_OP_DELETE, "/e", false));
}

Test(dir_task, a_node_with_children_says_how_many)
{
	cr_assert_eq(create("/a", "x", false), 0);
	cr_assert_eq(create("/a/one", "x", false), 0);
	struct registry_task task = task_of(REGISTRY_OP_DELETE, "/a", NULL);
	cr_assert_eq(run_and_finish(&task), BERTH_PATH_IS_NOT_EMPTY_DIRECTORY);
	cr_assert_str_eq(task.ret_err.msg, "/a has 1 child");
	cr_assert(!task.ret_childless);
	cr_assert_eq(create("/a/two", "x", false), 0);
	task = task_of(REGISTRY_OP_DELETE, "/a", NULL);
	cr_assert_eq(run_and_finish(&task), BERTH_PATH_IS_NOT_EMPTY_DIRECTORY);
	cr_assert_str_eq(task.ret_err.msg, "/a has 2 children");
	task = task_of(REGISTRY_OP_DELETE, "/a", NULL);
	task.all = true;
	cr_assert_eq(run_and_finish(&task), 0);
	cr_assert(!is_on_disk("/a"));
}

Test(dir_task, a_node_that_only_other_files_keep_says_so)
{
	cr_assert_eq(create("/a", "x", false), 0);
	touch("/a/Other");
	struct registry_task task = task_of(REGISTRY_OP_DELETE, "/a", NULL);
	cr_assert_eq(run_and_finish(&task), BERTH_PATH_IS_NOT_EMPTY_DIRECTORY);
	cr_assert(task.ret_childless);
	cr_assert(strstr(task.ret_err.msg, "Other"));
	cr_assert_eq(stat_of("/a").children, 1);
}

Test(dir_task, names_of_the_tree_itself_are_refused)
{
	static const char *const bad[] = { "/_tmp", "/.x", "/a/_record", "/a/.x", "/_a/b" };
	char longest[300] = "/";
	cr_assert_eq(create("/a", "x", false), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct registry_task task = task_of(REGISTRY_OP_GET, bad[i], NULL);
		cr_assert_eq(run_and_finish(&task), BERTH_INVALID_PATHNAME, "%s", bad[i]);
		cr_assert_eq(create(bad[i], "y", false), BERTH_INVALID_PATHNAME, "%s", bad[i]);
	}
	cr_assert_str_eq(data_of("/a"), "x");
	cr_assert_eq(create("/A.b_c", "x", false), 0);
	cr_assert_str_eq(data_of("/A.b_c"), "x");
	memset(longest + 1, 'A', DIR_NAME_BYTES);
	cr_assert_eq(create(longest, "x", false), 0);
	longest[DIR_NAME_BYTES + 1] = 'A';
	cr_assert_eq(create(longest, "x", false), BERTH_INVALID_PATHNAME);
}

/* ---- Numbers, owners, containers ---- */

Test(dir_task, a_numbered_node_has_a_name_only_when_it_is_made)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/n-", "x");
	task.sequential = true;
	cr_assert_eq(run(&task), 0);
	cr_assert_str_eq(task.ret_data, "/n-0000000000");
	cr_assert_eq(task.ret_len, strlen("/n-0000000000"));
	cr_assert_str_eq(task.path, "/n-");
	dir_task_finish(&task);
	cr_assert_str_eq(data_of("/n-0000000000"), "x");
	task = task_of(REGISTRY_OP_CREATE, "/n-", "x");
	task.sequential = true;
	failing_arm("rename", 1, EIO);
	int code = run(&task);
	cr_assert(failing_disarm());
	cr_assert_eq(code, BERTH_REGISTRY_UNAVAILABLE);
	cr_assert_null(task.ret_data);
	cr_assert_str_eq(task.path, "/n-");
	task = task_of(REGISTRY_OP_CREATE, "/n-", "x");
	task.sequential = true;
	cr_assert_eq(run(&task), 0);
	cr_assert_str_eq(task.ret_data, "/n-0000000002", "a number is never given twice");
	dir_task_finish(&task);
}

Test(dir_task, dead_siblings_of_a_new_ephemeral_node_are_removed)
{
	make_dead("/dead");
	make_dead("/other");
	cr_assert_eq(create("/persistent", "x", false), 0);
	cr_assert(is_on_disk("/dead"));
	cr_assert_eq(create("/alive", "x", true), 0);
	cr_assert(!is_on_disk("/dead"));
	cr_assert(!is_on_disk("/other"));
	cr_assert(stat_of("/alive").own);
	make_folder("/a");
	make_dead("/a/dead");
	cr_assert_eq(create("/a/alive", "x", true), 0);
	cr_assert(!is_on_disk("/a/dead"));
	make_folder("/b");
	make_dead("/b/dead");
	cr_assert_eq(create("/b/alive", "x", true), 0);
	cr_assert(!is_on_disk("/b/dead"), "another path of the same length");
}

Test(dir_task, containers_go_with_the_last_child_and_no_others)
{
	cr_assert_eq(create("/top", NULL, false), 0);
	cr_assert_eq(make_container("/top/a"), 0);
	cr_assert_eq(make_container("/top/a/b"), 0);
	cr_assert_eq(create("/top/a/b/one", "x", false), 0);
	cr_assert_eq(create("/top/a/b/two", "x", true), 0);
	cr_assert_eq(delete_node("/top/a/b/one"), 0);
	cr_assert(is_on_disk("/top/a/b"));
	cr_assert_eq(delete_node("/top/a/b/two"), 0);
	cr_assert(!is_on_disk("/top/a"));
	cr_assert(is_on_disk("/top"), "it is not a container");
}

Test(dir_task, a_container_with_a_record_or_with_other_files_stays)
{
	struct registry_task task = task_of(REGISTRY_OP_CREATE, "/a", "record");
	task.container = true;
	cr_assert_eq(run_and_finish(&task), 0);
	cr_assert_eq(create("/a/one", "x", false), 0);
	cr_assert_eq(delete_node("/a/one"), 0);
	cr_assert_str_eq(data_of("/a"), "record");
	cr_assert_eq(make_container("/b"), 0);
	cr_assert_eq(create("/b/one", "x", false), 0);
	touch("/b/Other");
	cr_assert_eq(delete_node("/b/one"), 0);
	cr_assert(is_on_disk("/b/Other"));
}

Test(dir_task, a_container_with_the_longest_path_goes)
{
	char path[LIMIT_PATH_BYTES + 1];
	memset(path, 'A', LIMIT_PATH_BYTES);
	path[LIMIT_PATH_BYTES] = '\0';
	for (size_t at = 0; at + 2 < LIMIT_PATH_BYTES; at += 256) {
		path[at] = '/';
	}
	path[LIMIT_PATH_BYTES - 2] = '\0';
	for (size_t at = 256; at < LIMIT_PATH_BYTES; at += 256) {
		path[at] = '\0';
		cr_assert_eq(create(path, NULL, false), 0, "%zu", at);
		path[at] = '/';
	}
	cr_assert_eq(make_container(path), 0);
	path[LIMIT_PATH_BYTES - 2] = '/';
	cr_assert_eq(create(path, "x", false), 0);
	cr_assert_eq(delete_node(path), 0);
	path[LIMIT_PATH_BYTES - 2] = '\0';
	cr_assert_str_eq(data_of(path), "none");
	path[768] = '\0';
	cr_assert_str_eq(data_of(path), "", "that one is not a container");
}

/* Files that are not Berth's are not deleted, whatever becomes of the nodes around them. */
Test(dir_task, a_file_in_a_dead_child_of_a_container_is_kept)
{
	char pattern[600];
	glob_t found;
	cr_assert_eq(make_container("/a"), 0);
	cr_assert_eq(create("/a/one", "x", false), 0);
	make_dead("/a/dead");
	touch("/a/dead/Precious");
	cr_assert_eq(delete_node("/a/one"), 0);
	cr_assert(!is_on_disk("/a"));
	snprintf(pattern, sizeof(pattern), "%s/_tmp/*/dead/Precious", root);
	cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
	cr_assert_eq(found.gl_pathc, 1);
	globfree(&found);
}

Test(dir_task, a_file_in_a_dead_node_that_is_made_again_is_kept)
{
	char pattern[600];
	glob_t found;
	make_dead("/dead");
	touch("/dead/Precious");
	cr_assert_eq(create("/dead", "x", false), 0);
	cr_assert_str_eq(data_of("/dead"), "x");
	snprintf(pattern, sizeof(pattern), "%s/_tmp/*/Precious", root);
	cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
	cr_assert_eq(found.gl_pathc, 1);
	globfree(&found);
}

Test(dir_task, a_dead_nodes_directory_is_cleared_and_no_other)
{
	cr_assert_eq(make_container("/a"), 0);
	make_dead("/a/dead");
	cr_assert_eq(create("/alive", "x", true), 0);
	cr_assert_eq(create("/stays", "x", false), 0);
	struct err err = ERR_INIT;
	cr_assert_eq(dir_store_lock(&context.store, &err), 1);
	dir_task_clear_dead(&context, "/alive");
	dir_task_clear_dead(&context, "/stays");
	dir_task_clear_dead(&context, "/none/none");
	dir_task_clear_dead(&context, "/a/dead");
	dir_store_unlock(&context.store);
	cr_assert(is_on_disk("/alive"));
	cr_assert(is_on_disk("/stays"));
	cr_assert(!is_on_disk("/a"), "its container goes, too");
}

static bool end_own(
	enum registry_operation operation, const char *path, const struct registry_stat *expected)
{
	struct registry_task task = task_of(operation, path, NULL);
	task.has_expected = expected != NULL;
	task.expected = expected ? *expected : (struct registry_stat){ 0 };
	return dir_task_end_own(&context, &task);
}

Test(dir_task, only_a_delete_of_an_own_expected_node_ends_it_without_a_lock)
{
	cr_assert_eq(create("/stays", "x", false), 0);
	cr_assert(!end_own(REGISTRY_OP_DELETE, "/stays", NULL));
	cr_assert_eq(create("/e", "x", true), 0);
	struct registry_stat stat = stat_of("/e");
	struct registry_stat other = stat;
	other.version++;
	cr_assert(!end_own(REGISTRY_OP_REPLACE, "/e", NULL));
	cr_assert(!end_own(REGISTRY_OP_DELETE, "/stays", NULL));
	cr_assert(!end_own(REGISTRY_OP_DELETE, "/e", &other));
	other = stat;
	other.node_id++;
	cr_assert(!end_own(REGISTRY_OP_DELETE, "/e", &other));
	cr_assert(stat_of("/e").own);
	cr_assert(end_own(REGISTRY_OP_DELETE, "/e", &stat));
	cr_assert_eq(context.session.count, 0);
	cr_assert_str_eq(data_of("/e"), "none");
	cr_assert_eq(create("/f", "x", true), 0);
	cr_assert(end_own(REGISTRY_OP_DELETE, "/f", NULL));
}

/* ---- Watches ---- */

/* How many directories the kernel watches for us. */
static int kernel_watches(void)
{
	char path[64], line[256];
	int count = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", dir_watches_fd(context.watches));
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		count += strncmp(line, "inotify wd:", 11) == 0;
	}
	if (file) {
		fclose(file);
	}
	return count;
}

static int list_watched(const char *path, size_t *ret_count)
{
	struct registry_task task = task_of(REGISTRY_OP_CHILDREN, path, NULL);
	task.watch = true;
	int code = run(&task);
	*ret_count = task.ret_children_count;
	dir_task_finish(&task);
	return code;
}

/* The root, the node, and each living ephemeral child. */
Test(dir_task, a_watched_list_watches_the_life_of_its_members)
{
	size_t count;
	make_folder("/a");
	make_dead("/a/dead");
	cr_assert_eq(create("/a/one", "x", true), 0);
	cr_assert_eq(create("/a/two", "x", true), 0);
	cr_assert_eq(create("/a/other", "x", false), 0);
	cr_assert_eq(list_watched("/a", &count), 0);
	cr_assert_eq(count, 3);
	cr_assert_eq(kernel_watches(), 4);
	cr_assert_eq(unlink(on_disk("/a/one/_owner")), 0);
	cr_assert_eq(list_watched("/a", &count), 0);
	cr_assert_eq(count, 3);
	cr_assert_eq(kernel_watches(), 3, "the one is persistent now");
}
