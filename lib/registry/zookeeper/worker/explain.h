/* From the client library's lines of log to words for a person; no state, no I/O. */
#ifndef LIB_REGISTRY_ZOOKEEPER_WORKER_EXPLAIN_H
#define LIB_REGISTRY_ZOOKEEPER_WORKER_EXPLAIN_H

#include <stddef.h>

#include "lib/registry/zookeeper/frame.h"

/*
 * Writes the words of `line`, "date:pid(thread):LEVEL@function@line: words" without its end, for a
 * person: the server, what is wrong there, and for TLS what to do about it. `tls_reason` is what
 * OpenSSL says of its first failure before the line, or "". A line of another form stays as it is.
 * Returns ZK_LOG_LIBRARY or ZK_LOG_CLOSED; 0 for a line that says nothing new, of which nothing is
 * written.
 */
enum zk_log_kind zk_worker_explain(
	const char *line, const char *tls_reason, char *out, size_t size);

#endif
