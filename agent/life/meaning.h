/*
 * The meaning of a signal to the agent.
 *
 *   TERM, INT   stop; with a main process the signals of [agent] stop_on do, and no others
 *   HUP, USR2   reload, upgrade
 *   QUIT        leave the session to a successor, unless stop_on has it, or there is a main process
 *               and nothing to be left
 *   others      are the main process's
 */
#ifndef AGENT_LIFE_MEANING_H
#define AGENT_LIFE_MEANING_H

#include <stdbool.h>

#include "agent/config/config.h"

struct agent;

enum agent_meaning {
	AGENT_MEANS_STOP,
	AGENT_MEANS_HAND_OVER,
	AGENT_MEANS_RELOAD,
	AGENT_MEANS_UPGRADE,
	AGENT_MEANS_PROGRAM /* the main process, if there is one */
};

/*
 * Once for each signal it warns where the first process of a container got one that does not stop
 * it in order, but may have been meant to: images inherit the stop signals of their bases.
 */
enum agent_meaning agent_meaning_of(struct agent *agent, int signal_number);

/*
 * Before the loop runs, while the signals are blocked: one of those that mean the end is pending,
 * be it a stop or a hand-over. `config` NULL: it is not known yet.
 */
bool agent_is_asked_to_end(const struct config *config);

#endif
