#include "agent/bridge/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/bridge/claim.h"
#include "agent/bridge/policy.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/registry/registry_dir.h"

enum {
	LOOK_FIRST_MS = 1, /* after an owner's file was closed: the lock goes a moment later */
	LOOK_LAST_MS = 64,
	RESYNC_MS = 10000,      /* a look without any event */
	RESYNC_EMPTY_MS = 1000, /* likewise, while no record is known: a mount makes no event */
	REST = 9,               /* times as long as a look takes, there is none */
	REST_MAX_MS = 1000,
	FLOOD_EVENTS = 512, /* in a window of */
	FLOOD_WINDOW_MS = 100,
	MUTE_MS = 1000,
	MUTE_RESYNC_MS = 200,
	/* Entries of the tree that are visited: some, and so many for each record. */
	ENTRIES = 256,
	ENTRIES_PER_RECORD = 16,
	UNSEEN_AGAIN_MS = 1000, /* after we lacked descriptors or memory to look */
	MORE_CLAIMS = 64,       /* records beyond the allowed number that are named as refused */
	LOG_BURST = 8,          /* refusals in the log, and then one a second */
};

static const char REGISTRY[] = "registry";

struct bridge_container {
	struct bridge_container_environment environment;
	char *name;
	int fd; /* of its subdirectory */
	dev_t device;
	ino_t inode;
	char mistake[300]; /* why it is not served; "" */
	bool unbounded;    /* registry/ shares the file system, and the log says so */
	double since;      /* wall clock */
	struct bridge_listener listener;
	const struct config_container *policy;
	int64_t linger_ms;

	struct list claims; /* in the order in which they were found */
	json_t *by_path;    /* path -> the claim's address */
	size_t claim_count;
	size_t more;  /* records that the last walk did not take up; at least */
	bool partial; /* the last walk met a bound */

	double tokens; /* writes */
	double log_tokens;
	int64_t tokens_at_ms;

	struct bridge_watch_set watches;
	bool dirty;
	int64_t look_at_ms; /* 0: no look at the owners is due */
	int64_t look_wait_ms;
	int64_t retry_at_ms;   /* a claim waits for tokens, or lingers; 0: none */
	int64_t resync_at_ms;  /* a walk without an event */
	int64_t rest_until_ms; /* no look before */
	int64_t muted_until_ms;
	int64_t window_at_ms; /* of events */
	size_t events;
};

/* ---- events ---- */

/* The watches go, and with them the events; looks at intervals take their place. */
static void mute(struct bridge_container *container, int64_t now_ms)
{
	if (container->log_tokens >= 1) {
		container->log_tokens -= 1;
		log_warn("bridge",
			"container %s changes its registry too fast: looking %d times a second",
			container->name, 1000 / MUTE_RESYNC_MS);
	}
	container->muted_until_ms = now_ms + MUTE_MS;
	container->resync_at_ms = now_ms + MUTE_RESYNC_MS;
	container->dirty = false;
	bridge_watch_set_finish(container->environment.watches, &container->watches);
}

static void on_event(void *context, uint32_t mask, const char *name)
{
	struct bridge_container *container = context;
	int64_t now_ms = clock_monotonic_ms();
	if (now_ms - container->window_at_ms > FLOOD_WINDOW_MS) {
		container->window_at_ms = now_ms;
		container->events = 0;
	}
	if (++container->events > FLOOD_EVENTS) {
		mute(container, now_ms);
	} else if ((mask & IN_CLOSE_WRITE) && strcmp(name, DIR_OWNER) == 0) {
		container->look_wait_ms = LOOK_FIRST_MS;
		container->look_at_ms = now_ms;
	} else if (!(mask & IN_IGNORED)) {
		container->dirty = true;
	}
	container->environment.on_due(container->environment.context);
}

/* ---- life ---- */

struct bridge_container *bridge_container_create(
	const struct bridge_container_environment *environment, const char *name, int fd_take)
{
	struct bridge_container *container = allocate_zeroed(1, sizeof(*container));
	struct stat stat;
	container->environment = *environment;
	container->name = allocate_text(name);
	container->fd = fd_take;
	container->since = clock_wall_s();
	container->by_path = allocated(json_object());
	container->tokens_at_ms = clock_monotonic_ms();
	container->log_tokens = LOG_BURST;
	list_init(&container->claims);
	bridge_watch_set_init(&container->watches, on_event, container);
	if (fstat(fd_take, &stat) == 0) {
		container->device = stat.st_dev;
		container->inode = stat.st_ino;
	}
	return container;
}

static void drop_claim(struct bridge_container *container, struct bridge_claim *claim)
{
	json_object_del(container->by_path, claim->path);
	container->claim_count--;
	bridge_claim_free(claim);
}

static void release(
	struct bridge_container *container, const struct bridge_claim *claim, const char *why)
{
	bridge_publish_release(container->environment.publish, claim->path, container->name, why);
}

void bridge_container_destroy(struct bridge_container *container, bool gone)
{
	if (!container) {
		return;
	}
	while (!list_empty(&container->claims)) {
		struct bridge_claim *claim = LIST_ITEM(
			container->claims.next, struct bridge_claim, link);
		if (gone) {
			release(container, claim, "the container's subdirectory has gone");
		}
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
		drop_claim(container, claim);
	}
	bridge_watch_set_finish(container->environment.watches, &container->watches);
	bridge_listener_finish(&container->listener);
	json_decref(container->by_path);
	close(container->fd);
	free(container->name);
	free(container);
}

const char *bridge_container_name(const struct bridge_container *container)
{
	return container->name;
}

bool bridge_container_is(const struct bridge_container *container, int fd)
{
	struct stat stat;
	return fstat(fd, &stat) == 0 && stat.st_dev == container->device &&
		stat.st_ino == container->inode;
}

void bridge_container_set_policy(struct bridge_container *container,
	const struct config_container *policy, int64_t linger_ms)
{
	bool first = !container->policy;
	container->policy = policy;
	container->linger_ms = linger_ms;
	if (first && policy) {
		container->tokens = policy->rate;
	}
	for (struct list *at = container->claims.next; at != &container->claims; at = at->next) {
		struct bridge_claim *claim = LIST_ITEM(at, struct bridge_claim, link);
		/* Read again, and judged again. */
		claim->version = (struct bridge_tree_version){ .inode = 0 };
		claim->changed = true;
	}
	container->dirty = true;
}

void bridge_container_doubt(struct bridge_container *container)
{
	container->dirty = true;
}

/* ---- the registry's directory ---- */

static int fail(struct bridge_container *container, const char *what, int error)
{
	text_printf(
		container->mistake, sizeof(container->mistake), "%s: %s", what, strerror(error));
	return -1;
}

/* Others than root and the agent could swap registry/ and the socket for something else. */
static bool is_safe(struct bridge_container *container, const struct stat *stat)
{
	bool ours = stat->st_uid == 0 || stat->st_uid == geteuid();
	if (ours && !(stat->st_mode & (S_IWGRP | S_IWOTH))) {
		return true;
	}
	text_printf(container->mistake, sizeof(container->mistake),
		"the subdirectory can be written by others than root: it must belong to root, with "
		"mode 0755");
	return false;
}

static void give(struct bridge_container *container, int registry_fd, const struct stat *stat)
{
	const struct config_container *policy = container->policy;
	if (!policy || policy->owner_uid == (unsigned)-1 ||
		(stat->st_uid == policy->owner_uid && stat->st_gid == policy->owner_gid)) {
		return;
	}
	if (fchown(registry_fd, policy->owner_uid, policy->owner_gid) != 0) {
		fail(container, "cannot give registry/ to its owner", errno);
	}
}

static void doubt_size(struct bridge_container *container, const struct stat *registry)
{
	bool shared = registry->st_dev == container->device;
	if (shared && !container->unbounded) {
		log_warn("bridge",
			"container %s: registry/ is not a file system of its own; a container that "
			"fills it fills the host's",
			container->name);
	}
	container->unbounded = shared;
}

static void renew_socket(struct bridge_container *container)
{
	const struct bridge_container_environment *environment = &container->environment;
	struct err err = ERR_INIT;
	if (bridge_listener_renew(&container->listener, environment->http, container->name,
		    container->fd, environment->sockets, environment->socket_count, &err)) {
		text_printf(container->mistake, sizeof(container->mistake), "%s", err.msg);
	}
}

bool bridge_container_pass(
	const struct bridge_container *container, struct bridge_socket *ret_socket)
{
	return bridge_listener_pass(&container->listener, container->name, ret_socket);
}

void bridge_container_forget_inherited(struct bridge_container *container)
{
	container->environment.sockets = NULL;
	container->environment.socket_count = 0;
}

/*
 * registry/ as it is now: a file system may have been mounted there since. -1 while the container
 * cannot be served, for container->mistake; false while we cannot even look.
 */
static bool open_registry(struct bridge_container *container, int *ret_fd)
{
	struct stat stat;
	char before[sizeof(container->mistake)];
	memcpy(before, container->mistake, sizeof(before));
	container->mistake[0] = '\0';
	int fd = -1;
	bool seen = true;
	if (fstat(container->fd, &stat) != 0) {
		fail(container, "the subdirectory", errno);
	} else if (is_safe(container, &stat)) {
		if (mkdirat(container->fd, REGISTRY, 0755) != 0 && errno != EEXIST) {
			fail(container, "cannot make registry/", errno);
		} else if ((fd = bridge_tree_open(container->fd, REGISTRY, false)) < 0 ||
			fstat(fd, &stat) != 0) {
			seen = fd >= 0 || !bridge_tree_is_want(errno);
			fail(container, "cannot open registry/ as a directory", errno);
		} else {
			give(container, fd, &stat);
			doubt_size(container, &stat);
			renew_socket(container);
		}
	}
	if (*container->mistake && strcmp(before, container->mistake) != 0) {
		log_warn("bridge", "container %s: %s", container->name, container->mistake);
	}
	*ret_fd = fd;
	return seen;
}

/* ---- judging ---- */

static void refill(struct bridge_container *container, int64_t now_ms)
{
	double passed_s = (double)(now_ms - container->tokens_at_ms) / 1000.0;
	double rate = container->policy ? container->policy->rate : 1;
	container->tokens_at_ms = now_ms;
	container->tokens += passed_s * rate;
	container->tokens = container->tokens > rate ? rate : container->tokens;
	container->log_tokens += passed_s;
	container->log_tokens = container->log_tokens > LOG_BURST ? LOG_BURST
								  : container->log_tokens;
}

static void refuse(struct bridge_container *container, struct bridge_claim *claim,
	enum bridge_claim_state state, const char *why)
{
	release(container, claim, why);
	claim->changed = true; /* if it is accepted one day */
	if (bridge_claim_set_state(claim, state, why) && container->log_tokens >= 1) {
		container->log_tokens -= 1;
		log_warn("bridge", "container %s: the record at %s is not registered: %s",
			container->name, claim->path, why);
	}
}

static void wake_at(struct bridge_container *container, int64_t at_ms)
{
	if (container->retry_at_ms == 0 || at_ms < container->retry_at_ms) {
		container->retry_at_ms = at_ms;
	}
}

/* The sums over the records that were accepted before this one. */
struct sums {
	size_t records;
	size_t bytes;
};

/* Why the container may not have this record; 0: it may. */
static int judge(const struct bridge_container *container, const struct bridge_claim *claim,
	const struct sums *sums, struct err *err)
{
	const struct config_container *policy = container->policy;
	if (!policy) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS, "no [container] matches %s",
			container->name);
	}
	if (!bridge_policy_allows(policy, claim->path)) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS,
			"`allow` of [container %s] does not have the path", policy->glob);
	}
	if (!claim->data) {
		return err_set(err, claim->mistake.code, "%s: %s",
			berth_error_name(claim->mistake.code), claim->mistake.msg);
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
	struct bridge_container *container, struct bridge_claim *claim, const struct err *err)
{
	if (err->code == BERTH_REGISTRY_UNAVAILABLE) {
		(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_WAITING, err->msg);
	} else {
		refuse(container, claim,
			err->code == BERTH_FILE_ALREADY_EXISTS ? BRIDGE_CLAIM_CONFLICT
							       : BRIDGE_CLAIM_REFUSED,
			err->msg);
	}
}

static void publish(struct bridge_container *container, struct bridge_claim *claim, int64_t now_ms)
{
	struct err err = ERR_INIT;
	bool free_of_charge = bridge_publish_inherits(
		container->environment.publish, claim->path, container->name);
	if (container->tokens < 1 && !free_of_charge) {
		double missing = 1 - container->tokens;
		wake_at(container,
			now_ms + 1 + (int64_t)(missing * 1000 / container->policy->rate));
		if (claim->state != BRIDGE_CLAIM_HELD) {
			(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_WAITING,
				"the container writes faster than its rate");
		}
		return;
	}
	if (bridge_publish_claim(container->environment.publish, container->policy, claim->path,
		    container->name, claim->data, claim->len, &err)) {
		be_refused(container, claim, &err);
		return;
	}
	container->tokens -= free_of_charge ? 0 : 1;
	claim->changed = false;
	(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_HELD, "");
}

static void decide(struct bridge_container *container, struct bridge_claim *claim,
	struct sums *sums, int64_t now_ms)
{
	struct err err = ERR_INIT;
	if (claim->state == BRIDGE_CLAIM_NEW && !claim->data && !claim->mistake.code) {
		return; /* it was found, and had gone before the look */
	}
	if (judge(container, claim, sums, &err)) {
		refuse(container, claim, BRIDGE_CLAIM_REFUSED, err.msg);
		return;
	}
	sums->records++;
	sums->bytes += claim->len;
	if (claim->changed && claim->state != BRIDGE_CLAIM_LINGERING) {
		publish(container, claim, now_ms);
	}
}

static void decide_all(struct bridge_container *container, int64_t now_ms)
{
	struct sums sums = { 0 };
	for (struct list *at = container->claims.next; at != &container->claims; at = at->next) {
		decide(container, LIST_ITEM(at, struct bridge_claim, link), &sums, now_ms);
	}
}

void bridge_container_retry(struct bridge_container *container, int64_t now_ms)
{
	bool any = false;
	for (const struct list *at = container->claims.next; at != &container->claims && !any;
		at = at->next) {
		enum bridge_claim_state state = LIST_ITEM(at, struct bridge_claim, link)->state;
		any = state == BRIDGE_CLAIM_CONFLICT || state == BRIDGE_CLAIM_WAITING;
	}
	if (any) {
		refill(container, now_ms);
		decide_all(container, now_ms);
	}
}

/* ---- looking ---- */

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
	wake_at(container, until_ms);
	(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_LINGERING, "its owner has died");
	return true;
}

static void look_at(struct bridge_container *container, struct bridge_claim *claim, int registry_fd,
	int64_t now_ms)
{
	struct bridge_tree_node node;
	bridge_tree_look(&node, registry_fd, claim->path, &claim->version);
	bool stays = node.kind == BRIDGE_TREE_LIVE ||
		(node.kind == BRIDGE_TREE_DEAD && mourn(container, claim, now_ms));
	if (node.kind == BRIDGE_TREE_UNSEEN) {
		wake_at(container, now_ms + UNSEEN_AGAIN_MS);
	} else if (!stays) {
		release(container, claim,
			node.kind == BRIDGE_TREE_DEAD ? "its owner has died"
						      : "the container has withdrawn it");
		drop_claim(container, claim);
	} else if (node.kind == BRIDGE_TREE_LIVE) {
		if (claim->state == BRIDGE_CLAIM_LINGERING) {
			(void)bridge_claim_set_state(claim, BRIDGE_CLAIM_HELD, "");
		}
		claim->dead_since_ms = 0;
		if (node.data || node.err.code) {
			bridge_claim_read(claim, &node, container->policy);
		}
	}
	free(node.data);
}

static void look_at_all(struct bridge_container *container, int registry_fd, int64_t now_ms)
{
	struct list *next;
	for (struct list *at = container->claims.next; at != &container->claims; at = next) {
		next = at->next;
		look_at(container, LIST_ITEM(at, struct bridge_claim, link), registry_fd, now_ms);
	}
}

static void add_claim(struct bridge_container *container, const char *path)
{
	size_t most = (size_t)(container->policy ? container->policy->max_records : 0) +
		MORE_CLAIMS;
	if (json_object_get(container->by_path, path)) {
		return;
	}
	if (container->claim_count >= most) {
		container->more++;
		return;
	}
	struct bridge_claim *claim = bridge_claim_create(path);
	json_object_set_new(container->by_path, path, allocated(json_true()));
	list_append(&container->claims, &claim->link);
	container->claim_count++;
}

void bridge_container_expect(struct bridge_container *container, const char *path)
{
	add_claim(container, path);
}

static void on_live(void *context, const char *path)
{
	add_claim(context, path);
}

static void on_unseen(void *context)
{
	((struct bridge_container *)context)->dirty = true;
}

static void on_directory(void *context, int fd)
{
	struct bridge_container *container = context;
	if (container->muted_until_ms == 0) {
		bridge_watch_set_add(container->environment.watches, &container->watches, fd);
	}
}

static void walk(struct bridge_container *container, int registry_fd)
{
	size_t records = (size_t)(container->policy ? container->policy->max_records : 0);
	const struct bridge_tree_walk walk = {
		.max_entries = ENTRIES + ENTRIES_PER_RECORD * records,
		.on_directory = on_directory,
		.on_live = on_live,
		.on_unseen = on_unseen,
		.context = container,
	};
	container->dirty = false;
	container->more = 0;
	bridge_watch_set_begin(&container->watches);
	on_directory(container, container->fd);
	bool whole = registry_fd < 0 || bridge_tree_walk(&walk, registry_fd);
	bridge_watch_set_end(container->environment.watches, &container->watches);
	if (!whole && !container->partial) {
		log_warn("bridge",
			"container %s has more than %zu files and directories in its registry: "
			"those beyond are not looked at",
			container->name, walk.max_entries);
	}
	container->partial = !whole;
}

/* ---- when ---- */

static int64_t sooner(int64_t a, int64_t b)
{
	return b != 0 && b < a ? b : a;
}

int64_t bridge_container_due_ms(const struct bridge_container *container)
{
	int64_t due_ms = container->dirty ? 0 : container->resync_at_ms;
	due_ms = sooner(due_ms, container->look_at_ms);
	due_ms = sooner(due_ms, container->retry_at_ms);
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
	bool soon = container->claim_count == 0 || container->watches.incomplete ||
		*container->mistake;
	container->resync_at_ms = now_ms +
		(muted                 ? MUTE_RESYNC_MS
				: soon ? RESYNC_EMPTY_MS
				       : RESYNC_MS);
}

void bridge_container_run(struct bridge_container *container, int64_t now_ms)
{
	if (now_ms < bridge_container_due_ms(container)) {
		return;
	}
	int64_t began_ns = clock_read_ns(CLOCK_MONOTONIC);
	if (container->muted_until_ms != 0 && now_ms >= container->muted_until_ms) {
		container->muted_until_ms = 0;
		container->dirty = true;
	}
	int registry_fd;
	container->retry_at_ms = 0;
	if (!open_registry(container, &registry_fd)) {
		container->rest_until_ms = now_ms + UNSEEN_AGAIN_MS;
		return;
	}
	refill(container, now_ms);
	if (container->dirty || now_ms >= container->resync_at_ms) {
		walk(container, registry_fd);
		plan_resync(container, now_ms);
	}
	look_at_all(container, registry_fd, now_ms);
	decide_all(container, now_ms);
	plan_next_look(container, now_ms);
	if (registry_fd >= 0) {
		close(registry_fd);
	}
	int64_t rest_ms = (clock_read_ns(CLOCK_MONOTONIC) - began_ns) * REST / 1000000;
	rest_ms = rest_ms > REST_MAX_MS ? REST_MAX_MS : rest_ms;
	container->rest_until_ms = now_ms + (container->dirty ? UNSEEN_AGAIN_MS : rest_ms);
}

/* ---- report ---- */

static json_t *claim_json(
	const struct bridge_container *container, const struct bridge_claim *claim)
{
	const struct announce *announce = claim->state == BRIDGE_CLAIM_HELD
		? bridge_publish_find(container->environment.publish, claim->path, container->name)
		: NULL;
	if (announce) {
		return json_pack("{s:s, s:s, s:s, s:f}", "path", claim->path, "state",
			announce_state_name(announce_get_state(announce)), "why",
			announce_why(announce), "since", announce_since(announce));
	}
	return json_pack("{s:s, s:s, s:s, s:f}", "path", claim->path, "state",
		bridge_claim_state_name(claim->state), "why", claim->why, "since", claim->since);
}

struct leaving {
	const struct bridge_container *container;
	json_t *records;
};

static bool has_claim(const struct bridge_container *container, const char *path)
{
	for (const struct list *at = container->claims.next; at != &container->claims;
		at = at->next) {
		if (strcmp(LIST_ITEM(at, struct bridge_claim, link)->path, path) == 0) {
			return true;
		}
	}
	return false;
}

static void add_leaving(void *context, const char *path, const struct announce *announce)
{
	const struct leaving *leaving = context;
	if (!has_claim(leaving->container, path)) {
		json_array_append_new(leaving->records,
			json_pack("{s:s, s:s, s:s, s:f}", "path", path, "state",
				announce_state_name(announce_get_state(announce)), "why",
				announce_why(announce), "since", announce_since(announce)));
	}
}

json_t *bridge_container_json(const struct bridge_container *container)
{
	json_t *records = json_array();
	for (const struct list *at = container->claims.next; at != &container->claims;
		at = at->next) {
		json_array_append_new(
			records, claim_json(container, LIST_ITEM(at, struct bridge_claim, link)));
	}
	struct leaving leaving = { container, records };
	bridge_publish_each_leaving(
		container->environment.publish, container->name, add_leaving, &leaving);
	const char *state = *container->mistake  ? "refused"
		: container->muted_until_ms != 0 ? "throttled"
						 : "served";
	return json_pack("{s:s, s:s, s:s, s:f, s:s, s:o, s:b, s:b}", "name", container->name,
		"state", state, "why", container->mistake, "since", container->since, "policy",
		container->policy ? container->policy->glob : "", "records", records, "more",
		container->more > 0 || container->partial, "unbounded", container->unbounded);
}

void bridge_container_count(const struct bridge_container *container, size_t *counts)
{
	for (const struct list *at = container->claims.next; at != &container->claims;
		at = at->next) {
		counts[LIST_ITEM(at, struct bridge_claim, link)->state]++;
	}
}
