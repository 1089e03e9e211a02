/*
 * Inside the names module.
 *
 *   names.c    from a name to the paths that it may mean, and the choice among them
 *   text.c     the text of names: labels, reverse names, names of paths
 *   collect.c  from a record to addresses, targets and texts
 *   nearness.c the order of an answer by nearness
 *   index.c    from what a record says to its path
 */
#ifndef AGENT_NAMES_INTERNAL_H
#define AGENT_NAMES_INTERNAL_H

#include "agent/names/names.h"

#define NAMES_MAX_LABELS 127 /* of one byte each, in the 253 bytes that a name may have */

/* A name taken apart: labels in lower case, the first one first, without the domain. */
struct names_labels {
	char text[NAMES_NAME_BYTES]; /* the labels point into it */
	const char *labels[NAMES_MAX_LABELS];
	size_t count;
};

/* Splits a name at its dots. False when a label is empty or too long, or the name is. */
bool names_split(struct names_labels *ret_labels, const char *name);

/* The inverse, in lower case and without a trailing dot. */
void names_join(char out[NAMES_NAME_BYTES], const struct names_labels *labels);

/* Takes the domain's labels off the end. False when the name is not below (or equal to) it. */
bool names_take_domain(struct names_labels *labels, const char *domain);

/* Reads 1.0.0.10.in-addr.arpa and its like. */
bool names_read_reverse(struct names_address *ret_address, const struct names_labels *labels);

/* ip-10-0-0-1 and ip6-20010db8000000000000000000000001 as labels. */
bool names_read_address_label(struct names_address *ret_address, const char *label);
void names_write_address_label(char out[64], const struct names_address *address);

/* Reads a literal address. */
bool names_read_address(struct names_address *ret_address, const char *text);
bool names_address_equal(const struct names_address *a, const struct names_address *b);

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

/* True when the name of the record has `address`. */
bool names_record_has(const struct record *record, const struct names_address *address);

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
uint64_t names_address_key(const struct names_address *address);
/* False when the label names no container. */
bool names_container_key(uint64_t *ret_key, const char *label);

/* True when an attribute's text, made a label, is `label`. */
bool names_attribute_is(const struct record *record, const char *attribute, const char *label);

#endif
