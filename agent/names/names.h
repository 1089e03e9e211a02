/*
 * Names: from a DNS name to the answer that the registry gives for it. One pure mapping for every
 * front end: the DNS server, GET /v1/names and through it `berth host` and the NSS module.
 *
 *   name --> registry paths that it may mean --> records (from the source) --> answer
 *
 * lib/names/meaning.h has the grammar.
 *
 * The module does no I/O. It asks a source for nodes, and the source may answer that a node is
 * still being read: the front end then waits and evaluates the name again from the start.
 */
#ifndef AGENT_NAMES_NAMES_H
#define AGENT_NAMES_NAMES_H

#include "agent/set/set.h"
#include "lib/names/meaning.h"

enum names_status {
	NAMES_FOUND, /* the name exists; it may still have nothing of the type that was asked for */
	NAMES_ABSENT,  /* the name does not exist */
	NAMES_PENDING, /* the source is reading */
	NAMES_UNKNOWN, /* unknown while the registry is away */
	NAMES_OUTSIDE  /* the name is not below the domain */
};

/* Where a record of an answer is. */
struct names_origin {
	unsigned rank; /* 0: where the name means; 1: at the first path of a failover … */
	char *zone;    /* its berth:zone; "" without */
	unsigned weight;
};

/* One endpoint address with a port. */
struct names_target {
	uint16_t priority;
	uint16_t weight; /* in a complete answer that of SRV: see names_scale_weights() */
	uint16_t port;
	char *name;                   /* a host name without trailing dot */
	struct names_address address; /* of the name, when it is one of ours; family 0: none */
	size_t from;                  /* the index of its record */
};

/* Caller's memory; owns what it points to. */
struct names_answer {
	enum names_status status;
	struct names_address *addresses; /* without repetition */
	size_t address_count;
	char *alias; /* NULL, or the one host name that is given in place of all but paths */
	struct names_target *targets;
	size_t target_count;
	char **texts; /* key=value */
	size_t text_count;
	char **pointers; /* names of the components that have the address asked for */
	size_t pointer_count;
	char **paths; /* of the records that the answer comes from */
	size_t path_count;
	struct names_origin *origins; /* of the same records; NULL for a reverse question */
	bool apex;                    /* the name is the domain itself */
};

/* How far the record with this index is from a zone; see render_tier(). */
unsigned names_tier(const struct names_answer *answer, size_t from, const char *zone);
/*
 * The indices of the targets, or the addresses, by nearness to a zone; NULL: as they are. Of
 * equally near targets those with a lower priority come first. free().
 */
size_t *names_order_targets(const struct names_answer *answer, const char *zone);
size_t *names_order_addresses(const struct names_answer *answer, const char *zone);
/* Priorities of the targets in this order, 0 for the nearest, without gaps. free(). */
uint16_t *names_priorities(const struct names_answer *answer, const char *zone);
/*
 * Adds what a further path says. An alias is alone in an answer: nothing is added to it, and it is
 * added to nothing.
 */
void names_answer_add(struct names_answer *answer, struct names_answer *further, unsigned rank);
/*
 * The weights of records become those of SRV, once all parts are together. HAProxy takes a 256th of
 * SRV's weight, rounded up, so that 1 and 3 would be the same: they become 256 and 768. Where all
 * that are not 0 are the same, they stay.
 */
void names_scale_weights(struct names_answer *answer);

/*
 * Evaluates `name` (as text, any case, with or without trailing dot) below `domain` (lower case,
 * without trailing dot). Names below in-addr.arpa and ip6.arpa are OUTSIDE unless a known record
 * claims that address. Fills *ret_answer, which names_answer_finish() frees.
 */
void names_evaluate(struct names_answer *ret_answer, const char *name, const char *domain,
	const struct names_source *source);
/* The answer of a set of the name: SET_OF_NAME. */
void names_write_set(struct names_answer *ret_answer, const struct set *set, const char *domain);
void names_answer_finish(struct names_answer *answer);

#endif
