/* The options of a ZooKeeper backend and its session object, without a worker. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/registry/internal.h"
#include "lib/registry/zookeeper/zookeeper.h"
#include "tests/support/scratch.h"

static struct registry_zk zk;

static int configure(const char *url, const char *auth, const char *auth_file)
{
	struct err err = ERR_INIT;
	const struct registry_options all = registry_options_complete(
		&(struct registry_options){ .url = url, .auth = auth, .auth_file = auth_file });
	zk = (struct registry_zk){ 0 };
	int code = registry_zk_configure(&zk, strstr(url, "//") + 2, &all, &err);
	cr_assert_eq(code, err.code);
	return code;
}

static const char *tls_with(const struct registry_options *options)
{
	static char text[1024];
	struct err err = ERR_INIT;
	struct registry_options all = registry_options_complete(options);
	all.url = "zookeeper+tls://one/";
	zk = (struct registry_zk){ 0 };
	int code = registry_zk_configure(&zk, "one/", &all, &err);
	snprintf(text, sizeof(text), "%s", code ? err.msg : zk.tls);
	registry_zk_unconfigure(&zk);
	return text;
}

/* As the client library takes it apart: without a passphrase it shows no certificate. */
Test(zk_open, tls_files_and_a_passphrase_are_one_string)
{
	char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	struct registry_options options = { .tls_ca = "/ca", .tls_key = "/key" };
	cr_expect_str_eq(tls_with(&options), "/ca," BERTH_SYSCONFDIR "/berth/tls/cert.pem,/key,",
		"there is no certificate");
	options.tls_cert = "/cert";
	cr_expect_str_eq(tls_with(&options), "/ca,/cert,/key,-");
	options.tls_passphrase_file = path;
	cr_assert_eq(write(fd, "open sesame\n", 12), 12);
	cr_expect_str_eq(tls_with(&options), "/ca,/cert,/key,open sesame");
	cr_assert_eq(write(fd, "two lines\n", 10), 10);
	cr_expect(strstr(tls_with(&options), "allowed is one line"));
	cr_assert_eq(ftruncate(fd, 0), 0);
	cr_assert_eq(pwrite(fd, "a,b\n", 4, 0), 4);
	cr_expect(strstr(tls_with(&options), "without a comma"));
	cr_assert_eq(fchmod(fd, 0644), 0);
	cr_expect(strstr(tls_with(&options), "others may read it"));
	close(fd);
	unlink(path);
	cr_expect(strstr(tls_with(&options), "No such file"));
	options.tls_passphrase_file = NULL;
	options.tls_ca = "/a,b";
	cr_expect(strstr(tls_with(&options), "cuts file names at commas"));
}

/* The file holds "joe:secret". */
static const char *credential_with(const char *auth, const char *auth_file)
{
	static char credential[64];
	credential[0] = '\0';
	if (configure("zookeeper://one/", auth, auth_file) == 0) {
		strcpy(credential, zk.credential);
	}
	registry_zk_unconfigure(&zk);
	return credential;
}

Test(zk_open, credentials_are_read_where_they_are_needed)
{
	struct err err = ERR_INIT;
	char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, "joe:secret", 10), 10);
	cr_assert_str_eq(credential_with("digest", path), "joe:secret");
	cr_assert_str_eq(credential_with("sasl", path), "joe:secret");
	cr_assert_str_eq(credential_with("none", path), "");
	cr_assert_eq(configure("zookeeper://one/", "sasl", NULL), 0);
	cr_assert_null(zk.auth_file);
	cr_assert_str_eq(zk.credential, "");
	cr_assert_eq(registry_zk_reread_credential(&zk, &err), 0, "it has not changed");
	registry_zk_unconfigure(&zk);
	cr_assert_lt(configure("zookeeper://one/", "digest", "/nowhere"), 0);
	registry_zk_unconfigure(&zk);
	close(fd);
	unlink(path);
}

/* The option that the client library of this build cannot satisfy, or "none". */
static const char *refused(const char *url, const char *auth)
{
	struct err err = ERR_INIT;
	const char *option = "none";
	const struct registry_options options = { .url = url, .auth = auth };
	int code = registry_zk_check(&options, &option, &err);
	cr_assert_eq(code, err.code);
	cr_assert_eq(code == 0, strcmp(option, "none") == 0);
	return option;
}

#ifdef BERTH_ZK_TLS
#define TLS_REFUSED "none"
#else
#define TLS_REFUSED "url"
#endif
#ifdef BERTH_ZK_SASL
#define SASL_REFUSED "none"
#else
#define SASL_REFUSED "auth"
#endif

Test(zk_open, tls_and_sasl_need_a_library_that_has_them)
{
	cr_expect_str_eq(refused("zookeeper://one/", "none"), "none");
	cr_expect_str_eq(refused("zookeeper://one/", "digest"), "none");
	cr_expect_str_eq(refused("zookeeper+tls://one/", "digest"), TLS_REFUSED);
	cr_expect_str_eq(refused("zookeeper://one/", "sasl"), SASL_REFUSED);
	cr_expect_str_neq(refused("zookeeper+tls://one/", "sasl"), "none", "never both");
}

static json_t *session_with(const char *key, const char *value)
{
	json_t *session = json_pack("{s:s, s:s, s:s, s:s, s:i}", "backend", "zookeeper", "id",
		"0x12ab", "password", "00112233445566778899aabbccddeeff", "url",
		"zookeeper://one:2181/", "timeout_ms", 5000);
	if (key) {
		json_object_set_new(session, key, json_string(value));
	}
	return session;
}

static uint64_t decoded(json_t *session)
{
	cr_assert_eq(configure("zookeeper://one/", NULL, NULL), 0);
	registry_zk_session_decode(&zk, session);
	json_t *again = registry_zk_session_encode(&zk);
	cr_assert_eq(again != NULL, zk.session.id != 0);
	cr_assert(!again || json_equal(again, session));
	uint64_t id = zk.session.id;
	json_decref(again);
	json_decref(session);
	registry_zk_unconfigure(&zk);
	cr_assert_eq(zk.session.id, 0, "wiped");
	return id;
}

Test(zk_open, a_session_is_read_as_it_is_written)
{
	cr_assert_eq(decoded(session_with(NULL, NULL)), 0x12ab);
	cr_assert_eq(decoded(session_with("backend", "dir")), 0);
	cr_assert_eq(decoded(session_with("url", "zookeeper://one:2181/a")), 0);
	cr_assert_eq(decoded(session_with("id", "0")), 0);
	cr_assert_eq(decoded(session_with("timeout_ms", "5000")), 0);
	cr_assert_eq(decoded(session_with("password", "0011")), 0);
	cr_assert_eq(decoded(session_with("password", "00112233445566778899aabbccddeefg")), 0);
	cr_assert_eq(decoded(session_with("password", "00112233445566778899aabbccddeeff00")), 0);
	cr_assert_eq(decoded(session_with("id", "0x1")), 1);
	cr_assert_eq(decoded(NULL), 0);
}
