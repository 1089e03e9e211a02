/*
 * Whether a process of a container is frozen by its control group, in version 1 or 2 of the
 * kernel's interface: by `podman pause`, `docker pause` or a service manager.
 *
 * The kernel reports for no lock of an open file description which process took it. So an owner of
 * a record locks its file a second time, by flock(), and /proc/locks has the process of that lock
 * in the process ids of whoever reads it: in 0 processes where the agent does not see the
 * container's ones. Nothing here waits for a container or for its file system.
 */
#ifndef AGENT_BRIDGE_FREEZER_H
#define AGENT_BRIDGE_FREEZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A file that an owner has locked. */
struct bridge_locked {
	uint32_t major;
	uint32_t minor;
	uint64_t inode;
	pid_t pid; /* of the process that locked it; 0: none that the agent can see */
};

/* Finds the processes of all of them. */
void bridge_freezer_find(struct bridge_locked *files, size_t count);
/* If the process is frozen: the path of its control group in `ret_group`. */
bool bridge_freezer_has(pid_t pid, char *ret_group, size_t size);

#endif
