/*
 * The users that the agent trusts with its own files: root, its own user and the owner of "/", who
 * can change everything anyway. All other users are strangers. The agent does not read files that a
 * stranger could have written.
 */
#ifndef AGENT_BASE_TRUST_H
#define AGENT_BASE_TRUST_H

#include <sys/stat.h>

#include "lib/base/err.h"

/*
 * 0 when no stranger can lead the path of a directory elsewhere: each directory on the way belongs
 * to a trusted user and only such users can write to it, or it is sticky, as /tmp is, and the next
 * element belongs to a trusted user. Symbolic links are followed by the same rule. Else
 * BERTH_NO_PATH_PERMISSIONS, or BERTH_FAILED when the path cannot be followed. Strangers may have
 * made files in a sticky directory: check these with trust_check_file().
 */
int trust_check_directory(const char *path, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

/*
 * 0 when the open file with this status belongs to a trusted user and no other user can write to
 * it.
 */
int trust_check_file(const struct stat *status, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

#endif
