/* How a container is looked at, when, and what follows for its records. */
#include "agent/bridge/container_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/clock.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/looker/protocol.h"

enum {
	LOOK_FIRST_MS = 1, /* after an owner's file was closed: the lock goes a moment later */
	LOOK_LAST_MS = 64,
	RESYNC_MS = 10000,         /* a look without any event */
	RESYNC_EMPTY_MS = 1000,    /* likewise, while no record is known: a mount makes no event */
	REST = 9,                  /* times as long as a look takes, there is none */
	LONG_MS = 50,              /* after a look that took longer, */
	LONG_REST = 99,            /* so many times: the others have waited; but those of */
	FORGIVEN_MS = 500,         /* so long in all are forgiven: the disk may be busy, */
	FORGIVEN_AGAIN_MS = 60000, /* each minute */
	STALL_FORGOTTEN_MS = 600000,
	FREEZER_AGAIN_MS = 500,
	FLOOD_EVENTS = 512, /* in a window of */
	FLOOD_WINDOW_MS = 100,
	MUTE_MS = 1000,
	MUTE_RESYNC_MS = 200,
	/* Entries of the tree that are visited: some, and so many for each record. */
	ENTRIES = 256,
	ENTRIES_PER_RECORD = 16,
	UNSEEN_AGAIN_MS = 1000, /* after we lacked descriptors or memory to look */
};

/* ---- what people want to know ---- */

/* NULL: none of its records' owners is frozen. */
static const struct bridge_claim *frozen_claim(const struct bridge_container *container)
{
	const struct bridge_claim *found = NULL;
	for (const struct list *at = container->claims.all.next;
		at != &container->claims.all && !found; at = at->next) {
		const struct bridge_claim *claim = LIST_ITEM(at, struct bridge_claim, link);
		found = claim->state == BRIDGE_CLAIM_FROZEN ? claim : NULL;
	}
	return found;
}

static const char *state_of(const struct bridge_container *container)
{
	bool stalled = container->stalled_since_ms != 0 && container->stall_limit_at_ms != 0;
	return stalled                                    ? "stalled"
		: *container->mistake                     ? "refused"
		: frozen_claim(container)                 ? "frozen"
		: container->muted_until_ms != 0          ? "throttled"
		: bridge_claims_drain(&container->claims) ? "draining"
		: container->claims.count == 0            ? "empty"
							  : "served";
}

static const char *why_of(const struct bridge_container *container)
{
	const struct bridge_claim *frozen = frozen_claim(container);
	const struct drain *drain = bridge_claims_drain(&container->claims);
	return *container->mistake               ? container->mistake
		: frozen                         ? frozen->why
		: container->muted_until_ms != 0 ? "it changes its registry too fast: it is looked "
						   "at five times a second"
		: drain                          ? drain->reason
		: container->claims.count == 0   ? "no process of it holds a record"
						 : "";
}

void bridge_container_note_state(struct bridge_container *container)
{
	const char *state = state_of(container);
	if (strcmp(state, container->state) != 0) {
		bridge_claims_report(
			&container->claims, NULL, container->state, state, why_of(container));
		container->state = state;
		container->since = clock_wall_s();
	}
}

/* ---- events ---- */

/* The watches go, and with them the events; looks at intervals take their place. */
static void mute(struct bridge_container *container, int64_t now_ms)
{
	container->muted_until_ms = now_ms + MUTE_MS;
	container->resync_at_ms = now_ms + MUTE_RESYNC_MS;
	container->dirty = false;
	bridge_looker_forget(container->environment.looker, container->id);
	bridge_container_note_state(container);
}

void bridge_container_on_event(
	struct bridge_container *container, unsigned what, size_t count, int64_t now_ms)
{
	if (container->muted_until_ms != 0) {
		return; /* it was on its way */
	}
	if (now_ms - container->window_at_ms > FLOOD_WINDOW_MS) {
		container->window_at_ms = now_ms;
		container->events = 0;
	}
	container->events += count;
	if (container->events > FLOOD_EVENTS) {
		mute(container, now_ms);
		return;
	}
	if (what & LOOKER_OWNER_CLOSED) {
		container->look_wait_ms = LOOK_FIRST_MS;
		container->look_at_ms = now_ms;
	}
	container->dirty = container->dirty || (what & LOOKER_CHANGED);
}

/* ---- life ---- */

struct bridge_container *bridge_container_create(
	const struct bridge_container_environment *environment, const char *name, uint64_t id,
	uint64_t device, uint64_t inode)
{
	struct bridge_container *container = allocate_zeroed(1, sizeof(*container));
	container->environment = *environment;
	container->name = allocate_text(name);
	container->id = id;
	container->device = device;
	container->inode = inode;
	container->since = clock_wall_s();
	bridge_claims_init(&container->claims, environment->publish, name);
	container->state = "absent";
	bridge_listener_inherit(&container->listener, environment->http, name, environment->sockets,
		environment->socket_count);
	return container;
}

static void drop_claim(struct bridge_container *container, struct bridge_claim *claim)
{
	if (container->owners_next == claim) {
		container->owners_next = NULL;
	}
	bridge_claims_drop(&container->claims, claim);
}

void bridge_container_release_all(struct bridge_container *container, const char *why)
{
	while (!list_empty(&container->claims.all)) {
		struct bridge_claim *claim = LIST_ITEM(
			container->claims.all.next, struct bridge_claim, link);
		bridge_claims_release(&container->claims, claim, why);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
		drop_claim(container, claim);
	}
}

void bridge_container_destroy(struct bridge_container *container, bool gone)
{
	if (!container) {
		return;
	}
	if (gone && strcmp(container->state, "absent") != 0) {
		bridge_claims_report(&container->claims, NULL, container->state, "gone",
			"its subdirectory has gone");
	}
	if (gone) {
		bridge_container_release_all(container, "the container's subdirectory has gone");
	}
	bridge_looker_forget(container->environment.looker, container->id);
	bridge_listener_finish(&container->listener);
	bridge_claims_finish(&container->claims);
	free(container->walk_from);
	free(container->name);
	free(container);
}

const char *bridge_container_name(const struct bridge_container *container)
{
	return container->name;
}

const char *bridge_container_full_name(const struct bridge_container *container)
{
	return container->claims.account->name;
}

uint64_t bridge_container_id(const struct bridge_container *container)
{
	return container->id;
}

bool bridge_container_is(const struct bridge_container *container, uint64_t device, uint64_t inode)
{
	return container->device == device && container->inode == inode;
}

void bridge_container_set_policy(struct bridge_container *container,
	const struct config_container *policy, const struct config_bridge *options)
{
	container->linger_ms = options->linger_ms;
	container->stall_limit_ms = options->stall_limit_ms;
	bridge_claims_set_policy(&container->claims, policy);
	for (struct list *at = container->claims.all.next; at != &container->claims.all;
		at = at->next) {
		/* Read again, too. */
		LIST_ITEM(at, struct bridge_claim, link)->version =
			(struct bridge_version){ .inode = 0 };
	}
	container->dirty = true;
}

void bridge_container_doubt(struct bridge_container *container)
{
	container->dirty = true;
}

bool bridge_container_pass(
	const struct bridge_container *container, struct bridge_socket *ret_socket)
{
	return bridge_listener_pass(&container->listener, container->name, ret_socket);
}

void bridge_container_review(struct bridge_container *container, int64_t now_ms)
{
	bridge_claims_decide(&container->claims, now_ms);
	bridge_container_note_state(container);
}

void bridge_container_retry(struct bridge_container *container, int64_t now_ms)
{
	bridge_claims_retry(&container->claims, now_ms);
}

/* ---- looking ---- */

/* At the same time for all containers: the loop wakes up for it once. */
static int64_t next_freezer_ms(int64_t now_ms)
{
	return (now_ms / FREEZER_AGAIN_MS + 1) * FREEZER_AGAIN_MS;
}

bool bridge_container_seek_owners(struct bridge_container *container, bool whole, int64_t now_ms)
{
	bool news = false;
	for (struct list *at = container->claims.all.next; at != &container->claims.all;
		at = at->next) {
		news = bridge_claim_seek_owner(LIST_ITEM(at, struct bridge_claim, link),
			       container->environment.holders, whole) ||
			news;
	}
	container->freezer_at_ms = next_freezer_ms(now_ms);
	return news;
}

/* False: the claim is over. */
static bool mourn(struct bridge_container *container, struct bridge_claim *claim, int64_t now_ms)
{
	bool held = claim->state == BRIDGE_CLAIM_HELD || claim->state == BRIDGE_CLAIM_LINGERING;
	if (claim->dead_since_ms == 0) {
		claim->dead_since_ms = now_ms;
	}
	int64_t until_ms = claim->dead_since_ms + container->linger_ms;
	if (!held || now_ms >= until_ms) {
		return false;
	}
	bridge_claims_wake_at(&container->claims, until_ms);
	(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_LINGERING, "its owner has died");
	return true;
}

void bridge_container_expect(struct bridge_container *container, const char *path)
{
	(void)bridge_claims_add(&container->claims, path);
}

void bridge_container_judge_owner(struct bridge_container *container, struct bridge_claim *claim,
	enum bridge_owner owner, int64_t now_ms)
{
	if (owner == BRIDGE_OWNER_LIVES) {
		if (claim->state == BRIDGE_CLAIM_LINGERING) {
			(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_HELD, "");
		}
		claim->dead_since_ms = 0;
	} else if (owner != BRIDGE_OWNER_UNKNOWN &&
		!(owner == BRIDGE_OWNER_DIED && mourn(container, claim, now_ms))) {
		bridge_claims_release(&container->claims, claim,
			owner == BRIDGE_OWNER_DIED ? "its owner has died"
						   : "the container has withdrawn it");
		drop_claim(container, claim);
	}
}

static void ask_about(const struct bridge_container *container, struct wire *wire)
{
	const struct config_container *policy = container->claims.policy;
	wire_number(
		wire, policy && policy->owner_uid != (unsigned)-1 ? policy->owner_uid : (uid_t)-1);
	wire_number(wire, policy ? policy->owner_gid : 0);
	wire_number(wire, container->listener.http ? container->listener.place.device : 0);
	wire_number(wire, container->listener.http ? container->listener.place.inode : 0);
	wire_number(wire, policy ? policy->allow_count : 0);
	for (size_t i = 0; policy && i < policy->allow_count; i++) {
		wire_text(wire, policy->allow[i]);
	}
	wire_number(wire, policy ? policy->attribute_count : 0);
	for (size_t i = 0; policy && i < policy->attribute_count; i++) {
		wire_text(wire, policy->attributes[i].name);
		wire_text(wire, policy->attributes[i].value);
	}
	wire_number(wire, container->claims.count);
	for (const struct list *at = container->claims.all.next; at != &container->claims.all;
		at = at->next) {
		const struct bridge_claim *claim = LIST_ITEM(at, struct bridge_claim, link);
		wire_text(wire, claim->path);
		wire_number(wire, claim->version.inode);
		wire_number(wire, claim->version.size);
		wire_number(wire, claim->version.modified_ns);
		wire_number(wire, claim->version.changed_ns);
		wire_number(wire, claim->owner_inode);
		wire_number(wire, claim->good);
	}
}

void bridge_container_ask(struct bridge_container *container, int64_t now_ms)
{
	const struct config_container *policy = container->claims.policy;
	size_t records = (size_t)(policy ? policy->max_records : 0);
	if (container->muted_until_ms != 0 && now_ms >= container->muted_until_ms) {
		container->muted_until_ms = 0;
		container->dirty = true;
	}
	if (container->asked_since_ms == 0) {
		container->asked_since_ms = now_ms;
	}
	bool goes_on = container->walk_from;
	container->walks = goes_on || container->dirty || now_ms >= container->resync_at_ms;
	/* The next walk is for changes that come while one is under way. */
	container->dirty = container->dirty && goes_on;
	container->claims.retry_at_ms = 0;
	if (container->walks && !goes_on) {
		container->claims.more = 0;
	}
	struct wire *wire = bridge_looker_ask(container->environment.looker, container->name);
	wire_begin(wire, LOOKER_LOOK);
	wire_number(wire, container->id);
	wire_text(wire, container->name);
	wire_number(wire, container->device);
	wire_number(wire, container->inode);
	wire_number(wire,
		(container->walks ? LOOKER_WALK : 0) |
			(container->muted_until_ms == 0 ? LOOKER_WATCH : 0) |
			(policy ? LOOKER_HAS_POLICY : 0));
	wire_number(wire, container->passed_over);
	wire_text(wire, goes_on ? container->walk_from : "");
	wire_number(wire, goes_on ? container->walk_left : ENTRIES + ENTRIES_PER_RECORD * records);
	wire_number(wire, records);
	wire_number(wire, policy ? policy->max_bytes : 0);
	ask_about(container, wire);
	wire_end(wire);
	bridge_looker_send(container->environment.looker);
}

static void take_record(struct bridge_container *container, struct wire_frame *frame)
{
	static const enum bridge_owner owners[] = {
		[LOOKER_KIND_UNSEEN] = BRIDGE_OWNER_UNKNOWN,
		[LOOKER_KIND_ABSENT] = BRIDGE_OWNER_LEFT,
		[LOOKER_KIND_PERSISTENT] = BRIDGE_OWNER_LEFT,
		[LOOKER_KIND_ENDED] = BRIDGE_OWNER_LEFT,
		[LOOKER_KIND_DEAD] = BRIDGE_OWNER_DIED,
		[LOOKER_KIND_LIVE] = BRIDGE_OWNER_LIVES,
	};
	struct err mistake = ERR_INIT;
	size_t path_len;
	size_t len;
	const char *path = wire_get_bytes(frame, &path_len);
	uint64_t kind = wire_get_number(frame);
	unsigned flags = (unsigned)wire_get_number(frame);
	const struct bridge_version version = { wire_get_number(frame), wire_get_number(frame),
		wire_get_number(frame), wire_get_number(frame) };
	int code = (int)(int64_t)wire_get_number(frame);
	const char *text = wire_get_bytes(frame, &len);
	/* The looker parses bytes of strangers: its word is judged again. */
	frame->bad = frame->bad || kind > LOOKER_KIND_LIVE || len > LIMIT_RECORD_BYTES ||
		path_check(path, path_len, NULL) != 0;
	struct bridge_claim *claim = frame->bad ? NULL
		: flags & LOOKER_NEW            ? bridge_claims_add(&container->claims, path)
						: bridge_claims_find(&container->claims, path);
	if (!claim) {
		return;
	}
	claim->unread = flags & LOOKER_UNREAD;
	if (code) {
		err_set(&mistake, code, "%s", text);
	}
	if (flags & LOOKER_UNREAD) {
		bridge_claims_take(&container->claims, claim, &(struct bridge_version){ 0 }, NULL,
			0, &mistake);
	} else if (flags & LOOKER_READ) {
		bridge_claims_take(&container->claims, claim, &version, text, len, &mistake);
	}
	bridge_container_judge_owner(container, claim, owners[kind], clock_monotonic_ms());
}

static void take_owner(
	struct bridge_container *container, struct wire *wire, struct wire_frame *frame)
{
	const char *path = wire_get_text(frame);
	uint64_t device = wire_get_number(frame);
	uint64_t inode = wire_get_number(frame);
	int fd = wire_take_fd(wire);
	struct bridge_claim *claim = bridge_claims_find(&container->claims, path);
	if (claim && fd >= 0) {
		bridge_claim_take_owner(claim, fd, device, inode);
	} else if (fd >= 0) {
		close(fd);
	}
}

static void take_socket(
	struct bridge_container *container, struct wire *wire, struct wire_frame *frame)
{
	const struct http_place place = { wire_get_number(frame), wire_get_number(frame) };
	int fd = wire_take_fd(wire);
	if (fd >= 0 && !frame->bad) {
		bridge_listener_take(&container->listener, container->environment.http,
			container->name, fd, &place);
	} else if (fd >= 0) {
		close(fd);
	}
}

static void take_result(struct bridge_container *container, struct wire_frame *frame)
{
	char before[sizeof(container->mistake)];
	memcpy(before, container->mistake, sizeof(before));
	frame->bad = wire_get_number(frame) != container->id || frame->bad;
	container->looked = (unsigned)wire_get_number(frame);
	container->passed_over = (size_t)wire_get_number(frame);
	size_t len;
	const char *place = wire_get_bytes(frame, &len);
	frame->bad = frame->bad || len >= LOOKER_PLACE_BYTES;
	free(container->walk_from);
	container->walk_from = frame->bad || len == 0 ? NULL : allocate_text(place);
	container->walk_left = (size_t)wire_get_number(frame);
	container->claims.more += (size_t)wire_get_number(frame);
	container->look_took_ns = (int64_t)wire_get_number(frame);
	text_printf(container->mistake, sizeof(container->mistake), "%s", wire_get_text(frame));
	if (*container->mistake && *before && strcmp(before, container->mistake) != 0) {
		bridge_claims_report(
			&container->claims, NULL, container->state, "refused", container->mistake);
	}
}

void bridge_container_on_frame(
	struct bridge_container *container, struct wire *wire, struct wire_frame *frame)
{
	switch (frame->type) {
	case LOOKER_RECORD:
		take_record(container, frame);
		break;
	case LOOKER_OWNER:
		take_owner(container, wire, frame);
		break;
	case LOOKER_SOCKET:
		take_socket(container, wire, frame);
		break;
	case LOOKER_LOOKED:
		take_result(container, frame);
		break;
	default:
		frame->bad = true;
	}
}

/* ---- when ---- */

static int64_t sooner(int64_t a, int64_t b)
{
	return b != 0 && b < a ? b : a;
}

/* The time for the last look was over before its end. */
static bool is_unfinished(const struct bridge_container *container)
{
	return container->passed_over > 0 || container->walk_from;
}

int64_t bridge_container_due_ms(const struct bridge_container *container)
{
	int64_t due_ms = container->dirty || is_unfinished(container) ? 0 : container->resync_at_ms;
	due_ms = sooner(due_ms, container->look_at_ms);
	due_ms = sooner(due_ms, container->claims.retry_at_ms);
	if (container->stalled_since_ms != 0 &&
		bridge_looker_has_abandoned(container->environment.looker, container->name)) {
		return INT64_MAX; /* another looker would hang there, too */
	}
	return due_ms > container->rest_until_ms ? due_ms : container->rest_until_ms;
}

static void plan_next_look(struct bridge_container *container, int64_t now_ms)
{
	if (container->look_at_ms == 0) {
		return;
	}
	container->look_at_ms = container->look_wait_ms > LOOK_LAST_MS
		? 0
		: now_ms + container->look_wait_ms;
	container->look_wait_ms *= 2;
}

static void plan_resync(struct bridge_container *container, int64_t now_ms)
{
	bool muted = container->muted_until_ms != 0;
	bool soon = container->claims.count == 0 || container->incomplete || *container->mistake;
	container->resync_at_ms = now_ms +
		(muted                 ? MUTE_RESYNC_MS
				: soon ? RESYNC_EMPTY_MS
				       : RESYNC_MS);
}

/*
 * Once it has a record: its directory is there before a file system is mounted on it, and before
 * the container starts.
 */
static void doubt_mount(struct bridge_container *container)
{
	bool doubtful = container->unbounded || container->unsafe;
	if (doubtful && !container->doubted && container->claims.count > 0) {
		log_limited(&container->claims.account->lines, LOG_LEVEL_WARN, "bridge",
			"container %s: registry/ is %s%s%s", container->name,
			container->unbounded ? "not a file system of its own: a container that "
					       "fills it fills the host's"
					     : "",
			container->unbounded && container->unsafe ? ", and it is " : "",
			container->unsafe ? "mounted without nosuid or nodev: its root can leave a "
					    "program or a device for users of the host"
					  : "");
		container->doubted = true;
	} else if (!doubtful) {
		container->doubted = false;
	}
}

static void note_walk(struct bridge_container *container, int64_t now_ms)
{
	bool partial = container->looked & LOOKER_PARTIAL;
	if (partial && !container->partial) {
		log_limited(&container->claims.account->lines, LOG_LEVEL_WARN, "bridge",
			"container %s has more than %d files and directories in its registry: "
			"those beyond are not looked at",
			container->name,
			ENTRIES +
				ENTRIES_PER_RECORD *
					(container->claims.policy
							? container->claims.policy->max_records
							: 0));
	}
	container->partial = partial;
	container->unbounded = container->looked & LOOKER_UNBOUNDED;
	container->unsafe = container->looked & LOOKER_UNSAFE;
	doubt_mount(container);
	container->incomplete = container->looked & LOOKER_INCOMPLETE;
	plan_resync(container, now_ms);
}

/* A container that makes the looker wait, makes all others wait. */
static int64_t rest_ms(struct bridge_container *container, int64_t now_ms)
{
	int64_t took_ms = container->look_took_ns / 1000000;
	if (took_ms <= LONG_MS) {
		return REST * container->look_took_ns / 1000000;
	}
	if (now_ms >= container->forgiven_again_ms) {
		container->forgiven_again_ms = now_ms + FORGIVEN_AGAIN_MS;
		container->forgiven_ms = 0;
	}
	container->forgiven_ms += took_ms;
	return took_ms * (container->forgiven_ms <= FORGIVEN_MS ? REST : LONG_REST);
}

static void end_stall(struct bridge_container *container, int64_t now_ms)
{
	if (container->stalled_since_ms != 0) {
		container->stalled_since_ms = 0;
		container->stall_limit_at_ms = 0;
		container->stall_forgotten_at_ms = now_ms + STALL_FORGOTTEN_MS;
	}
	if (container->stall_rest_ms != 0 && now_ms >= container->stall_forgotten_at_ms) {
		container->stall_rest_ms = 0;
	}
}

bool bridge_container_on_looked(struct bridge_container *container, int64_t now_ms)
{
	bool unseen = container->looked & LOOKER_UNSEEN;
	/*
	 * A look that is unfinished may have left out records that a predecessor has announced. The
	 * other containers do not wait for one whose look never ends.
	 */
	bool late = now_ms - container->asked_since_ms >= container->stall_limit_ms;
	container->known = container->known || (!unseen && (late || !is_unfinished(container)));
	end_stall(container, now_ms);
	if (container->looked & LOOKER_GONE) {
		return false;
	}
	if (container->walks && !unseen && !container->walk_from) {
		note_walk(container, now_ms);
	}
	container->dirty = container->dirty || unseen;
	(void)bridge_container_seek_owners(container, false, now_ms);
	bridge_claims_decide(&container->claims, now_ms);
	plan_next_look(container, now_ms);
	container->rest_until_ms = now_ms + (unseen ? UNSEEN_AGAIN_MS : rest_ms(container, now_ms));
	bridge_container_note_state(container);
	return true;
}

bool bridge_container_is_known(const struct bridge_container *container)
{
	return container->known;
}

/* ---- report ---- */

const char *bridge_container_state(const struct bridge_container *container)
{
	return state_of(container);
}

size_t bridge_container_registered(const struct bridge_container *container)
{
	return bridge_publish_registered(container->claims.account);
}

json_t *bridge_container_json(const struct bridge_container *container)
{
	return json_pack("{s:s, s:s, s:s, s:f, s:s, s:o, s:b, s:b, s:b}", "name", container->name,
		"state", state_of(container), "why", why_of(container), "since", container->since,
		"policy", container->claims.policy ? container->claims.policy->glob : "", "records",
		bridge_claims_json(&container->claims), "more",
		container->claims.more > 0 || container->partial, "unbounded", container->unbounded,
		"unsafe", container->unsafe);
}

void bridge_container_count(const struct bridge_container *container, size_t *counts)
{
	bridge_claims_count(&container->claims, counts);
}
