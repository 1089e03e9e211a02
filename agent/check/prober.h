/*
 * berth-probe as the agent sees it: one child asks servers over TLS and HTTP/2 for all checks.
 *
 *   (none) --a question, or its program again--> STARTING --READY--> SERVES
 *      ^                                             |                 |
 *      '--- it ended, or says nothing for a while: killed; a pause ----'
 *
 * The questions that a child leaves behind are the next one's: its end says nothing about a server.
 * A question that has lost several children is asked alone, so that it takes no others with it; the
 * fifth loss is its answer. The agent keeps the child's program open, as that of the looker.
 */
#ifndef AGENT_CHECK_PROBER_H
#define AGENT_CHECK_PROBER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/probe/protocol.h"

struct check_prober;
struct check_question;

struct check_prober_ask {
	unsigned flags;          /* PROBE_GRPC … */
	const char *authorities; /* PEM; NULL: none */
	const char *certificate;
	const char *key;
	const char *port;
	const char *addresses; /* numeric, separated by commas */
	const char *name;      /* that the certificate must have */
	const char *method;
	const char *path;
	const char *fields; /* lines */
	const char *body;   /* or gRPC's service */
	int64_t timeout_ms; /* from when it is asked; it may wait before */
};

/* All borrowed by the call. */
struct check_prober_answer {
	enum probe_outcome outcome;
	int status;
	const char *reason; /* "": none */
	const char *fields;
	size_t fields_len;
	const char *body;
	size_t body_len;
};

/* Starts no child yet. */
struct check_prober *check_prober_create(struct ev_loop *loop);
/* Without questions. Accepts NULL. */
void check_prober_destroy(struct check_prober *prober);

/*
 * The answer comes once, from the loop. The texts of `ask` are borrowed until then, its addresses
 * copied.
 */
struct check_question *check_prober_start(struct check_prober *prober,
	const struct check_prober_ask *ask,
	void (*on_answer)(void *context, const struct check_prober_answer *answer), void *context);
/* No answer comes. */
void check_prober_abandon(struct check_question *question);

/* Checks that may ask: without any there is no child. */
void check_prober_use(struct check_prober *prober);
void check_prober_unuse(struct check_prober *prober);

#endif
