/* The options of a ZooKeeper backend and its session object, without a worker. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/registry/internal.h"
#include "lib/registry/zookeeper/zookeeper.h"
#include "tests/support/failing.h"
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

Test(zk_open, the_url_becomes_one_form)
{
	cr_assert_eq(configure("zookeeper://one,[::1]:99/a/b", NULL, NULL), 0);
	cr_assert_str_eq(zk.servers, "one:2181,[::1]:99");
	cr_assert_str_eq(zk.url, "zookeeper://one:2181,[::1]:99/a/b");
	cr_assert_str_eq(zk.root, "/a/b");
	cr_assert(!zk.tls);
	registry_zk_unconfigure(&zk);
	cr_assert_eq(configure("zookeeper+tls://one/", NULL, NULL), 0);
	cr_assert_str_eq(zk.url, "zookeeper+tls://one:2181/");
	cr_assert_str_eq(zk.root, "");
	cr_assert(zk.tls);
	registry_zk_unconfigure(&zk);
	cr_assert_lt(configure("zookeeper://:/", NULL, NULL), 0);
	registry_zk_unconfigure(&zk);
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
	char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, "joe:secret", 10), 10);
	cr_assert_str_eq(credential_with("digest", path), "joe:secret");
	cr_assert_str_eq(credential_with("sasl", path), "joe:secret");
	cr_assert_str_eq(credential_with("none", path), "");
	cr_assert_eq(configure("zookeeper://one/", "sasl", NULL), 0);
	cr_assert_null(zk.auth_file);
	cr_assert_str_eq(zk.credential, "");
	registry_zk_unconfigure(&zk);
	cr_assert_lt(configure("zookeeper://one/", "digest", "/nowhere"), 0);
	registry_zk_unconfigure(&zk);
	close(fd);
	unlink(path);
}

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

Test(zk_open, tls_and_sasl_exclude_each_other)
{
	cr_assert_str_eq(refused("zookeeper://one/", "none"), "none");
	cr_assert_str_eq(refused("zookeeper://one/", "digest"), "none");
	cr_assert_str_neq(refused("zookeeper+tls://one/", "sasl"), "none");
}

static void assert_whole(const char *credential)
{
	cr_assert_str_eq(zk.servers, "one:2181");
	cr_assert_str_eq(zk.url, "zookeeper://one:2181/a");
	cr_assert_str_eq(zk.root, "/a");
	cr_assert_str_eq(zk.credential, credential);
	cr_assert_not_null(zk.root_acl);
}

Test(zk_open, without_memory_nothing_is_half_configured)
{
	char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, "joe:secret", 10), 10);
	static const char *const auths[] = { "none", "digest" };
	for (size_t i = 0; i < sizeof(auths) / sizeof(auths[0]); i++) {
		bool fired = true;
		for (int number = 1; fired; number++) {
			failing_arm("alloc", (uint64_t)number, ENOMEM);
			int code = configure("zookeeper://one/a", auths[i], path);
			fired = failing_disarm();
			cr_assert(code == 0 || fired, "allocation %d", number);
			if (code == 0) {
				assert_whole(i == 0 ? "" : "joe:secret");
			}
			registry_zk_unconfigure(&zk);
		}
	}
	close(fd);
	unlink(path);
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
	cr_assert_eq(decoded(NULL), 0);
}
