/*
 * How a connection is made: plain, and through TLS or SASL where the installed library has them
 * (configure looks).
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef BERTH_ZK_TLS
#include <openssl/err.h>
#endif

#include "lib/base/text.h"
#include "lib/registry/zookeeper/worker/worker.h"

enum { LINE_BYTES = 2048 };

static clientid_t session_of(const struct zk_hello *hello)
{
	clientid_t session = { .client_id = (int64_t)hello->session_id };
	memcpy(session.passwd, hello->session_password, sizeof(session.passwd));
	return session;
}

#ifdef BERTH_ZK_TLS
const char *zk_worker_tls_reason(void)
{
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
						    : ERR_reason_error_string(code);
	ERR_clear_error();
	return reason ? reason : "";
}

/* The library's log, before it can take a callback: it writes line by line. */
static ssize_t write_line(void *context, const char *text, size_t len)
{
	log_callback_fn *on_log = (log_callback_fn *)context;
	char line[LINE_BYTES];
	text_printf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	(*on_log)(line);
	return (ssize_t)len;
}

static FILE *open_log(log_callback_fn *on_log)
{
	FILE *log = fopencookie(on_log, "w", (cookie_io_functions_t){ .write = write_line });
	if (log) {
		setvbuf(log, NULL, _IOLBF, LINE_BYTES);
	}
	return log;
}

/*
 * OpenSSL would take a server for ours whose certificate any authority of the system has signed:
 * the library asks it for these, and does not compare the name.
 */
static int trust_no_other(const char *tls)
{
	char ca[PATH_MAX];
	text_printf(ca, sizeof(ca), "%.*s", (int)strcspn(tls, ","), tls);
	return setenv("SSL_CERT_FILE", ca, 1) | setenv("SSL_CERT_DIR", "/nonexistent", 1);
}

static zhandle_t *connect_tls(const struct zk_hello *hello, const char *hosts,
	const clientid_t *session, watcher_fn on_session, log_callback_fn on_log)
{
	static log_callback_fn callback;
	callback = on_log;
	FILE *log = open_log(&callback);
	if (!log || trust_no_other(hello->tls)) {
		return NULL;
	}
	zoo_set_log_stream(log);
	return zookeeper_init_ssl(
		hosts, hello->tls, on_session, (int)hello->timeout_ms, session, NULL, 0);
}
#else
const char *zk_worker_tls_reason(void)
{
	return "";
}
#endif

#ifdef BERTH_ZK_SASL
/*
 * Kerberos from the ticket cache, or DIGEST-MD5 with the credential. The strings live as long as
 * the process.
 */
static char *sasl_user;
static sasl_secret_t *sasl_password;

static int give_user(void *context, int id, const char **ret_user, unsigned *ret_len)
{
	(void)context;
	(void)id;
	*ret_user = sasl_user;
	if (ret_len) {
		*ret_len = (unsigned)strlen(sasl_user);
	}
	return SASL_OK;
}

static int give_password(
	sasl_conn_t *connection, void *context, int id, sasl_secret_t **ret_password)
{
	(void)connection;
	(void)context;
	(void)id;
	*ret_password = sasl_password;
	return SASL_OK;
}

static int keep_credential(const char *credential)
{
	const char *password = strchr(credential, ':');
	if (!password) {
		return -1;
	}
	size_t len = strlen(++password);
	sasl_user = strndup(credential, (size_t)(password - credential) - 1);
	sasl_password = malloc(sizeof(*sasl_password) + len + 1);
	if (!sasl_user || !sasl_password) {
		return -1;
	}
	sasl_password->len = len;
	memcpy(sasl_password->data, password, len + 1);
	return 0;
}

static zhandle_t *connect_sasl(const struct zk_hello *hello, const char *hosts,
	const clientid_t *session, watcher_fn on_session, log_callback_fn on_log)
{
	static sasl_callback_t digest[] = {
		{ SASL_CB_USER, (int (*)(void))(void (*)(void))give_user, NULL },
		{ SASL_CB_AUTHNAME, (int (*)(void))(void (*)(void))give_user, NULL },
		{ SASL_CB_PASS, (int (*)(void))(void (*)(void))give_password, NULL },
		{ SASL_CB_LIST_END, NULL, NULL },
	};
	static sasl_callback_t kerberos[] = { { SASL_CB_LIST_END, NULL, NULL } };
	bool with_password = hello->credential[0] != '\0';
	/* The client library leaves this to its user. */
	if (sasl_client_init(NULL) != SASL_OK ||
		(with_password && keep_credential(hello->credential) < 0)) {
		return NULL;
	}
	zoo_sasl_params_t parameters = { .service = "zookeeper",
		.host = with_password ? "zk-sasl-md5" : NULL,
		.mechlist = with_password ? "DIGEST-MD5" : "GSSAPI",
		.callbacks = with_password ? digest : kerberos };
	return zookeeper_init_sasl(
		hosts, on_session, (int)hello->timeout_ms, session, NULL, 0, on_log, &parameters);
}
#endif

static zhandle_t *connect_with_options(const struct zk_hello *hello, const char *hosts,
	const clientid_t *session, watcher_fn on_session, log_callback_fn on_log)
{
	if (hello->tls[0] != '\0') {
#ifdef BERTH_ZK_TLS
		return connect_tls(hello, hosts, session, on_session, on_log);
#else
		return NULL;
#endif
	}
	if (strcmp(hello->auth, "sasl") == 0) {
#ifdef BERTH_ZK_SASL
		return connect_sasl(hello, hosts, session, on_session, on_log);
#else
		return NULL;
#endif
	}
	return zookeeper_init2(hosts, on_session, (int)hello->timeout_ms, session, NULL, 0, on_log);
}

/*
 * An even number of servers gets the first once more: after its first pass the library tries only
 * every second one of an even number (ZOOKEEPER-2466). NULL without memory.
 */
static char *make_odd(const char *hosts)
{
	size_t commas = 0;
	char *odd;
	for (const char *c = hosts; *c; c++) {
		commas += *c == ',';
	}
	int rc = commas % 2 == 0
		? asprintf(&odd, "%s", hosts)
		: asprintf(&odd, "%s,%.*s", hosts, (int)strcspn(hosts, ","), hosts);
	return rc < 0 ? NULL : odd;
}

zhandle_t *zk_worker_connect(const struct zk_hello *hello, const char *hosts, watcher_fn on_session,
	log_callback_fn on_log, struct err *err)
{
	clientid_t session = session_of(hello);
	char *odd = make_odd(hosts);
	zhandle_t *zh = odd ? connect_with_options(hello, odd, hello->session_id ? &session : NULL,
				      on_session, on_log)
			    : NULL;
	free(odd);
	if (!zh) {
		err_set_errno(err, BERTH_REGISTRY_UNAVAILABLE, errno,
			"the ZooKeeper client does not start");
		return NULL;
	}
	/*
	 * The addresses are numeric: there is nothing to look up in each turn of the library's
	 * loop.
	 */
	zoo_set_servers_resolution_delay(zh, -1);
	if (strcmp(hello->auth, "digest") == 0 &&
		zoo_add_auth(zh, "digest", hello->credential, (int)strlen(hello->credential), NULL,
			NULL) != ZOK) {
		err_set(err, BERTH_REGISTRY_UNAVAILABLE,
			"the ZooKeeper client does not take the credentials");
		return NULL; /* the process ends */
	}
	return zh;
}
