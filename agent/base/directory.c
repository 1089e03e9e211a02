#include "agent/base/directory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"

static const mode_t MODE = 0755;

static int make_one(const char *path, struct err *err)
{
	if (mkdir(path, MODE) == 0) {
		/* The umask may have taken bits without which clients cannot pass. */
		return chmod(path, MODE) == 0 ? 0
					      : err_set_errno(err, BERTH_FAILED, errno,
							"cannot set the mode of %s", path);
	}
	return errno == EEXIST
		? 0
		: err_set_errno(err, BERTH_FAILED, errno, "cannot make the directory %s", path);
}

static int make_last(const char *path, const struct directory_owner *owner, struct err *err)
{
	bool missing = access(path, F_OK) != 0;
	int code = make_one(path, err);
	if (code == 0 && missing && owner && lchown(path, owner->uid, owner->gid)) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot give %s to user %u", path,
			(unsigned)owner->uid);
	}
	return code;
}

/* Makes the directories that the first `len` bytes of `path` name, from the top down. */
static int make(const char *path, size_t len, const struct directory_owner *owner, struct err *err)
{
	char *copy = allocate_text(path);
	int code = 0;
	copy[len] = '\0';
	for (char *slash = copy + 1; code == 0 && len > 0; slash++) {
		slash += strcspn(slash, "/");
		bool last = *slash == '\0';
		*slash = '\0';
		if (last) {
			code = make_last(copy, owner, err);
			break;
		}
		code = make_one(copy, err);
		*slash = '/';
	}
	free(copy);
	return code;
}

int directory_make(const char *path, const struct directory_owner *owner, struct err *err)
{
	return make(path, strlen(path), owner, err);
}

int directory_make_for(const char *path, const struct directory_owner *owner, struct err *err)
{
	const char *slash = strrchr(path, '/');
	return slash && slash > path ? make(path, (size_t)(slash - path), owner, err) : 0;
}
