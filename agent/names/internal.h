/*
 * Inside the names module.
 *
 *   names.c    from a name to its records, or to the records that have an address
 *   collect.c  from a record to addresses, targets and texts
 *   nearness.c the order of an answer by nearness
 *   index.c    from what a record says to its path
 */
#ifndef AGENT_NAMES_INTERNAL_H
#define AGENT_NAMES_INTERNAL_H

#include "agent/names/names.h"

/* The parts of an answer, without repetition; in the caller's memory. */
struct names_collector {
	struct names_answer *answer;
	const char *domain;
	const char *service; /* NULL: every endpoint, else those of this service */
	char *alias;         /* the first host name seen */
	bool many_aliases;   /* and another one */
};

/* Adds what `record` at `path` says. */
void names_collect(
	struct names_collector *collector, const char *path, const struct record *record);
/*
 * Decides the alias: it counts when it is the only name, and there is no address. The answer has
 * nothing but paths besides it.
 */
void names_collect_end(struct names_collector *collector);

/*
 * True when the record at `path` says that `address` is its own: its yarn:ip, or an endpoint's
 * below the container layout. A record elsewhere may point to a host that is not its writer's,
 * whose address must not lead back to it.
 */
bool names_record_claims(
	const char *path, const struct record *record, const struct names_address *address);

/*
 * The keys that records are found by: each address that the record at `path` claims, and the name
 * of a container, the last element of its path. Different things may have one key.
 */
void names_each_key(const char *path, const struct record *record,
	void (*visit)(void *context, uint64_t key), void *context);

#endif
