#include "agent/base/file_work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "lib/base/write_all.h"

/* Only root may give a file away; nothing is to be done when it is right already. */
static int set_owner(int fd, const struct file_owner *owner)
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

static int fill(int fd, const struct file_work *work, struct err *err)
{
	const char *name = work->temporary;
	if ((work->head && write_all(fd, work->head, strlen(work->head)) < 0) ||
		write_all(fd, work->data, work->len) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot write %s", name);
	}
	if (set_owner(fd, &work->owner) < 0) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "cannot set owner and mode of %s", name);
	}
	if (!work->passing && fsync(fd) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot save %s", name);
	}
	return 0;
}

static int prepare(const struct file_work *work, struct err *err)
{
	unlink(work->temporary);
	int fd = open(work->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot make %s", work->temporary);
	}
	int code = fill(fd, work, err);
	if (close(fd) && !code) {
		code = err_set_errno(err, BERTH_FAILED, errno, "cannot write %s", work->temporary);
	}
	if (code) {
		unlink(work->temporary);
	}
	return code;
}

/* Some folders may not be opened by those who may change them, and not every file system syncs. */
static bool syncs_no_folder(int error)
{
	return error == EACCES || error == EPERM || error == EINVAL || error == EROFS;
}

/* The change of a name in the folder must last, too. */
static int sync_folder(const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	char *folder = allocate_bytes(path, (size_t)(slash + 1 - path));
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int code = 0;
	if ((fd < 0 || fsync(fd) < 0) && !syncs_no_folder(errno)) {
		code = err_set_errno(err, BERTH_FAILED, errno, "cannot save the folder %s", folder);
	}
	if (fd >= 0) {
		close(fd);
	}
	free(folder);
	return code;
}

static int commit(const struct file_work *work, struct err *err)
{
	if (rename(work->temporary, work->path) < 0) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "cannot put %s in place", work->path);
	}
	return work->passing ? 0 : sync_folder(work->path, err);
}

static int replace(const struct file_work *work, struct err *err)
{
	if (prepare(work, err) || commit(work, err)) {
		unlink(work->temporary);
	}
	return err->code;
}

static int remove_file(const struct file_work *work, struct err *err)
{
	if (unlink(work->path) < 0 && errno != ENOENT) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot remove %s", work->path);
	}
	return sync_folder(work->path, err);
}

int file_work_do(const struct file_work *work, struct err *err)
{
	switch (work->step) {
	case FILE_PREPARE:
		return prepare(work, err);
	case FILE_COMMIT:
		return commit(work, err);
	case FILE_REPLACE:
		return replace(work, err);
	case FILE_REMOVE:
		break;
	}
	return remove_file(work, err);
}

void file_work_finish(struct file_work *work)
{
	free(work->temporary);
	free(work->path);
	free(work->head);
	free(work->data);
	*work = (struct file_work){ 0 };
}
