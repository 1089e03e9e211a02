/*
 * The way out, phase by phase (enum agent_phase).
 */
#ifndef AGENT_LIFE_STOP_H
#define AGENT_LIFE_STOP_H

struct agent;

/* Before the others. */
void agent_stop_init(struct agent *agent);
/* Deregisters, lingers for drain_delay, stops the main process, ends the loop. */
void agent_stop(struct agent *agent, const char *why);
/* Stops the main process and ends the loop; leaves records and session to a successor. */
void agent_quit(struct agent *agent, const char *why);
/* Part of agent_reconsider(): enters the next phase when the present one is over. */
void agent_stop_proceed(struct agent *agent);

#endif
