#include "agent/component/announce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/random.h"
#include "agent/component/node.h"
#include "agent/component/own_search.h"
#include "lib/base/text.h"

enum {
	RETRY_FIRST_MS = 200,
	RETRY_MAX_MS = 30000,
};

struct announce {
	struct ev_loop *loop;
	struct registry *registry;
	struct announce_options options;
	char *path; /* of a sequential node: all but its digits */
	char *at;   /* where the node is; NULL: a sequential node that is not there, or not found */
	struct own_search *search; /* for the node's number */
	bool may_be_lost;          /* a sequential node of ours may be there under any number */
	char **leaving;            /* nodes of ours that another one has replaced */
	size_t leaving_count;

	enum announce_wish wish;
	char wish_why[512];
	struct err wish_err; /* why a later wish could not be made */
	struct announce_wanted wanted;
	struct announce_seen seen;

	bool accepted; /* the data wanted now were there once: others may change a shared node */
	bool was_ours; /* we wrote a node here in this session, and it was not removed */
	bool may_be_registered;    /* see announce_may_be_registered() */
	struct registry_stat ours; /* the node as we wrote or emptied it last, or found it right */
	bool childless;            /* the node that we emptied has lost its last child */

	enum announce_state state;
	char why[800];
	char registry_why[256]; /* why it does not answer */
	double since;

	struct registry_watch *watch;
	struct registry_watch *children;  /* of a node that we emptied */
	struct registry_request *request; /* the one write under way */
	enum announce_action doing;
	char *sent; /* the data of that write; the wish may have moved on */
	size_t sent_len;
	ev_timer pause; /* until the next attempt, or until the throttle lets a write pass */
	int64_t retry_ms;
	ev_tstamp written_at;
};

const char *announce_state_name(enum announce_state state)
{
	static const char *const names[ANNOUNCE_STATE_COUNT] = { "waiting", "withdrawn", "writing",
		"registered", "withdrawing", "conflict", "failed" };
	return names[state];
}

/* ---- state ----------------------------------------------------------------------------------- */

static bool is_trouble(enum announce_state state)
{
	return state == ANNOUNCE_CONFLICT || state == ANNOUNCE_FAILED;
}

/* The time of a state that a predecessor was in already. */
static double since_when(struct announce *announce, enum announce_state state)
{
	bool same = announce->options.saved_since > 0 && announce->options.saved_state == state;
	double since = same ? announce->options.saved_since : ev_now(announce->loop);
	announce->options.saved_since = 0;
	return since;
}

static void set_state(struct announce *announce, enum announce_state state, const char *why)
{
	enum announce_state from = announce->state;
	if (from != state) {
		announce->since = since_when(announce, state);
	}
	announce->state = state;
	text_printf(announce->why, sizeof(announce->why), "%s", why);
	if ((from != state || is_trouble(state)) && announce->options.on_change) {
		announce->options.on_change(announce->options.context, from, state, announce->why);
	}
}

/* A state that is entered again and again without news. */
static void stay_in_state(struct announce *announce, enum announce_state state, const char *why)
{
	if (announce->state != state || strcmp(announce->why, why) != 0) {
		set_state(announce, state, why);
	}
}

static void set_failed(struct announce *announce, const struct err *err)
{
	char why[sizeof(announce->why)];
	text_printf(why, sizeof(why), "%s: %s", berth_error_name(err->code), err->msg);
	set_state(announce, ANNOUNCE_FAILED, why);
}

/* ---- the node -------------------------------------------------------------------------------- */

static bool is_untouched(const struct announce *announce)
{
	return announce->seen.stat.node_id == announce->ours.node_id &&
		announce->seen.stat.version == announce->ours.version;
}

static struct announce_view view_of(const struct announce *announce)
{
	struct announce_view view = {
		.wish = announce->wish,
		.want_ephemeral = announce->options.ephemeral,
		.takeover = announce->options.takeover,
		.shared = announce->wanted.kind == DIALECT_NODE_SHARED,
		.accepted = announce->accepted,
		.has_id = announce->wanted.has_id,
		.node = announce->seen.node,
		.past = announce->was_ours ? ANNOUNCE_PAST_WRITTEN : ANNOUNCE_PAST_NONE,
		.childless = announce->childless,
	};
	if (announce->seen.node <= ANNOUNCE_NODE_ABSENT) {
		return view;
	}
	if (announce->seen.stat.ephemeral) {
		view.holder = announce->seen.stat.own ? ANNOUNCE_HOLDER_US : ANNOUNCE_HOLDER_OTHER;
	}
	if (is_untouched(announce)) {
		view.past = ANNOUNCE_PAST_UNTOUCHED;
	}
	view.likeness = announce_likeness_of(&announce->wanted, &announce->seen);
	return view;
}

static void forget_node(struct announce *announce, enum announce_node node)
{
	announce_seen_forget(&announce->seen, node);
}

static void remember_node(
	struct announce *announce, const struct registry_stat *stat, const char *data, size_t len)
{
	announce_seen_set(&announce->seen, announce->wanted.type, stat, data, len);
}

static bool is_sequential(const struct announce *announce)
{
	return announce->wanted.kind == DIALECT_NODE_SEQUENTIAL;
}

static void on_node(void *context, const struct registry_result *result);

/* The node is at `path` from now on; NULL: a sequential one is nowhere. */
static void set_place(struct announce *announce, const char *path)
{
	char *copy = path ? allocate_text(path) : NULL;
	registry_unwatch(announce->watch);
	free(announce->at);
	announce->at = copy;
	announce->watch = copy ? allocated(registry_watch(announce->registry, copy,
					 REGISTRY_WATCH_DATA, on_node, announce))
			       : NULL;
}

static void add_leaving(struct announce *announce, const char *path)
{
	announce->leaving = allocate_grow(
		announce->leaving, announce->leaving_count, sizeof(*announce->leaving));
	announce->leaving[announce->leaving_count++] = allocate_text(path);
}

static void forget_leaving(struct announce *announce)
{
	while (announce->leaving_count) {
		free(announce->leaving[--announce->leaving_count]);
	}
}

/* A sequential node has gone, or nobody knows its number. */
static void forget_place(struct announce *announce)
{
	if (is_sequential(announce)) {
		set_place(announce, NULL);
	}
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static void reconcile(struct announce *announce);

static bool pauses(const struct announce *announce)
{
	return ev_is_active(&announce->pause);
}

static void end_pause(struct announce *announce)
{
	ev_timer_stop(announce->loop, &announce->pause);
}

static void pause_for(struct announce *announce, int64_t delay_ms)
{
	end_pause(announce);
	ev_timer_set(&announce->pause, (double)delay_ms / 1000.0, 0.0);
	ev_timer_start(announce->loop, &announce->pause);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	reconcile(timer->data);
}

static void retry_later(struct announce *announce)
{
	pause_for(announce, random_jitter_ms(announce->retry_ms));
	announce->retry_ms = announce->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS
								   : announce->retry_ms * 2;
}

/* Milliseconds until the throttle lets the next write pass. */
static int64_t throttled_ms(const struct announce *announce)
{
	if (announce->written_at <= 0) {
		return 0;
	}
	double passed_ms = (ev_now(announce->loop) - announce->written_at) * 1000.0;
	double left_ms = (double)announce->options.update_interval_ms - passed_ms;
	return left_ms > 0 && passed_ms >= 0 ? (int64_t)left_ms + 1 : 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The node is looked at again after the pause, or when the watch reports a change. */
static void failed(struct announce *announce, const struct err *err)
{
	forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
	if (err->code == BERTH_REGISTRY_UNAVAILABLE) {
		stay_in_state(announce, ANNOUNCE_WAITING, err->msg);
	} else {
		set_failed(announce, err);
	}
	retry_later(announce);
}

static void write_failed(struct announce *announce, const struct err *err)
{
	if (err->code == BERTH_TIMEOUT && is_sequential(announce)) {
		announce->may_be_lost = true;
	}
	if (err->code == BERTH_FILE_ALREADY_EXISTS || err->code == BERTH_PATH_NOT_FOUND) {
		/* Another client was faster: no failure, but another situation. */
		forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
		pause_for(announce, random_jitter_ms(RETRY_FIRST_MS));
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
		reconcile(announce);
	}
}

static void removed(struct announce *announce, const struct registry_result *result)
{
	announce->was_ours = false;
	announce->may_be_registered = false;
	if (!result->emptied) {
		stop_watching_children(announce);
		forget_node(announce, ANNOUNCE_NODE_ABSENT);
		forget_place(announce);
		return;
	}
	announce->ours = result->stat;
	announce->childless = false;
	remember_node(announce, &result->stat, "", 0);
	if (!announce->children) {
		announce->children = allocated(registry_watch(announce->registry, announce->at,
			REGISTRY_WATCH_CHILDREN, on_children, announce));
	}
}

/* A sequential node that was made; the one that it replaces goes next. */
static void joined(struct announce *announce, const char *path)
{
	if (announce->at) {
		add_leaving(announce, announce->at);
	}
	set_place(announce, path);
}

static void on_written(void *context, const struct registry_result *result)
{
	struct announce *announce = context;
	announce->request = NULL;
	if (result->err.code) {
		write_failed(announce, &result->err);
		return;
	}
	announce->written_at = ev_now(announce->loop);
	if (announce->doing == ANNOUNCE_DO_REMOVE) {
		removed(announce, result);
	} else {
		announce->was_ours = true;
		announce->accepted = true;
		announce->ours = result->stat;
		remember_node(announce, &result->stat, announce->sent, announce->sent_len);
		if (result->data) {
			joined(announce, result->data);
		}
	}
	/* The watch compares with the node before our write: if another client undid that at once, it would see no change. */
	if (announce->watch) {
		registry_watch_refresh(announce->watch);
	}
	reconcile(announce);
}

static void begin_bind(struct announce *announce, enum announce_action action)
{
	const struct announce_wanted *wanted = &announce->wanted;
	bool rewrite = action == ANNOUNCE_DO_REWRITE;
	bool joins = is_sequential(announce) &&
		(action == ANNOUNCE_DO_CREATE ||
			(rewrite && wanted->change == DIALECT_CHANGE_REJOIN));
	bool create = action == ANNOUNCE_DO_CREATE || joins;
	free(announce->sent);
	announce->sent = allocate_bytes(wanted->data, wanted->len);
	announce->sent_len = wanted->len;
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
	};
	announce->may_be_registered = true;
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
	reconcile(announce);
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
		set_place(announce, paths[0]); /* its watch tells more */
	} else {
		forget_node(announce, ANNOUNCE_NODE_ABSENT);
		reconcile(announce);
	}
}

/* Nobody has told yet what is there. */
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
		forget_node(announce, ANNOUNCE_NODE_ABSENT);
		reconcile(announce);
	}
}

static const char *reason_of(const struct announce *announce, enum announce_action action)
{
	if (action == ANNOUNCE_DO_CREATE) {
		return "no node is at our path";
	}
	if (action == ANNOUNCE_DO_TAKE_OVER) {
		return announce->seen.node == ANNOUNCE_NODE_EMPTY
			? "the node at our path is free"
			: "taking over the node at our path";
	}
	return is_untouched(announce) ? "our record is to change"
				      : "another client changed our record";
}

/* What failed before stays FAILED until an attempt succeeds, and a node without record is no news. */
static bool is_quiet(const struct announce *announce)
{
	return announce->state == ANNOUNCE_FAILED ||
		(announce->doing == ANNOUNCE_DO_REMOVE &&
			announce->seen.node == ANNOUNCE_NODE_EMPTY);
}

static void begin(struct announce *announce, enum announce_action action)
{
	bool removing = action == ANNOUNCE_DO_REMOVE;
	announce->doing = action;
	if (!is_quiet(announce)) {
		set_state(announce, removing ? ANNOUNCE_WITHDRAWING : ANNOUNCE_WRITING,
			removing ? announce->wish_why : reason_of(announce, action));
	}
	if (removing) {
		announce->request = allocated(registry_withdraw(announce->registry, announce->at,
			&announce->seen.stat, on_written, announce));
	} else {
		stop_watching_children(announce);
		begin_bind(announce, action);
	}
}

/* ---- reconciling ----------------------------------------------------------------------------- */

static void set_withdrawn(struct announce *announce, const struct announce_view *view)
{
	char why[sizeof(announce->why)];
	bool emptied = view->node == ANNOUNCE_NODE_EMPTY && view->past == ANNOUNCE_PAST_UNTOUCHED &&
		announce->children;
	text_printf(why, sizeof(why), "%s%s", announce->wish_why,
		emptied ? "; the node stays without a record, because it has children" : "");
	stay_in_state(announce, ANNOUNCE_WITHDRAWN, why);
}

static void fulfilled(struct announce *announce, const struct announce_view *view)
{
	announce->retry_ms = RETRY_FIRST_MS;
	bool registered = announce->wish == ANNOUNCE_UP ||
		(announce->wish == ANNOUNCE_KEEP && announce_is_registered(view));
	announce->may_be_registered = registered;
	if (announce->wish == ANNOUNCE_UP) {
		announce->was_ours = true;
		announce->accepted = true;
		announce->ours = announce->seen.stat;
	}
	if (announce->wish_err.code) {
		char why[sizeof(announce->why)];
		text_printf(why, sizeof(why), "%s: %s", berth_error_name(announce->wish_err.code),
			announce->wish_err.msg);
		stay_in_state(announce, ANNOUNCE_FAILED, why);
	} else if (registered) {
		stay_in_state(announce, ANNOUNCE_REGISTERED, announce->wish_why);
	} else {
		set_withdrawn(announce, view);
	}
}

static void refuse(struct announce *announce)
{
	char why[sizeof(announce->why)];
	announce_describe_other(&announce->seen, announce->at, why, sizeof(why));
	stay_in_state(announce, ANNOUNCE_CONFLICT, why);
	announce->may_be_registered = false;
	forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
	retry_later(announce);
}

static void act(struct announce *announce, enum announce_action action)
{
	int64_t wait_ms = action == ANNOUNCE_DO_REMOVE ? 0 : throttled_ms(announce);
	if (!pauses(announce) && wait_ms <= 0) {
		begin(announce, action);
		return;
	}
	if (!pauses(announce)) {
		pause_for(announce, wait_ms);
	}
	if (announce->state == ANNOUNCE_WITHDRAWN) {
		stay_in_state(announce, ANNOUNCE_WITHDRAWN, "to be registered after a pause");
	}
}

/* A component that does not want its record now has another reason beside the registry. */
static void wait_for_registry(struct announce *announce)
{
	char why[sizeof(announce->why)];
	bool wanted = announce->wish == ANNOUNCE_UP || !*announce->wish_why;
	text_printf(why, sizeof(why), "%s%s%s", announce->registry_why, wanted ? "" : "; ",
		wanted ? "" : announce->wish_why);
	stay_in_state(announce, ANNOUNCE_WAITING, why);
}

static void reconcile(struct announce *announce)
{
	if (registry_state(announce->registry) != REGISTRY_CONNECTED) {
		wait_for_registry(announce);
		return;
	}
	if (announce->request) {
		return;
	}
	if (announce->seen.node == ANNOUNCE_NODE_UNKNOWN) {
		find_out(announce);
		return;
	}
	if (announce->leaving_count) {
		if (!pauses(announce)) {
			leave_next(announce);
		}
		return;
	}
	struct announce_view view = view_of(announce);
	enum announce_action action = announce_decide(&view);
	switch (action) {
	case ANNOUNCE_DO_NOTHING:
		fulfilled(announce, &view);
		break;
	case ANNOUNCE_DO_REFUSE:
		refuse(announce);
		break;
	case ANNOUNCE_DO_CREATE:
	case ANNOUNCE_DO_REWRITE:
	case ANNOUNCE_DO_TAKE_OVER:
	case ANNOUNCE_DO_REMOVE:
		act(announce, action);
		break;
	}
}

static void on_node(void *context, const struct registry_result *result)
{
	struct announce *announce = context;
	if (announce->request) {
		return; /* its end refreshes the watch */
	}
	if (result->changed) {
		end_pause(announce); /* its cause may be gone */
	}
	if (result->err.code == 0) {
		remember_node(announce, &result->stat, result->data, result->data_len);
	} else if (result->err.code == BERTH_PATH_NOT_FOUND) {
		forget_node(announce, ANNOUNCE_NODE_ABSENT);
		stop_watching_children(announce);
		announce->was_ours = false;
		forget_place(announce);
	} else {
		failed(announce, &result->err);
		return;
	}
	reconcile(announce);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void read_left(struct announce *announce, const json_t *left)
{
	json_int_t node;
	json_int_t version;
	if (left &&
		json_unpack((json_t *)(uintptr_t)left, "{s:I, s:I}", "node", &node, "version",
			&version) == 0) {
		announce->ours.node_id = (uint64_t)node;
		announce->ours.version = version;
	}
}

json_t *announce_left(const struct announce *announce)
{
	if (!announce->was_ours || announce->ours.ephemeral) {
		return NULL;
	}
	return json_pack("{s:I, s:I}", "node", (json_int_t)announce->ours.node_id, "version",
		(json_int_t)announce->ours.version);
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
	read_left(announce, options->left);
	announce->retry_ms = RETRY_FIRST_MS;
	announce->since = ev_now(loop);
	text_printf(announce->registry_why, sizeof(announce->registry_why),
		"the registry has not answered yet");
	text_printf(announce->why, sizeof(announce->why), "%s", announce->registry_why);
	ev_timer_init(&announce->pause, on_pause_over, 0.0, 0.0);
	announce->pause.data = announce;
	announce->path = allocate_text(options->path);
	if (!is_sequential(announce)) {
		set_place(announce, announce->path);
	}
	return announce;
}

void announce_destroy(struct announce *announce)
{
	if (!announce) {
		return;
	}
	if (announce->request) {
		registry_cancel(announce->registry, announce->request);
	}
	own_search_cancel(announce->search);
	registry_unwatch(announce->watch);
	registry_unwatch(announce->children);
	end_pause(announce);
	announce_wanted_finish(&announce->wanted);
	forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
	forget_leaving(announce);
	free(announce->leaving);
	free(announce->at);
	free(announce->sent);
	free(announce->path);
	free(announce);
}

/* ---- wishes ---------------------------------------------------------------------------------- */

void announce_wish(struct announce *announce, enum announce_wish wish,
	const struct dialect_node *node, const char *why)
{
	if (node) {
		bool changed = !announce->wanted.data || node->len != announce->wanted.len ||
			memcmp(node->data, announce->wanted.data, node->len) != 0;
		announce->accepted = announce->accepted && !changed;
		announce_wanted_set(&announce->wanted, node);
	}
	if (announce->wish != wish) {
		end_pause(announce);
	}
	announce->wish = wish;
	err_clear(&announce->wish_err);
	text_printf(announce->wish_why, sizeof(announce->wish_why), "%s", why);
	reconcile(announce);
}

void announce_wish_failed(struct announce *announce, const struct err *err)
{
	announce->wish_err = *err;
	reconcile(announce);
}

void announce_on_registry_state(
	struct announce *announce, enum registry_state state, const char *why)
{
	if (state == REGISTRY_CONNECTED) {
		announce->retry_ms = RETRY_FIRST_MS;
		if (!announce->watch) {
			reconcile(announce);
		}
		return; /* the watch is read again and wakes us */
	}
	own_search_cancel(announce->search);
	announce->search = NULL;
	forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
	if (state == REGISTRY_LOST) {
		announce->was_ours = false;
		announce->may_be_lost = false;
		forget_place(announce);
		forget_leaving(announce);
		announce->may_be_registered = announce->may_be_registered &&
			!announce->options.ephemeral;
	}
	text_printf(announce->registry_why, sizeof(announce->registry_why),
		"the registry is %s%s%s", registry_state_name(state), *why ? ": " : "", why);
	wait_for_registry(announce);
}

void announce_set_takeover(struct announce *announce, bool takeover)
{
	announce->options.takeover = takeover;
	end_pause(announce);
}

void announce_set_ephemeral(struct announce *announce, bool ephemeral)
{
	announce->options.ephemeral = ephemeral;
}

void announce_set_update_interval(struct announce *announce, int64_t update_interval_ms)
{
	announce->options.update_interval_ms = update_interval_ms;
	end_pause(announce);
}

/* ---- questions ------------------------------------------------------------------------------- */

const char *announce_path(const struct announce *announce)
{
	return announce->at;
}

enum announce_state announce_get_state(const struct announce *announce)
{
	return announce->state;
}

const char *announce_why(const struct announce *announce)
{
	return announce->why;
}

double announce_since(const struct announce *announce)
{
	return announce->since;
}

bool announce_settled(const struct announce *announce)
{
	bool registered = announce->state == ANNOUNCE_REGISTERED;
	bool withdrawn = announce->state == ANNOUNCE_WITHDRAWN;
	switch (announce->wish) {
	case ANNOUNCE_KEEP:
		return registered || withdrawn;
	case ANNOUNCE_UP:
		return registered;
	case ANNOUNCE_DOWN:
		return withdrawn ||
			(announce->state == ANNOUNCE_WAITING && !announce->may_be_registered);
	}
	return false;
}

bool announce_may_be_registered(const struct announce *announce)
{
	return announce->may_be_registered;
}

bool announce_outlasts_outage(const struct announce *announce)
{
	return announce->state == ANNOUNCE_WAITING && announce->wish == ANNOUNCE_UP &&
		announce->may_be_registered;
}

bool announce_finished(const struct announce *announce)
{
	return announce_settled(announce) && !announce->children && !announce->leaving_count;
}
