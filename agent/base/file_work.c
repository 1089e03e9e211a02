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
#include "agent/base/hosts_block.h"
#include "lib/base/write_all.h"

enum { FILE_BYTES = 32 << 20, READ_BYTES = 65536 };

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

/* ---- the content of files ---- */

static char *kept_name(const struct file_work *work)
{
	return allocate_format("%s.kept", work->temporary);
}

static struct file_version version_of(const struct stat *status)
{
	return (struct file_version){ true, status->st_ino, status->st_size, status->st_mtim };
}

static bool is_version(const char *path, const struct file_version *version)
{
	struct stat status;
	if (lstat(path, &status) < 0) {
		return !version->exists;
	}
	return version->exists && status.st_ino == version->inode &&
		status.st_size == version->size &&
		status.st_mtim.tv_sec == version->changed.tv_sec &&
		status.st_mtim.tv_nsec == version->changed.tv_nsec;
}

static int read_open_file(int fd, const char *path, struct buffer *out,
	struct file_version *ret_version, struct err *err)
{
	struct stat status;
	if (fstat(fd, &status) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot read %s", path);
	}
	if (!S_ISREG(status.st_mode)) {
		return err_set(err, BERTH_FAILED, "%s is not a regular file", path);
	}
	for (ssize_t part = 1; part > 0;) {
		char *room = buffer_reserve(out, READ_BYTES);
		if (!room) {
			return err_set(
				err, BERTH_FAILED, "%s has more than %zu bytes", path, out->max);
		}
		part = read(fd, room, READ_BYTES);
		if (part < 0) {
			return err_set_errno(err, BERTH_FAILED, errno, "cannot read %s", path);
		}
		buffer_added(out, (size_t)part);
	}
	*ret_version = version_of(&status);
	return 0;
}

/* An absent file is not an error. */
static int read_file(
	const char *path, struct buffer *out, struct file_version *ret_version, struct err *err)
{
	*ret_version = (struct file_version){ .exists = false };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT) {
		return 0;
	}
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot read %s", path);
	}
	int code = read_open_file(fd, path, out, ret_version, err);
	close(fd);
	return code;
}

/* Whether `now` is what is there when `from` is partly written over by `to`. */
static bool is_between(const struct buffer *now, const struct buffer *from, const struct buffer *to)
{
	size_t longest = from->len > to->len ? from->len : to->len;
	size_t shortest = from->len < to->len ? from->len : to->len;
	if (now->len > longest || now->len < shortest) {
		return false;
	}
	for (size_t i = 0; i < now->len; i++) {
		char byte = now->data[i];
		if ((i >= from->len || byte != from->data[i]) &&
			(i >= to->len || byte != to->data[i])) {
			return false;
		}
	}
	return true;
}

/*
 * The new file of a write in place that a crash has broken off: true when the file in place, whose
 * content is `current`, is still what the crash has left.
 */
static bool find_broken_off(
	const struct file_work *work, const struct buffer *current, struct buffer *to)
{
	struct buffer from;
	struct file_version from_version;
	struct file_version to_version;
	struct err unused = ERR_INIT;
	char *kept = kept_name(work);
	buffer_init(&from, FILE_BYTES);
	bool found = read_file(kept, &from, &from_version, &unused) == 0 && from_version.exists &&
		read_file(work->temporary, to, &to_version, &unused) == 0 && to_version.exists &&
		is_between(current, &from, to);
	buffer_finish(&from);
	free(kept);
	return found;
}

int file_work_content(const struct file_work *work, struct buffer *out,
	struct file_version *ret_version, struct err *err)
{
	struct buffer current;
	struct buffer whole;
	const struct hosts_block block = { work->block, work->block_domain, work->data, work->len };
	buffer_init(&current, FILE_BYTES);
	buffer_init(&whole, FILE_BYTES);
	int code = 0;
	if (!work->block) {
		buffer_append(out, work->data, work->len);
	} else if (!(code = read_file(work->path, &current, ret_version, err))) {
		bool broken_off = work->in_place && find_broken_off(work, &current, &whole);
		const struct buffer *text = broken_off ? &whole : &current;
		code = hosts_block_put(out, buffer_text(text), text->len, &block, err);
		if (code) {
			err_wrap(err, "%s", work->path);
		}
	}
	buffer_finish(&current);
	buffer_finish(&whole);
	return code || !out->failed
		? code
		: err_set(err, BERTH_FAILED, "%s would have too many bytes", work->path);
}

/* ---- the steps ---- */

/* The content of a block's whole file, or NULL: the work's own. */
static int fill(int fd, const struct file_work *work, const struct buffer *whole, struct err *err)
{
	const char *name = work->temporary;
	const struct file_owner private = { 0600, (uid_t)-1, (gid_t)-1 };
	if ((work->head && write_all(fd, work->head, strlen(work->head)) < 0) ||
		write_all(fd, whole ? buffer_text(whole) : work->data,
			whole ? whole->len : work->len) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot write %s", name);
	}
	if (set_owner(fd, work->in_place ? &private : &work->owner) < 0) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "cannot set owner and mode of %s", name);
	}
	if (!work->passing && fsync(fd) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot save %s", name);
	}
	return 0;
}

static int make_new(const struct file_work *work, const struct buffer *whole, struct err *err)
{
	unlink(work->temporary);
	int fd = open(work->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot make %s", work->temporary);
	}
	int code = fill(fd, work, whole, err);
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

/* Keeps what is in place, for the work that follows a crash. */
static int keep(const struct file_work *work, const struct buffer *current, struct err *err)
{
	struct file_work copy = { .in_place = true,
		.temporary = kept_name(work),
		.data = current->data,
		.len = current->len };
	int code = make_new(&copy, NULL, err);
	free(copy.temporary);
	return code;
}

/* The length changes last: what readers see in between has no hole. */
static int write_over(
	int fd, const struct file_work *work, const struct buffer *to, struct err *err)
{
	if (lseek(fd, 0, SEEK_SET) < 0 || write_all(fd, buffer_text(to), to->len) < 0 ||
		ftruncate(fd, (off_t)to->len) < 0 || fsync(fd) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot write %s", work->path);
	}
	return 0;
}

static int open_in_place(const struct file_work *work, struct err *err)
{
	int fd = open(work->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
	if (fd < 0 && errno == ELOOP) {
		return err_set(err, BERTH_FAILED,
			"%s is a symbolic link, through which nothing is written in place: name "
			"what it leads to",
			work->path);
	}
	return fd < 0 ? err_set_errno(err, BERTH_FAILED, errno, "cannot write %s", work->path) : fd;
}

/* The new file is over: in this order, since the kept one means nothing without it. */
static void remove_new(const struct file_work *work)
{
	char *kept = kept_name(work);
	unlink(kept);
	unlink(work->temporary);
	free(kept);
}

static int overwrite(const struct file_work *work, struct err *err)
{
	struct buffer from;
	struct buffer to;
	struct file_version ignored;
	int fd = open_in_place(work, err);
	if (fd < 0) {
		return fd;
	}
	buffer_init(&from, FILE_BYTES);
	buffer_init(&to, FILE_BYTES);
	int code = read_open_file(fd, work->path, &from, &ignored, err);
	if (!code) {
		code = read_file(work->temporary, &to, &ignored, err);
	}
	if (!code && work->block) {
		code = keep(work, &from, err);
	}
	if (!code) {
		code = write_over(fd, work, &to, err);
	}
	if (!code) {
		remove_new(work);
	}
	close(fd);
	buffer_finish(&from);
	buffer_finish(&to);
	return code;
}

/* Ends a write in place that a crash has broken off, so that its new file may go. */
static int go_on(const struct file_work *work, struct err *err)
{
	struct buffer current;
	struct buffer to;
	struct file_version ignored;
	buffer_init(&current, FILE_BYTES);
	buffer_init(&to, FILE_BYTES);
	if (read_file(work->path, &current, &ignored, err) == 0 &&
		find_broken_off(work, &current, &to)) {
		int fd = open_in_place(work, err);
		if (fd >= 0) {
			(void)write_over(fd, work, &to, err);
			close(fd);
		}
	}
	if (!err->code) {
		remove_new(work);
	}
	buffer_finish(&current);
	buffer_finish(&to);
	return err->code;
}

static int prepare(const struct file_work *work, struct file_version *ret_version, struct err *err)
{
	struct buffer whole;
	if (work->in_place && work->block && go_on(work, err)) {
		return err->code;
	}
	buffer_init(&whole, FILE_BYTES);
	int code = work->block ? file_work_content(work, &whole, ret_version, err) : 0;
	if (!code) {
		code = make_new(work, work->block ? &whole : NULL, err);
	}
	buffer_finish(&whole);
	return code;
}

static int commit(const struct file_work *work, const struct file_version *version, struct err *err)
{
	if (work->block && !is_version(work->path, version)) {
		return err_set(
			err, BERTH_FAILED, "another program has changed %s meanwhile", work->path);
	}
	if (work->in_place) {
		return overwrite(work, err);
	}
	if (rename(work->temporary, work->path) < 0) {
		return errno == EBUSY ? err_set(err, BERTH_FAILED,
						"%s is a mount, which cannot be replaced: `write = "
						"in-place` writes into it",
						work->path)
				      : err_set_errno(err, BERTH_FAILED, errno,
						"cannot put %s in place", work->path);
	}
	return work->passing ? 0 : sync_folder(work->path, err);
}

/* The new file of a write in place that broke off is needed after it. */
static int replace(const struct file_work *work, struct err *err)
{
	struct file_version version = { .exists = false };
	if (prepare(work, &version, err) || commit(work, &version, err)) {
		if (!work->in_place) {
			unlink(work->temporary);
		}
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

static int do_made(const struct file_work *work, struct err *err)
{
	struct file_work made = *work;
	made.make = NULL;
	if (work->make(work->context, &made, err) == 0) {
		(void)file_work_do(&made, err);
		free(made.head);
		free(made.data);
	}
	return err->code;
}

int file_work_do(const struct file_work *work, struct err *err)
{
	if (work->make) {
		return do_made(work, err);
	}
	struct file_version ignored;
	switch (work->step) {
	case FILE_PREPARE:
		return prepare(work, &ignored, err);
	case FILE_COMMIT:
		return commit(work, &work->version, err);
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
	free(work->block);
	free(work->block_domain);
	*work = (struct file_work){ 0 };
}
