/*
 * The registry, for those who implement a backend.
 *
 * A backend does single-node operations; the files of this folder build the rest on them, once for
 * all backends: bind.c (bind, mknode -p), walk.c with delete.c and search.c (recursive delete,
 * find, purge), watch.c with watched*.c (watches). A backend is a table of functions over a struct
 * that begins with `struct registry_backend`.
 *
 * submit() takes a task, owned by the caller, which stays valid until the backend hands it back
 * through core->completed (from dispatch(), never from within submit()) or the caller takes it back
 * with abandon().
 */
#ifndef LIB_REGISTRY_BACKEND_H
#define LIB_REGISTRY_BACKEND_H

#include "lib/base/list.h"
#include "lib/registry/registry.h"

enum registry_operation {
	/*
	 * data + stat; PATH_NOT_FOUND. With `watch`: arms one notification, for an absent path too
	 */
	REGISTRY_OP_GET,
	REGISTRY_OP_CHILDREN, /* names (not paths), any order, + stat; `watch` as for GET */
	REGISTRY_OP_STAT,     /* stat with number of children, no data */
	/*
	 * data, ephemeral, sequential, container, acl; parent must exist: PATH_NOT_FOUND;
	 * FILE_ALREADY_EXISTS; NO_CHILDREN_FOR_EPHEMERALS. At the top or "/": makes the root first,
	 * if need be
	 */
	REGISTRY_OP_CREATE,
	/*
	 * data; only over `expected` when has_expected, else FILE_ALREADY_EXISTS (another version)
	 * or PATH_NOT_FOUND
	 */
	REGISTRY_OP_SET,
	/* only `expected` when has_expected; PATH_IS_NOT_EMPTY_DIRECTORY; PATH_NOT_FOUND */
	REGISTRY_OP_DELETE,
	/*
	 * atomically delete `expected` and create data/ephemeral/acl in its place; no moment
	 * without a node
	 */
	REGISTRY_OP_REPLACE
};

/* One entry of an access control list, in ZooKeeper's terms. */
struct registry_acl_entry {
	char *scheme;
	char *id;
	unsigned permissions; /* 1 read, 2 write, 4 create, 8 delete, 16 admin */
	bool required; /* the node is not made without it, even if the server knows no SASL */
};

struct registry_acl {
	struct registry_acl_entry *entries; /* none: world, all */
	size_t count;
};

/*
 * Input is borrowed from the submitter; output is malloc'ed by the backend and becomes the
 * submitter's.
 */
struct registry_task {
	enum registry_operation operation;
	/*
	 * valid, checked; a foreign one begins with two slashes; that of a foreign child is a valid
	 * path with such a name at its end
	 */
	const char *path;
	const char *data;
	size_t len;
	bool watch;
	/* stat of the root: all that is wanted is that the server was heard since since_ms */
	bool confirms;
	int64_t since_ms;
	bool ephemeral;
	/*
	 * create: ten digits that grow from node to node end the name; ret_data ends in them too.
	 * A lost answer is BERTH_TIMEOUT: nobody can tell which node was made
	 */
	bool sequential;
	/* create: the registry deletes the node, sooner or later, after its last child has gone */
	bool container;
	/*
	 * delete: also the entries below the node that are not nodes of this registry, if the
	 * backend keeps any
	 */
	bool all;
	bool has_expected;
	struct registry_stat expected; /* node_id and version */
	const struct registry_acl *acl;
	/* create, with ops->owns: the user to whom the node will belong; or NULL */
	const char *home_of;
	/* when to give up: BERTH_TIMEOUT if it was sent, REGISTRY_UNAVAILABLE if not */
	int64_t deadline_ms;

	struct err ret_err;
	struct registry_stat ret_stat;
	char *ret_data; /* NUL-terminated */
	size_t ret_len;
	/*
	 * get, and a delete that found it not empty: the node is known to have no children; false
	 * when the backend would have to look
	 */
	bool ret_childless;
	char **ret_children; /* one allocation each, and the array */
	size_t ret_children_count;
	/*
	 * the same for entries that are not nodes and may have any name, such as files in a
	 * directory
	 */
	char **ret_foreign;
	size_t ret_foreign_count;

	void *owner;      /* the submitter's */
	struct list link; /* the backend's, while it holds the task */
	uint64_t tag;     /* the backend's */
};

/*
 * True when the paths of `count` children of `path` take no more than LIMIT_LIST_BYTES; `bytes` are
 * those of their names with the ends. Else the error is set. A backend asks before it keeps them: a
 * server or a directory may have any number.
 */
bool registry_list_fits(const char *path, size_t count, size_t bytes, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(4);

/*
 * Moves all that a task found, its error included, to another one; `from` holds nothing
 * afterwards.
 */
void registry_task_move_results(struct registry_task *to, struct registry_task *from);

/* How a backend speaks to the core; `core` is passed back. Called from within dispatch() only. */
struct registry_core {
	void *core;
	void (*completed)(void *core, struct registry_task *task);
	/*
	 * Something about the path may have changed: data and existence, or the list of children.
	 */
	/* `gone`: the node was deleted; another one may have replaced it in the same instant. */
	void (*notified)(void *core, const char *path, enum registry_watch_kind kind, bool gone);
	/* CONNECTED: reads that are submitted from now on see what any client wrote before. */
	void (*state)(void *core, enum registry_state state, const char *why);
	void (*log)(void *core, enum registry_log_level level, const char *message);
	/* Attempt number `count` since the last connection has failed. */
	void (*attempt)(void *core, const char *why, unsigned count);
	/* As registry_options.on_container. */
	void (*container)(void *core, const json_t *container);
};

struct registry_backend {
	const struct registry_backend_ops *ops;
	struct registry_core core;
};

struct registry_backend_ops {
	const char *scheme; /* "dir", "host", "zookeeper" */
	/*
	 * each node belongs to a user of the machine, task->home_of; other backends have access
	 * control lists
	 */
	bool owns;
	/*
	 * a delete with `all` takes foreign entries with the node; else they are nodes to be
	 * deleted before
	 */
	bool deletes_all;
	/*
	 * Looks for options that this backend cannot fulfil: 0, or err filled and *ret_option the
	 * option's name. Never called with a URL of another backend.
	 */
	int (*check)(const struct registry_options *options, const char **ret_option,
		struct err *err) ERR_REQUIRED(3);
	/* The backend to open in place of this one; NULL: always this one. */
	const struct registry_backend_ops *(*choose)(
		const char *rest, const struct registry_options *options);
	/* `rest` is the URL behind "scheme:" (dir, host) or "scheme://" (zookeeper). */
	int (*open)(struct registry_backend **ret_backend, const char *rest,
		const struct registry_options *options, const struct registry_core *core,
		struct err *err) ERR_REQUIRED(5);
	/* Ends the session and frees the backend; may block for close_timeout_ms. No callbacks. */
	void (*close)(struct registry_backend *backend);
	/*
	 * Frees the backend and leaves the session standing. Returns what options.session takes in
	 * a successor, a new reference; NULL: there is no session. No callbacks.
	 */
	json_t *(*detach)(struct registry_backend *backend);
	/*
	 * The same for a state file, while the backend goes on; NULL also when only detach() can
	 * hand the session over. A new reference.
	 */
	json_t *(*session)(const struct registry_backend *backend);
	/* Readable when dispatch() has something to do; the same descriptor for the whole life. */
	int (*fd)(const struct registry_backend *backend);
	/* The latest time of the next dispatch(); INT64_MAX: only `fd` says when. */
	int64_t (*deadline_ms)(const struct registry_backend *backend);
	/* Does what is due and calls the core; never blocks. May come too early, or for nothing. */
	void (*dispatch)(struct registry_backend *backend, int64_t now_ms);
	/* See the head of this file. Never fails by itself: the task gets the error. */
	void (*submit)(struct registry_backend *backend, struct registry_task *task);
	/* Takes a task back before it completed; it is not touched again. */
	void (*abandon)(struct registry_backend *backend, struct registry_task *task);
	/* No watch on path of that kind is left. */
	void (*unwatch)(
		struct registry_backend *backend, const char *path, enum registry_watch_kind kind);
	/*
	 * As registry_reauthenticate(); the next dispatch() does the work. NULL in a backend
	 * without credentials.
	 */
	int (*reauthenticate)(struct registry_backend *backend, struct err *err) ERR_REQUIRED(2);
	/* The registry's root as a path of the server, "" for the server's own; NULL: always "". */
	const char *(*root)(const struct registry_backend *backend);
	/* For people; "" while there is no session. Borrowed until the next dispatch(). */
	const char *(*session_name)(const struct registry_backend *backend);
	/* The server that it is connected to, "192.0.2.1:2181", or ""; NULL: always "". */
	const char *(*server)(const struct registry_backend *backend);
	/* As agreed with the server; the wanted one before that; 0: a session has no timeout. */
	int (*session_timeout_ms)(const struct registry_backend *backend);
	/*
	 * When the newest request that the server has answered was made; INT64_MIN: none yet. The
	 * function is NULL in a backend without a server.
	 */
	int64_t (*heard_ms)(const struct registry_backend *backend);
};

extern const struct registry_backend_ops registry_dir_ops;
extern const struct registry_backend_ops registry_dir_remote_ops;
extern const struct registry_backend_ops registry_host_ops;
extern const struct registry_backend_ops registry_zk_ops;

#endif
