/* The life of an announcement, and its wishes. */
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/component/announce_internal.h"
#include "lib/base/text.h"

/* ---- life ---- */

static void read_persistent(struct announce *announce, const json_t *persistent)
{
	json_int_t node;
	json_int_t version;
	const char *data = NULL;
	size_t len = 0;
	if (persistent &&
		json_unpack((json_t *)(uintptr_t)persistent, "{s:I, s:I, s?s%}", "node", &node,
			"version", &version, "sent", &data, &len) == 0) {
		announce->ours_id = (uint64_t)node;
		announce->ours_version = version;
		announce->predecessor_sent = data ? allocate_bytes(data, len) : NULL;
		announce->predecessor_sent_len = len;
	}
}

json_t *announce_persistent(const struct announce *announce)
{
	bool ours = (announce->was_ours || announce_is_untouched(announce)) &&
		!announce->ours_is_ephemeral;
	bool sends = announce->sent && !announce->options.ephemeral;
	if (!ours && !sends) {
		return NULL;
	}
	json_t *persistent = json_pack("{s:I, s:I}", "node",
		ours ? (json_int_t)announce->ours_id : 0, "version",
		ours ? (json_int_t)announce->ours_version : 0);
	if (sends) {
		json_object_set_new(
			persistent, "sent", json_stringn(announce->sent, announce->sent_len));
	}
	return persistent;
}

struct announce *announce_create(
	struct ev_loop *loop, struct registry *registry, const struct announce_options *options)
{
	struct announce *announce = allocate_zeroed(1, sizeof(*announce));
	announce->loop = loop;
	announce->registry = registry;
	announce->options = *options;
	announce->wanted.type = options->type;
	announce->wanted.kind = options->kind;
	announce->may_be_registered = options->may_be_registered;
	announce->may_be_lost = options->may_be_registered;
	announce->has_written = options->may_be_registered || options->persistent;
	read_persistent(announce, options->persistent);
	announce->retry_ms = ANNOUNCE_RETRY_FIRST_MS;
	announce->since = ev_now(loop);
	allocate_kept(&announce->why, announce_registry_why(announce));
	timer_init(&announce->pause, loop, "pause of an announcement", announce_on_pause_over,
		announce);
	announce->path = allocate_text(options->path);
	if (!announce_is_sequential(announce)) {
		announce_set_place(announce, announce->path);
	}
	return announce;
}

void announce_destroy(struct announce *announce)
{
	if (!announce) {
		return;
	}
	registry_cancel(announce->registry, announce->request);
	own_search_cancel(announce->search);
	registry_unwatch(announce->watch);
	registry_unwatch(announce->children);
	announce_end_pause(announce);
	announce_wanted_finish(&announce->wanted);
	announce_seen_finish(&announce->seen);
	announce_forget_leaving(announce);
	free(announce->leaving);
	announce_drop_place(announce);
	free(announce->sent);
	free(announce->predecessor_sent);
	free(announce->path);
	free(announce->wish_why);
	free(announce->wish_failure);
	free(announce->why);
	free(announce->registry_why);
	free(announce);
}

/* ---- wishes ---- */

void announce_wish(struct announce *announce, enum announce_wish wish,
	const struct dialect_node *node, const char *why)
{
	if (node && announce_wanted_set(&announce->wanted, node)) {
		announce->accepted = false;
	}
	if (announce->wish != wish) {
		announce_end_pause(announce);
	}
	announce->wish = wish;
	allocate_kept(&announce->wish_failure, "");
	allocate_kept(&announce->wish_why, why);
	announce_reconcile(announce);
}

const char *announce_text(const struct announce *announce)
{
	return announce->wanted.data.bytes;
}

void announce_wish_failed(struct announce *announce, const struct err *err)
{
	free(announce->wish_failure);
	announce->wish_failure = allocate_format("%s: %s", berth_error_name(err->code), err->msg);
	announce_reconcile(announce);
}

void announce_on_registry_state(
	struct announce *announce, enum registry_state state, const char *why)
{
	if (state == REGISTRY_CONNECTED) {
		allocate_kept(&announce->registry_why, "");
		announce->retry_ms = ANNOUNCE_RETRY_FIRST_MS;
		if (!announce->watch || announce_expects_no_node(announce)) {
			announce_reconcile(announce);
		}
		return; /* the watch is read again and wakes us */
	}
	own_search_cancel(announce->search);
	announce->search = NULL;
	announce_forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
	if (state == REGISTRY_LOST) {
		announce->was_ours = false;
		/* It is presumed: the next connection may find that the session has lived on. */
		announce->may_be_lost = announce->may_be_lost || announce->watch ||
			announce->leaving_count > 0;
		announce_forget_place(announce);
		announce_forget_leaving(announce);
		announce->may_be_registered = announce->may_be_registered &&
			!announce->options.ephemeral;
	}
	free(announce->registry_why);
	announce->registry_why = allocate_format(
		"the registry is %s%s%s", registry_state_name(state), *why ? ": " : "", why);
	announce_wait_for_registry(announce);
}

void announce_reconsider(struct announce *announce)
{
	announce_end_pause(announce);
	announce_reconcile(announce);
}

void announce_set_takeover(struct announce *announce, bool takeover)
{
	announce->options.takeover = takeover;
	announce_end_pause(announce);
}

void announce_set_ephemeral(struct announce *announce, bool ephemeral)
{
	announce->options.ephemeral = ephemeral;
}

void announce_set_update_interval(struct announce *announce, int64_t update_interval_ms)
{
	announce->options.update_interval_ms = update_interval_ms;
	announce_end_pause(announce);
}
