/*
 * An agent's drain, as somebody knows it who orders drains: in force from the answer on until its
 * end by the wall clock, over restarts, upgrades and reloads.
 *
 *   SERVES --order--> UNSURE --204--> DRAINS --its end, or a further order--> SERVES
 *
 * UNSURE is also who was not answered, or whose agent died before its disk was sure to have it;
 * then the agent's own word counts.
 */
#ifndef TESTS_SIM_DRAIN_H
#define TESTS_SIM_DRAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct client;

enum sim_drain_state { SIM_SERVES, SIM_DRAINS, SIM_UNSURE };

struct sim_drain {
	enum sim_drain_state state;
	enum sim_drain_state ordered; /* while the order waits for its answer; UNSURE: none does */
	int64_t until_ms;             /* by the wall clock */
	int64_t changed_ms;           /* when it was ordered, or began or ended */
};

void sim_drain_init(struct sim_drain *drain);
/* Tells the agent to drain for a while, or no longer. */
void sim_drain_order(struct sim_drain *drain, struct client *client, uint64_t choice);
/* After each turn of a running agent: takes the answer, and the end. True: it began or ended. */
bool sim_drain_turn(struct sim_drain *drain, struct client *client);
/* The agent has died, or has no memory for a moment: what it did just before may be lost. */
void sim_drain_doubt(struct sim_drain *drain);
/* The state directory is empty. */
void sim_drain_forget(struct sim_drain *drain);
/* Holds `drain` of GET /v1/agent against what was ordered. */
void sim_drain_check(struct sim_drain *drain, int number, const json_t *said);

#endif
