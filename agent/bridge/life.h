/*
 * Whether a process is the first one of a container, as the container's runtime says: the runtime
 * may lie, live in another pid namespace, or be late.
 */
#ifndef AGENT_BRIDGE_LIFE_H
#define AGENT_BRIDGE_LIFE_H

#include <sys/types.h>

#include "lib/base/err.h"

/*
 * `started`: the container's, as RFC 3339 has it. 0 with the process's number in our namespace, or
 * BERTH_FAILED. Reads files of the kernel alone, which wait for nobody.
 */
int bridge_life_verify(pid_t *ret_pid, int pidfd, const char *id, const char *started,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(5);

enum { BRIDGE_LIFE_BYTES = 128 };
/*
 * Tells the process from all others: its number, the time of its start, and the boot. "" where the
 * kernel does not say it.
 */
void bridge_life_describe(pid_t pid, char out[BRIDGE_LIFE_BYTES]);

enum bridge_life {
	BRIDGE_LIFE_UNKNOWN, /* nobody lets us see it */
	BRIDGE_LIFE_LIVES,
	BRIDGE_LIFE_ENDED
};
/*
 * Whether the process of that description lives; -1, or a pidfd if it does. A later process with
 * its number is another one.
 */
enum bridge_life bridge_life_find(const char *description, int *ret_pidfd);

#endif
