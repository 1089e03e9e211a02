/*
 * The registry, for its users: a tree of nodes on ZooKeeper or in a directory.
 *
 * Asynchronous and single-threaded. A registry has no loop of its own: poll registry_fd() for
 * reading, wait no longer than registry_deadline_ms(), then call registry_dispatch(). All callbacks
 * run inside registry_dispatch(), never inside the call that made the request; a callback may make,
 * cancel and unwatch anything, but not close the registry. Every request completes exactly once,
 * unless it is cancelled or the registry closed. Times are clock_monotonic_ms(), passed in.
 *
 * Requests made while the registry is still connecting wait for it, until request_timeout_ms; while
 * it is away they fail at once with BERTH_REGISTRY_UNAVAILABLE. A write whose connection broke is
 * looked up again after the reconnect, so that its result is the truth; BERTH_TIMEOUT says that
 * this was not possible in time.
 *
 * The root "/" does not exist before the first write. The first node below it creates it, and on
 * ZooKeeper its missing parents; so does registry_mknode() of "/" itself.
 *
 * Nodes of other programs. A registry that was opened with `foreign_paths` also takes the paths of
 * lib/base/path.h that begin with two slashes: absolute in ZooKeeper's tree; on dir: below its
 * root. The children of such a path are addressable when their names are foreign elements. One node
 * may have both kinds of path; their watches report the same changes.
 *
 * How old an answer can be: a watch proves the state at the time when the server was last heard,
 * and nothing later. A cache compares registry_heard_ms() with the clock before it serves a copy.
 * When the server was heard too long ago, the cache makes one registry_confirm(). Its success means
 * that all states that the watches delivered before were true when the cache asked for the
 * confirmation. It costs one read of the root; a registry sends none on its own.
 *
 *   CONNECTING --> CONNECTED <--> AWAY --> LOST --> CONNECTED (a new session: the ephemeral nodes
 *       |                                            of the old one are gone)
 *        \--> DENIED (the server refuses the credentials) --> CONNECTED (it takes what the
 *                                                              auth_file holds now)
 */
#ifndef LIB_REGISTRY_REGISTRY_H
#define LIB_REGISTRY_REGISTRY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/dialect/dialect.h"

struct registry;
struct registry_request;
struct registry_watch;
struct registry_value;

enum registry_state {
	REGISTRY_CONNECTING,
	REGISTRY_CONNECTED,
	REGISTRY_AWAY, /* the connection is lost, the session may live */
	REGISTRY_LOST, /* the session is over, or must be presumed so; a new one is being made */
	REGISTRY_DENIED
};

enum registry_log_level {
	REGISTRY_LOG_ERROR,
	REGISTRY_LOG_WARN,
	REGISTRY_LOG_INFO,
	REGISTRY_LOG_DEBUG
};

/* The default of programs that do not set system accounts. */
#define REGISTRY_SYSTEM_ACCOUNTS "sasl:yarn@, sasl:mapred@, sasl:hdfs@"

/* All strings are copied. Zero means default. */
struct registry_options {
	const char *url; /* zookeeper://h1:2181,h2:2181/registry or dir:/path */
	/* default 30000; ZooKeeper may change it: registry_session_timeout_ms() */
	int session_timeout_ms;
	/*
	 * ZooKeeper: a session ends when nobody has called registry_dispatch() for its timeout.
	 * Else it lives as long as the process, even a frozen one.
	 */
	bool ends_in_silence;
	int request_timeout_ms; /* default 10000 */
	/* how long registry_close() waits for the session's end; default 900 */
	int close_timeout_ms;
	const char *auth;      /* "none" (default), "digest", "sasl" */
	const char *auth_file; /* a file of mode 0600 with user:password, for digest */
	/*
	 * For zookeeper+tls://, files in PEM; default ca.pem, cert.pem and key.pem of
	 * SYSCONFDIR/berth/tls. Without a file of the certificate the agent shows none.
	 */
	const char *tls_ca;
	const char *tls_cert;
	const char *tls_key;
	const char *tls_passphrase_file; /* of the key; default: it has none */
	bool secure;                     /* write ACLs; see acl.h */
	/* for secure: users may also write their homes, as in Hadoop's own layout */
	bool home_write;
	/* for secure: comma-separated scheme:id; an id ending in @ gets `realm` */
	const char *system_accounts;
	/* for secure: more of these, from the start: see registry_add_write_accessor() */
	const char *write_accessors;
	const char *realm;
	/* dir: children do what waits for the disk; for a process whose children are its own */
	bool forks;
	/*
	 * dir: all file calls are of this process, whoever else can open the directories. For the
	 * tree of a container, which its users alone can open.
	 */
	bool own_tree;
	bool foreign_paths; /* take "//path"; never for paths that a client may choose */
	/*
	 * The path of the registry's root among the paths that this interface takes and gives; NULL
	 * or "": "/". No path is outside of it.
	 */
	const char *at;
	/* A path whose node, and all below it, neither readers nor writers find; or NULL. */
	const char *hidden;
	const json_t *
		/* from registry_detach() or registry_session(): the session to continue; or NULL */
		session;
	/* Each change of state, with its reason in words. */
	void (*on_state)(void *context, enum registry_state state, const char *why);
	/* Receives messages for a person: reconnects, retries, a worker that died. May be NULL. */
	void (*on_log)(void *context, enum registry_log_level level, const char *message);
	/*
	 * An attempt to connect has failed, the one with this number since the last connection. May
	 * be NULL.
	 */
	void (*on_attempt)(void *context, const char *why, unsigned count);
	/*
	 * A request was answered with this code, or given up, so long after it was made; some
	 * requests to this interface make several. That a parent exists already is code 0.
	 * Requests that are refused because the registry is away were never made. May be NULL.
	 */
	void (*on_answer)(void *context, int code, double duration_s);
	/*
	 * host: what the host's agent says of this container and its records (an item of
	 * `containers` of GET /v1/bridge), at each change; NULL: it says nothing now. May be NULL.
	 */
	void (*on_container)(void *context, const json_t *container);
	void *context;
};

struct registry_stat {
	int64_t created_ms;  /* wall clock, ms since 1970 */
	int64_t modified_ms; /* of the data */
	/* identifies the node among all nodes that existed at its path (czxid) */
	uint64_t node_id;
	int64_t version; /* of the data; only equality means something */
	size_t size;     /* bytes of data */
	/* that a path can name; filled by registry_stat(), list and children watches */
	size_t children;
	size_t foreign; /* the others: names that are not path elements, or paths over the limit */
	bool ephemeral;
	bool own;         /* ephemeral and held by this registry's own session */
	uint64_t session; /* ZooKeeper: that holds an ephemeral node; else 0 */
};

/* A record as stored, which has been found to be one. */
struct registry_found {
	char *path;
	char *data; /* NUL-terminated */
	size_t len;
};

struct registry_result {
	struct err err; /* code 0: done */
	struct registry_stat stat;
	/*
	 * Get, resolve, data watches: NUL-terminated; borrowed for the call. A record's is JSON
	 * alone: see record_trim(). Bind
	 * of a sequential node: its path.
	 */
	const char *data;
	size_t data_len;
	/* list, children watches: full paths, sorted by strcmp; borrowed for the call */
	char *const *children;
	size_t children_count;
	/*
	 * List, children watches: the children with names that are not path elements, sorted;
	 * borrowed for the call. These are full paths; %XX replaces each byte of the name that is
	 * not printable ASCII, or is a blank, a quote, a backslash or %. They lie in memory right
	 * behind `children`.
	 */
	char *const *foreign;
	size_t foreign_count;
	/* Records, find, purge: sorted by path; borrowed for the call. */
	const struct registry_found *found;
	size_t found_count;
	/* Purge: the paths deleted, or those that would be, sorted; borrowed for the call. */
	char *const *purged;
	size_t purged_count;
	size_t count; /* purge, delete, withdraw: nodes deleted; mknode: 1 when it made the node */
	/* withdraw: the node has children and stays without data; `stat` is its new one */
	bool emptied;
	bool changed; /* watches: false when a new read found no change */
	/*
	 * watches: where all of this comes from, to be kept by registry_value_hold(); else NULL
	 */
	const struct registry_value *value;
};

/*
 * The found records as an object of path -> record, in their order; a new reference, or NULL
 * without memory.
 */
json_t *registry_found_json(const struct registry_result *result);

typedef void registry_done(void *context, const struct registry_result *result);

/*
 * Checks that `file` holds credentials for digest, that no other user can change it, and that, but
 * for a mounted secret, no other user can read it.
 */
int registry_auth_file_check(const char *file, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(2);

/*
 * Finds what registry_open() would refuse, without opening anything: a bad URL, unusable
 * credentials, options that the backend or this build's ZooKeeper client library does not support.
 * 0, or err filled with the first one and *ret_option (may be NULL) with the name of the option in
 * berth.ini(5): "url", "auth", "auth_file", "secure", "system_accounts". Static.
 */
int registry_options_check(const struct registry_options *options, const char **ret_option,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(3);

/*
 * Connecting goes on in the background: only a bad URL, a bad auth file and the like fail here.
 * Without `options` there is no URL.
 */
int registry_open(struct registry **ret_registry, const struct registry_options *options,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(3);

/* Whether the text begins as a registry's URL does; the rest of it may be wrong. */
bool registry_is_url(const char *text);

/*
 * Ends the session, so that its ephemeral nodes vanish, and frees everything; blocks for little
 * longer than close_timeout_ms, by default for a second at most. Accepts NULL.
 */
void registry_close(struct registry *registry);

/*
 * Frees everything but leaves the session and its ephemeral nodes standing, for a successor that
 * passes the returned object (new reference; NULL when there is no session) as options.session:
 * across exec(), for dir: also by inherited descriptors.
 */
json_t *registry_detach(struct registry *registry);
/*
 * The same before exec(), which frees all memory at once: nothing may use the registry any more.
 */
json_t *registry_leave(struct registry *registry);

/*
 * The data that resumes the session, for a state file (ZooKeeper: id and password, a secret). NULL
 * when there is no session yet, and on dir:, where only an upgrade of a running agent can continue
 * a session. New reference.
 */
json_t *registry_session(const struct registry *registry);

int registry_fd(const struct registry *registry);
/* INT64_MAX when nothing is due. */
int64_t registry_deadline_ms(const struct registry *registry);
void registry_dispatch(struct registry *registry, int64_t now_ms);

/*
 * Reads the auth_file again. Other credentials than before are used from now on, through a new
 * connection in the same session; refused ones are tried again without further delay. 0, or the
 * file's mistake: then the old credentials stay.
 */
int registry_reauthenticate(struct registry *registry, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(2);

enum registry_state registry_state(const struct registry *registry);
const char *registry_state_name(enum registry_state state); /* "connected" … */
/* The URL without secrets. Borrowed. */
const char *registry_url(const struct registry *registry);
/* For people: "0x1000a8b3c4d0001", "pid 4711"; "" while there is none. */
const char *registry_session_name(const struct registry *registry);
/* The address of the server that it is or was connected to last, with its port; "": unknown. */
const char *registry_server(const struct registry *registry);
int registry_session_timeout_ms(const struct registry *registry);

/*
 * A group of nodes that other programs write, shown as service records: the members of the group
 * `from`, a foreign path with one slash in front, are the children of the path `as`. They can be
 * read, searched and watched as records; nothing can be written at `as` or below it, and what else
 * the registry holds there is hidden. `as` itself always exists, without members while there is no
 * such group. A member that cannot be read appears as a node whose record is invalid.
 */
struct registry_import {
	enum dialect_type type;
	const char *from;
	const char *as;
};

/*
 * The imports from now on, in place of those before; copied. An import that stays as it was is not
 * touched; every watch hears of its change. INVALID_PATHNAME when a path is invalid or two imports
 * overlap; if so, nothing has changed.
 */
int registry_set_imports(struct registry *registry, const struct registry_import *imports,
	size_t count, struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);

/*
 * Requests. `path` is checked: an invalid one completes with BERTH_INVALID_PATHNAME. NULL is
 * returned without memory only. The handle is valid until `done` has been called.
 */
struct registry_request *registry_get(
	struct registry *registry, const char *path, registry_done *done, void *context);
/*
 * As get, and checks that the data is a service record: NO_RECORD or INVALID_RECORD (with data)
 * otherwise.
 */
struct registry_request *registry_resolve(
	struct registry *registry, const char *path, registry_done *done, void *context);
struct registry_request *registry_stat(
	struct registry *registry, const char *path, registry_done *done, void *context);
struct registry_request *registry_list(
	struct registry *registry, const char *path, registry_done *done, void *context);

/*
 * When the server was last heard (clock_monotonic_ms()): the time at which the newest request that
 * it has answered was made. INT64_MIN before the first answer. A backend without a server (dir:)
 * returns `now_ms`.
 */
int64_t registry_heard_ms(const struct registry *registry, int64_t now_ms);
/*
 * Asks the server for a sign of life with one cheap read. Code 0: registry_heard_ms() is no earlier
 * than this call, and the watches have learnt of every change that the server knew at that time.
 * REGISTRY_UNAVAILABLE or TIMEOUT: nothing was learnt. Behind a host's agent (host:) `since_ms` is
 * enough: that agent asks the server only if it has not heard it since then.
 */
struct registry_request *registry_confirm(
	struct registry *registry, int64_t since_ms, registry_done *done, void *context);

/* Called now and then, at most every 64 nodes, by what visits many; may be NULL. */
typedef void registry_progress(void *context, size_t visited, size_t matches);

/*
 * The children that hold a record, as result->found; children that vanish meanwhile or hold none
 * are left out.
 */
struct registry_request *registry_records(struct registry *registry, const char *path,
	registry_progress *progress, registry_done *done, void *context);

/*
 * Makes a node without record; an existing node is not an error. `parents`: also makes missing
 * parents, else PathNotFound.
 *
 * `owner`, or NULL: the user whose home the node is, who may create and delete nodes below it.
 * ZooKeeper: scheme:id, or a user name, short for sasl:NAME@REALM; needs `secure`, and a
 * server that does not know such accounts refuses the node. dir: a user of this machine, to whom
 * the directory will belong; everybody must be allowed to write into the root (mode 1777). An
 * existing node keeps its owner.
 */
struct registry_request *registry_mknode(struct registry *registry, const char *path,
	const char *owner, bool parents, registry_done *done, void *context);

enum registry_bind_mode {
	REGISTRY_BIND_CREATE,    /* FileAlreadyExists when the node exists */
	REGISTRY_BIND_OVERWRITE, /* replaces the record of an existing node */
	/*
	 * only over the node of `expected` (node_id and version); else FileAlreadyExists, or
	 * PathNotFound
	 */
	REGISTRY_BIND_REPLACE
};

struct registry_bind {
	const char *data; /* an encoded record, at most LIMIT_RECORD_BYTES; copied */
	size_t len;
	bool ephemeral; /* owned by this session */
	bool parents;   /* make missing ones (persistent) first; else PathNotFound */
	/*
	 * CREATE only: the registry ends the name with ten digits, a number that grows from node to
	 * node. The result's `data` is the path. BERTH_TIMEOUT: the node may have been made, under
	 * any number.
	 */
	bool sequential;
	bool anew;              /* REPLACE: swap the node even if its data could be set in place */
	bool container_parents; /* missing parents go with their last child, sooner or later */
	enum registry_bind_mode mode;
	struct registry_stat expected; /* for REPLACE */
	/*
	 * A missing parent was made, with the context of `done`; the bind may fail after it. A
	 * write whose answer was lost may have made another one. May be NULL.
	 */
	void (*on_parent)(void *context, const char *path, uint64_t node_id);
};

/*
 * Writes a record. Overwriting and replacing set the data in place where the node is of the wanted
 * kind already (persistent, or ephemeral and our own) and otherwise swap the node atomically: no
 * reader ever finds the path empty. An ephemeral node can replace only a node without children
 * (NoChildrenForEphemerals). result->stat is that of the node as written.
 */
struct registry_request *registry_bind(struct registry *registry, const char *path,
	const struct registry_bind *bind, registry_done *done, void *context);

enum registry_delete_mode {
	REGISTRY_DELETE_NODE, /* PathIsNotEmptyDirectory when it has children */
	/*
	 * all below too; PathIsNotEmptyDirectory, before anything is deleted, when a name below is
	 * foreign
	 */
	REGISTRY_DELETE_TREE,
	REGISTRY_DELETE_ALL /* foreign names too */
};

/*
 * Deletes a node; an absent node is not an error. A refusal because of foreign names lists them. On
 * ZooKeeper a name over the limit of paths ends a REGISTRY_DELETE_ALL with LimitExceeded.
 * `expected`, or NULL: delete only that node in that version (node_id and version), else
 * FileAlreadyExists. ZooKeeper itself compares only versions, so the backend reads the node's
 * identity one round trip earlier.
 */
struct registry_request *registry_delete(struct registry *registry, const char *path,
	enum registry_delete_mode mode, const struct registry_stat *expected,
	registry_progress *progress, registry_done *done, void *context);

/*
 * Takes the record out of the tree. `expected` is required and names the node and the version, as
 * for registry_delete(). A node without children is deleted (`count` 1). A node with children loses
 * its data in place and stays (`emptied`, with its new `stat`), so that the nodes below it stay
 * reachable; nothing else of it changes, and no reader finds the path absent. An absent node is not
 * an error (`count` 0). FILE_ALREADY_EXISTS, without any change, when the path has another node or
 * version.
 *
 * Called again with the `stat` of an emptied node it deletes that node if the children have gone,
 * and else writes nothing: call it when a children watch reports that no children are left. An
 * ephemeral node of this registry's own session on dir: ends at once, whoever holds the registry's
 * write lock.
 */
struct registry_request *registry_withdraw(struct registry *registry, const char *path,
	const struct registry_stat *expected, registry_done *done, void *context);

/* Which records find and purge mean; NULL means any. `under` NULL: "/". */
struct registry_criteria {
	const char *under;
	const char *api;         /* some endpoint has exactly this api */
	const char *protocol;    /* some endpoint has this protocol, case-insensitively */
	const char *type;        /* attribute "type" */
	const char *id;          /* yarn:id */
	const char *persistence; /* yarn:persistence */
	const char *attributes;  /* see lib/record/select.h */
	size_t max_bytes; /* of all records found: more is LimitExceeded; 0: as many as there are */
};

/*
 * Walks the tree with at most 256 requests in flight; result->found holds the matches. Foreign
 * names are passed over.
 */
struct registry_request *registry_find(struct registry *registry,
	const struct registry_criteria *criteria, registry_progress *progress, registry_done *done,
	void *context);

enum registry_purge_policy {
	REGISTRY_PURGE_ALL,
	REGISTRY_PURGE_SKIP_ON_CHILDREN,
	REGISTRY_PURGE_FAIL_ON_CHILDREN
};

/*
 * Deletes, depth first, the nodes whose yarn:id AND yarn:persistence match (both are required),
 * each only in the version that was read. A match that has children: `all` deletes it with
 * everything below, `skip` leaves it, `fail` ends the purge with PathIsNotEmptyDirectory.
 * `dry_run`: all the same, but nothing is deleted. result->found are the matches, result->purged
 * what goes.
 */
struct registry_request *registry_purge(struct registry *registry,
	const struct registry_criteria *criteria, enum registry_purge_policy policy, bool dry_run,
	registry_progress *progress, registry_done *done, void *context);

/*
 * From now on, every node that this registry creates also gives all rights to this digest user. 0,
 * or err filled: FAILED without `secure`, where it would do nothing.
 */
int registry_add_write_accessor(struct registry *registry, const char *user, const char *password,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);
void registry_clear_write_accessors(struct registry *registry);

/* Accepts NULL. `done` is not called; the backend may still carry out a task that was sent. */
void registry_cancel(struct registry *registry, struct registry_request *request);

/*
 * Watches. on_change is called with the first state, then with each later one: code 0 with data or
 * children, PATH_NOT_FOUND while the path is absent (its creation is noticed), NO_PATH_PERMISSIONS
 * …. Every state is the result of a read, or follows from one: none is older than the one before,
 * and the last one is always delivered; states in between may be skipped. A list of children and
 * the paths in it agree: a state that a list lacks has ended before the list is delivered or in the
 * same dispatch, and no state is delivered that the known list lacks. After a reconnect each
 * watch is confirmed and on_change called, `changed` false when nothing happened meanwhile. The
 * confirmations of many watches are spread over a window of some seconds.
 */
enum registry_watch_kind { REGISTRY_WATCH_DATA, REGISTRY_WATCH_CHILDREN };

struct registry_watch *registry_watch(struct registry *registry, const char *path,
	enum registry_watch_kind kind, registry_done *on_change, void *context);
/*
 * The same for a user who has a saved value of the path; NULL: none. No other user gets it. Until
 * the path has been read, the lists that are read end it: on_change is called when a list comes
 * without the path.
 */
struct registry_watch *registry_watch_known(struct registry *registry, const char *path,
	enum registry_watch_kind kind, const struct registry_value *known, registry_done *on_change,
	void *context);
/*
 * The last answer of the registry about the path, with which on_change may not have been called
 * yet, or not as the last; or the value that the user had. NULL: there is none.
 */
const struct registry_value *registry_watch_value(const struct registry_watch *watch);
/* Reads again now (asynchronously); on_change follows in any case, unless the registry is away. */
void registry_watch_refresh(struct registry_watch *watch);
/*
 * A user waits for the state: when it is to be read, or to be confirmed since a reconnect, that is
 * done before what nobody waits for. Cheap; used for each lookup.
 */
void registry_watch_hurry(struct registry_watch *watch);
/*
 * The state that on_change was called with last holds as far as the registry has heard: no change
 * was announced since, and the connection is the one in which it was read.
 */
bool registry_watch_holds(const struct registry_watch *watch);
/*
 * From on_change: other watches are about to be called with states that belong to the one that was
 * reported, such as the end of a path that a list lacks.
 */
bool registry_watch_is_followed(const struct registry_watch *watch);
/* May be called from on_change too. Accepts NULL. */
void registry_unwatch(struct registry_watch *watch);
/*
 * Bytes of memory that the watch takes, without the value that it holds (value.h). NULL: of one
 * with the shortest path.
 */
size_t registry_watch_bytes(const struct registry_watch *watch);

#endif
