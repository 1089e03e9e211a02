#include "agent/component/announce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/quote.h"
#include "agent/base/random.h"
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
	char wish_why[256];
	struct err wish_err; /* why there could be no later wish than this one */
	struct record *record;
	char *data; /* record, encoded */
	size_t len;

	/* What stands there, by the watch or by our own last write. */
	bool known;
	bool present;
	bool was_ours;
	struct registry_stat ours; /* of the last node that we wrote, or found to be as wished */
	struct registry_stat stat;
	char *standing; /* its bytes */
	size_t standing_len;

	enum announce_state state;
	char why[512];
	double since;

	struct registry_watch *watch;
	struct registry_request *request; /* the one write under way */
	enum announce_action doing;
	char *sent; /* what it writes; the wish may have moved on */
	size_t sent_len;
	ev_timer timer; /* retry or throttle, whichever is due */
	bool hold;      /* waiting for the timer */
	int64_t retry_ms;
	ev_tstamp written_at;
};

static const char *const state_names[] = { "waiting", "withdrawn", "writing", "registered",
	"withdrawing", "conflict", "failed" };

const char *announce_state_name(enum announce_state state)
{
	return state_names[state];
}

/* A node without record is nobody's: an empty directory that stands where the record goes. */
static bool is_ours(const struct announce_view *view)
{
	if (view->ephemeral) {
		return view->own;
	}
	if (view->untouched) {
		return true;
	}
	if (!view->has_record || !view->same_id) {
		return false;
	}
	if (view->want_ephemeral) {
		return view->was_ours; /* we wrote it before the wish changed */
	}
	return view->has_id || view->same_record || view->was_ours;
}

/* A container has one life: a node with our id that is not ours was left by the process before us. */
static bool is_predecessors(const struct announce_view *view)
{
	if (!view->has_record || view->own || view->was_ours) {
		return false;
	}
	return view->has_id ? view->same_id : view->same_record;
}

static enum announce_action decide_up(const struct announce_view *view)
{
	if (!view->present) {
		return ANNOUNCE_DO_CREATE;
	}
	if (is_ours(view)) {
		bool right_kind = view->ephemeral == view->want_ephemeral;
		if (!right_kind) {
			return ANNOUNCE_DO_TAKE_OVER;
		}
		return view->same_data ? ANNOUNCE_DO_NOTHING : ANNOUNCE_DO_REWRITE;
	}
	if (!view->has_record || view->takeover || is_predecessors(view)) {
		return ANNOUNCE_DO_TAKE_OVER;
	}
	return ANNOUNCE_DO_REFUSE;
}

enum announce_action announce_decide(const struct announce_view *view)
{
	switch (view->wish) {
	case ANNOUNCE_KEEP:
		return ANNOUNCE_DO_NOTHING;
	case ANNOUNCE_UP:
		return decide_up(view);
	case ANNOUNCE_DOWN:
		if (view->present && (is_ours(view) || (view->has_id && is_predecessors(view)))) {
			return ANNOUNCE_DO_REMOVE;
		}
		return ANNOUNCE_DO_NOTHING;
	}
	return ANNOUNCE_DO_NOTHING;
}

static void set_state(struct announce *announce, enum announce_state state, const char *why)
{
	bool same_why = strcmp(announce->why, why) == 0;
	if (announce->state == state && same_why) {
		return;
	}
	enum announce_state from = announce->state;
	if (from != state) {
		announce->since = ev_now(announce->loop);
	}
	announce->state = state;
	text_printf(announce->why, sizeof(announce->why), "%s", why);
	bool worth_telling = from != state || state == ANNOUNCE_CONFLICT ||
		state == ANNOUNCE_FAILED;
	if (worth_telling && announce->options.on_change) {
		announce->options.on_change(announce->options.context, from, state, announce->why);
	}
}

static void set_failed(struct announce *announce, const struct err *err)
{
	char why[sizeof(announce->why)];
	text_printf(why, sizeof(why), "%s: %s", berth_error_name(err->code), err->msg);
	set_state(announce, ANNOUNCE_FAILED, why);
}

static struct announce_view view_of(const struct announce *announce)
{
	struct announce_view view = {
		.wish = announce->wish,
		.want_ephemeral = announce->options.ephemeral,
		.takeover = announce->options.takeover,
		.was_ours = announce->was_ours,
		.has_id = announce->record && *record_id(announce->record),
		.present = announce->present,
	};
	if (!announce->present) {
		return view;
	}
	view.ephemeral = announce->stat.ephemeral;
	view.own = announce->stat.own;
	view.untouched = announce->stat.node_id == announce->ours.node_id &&
		announce->stat.version == announce->ours.version;
	view.same_data = announce->data && announce->standing_len == announce->len &&
		memcmp(announce->standing, announce->data, announce->len) == 0;
	struct record *standing = NULL;
	struct err ignored = ERR_INIT;
	int code = record_decode(&standing, announce->standing, announce->standing_len, &ignored);
	/* What claims to be a record and cannot be read is not ours to overwrite. */
	view.has_record = code != BERTH_NO_RECORD;
	if (standing && announce->record) {
		view.same_id = strcmp(record_id(standing), record_id(announce->record)) == 0;
		view.same_record = record_equal(standing, announce->record);
	}
	record_free(standing);
	return view;
}

static void forget_standing(struct announce *announce)
{
	free(announce->standing);
	announce->standing = NULL;
	announce->standing_len = 0;
	announce->present = false;
}

static void remember_standing(
	struct announce *announce, const struct registry_stat *stat, const char *data, size_t len)
{
	forget_standing(announce);
	announce->standing = allocate_bytes(data, len);
	announce->standing_len = len;
	announce->known = true;
	announce->stat = *stat;
	announce->present = true;
}

static void reconcile(struct announce *announce);

static void hold_for(struct announce *announce, int64_t delay_ms)
{
	announce->hold = true;
	ev_timer_stop(announce->loop, &announce->timer);
	ev_timer_set(&announce->timer, (double)delay_ms / 1000.0, 0.0);
	ev_timer_start(announce->loop, &announce->timer);
}

static void release_hold(struct announce *announce)
{
	announce->hold = false;
	ev_timer_stop(announce->loop, &announce->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct announce *announce = timer->data;
	announce->hold = false;
	reconcile(announce);
}

static void retry_later(struct announce *announce)
{
	hold_for(announce, random_jitter_ms(announce->retry_ms));
	announce->retry_ms = announce->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS
								   : announce->retry_ms * 2;
}

/* What stands there is looked at again when the hold is over, or when the watch tells of a change. */
static void failed(struct announce *announce, const struct err *err)
{
	announce->known = false;
	if (err->code == BERTH_REGISTRY_UNAVAILABLE) {
		set_state(announce, ANNOUNCE_WAITING, err->msg);
	} else {
		set_failed(announce, err);
	}
	retry_later(announce);
}

static void write_failed(struct announce *announce, const struct err *err)
{
	if (err->code == BERTH_FILE_ALREADY_EXISTS || err->code == BERTH_PATH_NOT_FOUND) {
		/* Somebody was faster: no failure, but another situation. */
		announce->known = false;
		hold_for(announce, random_jitter_ms(RETRY_FIRST_MS));
		return;
	}
	failed(announce, err);
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
		announce->was_ours = false;
		forget_standing(announce);
		announce->known = true;
	} else {
		announce->was_ours = true;
		announce->ours = result->stat;
		remember_standing(announce, &result->stat, announce->sent, announce->sent_len);
	}
	/* The watch compares with what it saw before our write: if somebody undid that at once, it would see no change. */
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
	announce->request = allocated(
		registry_bind(announce->registry, announce->path, &bind, on_written, announce));
}

static void begin(struct announce *announce, enum announce_action action)
{
	announce->doing = action;
	if (action == ANNOUNCE_DO_REMOVE) {
		set_state(announce, ANNOUNCE_WITHDRAWING, announce->wish_why);
		announce->request = allocated(registry_delete(announce->registry, announce->path,
			REGISTRY_DELETE_NODE, &announce->stat, NULL, on_written, announce));
	} else {
		static const char *const reasons[] = {
			[ANNOUNCE_DO_CREATE] = "nothing stands at our path",
			[ANNOUNCE_DO_REWRITE] = "our record is not what it should be",
			[ANNOUNCE_DO_TAKE_OVER] = "taking over the node that stands there",
		};
		set_state(announce, ANNOUNCE_WRITING, reasons[action]);
		begin_bind(announce, action);
	}
}

static bool is_write(enum announce_action action)
{
	return action == ANNOUNCE_DO_CREATE || action == ANNOUNCE_DO_REWRITE ||
		action == ANNOUNCE_DO_TAKE_OVER;
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

static void as_wished(struct announce *announce, const struct announce_view *view)
{
	announce->retry_ms = RETRY_FIRST_MS;
	if (announce->wish_err.code) {
		set_failed(announce, &announce->wish_err);
		return;
	}
	switch (announce->wish) {
	case ANNOUNCE_UP:
		announce->was_ours = true;
		announce->ours = announce->stat;
		set_state(announce, ANNOUNCE_REGISTERED, announce->wish_why);
		break;
	case ANNOUNCE_DOWN:
		set_state(announce, ANNOUNCE_WITHDRAWN, announce->wish_why);
		break;
	case ANNOUNCE_KEEP:
		set_state(announce,
			view->present && is_ours(view) ? ANNOUNCE_REGISTERED : ANNOUNCE_WITHDRAWN,
			announce->wish_why);
		break;
	}
}

static void refuse(struct announce *announce)
{
	char why[sizeof(announce->why)];
	struct record *standing = NULL;
	struct err ignored = ERR_INIT;
	if (record_decode(&standing, announce->standing, announce->standing_len, &ignored) == 0) {
		text_printf(why, sizeof(why), "another record stands at %s (yarn:id %s, %s)",
			announce->path, quote_text(record_id(standing)).text,
			quote_text(record_description(standing)).text);
	} else {
		text_printf(why, sizeof(why), "an unreadable record stands at %s", announce->path);
	}
	record_free(standing);
	set_state(announce, ANNOUNCE_CONFLICT, why);
	announce->known = false;
	retry_later(announce);
}

static void reconcile(struct announce *announce)
{
	if (announce->request) {
		return;
	}
	if (registry_state(announce->registry) != REGISTRY_CONNECTED) {
		return;
	}
	if (!announce->known) {
		if (!announce->hold) {
			registry_watch_refresh(announce->watch);
		}
		return;
	}
	struct announce_view view = view_of(announce);
	enum announce_action action = announce_decide(&view);
	if (action == ANNOUNCE_DO_NOTHING) {
		as_wished(announce, &view);
		return;
	}
	if (action == ANNOUNCE_DO_REFUSE) {
		refuse(announce);
		return;
	}
	if (announce->hold) {
		return;
	}
	int64_t wait_ms = is_write(action) ? throttled_ms(announce) : 0;
	if (wait_ms > 0) {
		hold_for(announce, wait_ms);
		return;
	}
	begin(announce, action);
}

static void on_node(void *context, const struct registry_result *result)
{
	struct announce *announce = context;
	if (announce->request) {
		return; /* it ends with another look */
	}
	if (result->changed) {
		/* Whatever we were waiting out may be over. */
		release_hold(announce);
	}
	if (result->err.code == 0) {
		remember_standing(announce, &result->stat, result->data, result->data_len);
	} else if (result->err.code == BERTH_PATH_NOT_FOUND) {
		forget_standing(announce);
		announce->was_ours = false;
		announce->known = true;
	} else {
		failed(announce, &result->err);
		return;
	}
	reconcile(announce);
}

struct announce *announce_create(
	struct ev_loop *loop, struct registry *registry, const struct announce_options *options)
{
	struct announce *announce = allocate_zeroed(1, sizeof(*announce));
	announce->loop = loop;
	announce->registry = registry;
	announce->options = *options;
	announce->retry_ms = RETRY_FIRST_MS;
	announce->since = ev_now(loop);
	text_printf(announce->why, sizeof(announce->why), "starting");
	ev_timer_init(&announce->timer, on_timer, 0.0, 0.0);
	announce->timer.data = announce;
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
	ev_timer_stop(announce->loop, &announce->timer);
	record_free(announce->record);
	free(announce->data);
	free(announce->standing);
	free(announce->sent);
	free(announce->path);
	free(announce);
}

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
		release_hold(announce);
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

void announce_on_registry_state(struct announce *announce, enum registry_state state)
{
	if (state == REGISTRY_CONNECTED) {
		announce->retry_ms = RETRY_FIRST_MS;
		return; /* the watch is read again and wakes us */
	}
	announce->known = false;
	if (state == REGISTRY_LOST) {
		announce->was_ours = false;
	}
	char why[128];
	text_printf(why, sizeof(why), "the registry is %s", registry_state_name(state));
	set_state(announce, ANNOUNCE_WAITING, why);
}

void announce_set_takeover(struct announce *announce, bool takeover)
{
	announce->options.takeover = takeover;
	release_hold(announce);
}

void announce_set_ephemeral(struct announce *announce, bool ephemeral)
{
	announce->options.ephemeral = ephemeral;
}

void announce_set_update_interval(struct announce *announce, int64_t update_interval_ms)
{
	announce->options.update_interval_ms = update_interval_ms;
	release_hold(announce);
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
		return withdrawn;
	}
	return false;
}
