/*
 * The ZooKeeper backend on a stage: the test is its core, its worker and its clock.
 *
 * The backend starts the test's own program as its worker, which hands its socket over to the test
 * and waits. So all that the backend does with a worker is real, and the test decides what the
 * worker says. Time passes only in zk_stage_pass_ms() and zk_stage_spend_ms(). A program that
 * uses the stage defines
 *
 *     int clock_gettime(clockid_t clock, struct timespec *now)
 *     {
 *             return zk_stage_clock(clock, now);
 *     }
 *
 * There is one stage in a process; all functions abort the test when what they wait for does not
 * come.
 */
#ifndef TESTS_SUPPORT_ZK_STAGE_H
#define TESTS_SUPPORT_ZK_STAGE_H

#include <time.h>

#include "lib/registry/zookeeper/zookeeper.h"
#include "tests/support/scratch.h"

#define ZK_STAGE_SESSION UINT64_C(0x1234)
#define ZK_STAGE_PASSWORD "sixteen bytes ok"
/* Of the servers, as the worker finds them. */
#define ZK_STAGE_ADDRESSES "10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181"

enum { ZK_STAGE_TIMEOUT_MS = 60000 };

struct zk_stage {
	struct registry_backend *backend;
	int64_t now_ms;
	char folder[SCRATCH_PATH]; /* of the worker's program */

	/* the worker */
	pid_t worker;          /* 0: none runs */
	unsigned workers;      /* that were started */
	int socket;            /* the worker's end; -1: none runs */
	struct buffer in;      /* from the backend */
	size_t used;           /* by the last request */
	struct zk_hello hello; /* the last worker's */
	struct buffer greeting;

	/* calls of the core's functions, each line with a line break at its end */
	char states[2048];  /* "connected: session 0x1234 is there" */
	char changes[2048]; /* "data /a", "children /a", "gone /a" */
	char log[8192];     /* "warn: the words" */
	char trouble[256];  /* of the last attempt */
	unsigned attempts;
};

extern struct zk_stage zk_stage;

int zk_stage_clock(clockid_t clock, struct timespec *now);

/*
 * Opens the backend and starts its worker. Options that are not given have the value that the
 * registry gives them; the URL is zookeeper://one,two,three/registry.
 */
void zk_stage_open(struct registry_options options);
/* The same, and the worker connects. */
void zk_stage_open_connected(void);
/* Leaves the session standing. */
void zk_stage_detach(void);

/* Lets the backend do what is due, and attends to the worker that it has started meanwhile. */
void zk_stage_dispatch(void);
/* Time passes, and the backend does what is due. */
void zk_stage_pass_ms(int64_t ms);
/* Time passes within a call of the backend. */
void zk_stage_spend_ms(int64_t ms);
void zk_stage_submit(struct registry_task *task);
/* True when the backend has handed the task back. */
bool zk_stage_is_done(const struct registry_task *task);

/* The next request that the worker has received; NULL: there is none. Borrowed until the next. */
const struct zk_request *zk_stage_request(void);

/* The worker speaks, and the backend listens. */
void zk_stage_say(const char *bytes, size_t len);
void zk_stage_session(const struct zk_session *session);
void zk_stage_result(const struct zk_result *result);
void zk_stage_event(enum zk_event_kind kind, const char *path, bool gone);
void zk_stage_log(enum zk_log_kind kind, const char *message);
/* Something of a worker that has connected with ZK_STAGE_SESSION to the first server. */
void zk_stage_connect(void);
void zk_stage_lose_connection(void);
void zk_stage_answer(const struct zk_request *request, int32_t rc);

/* The worker ends, and the backend does what follows. */
void zk_stage_kill_worker(void);
/* The worker is stopped by a signal when this returns. */
void zk_stage_freeze_worker(void);
/*
 * From now on the worker, or the next one if this one is frozen, speaks for itself: it says that
 * it is connected, reads, and ends when a frame says that it closes its session.
 */
void zk_stage_leave_worker(void);
/* True when such a worker has read that it closes its session. */
bool zk_stage_was_closed(void);

/* Ends the backend that was closed or detached by the test itself. */
void zk_stage_clear(void);

#endif
