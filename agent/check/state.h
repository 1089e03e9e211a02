/*
 * From results to a state: the pure machine behind every check. No clock, no loop, no I/O.
 *
 *                    `rise` good in a row
 *      PENDING ───────────────────────────────▶ UP ◀── start, with initial = passing
 *       ▲   │                                  │  ▲
 *       │   │                      `fall` bad  │  │ `rise` good in a row
 *       │   │                                  ▼  │
 *       │   └────────────────────────────────▶ DOWN
 *     start, with        `fall` bad
 *     initial = failing
 *
 * `fall` bad means: in a row, or, with a window, within the last window_ms with good results
 * between them or not. A change of state resets the counts, so that one failure after a recovery
 * counts as one. PENDING is not a verdict yet: a record of the process's predecessor stays in the
 * registry until there is one. DOWN is a verdict. Until start_grace_ms have passed since the start,
 * or the first good result came, bad results do not count.
 */
#ifndef AGENT_CHECK_STATE_H
#define AGENT_CHECK_STATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum check_state {
	CHECK_STATE_PENDING, /* no verdict yet */
	CHECK_STATE_UP,
	CHECK_STATE_DOWN
};

const char *check_state_name(enum check_state state); /* "pending" "up" "down" */
/* -1 for an unknown name. */
int check_state_from_name(const char *name);

struct check_state_rules {
	int rise; /* at least 1, as is */
	int fall;
	int64_t window_ms; /* 0: failures in a row count */
	int64_t start_grace_ms;
	bool initial_passing;
};

struct check_state_machine {
	struct check_state_rules rules;
	enum check_state state;
	bool grace; /* not over yet: no good result so far */
	int64_t started_ms;
	int good; /* in a row, up to now; the other one is 0 */
	int bad;
	int64_t *failures; /* ring of `fall` times, used with a window */
	int failure_count;
	int failure_next;
};

/* The times given to a machine are milliseconds of any clock that does not go back. */
void check_state_init(
	struct check_state_machine *machine, const struct check_state_rules *rules, int64_t now_ms);
void check_state_finish(struct check_state_machine *machine);

/* Takes one result; returns the state that follows. */
enum check_state check_state_step(struct check_state_machine *machine, bool good, int64_t now_ms);

/*
 * Between two states: results against the present state have been counted, but not enough of them.
 */
bool check_state_changing(const struct check_state_machine *machine);

/* All but the rules, with times as ages, so that another clock can take it up. New reference. */
json_t *check_state_save(const struct check_state_machine *machine, int64_t now_ms);
/*
 * Loads the state that was saved at `saved_ms` of this clock into a new machine; false (and the
 * machine untouched) when the shape is wrong.
 */
bool check_state_restore(
	struct check_state_machine *machine, const json_t *saved, int64_t saved_ms);

#endif
