/*
 * Flap damping, pure: a component that keeps going down is kept out until it has been quiet.
 *
 *   penalty   3 ┄┄┄┄┄┄┄┄╭╮┄┄┄┄┄┄┄┄┄┄ suppress: above it, held
 *                   ╭╮ ╱ ╲
 *               ╭╮ ╱ ╲╱   ╲
 *             1 ┄╲╱┄┄┄┄┄┄┄┄╲┄┄┄┄┄┄┄ reuse: below it, released
 *               down  down down
 *
 * Every down transition adds 1; the sum halves every half_life_ms. It delays only registrations:
 * the caller of damping_held() is about to register. A penalty never exceeds 4 times `suppress`, so
 * that a component which flapped all night is held for a bounded time once it is quiet.
 */
#ifndef AGENT_COMPONENT_DAMPING_H
#define AGENT_COMPONENT_DAMPING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct check_damping {
	double suppress;
	double reuse;
	int64_t half_life_ms;
	double penalty; /* as it was at updated_ms */
	int64_t updated_ms;
	bool suppressed; /* until the penalty falls below reuse */
};

/*
 * 0 < reuse <= suppress, half_life_ms > 0. Times are milliseconds of any clock that does not go
 * back.
 */
void damping_init(
	struct check_damping *damping, double suppress, double reuse, int64_t half_life_ms);

/* A component went down. */
void damping_down(struct check_damping *damping, int64_t now_ms);

/* Forgets the penalty. */
void damping_clear(struct check_damping *damping);

/* The penalty as it is now. */
double damping_penalty(const struct check_damping *damping, int64_t now_ms);

/* Whether the component has to stay out. */
bool damping_held(const struct check_damping *damping, int64_t now_ms);

/*
 * The first moment at which it will no longer be held if it stays quiet; now_ms when it is not
 * held.
 */
int64_t damping_release_ms(const struct check_damping *damping, int64_t now_ms);

/* The penalties, with times as ages. New reference. */
json_t *damping_save(const struct check_damping *damping, int64_t now_ms);
/*
 * Loads the penalties that were saved at `saved_ms` of this clock; false (and nothing changed) when
 * the shape is wrong.
 */
bool damping_load(struct check_damping *damping, const json_t *saved, int64_t saved_ms);

#endif
