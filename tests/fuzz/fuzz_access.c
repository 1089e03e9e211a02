/*
 * Accounts of the configuration, users in paths, and the file with credentials: a list of accounts
 * either becomes entries with a scheme and an id, or is refused with a reason.
 * The input's lines: system accounts, write accessors, realm, path, owner; the whole is the file.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/path.h"
#include "lib/registry/acl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_list(const struct registry_acl *acl, bool secure)
{
	assert(acl && (acl->count > 0) == secure);
	for (size_t i = 0; i < acl->count; i++) {
		const struct registry_acl_entry *entry = &acl->entries[i];
		assert(entry->scheme[0] && entry->id && entry->permissions);
		assert(i < 2 || entry->id[0]);
	}
}

static void check_policy(struct registry_acl_policy *policy, bool secure, const char *path,
	const char *owner, const char *user)
{
	struct err err = ERR_INIT;
	if (path_check(path, strlen(path), NULL) == 0) {
		struct registry_acl *acl = registry_acl_for(policy, path, NULL);
		check_list(acl, secure);
		registry_acl_free(acl);
	}
	if (registry_acl_check_owner(policy, owner, &err) == 0) {
		struct registry_acl *acl = registry_acl_for(policy, "/users/joe", owner);
		check_list(acl, secure);
		assert(acl->entries[acl->count - 1].required);
		registry_acl_free(acl);
	} else {
		assert(err.code == BERTH_FAILED && err.msg[0]);
	}
	size_t before = policy->accessors.count;
	err_clear(&err);
	int code = registry_acl_add_accessor(policy, user, owner, &err);
	assert(code == err.code && policy->accessors.count == before + (code == 0));
	registry_acl_clear_accessors(policy);
	assert(policy->accessors.count == 0);
}

static void check_options(char *text, bool secure, bool home_write)
{
	const char *lines[5];
	for (size_t i = 0; i < 5; i++) {
		lines[i] = text ? strsep(&text, "\n") : "";
	}
	const struct registry_options options = { .secure = secure,
		.home_write = home_write,
		.system_accounts = lines[0],
		.write_accessors = lines[1],
		.realm = lines[2] };
	struct registry_acl_policy policy = { .realm = NULL };
	struct err err = ERR_INIT;
	char *warning = NULL;
	int code = registry_acl_policy_init(&policy, &options, &warning, &err);
	assert(code == err.code && (code == 0) == !err.msg[0]);
	if (code == 0) {
		check_policy(&policy, secure, lines[3], lines[4], lines[0]);
	}
	registry_acl_policy_finish(&policy);
	free(warning);
}

static void check_file(const uint8_t *data, size_t len, mode_t mode)
{
	struct err err = ERR_INIT;
	char path[64];
	char *credentials = NULL;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	assert(fd >= 0 && write(fd, data, len) == (ssize_t)len && fchmod(fd, mode) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int code = registry_auth_file_read(&credentials, path, &err);
	assert(code == err.code && (code == 0) == (credentials != NULL));
	if (credentials) {
		const char *colon = strchr(credentials, ':');
		assert(mode == 0600 && colon && colon != credentials && colon[1]);
		assert(!strpbrk(credentials, "\r\n"));
	}
	free(credentials);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const mode_t modes[] = { 0600, 0640, 0620, 0600 };
	if (len == 0) {
		return 0;
	}
	char *text = strndup((const char *)data + 1, len - 1);
	assert(text);
	check_options(text, data[0] & 1, data[0] & 2);
	check_file(data + 1, len - 1, modes[data[0] >> 2 & 3]);
	free(text);
	return 0;
}
