#include "agent/output/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/write_all.h"

enum { DEFAULT_MODE = 0644 };

struct output_file_owner output_file_owner(const char *path, unsigned mode, uid_t user, gid_t group)
{
	struct stat status;
	struct output_file_owner owner = { mode, user, group };
	bool exists = stat(path, &status) == 0 && S_ISREG(status.st_mode);
	if (owner.mode == 0) {
		/* Rights to read and write alone: what runs as its owner comes from no registry. */
		owner.mode = exists ? status.st_mode & 0777 : DEFAULT_MODE;
	}
	if (owner.user == (uid_t)-1 && exists) {
		owner.user = status.st_uid;
	}
	if (owner.group == (gid_t)-1 && exists) {
		owner.group = status.st_gid;
	}
	return owner;
}

static bool has_owner(const struct stat *status, const struct output_file_owner *owner)
{
	return (status->st_mode & 07777) == owner->mode &&
		(owner->user == (uid_t)-1 || owner->user == status->st_uid) &&
		(owner->group == (gid_t)-1 || owner->group == status->st_gid);
}

bool output_file_equals(
	const char *path, const void *data, size_t len, const struct output_file_owner *owner)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0) {
		return false;
	}
	const char *expected = data;
	size_t at = 0;
	bool equal = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		(size_t)status.st_size == len && has_owner(&status, owner);
	while (equal && at < len) {
		char bytes[8192];
		ssize_t part = read(fd, bytes, sizeof(bytes));
		equal = part > 0 && (size_t)part <= len - at &&
			memcmp(bytes, expected + at, (size_t)part) == 0;
		at += part > 0 ? (size_t)part : 0;
	}
	close(fd);
	return equal;
}

static char *temporary_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	int folder_len = (int)(slash + 1 - path);
	return allocate_format("%.*s.%s.berth-new", folder_len, path, path + folder_len);
}

/* Only root may give a file away; nothing is to be done when it is right already. */
static int set_owner(int fd, const struct output_file_owner *owner)
{
	struct stat status;
	if (fstat(fd, &status) < 0) {
		return -1;
	}
	bool same = (owner->user == (uid_t)-1 || owner->user == status.st_uid) &&
		(owner->group == (gid_t)-1 || owner->group == status.st_gid);
	if (!same && fchown(fd, owner->user, owner->group) < 0) {
		return -1;
	}
	return fchmod(fd, owner->mode);
}

static int fill(const char *name, int fd, const void *data, size_t len,
	const struct output_file_owner *owner, struct err *err)
{
	if (write_all(fd, data, len) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot write %s", name);
	}
	if (set_owner(fd, owner) < 0) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "cannot set owner and mode of %s", name);
	}
	if (fsync(fd) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot save %s", name);
	}
	return 0;
}

int output_file_prepare(char **ret_temporary, const char *path, const void *data, size_t len,
	const struct output_file_owner *owner, struct err *err)
{
	char *temporary = temporary_name(path);
	unlink(temporary);
	int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot make %s", temporary);
		free(temporary);
		return err->code;
	}
	int code = fill(temporary, fd, data, len, owner, err);
	close(fd);
	if (code) {
		unlink(temporary);
		free(temporary);
		return code;
	}
	*ret_temporary = temporary;
	return 0;
}

/* The move itself must last, too. */
static void sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = allocate_bytes(path, (size_t)(slash + 1 - path));
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(folder);
	if (fd >= 0) {
		(void)fsync(fd);
		close(fd);
	}
}

int output_file_commit(const char *temporary, const char *path, struct err *err)
{
	if (rename(temporary, path) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot put %s in place", path);
	}
	sync_folder(path);
	return 0;
}

void output_file_discard(const char *temporary)
{
	unlink(temporary);
}
