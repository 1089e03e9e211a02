/*
 * A cage for a program that parses bytes of strangers: before it meets the first of them it gives
 * up, for good, all rights that it does not need. It keeps its descriptors, its memory, and what
 * its profile names. Afterwards these are in force, where the kernel and the build have them:
 *
 *   seccomp      no other program, process, file or kind of socket, and no signal to anybody, also
 *                not by way of a descriptor; refused calls fail with EPERM
 *   landlock     no file at all but those of the profile, to read; no ports but the profile's
 *                (since Linux 6.7); no signal, no abstract Unix socket (since Linux 6.12)
 *   capabilities none, and no way to get any (no_new_privs)
 *   RLIMIT_AS    a bound on memory
 */
#ifndef LIB_SANDBOX_SANDBOX_H
#define LIB_SANDBOX_SANDBOX_H

#include <stddef.h>

enum sandbox_right {
	SANDBOX_CONNECT_TCP = 1,  /* new sockets of TCP */
	SANDBOX_CONNECT_UNIX = 2, /* new stream sockets of AF_UNIX; which path, nobody asks */
	SANDBOX_ACCEPT = 4,       /* clients of sockets that listen already, and epoll */
	SANDBOX_THREADS = 8,
	SANDBOX_READ_FILES = 16, /* `files`; without landlock any that the user may read */
	/*
	 * All below the directory `tree_fd`: read it, ask for locks, watch it, make directories and
	 * listening sockets, give directories away, remove files. Keeps the capabilities that
	 * this takes.
	 */
	SANDBOX_SERVE_TREE = 32,
	SANDBOX_ANY_PORT = 64,        /* TCP may connect to all, not those of the profile alone */
	SANDBOX_WATCH_PROCESSES = 128 /* pidfd_open(), which allows to wait for their end */
};

/* Borrowed by the call. */
struct sandbox_profile {
	unsigned rights;          /* of enum sandbox_right */
	const char *const *files; /* with all below each; ends with NULL; itself NULL for none */
	const unsigned *ports;    /* that TCP may connect to */
	size_t port_count;
	int tree_fd;         /* borrowed */
	unsigned memory_mib; /* address space: thread stacks and malloc's arenas reserve much */
};

#define SANDBOX_WORDS_BYTES 160

/*
 * Closes the cage for this process; call it before any thread is made. Writes into `out`, in words
 * for a log, which parts are in force. Never fails: parts that the kernel lacks are left out.
 */
void sandbox_enter(const struct sandbox_profile *profile, char out[SANDBOX_WORDS_BYTES]);

#endif
