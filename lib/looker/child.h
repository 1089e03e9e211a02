/*
 * A looker: a process that does the file calls below directories that strangers can open, so that
 * its caller need not.
 *
 * A user who may read a directory can hold its lock in the kernel for as long as he likes, with
 * getdents64() into memory whose page nobody provides. Every call that looks up, makes or reads a
 * name there then waits in the kernel, and no signal ends it. So these calls are a child's, which
 * is given up when it does not answer: its caller's loop goes on, and starts another one.
 *
 * The looker has its socket alone, and no copy of any other descriptor of the agent, since it may
 * outlive the agent: it would keep its locks. The same holds for the program that asks a container
 * runtime, whose word is a stranger's, too.
 */
#ifndef LIB_LOOKER_CHILD_H
#define LIB_LOOKER_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/err.h"

enum { LOOKER_CHILD_FD = 3 }; /* in the child: its socket */

#define LOOKER_PROGRAM "berth-looker"
#define RUNTIME_PROGRAM "berth-runtime" /* that asks a container runtime: lib/runtime/protocol.h */

/*
 * Opens a program of ours; close() it. It is kept open, so that every child is of the caller's own
 * build.
 */
int looker_program_open(const char *name, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

/*
 * Starts one: its process id, and in *ret_socket the caller's end, which does not block. The end of
 * the other end is the end of the process. Its environment is empty but for the loader's variables.
 */
pid_t looker_child_start(int program, const char *name, int *ret_socket, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);

/*
 * In the child, first of all: it ends with its caller's thread, nobody looks into its memory, and
 * it has no descriptor but its socket. False: nobody like that has started it.
 */
bool looker_child_begin(const char *name);

#endif
