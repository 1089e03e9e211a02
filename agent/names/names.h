/*
 * Names: from a DNS name to the answer that the registry gives for it. One pure mapping for every
 * front end: the DNS server, GET /v1/names and through it `berth host` and the NSS module.
 *
 *   name --> registry paths that it may mean --> records (from the source) --> answer
 *
 * A path's elements in reverse order, then the domain: /services/db is db.services.berth. Below
 * /users the elements `users` and `components`, and Hadoop's level `services`, may be left out:
 *
 *   c1.components.prod.web.joe.users   /users/joe/web/prod/components/c1
 *   c1.prod.web.joe                    the same
 *   prod.web.joe                       the instance's own record and all its components
 *   c1.app.joe, worker.app.joe         Hadoop: the records below /users/joe/services/CLASS/app
 *                                      with description c1, or with yarn:component worker
 *   ctr-e50-1-1-1                      the record whose path ends so, among those that are known
 *   ip-10-0-0-1.NAME                   that address, when NAME has it: the target of an SRV answer
 *                                      when a record has several addresses
 *
 * A name that ends in NAME.net is one of the further registry NAME: the rules are the same for what
 * is before that, and all paths begin with /net/NAME.
 *
 * A name with a first part _SERVICE._tcp or _SERVICE._udp asks for the endpoints whose protocol, or
 * whose api's last part, is SERVICE.
 *
 * Before the name, and after a service, VALUE.ATTRIBUTE._attr asks for the records with that
 * attribute; there may be several: canary.track._attr.2.shard._attr.NAME.
 *
 * The module does no I/O. It asks a source for nodes, and the source may answer that a node is
 * still being read: the front end then waits and evaluates the name again from the start.
 */
#ifndef AGENT_NAMES_NAMES_H
#define AGENT_NAMES_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/path.h"
#include "lib/record/record.h"

/* A name as text, with its final NUL. */
#define NAMES_NAME_BYTES PATH_DNS_NAME_BYTES

enum names_known {
	NAMES_NODE_THERE,
	NAMES_NODE_ABSENT,
	NAMES_NODE_PENDING, /* being read */
	NAMES_NODE_UNKNOWN  /* never read, and the registry is away */
};

typedef void names_visit(void *context, const char *path, const struct record *record);

/*
 * The source of nodes: the cache, or a table in a test. Its results are borrowed during the call.
 */
struct names_source {
	void *context;
	/* *ret_record is NULL for a node without a record that can be read. */
	enum names_known (*node)(void *context, const char *path, const struct record **ret_record);
	/* Full paths, sorted. */
	enum names_known (*children)(
		void *context, const char *path, char *const **ret_paths, size_t *ret_count);
	/*
	 * Visits the records that are known without reading and that have the key (see
	 * names_each_key()), and perhaps others. THERE or PENDING.
	 */
	enum names_known (*each_known)(
		void *context, uint64_t key, names_visit *visit, void *visit_context);
};

enum names_status {
	NAMES_FOUND, /* the name exists; it may still have nothing of the type that was asked for */
	NAMES_ABSENT,  /* the name does not exist */
	NAMES_PENDING, /* the source is reading */
	NAMES_UNKNOWN, /* unknown while the registry is away */
	NAMES_OUTSIDE  /* the name is not below the domain */
};

struct names_address {
	int family; /* AF_INET or AF_INET6 */
	uint8_t bytes[16];
	size_t from; /* of an answer: the index of the first record that has it */
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
/* Is there an address, an alias or a target in it whose record has a weight other than 0? */
bool names_answer_serves(const struct names_answer *answer);
/*
 * The weights of records become those of SRV, once all parts are together. HAProxy takes a 256th of
 * SRV's weight, rounded up, so that 1 and 3 would be the same: they become 256 and 768. Where all
 * that are not 0 are the same, they stay.
 */
void names_scale_weights(struct names_answer *answer);

/*
 * Evaluates `name` (as text, any case, with or without trailing dot) below `domain` (lower case,
 * without trailing dot). Names below in-addr.arpa and ip6.arpa are OUTSIDE unless a known record
 * claims that address. All paths of the name lie below `root`, a path or "". Fills *ret_answer,
 * which names_answer_finish() frees.
 */
void names_evaluate(struct names_answer *ret_answer, const char *name, const char *domain,
	const char *root, const struct names_source *source);
void names_answer_finish(struct names_answer *answer);

#endif
