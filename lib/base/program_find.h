/*
 * Where a program of ours lies that another one starts: never one that a stranger could have put
 * there.
 */
#ifndef LIB_BASE_PROGRAM_FIND_H
#define LIB_BASE_PROGRAM_FIND_H

#include <stddef.h>

/*
 * The path of the program `name`: in $BERTH_LIBEXECDIR, for tests; else next to the running
 * program, as in a build tree, so that a build never runs an installed one; else where it is
 * installed.
 */
void program_find(char *out, size_t size, const char *name);

#endif
