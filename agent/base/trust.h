/*
 * Whom the agent trusts with its own files: root, itself and the owner of "/", who can change
 * everything anyway. Everybody else is a stranger. What a stranger could have written is not read.
 */
#ifndef AGENT_BASE_TRUST_H
#define AGENT_BASE_TRUST_H

#include <sys/stat.h>

#include "lib/base/err.h"

/*
 * 0 when no stranger can change what the path of a directory leads to: each directory on the way
 * belongs to somebody trusted and is writable by nobody else, or it is sticky, as /tmp is, and the
 * next element itself belongs to somebody trusted; symbolic links are followed by the same rule.
 * Else BERTH_NO_PATH_PERMISSIONS, or BERTH_FAILED when the path cannot be followed. In a sticky
 * directory strangers may have made files: trust_check_file() tells.
 */
int trust_check_directory(const char *path, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

/*
 * 0 when the open file with this status belongs to somebody trusted and nobody else can write to
 * it.
 */
int trust_check_file(const struct stat *status, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

#endif
