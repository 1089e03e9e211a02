/*
 * Inside the ZooKeeper backend. zookeeper.c has the backend's table and the worker's life,
 * session.c the state of the session, quota.c what a worker may send, servers.c the order of the
 * servers, job.c the tasks, open.c the options.
 *
 * The states of a session, as the backend reports them to the core:
 *
 *                   worker connected             connection or worker lost
 *   CONNECTING -----------------------> CONNECTED -----------------------> AWAY
 *       |  ^                             ^     ^                          |   |
 *       |  '-- the session to resume     |     '--- connected again ------'   |
 *       |      is over: a new one        '--- connected: --- LOST <-----------'
 *       '----> DENIED (credentials           the same session,      expired, or not heard
 *              refused)                      or a new one           for the session's timeout
 *
 * Every state leads to DENIED when the server refuses the credentials. The backend then reads the
 * auth_file again and tries its content at growing intervals, or at once when the registry's user
 * asks for it. The first request that the server answers proves the credentials and ends DENIED.
 *
 * The agent replaces a dead worker by another that resumes the session; the server sees a short
 * disconnection. It replaces a worker that has lost its connection in the same way: the client
 * library would re-arm all its watches in a single packet, which the server refuses beyond half a
 * megabyte, and the core reads and watches everything again anyway.
 *
 * The agent also watches over the contact with the server, through the worker, because a worker
 * that is frozen cannot say so. A link that was quiet for a quarter of the session's timeout
 * carries one read; without any answer for a third of the timeout the worker is replaced, while the
 * session still lives:
 *
 *   NONE --connected, sync sent--> ASKED <--quiet-- HEARD
 *     ^                              |  '--- its answer ---^ |
 *     '--- no answer; connection or worker lost -------------'
 *
 * One such question is under way at a time. Its answer proves that the server lived when the
 * question was sent, and nothing later: round trips may be long. Any answer gives the server a
 * third of the timeout anew, and that to its own question alone ends ASKED.
 *
 * The other way round, the worker ends when a frozen agent says nothing for the timeout, so that
 * its session ends too (frame.h): in every state the agent says something each quarter of the
 * timeout.
 *
 * The session is presumed over when its timeout has passed since the server was last heard.
 *
 * A worker that finds no server is replaced as well, because the client library waits for most of
 * the timeout on a server that accepts connections and says nothing. Its successor begins with the
 * next server. A pass over all servers takes half the timeout at most, so that the session outlives
 * it; the next pass takes longer (registry_zk_try_ms()), in case that the servers are only slow.
 */
#ifndef LIB_REGISTRY_ZOOKEEPER_ZOOKEEPER_H
#define LIB_REGISTRY_ZOOKEEPER_ZOOKEEPER_H

#include "lib/registry/backend.h"
#include "lib/registry/url.h"
#include "lib/registry/zookeeper/worker_process.h"

struct zk_job;

/*
 * The quota of a worker. It answers: each request of ours brings a result, and an event at most.
 * All else, reports of the session and lines of logs, comes now and then. A worker that sends more
 * is not ours any more, and is replaced.
 */
struct registry_zk_quota {
	int64_t left; /* frames */
	int64_t at_ms;
};
/* For a new worker. */
void registry_zk_quota_begin(struct registry_zk_quota *quota, int64_t now_ms);
/* A request was sent to it. */
void registry_zk_quota_ask(struct registry_zk_quota *quota);
/* False when the worker must not send this one. */
bool registry_zk_quota_take(struct registry_zk_quota *quota, int64_t now_ms);

enum registry_zk_contact {
	REGISTRY_ZK_NONE, /* the worker has no connection */
	REGISTRY_ZK_HEARD,
	/* a request of our own is on its way: after connecting a sync, later a read */
	REGISTRY_ZK_ASKED
};

/* Identifies a session for its resumption. */
struct registry_zk_session {
	uint64_t id; /* 0: none */
	unsigned char password[ZK_PASSWORD_BYTES];
	int timeout_ms;
};

struct registry_zk {
	struct registry_backend backend; /* first */

	/* what the options ask for */
	char *servers; /* canonical: "h1:2181,[::1]:2181" */
	char *url;     /* canonical, to know a session's home again */
	char *root;    /* "" for the server's own root */
	char *auth;
	char *auth_file;
	char *credential; /* user:password, or ""; wiped when freed */
	char *tls; /* "CA,CERTIFICATE,KEY,PASSPHRASE", or "" for plain TCP; wiped when freed */
	int wanted_timeout_ms;
	int close_timeout_ms;
	bool ends_in_silence;          /* the worker ends when it hears nothing from us */
	struct registry_acl *root_acl; /* for the root node, when a write has to make it */
	bool no_sasl; /* the server refused SASL accounts: the backend leaves them out of ACLs */

	/* the worker */
	int epoll_fd;
	struct zk_worker_process worker;
	bool worker_spoke;
	unsigned silent_ends; /* workers in a row that ended without a word */
	bool polls_writing;
	struct registry_zk_quota quota;
	bool frames_wait; /* whole ones are in worker.in: the loop serves others first */
	int64_t log_second;
	unsigned log_lines;      /* of the worker in this second */
	char cage[160];          /* the last worker's words about its cage */
	bool no_worker;          /* the last try to start one failed: `trouble` says why */
	const char *replace_why; /* why the worker has to go, or NULL; a literal */
	char *addresses; /* where the servers are, in the order of the next tries; NULL: unknown */
	char server[80]; /* the last one that took us; "" before */
	unsigned tries;  /* workers without a connection since the last one */
	bool look_up;    /* no server was found at all these addresses: look for others */
	int64_t restart_at_ms; /* INT64_MAX: not due */
	/* when a worker that does not get through is given up; INT64_MAX: not due */
	int64_t stuck_at_ms;
	int restart_delay_ms;
	unsigned closed;        /* connections of this worker that a server took and closed */
	int64_t pause_until_ms; /* no other worker before: */
	int closed_delay_ms;    /* grows while all servers do so; 0: they do not */
	int denied_delay_ms;    /* grows while the server refuses the credentials; 0: it does not */
	int64_t not_before_ms;  /* when the refused credentials may be tried again; 0: now */
	unsigned jitter;        /* of rand_r() */
	int64_t started_ms;     /* when the worker was started, or the last try to start one */
	int64_t said_ms;        /* when the agent sent it something last */
	int64_t connected_at_ms;

	/* the session */
	enum registry_state state;
	enum registry_zk_contact contact;
	int64_t asked_ms;    /* when the last request of our own was sent */
	int64_t answered_ms; /* when the last answer of the server came */
	int64_t lost_at_ms;  /* INT64_MAX: not due */
	/* When the newest request that the server has answered was sent; INT64_MIN: none. */
	int64_t heard_ms;
	struct registry_zk_session session;
	char name[24];
	char trouble[320]; /* the last words of the worker, the reason of whatever comes next */
	unsigned attempts; /* to connect that have failed since the last connection */
	bool worker_complained; /* this worker has reported why it cannot connect: counted */
	int64_t warned_at_ms;
	/* the first line of the library since the last connection; 0: none */
	int64_t complained_at_ms;

	/* the tasks */
	struct zk_job *jobs;
	size_t jobs_count;
	uint32_t free_job;
	int64_t next_deadline_ms; /* no task's is earlier */
	bool submitting;          /* nothing may complete now: */
	struct list finished;     /* handed back in the next dispatch() */
	int64_t now_ms;
};

/*
 * Whether the worker is asked to end in silence. A worker of 0.1.0 ends at such a hello, without a
 * word; after two of these one is not asked.
 */
static inline bool registry_zk_wants_end_in_silence(const struct registry_zk *zk)
{
	return zk->ends_in_silence && zk->silent_ends % 3 != 2;
}

/* The tag of requests that belong to no task, but to the contact with the server. */
#define REGISTRY_ZK_TAG_CONTACT UINT32_MAX

/* ---- open.c ---- */
int registry_zk_check(const struct registry_options *options, const char **ret_option,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(3);
int registry_zk_configure(struct registry_zk *zk, const char *rest,
	const struct registry_options *options, struct err *err) __attribute__((warn_unused_result))
ERR_REQUIRED(4);
/*
 * Reads the auth_file again, if there is one: 1 when it holds other credentials than before, 0, or
 * a negative code.
 */
int registry_zk_reread_credential(struct registry_zk *zk, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(2);
/* Frees what configure made, and wipes the secrets. */
void registry_zk_unconfigure(struct registry_zk *zk);
/* Takes the options' session object, if it is one of ours for the same servers. */
void registry_zk_session_decode(struct registry_zk *zk, const json_t *object);
json_t *registry_zk_session_encode(const struct registry_zk *zk);

/* ---- link.c ---- */
void registry_zk_log(struct registry_zk *zk, enum registry_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Sends; `path` is the server's, made with registry_zk_path(). -1: no worker, or the queue is full.
 */
int registry_zk_send(struct registry_zk *zk, struct zk_request *request);
/* Sends what is queued, as far as the worker takes it. */
void registry_zk_flush(struct registry_zk *zk);
/* Has the loop watch the worker's socket: EPOLL_CTL_ADD or _MOD. May set replace_why. */
void registry_zk_poll_worker(struct registry_zk *zk, int operation, bool writing);
/* For a worker that would take silence for our end. */
void registry_zk_say_alive(struct registry_zk *zk);
/*
 * Notes the server's answer to a request sent at `sent_ms`, unless `rc` is the client library's own
 * code.
 */
void registry_zk_heard(struct registry_zk *zk, int32_t rc, int64_t sent_ms);
/* The same for the answer to the request of our own; true when one was waited for, and has come. */
bool registry_zk_contact_heard(struct registry_zk *zk, int32_t rc);
/* True now and then while trouble lasts. */
bool registry_zk_warning_due(struct registry_zk *zk);
/* Keeps the reason; true when it is a new one, or its count has doubled. */
bool registry_zk_attempt_failed(struct registry_zk *zk, const char *why);
/* An attempt to connect has failed: counts it, keeps the reason, and logs it now and then. */
void registry_zk_complain(struct registry_zk *zk, const struct zk_log *log);
/* The worker does what no worker of ours does, and is replaced. `why` is a literal. */
void registry_zk_refuse_worker(struct registry_zk *zk, const char *why);
/* The server's path of a registry path, into `out`. */
#define REGISTRY_ZK_PATH_SIZE 2112
const char *registry_zk_path(const struct registry_zk *zk, char *out, const char *path);

/* ---- session.c ---- */
void registry_zk_on_session(struct registry_zk *zk, const struct zk_session *session);
/* The request of our own was answered with `rc`. */
void registry_zk_on_contact(struct registry_zk *zk, int32_t rc);
/*
 * A server took the connection and closed it, as one without a quorum or with too many clients
 * does. When each has done so, the worker goes, and the next one comes after a growing pause.
 */
void registry_zk_on_closed(struct registry_zk *zk);
/* The worker is gone, or must go because its session is over. */
void registry_zk_on_worker_lost(struct registry_zk *zk, const char *why);
/* When registry_zk_session_timers() has something to do. */
int64_t registry_zk_session_deadline_ms(const struct registry_zk *zk);
/* May set replace_why. */
void registry_zk_session_timers(struct registry_zk *zk);

/* ---- servers.c: no state, no I/O. Lists are "127.0.0.1:2181,::1:2181", or NULL ---- */
size_t registry_zk_servers_count(const char *addresses);
/* The first goes to the end. Without memory nothing changes; the same holds below. */
void registry_zk_servers_rotate(char **addresses);
/* The list is rotated until `server` is its last; when it is not in the list, nothing changes. */
void registry_zk_servers_put_last(char **addresses, const char *server);
/* The time for a worker to connect, of `count` servers, after `tries` workers without success. */
int64_t registry_zk_try_ms(int timeout_ms, size_t count, unsigned tries);

/* ---- job.c ---- */
void registry_zk_submit(struct registry_zk *zk, struct registry_task *task);
void registry_zk_abandon(struct registry_zk *zk, struct registry_task *task);
void registry_zk_on_result(struct registry_zk *zk, const struct zk_result *result);
/* Starts what waited, and looks up what became of writes whose connection broke. */
void registry_zk_jobs_connected(struct registry_zk *zk);
/* No answer to anything that was sent will come. */
void registry_zk_jobs_worker_lost(struct registry_zk *zk);
/* Everything ends with `code`. */
void registry_zk_jobs_fail(struct registry_zk *zk, int code, const char *why);
/* The same for those that nothing was sent for yet. */
void registry_zk_jobs_fail_unsent(struct registry_zk *zk, int code, const char *why);
void registry_zk_jobs_deadlines(struct registry_zk *zk);
/* Hands back what ended within submit(). */
void registry_zk_jobs_deliver(struct registry_zk *zk);
/* Frees; the tasks stay the caller's. */
void registry_zk_jobs_finish(struct registry_zk *zk);

/* ---- outcome.c: no state, no I/O ---- */

/* The request that does the task (`path` is the server's), without tag and ACL. */
struct zk_request registry_zk_request(const struct registry_task *task, const char *path);
/* The connection is gone, and the outcome of the request is unknown. */
bool registry_zk_is_loss(int32_t rc);
/* The task's error for one of ZooKeeper's codes. */
void registry_zk_set_error(struct registry_task *task, int32_t rc);
void registry_zk_set_stat(struct registry_task *task, const struct zk_stat *stat, uint64_t session);

/*
 * After a write whose answer was lost: has it happened? `found` is the node that is at the path
 * now, `session` the session that sent the write. DONE: yes. AGAIN: no, and it can be sent again.
 * FAILED: no, or unknown; task->ret_err has the reason.
 */
enum registry_zk_verdict { REGISTRY_ZK_DONE, REGISTRY_ZK_AGAIN, REGISTRY_ZK_FAILED };
enum registry_zk_verdict registry_zk_judge(
	struct registry_task *task, const struct zk_result *found, uint64_t session);

/*
 * The node whose ACL decides on the task: its parent for create and delete. A length of task->path.
 */
size_t registry_zk_acl_path_len(const struct registry_task *task);
/* True when the ACL would let `user` do this: then the password must be wrong. */
bool registry_zk_password_wrong(
	const struct registry_task *task, struct zk_list acl, const char *credential);

#endif
