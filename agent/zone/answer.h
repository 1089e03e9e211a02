/*
 * Answers from the nodes of a domain, equal to Binder's. Pure but for reading the tree.
 *
 * docs/DIALECTS.md has the rules. Two things differ from Binder: a type other than A, SRV and PTR
 * gets NODATA where Binder says that it has not implemented it, since some resolvers take that for
 * a broken server; a host without an IPv4 literal, of which Binder dies, has no address.
 */
#ifndef AGENT_ZONE_ANSWER_H
#define AGENT_ZONE_ANSWER_H

#include <stdint.h>

#include "agent/zone/tree.h"

#define ZONE_MAX_RECORDS 4096 /* of an answer; more do not fit into a message */

struct zone_record {
	uint16_t type; /* ns_t_a, ns_t_srv or ns_t_ptr */
	uint32_t ttl_s;
	uint8_t address[4];
	uint16_t port; /* of SRV: its priority is 0, its weight 10 */
	/* SRV and PTR: the target. A: the owner; NULL: the question's name. The tree's. */
	const struct zone_node *node;
};

struct zone_answer {
	int rcode; /* ns_r_noerror … */
	/* The owner of the SOA record in the authority section; "": there is none. */
	char soa_owner[ZONE_NAME_BYTES];
	uint32_t soa_ttl_s;
	struct zone_record *records; /* the answer section */
	size_t count;
	struct zone_record *glue; /* the additional section */
	size_t glue_count;
	bool holds; /* everything that was used is as far as the registry has heard */
};

/*
 * Answers a question for `name`, in any case, which is the domain or below it. `unknown` is the
 * code for names that are not there: ns_r_refused, as Binder has it, or ns_r_nxdomain. `rotation`
 * says with which instance the answer of a service begins. Finish the answer.
 */
void zone_answer_name(struct zone_answer *ret_answer, const struct zone_tree *tree,
	const char *name, uint16_t type, int unknown, unsigned rotation);
/* Answers the PTR question for an address; false, with nothing to finish: no host has it. */
bool zone_answer_address(
	struct zone_answer *ret_answer, const struct zone_tree *tree, const uint8_t address[4]);
void zone_answer_finish(struct zone_answer *answer);

#endif
