#include "agent/base/directory.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/trust.h"

static const mode_t MODE = 0755;

/*
 * True when it made it. The umask may take bits without which clients cannot pass; a chmod() could
 * meet a link that has taken the directory's place.
 */
static bool make_one(const char *path, struct err *err)
{
	mode_t before = umask(0);
	bool made = mkdir(path, MODE) == 0;
	int error = errno;
	umask(before);
	if (!made && error != EEXIST) {
		err_set_errno(err, BERTH_FAILED, error, "cannot make the directory %s", path);
	}
	return made;
}

static void make_for(
	const char *path, const struct directory_owner *owner, bool last, struct err *err)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (access(path, F_OK) == 0) {
		return;
	}
	if (!slash || strlen(path) >= sizeof(parent)) {
		err_set(err, BERTH_FAILED, "%s is not an absolute path", path);
		return;
	}
	size_t len = slash == path ? 1 : (size_t)(slash - path);
	memcpy(parent, path, len);
	parent[len] = '\0';
	if (trust_check_directory(parent, err) == 0 && make_one(path, err) && last &&
		lchown(path, owner->uid, owner->gid)) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot give %s to user %u", path,
			(unsigned)owner->uid);
	}
}

/* Makes the directories that the first `len` bytes of `path` name, from the top down. */
static int make(const char *path, size_t len, const struct directory_owner *owner, struct err *err)
{
	char *copy = allocate_text(path);
	copy[len] = '\0';
	for (char *slash = copy + 1; err->code == 0 && len > 0; slash++) {
		slash += strcspn(slash, "/");
		bool last = *slash == '\0';
		*slash = '\0';
		if (owner) {
			make_for(copy, owner, last, err);
		} else {
			(void)make_one(copy, err);
		}
		if (last) {
			break;
		}
		*slash = '/';
	}
	free(copy);
	return err->code;
}

int directory_make(const char *path, const struct directory_owner *owner, struct err *err)
{
	return make(path, strlen(path), owner, err);
}

int directory_make_for(const char *path, const struct directory_owner *owner, struct err *err)
{
	const char *slash = strrchr(path, '/');
	return slash ? make(path, (size_t)(slash - path), owner, err) : 0;
}
