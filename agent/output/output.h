/*
 * Outputs: files and proxies that follow the registry.
 *
 * An output follows a set (agent/set/set.h, which has the rules). When changes have settled, and
 * the registry confirms them, it makes the content of its file from it and puts the file in place;
 * or it tells HAProxy over the runtime socket.
 *
 *   WAITING ----set----> SETTLING --quiet--> CONFIRMING -> RENDERING -> CHECKING -> NOTIFYING
 *      ^                  ^  ^  ^            ^  |  |  |        |           |          |   |
 *      |                  |  |  |   RESOLVING+<-+  |  |        |           |          |   |
 *      +--registry away---|--|--|------------------+  |too few | failed    |          |   |
 *                         |  |  +--change-- HELD <----+        v           v          |   v
 *                         |  +--change, time to try again-- FAILED <-------+----------+  CURRENT
 *                         +--change-------------------------------------------------------+
 *
 * WRITING comes before CHECKING, and again before NOTIFYING: a child puts the file in place. A step
 * that the configuration does not ask for is passed over. A change that comes during a step
 * is taken up behind it, so that no command runs twice at once and the last state is always
 * delivered.
 *
 * A file is replaced as a whole or not at all, and only while the registry confirms the nearest
 * path. Equal content is not written.
 */
#ifndef AGENT_OUTPUT_OUTPUT_H
#define AGENT_OUTPUT_OUTPUT_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/file_queue.h"
#include "agent/config/config.h"
#include "agent/set/set.h"

enum output_state {
	OUTPUT_WAITING,    /* for a set, or for the registry to answer again */
	OUTPUT_SETTLING,   /* a change came, and more may follow */
	OUTPUT_CONFIRMING, /* the registry is asked whether the set holds */
	OUTPUT_RESOLVING,  /* host names are looked up */
	OUTPUT_RENDERING,  /* the render command runs */
	OUTPUT_WRITING,    /* the new file is on its way to the disk */
	OUTPUT_CHECKING,   /* the check command looks at the new file */
	OUTPUT_NOTIFYING,  /* on_change runs, or HAProxy gets its commands */
	OUTPUT_CURRENT,    /* the file agrees with the registry */
	OUTPUT_HELD,       /* the file stays as it is: there are too few instances */
	OUTPUT_FAILED      /* the last attempt failed; another one follows */
};

struct output;

struct output_callbacks {
	/* The state or its reason changed. */
	void (*on_state)(void *context, const struct output *output);
	/* output_delivered() changed: it is to be saved. */
	void (*on_delivered)(void *context, const struct output *output);
	void *context;
};

struct output_counts {
	uint64_t writes;   /* files put in place, or rounds of commands to HAProxy */
	uint64_t runs;     /* of on_change */
	uint64_t failures; /* of any step */
};

struct output_options {
	struct ev_loop *loop;
	struct sets *sets;
	struct file_queue *files;
	const struct config_output *config; /* the output holds a reference to the whole */
	const char *domain;                 /* of names in the format hosts; copied */
	const char *zone;                   /* the own one, for nearness; copied */
	const char
		*state_dir; /* for what write = in-place needs; NULL: it cannot be used; copied */
	const char *delivered; /* from output_delivered() before a restart; NULL */
	struct output_callbacks callbacks;
};

struct output *output_create(const struct output_options *options);
/* Kills a command that runs. Accepts NULL. */
void output_destroy(struct output *output);

const struct config_output *output_config(const struct output *output);
enum output_state output_state(const struct output *output);
const char *output_state_name(enum output_state state);
/* Whether the state lasts until something happens: WAITING, CURRENT, HELD or FAILED. */
bool output_state_is_lasting(enum output_state state);
/* Why it is in this state, or what CURRENT leaves out; "" when that needs no words. */
const char *output_why(const struct output *output);
/* The last line that a command printed which failed, not for everybody; "" without. */
const char *output_printed(const struct output *output);
/* Which content on_change was run for last, as a word; "" when it must run again. */
const char *output_delivered(const struct output *output);
size_t output_instances(const struct output *output);
const struct output_counts *output_counts(const struct output *output);
/*
 * {name, format, path or socket, state, why, since, instances, writes, runs, failures}; a new
 * reference.
 */
json_t *output_json(const struct output *output);

#endif
