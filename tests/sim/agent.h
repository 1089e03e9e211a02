/*
 * One simulated agent: berthd with a configuration, a state directory and a socket of its own, and
 * the application next to it that its checks ask for. An operator or the kernel reaches it
 * by signals.
 *
 *   DOWN --start--> RUNNING --TERM, QUIT--> STOPPING --exit--> DOWN
 *                      |--kill, out of memory--> DOWN
 */
#ifndef TESTS_SIM_AGENT_H
#define TESTS_SIM_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/client.h"
#include "tests/sim/drain.h"
#include "tests/sim/net.h"
#include "tests/sim/question.h"

enum sim_agent_component { SIM_OWN, SIM_SHARED, SIM_COMPONENTS };
/* A path that no container may have. */
#define SIM_FORBIDDEN "/services/forbidden"

struct sim_agent;

/* Where the files of all agents are, once for a process; makes the configurations. */
void sim_agents_begin(const char *folder);

struct sim_agent *sim_agent_create(
	struct net *net, const struct world *world, int number, uint64_t seed);
void sim_agent_destroy(struct sim_agent *agent);

void sim_agent_start(struct sim_agent *agent);
void sim_agent_stop(struct sim_agent *agent);
/* Ends, and leaves the session to a successor. */
void sim_agent_quit(struct sim_agent *agent);
void sim_agent_kill(struct sim_agent *agent);
/* Its service manager starts it. */
void sim_agent_start_later(struct sim_agent *agent, int64_t in_ms);
/* Its container is killed, and goes with all that is in it. */
void sim_agent_remove_container(struct sim_agent *agent);
void sim_agent_upgrade(struct sim_agent *agent);
/* Takes the other configuration of the two; or, with `bad`, one with a mistake for some time. */
void sim_agent_reload(struct sim_agent *agent);
void sim_agent_reload_bad(struct sim_agent *agent);
/* Its state directory is emptied while it is down. */
void sim_agent_lose_state(struct sim_agent *agent);
/* One of its next allocations fails, or one of the next after data that it reads has come. */
void sim_agent_fail_allocation(struct sim_agent *agent, uint64_t choice, bool after_read);
/* An operator drains it for a while, or ends that. */
void sim_agent_drain(struct sim_agent *agent, uint64_t choice);
/* The application works, or does not, or hangs. */
enum sim_health { SIM_WORKS, SIM_FAILS, SIM_HANGS };
void sim_agent_set_health(struct sim_agent *agent, enum sim_health health);

/* Runs the agent until it sleeps, and its clients, who ask less while all is calm. */
void sim_agent_turn(struct sim_agent *agent, bool calm);
/* Others may have changed files that it watches. */
void sim_agent_look_at_files(struct sim_agent *agent);
int64_t sim_agent_due_ms(const struct sim_agent *agent);

/* ---- for the oracle ---- */

bool sim_agent_is_running(const struct sim_agent *agent);
/* Since when it is down; INT64_MAX: it is not. */
int64_t sim_agent_down_ms(const struct sim_agent *agent);
/* Which of its configurations it has. */
unsigned sim_agent_configuration(const struct sim_agent *agent);
enum sim_health sim_agent_health(const struct sim_agent *agent);
/* It runs, its application works, and nobody drains it. */
bool sim_agent_serves(const struct sim_agent *agent);
struct sim_drain *sim_agent_drain_of(struct sim_agent *agent);
/* Since when the application works, or does not. */
int64_t sim_agent_health_ms(const struct sim_agent *agent);
const char *sim_agent_path(const struct sim_agent *agent, enum sim_agent_component component);
/* The content that its record must have by its present configuration. */
const char *sim_agent_mark(const struct sim_agent *agent);
/* When something last happened to it that may delay what it does. */
int64_t sim_agent_disturbed_ms(const struct sim_agent *agent);
/* When it was connected to the registry last; now, while it is. */
int64_t sim_agent_connected_ms(const struct sim_agent *agent);
void sim_agent_disturb(struct sim_agent *agent);
struct client *sim_agent_client(struct sim_agent *agent);
/* The answer to GET at this moment, as client_ask(); NULL: none, as while it is down. */
json_t *sim_agent_ask(
	struct sim_agent *agent, const char *target, json_t *(*read)(const char *body));
/* ADDRESSES_NAME by its DNS server, as question_ask() does. */
struct question_answer sim_agent_ask_name(struct sim_agent *agent, bool tcp);
/* The file that it writes. Valid until the next call. */
#define SIM_OUTPUT "web.txt"
const char *sim_agent_output(const struct sim_agent *agent);
/* A file below its folder. */
const char *sim_agent_file(const struct sim_agent *agent, const char *name);

#endif
