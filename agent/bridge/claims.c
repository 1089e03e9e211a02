#include "agent/bridge/claims.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/by_text.h"
#include "agent/bridge/policy.h"
#include "lib/base/clock.h"
#include "lib/base/quote.h"
#include "lib/base/text.h"

enum { MORE_CLAIMS = 64 /* records beyond the allowed number that are named as refused */ };

void bridge_claims_init(
	struct bridge_claims *claims, struct bridge_publish *publish, const char *container)
{
	*claims = (struct bridge_claims){ .publish = publish,
		.account = bridge_accounts_refer(bridge_publish_accounts(publish), container),
		.tokens_at_ms = clock_monotonic_ms() };
	list_init(&claims->all);
}

void bridge_claims_finish(struct bridge_claims *claims)
{
	while (!list_empty(&claims->all)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
		bridge_claims_drop(claims, LIST_ITEM(claims->all.next, struct bridge_claim, link));
	}
	bridge_accounts_release(bridge_publish_accounts(claims->publish), claims->account);
}

void bridge_claims_set_policy(struct bridge_claims *claims, const struct config_container *policy)
{
	bool first = !claims->policy;
	claims->policy = policy;
	if (first && policy) {
		claims->tokens = policy->rate;
	}
	for (struct list *at = claims->all.next; at != &claims->all; at = at->next) {
		LIST_ITEM(at, struct bridge_claim, link)->changed = true;
	}
}

struct bridge_claim *bridge_claims_find(const struct bridge_claims *claims, const char *path)
{
	return by_text_find(&claims->by_path, path);
}

struct bridge_claim *bridge_claims_add(struct bridge_claims *claims, const char *path)
{
	size_t most = (size_t)(claims->policy ? claims->policy->max_records : 0) + MORE_CLAIMS;
	struct bridge_claim *claim = bridge_claims_find(claims, path);
	if (claim) {
		return claim;
	}
	if (claims->count >= most) {
		claims->more++;
		return NULL;
	}
	claim = bridge_claim_create(path);
	by_text_add(&claims->by_path, claim);
	list_append(&claims->all, &claim->link);
	claims->count++;
	return claim;
}

/* The record that is announced for it; NULL: none. */
static const char *announced(const struct bridge_claims *claims, const struct bridge_claim *claim)
{
	const struct announce *announce = bridge_publish_find(
		claims->publish, claim->path, claims->account->container);
	return announce ? announce_text(announce) : NULL;
}

void bridge_claims_take(struct bridge_claims *claims, struct bridge_claim *claim,
	const struct bridge_version *version, const char *data, size_t len,
	const struct err *mistake)
{
	bool spoilt = mistake && mistake->code;
	const char *before = !claim->good ? NULL
		: claim->data             ? claim->data
					  : announced(claims, claim);
	char *text = data && !spoilt ? bridge_publish_mark(claims->publish, claim->path, data, len)
				     : NULL;
	claim->version = *version;
	free(claim->mistake);
	claim->mistake = spoilt
		? (struct err *)allocate_bytes((const char *)mistake, sizeof(*mistake))
		: NULL;
	claim->good = text;
	claim->len = text ? len : 0;
	if (text && before && strcmp(text, before) == 0) {
		free(text);
		return;
	}
	claim->changed = true;
	free(claim->data);
	claim->data = text;
}

void bridge_claims_release(
	struct bridge_claims *claims, const struct bridge_claim *claim, const char *why)
{
	bridge_publish_release(claims->publish, claim->path, claims->account->container, why);
}

void bridge_claims_drop(struct bridge_claims *claims, struct bridge_claim *claim)
{
	by_text_remove(&claims->by_path, claim);
	claims->count--;
	bridge_claim_free(claim);
}

/* ---- judging ---- */

const struct drain *bridge_claims_drain(const struct bridge_claims *claims)
{
	return bridge_publish_drain(claims->publish, claims->account->name);
}

static void refill(struct bridge_claims *claims, int64_t now_ms)
{
	double passed_s = (double)(now_ms - claims->tokens_at_ms) / 1000.0;
	double rate = claims->policy ? claims->policy->rate : 1;
	claims->tokens_at_ms = now_ms;
	claims->tokens += passed_s * rate;
	claims->tokens = claims->tokens > rate ? rate : claims->tokens;
}

void bridge_claims_refuse(struct bridge_claims *claims, struct bridge_claim *claim,
	enum bridge_claim_state state, const char *why)
{
	const char *from = claim->state == BRIDGE_CLAIM_NEW ? "absent"
		: claim->state == BRIDGE_CLAIM_HELD         ? "registered"
							    : bridge_claim_state_name(claim->state);
	const char *text = claim->good && !claim->data ? announced(claims, claim) : NULL;
	if (text) {
		claim->data = allocate_text(text);
	}
	bridge_claims_release(claims, claim, why);
	claim->changed = true; /* if it is accepted one day */
	if (bridge_claim_set_state(claim, state, why)) {
		bridge_claims_report(
			claims, claim->path, from, bridge_claim_state_name(state), why);
	}
}

void bridge_claims_wake_at(struct bridge_claims *claims, int64_t at_ms)
{
	if (claims->retry_at_ms == 0 || at_ms < claims->retry_at_ms) {
		claims->retry_at_ms = at_ms;
	}
}

/* The sums over the records that were accepted before this one. */
struct sums {
	size_t records;
	size_t bytes;
};

/* Why the container may not have this record; 0: it may. */
static int judge(const struct bridge_claims *claims, const struct bridge_claim *claim,
	const struct sums *sums, struct err *err)
{
	const struct config_container *policy = claims->policy;
	if (!policy) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS, "no [container] matches %s",
			bridge_policy_plain_name(claims->account->name));
	}
	if (policy->awaits) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS,
			"[container %s] waits for an address: %s", policy->glob, policy->awaits);
	}
	if (!bridge_policy_allows(policy, claim->path)) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS,
			"`allow` of [container %s] does not have the path", policy->glob);
	}
	if (!claim->good && claim->unread) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "%s of [container %s]",
			claim->mistake ? claim->mistake->msg : "", policy->glob);
	}
	if (!claim->good) {
		/* An error of a record has a name that clients know; one of labels has none. */
		bool named = claim->mistake->code != BERTH_FAILED;
		return err_set(err, claim->mistake->code, "%s%s%s",
			named ? berth_error_name(claim->mistake->code) : "", named ? ": " : "",
			claim->mistake->msg);
	}
	if (sums->records >= (size_t)policy->max_records) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "max_records = %d of [container %s]",
			policy->max_records, policy->glob);
	}
	if (sums->bytes + claim->len > policy->max_bytes) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "max_bytes = %zu of [container %s]",
			policy->max_bytes, policy->glob);
	}
	return 0;
}

static void be_refused(
	struct bridge_claims *claims, struct bridge_claim *claim, const struct err *err)
{
	if (err->code == BERTH_REGISTRY_UNAVAILABLE) {
		(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_WAITING, err->msg);
	} else {
		bridge_claims_refuse(claims, claim,
			err->code == BERTH_FILE_ALREADY_EXISTS ? BRIDGE_CLAIM_CONFLICT
							       : BRIDGE_CLAIM_REFUSED,
			err->msg);
	}
}

static void publish(struct bridge_claims *claims, struct bridge_claim *claim, int64_t now_ms)
{
	struct err err = ERR_INIT;
	const char *container = claims->account->container;
	bool free_of_charge = bridge_publish_inherits(claims->publish, claim->path, container);
	if (claims->tokens < 1 && !free_of_charge) {
		double missing = 1 - claims->tokens;
		bridge_claims_wake_at(
			claims, now_ms + 1 + (int64_t)(missing * 1000 / claims->policy->rate));
		if (claim->state != BRIDGE_CLAIM_HELD) {
			(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_WAITING,
				"the container writes faster than its rate");
		}
		return;
	}
	if (bridge_publish_claim(claims->publish, claims->policy, claim->path, container,
		    claim->data, claim->len, &err)) {
		be_refused(claims, claim, &err);
		return;
	}
	free(claim->data);
	claim->data = NULL;
	claims->tokens -= free_of_charge ? 0 : 1;
	claim->changed = false;
	(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_HELD, "");
}

static void decide(
	struct bridge_claims *claims, struct bridge_claim *claim, struct sums *sums, int64_t now_ms)
{
	struct err err = ERR_INIT;
	const struct drain *drain = bridge_claims_drain(claims);
	if (!claim->good && !claim->mistake && bridge_policy_allows(claims->policy, claim->path)) {
		return; /* it has not been read yet */
	}
	if (judge(claims, claim, sums, &err)) {
		bridge_claims_refuse(claims, claim, BRIDGE_CLAIM_REFUSED, err.msg);
		return;
	}
	sums->records++;
	sums->bytes += claim->len;
	if (claim->frozen && claim->state != BRIDGE_CLAIM_LINGERING) {
		char why[sizeof(struct quoted) + 64];
		text_printf(why, sizeof(why), "its owner is frozen, with the control group %s",
			quote_text(kept_text(claim->group)).text);
		bridge_claims_refuse(claims, claim, BRIDGE_CLAIM_FROZEN, why);
	} else if (drain) {
		char why[sizeof(drain->reason) + 16];
		drain_describe(drain, why, sizeof(why));
		bridge_claims_refuse(claims, claim, BRIDGE_CLAIM_WITHHELD, why);
	} else if (claim->hold == BRIDGE_HOLD_OUT) {
		bridge_claims_refuse(
			claims, claim, BRIDGE_CLAIM_WITHHELD, kept_text(claim->hold_why));
	} else if (claim->hold == BRIDGE_HOLD_AS_IT_IS && claim->state != BRIDGE_CLAIM_HELD) {
		(void)bridge_claim_set_state(
			claim, BRIDGE_CLAIM_WITHHELD, kept_text(claim->hold_why));
	} else if (claim->changed && claim->data && claim->state != BRIDGE_CLAIM_LINGERING) {
		publish(claims, claim, now_ms);
	}
}

void bridge_claims_decide(struct bridge_claims *claims, int64_t now_ms)
{
	struct sums sums = { 0 };
	refill(claims, now_ms);
	for (struct list *at = claims->all.next; at != &claims->all; at = at->next) {
		decide(claims, LIST_ITEM(at, struct bridge_claim, link), &sums, now_ms);
	}
}

void bridge_claims_retry(struct bridge_claims *claims, int64_t now_ms)
{
	bool any = false;
	for (const struct list *at = claims->all.next; at != &claims->all && !any; at = at->next) {
		enum bridge_claim_state state = LIST_ITEM(at, struct bridge_claim, link)->state;
		any = state == BRIDGE_CLAIM_CONFLICT || state == BRIDGE_CLAIM_WAITING;
	}
	if (any) {
		bridge_claims_decide(claims, now_ms);
	}
}

/* ---- report ---- */

void bridge_claims_report(const struct bridge_claims *claims, const char *path, const char *from,
	const char *to, const char *why)
{
	const struct bridge_event event = { .path = path, .from = from, .to = to, .why = why };
	bridge_accounts_report(bridge_publish_accounts(claims->publish), claims->account, &event);
}

static json_t *announce_json(const char *path, const struct announce *announce)
{
	return json_pack("{s:s, s:s, s:s, s:f}", "path", path, "state",
		announce_state_name(announce_get_state(announce)), "why", announce_why(announce),
		"since", announce_since(announce));
}

static json_t *claim_json(const struct bridge_claims *claims, const struct bridge_claim *claim)
{
	const struct announce *announce = claim->state == BRIDGE_CLAIM_HELD
		? bridge_publish_find(claims->publish, claim->path, claims->account->container)
		: NULL;
	return announce ? announce_json(claim->path, announce)
			: json_pack("{s:s, s:s, s:s, s:f}", "path", claim->path, "state",
				  bridge_claim_state_name(claim->state), "why",
				  kept_text(claim->why), "since", claim->since);
}

struct leaving {
	const struct bridge_claims *claims;
	json_t *records;
};

static void add_leaving(void *context, const char *path, const struct announce *announce)
{
	const struct leaving *leaving = context;
	if (!bridge_claims_find(leaving->claims, path)) {
		json_array_append_new(leaving->records, announce_json(path, announce));
	}
}

json_t *bridge_claims_json(const struct bridge_claims *claims)
{
	json_t *records = json_array();
	for (const struct list *at = claims->all.next; at != &claims->all; at = at->next) {
		json_array_append_new(
			records, claim_json(claims, LIST_ITEM(at, struct bridge_claim, link)));
	}
	struct leaving leaving = { claims, records };
	bridge_publish_each_leaving(
		claims->publish, claims->account->container, add_leaving, &leaving);
	return records;
}

void bridge_claims_count(const struct bridge_claims *claims, size_t *counts)
{
	for (const struct list *at = claims->all.next; at != &claims->all; at = at->next) {
		counts[LIST_ITEM(at, struct bridge_claim, link)->state]++;
	}
}
