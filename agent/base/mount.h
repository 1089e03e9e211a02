/*
 * Mounts of single files, as container runtimes make them for /etc/hosts and for each file of a
 * volume: nothing can be moved over such a file.
 */
#ifndef AGENT_BASE_MOUNT_H
#define AGENT_BASE_MOUNT_H

#include <stdbool.h>

/*
 * Whether `path` itself is a mount. False for a symbolic link, for what is not there, and where
 * /proc does not tell.
 */
bool mount_is_at(const char *path);

#endif
