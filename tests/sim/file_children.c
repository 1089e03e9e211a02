#include "tests/sim/file_children.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/list.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"
#include "tests/sim/sockets.h"

enum fate { DOES_ALL, DIES_BEFORE, DIES_BETWEEN };

struct file_child {
	struct list link;
	struct process *parent;
	pid_t pid;
	int64_t due_ms;
	int report; /* the write end of a pipe */
	enum fate fate;
	struct file_work work;
};

static struct list children = { &children, &children };
static struct sim_random draws;
static void (*told)(int number, const struct file_work *work);
static pid_t last_pid = 1000000;
static char *killed_path; /* whose work is begun again */

pid_t __wrap_file_child_start(const struct file_work *work, int lock_fd, int *ret_report);

void file_children_begin(uint64_t seed, void (*tell)(int number, const struct file_work *work))
{
	sim_random_init(&draws, seed, 500);
	told = tell;
	free(killed_path);
	killed_path = NULL;
}

/* Most disks are fast, most of the time. */
static int64_t draw_time_ms(void)
{
	static const uint64_t most_ms[] = { 3, 3, 3, 3, 50, 50, 300, 1500 };
	return (int64_t)sim_below(&draws, most_ms[sim_below(&draws, ARRAY_LEN(most_ms))]);
}

static enum fate draw_fate(unsigned percent_killed)
{
	if (!sim_chance(&draws, percent_killed)) {
		return DOES_ALL;
	}
	return sim_chance(&draws, 50) ? DIES_BEFORE : DIES_BETWEEN;
}

static char *copy_bytes(const char *bytes, size_t len)
{
	char *copy = bytes ? malloc(len + 1) : NULL;
	if (copy) {
		memcpy(copy, bytes, len);
		copy[len] = '\0';
	}
	return copy;
}

static char *copy_text(const char *text)
{
	return copy_bytes(text, text ? strlen(text) : 0);
}

/* ---- the work ---- */

static void do_part(struct file_child *child, struct err *err)
{
	struct file_work work = child->work;
	if (child->fate == DIES_BEFORE ||
		(child->fate == DIES_BETWEEN && work.step != FILE_REPLACE)) {
		return;
	}
	if (child->fate == DIES_BETWEEN) {
		work.step = FILE_PREPARE;
	}
	file_work_do(&work, err);
}

static void end(struct file_child *child)
{
	close(child->report);
	list_remove(&child->link);
	free(child->work.temporary);
	free(child->work.path);
	free(child->work.head);
	free(child->work.data);
	free(child);
}

static void finish(struct file_child *child)
{
	struct err err = ERR_INIT;
	do_part(child, &err);
	if (child->fate == DOES_ALL) {
		ssize_t written = write(child->report, &err, sizeof(err));
		(void)written;
	} else {
		free(killed_path);
		killed_path = copy_text(child->work.path);
	}
	process_wake(child->parent);
	end(child);
}

void file_children_step(void)
{
	for (struct list *at = children.next, *next; at != &children; at = next) {
		struct file_child *child = LIST_ITEM(at, struct file_child, link);
		next = at->next;
		if (child->due_ms <= sim_now_ms()) {
			finish(child);
		}
	}
}

int64_t file_children_due_ms(void)
{
	int64_t due_ms = INT64_MAX;
	for (struct list *at = children.next; at != &children; at = at->next) {
		const struct file_child *child = LIST_ITEM(at, struct file_child, link);
		due_ms = child->due_ms < due_ms ? child->due_ms : due_ms;
	}
	return due_ms;
}

static void kill_child(struct file_child *child, unsigned percent_killed)
{
	struct err err = ERR_INIT;
	child->fate = draw_fate(percent_killed);
	do_part(child, &err);
	end(child);
}

bool file_children_kill(const struct process *parent, pid_t pid)
{
	for (struct list *at = children.next; at != &children; at = at->next) {
		struct file_child *child = LIST_ITEM(at, struct file_child, link);
		if (child->parent == parent && child->pid == pid) {
			struct process *process = process_pause();
			kill_child(child, 100);
			process_resume(process);
			return true;
		}
	}
	return false;
}

void file_children_forget(const struct process *process)
{
	for (struct list *at = children.next, *next; at != &children; at = next) {
		struct file_child *child = LIST_ITEM(at, struct file_child, link);
		next = at->next;
		if (child->parent == process) {
			kill_child(child, 50);
		}
	}
}

/* ---- what the agent calls ---- */

static struct file_child *start(struct process *parent, const struct file_work *work, int report)
{
	struct file_child *child = calloc(1, sizeof(*child));
	child->parent = parent;
	child->pid = ++last_pid;
	child->due_ms = sim_now_ms() + draw_time_ms();
	child->fate = draw_fate(3);
	child->report = sockets_dup(report);
	child->work = *work;
	child->work.temporary = copy_text(work->temporary);
	child->work.path = copy_text(work->path);
	child->work.head = copy_text(work->head);
	child->work.data = copy_bytes(work->data, work->len);
	list_append(&children, &child->link);
	return child;
}

/* A child that begins again what a killed one did writes what was true before. */
static void tell(const struct process *parent, const struct file_work *work)
{
	if (killed_path && strcmp(work->path, killed_path) == 0) {
		free(killed_path);
		killed_path = NULL;
	} else {
		told(process_number(parent), work);
	}
}

pid_t __wrap_file_child_start(const struct file_work *work, int lock_fd, int *ret_report)
{
	int ends[2];
	(void)lock_fd;
	sockets_pipe(ends, true);
	struct process *parent = process_pause();
	pid_t pid = start(parent, work, ends[1])->pid;
	tell(parent, work);
	process_resume(parent);
	close(ends[1]);
	*ret_report = ends[0];
	return pid;
}
