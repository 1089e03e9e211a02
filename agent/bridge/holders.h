/*
 * Which processes hold the locks of records, for all containers of an agent. The kernel has no
 * other answer than the list of all locks of the machine, and lets nobody lock or unlock while it
 * writes a page of it.
 *
 * So the list is read once when the bridge begins, and later only when owners have come that it
 * lacked: such a process has taken its lock since the reading, so it was not frozen at that time.
 * Strangers make the list as long as they like: it is read in slices.
 *
 * The kernel reports for no lock of an open file description which process took it. So an owner of
 * a record locks its file a second time, by flock(), and the list has the process of that lock in
 * the process ids of whoever reads it: in 0 processes where the agent does not see the container's.
 */
#ifndef AGENT_BRIDGE_HOLDERS_H
#define AGENT_BRIDGE_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A file that a process has locked. */
struct bridge_locked {
	uint64_t device;
	uint64_t inode;
	pid_t pid;
};

/* All zero at first. */
struct bridge_holders {
	bool reading; /* the list, which is not at its end */
	int fd;       /* of it */
	struct bridge_locked *found;
	size_t count;
};

/* Reads on, or the list anew, for about so long. True at its end. */
bool bridge_holders_read(struct bridge_holders *holders, int64_t limit_ns);
/* The process that holds the file; 0: none is known. */
pid_t bridge_holders_find(const struct bridge_holders *holders, uint64_t device, uint64_t inode);
/* Frees what was read; the next reading begins anew. */
void bridge_holders_forget(struct bridge_holders *holders);

#endif
