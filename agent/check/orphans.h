/*
 * Finds processes that a health command left behind.
 *
 * A process that calls setsid and forks twice escapes its group, but not us: the agent is a child subreaper, so it
 * becomes our child when its parents are gone, and it still carries the environment variable that the
 * command was started with. One that has cleared its environment is known by not being in our session, where nobody
 * else has children that could become ours.
 *
 * Limits: where there is a main process, whose descendants may be like that too, such a one is not recognised. Nor is one
 * whose environment the kernel does not let us read (another user's, without CAP_SYS_PTRACE); without the kernel's list of
 * children (CONFIG_PROC_CHILDREN) nothing is.
 */
#ifndef AGENT_CHECK_ORPHANS_H
#define AGENT_CHECK_ORPHANS_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether all that will become our child descends from what we start: we have no children yet, and are no container's first process. */
bool check_orphans_may_claim(void);
/* From now on every child outside of our session that bears no marker is taken for an orphan of a command. */
void check_orphans_claim_unmarked(bool claim);

/* Kills every child of ours whose environment holds `marker` (NAME=value) and for which is_known() is false. True when there were any, or
 * may have been: their own children become ours when they are gone, so call again, a little later, until it is false. */
bool check_orphans_kill(const char *marker, bool (*is_known)(pid_t pid));

#endif
