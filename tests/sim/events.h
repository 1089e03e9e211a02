/*
 * The events of a run, besides the agents' own actions: faults, the applications' health, and
 * strangers who write to the registry. The seed determines the whole list before the run begins, so
 * that a failing run can be made smaller by leaving events out.
 */
#ifndef TESTS_SIM_EVENTS_H
#define TESTS_SIM_EVENTS_H

#include "tests/sim/agent.h"
#include "tests/sim/sim.h"
#include "tests/sim/world.h"

enum event_kind {
	EVENT_START, /* of an agent that is down */
	EVENT_STOP,
	EVENT_QUIT,
	EVENT_KILL,
	EVENT_UPGRADE,
	EVENT_RELOAD,
	EVENT_RELOAD_BAD,
	EVENT_LOSE_STATE,
	EVENT_NO_MEMORY,
	EVENT_HEALTH,
	EVENT_DRAIN,
	EVENT_CUT,
	EVENT_DROP,
	EVENT_BREAK_AFTER_CHANGE,
	EVENT_EXPIRE,
	EVENT_SLOW,
	EVENT_STALL,
	EVENT_REORDER,
	EVENT_REFUSE,
	EVENT_QUOTA,
	EVENT_STRANGER_WRITES,
	EVENT_STRANGER_DELETES,
	EVENT_WALL_CLOCK_JUMPS,
	EVENT_REMOVE_CONTAINER,
	EVENT_KINDS
};

struct event {
	int64_t at_ms; /* from the beginning */
	enum event_kind kind;
	int agent;
	uint64_t choice;    /* which path, which health … */
	int64_t for_ms;     /* how long it lasts */
	bool is_first_half; /* of those faults that come in two kinds */
};

struct events {
	struct event *items; /* by time */
	size_t count;
};

struct stage {
	struct world *world;
	struct net *net;
	struct sim_agent *agents[SIM_MOST];
	int64_t calm_from_ms;    /* when the effects of the last event should begin to settle */
	bool steady[SIM_AGENTS]; /* a record of its own, which nothing has endangered since */
	bool held[SIM_AGENTS];   /* by the last look */
	/*
	 * Of an agent in a container that was killed, or may no longer have its path: when its
	 * record has to be gone; 0: no such time.
	 */
	int64_t gone_ms[SIM_AGENTS];
	int64_t host_killed_ms;
	unsigned looks;           /* of the oracle */
	int64_t checked_ms;       /* when it has looked last */
	uint64_t checked_changes; /* of the registry by then */
	uint64_t watched_changes; /* by the last look of oracle_watch() */
};

void events_create(struct events *events, uint64_t seed, int64_t length_ms);
void events_destroy(struct events *events);
const char *event_name(enum event_kind kind);
void event_happen(const struct event *event, struct stage *stage);

/* Lets virtual time pass without events. */
void stage_pass(struct stage *stage, int64_t for_ms);

#endif
