/* Directories of several owners, watched by one inotify instance. */
#include "agent/bridge/watches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

static int add_error; /* of inotify_add_watch(); 0: none */

int inotify_add_watch(int fd, const char *name, uint32_t mask)
{
	errno = add_error;
	return add_error ? -1 : (int)syscall(SYS_inotify_add_watch, fd, name, mask);
}

struct owner {
	struct bridge_watch_set set;
	char heard[256]; /* names, each with a blank behind it; "!" for a directory that is gone */
};

struct stage {
	char folder[SCRATCH_PATH];
	struct ev_loop *loop;
	struct bridge_watches *watches;
	int directories[3];
	struct owner owners[2];
	int lost;
	int descriptors;
};

static void on_lost(void *context)
{
	++((struct stage *)context)->lost;
}

static void on_event(void *context, uint32_t mask, const char *name)
{
	struct owner *owner = context;
	size_t len = strlen(owner->heard);
	snprintf(owner->heard + len, sizeof(owner->heard) - len, "%s ",
		mask & IN_IGNORED ? "!" : name);
}

static const char *in(const struct stage *stage, const char *name)
{
	static char path[SCRATCH_PATH + 32];
	snprintf(path, sizeof(path), "%s/%s", stage->folder, name);
	return path;
}

static struct stage *begin(struct stage *stage)
{
	static const char *const names[] = { "a", "b", "c" };
	struct err err = ERR_INIT;
	scratch_folder(stage->folder);
	stage->descriptors = descriptors_count();
	stage->loop = ev_loop_new(EVFLAG_AUTO);
	cr_assert_eq(bridge_watches_create(&stage->watches, stage->loop, on_lost, stage, &err), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(mkdir(in(stage, names[i]), 0700), 0);
		stage->directories[i] = open(in(stage, names[i]), O_RDONLY | O_CLOEXEC);
	}
	for (int i = 0; i < 2; i++) {
		bridge_watch_set_init(&stage->owners[i].set, on_event, &stage->owners[i]);
	}
	return stage;
}

static void end(struct stage *stage)
{
	char command[SCRATCH_PATH + 16];
	for (int i = 0; i < 2; i++) {
		bridge_watch_set_finish(stage->watches, &stage->owners[i].set);
	}
	bridge_watches_destroy(stage->watches);
	bridge_watches_destroy(NULL);
	ev_loop_destroy(stage->loop);
	for (int i = 0; i < 3; i++) {
		close(stage->directories[i]);
	}
	cr_expect_eq(descriptors_count(), stage->descriptors);
	cr_expect_eq(stage->lost, 0);
	snprintf(command, sizeof(command), "rm -rf %s", stage->folder);
	cr_assert_eq(system(command), 0);
}

#define WATCH_TEST(name)                                                                           \
	STAGED_TEST(bridge_watches, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

/* The owner wants these directories, by their numbers, -1 at the end. */
static void want(struct stage *stage, int owner, const int *numbers)
{
	struct bridge_watch_set *set = &stage->owners[owner].set;
	bridge_watch_set_begin(set);
	for (; *numbers >= 0; numbers++) {
		bridge_watch_set_add(stage->watches, set, stage->directories[*numbers]);
	}
	bridge_watch_set_end(stage->watches, set);
}

#define WANT(stage, owner, ...) want(stage, owner, (const int[]){ __VA_ARGS__, -1 })

/* Makes directories with these names, of which the owners hear. */
static void make(struct stage *stage, const char *first, const char *second)
{
	memset(stage->owners[0].heard, 0, sizeof(stage->owners[0].heard));
	memset(stage->owners[1].heard, 0, sizeof(stage->owners[1].heard));
	cr_assert_eq(mkdir(in(stage, first), 0700), 0);
	cr_assert_eq(mkdir(in(stage, second), 0700), 0);
	ev_run(stage->loop, EVRUN_NOWAIT);
}

WATCH_TEST(each_owner_hears_of_its_own_directories)
{
	WANT(stage, 0, 0, 2);
	WANT(stage, 1, 1);
	make(stage, "a/x", "b/y");
	cr_expect_str_eq(stage->owners[0].heard, "x ");
	cr_expect_str_eq(stage->owners[1].heard, "y ");
	make(stage, "a/x2", "c/z");
	cr_expect_str_eq(stage->owners[0].heard, "x2 z ");
	cr_expect_str_eq(stage->owners[1].heard, "");
	cr_expect_not(stage->owners[0].set.incomplete);
}

WATCH_TEST(events_end_where_the_owner_wants_no_more)
{
	WANT(stage, 0, 0, 1, 2);
	WANT(stage, 0, 0, 2);
	make(stage, "b/x", "c/y");
	cr_expect_str_eq(stage->owners[0].heard, "y ");
	bridge_watch_set_finish(stage->watches, &stage->owners[0].set);
	make(stage, "a/x", "c/z");
	cr_expect_str_eq(stage->owners[0].heard, "");
}

WATCH_TEST(a_directory_belongs_to_who_has_named_it_last)
{
	WANT(stage, 0, 0);
	WANT(stage, 1, 0);
	make(stage, "a/x", "b/y");
	cr_expect_str_eq(stage->owners[0].heard, "");
	cr_expect_str_eq(stage->owners[1].heard, "x ");
}

WATCH_TEST(a_directory_that_is_gone_is_told_and_can_be_watched_anew)
{
	WANT(stage, 0, 0, 1);
	close(stage->directories[0]);
	cr_assert_eq(rmdir(in(stage, "a")), 0);
	ev_run(stage->loop, EVRUN_NOWAIT);
	cr_expect(strstr(stage->owners[0].heard, "! "), "%s", stage->owners[0].heard);
	cr_assert_eq(mkdir(in(stage, "a"), 0700), 0);
	stage->directories[0] = open(in(stage, "a"), O_RDONLY | O_CLOEXEC);
	WANT(stage, 0, 0, 1);
	make(stage, "a/x", "b/y");
	cr_expect_str_eq(stage->owners[0].heard, "x y ");
}

WATCH_TEST(a_file_cannot_be_watched)
{
	int file = open(in(stage, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	bridge_watch_set_begin(&stage->owners[0].set);
	bridge_watch_set_add(stage->watches, &stage->owners[0].set, file);
	bridge_watch_set_end(stage->watches, &stage->owners[0].set);
	cr_expect(stage->owners[0].set.incomplete);
	close(file);
	WANT(stage, 0, 0);
	cr_expect_not(stage->owners[0].set.incomplete);
}

/* The lines of a file with this text. */
static int lines_with(FILE *file, const char *text)
{
	char line[512];
	int count = 0;
	while (file && fgets(line, sizeof(line), file)) {
		count += strstr(line, text) != NULL;
	}
	return count;
}

/* Directories that the kernel watches for this process. */
static int watched(void)
{
	int count = 0;
	for (int fd = 0; fd < 100; fd++) {
		char name[64];
		snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
		FILE *file = fopen(name, "re");
		count += lines_with(file, "inotify wd:");
		if (file) {
			fclose(file);
		}
	}
	return count;
}

WATCH_TEST(the_kernel_watches_what_an_owner_wants_and_no_more)
{
	cr_expect_eq(watched(), 0);
	WANT(stage, 0, 0, 1, 2);
	cr_expect_eq(watched(), 3);
	WANT(stage, 0, 1);
	cr_expect_eq(watched(), 1);
	bridge_watch_set_finish(stage->watches, &stage->owners[0].set);
	cr_expect_eq(watched(), 0);
}

WATCH_TEST(a_refused_watch_is_told_once)
{
	static const struct {
		int error;
		const char *text;
		int count;
	} rows[] = { { ENOENT, "cannot watch", 0 },
		{ ENOSPC, " (fs.inotify.max_user_watches); looking once a second instead", 1 },
		{ ENOSPC, "cannot watch", 1 }, { EACCES, "cannot watch", 1 } };
	FILE *log = fdopen(memfd_create("log", MFD_CLOEXEC), "r");
	int kept = dup(STDERR_FILENO);
	dup2(fileno(log), STDERR_FILENO);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		add_error = rows[i].error;
		WANT(stage, 0, 0);
		cr_expect(stage->owners[0].set.incomplete);
		rewind(log);
		cr_expect_eq(lines_with(log, rows[i].text), rows[i].count, "row %zu", i);
		fseek(log, 0, SEEK_END);
	}
	dup2(kept, STDERR_FILENO);
	close(kept);
	fclose(log);
	add_error = 0;
}

WATCH_TEST(other_errors_name_no_limit)
{
	FILE *log = fdopen(memfd_create("log", MFD_CLOEXEC), "r");
	int kept = dup(STDERR_FILENO);
	dup2(fileno(log), STDERR_FILENO);
	add_error = EACCES;
	WANT(stage, 0, 0);
	dup2(kept, STDERR_FILENO);
	close(kept);
	rewind(log);
	cr_expect_eq(lines_with(log, "cannot watch a directory: Permission denied; looking"), 1);
	fclose(log);
	add_error = 0;
}

WATCH_TEST(without_a_descriptor_nothing_is_watched)
{
	struct rlimit limit;
	struct err err = ERR_INIT;
	struct bridge_watches *other = NULL;
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	const struct rlimit none = { 0, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	int code = bridge_watches_create(&other, stage->loop, on_lost, stage, &err);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_expect_eq(code, BERTH_FAILED);
	cr_expect_null(other);
	cr_expect(strstr(err.msg, "cannot use inotify (fs.inotify.max_user_instances): "), "%s",
		err.msg);
}

WATCH_TEST(after_it_was_left_no_event_comes)
{
	WANT(stage, 0, 0);
	bridge_watches_leave(stage->watches);
	make(stage, "a/x", "b/y");
	cr_expect_str_eq(stage->owners[0].heard, "");
}
