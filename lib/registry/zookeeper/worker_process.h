/*
 * The ZooKeeper worker as the agent sees it: a child process and a socket to it.
 *
 * Nothing here waits, but for start (the child's exec), end (its death by SIGKILL) and close. No
 * signal handlers: other code may reap the child (libev does), so a pidfd identifies it, never its
 * number alone.
 */
#ifndef LIB_REGISTRY_ZOOKEEPER_WORKER_PROCESS_H
#define LIB_REGISTRY_ZOOKEEPER_WORKER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "lib/registry/zookeeper/frame.h"

struct zk_worker_process {
	pid_t pid; /* 0: none runs */
	int pidfd; /* -1 where the kernel has none */
	int fd;    /* -1: none runs */
	/* what the worker and its libraries write to their standard error; -1: not to us */
	int log_fd;
	struct buffer in;
	struct buffer out;
};

void zk_worker_process_init(struct zk_worker_process *worker);

/*
 * Starts berth-zookeeper (of $BERTH_LIBEXECDIR, next to the own program, or the installed one) and
 * greets it. 0, or FAILED.
 */
int zk_worker_process_start(struct zk_worker_process *worker, const struct zk_hello *hello,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* Puts a request into the queue to the worker; -1 when the queue is full. */
int zk_worker_process_send(struct zk_worker_process *worker, const struct zk_request *request);

/* The same for a frame that says no more than that the agent lives. */
void zk_worker_process_say_alive(struct zk_worker_process *worker);

/*
 * Writes as much as the socket takes. False when something is left: poll for writing. receive
 * reports errors.
 */
bool zk_worker_process_flush(struct zk_worker_process *worker);

/*
 * Reads the available bytes into worker->in (frames, see zk_frame_next()). -1: the worker is gone.
 */
int zk_worker_process_receive(struct zk_worker_process *worker);

/*
 * Reads some of what was written to log_fd, as text: 0 when there is nothing now. A worker that
 * writes more than is read waits.
 */
size_t zk_worker_process_read_log(struct zk_worker_process *worker, char *out, size_t size);

/*
 * Kills the worker, which leaves its session standing, and waits for its end. May be called when
 * none runs.
 */
void zk_worker_process_end(struct zk_worker_process *worker);

/*
 * Lets the worker end its session, for `timeout_ms` at most whatever it sends, then ends it. False
 * when the worker has not ended in that time: the session may still be there.
 */
bool zk_worker_process_close(struct zk_worker_process *worker, int timeout_ms);

/* Waits for a frame of the worker: false after `timeout_ms`, or when the worker is gone. */
bool zk_worker_process_wait(struct zk_worker_process *worker, int timeout_ms);

#endif
