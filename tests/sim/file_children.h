/*
 * Children that put files in place (agent/base/file_child.h), without processes: each does its work
 * after a time that the seed decides. Some are killed before it, or between the new file and its
 * move; of those whose agent is killed some go on, as one does that holds the state directory's
 * lock, and others die with it.
 */
#ifndef TESTS_SIM_FILE_CHILDREN_H
#define TESTS_SIM_FILE_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/base/file_work.h"

struct process;

/* Begins a run; `tell` hears of the content when a process, by its number, lets it be written. */
void file_children_begin(uint64_t seed, void (*tell)(int number, const struct file_work *work));

/* Does the work whose time has come. */
void file_children_step(void);
int64_t file_children_due_ms(void);
/* True when the process has such a child, which is killed. */
bool file_children_kill(const struct process *parent, pid_t pid);
/* Their parent is gone. */
void file_children_forget(const struct process *process);

#endif
