/*
 * The worker's cage. The client library parses what any server sends, so what the process may do is
 * cut down to what it needs before the first connection: its socket to the agent, TCP connections,
 * threads and memory. In force afterwards, each where the kernel and the build have it:
 *
 *   seccomp      no other program, process, file or kind of socket; refused calls fail with EPERM
 *   landlock     no file at all, but certificates to read when the connection uses TLS
 *   capabilities none, and no way to get any (no_new_privs)
 *   RLIMIT_AS    a bound on memory
 *
 * Host names are looked up before, because that needs files and UDP: a worker that should look
 * again is replaced by the agent. SASL mechanisms are plugins that read files of their own choice;
 * a worker with SASL is not caged.
 */
#ifndef LIB_REGISTRY_ZOOKEEPER_WORKER_CAGE_H
#define LIB_REGISTRY_ZOOKEEPER_WORKER_CAGE_H

#include <stddef.h>

/*
 * Closes the cage for this process, for good; before any thread is made. `certificates`: paths,
 * separated by commas, or "". Says in `out` what is in force and what is not, in words for a log.
 * Never fails: what the kernel lacks is left out.
 */
void zk_worker_cage(const char *certificates, char *out, size_t size);

#endif
