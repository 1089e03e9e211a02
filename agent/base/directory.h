/*
 * Directories that the agent makes for its files: the one of its socket, and its state directory.
 */
#ifndef AGENT_BASE_DIRECTORY_H
#define AGENT_BASE_DIRECTORY_H

#include <sys/types.h>

#include "lib/base/err.h"

struct directory_owner {
	uid_t uid;
	gid_t gid;
};

/*
 * Makes a directory and its missing parents, each with mode 0755 under any umask. An existing
 * directory stays as it is; a missing one gets the owner, its parents do not. NULL: the agent
 * itself.
 *
 * For another owner it makes nothing where strangers can write (trust.h): they could replace the
 * directory before it is given away. It returns BERTH_NO_PATH_PERMISSIONS for the owner to do it.
 */
int directory_make(const char *path, const struct directory_owner *owner, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* The same for the directory that holds the file `path`. */
int directory_make_for(const char *path, const struct directory_owner *owner, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);

#endif
