/*
 * A child that does one piece of a file's work (file_work.h) and ends.
 *
 * It is a fork of the agent, with the agent's user, rights and limits. The content is in its copy
 * of the memory, so nothing has to be passed, and between two files there is no process. Signals
 * that end the agent do not end it.
 */
#ifndef AGENT_BASE_FILE_CHILD_H
#define AGENT_BASE_FILE_CHILD_H

#include <sys/types.h>

#include "agent/base/file_work.h"

/*
 * Starts it: its process id, and in *ret_report the descriptor from which one `struct err` comes
 * when it is done; end of file instead: it was killed. Of the agent's descriptors the child keeps
 * lock_fd alone, the lock of the state directory: while it works no other agent can begin, even if
 * this one is killed. Without a lock (-1) it dies with the agent. A negative errno when no process
 * can be made.
 */
pid_t file_child_start(const struct file_work *work, int lock_fd, int *ret_report);

#endif
