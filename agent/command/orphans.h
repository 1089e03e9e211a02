/*
 * Finds processes that a command left behind.
 *
 * A process that calls setsid and forks twice escapes its group, but not the agent: the agent is a
 * child subreaper, so the process becomes its child when its parents are gone, and it still carries
 * the environment variable that the command was started with. A process that has cleared its
 * environment is known by its session, which is not the agent's: no other process has children that
 * could become the agent's.
 *
 * Limits: next to a main process, whose descendants may do the same, the agent does not recognise
 * such a process. It recognises no process whose environment the kernel does not let it read
 * (another user's, without CAP_SYS_PTRACE), and no process at all without the kernel's list of
 * children (CONFIG_PROC_CHILDREN).
 */
#ifndef AGENT_COMMAND_ORPHANS_H
#define AGENT_COMMAND_ORPHANS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * True when every child that the agent will ever get descends from a process that it starts: it has
 * no children yet, and it is not the first process of a container.
 */
bool command_orphans_may_claim(void);
/*
 * From now on a child outside the agent's session that bears no marker counts as an orphan of a
 * command.
 */
void command_orphans_claim_unmarked(bool claim);

/*
 * Kills every child of the agent whose environment holds `marker` (NAME=value) and for which
 * is_known() is false. True when there were any, or may have been: their own children become the
 * agent's when they are gone, so the caller tries again, a little later, until this returns false.
 */
bool command_orphans_kill(const char *marker, bool (*is_known)(pid_t pid));

/*
 * Reads /proc/PID/stat of a process whose environment reads as empty: false when it is empty. For
 * tests, too: the name in it may hold anything.
 */
bool command_orphans_stat_has_environment(const char *stat);

#endif
