/*
 * Health checks: the schedule, the results of runs, and the state that follows from them.
 *
 * A check is one [check] section at work, for one component or several. It runs by its schedule,
 * turns each result into a state through the pure machine of state.h and reports both through
 * callbacks. Until the first success it looks at once and, unless the configuration wants long
 * pauses, some more times within half a second. At most one run of a check is under way; of runs of
 * commands a scheduler has at most `max_parallel`, and the others wait (slot.h). Loop thread only.
 * Callbacks may not free the check or the scheduler.
 */
#ifndef AGENT_CHECK_CHECK_H
#define AGENT_CHECK_CHECK_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/check/result.h"
#include "agent/check/state.h"
#include "agent/config/config.h"
#include "lib/base/err.h"

struct check;
struct check_scheduler;

struct check_callbacks {
	/* After every run. `result` is borrowed for the call. */
	void (*on_result)(void *context, struct check *check, const struct check_result *result);
	/*
	 * After a change of check_condition_name(); `why` in words. Also, with `from` and `to` the
	 * same, when a failing check without a verdict yet fails for another reason than before.
	 */
	void (*on_change)(void *context, struct check *check, const char *from, const char *to,
		const char *why);
	/*
	 * A run that is due could not begin for an interval (check_overdue()), or begins after all;
	 * `why` says what holds it up. May be NULL.
	 */
	void (*on_overdue)(void *context, struct check *check, double waited_s, const char *why);
	void *context;
};

struct check_scheduler *check_scheduler_create(struct ev_loop *loop, int max_parallel);
void check_scheduler_set_max_parallel(struct check_scheduler *scheduler, int max_parallel);
/* All its checks must be destroyed before. Accepts NULL. */
void check_scheduler_destroy(struct check_scheduler *scheduler);

/* A component that the check guards, for BERTH_COMPONENT and BERTH_PATH. */
struct check_component {
	const char *label;
	const char *path; /* in the registry */
};

/*
 * Takes a reference to `config`. `components`: one at least. `saved` is the result of check_save(),
 * to go on after a restart or an upgrade, or NULL. The check does nothing before check_start().
 */
struct check *check_create(struct check_scheduler *scheduler, const struct config_check *config,
	const struct check_component *components, size_t component_count,
	const struct check_callbacks *callbacks, const json_t *saved);
/*
 * `jitter`: the schedule begins at a random point within the interval, a second at most, instead of
 * at once.
 */
void check_start(struct check *check, bool jitter);
/* The application has been started again: looks as at the start, unless the check is up. */
void check_look_again(struct check *check);
/*
 * Kills a run under way (its process group, at once) and forgets it; a caller that waits for the
 * run gets NULL. Accepts NULL.
 */
void check_destroy(struct check *check);

const struct config_check *check_config(const struct check *check);
/* The labels of its components, separated by blanks. */
const char *check_components(const struct check *check);
enum check_state check_get_state(const struct check *check);
/* Up, but the last good run was a warning. */
bool check_is_warning(const struct check *check);
/* A run that is due has not begun for an interval. */
bool check_overdue(const struct check *check);
/* "pending" "failing" (without a verdict yet) "up" "warning" (up, with a warning) "down" */
const char *check_condition_name(const struct check *check);
/*
 * The last line that the last run of a command printed, or an application reported; "" when there
 * is none.
 */
void check_last_line(const struct check *check, char *out, size_t size);
/* The last result; NULL before the first. */
const struct check_result *check_last(const struct check *check);
const char *check_why(const struct check *check);

/*
 * Runs now (or as soon as a run under way has ended and a slot is free); the schedule goes on from
 * there. `done` gets the result, which counts like any other, always from the loop; NULL when the
 * check is destroyed before. BERTH_FAILED for a ttl check, which only its application can report.
 */
typedef void check_run_done(void *context, struct check *check, const struct check_result *result);
int check_run_now(struct check *check, check_run_done *done, void *context, struct err *err)
	ERR_REQUIRED(4);
/* Forgets a `done` that was given to check_run_now() with this context. */
void check_run_forget(struct check *check, void *context);

/* A ttl check's report. BERTH_FAILED when it is not a ttl check. */
int check_report(struct check *check, enum check_verdict verdict, const char *output,
	struct err *err) ERR_REQUIRED(4);

/*
 * The check as GET /v1/agent/checks shows it; new reference: name, component (their labels in one
 * text), components (the same in an array), type, state, warning, since (of the state), why; last:
 * null or {verdict, detail, output, output_cut, started, duration}; counts: {verdict: number};
 * consecutive: {good, bad}; running; overdue; next_run: null while none is planned; for a ttl check
 * the time at which its silence counts. Times are wall clock seconds since 1970, durations seconds.
 */
json_t *check_json(const struct check *check);
/*
 * State, counts, last result and schedule, for a successor of the same version or a later one. New
 * reference.
 */
json_t *check_save(const struct check *check);

#endif
