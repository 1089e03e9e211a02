/* A descriptor that is closed by a child: who has copies of it, and until when. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/late_close.h"
#include "tests/support/descriptors.h"

static bool no_process;
static pid_t child;
static int watched = -1; /* by close() */
static char state;       /* of the child when the caller closes `watched`, as in proc_pid_stat(5) */
static int copies;       /* of descriptors, in the child at that time */

pid_t fork(void)
{
	if (no_process) {
		errno = EAGAIN;
		return -1;
	}
	child = _Fork();
	return child;
}

static char state_of(pid_t pid)
{
	char path[64];
	char text[512] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int file = open(path, O_RDONLY);
	(void)!read(file, text, sizeof(text) - 1);
	syscall(SYS_close, file);
	char *name_end = strrchr(text, ')');
	return name_end ? name_end[2] : '\0';
}

static int count_descriptors(pid_t pid)
{
	char path[64];
	int count = -2; /* "." and ".." */
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *folder = opendir(path);
	while (folder && readdir(folder)) {
		count++;
	}
	if (folder) {
		closedir(folder);
	}
	return count;
}

int close(int fd)
{
	if (fd == watched && child > 0) {
		watched = -1;
		while ((state = state_of(child)) == 'R' || state == 'D') {
			sched_yield();
		}
		copies = count_descriptors(child);
	}
	return (int)syscall(SYS_close, fd);
}

static int open_inotify(void)
{
	int fd = inotify_init1(IN_CLOEXEC);
	cr_assert_geq(inotify_add_watch(fd, "/", IN_CREATE), 0);
	return fd;
}

Test(late_close, a_child_has_a_copy_until_the_caller_has_none)
{
	int status;
	int before = descriptors_count();
	watched = open_inotify();
	late_close(watched);
	cr_assert_eq(state, 'S', "it waits for the caller, not %c", state);
	cr_assert_eq(copies, 2, "of the descriptor and of the pipe that it waits for");
	cr_assert_eq(descriptors_count(), before);
	cr_assert_eq(waitpid(-1, &status, 0), child);
	cr_assert_eq(status, 0);
}
