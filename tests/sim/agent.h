/*
 * One simulated agent: the parts of berthd from the configuration to announcements, cache and
 * names, wired as agent/agent_*.c wires them, on an event loop of its own; and clients that ask it.
 *
 *   DOWN --start--> RUNNING --stop--> STOPPING --records withdrawn, or no time left--> DOWN
 *                      |--kill, upgrade (which starts at once)--> DOWN
 */
#ifndef TESTS_SIM_AGENT_H
#define TESTS_SIM_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/component/announce.h"
#include "tests/sim/net.h"

enum sim_agent_component { SIM_OWN, SIM_SHARED, SIM_COMPONENTS };

struct sim_agent;

/* Writes the configurations of all agents, once for a process. */
void sim_agents_configure(const char *folder);

struct sim_agent *sim_agent_create(
	struct net *net, const struct world *world, int number, uint64_t seed);
void sim_agent_destroy(struct sim_agent *agent);

void sim_agent_start(struct sim_agent *agent);
void sim_agent_stop(struct sim_agent *agent);
void sim_agent_kill(struct sim_agent *agent);
void sim_agent_upgrade(struct sim_agent *agent);
/* Takes the other configuration of the two. */
void sim_agent_reload(struct sim_agent *agent);
/* The application works, or does not, or hangs. */
enum sim_health { SIM_WORKS, SIM_FAILS, SIM_HANGS };
void sim_agent_set_health(struct sim_agent *agent, enum sim_health health);

/* Runs the loop until it sleeps. */
void sim_agent_turn(struct sim_agent *agent);
int64_t sim_agent_due_ms(const struct sim_agent *agent);

/* ---- for commands ---- */

struct sim_run {
	bool fails_to_start;
	int64_t takes_ms;
	int status;
};

struct sim_run sim_agent_run(struct sim_agent *agent);

/* ---- for the oracle ---- */

bool sim_agent_is_running(const struct sim_agent *agent);
enum sim_health sim_agent_health(const struct sim_agent *agent);
const char *sim_agent_path(const struct sim_agent *agent, enum sim_agent_component component);
/* The content that its record must have by its present configuration. */
const char *sim_agent_mark(const struct sim_agent *agent);
enum announce_state sim_agent_state(
	const struct sim_agent *agent, enum sim_agent_component component);
/* When something last happened to it that may delay what it does. */
int64_t sim_agent_disturbed_ms(const struct sim_agent *agent);
void sim_agent_disturb(struct sim_agent *agent);
/*
 * The replayed picture of an event stream below /users: NULL while there is none; the record or
 * "null".
 */
bool sim_agent_stream_ready(const struct sim_agent *agent);
size_t sim_agent_stream_count(const struct sim_agent *agent);
const char *sim_agent_stream_record(const struct sim_agent *agent, const char *path);

#endif
