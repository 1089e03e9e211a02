#include "agent/command/orphans.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"

/* The content of a process's environment. */
enum bearing {
	BEARS_NONE,    /* it is not a run's: the main process, say, or an orphan of it */
	BEARS_ANOTHER, /* a run's that is not asked for */
	BEARS,
	BEARS_PERHAPS
};

/*
 * Reads in pieces; a marker that lies across two of them is found because the end of one is kept
 * before the next.
 */
static enum bearing read_bearing(int file, const char *wanted)
{
	static const char any[] = "BERTH_RUN=";
	char piece[16384];
	size_t wanted_len = strlen(wanted) + 1; /* with its NUL: the whole value */
	size_t kept = 0;
	ssize_t got;
	enum bearing bearing = BEARS_NONE;
	while ((got = read(file, piece + kept, sizeof(piece) - kept)) > 0) {
		size_t len = kept + (size_t)got;
		if (memmem(piece, len, wanted, wanted_len)) {
			return BEARS;
		}
		if (memmem(piece, len, any, sizeof(any) - 1)) {
			bearing = BEARS_ANOTHER;
		}
		kept = len < wanted_len ? len : wanted_len - 1;
		memmove(piece, piece + len - kept, kept);
	}
	return bearing;
}

bool command_orphans_stat_has_environment(const char *stat)
{
	/* Field 2 is a name that may hold anything, so count from its end. */
	const char *field = strrchr(stat, ')');
	unsigned long long values[52] = { 0 };
	for (int number = 3; number < 52 && field; number++) {
		field = strchr(field + 1, ' ');
		values[number] = field ? strtoull(field, NULL, 10) : 0;
	}
	return values[26] == 0 || values[50] < values[51];
}

/*
 * The read gave nothing: is the environment really empty? In the middle of exec a process has no
 * environment for a moment, or it passed from one image to the next between our open and our read.
 * A dead process has none (only root can open it, and since Linux 6.16 not even root), but may have
 * died after the list of our children was read, so that its own children are not in that list; the
 * loop reaps it in an instant. Only a process with an empty environment shows it: in
 * proc_pid_stat(5), field 26, startcode, is set last by exec and is 0 for the dead, and fields 50
 * and 51, env_start and env_end, are the same; both are 0 for a process that the agent may not look
 * into.
 */
static bool may_have_environment(pid_t pid)
{
	char path[64];
	char text[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0) {
		return false;
	}
	ssize_t len = read(file, text, sizeof(text) - 1);
	close(file);
	text[len > 0 ? len : 0] = '\0';
	return command_orphans_stat_has_environment(text);
}

static enum bearing look_for_marker(pid_t pid, const char *marker)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0) {
		bool hidden = errno == EACCES || errno == EPERM || errno == ENOENT;
		return hidden && !may_have_environment(pid) ? BEARS_ANOTHER : BEARS_PERHAPS;
	}
	enum bearing bearing = read_bearing(file, marker);
	bool empty = lseek(file, 0, SEEK_CUR) == 0;
	close(file);
	return empty && may_have_environment(pid) ? BEARS_PERHAPS : bearing;
}

/*
 * Children that belong to no run, and that stay so as long as they are in the list of our children.
 * A number can pass from one of them to an orphan between two looks only after the kernel has used
 * all other numbers.
 */
struct bystanders {
	pid_t pids[64];
	size_t count;
};

static bool is_bystander(const struct bystanders *bystanders, pid_t pid)
{
	for (size_t i = 0; i < bystanders->count; i++) {
		if (bystanders->pids[i] == pid) {
			return true;
		}
	}
	return false;
}

static void add_bystander(struct bystanders *bystanders, pid_t pid)
{
	if (bystanders->count < ARRAY_LEN(bystanders->pids)) {
		bystanders->pids[bystanders->count++] = pid;
	}
}

/* Stays open: to look the name up would cost more than to read the list. */
static FILE *list_of_children(void)
{
	static FILE *children;
	if (children) {
		rewind(children);
	} else {
		children = fopen("/proc/thread-self/children", "re");
	}
	return children;
}

static bool claims_unmarked;

bool command_orphans_may_claim(void)
{
	FILE *children = list_of_children();
	int pid;
	return getpid() != 1 && children && fscanf(children, "%d", &pid) != 1;
}

void command_orphans_claim_unmarked(bool claim)
{
	claims_unmarked = claim;
}

/*
 * A command begins a session, and no process can go back into an older one: the agent itself
 * started the processes of its own session.
 */
static bool is_unmarked_orphan(pid_t pid)
{
	return claims_unmarked && getsid(pid) != getsid(0);
}

bool command_orphans_kill(const char *marker, bool (*is_known)(pid_t pid))
{
	static struct bystanders before;
	struct bystanders now = { .count = 0 };
	FILE *children = list_of_children();
	bool again = false;
	int pid;
	while (children && fscanf(children, "%d", &pid) == 1) {
		if (is_known(pid)) {
			continue;
		}
		enum bearing bearing = is_bystander(&before, pid) ? BEARS_NONE
								  : look_for_marker(pid, marker);
		if (bearing == BEARS_NONE && is_unmarked_orphan(pid)) {
			bearing = BEARS;
		}
		if (bearing == BEARS_NONE) {
			add_bystander(&now, pid);
		} else if (bearing == BEARS) {
			/*
			 * It is our child and not reaped, so the number cannot have passed to
			 * another process.
			 */
			kill(pid, SIGKILL);
		}
		again = again || bearing == BEARS || bearing == BEARS_PERHAPS;
	}
	before = now;
	return again;
}
