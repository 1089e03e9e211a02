/*
 * Inside the ZooKeeper worker, the program that alone links libzookeeper-mt and its threads (the
 * agent's view of it is lib/registry/zookeeper/worker_process.h).
 *
 * The main thread reads frames and turns them into asynchronous calls; the library's threads turn
 * completions and watch events into frames. Nothing is freed that a completion may still need: at
 * the end the process just exits.
 */
#ifndef LIB_REGISTRY_ZOOKEEPER_WORKER_WORKER_H
#define LIB_REGISTRY_ZOOKEEPER_WORKER_WORKER_H

#include <stddef.h>

/* One of the library's headers has a `struct buffer` too. */
#define buffer zookeeper_buffer
#include <zookeeper/zookeeper.h>
#undef buffer

#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "lib/registry/zookeeper/frame.h"

/* ---- send.c ---- */

/* The agent's end; before anything is sent. */
void zk_worker_send_to(int fd);
/* How long the agent may say and read nothing; for ever (-1) until this is called. */
void zk_worker_bear_silence_ms(int ms);
int zk_worker_silence_ms(void);
/*
 * The agent is frozen: nobody repairs its records. Without this process its session ends by itself;
 * an agent that wakes up before goes on with it.
 */
_Noreturn void zk_worker_leave(void);
/*
 * Sends a whole frame and empties the buffer; ends the process when the agent is gone. Any thread.
 */
void zk_worker_send(struct buffer *frame);

/* A line for the agent's log, and one of the worker's own. Any thread. */
void zk_worker_log(enum zk_log_kind kind, const char *message);
void zk_worker_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- worker.c ---- */

/*
 * The program berth-zookeeper FD, where FD is its end of the socketpair; started by
 * lib/registry/zookeeper/worker_process.c. Returns its exit status when it cannot begin.
 */
int zk_worker_main(int argc, char **argv);

/* ---- the other files ---- */

/*
 * Starts what a request asks for; its result follows from another thread, or at once when it could
 * not be started.
 */
void zk_worker_request(zhandle_t *zh, const struct zk_request *request);

/*
 * "host1:2181,[::1]:2181" to numeric addresses in the same form: each host's addresses, in random
 * order, so that of many agents each server gets its share. Hosts that do not resolve are left out.
 * Blocks in DNS. 0, or REGISTRY_UNAVAILABLE when none resolves.
 */
int zk_worker_resolve(struct buffer *out, const char *servers, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/*
 * zookeeper_init() with what `hello` asks for: plain, TLS or SASL, and credentials. `hosts` are
 * numeric, and tried in their order. NULL with err filled.
 */
zhandle_t *zk_worker_connect(const struct zk_hello *hello, const char *hosts, watcher_fn on_session,
	log_callback_fn on_log, struct err *err) ERR_REQUIRED(5);

/* OpenSSL's reason of its first failure in this thread since the last call: static text, or "". */
const char *zk_worker_tls_reason(void);

#endif
