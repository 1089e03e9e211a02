/*
 * The last transitions of everything that changes state: why is this component (not) registered.
 */
#ifndef AGENT_BASE_HISTORY_H
#define AGENT_BASE_HISTORY_H

#include <jansson.h>

#define HISTORY_LENGTH 256

struct history;

struct history *history_create(void);
/* Accepts NULL. */
void history_destroy(struct history *history);

/* Adds a transition at `time` (wall clock, seconds since 1970); the oldest gives way. Texts are cut to a readable length. */
void history_add(struct history *history, double time, const char *subject, const char *from,
	const char *to, const char *why);

/* [{"time","subject","from","to","why"}], oldest first; new reference. */
json_t *history_json(const struct history *history);
/* Takes up what history_json() gave before a restart, as older than what is there; entries of a wrong shape are left out. */
void history_load(struct history *history, const json_t *saved);

#endif
