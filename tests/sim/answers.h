/*
 * Holds each answer of an agent to a look-up against the history of the registry: it was true at
 * the moment that its age says, or later, a hit within the bound, and no answer about a path is
 * older than one before (order.h).
 */
#ifndef TESTS_SIM_ANSWERS_H
#define TESTS_SIM_ANSWERS_H

#include <jansson.h>

#include "lib/http/reader.h"
#include "tests/sim/known.h"
#include "tests/sim/order.h"
#include "tests/sim/world.h"

/* `confirm` of the agents, and the number of directories. */
enum { ANSWERS_CONFIRM_MS = 5000, ANSWER_DIRECTORIES = 2 };

/* Look-ups are for these paths. The directories are among them. */
extern const char *const answers_paths[ORDER_PATHS];
extern const char *const answers_directories[ANSWER_DIRECTORIES];
/* The element of answers_paths that is equal, or NULL. */
const char *answers_path(const char *path);
bool answers_is_directory(const char *path);

/* A list that an agent answered with, and its names. */
struct answer_names {
	char *body;
	char *text;
};

/* Of one agent. */
struct answers {
	const struct world *world;
	int agent;
	struct order order;
	struct known known;
	bool informed; /* the agent has been connected, or has what it knew when it was */
	struct answer_names names[ORDER_PATHS]; /* of the last list for each; it seldom changes */
};

void answers_init(struct answers *answers, const struct world *world, int agent);
void answers_finish(struct answers *answers);
/* Another process begins: it may have less behind it. */
void answers_forget(struct answers *answers);
/*
 * `path` is one of answers_paths; NULL for the status and for ADDRESSES_NAME. While all is calm,
 * nothing is stale.
 */
void answers_check(struct answers *answers, enum answer_kind kind, const char *path,
	int64_t asked_ms, bool calm, const struct http_reader *reader, const char *body);

/* The target of a request for it; valid until the next call. */
const char *answers_target(enum answer_kind kind, const char *path);

/* An answer that a reader found in the map. */
struct answers_found {
	enum answer_kind kind;
	const char *path;
	int error; /* 0, or an enum berth_error */
	const char *body;
	int64_t leased_ms;      /* when the lease held */
	struct order *order;    /* of the answers of the socket by then; NULL: of another process */
	struct order *readings; /* of what the reader has read and heard by then; or NULL */
};

/* It was true within `confirm` of that time, and is older than nothing that came before. */
void answers_check_found(struct answers *answers, const struct answers_found *found);

/*
 * An answer about ADDRESSES_NAME: its addresses, true at that time or later; NULL: no record has
 * the name.
 */
void answers_check_name(const struct answers *answers, const char *what, const char *addresses,
	int64_t not_before_ms);
/* An agent without any knowledge says nothing of what is absent. */
void answers_inform(struct answers *answers, bool informed);

/* Look-ups that had no answer when their connection ended. */
void answers_count_failures(size_t count);
/*
 * So many answers were checked since the program began: hits, stale ones, failures, and those of
 * the map.
 */
enum { ANSWERS_COUNTS = 4 };
void answers_counts(uint64_t ret_counts[ANSWERS_COUNTS]);

json_t *answers_read_json(const char *body);
/* Of the agent's status its components. */
json_t *answers_read_components(const char *status);

#endif
