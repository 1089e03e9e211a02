#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/registry/acl.h"
#include "lib/registry/digest.h"
#include "tests/support/scratch.h"

static struct registry_options secure_options(void)
{
	return (struct registry_options){ .auth = "digest",
		.secure = true,
		.system_accounts = "sasl:yarn@, sasl:hdfs@,digest:admin:hash",
		.write_accessors = "",
		.realm = "EXAMPLE.ORG" };
}

static void init(struct registry_acl_policy *policy, const struct registry_options *options)
{
	struct err err = ERR_INIT;
	char *warning = NULL;
	*policy = (struct registry_acl_policy){ 0 };
	cr_assert_eq(registry_acl_policy_init(policy, options, &warning, &err), 0, "%s", err.msg);
	cr_assert_null(warning);
}

/* "scheme:id=permissions" of each entry, separated by blanks. Borrowed until the next call. */
static const char *text_of_home(
	const struct registry_acl_policy *policy, const char *path, const char *owner)
{
	static char text[2048];
	struct registry_acl *acl = registry_acl_for(policy, path, owner);
	text[0] = '\0';
	for (size_t i = 0; i < acl->count; i++) {
		size_t len = strlen(text);
		snprintf(text + len, sizeof(text) - len, "%s%s:%s=%u", i ? " " : "",
			acl->entries[i].scheme, acl->entries[i].id, acl->entries[i].permissions);
	}
	registry_acl_free(acl);
	return text;
}

static const char *text_of(const struct registry_acl_policy *policy, const char *path)
{
	return text_of_home(policy, path, NULL);
}

Test(registry_digest, is_what_zookeeper_computes)
{
	char digest[REGISTRY_DIGEST_SIZE];
	cr_assert_eq(registry_digest(digest, "super", "secret"), 0);
	cr_assert_str_eq(digest, "lK75jTNcA+U9vtVEw5vB51mj/w4=");
}

Test(registry_digest, pads_every_length_right)
{
	char digest[REGISTRY_DIGEST_SIZE];
	char password[128];
	/*
	 * 55, 56 and 64 bytes lie at the edges of SHA-1's blocks; computed by another
	 * implementation.
	 */
	static const struct {
		size_t len;
		const char *digest;
	} known[] = {
		{ 53, "HCI5t/vUzmyRgotbI4m3dQEEprM=" },
		{ 54, "u6S5RlhYzGpVsIVz9ipesnwKfUg=" },
		{ 56, "BMBglelblDv0HlZPZNxnEUZYJ5A=" },
		{ 61, "E2KmMVCAMJOBFyzP962n0SY64gA=" },
		{ 62, "bqUvG0kh8XF9FXbJtNgRC3Yf5Tw=" },
		{ 126, "7KBcpCgxspzCduUwVPlPTiRPS64=" },
	};
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		memset(password, 'x', known[i].len);
		password[known[i].len] = '\0';
		cr_assert_eq(registry_digest(digest, "u", password), 0);
		cr_assert_str_eq(digest, known[i].digest, "%zu", known[i].len);
	}
}

Test(registry_acl, without_secure_everybody_may_do_everything)
{
	struct registry_acl_policy policy;
	const struct registry_options options = {
		.auth = "none", .system_accounts = "sasl:yarn@", .write_accessors = "", .realm = ""
	};
	init(&policy, &options);
	cr_assert_str_eq(text_of(&policy, "/users/joe"), "");
	registry_acl_policy_finish(&policy);
}

Test(registry_acl, secure_names_world_self_and_system_accounts)
{
	struct registry_acl_policy policy;
	const struct registry_options options = secure_options();
	init(&policy, &options);
	cr_assert_str_eq(text_of(&policy, "/services/web"),
		"world:anyone=1 auth:=31 sasl:yarn@EXAMPLE.ORG=31 sasl:hdfs@EXAMPLE.ORG=31 "
		"digest:admin:hash=31");
	registry_acl_policy_finish(&policy);
}

Test(registry_acl, a_home_is_its_users)
{
	struct registry_acl_policy policy;
	const struct registry_options options = secure_options();
	init(&policy, &options);
	cr_assert(strstr(text_of(&policy, "/users/joe"), " sasl:joe@EXAMPLE.ORG=13"));
	cr_assert_not(strstr(text_of(&policy, "/users"), "=13"));
	cr_assert_not(strstr(text_of(&policy, "/users/joe/web"), "=13"));
	cr_assert_not(strstr(text_of(&policy, "/services/joe"), "=13"));
	registry_acl_policy_finish(&policy);
}

Test(registry_acl, an_owner_gets_what_a_user_has_in_a_home)
{
	static const char *const owners[][2] = {
		{ "ann", " sasl:ann@EXAMPLE.ORG=13" },
		{ "ann@OTHER.ORG", " sasl:ann@OTHER.ORG=13" },
		{ "ann@", " sasl:ann@EXAMPLE.ORG=13" },
		{ "sasl:ann@", " sasl:ann@EXAMPLE.ORG=13" },
		{ "digest:ann:hash", " digest:ann:hash=13" },
	};
	struct registry_acl_policy policy;
	const struct registry_options options = secure_options();
	init(&policy, &options);
	for (size_t i = 0; i < ARRAY_LEN(owners); i++) {
		struct err err = ERR_INIT;
		cr_assert_eq(registry_acl_check_owner(&policy, owners[i][0], &err), 0);
		const char *text = text_of_home(&policy, "/users/joe", owners[i][0]);
		cr_assert_str_eq(text + strlen(text) - strlen(owners[i][1]), owners[i][1]);
		cr_assert_null(strstr(text, "sasl:joe"), "%s", text);
	}
	registry_acl_policy_finish(&policy);
}

Test(registry_acl, an_owner_who_would_get_no_rights_is_refused)
{
	static const char *const bad[] = { "", ":ann", "sasl:", "ann", "sasl:ann@" };
	struct registry_acl_policy policy;
	struct registry_options options = secure_options();
	options.system_accounts = "";
	options.realm = "";
	init(&policy, &options);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = ERR_INIT;
		cr_assert_neq(registry_acl_check_owner(&policy, bad[i], &err), 0, "%s", bad[i]);
	}
	registry_acl_policy_finish(&policy);
	options = (struct registry_options){
		.auth = "none", .system_accounts = "", .write_accessors = "", .realm = "R"
	};
	init(&policy, &options);
	struct err err = ERR_INIT;
	cr_assert_neq(registry_acl_check_owner(&policy, "ann", &err), 0, "not secure");
	registry_acl_policy_finish(&policy);
}

Test(registry_acl, in_hadoops_layout_users_write_their_homes)
{
	struct registry_acl_policy policy;
	struct registry_options options = secure_options();
	options.home_write = true;
	init(&policy, &options);
	cr_assert(strstr(text_of(&policy, "/users/joe"), " sasl:joe@EXAMPLE.ORG=15"));
	cr_assert_not(strstr(text_of(&policy, "/users/joe/services"), "=15"));
	registry_acl_policy_finish(&policy);
}

Test(registry_acl, accessors_are_added_and_cleared)
{
	struct registry_acl_policy policy;
	struct err err = ERR_INIT;
	const struct registry_options options = secure_options();
	init(&policy, &options);
	cr_assert_eq(registry_acl_add_accessor(&policy, "super", "secret", &err), 0);
	cr_assert(strstr(text_of(&policy, "/services/web"),
		" digest:super:lK75jTNcA+U9vtVEw5vB51mj/w4==31"));
	registry_acl_clear_accessors(&policy);
	cr_assert_not(strstr(text_of(&policy, "/services/web"), "super"));
	cr_assert_eq(registry_acl_add_accessor(&policy, "a:b", "secret", &err), BERTH_FAILED);
	cr_assert_not(strstr(err.msg, "secret"));
	registry_acl_policy_finish(&policy);
}

Test(registry_acl, accounts_without_a_realm_get_nothing_and_are_named)
{
	struct registry_acl_policy policy = { 0 };
	struct err err = ERR_INIT;
	char *warning = NULL;
	struct registry_options options = secure_options();
	options.realm = "";
	cr_assert_eq(registry_acl_policy_init(&policy, &options, &warning, &err), 0);
	cr_assert(strstr(warning, "sasl:yarn@, sasl:hdfs@"), "%s", warning);
	cr_assert_str_eq(
		text_of(&policy, "/users/joe"), "world:anyone=1 auth:=31 digest:admin:hash=31");
	free(warning);
	registry_acl_policy_finish(&policy);
}

Test(registry_acl, malformed_accounts_are_refused)
{
	static const char *const malformed[] = { "yarn", ":yarn", "sasl:", "sasl:a,,b" };
	char *warning = NULL;
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
		struct registry_acl_policy policy = { 0 };
		struct err err = ERR_INIT;
		struct registry_options options = secure_options();
		options.system_accounts = malformed[i];
		cr_assert_eq(registry_acl_policy_init(&policy, &options, &warning, &err),
			BERTH_FAILED, "%s", malformed[i]);
		cr_assert(strstr(err.msg, "scheme:id"), "%s", err.msg);
		registry_acl_policy_finish(&policy);
	}
}

/* ---- auth files ---- */

static const char *write_file(const char *text, size_t len, mode_t mode)
{
	static char path[SCRATCH_PATH];
	int fd = scratch_file(path);
	cr_assert_eq(write(fd, text, len), (ssize_t)len);
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

Test(registry_auth_file, holds_one_line_with_user_and_password)
{
	static const char *const good[] = { "joe:secret", "joe:secret\n", "joe:secret\r\n" };
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct err err = ERR_INIT;
		char *credentials = NULL;
		const char *file = write_file(good[i], strlen(good[i]), 0600);
		cr_assert_eq(registry_auth_file_read(&credentials, file, &err), 0, "%s", err.msg);
		cr_assert_str_eq(credentials, "joe:secret");
		free(credentials);
		unlink(file);
	}
}

Test(registry_auth_file, is_refused_when_others_may_use_it)
{
	static const mode_t modes[] = { 0640, 0604, 0620, 0660, 0644, 0610, 0601 };
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		struct err err = ERR_INIT;
		char *credentials = NULL;
		const char *file = write_file("joe:secret", 10, modes[i]);
		cr_assert_eq(registry_auth_file_read(&credentials, file, &err), BERTH_FAILED);
		const char *what = modes[i] & 022 ? "may write it" : "may read it; allowed is 0600";
		cr_assert(strstr(err.msg, what), "%s", err.msg);
		char mode[16];
		snprintf(mode, sizeof(mode), "mode %04o:", (unsigned)modes[i]);
		cr_assert(strstr(err.msg, mode), "%s", err.msg);
		cr_assert_null(credentials);
		unlink(file);
	}
}

Test(registry_auth_file, with_anything_else_is_refused_without_telling_it)
{
	static const struct {
		const char *text;
		size_t len;
	} bad[] = { { "", 0 }, { "secret", 6 }, { ":secret", 7 }, { "secret:", 7 },
		{ "a:secret\nb:secret", 17 }, { "a:sec\0ret", 9 } };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = ERR_INIT;
		char *credentials = NULL;
		const char *file = write_file(bad[i].text, bad[i].len, 0600);
		cr_assert_eq(registry_auth_file_read(&credentials, file, &err), BERTH_FAILED);
		cr_assert(strstr(err.msg, "user:password"), "%s", err.msg);
		cr_assert_not(strstr(err.msg, "secret"), "%s", err.msg);
		unlink(file);
	}
	struct err err = ERR_INIT;
	char *credentials = NULL;
	cr_assert_eq(registry_auth_file_read(&credentials, "/nowhere/at-all", &err), BERTH_FAILED);
	err_clear(&err);
	cr_assert_eq(registry_auth_file_read(&credentials, "/tmp", &err), BERTH_FAILED);
	err_clear(&err);
	cr_assert_eq(registry_auth_file_read(&credentials, NULL, &err), BERTH_FAILED);
}

Test(registry_auth_file, holds_less_than_1024_bytes)
{
	char text[2048] = "joe:";
	memset(text + 4, 'x', sizeof(text) - 4);
	static const size_t lengths[] = { 1022, 1023, 1024, 1025, 2048 };
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		struct err err = ERR_INIT;
		char *credentials = NULL;
		const char *file = write_file(text, lengths[i], 0600);
		int code = registry_auth_file_read(&credentials, file, &err);
		cr_assert_eq(code, lengths[i] < 1024 ? 0 : BERTH_FAILED, "%zu", lengths[i]);
		cr_assert(!credentials || strlen(credentials) == lengths[i]);
		free(credentials);
		unlink(file);
	}
}
