#include "lib/registry/acl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/base/buffer.h"
#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/utf8.h"
#include "lib/registry/digest.h"

enum { MAX_CREDENTIALS_BYTES = 1024, MAX_WARNING_BYTES = 4096 };

static const char users_prefix[] = "/users/";

static void entries_free(struct registry_acl *acl)
{
	for (size_t i = 0; i < acl->count; i++) {
		free(acl->entries[i].scheme);
		free(acl->entries[i].id);
	}
	free(acl->entries);
	*acl = (struct registry_acl){ 0 };
}

/* Adds scheme:id+suffix. 0, or -1 without memory. */
static int entry_add(struct registry_acl *acl, const char *scheme, const char *id,
	const char *suffix, unsigned permissions)
{
	struct registry_acl_entry *entries = realloc(
		acl->entries, (acl->count + 1) * sizeof(*entries));
	if (!entries) {
		return -1;
	}
	acl->entries = entries;
	struct registry_acl_entry *entry = &entries[acl->count];
	*entry = (struct registry_acl_entry){ .permissions = permissions };
	entry->scheme = strdup(scheme);
	if (!entry->scheme || asprintf(&entry->id, "%s%s", id, suffix) < 0) {
		free(entry->scheme);
		return -1;
	}
	acl->count++;
	return 0;
}

static int no_memory(struct err *err)
{
	return err_set(err, BERTH_FAILED, "no memory for an access control list");
}

/* One of the system accounts, "scheme:id" (changed here). */
static int account_add(struct registry_acl *acl, char *account, const char *realm,
	struct buffer *warning, struct err *err)
{
	char *id = strchr(account, ':');
	if (!id || id == account || id[1] == '\0') {
		return err_set(err, BERTH_FAILED,
			"system account \"%s\" is malformed; allowed is "
			"scheme:id, such as sasl:yarn@",
			account);
	}
	*id++ = '\0';
	bool needs_realm = id[strlen(id) - 1] == '@';
	if (needs_realm && !*realm) {
		/* As many of them as there is room for, but not none. */
		buffer_printf(warning, "%s %s:%s", warning->len ? "," : "", account, id);
		return warning->len ? 0 : no_memory(err);
	}
	if (entry_add(acl, account, id, needs_realm ? realm : "", REGISTRY_PERMISSION_ALL)) {
		return no_memory(err);
	}
	return 0;
}

static int accounts_add(struct registry_acl *acl, const char *list, const char *realm,
	struct buffer *warning, struct err *err)
{
	char *accounts = strdup(list);
	if (!accounts) {
		return no_memory(err);
	}
	char *rest = accounts;
	char *account;
	while ((account = strsep(&rest, ",")) != NULL) {
		account += strspn(account, " \t");
		account[strcspn(account, " \t")] = '\0';
		if (*account) {
			if (account_add(acl, account, realm, warning, err)) {
				break;
			}
		}
	}
	free(accounts);
	return err->code;
}

static int warn_of_accessors(char **ret_warning, struct err *err)
{
	*ret_warning = strdup("write_accessors do nothing: without secure everybody may write");
	return *ret_warning ? 0 : no_memory(err);
}

int registry_acl_policy_init(struct registry_acl_policy *policy,
	const struct registry_options *options, char **ret_warning, struct err *err)
{
	policy->home_permissions = REGISTRY_PERMISSION_CREATE | REGISTRY_PERMISSION_READ |
		REGISTRY_PERMISSION_DELETE | (options->home_write ? REGISTRY_PERMISSION_WRITE : 0);
	policy->realm = strdup(options->realm);
	if (!policy->realm) {
		return no_memory(err);
	}
	if (!options->secure) {
		return *options->write_accessors ? warn_of_accessors(ret_warning, err) : 0;
	}
	struct buffer warning;
	buffer_init(&warning, MAX_WARNING_BYTES);
	/* The server puts the session's identities in the place of scheme "auth". */
	if (entry_add(&policy->fixed, "world", "anyone", "", REGISTRY_PERMISSION_READ) ||
		entry_add(&policy->fixed, "auth", "", "", REGISTRY_PERMISSION_ALL)) {
		no_memory(err);
	} else if (!accounts_add(&policy->fixed, options->system_accounts, options->realm, &warning,
			   err) &&
		!accounts_add(&policy->accessors, options->write_accessors, options->realm,
			&warning, err) &&
		warning.len) {
		if (asprintf(ret_warning,
			    "no realm is set: accounts that end in @ get no rights:%s",
			    buffer_text(&warning)) < 0) {
			*ret_warning = NULL;
			no_memory(err);
		}
	}
	buffer_finish(&warning);
	return err->code;
}

void registry_acl_policy_finish(struct registry_acl_policy *policy)
{
	entries_free(&policy->fixed);
	entries_free(&policy->accessors);
	free(policy->realm);
}

static int append_all(struct registry_acl *acl, const struct registry_acl *from)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct registry_acl_entry *entry = &from->entries[i];
		if (entry_add(acl, entry->scheme, entry->id, "", entry->permissions)) {
			return -1;
		}
	}
	return 0;
}

/* /users/{user} is that user's home; elsewhere nothing is added. */
static int home_add(
	struct registry_acl *acl, const struct registry_acl_policy *policy, const char *path)
{
	const char *realm = policy->realm;
	size_t prefix_len = sizeof(users_prefix) - 1;
	if (!*realm || strncmp(path, users_prefix, prefix_len) != 0 || path_depth(path) != 2) {
		return 0;
	}
	char user[LIMIT_PATH_ELEMENT_BYTES + 2];
	snprintf(user, sizeof(user), "%s@", path + prefix_len);
	return entry_add(acl, "sasl", user, realm, policy->home_permissions);
}

/* "joe" and "sasl:joe@" do, "digest:joe:HASH" and "joe@REALM" do not. */
static bool owner_lacks_realm(const char *owner)
{
	return owner[strlen(owner) - 1] == '@' || !strpbrk(owner, ":@");
}

int registry_acl_check_owner(
	const struct registry_acl_policy *policy, const char *owner, struct err *err)
{
	const char *colon = strchr(owner, ':');
	if (policy->fixed.count == 0) {
		return err_set(err, BERTH_FAILED,
			"owner \"%s\" gets no rights without secure: everybody may write then",
			owner);
	}
	if (!*owner || colon == owner || (colon && colon[1] == '\0')) {
		return err_set(err, BERTH_FAILED,
			"owner \"%s\" is malformed; allowed is a user's name, or scheme:id", owner);
	}
	if (owner_lacks_realm(owner) && !*policy->realm) {
		return err_set(err, BERTH_FAILED,
			"owner \"%s\" needs a realm; without one scheme:id is allowed, such as "
			"digest:joe:HASH",
			owner);
	}
	return 0;
}

static int owner_add(
	struct registry_acl *acl, const struct registry_acl_policy *policy, const char *owner)
{
	const char *colon = strchr(owner, ':');
	const char *id = colon ? colon + 1 : owner;
	char *scheme = colon ? strndup(owner, (size_t)(colon - owner)) : strdup("sasl");
	char *suffix = NULL;
	int ret = -1;
	if (scheme &&
		asprintf(&suffix, "%s%s", strpbrk(owner, ":@") ? "" : "@",
			owner_lacks_realm(owner) ? policy->realm : "") >= 0) {
		ret = entry_add(acl, scheme, id, suffix, policy->home_permissions);
		free(suffix);
	}
	free(scheme);
	if (ret == 0) {
		acl->entries[acl->count - 1].required = true;
	}
	return ret;
}

struct registry_acl *registry_acl_for(
	const struct registry_acl_policy *policy, const char *path, const char *owner)
{
	struct registry_acl *acl = calloc(1, sizeof(*acl));
	if (!acl || policy->fixed.count == 0) {
		return acl;
	}
	if (append_all(acl, &policy->fixed) || append_all(acl, &policy->accessors) ||
		(owner ? owner_add(acl, policy, owner) : home_add(acl, policy, path))) {
		registry_acl_free(acl);
		return NULL;
	}
	return acl;
}

void registry_acl_free(struct registry_acl *acl)
{
	if (acl) {
		entries_free(acl);
		free(acl);
	}
}

int registry_acl_add_accessor(
	struct registry_acl_policy *policy, const char *user, const char *password, struct err *err)
{
	if (!*user || strchr(user, ':')) {
		return err_set(err, BERTH_FAILED,
			"\"%s\" is not a user name for a digest: it is empty or holds a colon",
			user);
	}
	char digest[REGISTRY_DIGEST_SIZE];
	char *id = NULL;
	if (registry_digest(digest, user, password) || asprintf(&id, "%s:%s", user, digest) < 0) {
		return no_memory(err);
	}
	int ret = entry_add(&policy->accessors, "digest", id, "", REGISTRY_PERMISSION_ALL);
	free(id);
	return ret ? no_memory(err) : 0;
}

void registry_acl_clear_accessors(struct registry_acl_policy *policy)
{
	entries_free(&policy->accessors);
}

/* A file that holds a secret, and the option that names it. */
struct secret_file {
	const char *option;
	const char *path;
};

/*
 * No other user can use the file, or it is a secret on a read-only mount (Docker, Kubernetes,
 * systemd).
 */
static int check_mode(int fd, mode_t mode, const struct secret_file *file, struct err *err)
{
	if ((mode & (S_IRWXG | S_IRWXO)) == 0) {
		return 0;
	}
	if (mode & (S_IWGRP | S_IWOTH)) {
		return err_set(err, BERTH_FAILED,
			"%s %s has mode %04o: group or others may write it", file->option,
			file->path, (unsigned)mode & 07777U);
	}
	struct statvfs mount;
	if (fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_RDONLY)) {
		return 0;
	}
	return err_set(err, BERTH_FAILED,
		"%s %s has mode %04o: group or others may read it; allowed is 0600, or a "
		"file on a mount that is read-only",
		file->option, file->path, (unsigned)mode & 07777U);
}

static int check_file(int fd, const struct secret_file *file, struct err *err)
{
	struct stat stat;
	if (fstat(fd, &stat) != 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "%s %s", file->option, file->path);
	}
	if (!S_ISREG(stat.st_mode)) {
		return err_set(
			err, BERTH_FAILED, "%s %s is not a regular file", file->option, file->path);
	}
	return check_mode(fd, stat.st_mode, file, err);
}

/*
 * The file's one line, without its end and a byte order mark, which editors put there; "" for
 * another text.
 */
static int read_text(int fd, const struct secret_file *file, char text[MAX_CREDENTIALS_BYTES + 1],
	struct err *err)
{
	ssize_t len = read(fd, text, MAX_CREDENTIALS_BYTES);
	if (len < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "%s %s", file->option, file->path);
	}
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
		len--;
	}
	text[len] = '\0';
	if (len == MAX_CREDENTIALS_BYTES || strlen(text) != (size_t)len || strpbrk(text, "\r\n")) {
		text[0] = '\0';
	}
	const char *line = utf8_skip_mark(text);
	memmove(text, line, strlen(line) + 1);
	return 0;
}

/* `text` is the caller's to wipe. */
static int read_secret(
	const struct secret_file *file, char text[MAX_CREDENTIALS_BYTES + 1], struct err *err)
{
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "%s %s", file->option, file->path);
	}
	if (check_file(fd, file, err) == 0) {
		(void)read_text(fd, file, text, err);
	}
	close(fd);
	return err->code;
}

static int copy_secret(
	char **ret_secret, const struct secret_file *file, char *text, struct err *err)
{
	char *secret = strdup(text);
	if (!secret) {
		return err_set(err, BERTH_FAILED, "no memory for %s %s", file->option, file->path);
	}
	*ret_secret = secret;
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* 0, or `err` for a text that the server would take for another user, or another password. */
static int check_credentials(const char *text, const char *path, struct err *err)
{
	const char *colon = strchr(text, ':');
	if (!colon || colon == text || colon[1] == '\0') {
		return err_set(err, BERTH_FAILED,
			"auth_file %s: allowed is one line user:password of less than %d bytes",
			path, MAX_CREDENTIALS_BYTES);
	}
	if (is_blank(text[0]) || is_blank(colon[-1]) || is_blank(colon[1]) ||
		is_blank(text[strlen(text) - 1])) {
		return err_set(err, BERTH_FAILED,
			"auth_file %s: a blank around the user or around the password would be a "
			"part of it",
			path);
	}
	return 0;
}

int registry_auth_file_read(char **ret_credentials, const char *path, struct err *err)
{
	const struct secret_file file = { "auth_file", path };
	char text[MAX_CREDENTIALS_BYTES + 1] = "";
	if (!path || !*path) {
		return err_set(err, BERTH_FAILED,
			"auth = digest needs auth_file, a file of mode 0600 with user:password");
	}
	if (read_secret(&file, text, err) == 0 && check_credentials(text, path, err) == 0) {
		(void)copy_secret(ret_credentials, &file, text, err);
	}
	explicit_bzero(text, sizeof(text));
	return err->code;
}

int registry_passphrase_read(char **ret_passphrase, const char *path, struct err *err)
{
	const struct secret_file file = { "tls_passphrase_file", path };
	char text[MAX_CREDENTIALS_BYTES + 1] = "";
	if (read_secret(&file, text, err) == 0) {
		if (!*text || strchr(text, ',')) {
			err_set(err, BERTH_FAILED,
				"tls_passphrase_file %s: allowed is one line of less than %d bytes "
				"without a comma, at which the client library would cut it",
				path, MAX_CREDENTIALS_BYTES);
		} else {
			(void)copy_secret(ret_passphrase, &file, text, err);
		}
	}
	explicit_bzero(text, sizeof(text));
	return err->code;
}

int registry_auth_file_check(const char *file, struct err *err)
{
	char *credentials = NULL;
	int code = registry_auth_file_read(&credentials, file, err);
	if (credentials) {
		explicit_bzero(credentials, strlen(credentials));
		free(credentials);
	}
	return code;
}
