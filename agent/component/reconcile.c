/* Brings the node to the wish: one decision and one write at a time (decision.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/random.h"
#include "agent/component/announce_internal.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

enum { RETRY_MAX_MS = 30000 };

/* ---- the node ---- */

bool announce_is_untouched(const struct announce *announce)
{
	return announce->seen.node > ANNOUNCE_NODE_ABSENT &&
		announce->seen.stat.node_id == announce->ours_id &&
		announce->seen.stat.version == announce->ours_version;
}

/*
 * The registry makes no second node at a path, so that a wrong guess costs one refused request; a
 * right one saves the two round trips that a watch of an absent node takes.
 */
bool announce_expects_no_node(const struct announce *announce)
{
	return announce->seen.node == ANNOUNCE_NODE_UNKNOWN && !announce->looked &&
		!announce->may_be_registered && announce->wish == ANNOUNCE_UP &&
		announce->options.ephemeral && announce->wanted.type == DIALECT_YARN;
}

static void note_ours(struct announce *announce, const struct registry_stat *stat)
{
	announce->ours_id = stat->node_id;
	announce->ours_version = stat->version;
	announce->ours_is_ephemeral = stat->ephemeral;
}

/* All nodes of a session are of one agent: a record proves the nodes of other schemes, too. */
static enum announce_proof proof_of(struct announce *announce)
{
	const struct announce_options *options = &announce->options;
	uint64_t session = announce->seen.stat.session;
	if (options->is_former) {
		return session && options->is_former(options->context, session) ? ANNOUNCE_PROVEN
										: ANNOUNCE_UNMARKED;
	}
	enum announce_proof proof = announce_proof_of(&announce->wanted, &announce->seen);
	if (proof == ANNOUNCE_PROVEN && session) {
		announce->former_session = session;
	}
	return proof;
}

static struct announce_view view_of(struct announce *announce)
{
	struct announce_view view = {
		.wish = announce->wish,
		.want_ephemeral = announce->options.ephemeral,
		.takeover = announce->options.takeover,
		.shared = announce->wanted.kind == DIALECT_NODE_SHARED,
		.accepted = announce->accepted,
		.has_id = announce->wanted.has_id,
		.node = announce_expects_no_node(announce) ? ANNOUNCE_NODE_ABSENT
							   : announce->seen.node,
		.past = announce->was_ours ? ANNOUNCE_PAST_WRITTEN : ANNOUNCE_PAST_NONE,
		.childless = announce->childless,
	};
	if (announce->seen.node <= ANNOUNCE_NODE_ABSENT) {
		return view;
	}
	if (announce->seen.stat.ephemeral) {
		view.holder = announce->seen.stat.own ? ANNOUNCE_HOLDER_US : ANNOUNCE_HOLDER_OTHER;
	}
	if (announce_is_untouched(announce)) {
		view.past = ANNOUNCE_PAST_UNTOUCHED;
	}
	view.likeness = announce_likeness_of(&announce->wanted, &announce->seen);
	if (view.holder != ANNOUNCE_HOLDER_US) {
		view.proof = proof_of(announce);
	}
	return view;
}

void announce_forget_node(struct announce *announce, enum announce_node node)
{
	announce_seen_forget(&announce->seen, node);
}

/* `value`: as announce_seen_set(). */
static void remember_node(struct announce *announce, const struct registry_stat *stat,
	const char *data, size_t len, const struct registry_value *value)
{
	announce_seen_set(&announce->seen, announce->wanted.type, stat, data, len, value);
	announce_share_data(&announce->wanted, &announce->seen);
}

bool announce_is_sequential(const struct announce *announce)
{
	return announce->wanted.kind == DIALECT_NODE_SEQUENTIAL;
}

static void on_node(void *context, const struct registry_result *result);

void announce_drop_place(struct announce *announce)
{
	if (announce->at != announce->path) {
		free(announce->at);
	}
	announce->at = NULL;
}

void announce_set_place(struct announce *announce, const char *path)
{
	bool lasts = path && path == announce->path; /* of all but sequential nodes */
	char *at = lasts ? announce->path : path ? allocate_text(path) : NULL;
	registry_unwatch(announce->watch);
	announce_drop_place(announce);
	announce->at = at;
	announce->watch = at ? allocated(registry_watch(announce->registry, at, REGISTRY_WATCH_DATA,
				       on_node, announce))
			     : NULL;
}

static void add_leaving(struct announce *announce, const char *path)
{
	announce->leaving = allocate_grow(
		announce->leaving, announce->leaving_count, sizeof(*announce->leaving));
	announce->leaving[announce->leaving_count++] = allocate_text(path);
}

void announce_forget_leaving(struct announce *announce)
{
	while (announce->leaving_count) {
		free(announce->leaving[--announce->leaving_count]);
	}
}

void announce_forget_place(struct announce *announce)
{
	if (announce_is_sequential(announce)) {
		announce_set_place(announce, NULL);
	}
}

/* ---- pauses ---- */

static bool pauses(const struct announce *announce)
{
	return timer_runs(&announce->pause);
}

void announce_end_pause(struct announce *announce)
{
	timer_stop(&announce->pause);
}

void announce_on_pause_over(void *context)
{
	announce_reconcile(context);
}

static void retry_later(struct announce *announce)
{
	timer_start(&announce->pause, random_jitter_ms(announce->retry_ms));
	announce->retry_ms = announce->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS
								   : announce->retry_ms * 2;
}

/* Milliseconds until the throttle lets the next write pass. */
static int64_t throttled_ms(const struct announce *announce)
{
	if (announce->written_at <= 0) {
		return 0;
	}
	double passed_ms = (clock_monotonic_s() - announce->written_at) * 1000.0;
	double left_ms = (double)announce->options.update_interval_ms - passed_ms;
	return left_ms > 0 ? (int64_t)left_ms + 1 : 0;
}

/* ---- writing ---- */

/* The node is looked at again after the pause, or when the watch reports a change. */
static void failed(struct announce *announce, const struct err *err)
{
	announce_forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
	if (err->code == BERTH_REGISTRY_UNAVAILABLE) {
		announce_stay_in_state(announce, ANNOUNCE_WAITING, err->msg);
	} else {
		announce_set_failed(announce, err);
	}
	retry_later(announce);
}

/* The node may have been made: no answer came, or there was no memory for it. */
static bool is_without_answer(const struct err *err)
{
	return err->code == BERTH_TIMEOUT || err->code == BERTH_FAILED;
}

static void write_failed(struct announce *announce, const struct err *err)
{
	if (is_without_answer(err) && announce_is_sequential(announce)) {
		announce->may_be_lost = true;
	}
	if (err->code == BERTH_FILE_ALREADY_EXISTS &&
		announce->seen.node == ANNOUNCE_NODE_UNKNOWN) {
		announce_stay_in_state(announce, ANNOUNCE_WAITING, "a node is at our path already");
		announce_reconcile(announce); /* the first look, which the write did not wait for */
		return;
	}
	if (err->code == BERTH_FILE_ALREADY_EXISTS || err->code == BERTH_PATH_NOT_FOUND) {
		/* Another client was faster: no failure, but another situation. */
		announce_forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
		timer_start(&announce->pause, random_jitter_ms(ANNOUNCE_RETRY_FIRST_MS));
		return;
	}
	failed(announce, err);
}

static void stop_watching_children(struct announce *announce)
{
	registry_unwatch(announce->children);
	announce->children = NULL;
	announce->childless = false;
}

static void on_children(void *context, const struct registry_result *result)
{
	struct announce *announce = context;
	announce->childless = result->err.code == 0 && result->children_count == 0;
	if (announce->childless) {
		announce_reconcile(announce);
	}
}

/* The node holds what was sent, or something else that we know of. */
static void forget_sent(struct announce *announce)
{
	free(announce->sent);
	announce->sent = NULL;
	announce->sent_len = 0;
}

static void removed(struct announce *announce, const struct registry_result *result)
{
	forget_sent(announce);
	announce->was_ours = false;
	announce->may_be_registered = false;
	if (!result->emptied) {
		stop_watching_children(announce);
		announce_forget_node(announce, ANNOUNCE_NODE_ABSENT);
		announce_forget_place(announce);
		return;
	}
	note_ours(announce, &result->stat);
	announce->childless = false;
	remember_node(announce, &result->stat, "", 0, NULL);
	if (!announce->children) {
		announce->children = allocated(registry_watch(announce->registry, announce->at,
			REGISTRY_WATCH_CHILDREN, on_children, announce));
	}
}

/* A sequential node was made; its predecessor goes next. */
static void joined(struct announce *announce, const char *path)
{
	if (announce->at) {
		add_leaving(announce, announce->at);
	}
	announce_set_place(announce, path);
}

static void on_written(void *context, const struct registry_result *result)
{
	struct announce *announce = context;
	announce->request = NULL;
	if (result->err.code) {
		write_failed(announce, &result->err);
		return;
	}
	announce->written_at = clock_monotonic_s();
	if (announce->doing == ANNOUNCE_DO_REMOVE) {
		removed(announce, result);
	} else {
		announce->was_ours = true;
		note_ours(announce, &result->stat);
		remember_node(announce, &result->stat, announce->sent, announce->sent_len, NULL);
		forget_sent(announce);
		if (result->data) {
			joined(announce, result->data);
		}
	}
	/*
	 * The watch compares with the node before our write: if another client undid that at once,
	 * it would see no change.
	 */
	if (announce->watch) {
		registry_watch_refresh(announce->watch);
	}
	announce_reconcile(announce);
}

static void on_parent(void *context, const char *path, uint64_t node_id)
{
	const struct announce_options *options = &((struct announce *)context)->options;
	if (options->on_parent) {
		options->on_parent(options->context, path, node_id);
	}
}

static void begin_bind(struct announce *announce, enum announce_action action)
{
	const struct announce_wanted *wanted = &announce->wanted;
	bool rewrite = action == ANNOUNCE_DO_REWRITE;
	bool joins = announce_is_sequential(announce) &&
		(action == ANNOUNCE_DO_CREATE ||
			(rewrite && wanted->change == DIALECT_CHANGE_REJOIN));
	bool create = action == ANNOUNCE_DO_CREATE || joins;
	free(announce->sent);
	announce->sent = allocate_bytes(wanted->data.bytes, wanted->data.len);
	announce->sent_len = wanted->data.len;
	struct registry_bind bind = {
		.data = announce->sent,
		.len = announce->sent_len,
		.ephemeral = announce->options.ephemeral,
		.parents = true,
		.sequential = joins,
		.container_parents = wanted->container_parents,
		.anew = rewrite && wanted->change == DIALECT_CHANGE_REPLACE,
		.mode = create ? REGISTRY_BIND_CREATE : REGISTRY_BIND_REPLACE,
		.expected = announce->seen.stat,
		.on_parent = on_parent,
	};
	announce->over_own = rewrite ||
		(action == ANNOUNCE_DO_TAKE_OVER &&
			announce_proof_of(&announce->wanted, &announce->seen) == ANNOUNCE_PROVEN);
	if (announce->options.on_write && !announce->options.on_write(announce->options.context)) {
		announce->put_off = true;
		return;
	}
	announce->looked = true;
	announce->may_be_registered = true;
	announce->has_written = true;
	announce->request = allocated(registry_bind(announce->registry,
		joins ? announce->path : announce->at, &bind, on_written, announce));
}

/* ---- nodes that another one has replaced ---- */

static void on_left(void *context, const struct registry_result *result)
{
	struct announce *announce = context;
	announce->request = NULL;
	if (result->err.code) {
		failed(announce, &result->err);
		return;
	}
	free(announce->leaving[--announce->leaving_count]);
	announce_reconcile(announce);
}

static void leave_next(struct announce *announce)
{
	announce->request = allocated(
		registry_delete(announce->registry, announce->leaving[announce->leaving_count - 1],
			REGISTRY_DELETE_NODE, NULL, NULL, on_left, announce));
}

/* ---- the number of a sequential node ---- */

static void on_own_found(void *context, char *const *paths, size_t count, const struct err *err)
{
	struct announce *announce = context;
	announce->search = NULL;
	if (err->code) {
		failed(announce, err);
		return;
	}
	announce->may_be_lost = false;
	for (size_t i = 1; i < count; i++) {
		add_leaving(announce, paths[i]);
	}
	if (count) {
		announce_set_place(announce, paths[0]); /* its watch reports the rest */
	} else {
		announce_forget_node(announce, ANNOUNCE_NODE_ABSENT);
		announce_reconcile(announce);
	}
}

/* The registry has not reported yet which node is there. */
static void find_out(struct announce *announce)
{
	if (pauses(announce) || announce->search) {
		return;
	}
	if (announce->watch) {
		registry_watch_refresh(announce->watch);
	} else if (announce->may_be_lost) {
		announce->search = own_search_start(
			announce->registry, announce->path, on_own_found, announce);
	} else {
		announce_forget_node(announce, ANNOUNCE_NODE_ABSENT);
		announce_reconcile(announce);
	}
}

static const char *reason_of(const struct announce *announce, enum announce_action action)
{
	if (action == ANNOUNCE_DO_CREATE) {
		return announce->seen.node == ANNOUNCE_NODE_UNKNOWN
			? "no node is expected at our path"
			: "no node is at our path";
	}
	if (action == ANNOUNCE_DO_TAKE_OVER) {
		return announce->seen.node == ANNOUNCE_NODE_EMPTY
			? "the node at our path is free"
			: "taking over the node at our path";
	}
	return announce_is_untouched(announce) ? "our record is to change"
					       : "another client changed our record";
}

/*
 * A failed announcement stays FAILED until an attempt succeeds, and a node without record is not
 * news.
 */
static bool is_quiet(const struct announce *announce)
{
	return announce->state == ANNOUNCE_FAILED ||
		(announce->doing == ANNOUNCE_DO_REMOVE &&
			announce->seen.node == ANNOUNCE_NODE_EMPTY);
}

bool announce_writes_over_own(const struct announce *announce)
{
	return announce->over_own;
}

void announce_noted(struct announce *announce)
{
	if (announce->put_off) {
		announce->put_off = false;
		announce_reconcile(announce);
	}
}

/* The state until the write is done, or may be begun. */
static enum announce_state state_before(
	const struct announce_view *view, enum announce_action action)
{
	return announce_is_registered(view) && action == ANNOUNCE_DO_REWRITE ? ANNOUNCE_OUTDATED
									     : ANNOUNCE_WRITING;
}

static void begin(
	struct announce *announce, const struct announce_view *view, enum announce_action action)
{
	bool removing = action == ANNOUNCE_DO_REMOVE;
	announce->doing = action;
	if (!is_quiet(announce)) {
		announce_set_state(announce,
			removing ? ANNOUNCE_WITHDRAWING : state_before(view, action),
			removing ? kept_text(announce->wish_why) : reason_of(announce, action));
	}
	if (removing) {
		announce->request = allocated(registry_withdraw(announce->registry, announce->at,
			&announce->seen.stat, on_written, announce));
	} else {
		stop_watching_children(announce);
		begin_bind(announce, action);
	}
}

/* ---- reconciling ---- */

static void set_withdrawn(struct announce *announce, const struct announce_view *view)
{
	char why[ANNOUNCE_WHY_BYTES];
	bool emptied = view->node == ANNOUNCE_NODE_EMPTY && view->past == ANNOUNCE_PAST_UNTOUCHED &&
		announce->children;
	text_printf(why, sizeof(why), "%s%s", kept_text(announce->wish_why),
		emptied ? "; the node stays without a record, because it has children" : "");
	bool gone = announce->stays_empty && !emptied;
	announce->stays_empty = emptied;
	announce_stay_in_state(announce, ANNOUNCE_WITHDRAWN, why);
	if (gone && announce->options.on_gone) {
		announce->options.on_gone(announce->options.context);
	}
}

static void fulfilled(struct announce *announce, const struct announce_view *view)
{
	announce->retry_ms = ANNOUNCE_RETRY_FIRST_MS;
	bool kept = announce->wish == ANNOUNCE_KEEP && announce_is_registered(view);
	bool outdated = kept && announce->wanted.data.bytes && !view->shared &&
		view->likeness < ANNOUNCE_LIKE_BYTES;
	bool registered = announce->wish == ANNOUNCE_UP || kept;
	announce->may_be_registered = registered;
	if (announce->wish == ANNOUNCE_UP) {
		announce->was_ours = true;
		announce->accepted = true;
		note_ours(announce, &announce->seen.stat);
		forget_sent(announce);
	}
	if (announce->wish_failure) {
		announce_stay_in_state(announce, ANNOUNCE_FAILED, announce->wish_failure);
	} else if (registered) {
		announce_stay_in_state(announce, outdated ? ANNOUNCE_OUTDATED : ANNOUNCE_REGISTERED,
			kept_text(announce->wish_why));
	} else {
		set_withdrawn(announce, view);
	}
}

static void refuse(struct announce *announce, const struct announce_view *view)
{
	char why[ANNOUNCE_WHY_BYTES];
	announce_describe_other(&announce->seen, announce->at, why, sizeof(why));
	if (view->has_id && view->likeness >= ANNOUNCE_LIKE_ID) {
		size_t len = strlen(why);
		text_printf(why + len, sizeof(why) - len,
			"; it has our yarn:id, and another agent's mark or none");
	}
	announce_stay_in_state(announce, ANNOUNCE_CONFLICT, why);
	announce->may_be_registered = false;
	announce_forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
	retry_later(announce);
}

static void act(
	struct announce *announce, const struct announce_view *view, enum announce_action action)
{
	int64_t wait_ms = action == ANNOUNCE_DO_REMOVE ? 0 : throttled_ms(announce);
	if (!pauses(announce) && wait_ms <= 0) {
		begin(announce, view, action);
		return;
	}
	if (!pauses(announce)) {
		timer_start(&announce->pause, wait_ms);
	}
	if (announce->state == ANNOUNCE_WITHDRAWN) {
		announce_stay_in_state(
			announce, ANNOUNCE_WITHDRAWN, "to be registered after a pause");
	} else if (announce_state_is_in(announce->state) && action != ANNOUNCE_DO_REMOVE) {
		announce_stay_in_state(
			announce, state_before(view, action), reason_of(announce, action));
	}
}

/* A component that does not want its record now has another reason besides the registry. */
void announce_wait_for_registry(struct announce *announce)
{
	char why[ANNOUNCE_WHY_BYTES];
	bool wanted = announce->wish == ANNOUNCE_UP || !announce->wish_why;
	text_printf(why, sizeof(why), "%s%s%s", announce_registry_why(announce), wanted ? "" : "; ",
		wanted ? "" : kept_text(announce->wish_why));
	announce_stay_in_state(announce, ANNOUNCE_WAITING, why);
}

void announce_reconcile(struct announce *announce)
{
	if (registry_state(announce->registry) != REGISTRY_CONNECTED) {
		announce_wait_for_registry(announce);
		return;
	}
	if (announce->request) {
		return;
	}
	struct announce_view view = view_of(announce);
	if (view.node == ANNOUNCE_NODE_UNKNOWN) {
		find_out(announce);
		return;
	}
	announce->has_written = announce->has_written || announce_is_registered(&view);
	if (announce->leaving_count) {
		if (!pauses(announce)) {
			leave_next(announce);
		}
		return;
	}
	enum announce_action action = announce_decide(&view);
	switch (action) {
	case ANNOUNCE_DO_NOTHING:
		fulfilled(announce, &view);
		break;
	case ANNOUNCE_DO_REFUSE:
		refuse(announce, &view);
		break;
	case ANNOUNCE_DO_CREATE:
	case ANNOUNCE_DO_REWRITE:
	case ANNOUNCE_DO_TAKE_OVER:
	case ANNOUNCE_DO_REMOVE:
		act(announce, &view, action);
		break;
	}
}

/* The predecessor ended before it knew that its last write had been done: the node is ours. */
static void recognise_sent(struct announce *announce)
{
	const struct announce_seen *seen = &announce->seen;
	if (announce->predecessor_sent && !seen->stat.ephemeral &&
		seen->data.len == announce->predecessor_sent_len &&
		memcmp(seen->data.bytes, announce->predecessor_sent, seen->data.len) == 0) {
		note_ours(announce, &seen->stat);
	}
}

static void on_node(void *context, const struct registry_result *result)
{
	struct announce *announce = context;
	uint64_t former_session = announce->former_session;
	if (announce->request) {
		return; /* its end refreshes the watch */
	}
	announce->looked = true;
	if (result->changed) {
		announce_end_pause(announce); /* its cause may be gone */
	}
	if (result->err.code == 0) {
		remember_node(
			announce, &result->stat, result->data, result->data_len, result->value);
		recognise_sent(announce);
	} else if (result->err.code == BERTH_PATH_NOT_FOUND) {
		announce_forget_node(announce, ANNOUNCE_NODE_ABSENT);
		stop_watching_children(announce);
		announce->was_ours = false;
		announce_forget_place(announce);
	} else {
		failed(announce, &result->err);
		return;
	}
	announce_reconcile(announce);
	if (announce->former_session != former_session && announce->options.on_former) {
		announce->options.on_former(announce->options.context);
	}
}
