/*
 * Errors of the event loop itself.
 *
 * libev makes another epoll descriptor from time to time: after a fork, and when a child that has
 * not run its program yet keeps a descriptor that the agent has closed. Where the kernel has no
 * memory for it, or the system has no descriptor left, libev ends the program.
 */
#ifndef AGENT_BASE_LOOP_ERROR_H
#define AGENT_BASE_LOOP_ERROR_H

/*
 * From now on the loop waits a moment and tries again, with a line in the log. A call that can
 * never succeed, such as one on a closed descriptor, still ends the program.
 */
void loop_error_retry(void);

#endif
