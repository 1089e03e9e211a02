/*
 * Whether a process of a container (holders.h) is frozen by its control group, in version 1 or 2 of
 * the kernel's interface: by `podman pause`, `docker pause` or a service manager. Nothing here
 * waits for a container or for its file system.
 */
#ifndef AGENT_BRIDGE_FREEZER_H
#define AGENT_BRIDGE_FREEZER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* If the process is frozen: the path of its control group in `ret_group`. */
bool bridge_freezer_has(pid_t pid, char *ret_group, size_t size);

#endif
