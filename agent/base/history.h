/*
 * The last transitions of everything that changes state: why is this component (not) registered. It
 * outlives upgrades and restarts (agent/core/event.c saves it).
 */
#ifndef AGENT_BASE_HISTORY_H
#define AGENT_BASE_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define HISTORY_LENGTH 256

/* A change of state, for log and history. Absent texts are NULL. */
struct transition {
	const char *component; /* the label of the component that it concerns */
	const char *subject;   /* "check alive", "component web", "registry" */
	const char *from;
	const char *to;
	const char *why;
	const char *output; /* the last line that a command printed: not for everybody */
	bool trouble;       /* a warning, whatever the name of the new state */
	/* an attempt that may repeat: a repetition counts instead of making a line of its own */
	bool retry;
	bool unlogged; /* for the history alone */
	bool limited;  /* its cause has a rate of lines of its own */
};

struct history;

struct history *history_create(void);
/* Accepts NULL. */
void history_destroy(struct history *history);

/*
 * Adds a transition at `time` (wall clock, seconds since 1970); the oldest gives way. Texts are cut
 * to a readable length. A retry that equals one of the last two entries of its subject moves that
 * entry to the end with the new time; an entry that stays in its state takes the new reason, too.
 * Returns how often this entry has happened.
 */
unsigned history_add(struct history *history, double time, const struct transition *transition);

/* The number of the last entry. Numbers rise; a repeated retry has that of its last time. */
uint64_t history_last(const struct history *history);

/*
 * [{"time","subject","from","to","why"}], oldest first, and where there is one "component"; of a
 * repeated retry "count" and "first", the time of the first; with_output: "output". New reference.
 */
json_t *history_json(const struct history *history, bool with_output);
/* The same for the entries whose number is greater than `after`. */
json_t *history_json_after(const struct history *history, uint64_t after, bool with_output);
/* The text of history_json() with output, to be freed. */
char *history_text(const struct history *history);
/*
 * Adds the result of history_json() from before a restart, as older entries; entries of a wrong
 * shape are left out.
 */
void history_load(struct history *history, const json_t *saved);

#endif
