/* The start of the client library, whose functions are here. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/registry/zookeeper/worker/worker.h"

static char started[512]; /* in words */
static int resolution_delay_ms;
static bool refuses_start;
static int refuses_auth;
static watcher_fn on_session_given;
static log_callback_fn on_log_given;

static zhandle_t *const handle = (zhandle_t *)&resolution_delay_ms;

/* ---- in place of the client library's ---- */

zhandle_t *zookeeper_init2(const char *host, watcher_fn watcher, int timeout_ms,
	const clientid_t *session, void *context, int flags, log_callback_fn on_log)
{
	int len = snprintf(started, sizeof(started), "%s for %d ms", host, timeout_ms);
	if (session) {
		snprintf(started + len, sizeof(started) - (size_t)len, ", session %lld %.16s",
			(long long)session->client_id, session->passwd);
	}
	cr_assert_null(context);
	cr_assert_eq(flags, 0);
	on_session_given = watcher;
	on_log_given = on_log;
	errno = EMFILE;
	return refuses_start ? NULL : handle;
}

int zoo_set_servers_resolution_delay(zhandle_t *zh, int ms)
{
	cr_assert_eq(zh, handle);
	resolution_delay_ms = ms;
	return ZOK;
}

int zoo_add_auth(zhandle_t *zh, const char *scheme, const char *credential, int len,
	void_completion_t completion, const void *data)
{
	(void)completion;
	(void)data;
	cr_assert_eq(zh, handle);
	size_t used = strlen(started);
	snprintf(started + used, sizeof(started) - used, ", %s %.*s", scheme, len, credential);
	return refuses_auth;
}

/* ---- the tests ---- */

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void)zh;
	(void)type;
	(void)state;
	(void)path;
	(void)context;
}

static void on_log(const char *line)
{
	(void)line;
}

static zhandle_t *start(const struct zk_hello *hello, const char *hosts, struct err *err)
{
	started[0] = '\0';
	*err = (struct err)ERR_INIT;
	return zk_worker_connect(hello, hosts, on_session, on_log, err);
}

Test(connect, a_session_goes_on_with_its_password)
{
	struct zk_hello hello = {
		.timeout_ms = 6000, .session_id = 77, .auth = "none", .credential = "", .tls = ""
	};
	struct err err;
	memcpy(hello.session_password, "0123456789abcdef", ZK_PASSWORD_BYTES);
	cr_expect_eq(start(&hello, "127.0.0.1:1", &err), handle);
	cr_expect_str_eq(started, "127.0.0.1:1 for 6000 ms, session 77 0123456789abcdef");
}

/* Of an even number of servers the library tries every second one only (ZOOKEEPER-2466). */
Test(connect, the_number_of_servers_is_odd)
{
	static const struct {
		const char *hosts;
		const char *given;
	} rows[] = { { "a:1", "a:1 for 1 ms" }, { "a:1,b:2", "a:1,b:2,a:1 for 1 ms" },
		{ "a:1,b:2,c:3", "a:1,b:2,c:3 for 1 ms" },
		{ "long:1,b:2,c:3,d:4", "long:1,b:2,c:3,d:4,long:1 for 1 ms" } };
	const struct zk_hello hello = {
		.timeout_ms = 1, .auth = "none", .credential = "", .tls = ""
	};
	struct err err;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_eq(start(&hello, rows[i].hosts, &err), handle);
		cr_expect_str_eq(started, rows[i].given);
	}
}

Test(connect, credentials_go_to_the_server)
{
	const struct zk_hello hello = {
		.timeout_ms = 1, .auth = "digest", .credential = "joe:secret", .tls = ""
	};
	struct err err;
	cr_expect_eq(start(&hello, "a:1", &err), handle);
	cr_expect_str_eq(started, "a:1 for 1 ms, digest joe:secret");
	refuses_auth = ZINVALIDSTATE;
	cr_expect_null(start(&hello, "a:1", &err));
	cr_expect_eq(err.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_expect_str_eq(err.msg, "the ZooKeeper client does not take the credentials");
}

#ifndef BERTH_ZK_TLS
#endif

#ifndef BERTH_ZK_SASL
Test(connect, a_client_without_sasl_makes_no_connection_for_it)
{
	const struct zk_hello hello = {
		.timeout_ms = 1, .auth = "sasl", .credential = "joe:secret", .tls = ""
	};
	struct err err;
	cr_expect_null(start(&hello, "a:1", &err));
	cr_expect_eq(err.code, BERTH_REGISTRY_UNAVAILABLE);
	cr_expect_str_eq(started, "");
}
#endif
