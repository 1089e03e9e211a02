/* How the dir: backend opens files, and what it makes: flags and modes. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "tests/support/dir_client.h"

static char root[512];
static struct dir_client client;

/* ---- all that is opened ---- */

static bool judging;
static unsigned opened;
static char wrong[256]; /* the first that is opened in a wrong way */

/* A name below the root may be anything: a link, a pipe without a writer, a terminal. */
static const char *what_is_wrong(const char *name, int flags)
{
	bool is_file = !(flags & (O_DIRECTORY | O_PATH));
	if (!(flags & O_CLOEXEC)) {
		return "programs that are started get it";
	}
	if (name[0] == '/' || strcmp(name, ".") == 0) {
		return NULL;
	}
	if (!(flags & O_NOFOLLOW)) {
		return "links are followed";
	}
	if (is_file && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_NONBLOCK)) {
		return "it may block";
	}
	if (is_file && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_NOCTTY)) {
		return "it may become the terminal";
	}
	if (is_file && (flags & O_ACCMODE) == O_WRONLY && !(flags & O_EXCL)) {
		return "it may be there already";
	}
	return NULL;
}

static void judge(const char *name, int flags)
{
	const char *fault = judging ? what_is_wrong(name, flags) : NULL;
	opened += judging;
	if (fault && !*wrong) {
		snprintf(wrong, sizeof(wrong), "%s, opened with 0%o: %s", name, (unsigned)flags,
			fault);
	}
}

int openat(int fd, const char *name, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	judge(name, flags);
	return (int)syscall(SYS_openat, fd, name, flags, mode);
}

int open(const char *name, int flags, ...)
{
	va_list rest;
	va_start(rest, flags);
	mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	judge(name, flags);
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

/* ---- the stage ---- */

static void set_up(void)
{
	umask(0);
	snprintf(root, sizeof(root), "%s", dir_root_make());
	cr_assert_eq(chmod(root, 0775), 0);
	judging = true;
	dir_client_open(&client, root, NULL);
}

static void tear_down(void)
{
	dir_client_close(&client);
	judging = false;
	dir_root_remove(root);
}

TestSuite(dir_files, .init = set_up, .fini = tear_down, .timeout = 120);

static int make(const char *path, const char *data, bool sequential, bool container)
{
	struct registry_task task = { .operation = REGISTRY_OP_CREATE,
		.path = path,
		.data = data,
		.len = data ? strlen(data) : 0,
		.sequential = sequential,
		.container = container };
	int code = dir_client_run(&client, &task);
	dir_task_finish(&task);
	return code;
}

static void make_all(void)
{
	cr_assert_eq(make("/p", "x", false, false), 0);
	cr_assert_eq(make("/c", NULL, false, true), 0);
	cr_assert_eq(make("/Host_1", "x", false, false), 0);
	cr_assert_eq(make("/p/n-", "x", true, false), 0);
	cr_assert_eq(dir_create(&client, "/e", "x", true), 0);
}

Test(dir_files, none_is_for_other_programs_none_blocks_and_no_link_is_followed)
{
	struct registry_stat stat;
	char data[16];
	make_all();
	cr_assert_eq(dir_watch(&client, "/p", REGISTRY_WATCH_DATA), 0);
	cr_assert_eq(dir_watch(&client, "/", REGISTRY_WATCH_CHILDREN), 0);
	cr_assert_eq(dir_get(&client, "/p", data, sizeof(data), &stat), 0);
	cr_assert_eq(dir_get(&client, "/e", data, sizeof(data), &stat), 0);
	cr_assert_eq(dir_set(&client, "/p", "y", NULL), 0);
	cr_assert_eq(dir_set(&client, "/e", "y", NULL), 0);
	cr_assert_eq(dir_stat(&client, "/p", &stat), 0);
	cr_assert_eq(dir_replace(&client, "/e", "z", true, NULL), 0);
	cr_assert_eq(dir_delete(&client, "/e", NULL), 0);
	cr_assert_eq(dir_delete(&client, "/Host_1", NULL), 0);
	cr_assert_eq(dir_delete(&client, "/c", NULL), 0);
	cr_assert_gt(opened, 20);
	cr_expect_str_eq(wrong, "");
}

/* Those that the backend keeps, whatever they are. */
Test(dir_files, no_descriptor_is_for_programs_that_are_started)
{
	cr_assert_eq(dir_create(&client, "/e", "x", true), 0);
	cr_assert_eq(dir_watch(&client, "/e", REGISTRY_WATCH_DATA), 0);
	judging = false;
	DIR *stream = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0;
	while ((entry = readdir(stream)) != NULL) {
		char link[300];
		char target[512] = "";
		snprintf(link, sizeof(link), "/proc/self/fd/%s", entry->d_name);
		if (readlink(link, target, sizeof(target) - 1) > 0 &&
			(strstr(target, root) || strstr(target, "inotify") ||
				strstr(target, "eventpoll"))) {
			cr_expect(fcntl(atoi(entry->d_name), F_GETFD) & FD_CLOEXEC, "%s", target);
			count++;
		}
	}
	closedir(stream);
	cr_expect_geq(count, 4, "the root, an owner's file, and two for events: %d", count);
}

static unsigned mode_of(const char *path)
{
	struct stat stat;
	return lstat(on_disk(path), &stat) == 0 ? stat.st_mode : 0;
}

Test(dir_files, have_the_modes_that_the_umask_leaves)
{
	static const char *const folders[] = { "/p", "/c", "/Host_1", "/e", "/p/n-0000000000" };
	static const char *const files[] = { "/p/_record", "/p/_sequence", "/c/_container",
		"/Host_1/_foreign", "/e/_owner", "/e/_record" };
	make_all();
	for (int changed = 0; changed < 2; changed++) {
		for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
			cr_expect_eq(mode_of(folders[i]), S_IFDIR | 0777, "%s: %o", folders[i],
				mode_of(folders[i]));
		}
		for (size_t i = 0; i < ARRAY_LEN(files); i++) {
			cr_expect_eq(mode_of(files[i]), S_IFREG | 0666, "%s: %o", files[i],
				mode_of(files[i]));
		}
		cr_assert_eq(dir_set(&client, "/p", "y", NULL), 0);
		cr_assert_eq(dir_replace(&client, "/e", "y", true, NULL), 0);
	}
	cr_expect_eq(mode_of("/_tmp"), S_IFDIR | 0770, "%o", mode_of("/_tmp"));
}

Test(dir_files, a_root_that_is_made_is_written_by_its_maker_alone)
{
	char below[600];
	struct dir_client other;
	snprintf(below, sizeof(below), "%s/below", root);
	dir_client_open(&other, below, NULL);
	cr_assert_eq(dir_create(&other, "/p", "x", false), 0);
	dir_client_close(&other);
	cr_expect_eq(mode_of("/below"), S_IFDIR | 0755, "%o", mode_of("/below"));
	cr_expect_eq(mode_of("/below/_tmp"), S_IFDIR | 0700, "%o", mode_of("/below/_tmp"));
	cr_expect_str_eq(wrong, "");
}
