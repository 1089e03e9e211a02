/*
 * The domains that are answered from Registrar's nodes, for the DNS server: which one a question
 * belongs to, when its answer is known, and whether it is stale. Loop thread only.
 */
#ifndef AGENT_ZONE_ZONES_H
#define AGENT_ZONE_ZONES_H

#include <ev.h>
#include <jansson.h>

#include "agent/base/timer.h"
#include "agent/cache/cache.h"
#include "agent/zone/answer.h"

#define ZONE_PATIENCE_MS 2000

struct zones;

struct zone_options {
	const char *domain; /* in lower case; borrowed for the call */
	int unknown;        /* code for names that are not there: ns_r_refused or ns_r_nxdomain */
};

struct zone_question {
	const char *name; /* in any case */
	uint16_t type;
	unsigned rotation; /* with which instance the answer of a service begins */
};

struct zone_view {
	const char *domain;
	struct zone_answer answer; /* finish it */
	bool stale;                /* the registry is away, or was not heard lately */
};

/* A question that waits for its answer; in the caller's memory. */
struct zone_wait {
	/* zones_ask_now() has the answer. */
	void (*on_ready)(void *context);
	void *context;
	struct zones *zones; /* NULL: not under way; this and the rest are the module's */
	struct list link;
	struct cache_wait confirm;
	bool confirming;
	struct timer patience;
};

enum zone_verdict {
	ZONE_OUTSIDE, /* no domain of ours */
	ZONE_WAITING, /* wait->on_ready follows within ZONE_PATIENCE_MS */
	ZONE_ANSWERED /* the view's answer is there */
};

/* The cache says whether the registry was heard. */
struct zones *zones_create(struct ev_loop *loop, struct registry *registry, struct cache *cache);
/* No question may be waiting. Accepts NULL. */
void zones_destroy(struct zones *zones);
/* The domains from now on; those that stay keep what they know. */
void zones_set(struct zones *zones, const struct zone_options *options, size_t count);

/* With `wait` NULL nothing is begun: WAITING says that the question has to wait. */
enum zone_verdict zones_ask(struct zones *zones, const struct zone_question *question,
	struct zone_view *ret_view, struct zone_wait *wait);
/* An answer with what is known, SERVFAIL if that is nothing. Never WAITING. */
enum zone_verdict zones_ask_now(
	struct zones *zones, const struct zone_question *question, struct zone_view *ret_view);
/* Accepts a wait that is not under way. */
void zones_cancel(struct zone_wait *wait);

/* An array of {"domain","nodes","ready"}; new reference. */
json_t *zones_report(const struct zones *zones);

#endif
