/*
 * The worker's cage. The client library parses bytes of any server, so before the first connection
 * the process gives up all rights that it does not need: it keeps its socket to the agent, TCP
 * connections, threads and memory. Afterwards these are in force, where the kernel and the build
 * have them:
 *
 *   seccomp      no other program, process, file or kind of socket, and no signal to anybody, also
 *                not by way of a descriptor; refused calls fail with EPERM
 *   landlock     no file at all, but certificates to read when the connection uses TLS; the ports
 *                of the servers alone (since Linux 6.7); no signal (since Linux 6.12)
 *   capabilities none, and no way to get any (no_new_privs)
 *   RLIMIT_AS    a bound on memory
 *
 * The worker looks up host names before, because that needs files and UDP; to look them up again
 * the agent replaces the worker. SASL mechanisms are plugins that read files of their own choice; a
 * worker with SASL is not caged.
 */
#ifndef LIB_REGISTRY_ZOOKEEPER_WORKER_CAGE_H
#define LIB_REGISTRY_ZOOKEEPER_WORKER_CAGE_H

#include <stddef.h>

/*
 * Closes the cage for this process, permanently; call it before any thread is made. `certificates`:
 * zk_hello.tls. `servers`: their addresses, as zk_worker_resolve() makes them.
 * Writes into `out`, in words for a log, which parts are in
 * force. Never fails: parts that the kernel lacks are left out.
 */
void zk_worker_cage(const char *certificates, const char *servers, char *out, size_t size);

#endif
