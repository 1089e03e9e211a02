/*
 * All checks of a configuration. A check guards one component or several; it runs once, whatever
 * the number. The set makes the checks, keeps the equal ones over a reload, and finds them by name.
 * Loop thread only.
 */
#ifndef AGENT_CHECK_SET_H
#define AGENT_CHECK_SET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/check/check.h"
#include "agent/config/config.h"

struct check_set;

/* An empty set. `callbacks` are those of every check. */
struct check_set *check_set_create(
	struct check_scheduler *scheduler, const struct check_callbacks *callbacks);
/* Destroys the checks, too. Accepts NULL. */
void check_set_destroy(struct check_set *set);

/*
 * Makes the checks those of `config`. An equal check goes on undisturbed; a check that guards other
 * components than before keeps its state and its schedule, and a run under way is repeated. `saved`
 * is check_set_save() of a predecessor, or NULL.
 */
void check_set_arrange(struct check_set *set, const struct config *config, const json_t *saved);
/* {name: check_save()}; new reference. */
json_t *check_set_save(const struct check_set *set);

/* check_look_again() for each. Accepts NULL. */
void check_set_look_again(struct check_set *set);
/* Accepts NULL. */
size_t check_set_count(const struct check_set *set);
/* In the order of the configuration; NULL behind the last one. */
struct check *check_set_at(const struct check_set *set, size_t index);
/*
 * The next check that guards the component, from *index on, which moves behind it; NULL: no more.
 * Accepts NULL for the set.
 */
struct check *check_set_next_guard(
	const struct check_set *set, const struct config_component *component, size_t *index);
/* NULL when there is none. */
struct check *check_set_find(const struct check_set *set, const char *name);

#endif
