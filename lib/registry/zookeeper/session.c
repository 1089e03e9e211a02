/* The state of the session; the diagram is in zookeeper.h. */
#include "lib/registry/zookeeper/zookeeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

enum {
	LONGEST_SESSION_MS = 3600 * 1000,
	DENIED_FIRST_MS = 20000,
	DENIED_LONGEST_MS = 300000,
	QUIET_A_SESSION =
		4, /* sooner than the client library's own pings, which it then leaves out */
	FIRST_PAUSES_A_SESSION = 60, /* as the client library */
	PATIENCES_A_SESSION = 3      /* the rest of the timeout suffices for another worker */
};

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

/* ---- the contact with the server ---- */

static int64_t quiet_ms(const struct registry_zk *zk)
{
	return zk->session.timeout_ms / QUIET_A_SESSION;
}

/* INT64_MAX: no worker waits for a word. */
static int64_t alive_deadline_ms(const struct registry_zk *zk)
{
	int timeout_ms = zk->session.timeout_ms ? zk->session.timeout_ms : zk->wanted_timeout_ms;
	return registry_zk_wants_end_in_silence(zk) && zk->worker.fd >= 0
		? zk->said_ms + timeout_ms / QUIET_A_SESSION
		: INT64_MAX;
}

static int64_t patience_ms(const struct registry_zk *zk)
{
	return zk->session.timeout_ms / PATIENCES_A_SESSION;
}

/* Every answer counts: a server that has much to do answers the last question late. */
static int64_t silent_since_ms(const struct registry_zk *zk)
{
	return zk->answered_ms > zk->asked_ms ? zk->answered_ms : zk->asked_ms;
}

static int64_t contact_deadline_ms(const struct registry_zk *zk)
{
	switch (zk->contact) {
	case REGISTRY_ZK_NONE:
		break;
	case REGISTRY_ZK_HEARD:
		return zk->heard_ms + quiet_ms(zk);
	case REGISTRY_ZK_ASKED:
		return silent_since_ms(zk) + patience_ms(zk);
	}
	return INT64_MAX;
}

/* A worker that cannot be asked is dead, and its successor begins anew. */
static void ask(struct registry_zk *zk, enum zk_operation operation)
{
	struct zk_request request = {
		.tag = REGISTRY_ZK_TAG_CONTACT, .operation = operation, .path = "/", .version = -1
	};
	zk->contact = REGISTRY_ZK_ASKED;
	zk->asked_ms = clock_monotonic_ms();
	registry_zk_send(zk, &request);
}

static void begin(struct registry_zk *zk)
{
	char why[192];
	snprintf(why, sizeof(why), "session %s, timeout %d ms", zk->name, zk->session.timeout_ms);
	zk->look_up = false;
	zk->lost_at_ms = INT64_MAX;
	zk->stuck_at_ms = INT64_MAX;
	zk->denied_delay_ms = 0;
	zk->closed_delay_ms = 0;
	zk->trouble[0] = '\0';
	zk->attempts = 0;
	zk->tries = 0;
	zk->warned_at_ms = 0;
	set_state(zk, REGISTRY_CONNECTED, why);
	registry_zk_jobs_connected(zk);
}

void registry_zk_on_contact(struct registry_zk *zk, int32_t rc)
{
	if (registry_zk_contact_heard(zk, rc) && zk->denied_delay_ms != 0) {
		/* the server did not close the connection: it takes the credentials */
		begin(zk);
	}
}

/* ---- reports of the worker ---- */

static void take_addresses(struct registry_zk *zk, const char *addresses)
{
	char *copy = *addresses ? strdup(addresses) : NULL;
	if (copy) {
		free(zk->addresses);
		zk->addresses = copy;
	}
}

/*
 * The library waits long on a silent server, and it can be stuck for hours: it takes the pauses
 * between its attempts from the last timeout that any server granted. A fresh worker does not.
 */
static void expect_connection(struct registry_zk *zk)
{
	int timeout_ms = zk->session.id != 0 ? zk->session.timeout_ms : zk->wanted_timeout_ms;
	size_t count = registry_zk_servers_count(zk->addresses);
	int64_t until_ms = zk->now_ms + registry_zk_try_ms(timeout_ms, count, zk->tries);
	if (until_ms < zk->stuck_at_ms) {
		zk->stuck_at_ms = until_ms;
	}
}

/*
 * The next worker begins with the next server. When each had its turn, it looks the names up again,
 * which this one cannot do in its cage.
 */
static void give_up_worker(struct registry_zk *zk)
{
	char why[192];
	const char *addresses = zk->addresses ? zk->addresses : "";
	size_t count = registry_zk_servers_count(addresses);
	if (!zk->worker_complained && count > 0) {
		snprintf(why, sizeof(why), "%.*s: no answer", (int)strcspn(addresses, ","),
			addresses);
		registry_zk_complain(zk, &(struct zk_log){ ZK_LOG_LIBRARY, why });
	}
	registry_zk_servers_rotate(&zk->addresses);
	zk->tries++;
	zk->look_up = count == 0 || zk->tries % count == 0;
	zk->replace_why = "no connection to ZooKeeper in time";
}

static void connected(struct registry_zk *zk, const struct zk_session *session)
{
	bool sane = session->timeout_ms > 0 && session->timeout_ms <= LONGEST_SESSION_MS;
	zk->session.id = session->id;
	zk->session.timeout_ms = sane ? (int)session->timeout_ms : LONGEST_SESSION_MS;
	memcpy(zk->session.password, session->password, sizeof(zk->session.password));
	snprintf(zk->name, sizeof(zk->name), "0x%" PRIx64, session->id);
	zk->connected_at_ms = zk->now_ms;
	zk->complained_at_ms = 0;
	/* The library asked after that; it does not say how long before this report. */
	if (zk->started_ms > zk->heard_ms) {
		zk->heard_ms = zk->started_ms;
	}
	take_addresses(zk, session->addresses);
	registry_zk_servers_put_last(&zk->addresses, session->server);
	snprintf(zk->server, sizeof(zk->server), "%s", session->server);
	registry_zk_log(zk, REGISTRY_LOG_DEBUG, "ZooKeeper: session %s is connected to %s",
		zk->name, session->server);
	/*
	 * The server answers in order: all reads behind the sync see what other clients wrote
	 * before it, so nothing has to wait for its answer. After a refusal that answer proves the
	 * credentials, which were sent before the sync.
	 */
	ask(zk, ZK_SYNC);
	if (zk->denied_delay_ms == 0) {
		begin(zk);
	}
}

/* The server counts from our last sign of life, which came no earlier than its last answer. */
static void disconnected(struct registry_zk *zk, const char *why)
{
	zk->contact = REGISTRY_ZK_NONE;
	if (zk->state == REGISTRY_CONNECTED) {
		zk->lost_at_ms = zk->heard_ms + zk->session.timeout_ms;
		set_state(zk, REGISTRY_AWAY, why);
	}
}

static void expired(struct registry_zk *zk)
{
	char why[64];
	snprintf(why, sizeof(why), "session 0x%" PRIx64 " is over", zk->session.id);
	zk->session = (struct registry_zk_session){ .id = 0 };
	zk->name[0] = '\0';
	zk->lost_at_ms = INT64_MAX;
	zk->replace_why = "the session is over";
	if (zk->state == REGISTRY_CONNECTING) {
		registry_zk_log(zk, REGISTRY_LOG_WARN, "cannot go on: %s; making a new one", why);
	} else {
		set_state(zk, REGISTRY_LOST, why);
	}
}

/* Doubled, and then from half of it up to the whole, so that many agents do not come at once. */
static int next_delay_ms(struct registry_zk *zk, int *delay_ms, int first_ms, int longest_ms)
{
	int next_ms = *delay_ms ? 2 * *delay_ms : first_ms;
	*delay_ms = next_ms < longest_ms ? next_ms : longest_ms;
	return *delay_ms / 2 + rand_r(&zk->jitter) % (*delay_ms / 2 + 1);
}

/* A third of the timeout at most: when servers come back, the session is to live on. */
void registry_zk_on_closed(struct registry_zk *zk)
{
	size_t count = registry_zk_servers_count(zk->addresses);
	if (zk->contact != REGISTRY_ZK_NONE || ++zk->closed < count) {
		return;
	}
	int timeout_ms = zk->wanted_timeout_ms;
	int delay_ms = next_delay_ms(zk, &zk->closed_delay_ms, timeout_ms / FIRST_PAUSES_A_SESSION,
		timeout_ms / PATIENCES_A_SESSION);
	registry_zk_servers_rotate(&zk->addresses);
	zk->look_up = true;
	zk->pause_until_ms = zk->now_ms + delay_ms;
	zk->replace_why = "each server closes the connection";
}

static void denied(struct registry_zk *zk)
{
	const char *why = reason(zk, "the server refuses our credentials");
	int delay_ms = next_delay_ms(zk, &zk->denied_delay_ms, DENIED_FIRST_MS, DENIED_LONGEST_MS);
	zk->lost_at_ms = INT64_MAX;
	zk->not_before_ms = zk->now_ms + delay_ms;
	zk->replace_why = "the server refuses our credentials";
	registry_zk_log(zk, REGISTRY_LOG_WARN,
		"the server refuses our credentials; the next attempt is in %d s, or at a reload",
		(delay_ms + 999) / 1000);
	set_state(zk, REGISTRY_DENIED, why);
	registry_zk_jobs_fail(
		zk, BERTH_AUTHENTICATION_FAILED, "the server refuses our credentials");
}

void registry_zk_on_session(struct registry_zk *zk, const struct zk_session *session)
{
	switch (session->state) {
	case ZK_SESSION_CONNECTED:
		if (zk->contact != REGISTRY_ZK_NONE) {
			registry_zk_refuse_worker(
				zk, "the ZooKeeper worker reports a second connection");
			break;
		}
		connected(zk, session);
		break;
	case ZK_SESSION_CONNECTING:
		if (zk->contact != REGISTRY_ZK_NONE) {
			zk->replace_why = "the connection is lost";
		}
		take_addresses(zk, session->addresses);
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
	registry_zk_jobs_worker_lost(zk);
}

int64_t registry_zk_session_deadline_ms(const struct registry_zk *zk)
{
	int64_t alive_ms = alive_deadline_ms(zk);
	int64_t contact_ms = contact_deadline_ms(zk);
	contact_ms = alive_ms < contact_ms ? alive_ms : contact_ms;
	int64_t first_ms = zk->lost_at_ms < zk->stuck_at_ms ? zk->lost_at_ms : zk->stuck_at_ms;
	return contact_ms < first_ms ? contact_ms : first_ms;
}

void registry_zk_session_timers(struct registry_zk *zk)
{
	if (zk->now_ms >= contact_deadline_ms(zk)) {
		if (zk->contact == REGISTRY_ZK_HEARD) {
			ask(zk, ZK_EXISTS);
		} else {
			zk->replace_why = "ZooKeeper, or our worker, does not answer";
		}
	}
	if (zk->now_ms >= alive_deadline_ms(zk)) {
		registry_zk_say_alive(zk);
	}
	if (zk->now_ms >= zk->stuck_at_ms) {
		give_up_worker(zk);
	}
	if (zk->now_ms >= zk->lost_at_ms) {
		zk->lost_at_ms = INT64_MAX;
		set_state(zk, REGISTRY_LOST,
			"the server was not heard for the session's timeout: the "
			"session must be presumed over");
	}
}
