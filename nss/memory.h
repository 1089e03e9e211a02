/*
 * The agent's shared map in a process that did not ask for it: any number of threads read it, and
 * it is unmapped when it is retired and none of them does any more.
 *
 * No lock is held anywhere, so a child that is forked at any time works; at worst, threads of its
 * parent were in the middle of something, and a map stays mapped in the child, or it does without.
 */
#ifndef NSS_MEMORY_H
#define NSS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum nss_memory_outcome {
	NSS_MEMORY_FOUND,   /* `value` has the answer */
	NSS_MEMORY_ABSENT,  /* there is no such name */
	NSS_MEMORY_UNKNOWN, /* the socket knows; the answer is worth being in the map */
	NSS_MEMORY_NONE     /* there is no map: nss_memory_fetch() may get one */
};

/*
 * Looks for the answer to a request with this key, in the map of the agent at this socket. Makes no
 * system call but the one that unmaps a retired map. `value` ends with NUL.
 */
enum nss_memory_outcome nss_memory_read(
	const char *socket_path, const char *key, char *value, size_t size);

/*
 * An agent that answers is connected to `fd`: gets its map, if this process looks up often enough
 * and no other thread is about to.
 */
void nss_memory_fetch(const char *socket_path, int fd, int64_t deadline_ms);
/* Is it worth a connection for nss_memory_fetch()? Counts the look-up. */
bool nss_memory_wants_map(void);

#endif
