#include "tests/sim/children.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/command/spawn.h"
#include "lib/base/list.h"
#include "tests/sim/file_children.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"
#include "tests/sim/sockets.h"

struct child {
	struct list link;
	struct process *parent;
	pid_t pid;
	int64_t due_ms;
	int output; /* the write end of a pipe, or -1 */
	struct children_plan plan;
	bool is_over; /* and waits for its parent */
	int status;
};

static struct list children = { &children, &children };
static struct children_plan (*planned)(int number, char *const *argv);
static pid_t last_pid = 10000;

pid_t __wrap_command_spawn(const struct command_spawn *spawn, struct err *err);
bool __wrap_command_orphans_kill(const char *marker, bool (*is_known)(pid_t pid));
bool __wrap_command_orphans_may_claim(void);

void children_plan_by(struct children_plan (*plan)(int number, char *const *argv))
{
	planned = plan;
}

/* ---- the end of a child ---- */

static void end(struct child *child, int status)
{
	if (child->output >= 0) {
		close(child->output);
		child->output = -1;
	}
	child->status = status;
	child->is_over = true;
	process_signal(child->parent, SIGCHLD);
}

static void remove_child(struct child *child)
{
	if (child->output >= 0) {
		close(child->output);
	}
	list_remove(&child->link);
	free(child);
}

void children_step(void)
{
	for (struct list *at = children.next; at != &children; at = at->next) {
		struct child *child = LIST_ITEM(at, struct child, link);
		if (child->is_over || child->due_ms > sim_now_ms()) {
			continue;
		}
		if (child->output >= 0 && child->plan.output) {
			ssize_t written = write(
				child->output, child->plan.output, strlen(child->plan.output));
			(void)written;
		}
		end(child, (child->plan.status & 0xff) << 8);
	}
}

int64_t children_due_ms(void)
{
	int64_t due_ms = INT64_MAX;
	for (struct list *at = children.next; at != &children; at = at->next) {
		const struct child *child = LIST_ITEM(at, struct child, link);
		if (!child->is_over && child->due_ms < due_ms) {
			due_ms = child->due_ms;
		}
	}
	return due_ms;
}

void children_forget(const struct process *process)
{
	for (struct list *at = children.next, *next; at != &children; at = next) {
		struct child *child = LIST_ITEM(at, struct child, link);
		next = at->next;
		if (child->parent == process) {
			remove_child(child);
		}
	}
}

/* ---- what the agent calls ---- */

static pid_t start(struct process *parent, char *const *argv, int output)
{
	struct children_plan plan = planned(process_number(parent), argv);
	if (plan.fails_to_start) {
		return -1;
	}
	struct child *child = calloc(1, sizeof(*child));
	child->parent = parent;
	child->pid = ++last_pid;
	child->plan = plan;
	child->due_ms = sim_now_ms() + plan.takes_ms;
	child->output = sockets_has(output) ? sockets_dup(output) : -1;
	list_append(&children, &child->link);
	return child->pid;
}

pid_t __wrap_command_spawn(const struct command_spawn *spawn, struct err *err)
{
	struct process *parent = process_pause();
	pid_t pid = start(parent, spawn->argv, spawn->files[1]);
	process_resume(parent);
	if (pid < 0) {
		err_set(err, BERTH_FAILED, "no process can be made");
		return -EAGAIN;
	}
	return pid;
}

/* The test of the new program before an upgrade. */
int posix_spawn(pid_t *restrict ret_pid, const char *restrict path,
	const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *restrict attributes,
	char *const argv[restrict], char *const environment[restrict])
{
	(void)path;
	(void)actions;
	(void)attributes;
	(void)environment;
	struct process *parent = process_pause();
	pid_t pid = start(parent, argv, -1);
	process_resume(parent);
	if (pid < 0) {
		return EAGAIN;
	}
	*ret_pid = pid;
	return 0;
}

/* The number of a process, or that of a group with a minus. */
int kill(pid_t pid, int signal_number)
{
	const struct process *parent = process_current();
	pid_t wanted = pid < 0 ? -pid : pid;
	for (struct list *at = children.next; at != &children; at = at->next) {
		struct child *child = LIST_ITEM(at, struct child, link);
		if (child->parent != parent || child->pid != wanted) {
			continue;
		}
		bool ends = signal_number == SIGKILL ||
			(signal_number == SIGTERM && !child->plan.ignores_term);
		if (ends && !child->is_over) {
			end(child, signal_number);
		}
		return 0;
	}
	if (file_children_kill(parent, wanted)) {
		return 0;
	}
	errno = ESRCH;
	return -1;
}

pid_t waitpid(pid_t pid, int *ret_status, int options)
{
	const struct process *parent = process_current();
	(void)options;
	if (!parent) {
		return (pid_t)syscall(SYS_wait4, pid, ret_status, options, NULL);
	}
	bool any = false;
	for (struct list *at = children.next; at != &children; at = at->next) {
		struct child *child = LIST_ITEM(at, struct child, link);
		if (child->parent != parent || (pid > 0 && child->pid != pid)) {
			continue;
		}
		any = true;
		if (child->is_over) {
			pid_t ended = child->pid;
			if (ret_status) {
				*ret_status = child->status;
			}
			remove_child(child);
			return ended;
		}
	}
	errno = ECHILD;
	return any ? 0 : -1;
}

/* There are no orphans. */
bool __wrap_command_orphans_kill(const char *marker, bool (*is_known)(pid_t pid))
{
	(void)marker;
	(void)is_known;
	return false;
}

bool __wrap_command_orphans_may_claim(void)
{
	return false;
}
