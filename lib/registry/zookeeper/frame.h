/*
 * The frames that the agent and its ZooKeeper worker exchange on a socketpair. Encoding and
 * decoding only, no I/O.
 *
 *   frame:   length of the rest (4 bytes), type (1), body  numbers are big-endian
 *   string:  length (4), bytes, NUL (not counted)          so that it can be borrowed as a C string
 *   list:    number of strings (4), length (4), the strings, each with its NUL
 *
 *      agent                                  worker
 *        |------------- HELLO ------------------>|   first: servers, session to resume, secrets
 *        |------------- REQUEST ---------------->|   each gets one RESULT, except UNWATCH
 *        |------------- ALIVE ------------------>|   when the agent has nothing else to say
 *        |<------------ SESSION, EVENT, LOG -----|   at any time
 *        |<------------ RESULT ------------------|
 *        |------------- CLOSE ------------------>|   end the session and exit; end of file
 *        |                                       |   without CLOSE leaves the session
 *
 * The hello may ask the worker to end, and to leave the session, when the agent has sent nothing
 * for the session's timeout: the client library would keep the session of a frozen agent for ever.
 * The agent then says something every quarter of it. A hello of 0.1.0 ends before that wish, and a
 * worker of 0.1.0 ends when it sees one.
 *
 * Decoders check every length and reject surplus bytes; their results are borrowed from the frame.
 * Encoders append a whole frame, or nothing and mark the buffer as failed.
 */
#ifndef LIB_REGISTRY_ZOOKEEPER_FRAME_H
#define LIB_REGISTRY_ZOOKEEPER_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"

#define ZK_FRAME_MAX_BYTES (32 * 1024 * 1024)

enum { ZK_FRAME_HEAD_BYTES = 5, ZK_PASSWORD_BYTES = 16 };

enum zk_frame_type {
	ZK_FRAME_HELLO = 1,
	ZK_FRAME_REQUEST,
	ZK_FRAME_CLOSE,
	ZK_FRAME_SESSION,
	ZK_FRAME_RESULT,
	ZK_FRAME_EVENT,
	ZK_FRAME_LOG,
	ZK_FRAME_ALIVE
};

struct zk_frame {
	enum zk_frame_type type;
	const char *body;
	size_t len;
};

/* Strings one behind the other, each with its NUL. */
struct zk_list {
	const char *packed;
	size_t len;
	size_t count;
};

struct zk_hello {
	const char *servers;   /* "host:port,[::1]:2181", not resolved yet */
	const char *addresses; /* where they were found last time, in the same form, or "" */
	bool look_up;          /* look the servers up again; `addresses` are for when that fails */
	uint32_t timeout_ms;
	uint64_t session_id; /* 0: a new session */
	unsigned char session_password[ZK_PASSWORD_BYTES];
	const char *auth;       /* "none", "digest", "sasl" */
	const char *credential; /* user:password, or "" */
	/* "CA,CERTIFICATE,KEY,PASSPHRASE": files in PEM, and a secret; "" for plain TCP */
	const char *tls;
	bool ends_in_silence;
};

enum zk_operation {
	ZK_GET = 1,
	ZK_EXISTS,
	ZK_EXISTS_FOR_CHILDREN, /* the same, but the worker reports it as a watch on children */
	ZK_CHILDREN,
	ZK_ACL,
	ZK_CREATE,
	ZK_SET,
	ZK_DELETE,
	/* delete `version`, create, and `sets` times set the data, in one transaction */
	ZK_REPLACE,
	ZK_SYNC,
	ZK_UNWATCH_DATA,
	ZK_UNWATCH_CHILDREN
};

struct zk_request {
	uint32_t tag; /* comes back in the result */
	enum zk_operation operation;
	const char *path; /* from the server's root */
	const char *data;
	size_t len;
	int32_t version; /* -1: any */
	/* SET, DELETE, REPLACE: only the node of this version and czxid, else BAD_VERSION */
	bool exact;
	uint64_t czxid;
	bool watch;
	bool ephemeral;
	bool sequential; /* CREATE: the result's data are the path as created */
	bool container;
	uint8_t sets;
	struct zk_list acl; /* "31:world:anyone"; none: world, all */
};

enum zk_session_state {
	ZK_SESSION_CONNECTED = 1,
	ZK_SESSION_CONNECTING,
	ZK_SESSION_EXPIRED,
	ZK_SESSION_AUTH_FAILED
};

struct zk_session {
	enum zk_session_state state;
	uint64_t id;
	unsigned char password[ZK_PASSWORD_BYTES];
	uint32_t timeout_ms; /* as the server decided */
	const char *server;  /* "127.0.0.1:2181" when connected */
	const char
		*addresses; /* before the first attempt, and when connected: for the next hello */
};

struct zk_stat {
	uint64_t czxid;
	uint64_t owner; /* session of an ephemeral node, or 0 */
	int64_t ctime_ms;
	int64_t mtime_ms;
	int32_t version;
	uint32_t size;
	uint32_t children;
};

/* ZooKeeper's result codes that Berth handles separately. */
enum zk_code {
	ZK_RC_OK = 0,
	ZK_RC_CONNECTION_LOSS = -4,
	ZK_RC_OPERATION_TIMEOUT = -7,
	ZK_RC_BAD_ARGUMENTS = -8,
	ZK_RC_INVALID_STATE = -9,
	ZK_RC_API_ERROR = -100, /* those below are the server's, those above the client library's */
	ZK_RC_NO_NODE = -101,
	ZK_RC_NO_AUTH = -102,
	ZK_RC_BAD_VERSION = -103,
	ZK_RC_NO_CHILDREN_FOR_EPHEMERALS = -108,
	ZK_RC_NODE_EXISTS = -110,
	ZK_RC_NOT_EMPTY = -111,
	ZK_RC_SESSION_EXPIRED = -112,
	ZK_RC_INVALID_ACL = -114,
	ZK_RC_AUTH_FAILED = -115,
	ZK_RC_CLOSING = -116,
	ZK_RC_SESSION_MOVED = -118,
	ZK_RC_QUOTA_EXCEEDED = -125,
	ZK_RC_THROTTLED = -127
};

struct zk_result {
	uint32_t tag;
	int32_t rc; /* enum zk_code, or another of ZooKeeper's */
	struct zk_stat stat;
	const char *data; /* absent when longer than a record may be: see stat.size */
	size_t len;
	struct zk_list names; /* children, or entries of an ACL */
};

enum zk_event_kind { ZK_EVENT_DATA = 1, ZK_EVENT_CHILDREN };

struct zk_event {
	enum zk_event_kind kind;
	bool gone; /* the node was deleted */
	const char *path;
};

enum zk_log_kind {
	ZK_LOG_LIBRARY = 1, /* the client library's words */
	ZK_LOG_OWN,         /* the worker's, for a person */
	ZK_LOG_DETAIL,      /* the worker's, for a person who looks for a fault */
	ZK_LOG_CAGE,        /* what keeps the worker in; each worker says it once */
	ZK_LOG_CLOSED       /* the client library's: a server took the connection and closed it */
};

struct zk_log {
	enum zk_log_kind kind;
	const char *message;
};

/*
 * The first frame of `len` bytes: its whole length when it is complete, 0 when more bytes are
 * needed, -1 when it is invalid.
 */
long zk_frame_next(struct zk_frame *ret_frame, const char *data, size_t len);

/*
 * All return 0, or -1: no memory or too large (encode), malformed (decode; *ret is then undefined).
 */
int zk_hello_encode(struct buffer *out, const struct zk_hello *hello);
int zk_hello_decode(struct zk_hello *ret_hello, const struct zk_frame *frame);
int zk_request_encode(struct buffer *out, const struct zk_request *request);
int zk_request_decode(struct zk_request *ret_request, const struct zk_frame *frame);
int zk_close_encode(struct buffer *out);
int zk_alive_encode(struct buffer *out);
int zk_session_encode(struct buffer *out, const struct zk_session *session);
int zk_session_decode(struct zk_session *ret_session, const struct zk_frame *frame);
int zk_result_encode(struct buffer *out, const struct zk_result *result);
int zk_result_decode(struct zk_result *ret_result, const struct zk_frame *frame);
int zk_event_encode(struct buffer *out, const struct zk_event *event);
int zk_event_decode(struct zk_event *ret_event, const struct zk_frame *frame);
int zk_log_encode(struct buffer *out, const struct zk_log *log);
int zk_log_decode(struct zk_log *ret_log, const struct zk_frame *frame);

/* Takes the first string off the list; NULL when none is left. */
const char *zk_list_next(struct zk_list *list);

#endif
