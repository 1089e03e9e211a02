#include "agent/component/announce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/random.h"
#include "lib/base/quote.h"
#include "lib/base/text.h"

enum {
	RETRY_FIRST_MS = 200,
	RETRY_MAX_MS = 30000,
};

struct announce {
	struct ev_loop *loop;
	struct registry *registry;
	struct announce_options options;
	char *path;

	enum announce_wish wish;
	char wish_why[512];
	struct err wish_err; /* why a later wish could not be made */
	struct record *record;
	char *data; /* record, encoded */
	size_t len;

	/* The node, by the watch or by our own last write. */
	enum announce_node node;
	struct registry_stat stat;
	char *seen; /* its bytes */
	size_t seen_len;

	bool was_ours;          /* we wrote a node here in this session, and it was not removed */
	bool may_be_registered; /* see announce_may_be_registered() */
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

static enum announce_likeness likeness_of(const struct announce *announce)
{
	if (announce->data && announce->seen_len == announce->len &&
		memcmp(announce->seen, announce->data, announce->len) == 0) {
		return ANNOUNCE_LIKE_BYTES;
	}
	enum announce_likeness likeness = ANNOUNCE_LIKE_NOTHING;
	struct record *seen = NULL;
	struct err ignored = ERR_INIT;
	int code = record_decode(&seen, announce->seen, announce->seen_len, &ignored);
	if (code == 0 && announce->record &&
		strcmp(record_id(seen), record_id(announce->record)) == 0) {
		likeness = record_equal(seen, announce->record) ? ANNOUNCE_LIKE_RECORD
								: ANNOUNCE_LIKE_ID;
	}
	record_free(seen);
	return likeness;
}

static bool is_untouched(const struct announce *announce)
{
	return announce->stat.node_id == announce->ours.node_id &&
		announce->stat.version == announce->ours.version;
}

static struct announce_view view_of(const struct announce *announce)
{
	struct announce_view view = {
		.wish = announce->wish,
		.want_ephemeral = announce->options.ephemeral,
		.takeover = announce->options.takeover,
		.has_id = announce->record && *record_id(announce->record),
		.node = announce->node,
		.past = announce->was_ours ? ANNOUNCE_PAST_WRITTEN : ANNOUNCE_PAST_NONE,
		.childless = announce->childless,
	};
	if (announce->node <= ANNOUNCE_NODE_ABSENT) {
		return view;
	}
	if (announce->stat.ephemeral) {
		view.holder = announce->stat.own ? ANNOUNCE_HOLDER_US : ANNOUNCE_HOLDER_OTHER;
	}
	if (is_untouched(announce)) {
		view.past = ANNOUNCE_PAST_UNTOUCHED;
	}
	view.likeness = likeness_of(announce);
	return view;
}

static void forget_node(struct announce *announce, enum announce_node node)
{
	free(announce->seen);
	announce->seen = NULL;
	announce->seen_len = 0;
	announce->node = node;
}

static enum announce_node node_of(const char *data, size_t len)
{
	switch (record_kind(data, len)) {
	case RECORD_KIND_EMPTY:
		return ANNOUNCE_NODE_EMPTY;
	case RECORD_KIND_FOREIGN:
		return ANNOUNCE_NODE_FOREIGN;
	case RECORD_KIND_RECORD:
		break;
	}
	return ANNOUNCE_NODE_RECORD;
}

static void remember_node(
	struct announce *announce, const struct registry_stat *stat, const char *data, size_t len)
{
	forget_node(announce, node_of(data, len));
	announce->seen = allocate_bytes(data, len);
	announce->seen_len = len;
	announce->stat = *stat;
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
		return;
	}
	announce->ours = result->stat;
	announce->childless = false;
	remember_node(announce, &result->stat, "", 0);
	if (!announce->children) {
		announce->children = allocated(registry_watch(announce->registry, announce->path,
			REGISTRY_WATCH_CHILDREN, on_children, announce));
	}
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
		announce->ours = result->stat;
		remember_node(announce, &result->stat, announce->sent, announce->sent_len);
	}
	/* The watch compares with the node before our write: if another client undid that at once, it would see no change. */
	registry_watch_refresh(announce->watch);
	reconcile(announce);
}

static void begin_bind(struct announce *announce, enum announce_action action)
{
	free(announce->sent);
	announce->sent = allocate_text(announce->data);
	announce->sent_len = announce->len;
	struct registry_bind bind = {
		.data = announce->sent,
		.len = announce->sent_len,
		.ephemeral = announce->options.ephemeral,
		.parents = true,
		.mode = action == ANNOUNCE_DO_CREATE ? REGISTRY_BIND_CREATE : REGISTRY_BIND_REPLACE,
		.expected = announce->stat,
	};
	announce->may_be_registered = true;
	announce->request = allocated(
		registry_bind(announce->registry, announce->path, &bind, on_written, announce));
}

static const char *reason_of(const struct announce *announce, enum announce_action action)
{
	if (action == ANNOUNCE_DO_CREATE) {
		return "no node is at our path";
	}
	if (action == ANNOUNCE_DO_TAKE_OVER) {
		return announce->node == ANNOUNCE_NODE_EMPTY ? "the node at our path is free"
							     : "taking over the node at our path";
	}
	return is_untouched(announce) ? "our record is to change"
				      : "another client changed our record";
}

/* What failed before stays FAILED until an attempt succeeds, and a node without record is no news. */
static bool is_quiet(const struct announce *announce)
{
	return announce->state == ANNOUNCE_FAILED ||
		(announce->doing == ANNOUNCE_DO_REMOVE && announce->node == ANNOUNCE_NODE_EMPTY);
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
		announce->request = allocated(registry_withdraw(
			announce->registry, announce->path, &announce->stat, on_written, announce));
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
		announce->ours = announce->stat;
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

static void describe_other(const struct announce *announce, char *why, size_t size)
{
	struct record *other = NULL;
	struct err ignored = ERR_INIT;
	int code = record_decode(&other, announce->seen, announce->seen_len, &ignored);
	if (announce->node == ANNOUNCE_NODE_EMPTY) {
		text_printf(why, size, "another client's ephemeral node is at %s", announce->path);
	} else if (announce->node == ANNOUNCE_NODE_FOREIGN) {
		text_printf(why, size,
			"a node of another program, with data that is no record, is at %s",
			announce->path);
	} else if (code) {
		text_printf(why, size, "an unreadable record is at %s", announce->path);
	} else {
		const char *id = record_id(other);
		const char *description = record_description(other);
		text_printf(why, size, "another record is at %s (%s%s%s%s)", announce->path,
			*id ? "yarn:id " : "no yarn:id", *id ? quote_text(id).text : "",
			*description ? ", " : "", *description ? quote_text(description).text : "");
	}
	record_free(other);
}

static void refuse(struct announce *announce)
{
	char why[sizeof(announce->why)];
	describe_other(announce, why, sizeof(why));
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
	if (announce->node == ANNOUNCE_NODE_UNKNOWN) {
		if (!pauses(announce)) {
			registry_watch_refresh(announce->watch);
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
	announce->may_be_registered = options->may_be_registered;
	read_left(announce, options->left);
	announce->retry_ms = RETRY_FIRST_MS;
	announce->since = ev_now(loop);
	text_printf(announce->registry_why, sizeof(announce->registry_why),
		"the registry has not answered yet");
	text_printf(announce->why, sizeof(announce->why), "%s", announce->registry_why);
	ev_timer_init(&announce->pause, on_pause_over, 0.0, 0.0);
	announce->pause.data = announce;
	announce->path = allocate_text(options->path);
	announce->watch = allocated(
		registry_watch(registry, announce->path, REGISTRY_WATCH_DATA, on_node, announce));
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
	registry_unwatch(announce->watch);
	registry_unwatch(announce->children);
	end_pause(announce);
	record_free(announce->record);
	free(announce->data);
	free(announce->seen);
	free(announce->sent);
	free(announce->path);
	free(announce);
}

/* ---- wishes ---------------------------------------------------------------------------------- */

static int set_record(struct announce *announce, const struct record *record, struct err *err)
{
	char *data;
	size_t len;
	int code = record_encode(record, &data, &len, err);
	if (code) {
		return code;
	}
	struct record *copy = allocated(record_copy(record));
	free(announce->data);
	record_free(announce->record);
	announce->data = data;
	announce->len = len;
	announce->record = copy;
	return 0;
}

int announce_wish(struct announce *announce, enum announce_wish wish, const struct record *record,
	const char *why, struct err *err)
{
	if (record) {
		int code = set_record(announce, record, err);
		if (code) {
			return code;
		}
	}
	if (announce->wish != wish) {
		end_pause(announce);
	}
	announce->wish = wish;
	err_clear(&announce->wish_err);
	text_printf(announce->wish_why, sizeof(announce->wish_why), "%s", why);
	reconcile(announce);
	return 0;
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
		return; /* the watch is read again and wakes us */
	}
	forget_node(announce, ANNOUNCE_NODE_UNKNOWN);
	if (state == REGISTRY_LOST) {
		announce->was_ours = false;
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
	return announce_settled(announce) && !announce->children;
}
