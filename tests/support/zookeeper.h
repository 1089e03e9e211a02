/*
 * A real ZooKeeper server for tests: Debian's package, on a free loopback port, in a fresh
 * directory below $TMPDIR.
 *
 * The kernel kills the server when the thread that started it ends, even if the test crashes. All
 * functions wait until their result is there (a generous deadline, no sleeps), and else abort the
 * test with the server's log. Sessions may be as short as a second (tickTime 500 ms) and as long as
 * ten minutes: a session that a test must not lose has to be longer than a busy machine may stop
 * the server or any other process.
 */
#ifndef TESTS_SUPPORT_ZOOKEEPER_H
#define TESTS_SUPPORT_ZOOKEEPER_H

#include <stddef.h>

struct zookeeper_server;

/* Returns when the server answers. */
struct zookeeper_server *zookeeper_server_start(void);

/*
 * A root of its own on the server that the runner started for all programs, or else on a server
 * that is started here. Not for tests that pause or kill the server.
 */
struct zookeeper_server *zookeeper_server_share(void);

/* Kills the server, waits for its end, removes its directory. Accepts NULL. */
void zookeeper_server_stop(struct zookeeper_server *server);

/* "zookeeper://127.0.0.1:PORT/registry", with the root before the last part. Borrowed. */
const char *zookeeper_server_url(const struct zookeeper_server *server);
/* "127.0.0.1:PORT", with the root. Borrowed. */
const char *zookeeper_server_hosts(const struct zookeeper_server *server);

/* Stop and continue the process: its connections stay open, but it does not answer. */
void zookeeper_server_pause(struct zookeeper_server *server);
void zookeeper_server_resume(struct zookeeper_server *server);

/*
 * kill -9, and start again on the same port with the same data. A restart kills first if need be.
 */
void zookeeper_server_kill(struct zookeeper_server *server);
void zookeeper_server_restart(struct zookeeper_server *server);

/*
 * Runs the independent client (zk-probe, see its source for the verbs) with the given arguments,
 * NULL-terminated, and returns its exit status: 0 done, 3 no such node, 1 anything else. Its output
 * goes to out, cut to size, without the last newline.
 */
int zookeeper_probe(const struct zookeeper_server *server, char *out, size_t size, const char *verb,
	...) __attribute__((sentinel));
/* The same with "user:password" as its identity. */
int zookeeper_probe_as(const struct zookeeper_server *server, const char *credential, char *out,
	size_t size, const char *verb, ...) __attribute__((sentinel));

#endif
