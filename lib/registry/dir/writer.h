/*
 * A child that carries out one write of a dir: registry and ends: the disk may take seconds for a
 * record that has to outlive a power cut, and the caller's loop goes on meanwhile.
 *
 *   NONE --start--> WORKING --its report, or its end--> NONE
 *                      '--given up--> UNWANTED --its end--> NONE
 *
 * It is a fork of the process, with the tree as the task found it, and keeps the store's lock until
 * it ends. It dies with the process.
 */
#ifndef LIB_REGISTRY_DIR_WRITER_H
#define LIB_REGISTRY_DIR_WRITER_H

#include <sys/types.h>

#include "lib/registry/dir/task.h"

struct dir_writer {
	int wake;  /* an epoll descriptor of the caller's: readable when there is a report */
	pid_t pid; /* 0: there is none */
	int report;
	struct registry_task *task; /* NULL: nobody waits for it any more */
};

/*
 * Starts it, under the store's lock, which it keeps: the caller unlocks all the same. False when no
 * process can be made.
 */
bool dir_writer_start(
	struct dir_writer *writer, struct dir_context *context, struct registry_task *task);

/*
 * Whether it has ended, or there is none; never waits. A task that was waited for has its outcome
 * then, BERTH_TIMEOUT if the child was killed, whose work may be done or not.
 */
bool dir_writer_ended(struct dir_writer *writer, struct dir_context *context);

/* Kills it, if there is one; its task gets no outcome. Later writes begin when it has ended. */
void dir_writer_give_up(struct dir_writer *writer, struct dir_context *context);

#endif
