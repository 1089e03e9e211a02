/*
 * libberth: look up, watch and register services from C.
 *
 * berth_open() makes a handle of one of two kinds:
 *   - on the agent of this container, through its Unix socket. Lookups come from its cache in
 *     microseconds and go on while the registry is away. The agent's own calls (status, checks,
 *     drain, …) need this kind.
 *   - on a registry itself, by URL (dir:/path, zookeeper://host:port,…/root). Writes need this.
 * A call on the wrong kind of handle fails with BERTH_FAILED and says so.
 *
 *	struct berth *berth;
 *	struct berth_endpoints found;
 *	if (berth_open(&berth, NULL, NULL, NULL) == 0 &&
 *		berth_endpoints(berth, "/services/db", NULL, &found, NULL) == 0) {
 *		printf("%s\n", found.count ? found.items[0].address : "none");
 *	}
 *
 * Threads: the library has no global state. Different handles may be used in different threads at
 * once; one handle, with everything made from it, by one thread at a time.
 *
 * Ownership: the caller owns the result in a `ret_` parameter, and gives it back to the function
 * that the type's comment names. Structs that the caller provides need no initialisation and are
 * untouched on failure. Everything passed in is copied or used only during the call. All strings
 * are UTF-8 and end with NUL.
 *
 * Errors: functions return 0, or one of the negative codes of berth_error.h, and then fill the
 * caller's `struct berth_failure` with the same code and a message for people. `failure` may be
 * NULL. The library never prints, never exits, and raises no signal; its descriptors are closed on
 * exec.
 *
 * Blocking: a call waits for its answer, at most the handle's timeout (berth_options; 10 s by
 * default). Nothing but berth_dispatch() calls a watch's callback.
 */
#ifndef BERTH_H
#define BERTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "berth_error.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct berth;        /* a handle; berth_close() */
struct berth_watch;  /* a running watch; berth_unwatch() */
struct berth_lookup; /* an answer that is kept; berth_lookup_free() */

#define BERTH_TAG_BYTES 64
#define BERTH_MESSAGE_BYTES 512

struct berth_failure {
	int code;                          /* enum berth_error; negative */
	char message[BERTH_MESSAGE_BYTES]; /* no newline, no full stop */
};

/* How true an answer is. */
struct berth_freshness {
	/*
	 * seconds since it was last known to be true; 0 while a watch keeps it true, and from a
	 * registry
	 */
	long age_s;
	bool stale; /* the registry is away: this is the last known answer */
};

/* JSON text; berth_answer_finish(). */
struct berth_answer {
	char *json;
	size_t len; /* bytes, without the NUL */
	struct berth_freshness freshness;
	char tag[BERTH_TAG_BYTES]; /* names the content, for berth_await(); "": none */
};

/* Full paths, sorted; berth_paths_finish(). */
struct berth_paths {
	char **items;
	size_t count;
	/*
	 * berth_list(): children with names that no path can hold; %XX replaces a byte that is odd
	 * in a name.
	 */
	char **foreign;
	size_t foreign_count;
	struct berth_freshness freshness;
};

/* One address of one endpoint. The strings belong to the struct berth_endpoints that it is in. */
struct berth_endpoint {
	const char *path;         /* of the record */
	const char *scope;        /* "external" or "internal" */
	const char *api;          /* the API of the endpoint: a URI */
	const char *protocol;     /* "REST", "webui", …; "" when the record has none */
	const char *address_type; /* "uri", "host/port", … */
	/* in one line: a URI, host:port ([::1]:80 for IPv6) or a path; "" without such a form */
	const char *address;
	const char *host;         /* NULL when the address type has none */
	unsigned port;            /* 0 when the address type has none */
	const char *address_json; /* all of the address: a JSON object of strings */
};

/* berth_endpoints_finish(). */
struct berth_endpoints {
	struct berth_endpoint *items;
	size_t count;
	struct berth_freshness freshness;
};

struct berth_stat {
	int64_t time_ms; /* when the node was made: ms since 1970 */
	size_t size;     /* bytes of its record; 0 without one */
	size_t children; /* as berth_list() gives them */
	size_t foreign;  /* further ones, whose names no path can hold */
	struct berth_freshness freshness;
};

/* Which endpoints; NULL means any. */
struct berth_endpoint_filter {
	const char *api;
	const char *protocol; /* case does not matter */
	const char *scope;    /* "external" or "internal" */
};

/* Which records find and purge mean; NULL means any, and the root for `under`. */
struct berth_criteria {
	const char *under;
	const char *api;         /* of some endpoint */
	const char *protocol;    /* of some endpoint; case does not matter */
	const char *type;        /* the attribute "type" */
	const char *id;          /* yarn:id */
	const char *persistence; /* yarn:persistence */
};

/* Zero means default. */
struct berth_options {
	int timeout_ms;         /* of each call; default 10000 */
	int session_timeout_ms; /* registries only, as are those below; default 30000 */
	const char *auth_file;  /* a file of mode 0600 that holds user:password, for digest */
	/*
	 * protect what is written: everyone reads; only this user and system_accounts write; needs
	 * auth_file and a zookeeper:// registry
	 */
	bool secure;
	/* comma-separated scheme:id; default sasl:yarn@, sasl:mapred@, sasl:hdfs@; "": none */
	const char *system_accounts;
	/* with secure: further scheme:id that may change the nodes of this handle; default none */
	const char *write_accessors;
	const char *realm; /* appended to accounts that end in @; without it these get no rights */
};

/* ---- handles ---- */

/*
 * Opens a handle: `where` is the path of an agent's socket (also as unix:PATH), or a registry's
 * URL. NULL: the socket that BERTH_SOCKET in the environment names, or the installation's usual
 * one. `options` may be NULL. Does not wait: an agent or a registry that cannot be reached shows in
 * the first call.
 */
int berth_open(struct berth **ret_berth, const char *where, const struct berth_options *options,
	struct berth_failure *failure);

/*
 * Ends watches and lookups of the handle, and a registry's session: what it bound as ephemeral
 * vanishes. Blocks for a second at most. Accepts NULL. Not from a callback.
 */
void berth_close(struct berth *berth);

/* True for a handle on a registry, false for one on an agent. */
bool berth_is_registry(const struct berth *berth);

/* Changes how long each later call may wait. */
void berth_set_timeout(struct berth *berth, int timeout_ms);

/*
 * Whether look-ups may come from the memory that the agent shares (on by default, unless
 * BERTH_SHARED=off is in the environment). From the third look-up on, berth_resolve(),
 * berth_records(), berth_endpoints(), berth_list(), berth_stat(), berth_exists(), berth_name() and
 * berth_lookup_get() find there what any process of the machine has asked for lately: such a hit
 * makes no system call, takes well below a microsecond and the time to copy the answer, and is as
 * true as one of the socket with age 0. Everything else goes to the socket as before. Has no effect
 * on a handle on a registry.
 */
void berth_set_shared(struct berth *berth, bool on);

/*
 * A descriptor that becomes readable when berth_dispatch() has something to do, timers included. It
 * stays the same.
 */
int berth_fd(const struct berth *berth);

/*
 * Does what is due: reads events, calls the watches' callbacks, reconnects, keeps a registry's
 * session alive. Waits up to `timeout_ms` (-1: for ever) for something to be due. 0, also when
 * nothing was. Needed while there are watches; and on a registry that holds ephemeral records, at
 * least every third of the session timeout.
 */
int berth_dispatch(struct berth *berth, int timeout_ms, struct berth_failure *failure);

/* Free what the answers hold, not the structs themselves. */
void berth_answer_finish(struct berth_answer *answer);
void berth_paths_finish(struct berth_paths *paths);
void berth_endpoints_finish(struct berth_endpoints *endpoints);

/* ---- lookups, on both kinds of handle ---- */

/*
 * The service record at `path`, as stored. BERTH_PATH_NOT_FOUND, BERTH_NO_RECORD,
 * BERTH_INVALID_RECORD.
 */
int berth_resolve(struct berth *berth, const char *path, struct berth_answer *ret_record,
	struct berth_failure *failure);

/* The children of `path`. BERTH_PATH_NOT_FOUND. */
int berth_list(struct berth *berth, const char *path, struct berth_paths *ret_paths,
	struct berth_failure *failure);

/*
 * An object that maps the full path of each direct child that holds a record to that record.
 * BERTH_PATH_NOT_FOUND.
 */
int berth_records(struct berth *berth, const char *path, struct berth_answer *ret_records,
	struct berth_failure *failure);

/*
 * The addresses that the record at `path` and those of its direct children offer, one entry each,
 * in the order of their paths. An empty list is not an error. `filter` may be NULL.
 * BERTH_PATH_NOT_FOUND.
 */
int berth_endpoints(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, struct berth_endpoints *ret_endpoints,
	struct berth_failure *failure);

/*
 * As berth_endpoints(), for an agent only: the nearest to `zone` first, or to the agent's own zone
 * with "self"; while the path offers nothing, those of [agent] failover. *ret_tiers has the tier of
 * each endpoint, 0 for the nearest; free() takes it. BERTH_PATH_NOT_FOUND.
 */
int berth_endpoints_near(struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, const char *zone,
	struct berth_endpoints *ret_endpoints, unsigned **ret_tiers, struct berth_failure *failure);

/*
 * The freshness of the agent's last answer on this handle, also when a call failed with it: while
 * the registry is away, that a path is absent may be old news, too. Zero without an answer, and on
 * a registry.
 */
struct berth_freshness berth_last_freshness(const struct berth *berth);

/* BERTH_PATH_NOT_FOUND. */
int berth_stat(struct berth *berth, const char *path, struct berth_stat *ret_stat,
	struct berth_failure *failure);

/*
 * Asks the agent for the DNS records of a name: an object with "paths", "addresses", "alias",
 * "targets", "texts", "names" and "ttl" (PROTOCOL.md). `type` is A, AAAA, SRV, TXT or PTR; with
 * NULL it asks for all. BERTH_PATH_NOT_FOUND.
 */
int berth_name(struct berth *berth, const char *name, const char *type,
	struct berth_answer *ret_answer, struct berth_failure *failure);

/*
 * As berth_name(), the nearest to `zone` first, or to the agent's own zone with "self". Each of the
 * "targets" has a "tier", and "tiers" are those of the "addresses".
 */
int berth_name_near(struct berth *berth, const char *name, const char *type, const char *zone,
	struct berth_answer *ret_answer, struct berth_failure *failure);

/* 1 when there is a node at `path`, 0 when there is none, or a negative code. */
int berth_exists(struct berth *berth, const char *path, struct berth_failure *failure);

/* Called now and then during find and purge on a registry. */
typedef void berth_on_progress(void *context, size_t visited, size_t matches);

/*
 * An object that maps paths to the records that match. `criteria` and `on_progress` may be NULL. On
 * a registry the timeout is that of a silence, not of the whole walk.
 */
int berth_find(struct berth *berth, const struct berth_criteria *criteria,
	berth_on_progress *on_progress, void *context, struct berth_answer *ret_records,
	struct berth_failure *failure);
/*
 * As berth_find(), on an agent only: the records with all of these attributes, NAME=VALUE each and
 * NULL behind them. BERTH_FAILED at an agent that knows no such filter.
 */
int berth_find_with_attributes(struct berth *berth, const struct berth_criteria *criteria,
	const char *const *attributes, struct berth_answer *ret_records,
	struct berth_failure *failure);

/* ---- resolve once, re-read on trouble ---- */

/*
 * Keeps the endpoints of `path` for this process. Sends no request yet. The lookup must not outlive
 * its handle.
 */
int berth_lookup_create(struct berth_lookup **ret_lookup, struct berth *berth, const char *path,
	const struct berth_endpoint_filter *filter, struct berth_failure *failure);
/* Accepts NULL. */
void berth_lookup_free(struct berth_lookup *lookup);

/*
 * The endpoints: the kept answer, unless there is none yet or berth_lookup_trouble() was called.
 * When a re-read fails, the kept answer is given once more with freshness.stale set, and the next
 * call tries again. *ret_endpoints is borrowed until the next call on this lookup.
 *
 * With the agent's shared memory (berth_set_shared()) the kept answer follows the registry: the
 * call compares one word, and reads the endpoints again when they have changed. While they are
 * not in that memory, it asks the agent once a second, for 100 ms at most. Without that memory,
 * and on a registry, it asks nobody.
 */
int berth_lookup_get(struct berth_lookup *lookup, const struct berth_endpoints **ret_endpoints,
	struct berth_failure *failure);

/*
 * An address did not work: the next berth_lookup_get() asks the registry again, past every cache.
 */
void berth_lookup_trouble(struct berth_lookup *lookup);

/* ---- sets, on an agent: who serves a path or a name ---- */

struct berth_set; /* a question that is kept, with its answer; berth_set_close() */

/* Zero means any, none or the agent's default. */
struct berth_set_options {
	struct berth_endpoint_filter filter;
	const char *const *attributes; /* NAME=VALUE each, and NULL behind them: all must hold */
	const char *near;              /* a zone, or "self": the nearest come first */
	/*
	 * comma-separated paths below which the same is looked for while too few serve, the best
	 * first; "none": nowhere; default: [agent] failover, for a path with `near` alone
	 */
	const char *failover;
	/* fewer that serve are too few, and a set that falls below it stays as it was; default 1 */
	unsigned least;
};

/* One address of one endpoint of one record. */
struct berth_member {
	const struct berth_endpoint *endpoint;
	const char *host;   /* the name or address to connect to; "" when the address names none */
	unsigned port;      /* 0: the address names none */
	unsigned tier;      /* 0 for the nearest */
	unsigned weight;    /* its share of the traffic; 0: it takes none */
	const char *health; /* "passing", "warning" or "draining" */
	const char *zone;   /* "": the record has none */
	const char *attributes_json; /* of the record: an object */
};

/* In the order of tiers, then of paths. */
struct berth_members {
	const struct berth_member *items;
	size_t count;
	bool exists; /* there is such a path or name */
	struct berth_freshness freshness;
};

/*
 * Keeps the set of those who serve `what`: a path, with a slash in front, or a name as DNS has it.
 * Sends no request yet. `options` may be NULL, and is copied. The set must not outlive its handle.
 * BERTH_INVALID_PATHNAME.
 */
int berth_set_open(struct berth_set **ret_set, struct berth *berth, const char *what,
	const struct berth_set_options *options, struct berth_failure *failure);
/* Accepts NULL. */
void berth_set_close(struct berth_set *set);

/*
 * The members, kept and renewed as the endpoints of berth_lookup_get() are. *ret_members is
 * borrowed until the next call on this set. A path or name that does not exist has none.
 */
int berth_set_members(struct berth_set *set, const struct berth_members **ret_members,
	struct berth_failure *failure);

/*
 * The same, but waits up to `wait_s` seconds (600 at most) for other members than those that were
 * handed out last. BERTH_TIMEOUT when they stayed the same.
 */
int berth_set_next(struct berth_set *set, unsigned wait_s, const struct berth_members **ret_members,
	struct berth_failure *failure);

/*
 * One member that has a host and a port, by weight, of the nearest tier that has one; borrowed as
 * the members are. With the agent's shared memory the call takes a fraction of a microsecond while
 * nothing changes, allocates nothing and makes no system call. BERTH_NO_RECORD: nobody serves.
 */
int berth_pick(struct berth_set *set, const struct berth_member **ret_member,
	struct berth_failure *failure);

/* ---- watches, on both kinds of handle ---- */

enum berth_event_type {
	BERTH_EVENT_SUBSCRIBED, /* the watch has begun: `records` is all there is */
	BERTH_EVENT_UPDATED,    /* `path` was made or changed; `records` is its record alone */
	BERTH_EVENT_DELETED,    /* `path` is gone */
	BERTH_EVENT_STALE,      /* the registry is away: the known state may be out of date */
	BERTH_EVENT_FRESH,      /* it is back, and the known state is true again */
	BERTH_EVENT_RESYNC,     /* `records` replaces the whole known state: events were missed */
	/*
	 * The agent is away; a RESYNC (at first: SUBSCRIBED) follows when it is back. Or an event
	 * was missed for lack of memory: berth_watch_trouble() says so, and nothing follows.
	 */
	BERTH_EVENT_LOST
};

struct berth_event {
	enum berth_event_type type;
	int64_t sequence;     /* grows by one from event to event of a watch, from 1 on */
	double time;          /* seconds since 1970 */
	const char *path;     /* UPDATED, DELETED; else NULL */
	const char *record;   /* UPDATED: its JSON; NULL for a node without a record */
	const char *snapshot; /* SUBSCRIBED, RESYNC: JSON, path to record or null; else NULL */
};

/*
 * Everything in `event` is borrowed for the call. May call anything on the handle but berth_close()
 * and berth_dispatch().
 */
typedef void berth_on_event(void *context, const struct berth_event *event);

/*
 * Watches the node at `path`, or with `recursive` everything at and below it. The path need not
 * exist. Returns at once: all events, the first snapshot too, come through `on_event` from
 * berth_dispatch(). When a stream breaks, or is silent for five heartbeats, the library connects
 * again after a random delay that grows up to 15 s.
 */
int berth_watch(struct berth *berth, const char *path, bool recursive, berth_on_event *on_event,
	void *context, struct berth_watch **ret_watch, struct berth_failure *failure);
/*
 * As berth_watch(), on an agent only: of the records with all of these attributes, NAME=VALUE each
 * and NULL behind them, and of no other nodes. A record that has them no longer is DELETED.
 */
int berth_watch_with_attributes(struct berth *berth, const char *path, bool recursive,
	const char *const *attributes, berth_on_event *on_event, void *context,
	struct berth_watch **ret_watch, struct berth_failure *failure);

/*
 * 0 while events are flowing; else why they are not, in `failure` too: BERTH_TIMEOUT, what it
 * covers is being read for the first time. Does not wait.
 */
int berth_watch_trouble(const struct berth_watch *watch, struct berth_failure *failure);

/* Accepts NULL; may be called from the callback. */
void berth_unwatch(struct berth_watch *watch);

/* "UPDATED" for BERTH_EVENT_UPDATED and so on. Static. */
const char *berth_event_name(enum berth_event_type type);

/* ---- writes, on a registry ---- */

/*
 * A write whose answer is lost with the connection is looked for on the next one, and made again
 * when it seems not to have happened. It can happen twice only when another client undoes it before
 * it is looked for. When later writes of others hide what happened, the result is BERTH_TIMEOUT.
 */

enum berth_bind_flags {
	BERTH_BIND_OVERWRITE = 1, /* replaces any node; else BERTH_FILE_ALREADY_EXISTS */
	BERTH_BIND_EPHEMERAL = 2, /* vanishes with this handle */
	BERTH_BIND_PARENTS = 4    /* makes missing parents; else BERTH_PATH_NOT_FOUND */
};

/*
 * Writes a service record (JSON with "type": "JSONServiceRecord"). It is checked strictly first:
 * BERTH_INVALID_RECORD, BERTH_LIMIT_EXCEEDED. BERTH_NO_CHILDREN_FOR_EPHEMERALS,
 * BERTH_NO_PATH_PERMISSIONS.
 */
int berth_bind(struct berth *berth, const char *path, const char *record, unsigned flags,
	struct berth_failure *failure);

/*
 * Makes a node without a record; an existing one is not an error, and *ret_made (may be NULL) says
 * which it was. With `parents` also makes missing parents, else BERTH_PATH_NOT_FOUND.
 */
int berth_mknode(struct berth *berth, const char *path, bool parents, bool *ret_made,
	struct berth_failure *failure);

/*
 * As berth_mknode(), for an administrator who makes a user's home: the user `owner` may create and
 * delete nodes below `path`. On ZooKeeper `owner` is scheme:id, such as "digest:joe:HASH", or a
 * name, short for sasl:NAME@REALM; the handle was opened with `secure`. On dir: it is a user
 * of this machine, to whom the directory will belong. An existing node keeps its owner.
 * BERTH_FAILED: such an owner would get no rights; the message says why.
 */
int berth_make_home(struct berth *berth, const char *path, const char *owner, bool parents,
	bool *ret_made, struct berth_failure *failure);

enum berth_delete_flags {
	BERTH_DELETE_RECURSIVE =
		1, /* all below it too; then the timeout is that of a silence, not of the whole */
	BERTH_DELETE_FOREIGN = 2 /* with RECURSIVE: also what no path can name */
};

/*
 * Deletes a node; an absent one is not an error. BERTH_PATH_IS_NOT_EMPTY_DIRECTORY: it has children
 * and `flags` is 0, or there are names below it that no path can hold; the message says them, and
 * nothing was deleted.
 */
int berth_delete(
	struct berth *berth, const char *path, unsigned flags, struct berth_failure *failure);

/* The treatment of a match that has children. */
enum berth_purge_policy {
	BERTH_PURGE_ALL,              /* deletes them with it */
	BERTH_PURGE_SKIP_ON_CHILDREN, /* leaves it */
	BERTH_PURGE_FAIL_ON_CHILDREN  /* ends with BERTH_PATH_IS_NOT_EMPTY_DIRECTORY */
};

struct berth_purge {
	struct berth_criteria criteria; /* id and persistence are required */
	enum berth_purge_policy policy;
	bool dry_run; /* all the same, but delete nothing */
	berth_on_progress *on_progress;
	void *context;
};

/*
 * Deletes what a container left behind. `ret_matches` (may be NULL): the records that matched;
 * `ret_purged` (may be NULL): the paths deleted, or in a dry run those that would be.
 * BERTH_PATH_IS_NOT_EMPTY_DIRECTORY.
 */
int berth_purge(struct berth *berth, const struct berth_purge *purge,
	struct berth_answer *ret_matches, struct berth_paths *ret_purged,
	struct berth_failure *failure);

/*
 * From now on, every node this handle makes also gives all rights to this digest user. BERTH_FAILED
 * on a handle without `secure`, where everybody may write.
 */
int berth_add_write_accessor(
	struct berth *berth, const char *user, const char *password, struct berth_failure *failure);
int berth_clear_write_accessors(struct berth *berth, struct berth_failure *failure);

/* ---- the agent itself ---- */

/*
 * The bodies of GET /v1/agent, /v1/agent/checks and /v1/agent/history, as PROTOCOL.md describes
 * them.
 */
int berth_status(
	struct berth *berth, struct berth_answer *ret_status, struct berth_failure *failure);
int berth_checks(
	struct berth *berth, struct berth_answer *ret_checks, struct berth_failure *failure);
int berth_history(
	struct berth *berth, struct berth_answer *ret_history, struct berth_failure *failure);

/*
 * The containers of this host and their records, from the host's agent: the body of GET /v1/bridge.
 * BERTH_PATH_NOT_FOUND: the agent serves no containers; BERTH_NO_PATH_PERMISSIONS.
 */
int berth_bridge(
	struct berth *berth, struct berth_answer *ret_bridge, struct berth_failure *failure);

enum berth_document { BERTH_STATUS, BERTH_CHECKS, BERTH_HISTORY };

/*
 * As berth_status(), berth_checks() or berth_history(), but waits up to `wait_s` seconds (600 at
 * most) for content other than that which `tag` names; "" for any. BERTH_TIMEOUT when the
 * content stayed the same.
 */
int berth_await(struct berth *berth, enum berth_document document, const char *tag, unsigned wait_s,
	struct berth_answer *ret_answer, struct berth_failure *failure);

/*
 * 0 when every component is registered; else BERTH_FAILED, and the message says why. With `away_ok`
 * also while the registry is away and nothing was lost.
 */
int berth_ready(struct berth *berth, bool away_ok, struct berth_failure *failure);
/* 0 when the agent works. */
int berth_live(struct berth *berth, struct berth_failure *failure);

/*
 * Takes all components out of the registry until berth_undrain(), or for `for_s` seconds when that
 * is not 0. Returns when the agent has accepted it, not when the records are gone. `reason` may be
 * NULL. BERTH_NO_PATH_PERMISSIONS.
 */
int berth_drain(
	struct berth *berth, const char *reason, unsigned for_s, struct berth_failure *failure);
int berth_undrain(struct berth *berth, struct berth_failure *failure);

/* The same for one component alone. BERTH_PATH_NOT_FOUND: the agent has none of that name. */
int berth_drain_component(struct berth *berth, const char *component, const char *reason,
	unsigned for_s, struct berth_failure *failure);
int berth_undrain_component(
	struct berth *berth, const char *component, struct berth_failure *failure);

/*
 * The same for one container, at the agent of its host; also for one that comes later with this
 * name. `container` is SOURCE/NAME, as berth_bridge() has it: docker/web-1, dir/web-1.
 * BERTH_PATH_NOT_FOUND: there is none.
 */
int berth_drain_container(struct berth *berth, const char *container, const char *reason,
	unsigned for_s, struct berth_failure *failure);
int berth_undrain_container(
	struct berth *berth, const char *container, struct berth_failure *failure);

/* Lifts the flap damping of a component: its checks count at once. */
int berth_undamp(struct berth *berth, const char *component, struct berth_failure *failure);

/*
 * Makes the agent read its configuration again. A bad one changes nothing and is BERTH_FAILED.
 * `ret_answer` (may be NULL) is filled in any case: {"reloaded": …, "problems": [one text each]},
 * or another answer of the agent; "" without an answer.
 */
int berth_reload(
	struct berth *berth, struct berth_answer *ret_answer, struct berth_failure *failure);
/*
 * The same, but nothing changes: "changes" of a good configuration is what a reload would change,
 * [{"section", "change": "added" | "removed" | "changed", "key", "from", "to"}], the last three of
 * "changed" alone.
 */
int berth_try_reload(
	struct berth *berth, struct berth_answer *ret_answer, struct berth_failure *failure);

/*
 * Runs a check now and waits for it, within the handle's timeout: the check as in berth_checks(),
 * its result in "last".
 */
int berth_run_check(struct berth *berth, const char *check, struct berth_answer *ret_result,
	struct berth_failure *failure);

enum berth_health { BERTH_PASSING, BERTH_WARNING, BERTH_FAILING };

/* The heartbeat of a check of type ttl. `output` may be NULL. */
int berth_report(struct berth *berth, const char *check, enum berth_health health,
	const char *output, struct berth_failure *failure);

/*
 * Supplies the addresses of a dynamic endpoint, each in one line as in struct berth_endpoint. They
 * are withdrawn by berth_withdraw(), or, when the agent's configuration says hold = connection,
 * with this handle.
 */
int berth_supply(struct berth *berth, const char *endpoint, const char *const *addresses,
	size_t count, struct berth_failure *failure);
int berth_withdraw(struct berth *berth, const char *endpoint, struct berth_failure *failure);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
