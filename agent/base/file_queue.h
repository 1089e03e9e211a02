/*
 * Files that the agent has to put in place: a child does each (file_child.h), the loop goes on.
 *
 *   WAITING --a child is free, and none works on this file--> WORKING --its report--> on_done
 *      ^ ^                                                       | |
 *      | +---------the child was killed, for the first time------+ |
 *      +--a pause-- FAILED <--work that is done `again`------------+
 *
 * The newest content of a file counts: a job that still waits makes way for a later one of the same
 * caller for the same file. Jobs for one file are done in the order in which they came; jobs for
 * different files do not wait for each other, so that a disk that hangs holds its own files only,
 * unless they take all FILE_CHILDREN children. The queue holds a content or two per file.
 *
 * Where no process can be made the loop does the work itself, and blocks: better late than lost.
 */
#ifndef AGENT_BASE_FILE_QUEUE_H
#define AGENT_BASE_FILE_QUEUE_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/file_work.h"

enum { FILE_CHILDREN = 8 };

struct file_queue;
struct file_job;

struct file_queue *file_queue_create(struct ev_loop *loop);
/*
 * After file_queue_wait(): kills the children that still work, and logs which files stay as they
 * were. on_done does not come any more. Accepts NULL.
 */
void file_queue_destroy(struct file_queue *queue);

/* The lock of the state directory, which children keep while they work; -1: none. */
void file_queue_set_lock(struct file_queue *queue, int lock_fd);

/*
 * Takes what the work holds. on_done comes from the loop, or from file_queue_wait(), once, with 0
 * or BERTH_FAILED in err->code; the job is gone by then. It does not come for a job that is
 * cancelled, or that a later one of the same caller (on_done and context) for the same file
 * outdates. For work that is done `again` it comes with the first failure and with the success, if
 * no later job for the file comes before, of whatever caller.
 */
struct file_job *file_queue_add(struct file_queue *queue, struct file_work *work_take,
	void (*on_done)(void *context, const struct err *err), void *context);

/*
 * Its caller has no interest any more. A child that is at work ends it all the same, but a prepared
 * file goes. The work's context is not used any more.
 */
void file_queue_cancel(struct file_job *job);

/* Whether nothing waits but for a pause, and no child works. */
bool file_queue_is_idle(const struct file_queue *queue);

/*
 * Blocks until it is idle, this long at most; true when it is. For an agent that ends: no job is in
 * a pause any more.
 */
bool file_queue_wait(struct file_queue *queue, int64_t patience_ms);

#endif
