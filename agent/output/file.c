#include "agent/output/file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"

enum { DEFAULT_MODE = 0644 };

struct file_owner output_file_owner(const char *path, unsigned mode, uid_t user, gid_t group)
{
	struct stat status;
	struct file_owner owner = { mode, user, group };
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

static bool has_owner(const struct stat *status, const struct file_owner *owner)
{
	return (status->st_mode & 07777) == owner->mode &&
		(owner->user == (uid_t)-1 || owner->user == status->st_uid) &&
		(owner->group == (gid_t)-1 || owner->group == status->st_gid);
}

bool output_file_equals(
	const char *path, const void *data, size_t len, const struct file_owner *owner)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0) {
		return false;
	}
	const char *expected = data;
	size_t at = 0;
	bool equal = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		(size_t)status.st_size == len && (!owner || has_owner(&status, owner));
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

char *output_file_temporary(const char *path, const char *block)
{
	const char *slash = strrchr(path, '/');
	int folder_len = (int)(slash + 1 - path);
	return allocate_format("%.*s.%s%s%s.berth-new", folder_len, path, path + folder_len,
		*block ? "." : "", block);
}
