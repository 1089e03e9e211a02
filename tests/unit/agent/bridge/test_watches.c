/* Directories of several owners, watched by one inotify instance. */
#include "agent/bridge/watches.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

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

WATCH_TEST(after_it_was_left_no_event_comes)
{
	WANT(stage, 0, 0);
	bridge_watches_leave(stage->watches);
	make(stage, "a/x", "b/y");
	cr_expect_str_eq(stage->owners[0].heard, "");
}
