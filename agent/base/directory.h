/*
 * Directories that the agent makes for its files: the one of its socket, and its state directory.
 */
#ifndef AGENT_BASE_DIRECTORY_H
#define AGENT_BASE_DIRECTORY_H

#include "lib/base/err.h"

/*
 * Makes a directory and its missing parents, each with mode 0755 under any umask. An existing
 * directory stays as it is.
 */
int directory_make(const char *path, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

/* The same for the directory that holds the file `path`. */
int directory_make_for(const char *path, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

#endif
