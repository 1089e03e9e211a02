/*
 * All records of one container, whatever has found them (container.h, guest.h): which of them the
 * host lets it have, at which rate, and what becomes of them.
 *
 *   a source adds claims and gives them their records --> bridge_claims_decide() --> publish.h
 */
#ifndef AGENT_BRIDGE_CLAIMS_H
#define AGENT_BRIDGE_CLAIMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/bridge/claim.h"
#include "agent/bridge/publish.h"
#include "agent/config/config.h"
#include "lib/base/list.h"

struct bridge_claims {
	struct bridge_publish *publish;
	struct bridge_account *account;
	const struct config_container *policy; /* borrowed; NULL: nothing is allowed */
	struct list all;                       /* in the order in which they were found */
	void *by_path;                         /* by_text.h */
	size_t count;
	size_t more;   /* records that were not taken up */
	double tokens; /* writes */
	int64_t tokens_at_ms;
	int64_t retry_at_ms; /* one of them waits for its time; 0: none */
};

/* `container` is the key of its account. No claim yet, and no policy. */
void bridge_claims_init(
	struct bridge_claims *claims, struct bridge_publish *publish, const char *container);
/* The claims are dropped; what is registered stays. */
void bridge_claims_finish(struct bridge_claims *claims);
/* Borrowed until the next one. All claims are judged again with it, by the next decision. */
void bridge_claims_set_policy(struct bridge_claims *claims, const struct config_container *policy);

struct bridge_claim *bridge_claims_find(const struct bridge_claims *claims, const char *path);
/* A new one, or the one that is there; NULL: there are too many. */
struct bridge_claim *bridge_claims_add(struct bridge_claims *claims, const char *path);
/*
 * Takes over what its source has read: the record as it is to be announced, or an error for which
 * there is none; neither when it was not read.
 */
void bridge_claims_take(struct bridge_claims *claims, struct bridge_claim *claim,
	const struct bridge_version *version, const char *data, size_t len,
	const struct err *mistake);
/* Its record is taken out. */
void bridge_claims_release(
	struct bridge_claims *claims, const struct bridge_claim *claim, const char *why);
void bridge_claims_drop(struct bridge_claims *claims, struct bridge_claim *claim);
/* The container may not have it now, or not have it in the registry. */
void bridge_claims_refuse(struct bridge_claims *claims, struct bridge_claim *claim,
	enum bridge_claim_state state, const char *why);
/* Not later than then, retry_at_ms. */
void bridge_claims_wake_at(struct bridge_claims *claims, int64_t at_ms);

/* The container's drain; NULL: nobody drains it. Borrowed until the next change of drains. */
const struct drain *bridge_claims_drain(const struct bridge_claims *claims);
/* Judges each claim, and publishes those that are good. */
void bridge_claims_decide(struct bridge_claims *claims, int64_t now_ms);
/* A path has become free, or something that the container gave up has gone. */
void bridge_claims_retry(struct bridge_claims *claims, int64_t now_ms);

/* A change of the container's state (`path` NULL), or of that of one of its records. */
void bridge_claims_report(const struct bridge_claims *claims, const char *path, const char *from,
	const char *to, const char *why);
/* path, state, why, since of each, and of those that are leaving. New reference. */
json_t *bridge_claims_json(const struct bridge_claims *claims);
/* Records that are not announced, by their state (an array of BRIDGE_CLAIM_STATES). */
void bridge_claims_count(const struct bridge_claims *claims, size_t *counts);

#endif
