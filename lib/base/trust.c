#include "lib/base/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { LINKS_MAX = 40 }; /* as the kernel */

static const struct trust_rule own_rule = { .user = TRUST_OWN_USER };

static uid_t user_of(const struct trust_rule *rule)
{
	return rule->user == TRUST_OWN_USER ? geteuid() : rule->user;
}

static bool is_trusted(const struct trust_rule *rule, uid_t uid)
{
	struct stat root;
	return uid == 0 || uid == user_of(rule) || (stat("/", &root) == 0 && uid == root.st_uid);
}

/*
 * A group counts as the agent's own when it is the agent's first one: service users have one of
 * their own.
 */
static bool writable_by_strangers(const struct stat *status)
{
	bool by_group = (status->st_mode & S_IWGRP) && status->st_gid != 0 &&
		status->st_gid != getegid();
	return by_group || (status->st_mode & S_IWOTH);
}

static int refuse_owner(const struct trust_rule *rule, const struct stat *status, const char *where,
	struct err *err)
{
	uid_t user = user_of(rule);
	if (user == 0) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS,
			"it belongs to user %u, and not to root%s", (unsigned)status->st_uid,
			where);
	}
	return err_set(err, BERTH_NO_PATH_PERMISSIONS,
		"it belongs to user %u, and not to root or the agent's user %u%s",
		(unsigned)status->st_uid, (unsigned)user, where);
}

int trust_check_status(const struct trust_rule *rule, const struct stat *status, struct err *err)
{
	if (!is_trusted(rule, status->st_uid)) {
		return refuse_owner(rule, status, "", err);
	}
	if (writable_by_strangers(status)) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS, "others can write to it (mode %04o)",
			(unsigned)status->st_mode & 07777);
	}
	return 0;
}

int trust_check_file(const struct stat *status, struct err *err)
{
	return trust_check_status(&own_rule, status, err);
}

bool trust_is_read_only(int fd)
{
	struct statvfs file_system;
	return fstatvfs(fd, &file_system) == 0 && (file_system.f_flag & ST_RDONLY);
}

/* `status` is of an element of a directory that strangers may write to, if it is sticky. */
static int check_element(
	const struct trust_rule *rule, const struct stat *status, bool in_shared, struct err *err)
{
	if (in_shared && !is_trusted(rule, status->st_uid)) {
		return refuse_owner(rule, status, ", in a directory that others can write to", err);
	}
	if (!S_ISDIR(status->st_mode)) {
		return 0;
	}
	bool shared = (status->st_mode & S_ISVTX) && is_trusted(rule, status->st_uid);
	return shared ? 0 : trust_check_status(rule, status, err);
}

/* A path under examination: `left` is the rest of the path, from the directory `fd`. */
struct walk {
	const struct trust_rule *rule;
	int fd;
	bool shared; /* the directory is sticky, and strangers may write to it */
	int links;
	char left[PATH_MAX];
};

static bool is_beyond_doubt(const struct walk *walk, int fd)
{
	return walk->rule->read_only_is_good && trust_is_read_only(fd);
}

static int enter_root(struct walk *walk, struct err *err)
{
	struct stat status;
	if (walk->fd >= 0) {
		close(walk->fd);
	}
	walk->shared = false;
	walk->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (walk->fd < 0 || fstat(walk->fd, &status)) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot open it");
	}
	return is_beyond_doubt(walk, walk->fd) ? 0 : trust_check_status(walk->rule, &status, err);
}

static int follow_link(struct walk *walk, const char *name, const char *rest, struct err *err)
{
	char target[PATH_MAX];
	char joined[sizeof(walk->left)];
	ssize_t len = readlinkat(walk->fd, name, target, sizeof(target) - 1);
	if (len < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot read the link");
	}
	target[len] = '\0';
	int joined_len = snprintf(joined, sizeof(joined), "%s/%s", target, rest);
	if (joined_len < 0 || (size_t)joined_len >= sizeof(joined) || ++walk->links > LINKS_MAX) {
		return err_set_errno(err, BERTH_FAILED, ELOOP, "cannot follow it");
	}
	strcpy(walk->left, joined);
	return *target == '/' ? enter_root(walk, err) : 0;
}

static int enter(struct walk *walk, const char *name, const char *rest, struct err *err)
{
	struct stat status;
	int fd = openat(walk->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot open it");
	}
	if (fstat(fd, &status)) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot look at it");
		close(fd);
		return err->code;
	}
	bool good = is_beyond_doubt(walk, fd);
	if (!good && check_element(walk->rule, &status, walk->shared, err)) {
		close(fd);
		return err->code;
	}
	if (S_ISLNK(status.st_mode)) {
		close(fd);
		return follow_link(walk, name, rest, err);
	}
	close(walk->fd);
	walk->fd = fd;
	walk->shared = !good && writable_by_strangers(&status);
	memmove(walk->left, rest, strlen(rest) + 1);
	return 0;
}

static int step(struct walk *walk, struct err *err)
{
	const char *begin = walk->left + strspn(walk->left, "/");
	size_t len = strcspn(begin, "/");
	char name[NAME_MAX + 1];
	if (len > NAME_MAX) {
		return err_set_errno(err, BERTH_FAILED, ENAMETOOLONG, "cannot open it");
	}
	if (len == 0) {
		walk->left[0] = '\0';
		return 0;
	}
	memcpy(name, begin, len);
	name[len] = '\0';
	return enter(walk, name, begin + len, err) ? err_wrap(err, "%s", name) : 0;
}

int trust_check_directory(const char *path, struct err *err)
{
	return trust_check_way(&own_rule, path, err);
}

int trust_check_way(const struct trust_rule *rule, const char *path, struct err *err)
{
	struct walk walk = { .rule = rule, .fd = -1 };
	int code = 0;
	if (strlen(path) >= sizeof(walk.left)) {
		return err_set_errno(err, BERTH_FAILED, ENAMETOOLONG, "cannot follow the path");
	}
	strcpy(walk.left, path);
	if (*path == '/') {
		code = enter_root(&walk, err);
	} else {
		walk.fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	while (code == 0 && *walk.left) {
		code = step(&walk, err);
	}
	if (walk.fd >= 0) {
		close(walk.fd);
	}
	return code ? err_wrap(err, "%s", path) : 0;
}
