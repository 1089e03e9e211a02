/* The ZooKeeper backend's options and its session object. */
#include "lib/registry/zookeeper/zookeeper.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/registry/acl.h"
#include "lib/base/hex.h"

enum { SERVERS_MAX_BYTES = 16 * 1024 };

#define TLS_DIRECTORY BERTH_SYSCONFDIR "/berth/tls"

static int no_memory(struct err *err)
{
	return err_set(err, BERTH_FAILED, "no memory for a ZooKeeper registry");
}

static char *join_servers(const struct registry_url *url)
{
	struct buffer out;
	buffer_init(&out, SERVERS_MAX_BYTES);
	for (size_t i = 0; i < url->servers_count; i++) {
		const struct registry_url_server *server = &url->servers[i];
		bool ipv6 = strchr(server->host, ':') != NULL;
		buffer_printf(&out, ipv6 ? "%s[%s]:%s" : "%s%s:%s", i ? "," : "", server->host,
			server->port);
	}
	char *servers = buffer_take(&out, NULL);
	buffer_finish(&out);
	return servers;
}

static void wipe(char *secret)
{
	if (secret) {
		explicit_bzero(secret, strlen(secret));
	}
	free(secret);
}

static int configure_url(struct registry_zk *zk, const char *rest, struct err *err)
{
	struct registry_url url;
	if (registry_url_parse_servers(&url, rest, err)) {
		return err->code;
	}
	zk->servers = join_servers(&url);
	zk->root = strdup(strcmp(url.path, "/") == 0 ? "" : url.path);
	if (!zk->servers || !zk->root ||
		asprintf(&zk->url, "zookeeper%s://%s%s", *zk->tls ? "+tls" : "", zk->servers,
			url.path) < 0) {
		zk->url = NULL;
		return no_memory(err);
	}
	return 0;
}

static bool wants_tls(const struct registry_options *options)
{
	static const char prefix[] = "zookeeper+tls:";
	return strncmp(options->url, prefix, sizeof(prefix) - 1) == 0;
}

/* Refuses options that the installed client library does not support, before anything starts. */
int registry_zk_check(
	const struct registry_options *options, const char **ret_option, struct err *err)
{
#ifdef BERTH_ZK_ABSENT
	*ret_option = "url";
	return err_set(err, BERTH_FAILED,
		"this build has no ZooKeeper client (configure --without-zookeeper), and can "
		"use only dir:/path");
#endif
	bool tls = wants_tls(options);
	bool sasl = strcmp(options->auth, "sasl") == 0;
#ifndef BERTH_ZK_TLS
	if (tls) {
		*ret_option = "url";
		return err_set(err, BERTH_FAILED,
			"zookeeper+tls:// needs a ZooKeeper client library with TLS, and this "
			"build has none; run stunnel next to Berth and use "
			"zookeeper://127.0.0.1:PORT/ (see berth.ini(5), TLS)");
	}
#endif
#ifndef BERTH_ZK_SASL
	if (sasl) {
		*ret_option = "auth";
		return err_set(err, BERTH_FAILED,
			"auth = sasl needs a ZooKeeper client library with SASL, and this "
			"build has none; use auth = digest, with stunnel next to Berth for "
			"secrecy (see berth.ini(5), TLS)");
	}
#endif
	if (tls && sasl) {
		*ret_option = "auth";
		return err_set(err, BERTH_FAILED,
			"the ZooKeeper client library takes TLS or SASL for a connection, not "
			"both; use zookeeper+tls:// with digest, or sasl through stunnel next to "
			"Berth (see berth.ini(5), TLS)");
	}
	return 0;
}

static int configure_auth(
	struct registry_zk *zk, const struct registry_options *options, struct err *err)
{
	bool from_file = strcmp(zk->auth, "digest") == 0 ||
		(strcmp(zk->auth, "sasl") == 0 && *options->auth_file);
	if (from_file) {
		zk->auth_file = strdup(options->auth_file);
		return zk->auth_file ? registry_auth_file_read(&zk->credential, zk->auth_file, err)
				     : no_memory(err);
	}
	zk->credential = strdup("");
	return zk->credential ? 0 : no_memory(err);
}

int registry_zk_reread_credential(struct registry_zk *zk, struct err *err)
{
	char *credential = NULL;
	if (!zk->auth_file) {
		return 0;
	}
	if (registry_auth_file_read(&credential, zk->auth_file, err)) {
		return err->code;
	}
	bool changed = strcmp(credential, zk->credential) != 0;
	wipe(zk->credential);
	zk->credential = credential;
	return changed;
}

/*
 * The root node gets its ACL from the core's policy, as every other node; the core itself logs its
 * warnings.
 */
static int configure_root_acl(
	struct registry_zk *zk, const struct registry_options *options, struct err *err)
{
	struct registry_acl_policy policy = { .realm = NULL };
	char *warning = NULL;
	if (registry_acl_policy_init(&policy, options, &warning, err) == 0) {
		zk->root_acl = registry_acl_for(&policy, "/", NULL);
		if (!zk->root_acl) {
			no_memory(err);
		}
	}
	free(warning);
	registry_acl_policy_finish(&policy);
	return err->code;
}

static const char *or_default(const char *file, const char *otherwise)
{
	return *file ? file : otherwise;
}

/*
 * The client library cuts this string at commas, and shows the server a certificate only if a
 * passphrase follows, which OpenSSL asks for only if the key is encrypted: "-" is for a key that is
 * not.
 */
static int configure_tls(
	struct registry_zk *zk, const struct registry_options *options, struct err *err)
{
	char *passphrase = NULL;
	const char *ca = or_default(options->tls_ca, TLS_DIRECTORY "/ca.pem");
	const char *cert = or_default(options->tls_cert, TLS_DIRECTORY "/cert.pem");
	const char *key = or_default(options->tls_key, TLS_DIRECTORY "/key.pem");
	if (!wants_tls(options)) {
		zk->tls = strdup("");
		return zk->tls ? 0 : no_memory(err);
	}
	if (strchr(ca, ',') || strchr(cert, ',') || strchr(key, ',')) {
		return err_set(err, BERTH_FAILED,
			"tls_ca, tls_cert, tls_key: the client library cuts file names at commas");
	}
	if (*options->tls_passphrase_file &&
		registry_passphrase_read(&passphrase, options->tls_passphrase_file, err)) {
		return err->code;
	}
	bool shows = *options->tls_cert || access(cert, F_OK) == 0;
	if (asprintf(&zk->tls, "%s,%s,%s,%s", ca, cert, key,
		    !shows               ? ""
			    : passphrase ? passphrase
					 : "-") < 0) {
		zk->tls = NULL;
		no_memory(err);
	}
	wipe(passphrase);
	return err->code;
}

int registry_zk_configure(struct registry_zk *zk, const char *rest,
	const struct registry_options *options, struct err *err)
{
	zk->wanted_timeout_ms = options->session_timeout_ms;
	zk->close_timeout_ms = options->close_timeout_ms;
	zk->ends_in_silence = options->ends_in_silence;
	zk->auth = strdup(options->auth);
	if (!zk->auth) {
		return no_memory(err);
	}
	if (configure_tls(zk, options, err) || configure_url(zk, rest, err) ||
		configure_auth(zk, options, err) || configure_root_acl(zk, options, err)) {
		return err->code;
	}
	registry_zk_session_decode(zk, options->session);
	return 0;
}

void registry_zk_unconfigure(struct registry_zk *zk)
{
	wipe(zk->credential);
	wipe(zk->tls);
	explicit_bzero(&zk->session, sizeof(zk->session));
	free(zk->auth_file);
	free(zk->auth);
	free(zk->addresses);
	free(zk->servers);
	free(zk->root);
	free(zk->url);
	registry_acl_free(zk->root_acl);
}

/* ---- the session object ---- */

static bool decode_password(unsigned char *out, const char *hex)
{
	if (strlen(hex) != 2 * ZK_PASSWORD_BYTES) {
		return false;
	}
	for (size_t i = 0; i < ZK_PASSWORD_BYTES; i++) {
		int byte = hex_byte(hex + 2 * i);
		if (byte < 0) {
			return false;
		}
		out[i] = (unsigned char)byte;
	}
	return true;
}

void registry_zk_session_decode(struct registry_zk *zk, const json_t *object)
{
	json_t *given = (json_t *)object; /* jansson reads, but wants it changeable */
	const char *backend;
	const char *id;
	const char *password;
	const char *url;
	int timeout_ms;
	struct registry_zk_session session;
	assert(zk->url); /* it was set before sessions are read */
	if (!given ||
		json_unpack(given, "{s:s, s:s, s:s, s:s, s:i}", "backend", &backend, "id", &id,
			"password", &password, "url", &url, "timeout_ms", &timeout_ms) != 0) {
		return;
	}
	session.id = strtoull(id, NULL, 16);
	session.timeout_ms = timeout_ms;
	if (strcmp(backend, "zookeeper") == 0 && strcmp(url, zk->url) == 0 && session.id != 0 &&
		timeout_ms > 0 && decode_password(session.password, password)) {
		zk->session = session;
	}
}

json_t *registry_zk_session_encode(const struct registry_zk *zk)
{
	char id[24];
	char password[2 * ZK_PASSWORD_BYTES + 1];
	if (zk->session.id == 0) {
		return NULL;
	}
	snprintf(id, sizeof(id), "0x%llx", (unsigned long long)zk->session.id);
	for (size_t i = 0; i < ZK_PASSWORD_BYTES; i++) {
		snprintf(password + 2 * i, 3, "%02x", zk->session.password[i]);
	}
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:i}", "backend", "zookeeper", "id", id,
		"password", password, "url", zk->url, "timeout_ms", zk->session.timeout_ms);
	explicit_bzero(password, sizeof(password));
	return object;
}
