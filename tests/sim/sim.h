/*
 * The deterministic simulation: several agents on one registry, with virtual time, in one process.
 *
 *   events.c --by the seed--> agent.c (berthd, from main on) --> net.c (its worker)
 *                                 ^ commands (children.c), time (clock.c), |
 *                                 | randomness (random.c)                  v
 *                 oracle.c, answers.c  <------- history -------  world.c (the registry)
 *
 * There are two worlds. In the first one each agent has a session of its own. In that of one host
 * (--bridge) the agents are in containers, url = host:, and a fourth one bridges them:
 *
 *   agent.c, a container's --sockets.c: its socket----------> agent.c, the host's --> net.c
 *                          --the kernel: directory, locks, inotify--> '
 *
 * The agent's own code runs unchanged. The simulation cuts it at the frames that it exchanges with
 * its ZooKeeper worker, at commands, at the clock and epoll_wait(), and at randomness, so that a
 * seed determines the whole run. A run writes the same trace whenever it is repeated, in whatever
 * process.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- one run ---- */

/*
 * In the world of one host the agents are those of its containers, and one more is the host's,
 * which alone has a connection to the registry.
 */
enum { SIM_AGENTS = 3, SIM_HOST = SIM_AGENTS, SIM_MOST };

/* Begins a run: time 0, nothing failed, everything that is random follows from the seed. */
void sim_begin(uint64_t seed, bool trace, bool hash);
/* A line of the trace: into its hash, and to stdout, when they are wanted. */
void sim_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t sim_trace_hash(void);
/* Reads belong to the trace, too, which makes it long. */
bool sim_traces_reads(void);
/* Agents hand out maps, which readers read. */
bool sim_has_readers(void);
/* The agents are in containers of one host. */
bool sim_has_bridge(void);
/* How many agents there are, and whose session an agent's records are in. */
int sim_agent_count(void);
int sim_owner_of(int agent);
/* A promise is broken. The first one counts, and ends the run. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* NULL while all promises hold. */
const char *sim_failure(void);

#define SIM_GARBAGE "not a record"          /* what a stranger writes */
#define SIM_SHARED_NODE "//org/example/web" /* any agent may change it */

/* ---- random.c ---- */

/* A stream of its own, so that what one part draws does not change what another part does. */
struct sim_random {
	uint64_t state;
};

void sim_random_init(struct sim_random *random, uint64_t seed, uint64_t stream);
/* From 0 to count - 1. */
uint64_t sim_below(struct sim_random *random, uint64_t count);
bool sim_chance(struct sim_random *random, unsigned percent);
/* For the random numbers of the agents' own code. */
void sim_random_begin(uint64_t seed);

/* ---- clock.c ---- */

enum { SIM_SECOND = 1000, SIM_MINUTE = 60 * SIM_SECOND, SIM_HOUR = 60 * SIM_MINUTE };

int64_t sim_now_ms(void);
void sim_clock_begin(void);
int64_t sim_wall_ms(void);
/* The monotonic clock steps; it never goes back. */
void sim_clock_set(int64_t now_ms);
/* The wall clock jumps. */
void sim_clock_jump(int64_t by_ms);
/* Somebody polls: a microsecond passes. */
void sim_clock_poll(void);

#endif
