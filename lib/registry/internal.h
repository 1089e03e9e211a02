/*
 * Inside the registry core: declarations that its files share with each other and with their tests.
 *
 *     registry.c open, close, dispatch, state
 *     options.c  checks of the options before anything is opened
 *     request.c  requests and calls: the bookkeeping below
 *     read.c     get, resolve, stat, list
 *     children.c from the names that a backend lists to children
 *     bind.c     mknode, bind
 *     walk.c     walks over trees, which are of three kinds:
 *     delete_tree.c, find.c, purge.c  recursive delete; records and find; purge
 *     search.c   the criteria and the matches of find and purge
 *     delete.c   delete and withdraw
 *     value.c    what was read of a node, shared by those who need it
 *     watch.c, watched*.c, window.c  watches, and what is known of the paths; watched.h
 *     fixed.c    a backend in memory, of nodes that its maker names
 *     imports.c, mount*.c  groups of other programs' nodes, as records in this tree
 *     acl.c      the access control list of a new node
 *
 * A request belongs to a user of the registry; a call is one task for the backend. A request is a
 * small state machine over calls: each call has a `completed` that submits the next one or
 * completes the request. Requests complete only within registry_dispatch(). A call that fails
 * without the backend (a bad path, a registry that is away) waits in `refused` until then.
 */
#ifndef LIB_REGISTRY_INTERNAL_H
#define LIB_REGISTRY_INTERNAL_H

#include "lib/base/limits.h"
#include "lib/base/list.h"
#include "lib/registry/acl.h"
#include "lib/registry/backend.h"
#include "lib/registry/window.h"

/* A race with others is tried again this often before it is given up. */
#define REGISTRY_MAX_ROUNDS 256
/* No re-reading of watches has more tasks than this under way. */
#define REGISTRY_MAX_IN_FLIGHT 64

enum registry_call_state { REGISTRY_CALL_IDLE, REGISTRY_CALL_SUBMITTED, REGISTRY_CALL_REFUSED };

struct registry_mount;
struct registry_mount_read;

struct registry_call {
	struct registry_task task;
	struct registry *registry;
	void (*completed)(
		struct registry_call *call); /* from registry_dispatch() only; may free the call */
	void *owner;
	enum registry_call_state state;
	const char *path; /* submitted: the task's, before the backend got the one that it knows */
	double submitted_s;
	bool may_exist; /* of a node to be created: that it exists is an answer like success */
	struct registry_mount_read *mount_read; /* submitted: it concerns a mount; else NULL */
	struct list link;                       /* while refused */
};

struct registry_request {
	struct registry *registry;
	struct list link; /* registry->requests */
	char *path;
	int64_t deadline_ms;
	struct registry_call call; /* for requests with a single task in flight */
	void (*release)(
		struct registry_request *request); /* frees what a kind of request adds; or NULL */
	registry_done *done;
	void *context;
	bool completing;
};

/* The queues take turns, so that none of them waits for all that is in another. */
enum registry_read_queue {
	REGISTRY_READ_URGENT,  /* a user waits for it */
	REGISTRY_READ_LAZY,    /* new, or changed */
	REGISTRY_READ_CONFIRM, /* known, and not read again since there was a reconnect */
	REGISTRY_READ_QUEUES
};

/* The watches of one registry; watch.c and watched*.c alone look inside. */
struct registry_watches {
	void *by_path;                             /* tsearch() tree of struct registry_watched */
	struct list all;                           /* of these */
	struct list waiting[REGISTRY_READ_QUEUES]; /* watched paths to be read */
	unsigned last_queue;                       /* which the last read came from */
	struct list reading;                       /* watched paths with a read under way */
	struct list retrying;                      /* watched paths whose last read failed */
	struct list calls;      /* of no use now; as many as there were reads under way at a time */
	struct list deliveries; /* watched states to deliver at the next dispatch */
	struct list due;        /* those of this one that are still to be delivered */
	struct list doubted;    /* states that may have changed and are not read again yet */
	size_t reads_in_flight;
	size_t recalled; /* watched paths that know only what their user knew before */
	uint64_t serial; /* of the last read that began */
	struct registry_window window; /* of the confirmations */
	int64_t retry_at_ms;           /* the next of those that failed */
	int64_t now_ms;
	uint32_t epoch; /* counts connections and their ends, from 1 */
	unsigned jitter;
};

/* The mounts, between the core and the backend. */
struct registry_between {
	/* Takes the call over; false: it is the backend's. */
	bool (*submit)(struct registry *registry, struct registry_call *call);
	/* Takes back a call that it took over. */
	void (*abandon)(struct registry_call *call);
	/* No watch of that kind is left on the path. False: the path is the backend's. */
	bool (*unwatch)(struct registry *registry, const char *path, enum registry_watch_kind kind);
};

struct registry {
	struct registry_backend *backend;
	const struct registry_backend_ops *ops;
	const struct registry_between *between; /* NULL: there was never a mount */
	void (*on_state)(void *context, enum registry_state state, const char *why);
	void (*on_log)(void *context, enum registry_log_level level, const char *message);
	void (*on_attempt)(void *context, const char *why, unsigned count);
	void (*on_answer)(void *context, int code, double duration_s);
	void (*on_container)(void *context, const json_t *container);
	void *context;
	char *url;       /* without secrets */
	char *warning;   /* found at opening, logged at the first dispatch; or NULL */
	char *at;        /* of the options; "" for "/" */
	char *hidden;    /* of the options; "" for none */
	bool has_hidden; /* a node was found there */
	int request_timeout_ms;
	bool foreign_paths;
	enum registry_state state;
	struct list requests;
	struct list refused; /* calls that complete at the next dispatch */
	struct registry_watches watches;
	struct registry_acl_policy acl_policy;
	struct registry_mount **mounts; /* mount.h */
	size_t mount_count;
};

/* With the defaults filled in: no string but `session` is NULL. Shallow. */
struct registry_options registry_options_complete(const struct registry_options *options);

/* The backend that serves a valid URL, and the URL's part for its open(). */
const struct registry_backend_ops *registry_backend_of(const char *url, const char **ret_rest);

/* registry_open() on a given backend: `rest` is the URL behind the scheme. For tests, too. */
int registry_open_backend(struct registry **ret_registry, const struct registry_backend_ops *ops,
	const char *rest, const struct registry_options *options, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(5);

/* ---- calls: the owner fills the task's inputs, `completed` and `owner` ---- */

/* Gives the task to the backend, or refuses it when the registry is away. The call must be idle. */
void registry_call_submit(
	struct registry *registry, struct registry_call *call, int64_t deadline_ms);
/* The same, to the backend even when the call concerns a mount. */
void registry_call_send(struct registry *registry, struct registry_call *call, int64_t deadline_ms);
/* The call completes at the next dispatch with this error. */
void registry_call_refuse(
	struct registry *registry, struct registry_call *call, const struct err *err);
/* Takes back a call in whatever state, and frees its outputs. */
void registry_call_finish(struct registry_call *call);
/* Frees the outputs and zeroes the task, for the next use of an idle call. */
void registry_call_clear(struct registry_call *call);
/* Completes the calls that are in `refused` now. */
void registry_calls_complete_refused(struct registry *registry);
/* For core->completed. */
void registry_call_completed(struct registry_task *task);
/* When a call that starts now has to be given up. */
int64_t registry_call_deadline_ms(const struct registry *registry);
/* ---- Requests ---- */

/*
 * A zeroed request of `size` bytes that begins with struct registry_request, on the registry's
 * list; NULL without memory.
 */
void *registry_request_create(struct registry *registry, size_t size, const char *path,
	registry_done *done, void *context);
/* path_check(), or path_foreign_check() where the registry takes foreign paths. */
int registry_path_check(const struct registry *registry, const char *path, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* The path by which the backend knows a node. A foreign path is the same for both. */
const char *registry_backend_path(const struct registry *registry, const char *path);
/* The inverse, into `out`. False when it is too long: nobody can have asked for it. */
bool registry_path_of_backend(
	const struct registry *registry, const char *path, char out[LIMIT_PATH_BYTES + 1]);
/*
 * The other path of the node at `path`, into `out`: a foreign one for a registry path, and the
 * other way round. False when it has none.
 */
bool registry_path_twin(
	const struct registry *registry, const char *path, char out[LIMIT_PATH_BYTES + 1]);
/*
 * When request->path is invalid: returns true, and the request fails at the next dispatch, through
 * request->call's `completed`.
 */
bool registry_request_refuse_path(struct registry_request *request);
/* The same when the path is the root, which cannot be deleted. */
bool registry_request_refuse_root(struct registry_request *request);
void registry_request_submit(struct registry_request *request, enum registry_operation operation);
/* Calls `done` and frees the request. */
void registry_request_complete(
	struct registry_request *request, const struct registry_result *result);
void registry_request_fail(struct registry_request *request, const struct err *err);
void registry_request_succeed(struct registry_request *request, const struct registry_stat *stat);
/* Frees a request without calling `done`. */
void registry_request_free(struct registry_request *request);

/* registry_delete() with everything below: REGISTRY_DELETE_TREE or _ALL. */
struct registry_request *registry_delete_tree(struct registry *registry, const char *path,
	enum registry_delete_mode mode, const struct registry_stat *expected,
	registry_progress *progress, registry_done *done, void *context);

/* ---- Children ---- */

/* All texts and both arrays are one allocation: free(paths). */
struct registry_children {
	char **paths; /* the children that a path can name, sorted: full paths */
	size_t count;
	char **foreign; /* the others, sorted: full paths, the name escaped with %XX unless `raw` */
	size_t foreign_count;
	size_t bytes;    /* of the allocation */
	size_t too_long; /* how many of the others have a good name, but a path over the limit */
};

/* Takes the children from a task that listed the node at `path`. 0, or -1 without memory. */
int registry_children_init(struct registry_children *children, const char *path,
	const struct registry_task *task, bool raw) __attribute__((warn_unused_result));
/* Fills the result's children, foreign children and counts; the texts stay with `children`. */
void registry_children_put(
	const struct registry_children *children, struct registry_result *result);

/* ---- Watches, as registry.c drives them ---- */

void registry_watches_init(struct registry_watches *watches);
void registry_watches_finish(struct registry *registry);
void registry_watches_state(struct registry *registry);
/* The newest sign of life, whatever the watches have still to read. */
static inline int64_t registry_server_heard_ms(const struct registry *registry, int64_t now_ms)
{
	return registry->ops->heard_ms ? registry->ops->heard_ms(registry->backend) : now_ms;
}
/* `heard_ms`, or earlier while a change has been announced that was not read yet. */
int64_t registry_watches_heard_ms(const struct registry *registry, int64_t heard_ms);
void registry_watches_notified(
	struct registry *registry, const char *path, enum registry_watch_kind kind, bool gone);
int64_t registry_watches_deadline_ms(const struct registry *registry);
void registry_watches_dispatch(struct registry *registry);

#endif
