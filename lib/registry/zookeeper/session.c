/* What state the session is in; the diagram is in zookeeper.h. */
#include "lib/registry/zookeeper/zookeeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

enum { LEAST_PATIENCE_MS = 10000, LONGEST_SESSION_MS = 3600 * 1000 };

static void set_state(struct registry_zk *zk, enum registry_state state, const char *why)
{
	if (zk->state != state) {
		zk->state = state;
		zk->backend.core.state(zk->backend.core.core, state, why);
	}
}

static const char *reason(const struct registry_zk *zk, const char *otherwise)
{
	return zk->trouble[0] ? zk->trouble : otherwise;
}

/* ---- preparing: what was written before is visible ---- */

static void prepared(struct registry_zk *zk)
{
	char why[192];
	snprintf(why, sizeof(why), "session %s, timeout %d ms", zk->name, zk->session.timeout_ms);
	zk->preparing = false;
	zk->lost_at_ms = INT64_MAX;
	zk->stuck_at_ms = INT64_MAX;
	zk->trouble[0] = '\0';
	zk->warned_at_ms = 0;
	set_state(zk, REGISTRY_CONNECTED, why);
	registry_zk_jobs_connected(zk);
}

void registry_zk_heard(struct registry_zk *zk, int32_t rc, int64_t sent_ms)
{
	bool answered = rc == ZK_RC_OK || (rc < ZK_RC_API_ERROR && !registry_zk_is_loss(rc));
	if (answered && sent_ms > zk->heard_ms) {
		zk->heard_ms = sent_ms;
	}
}

void registry_zk_on_prepared(struct registry_zk *zk, const struct zk_result *result)
{
	registry_zk_heard(zk, result->rc, zk->prepare_sent_ms);
	/* After a loss the next connection begins anew. */
	if (zk->linked && zk->preparing && !registry_zk_is_loss(result->rc)) {
		prepared(zk);
	}
}

/* ---- what the worker tells ---- */

/*
 * The library can be stuck for hours: it takes the pauses between its attempts from the last timeout that any server granted.
 * A fresh worker does not, and looks up the servers' addresses again.
 */
static void expect_connection(struct registry_zk *zk)
{
	if (zk->stuck_at_ms == INT64_MAX) {
		int patience_ms = 2 * zk->wanted_timeout_ms;
		zk->stuck_at_ms = zk->now_ms +
			(patience_ms < LEAST_PATIENCE_MS ? LEAST_PATIENCE_MS : patience_ms);
	}
}

static void connected(struct registry_zk *zk, const struct zk_session *session)
{
	bool sane = session->timeout_ms > 0 && session->timeout_ms <= LONGEST_SESSION_MS;
	zk->session.id = session->id;
	zk->session.timeout_ms = sane ? (int)session->timeout_ms : LONGEST_SESSION_MS;
	expect_connection(zk);
	memcpy(zk->session.password, session->password, sizeof(zk->session.password));
	snprintf(zk->name, sizeof(zk->name), "0x%" PRIx64, session->id);
	zk->linked = true;
	zk->connected_at_ms = zk->now_ms;
	zk->lost_at_ms = INT64_MAX;
	free(zk->addresses);
	zk->addresses = strdup(session->addresses);
	registry_zk_log(zk, REGISTRY_LOG_DEBUG, "ZooKeeper: session %s is connected to %s",
		zk->name, session->server);
	zk->preparing = true;
	struct zk_request sync = {
		.tag = REGISTRY_ZK_TAG_PREPARE, .operation = ZK_SYNC, .path = "/", .version = -1
	};
	zk->prepare_sent_ms = clock_monotonic_ms();
	/* A worker that cannot be told is dead, and its successor prepares again. */
	registry_zk_send(zk, &sync);
}

/* The server counts from our last sign of life, which was no later than now. */
static void disconnected(struct registry_zk *zk, const char *why)
{
	bool was_linked = zk->linked;
	zk->linked = false;
	zk->preparing = false;
	if (was_linked && (zk->state == REGISTRY_CONNECTED || zk->state == REGISTRY_AWAY)) {
		zk->lost_at_ms = zk->now_ms + zk->session.timeout_ms;
		set_state(zk, REGISTRY_AWAY, why);
	}
}

static void expired(struct registry_zk *zk)
{
	char why[64];
	snprintf(why, sizeof(why), "session 0x%" PRIx64 " is over", zk->session.id);
	zk->session = (struct registry_zk_session){ .id = 0 };
	zk->name[0] = '\0';
	zk->linked = false;
	zk->preparing = false;
	zk->lost_at_ms = INT64_MAX;
	zk->replace_worker = true;
	if (zk->state == REGISTRY_CONNECTING) {
		registry_zk_log(zk, REGISTRY_LOG_WARN, "cannot go on: %s; making a new one", why);
	} else {
		set_state(zk, REGISTRY_LOST, why);
	}
}

static void denied(struct registry_zk *zk)
{
	const char *why = reason(zk, "the server refuses our credentials");
	zk->linked = false;
	zk->preparing = false;
	zk->lost_at_ms = INT64_MAX;
	zk->replace_worker = true;
	set_state(zk, REGISTRY_DENIED, why);
	registry_zk_jobs_fail(zk, BERTH_AUTHENTICATION_FAILED, "the server refuses our credentials");
}

void registry_zk_on_session(struct registry_zk *zk, const struct zk_session *session)
{
	switch (session->state) {
	case ZK_SESSION_CONNECTED:
		connected(zk, session);
		break;
	case ZK_SESSION_CONNECTING:
		zk->replace_worker = zk->linked;
		expect_connection(zk);
		disconnected(zk, reason(zk, "the connection is lost"));
		break;
	case ZK_SESSION_EXPIRED:
		expired(zk);
		break;
	case ZK_SESSION_AUTH_FAILED:
		denied(zk);
		break;
	}
}

void registry_zk_on_worker_lost(struct registry_zk *zk, const char *why)
{
	disconnected(zk, why);
	if (zk->state == REGISTRY_DENIED) {
		zk->restart_at_ms = INT64_MAX;
	}
	registry_zk_jobs_worker_lost(zk);
}

void registry_zk_session_timers(struct registry_zk *zk)
{
	if (zk->now_ms >= zk->lost_at_ms) {
		zk->lost_at_ms = INT64_MAX;
		set_state(zk, REGISTRY_LOST,
			"no connection for the session's timeout: the session must be presumed over");
	}
}
