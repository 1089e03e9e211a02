/*
 * Where a file is replaced.
 */
#ifndef AGENT_BASE_FILE_PLACE_H
#define AGENT_BASE_FILE_PLACE_H

#include "lib/base/err.h"

/*
 * An absolute path itself, or, when a symbolic link is there, what it leads to, so that the link
 * stays. free(). A link that others than root and the agent's user could have made is not followed:
 * NULL, and BERTH_FAILED.
 */
char *file_place(const char *path, struct err *err) ERR_REQUIRED(2);

#endif
