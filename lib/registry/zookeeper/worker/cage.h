/*
 * The worker's cage (lib/sandbox/sandbox.h). The client library parses bytes of any server, so
 * before the first connection the process keeps no more than its socket to the agent, TCP
 * connections to the ports of the servers, threads, memory, and certificates to read when the
 * connection uses TLS.
 *
 * The worker looks up host names before, because that needs files and UDP; to look them up again
 * the agent replaces the worker. SASL mechanisms are plugins that read files of their own choice; a
 * worker with SASL is not caged.
 */
#ifndef LIB_REGISTRY_ZOOKEEPER_WORKER_CAGE_H
#define LIB_REGISTRY_ZOOKEEPER_WORKER_CAGE_H

#include "lib/sandbox/sandbox.h"

/*
 * As sandbox_enter(). `certificates`: zk_hello.tls. `servers`: their addresses, as
 * zk_worker_resolve() makes them.
 */
void zk_worker_cage(const char *certificates, const char *servers, char out[SANDBOX_WORDS_BYTES]);

#endif
