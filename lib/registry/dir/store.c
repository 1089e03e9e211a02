#include "lib/registry/dir/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/linux_calls.h"
#include "lib/base/path.h"
#include "lib/base/write_all.h"

enum { TMP_NAME_BYTES = 32, MOST_TMP_NAMES = 64, NS_PER_S = 1000000000 };

#define TMP_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/*
 * Every user who may write in the root may use _tmp, whatever the umask of the user who made it;
 * other users may not even open it, so they cannot lock it.
 */
static mode_t tmp_mode(mode_t root_mode)
{
	mode_t mode = root_mode & 07777;
	for (int shift = 0; shift <= 6; shift += 3) {
		if (!(mode & (mode_t)(S_IWOTH << shift))) {
			mode &= ~(mode_t)(S_IRWXO << shift);
		}
	}
	return mode;
}

/* A work directory's name leads to nothing, to a directory of this user alone, or elsewhere. */
enum tmp_owner { TMP_ABSENT, TMP_OURS, TMP_OTHERS };

static enum tmp_owner look_at_tmp(const struct dir_store *store, const char *name)
{
	struct stat stat;
	if (fstatat(store->root_fd, name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
		return errno == ENOENT ? TMP_ABSENT : TMP_OTHERS;
	}
	bool ours = S_ISDIR(stat.st_mode) && stat.st_uid == geteuid() &&
		!(stat.st_mode & (S_IRWXG | S_IRWXO));
	return ours ? TMP_OURS : TMP_OTHERS;
}

static void name_own_tmp(char name[TMP_NAME_BYTES], unsigned number)
{
	int len = snprintf(name, TMP_NAME_BYTES, DIR_TMP "-%u", (unsigned)geteuid());
	if (number > 0) {
		snprintf(name + len, TMP_NAME_BYTES - (size_t)len, "-%u", number);
	}
}

/*
 * In a root that everybody may write each user has a work directory. Others may have planted
 * something at its name: the first name that is this user's counts, so that all processes of the
 * user agree, else the first that is free.
 */
static bool choose_own_tmp(const struct dir_store *store, char name[TMP_NAME_BYTES])
{
	unsigned first_free = MOST_TMP_NAMES;
	for (unsigned i = 0; i < MOST_TMP_NAMES; i++) {
		name_own_tmp(name, i);
		enum tmp_owner owner = look_at_tmp(store, name);
		if (owner == TMP_OURS) {
			return true;
		}
		if (owner == TMP_ABSENT && i < first_free) {
			first_free = i;
		}
	}
	name_own_tmp(name, first_free);
	return first_free < MOST_TMP_NAMES;
}

static int make_tmp(const struct dir_store *store, const char *name, mode_t mode)
{
	bool made = mkdirat(store->root_fd, name, mode) == 0;
	if (!made && errno != EEXIST) {
		return -1;
	}
	int fd = openat(store->root_fd, name, TMP_FLAGS);
	/* Another process may be making it at the same time; its mode is for the maker to set. */
	if (fd >= 0 && made && fchmod(fd, mode) != 0) {
		int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

static int open_tmp(const struct dir_store *store, struct err *err)
{
	struct stat root;
	char name[TMP_NAME_BYTES] = DIR_TMP;
	if (fstat(store->root_fd, &root) != 0) {
		return dir_errno(err, errno, "stat", "the registry");
	}
	bool shared = root.st_mode & S_IWOTH;
	if (shared && !choose_own_tmp(store, name)) {
		return err_set(err, BERTH_NO_PATH_PERMISSIONS,
			"others have taken all names of this user's work "
			"directory, %s-%u and so on",
			DIR_TMP, (unsigned)geteuid());
	}
	int fd = openat(store->root_fd, name, TMP_FLAGS);
	if (fd < 0 && errno == ENOENT) {
		fd = make_tmp(store, name, shared ? S_IRWXU : tmp_mode(root.st_mode));
	}
	return fd < 0 ? dir_errno(err, errno, "use the work directory", name) : fd;
}

static void next_tmp_name(struct dir_store *store, char name[TMP_NAME_BYTES])
{
	snprintf(name, TMP_NAME_BYTES, "%ld-%u", (long)getpid(), store->tmp_count++);
}

/*
 * An inode number is free for reuse once its directory is gone, and times of birth have the
 * granularity of a clock tick: a node must not be born and buried within one, or its successor
 * could get the same node_id.
 */
static void outlive_birth_tick(int fd)
{
	struct statx statx_now;
	struct timespec now;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &statx_now) != 0 ||
		(statx_now.stx_mask & STATX_BTIME) == 0) {
		return;
	}
	for (int i = 0; i < 16; i++) {
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		if (now.tv_sec != statx_now.stx_btime.tv_sec ||
			now.tv_nsec > (long)statx_now.stx_btime.tv_nsec) {
			return;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/*
 * Takes a node's directory apart. The record goes before the owner's file: a reader who still holds
 * the directory never sees a record without the owner that it depended on. Unless `all`, files that
 * are not Berth's stay, and so do the directories around them.
 */
static void dismantle(int parent_fd, const char *name, bool all)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (!stream) {
		if (fd >= 0) {
			close(fd);
		}
		unlinkat(parent_fd, name, 0);
		return;
	}
	outlive_birth_tick(fd);
	unlinkat(fd, DIR_RECORD, 0);
	unlinkat(fd, DIR_RECORD_CHECKSUM, 0);
	unlinkat(fd, DIR_SEQUENCE, 0);
	unlinkat(fd, DIR_CONTAINER, 0);
	unlinkat(fd, DIR_FOREIGN, 0);
	for (const struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		const char *child = entry->d_name;
		bool is_dots = strcmp(child, ".") == 0 || strcmp(child, "..") == 0;
		if (dir_is_nodes_name(fd, child) ||
			(all && !is_dots && strcmp(child, DIR_OWNER) != 0)) {
			dismantle(fd, child, all);
		}
	}
	unlinkat(fd, DIR_OWNER, 0);
	closedir(stream);
	unlinkat(parent_fd, name, AT_REMOVEDIR);
}

/* Nothing here is in use: only the holder of the lock uses _tmp, and that is us. */
static void sweep_tmp(struct dir_store *store)
{
	int fd = openat(store->lock_fd, ".", TMP_FLAGS);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	if (!stream) { /* no reason to refuse a write */
		if (fd >= 0) {
			close(fd);
		}
		return;
	}
	while ((entry = readdir(stream)) != NULL) {
		if (entry->d_name[0] != '.') {
			dismantle(fd, entry->d_name, false);
		}
	}
	closedir(stream);
}

int dir_store_lock(struct dir_store *store, struct err *err)
{
	int fd = open_tmp(store, err);
	if (fd < 0) {
		return err->code;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		int error = errno;
		close(fd);
		if (error == EWOULDBLOCK || error == EINTR) {
			return 0;
		}
		return dir_errno(err, error, "lock", "the registry");
	}
	store->lock_fd = fd;
	if (!store->swept) {
		store->swept = true;
		sweep_tmp(store);
	}
	return 1;
}

void dir_store_unlock(struct dir_store *store)
{
	close(store->lock_fd);
	store->lock_fd = -1;
}

/*
 * A version is the record's time of change: now, but later than its predecessor even if the clock
 * was set back.
 */
static int stamp(int fd, int64_t previous_version)
{
	struct timespec times[2];
	clock_gettime(CLOCK_REALTIME, &times[0]);
	int64_t now = (int64_t)times[0].tv_sec * NS_PER_S + times[0].tv_nsec;
	if (now < previous_version + 1) {
		now = previous_version + 1;
	}
	times[1] = (struct timespec){ .tv_sec = now / NS_PER_S, .tv_nsec = (long)(now % NS_PER_S) };
	return futimens(fd, times);
}

/* An ephemeral record has no use after a power cut, so only the others wait for the disk. */
static int write_record(int dir_fd, const char *name, const struct dir_write *write, bool durable)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	int error = 0;
	if (fd < 0) {
		return -1;
	}
	if (write_all(fd, write->data, write->len) != 0 ||
		stamp(fd, write->previous_version) != 0 || (durable && fsync(fd) != 0)) {
		error = errno;
	}
	if (close(fd) != 0 && error == 0) {
		error = errno;
	}
	errno = error;
	return error == 0 ? 0 : -1;
}

/*
 * The lock of the open file description is the owner's life. The other one tells a host's agent, by
 * /proc/locks, which process that is.
 */
static int write_owner(int dir_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = openat(
		dir_fd, DIR_OWNER, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0) {
		return -1;
	}
	if (dprintf(fd, "pid %ld\n", (long)getpid()) < 0 || fcntl(fd, F_OFD_SETLK, &lock) != 0) {
		int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	(void)flock(fd, LOCK_SH | LOCK_NB);
	return fd;
}

static bool is_foreign(const struct dir_write *write)
{
	const char *name = path_name(write->path);
	return !path_element_valid(name, strlen(name));
}

static int build(int tmp_fd, const char *name, const struct dir_write *write, int *ret_owner_fd,
	struct err *err)
{
	int owner_fd = -1;
	int error;
	int fd = -1;
	if (mkdirat(tmp_fd, name, 0777) != 0 ||
		(fd = openat(tmp_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
		(write->ephemeral && (owner_fd = write_owner(fd)) < 0) ||
		(write->container && mknodat(fd, DIR_CONTAINER, S_IFREG | 0666, 0) != 0) ||
		(is_foreign(write) && mknodat(fd, DIR_FOREIGN, S_IFREG | 0666, 0) != 0) ||
		(write->len > 0 && write_record(fd, DIR_RECORD, write, !write->ephemeral) != 0) ||
		(write->given_away && fchown(fd, write->user, write->group) != 0) ||
		(!write->ephemeral && fsync(fd) != 0)) {
		error = errno;
		if (owner_fd >= 0) {
			close(owner_fd);
		}
		if (fd >= 0) {
			close(fd);
		}
		return dir_errno(err, error, "write", write->path);
	}
	if (write->mode) {
		(void)fchmod(fd, write->mode);
	}
	close(fd);
	*ret_owner_fd = owner_fd;
	return 0;
}

/*
 * So that a node that was reported as made, or as deleted, is so after a power cut too. Too late to
 * fail.
 */
static void sync_directory(const struct dir_node *directory)
{
	int fd = openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		(void)fsync(fd);
		close(fd);
	}
}

/* The kernel itself finds no such descriptor, whatever the user may do. */
static bool is_refused_by_filter(void)
{
	return renameat2(-1, "x", -1, "x", RENAME_NOREPLACE) != 0 && errno == EPERM;
}

static int rename_errno(struct err *err, int errno_value, const char *path)
{
	switch (errno_value) {
	case EEXIST:
		return err_set(err, BERTH_FAILED, "%s is something else than a node", path);
	case ENOENT:
		return err_set(err, BERTH_PATH_NOT_FOUND, "%s was deleted in the meantime", path);
	case EPERM:
		if (!is_refused_by_filter()) {
			return dir_errno(err, errno_value, "put into place", path);
		}
		return err_set(err, BERTH_FAILED,
			"cannot write %s: a filter of this container refuses renameat2()", path);
	case EINVAL:
	case ENOSYS:
		return err_set(err, BERTH_FAILED,
			"cannot write %s: kernel or file system cannot swap directories "
			"(renameat2)",
			path);
	case EXDEV:
		return err_set(err, BERTH_FAILED,
			"cannot write %s: it lies on another file system than the root", path);
	default:
		return dir_errno(err, errno_value, "put into place", path);
	}
}

int dir_store_place(struct dir_store *store, const struct dir_node *parent,
	const struct dir_write *write, bool exchange, int *ret_owner_fd, struct err *err)
{
	char name[TMP_NAME_BYTES];
	int owner_fd = -1;
	int tmp_fd = store->lock_fd;
	next_tmp_name(store, name);
	int result = build(tmp_fd, name, write, &owner_fd, err);
	if (result == 0 &&
		renameat2(tmp_fd, name, parent->fd, path_name(write->path),
			exchange ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0) {
		result = rename_errno(err, errno, write->path);
	}
	if (result != 0 || exchange) {
		dismantle(tmp_fd, name, false);
	}
	if (result == 0 && !write->ephemeral) {
		sync_directory(parent);
	}
	if (result == 0) {
		*ret_owner_fd = owner_fd;
	} else if (owner_fd >= 0) {
		close(owner_fd);
	}
	return result;
}

int dir_store_next_number(
	const struct dir_node *parent, const char *path, unsigned *ret_number, struct err *err)
{
	char text[16] = "";
	unsigned number = 0;
	int fd = openat(parent->fd, DIR_SEQUENCE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0 || pread(fd, text, sizeof(text) - 1, 0) < 0) {
		dir_errno(err, errno, "read the sequence of", path);
	} else {
		number = (unsigned)strtoul(text, NULL, 10);
		int len = snprintf(text, sizeof(text), "%010u\n", number + 1);
		if (pwrite(fd, text, (size_t)len, 0) != len) {
			dir_errno(err, errno, "write the sequence of", path);
		}
	}
	if (fd >= 0) {
		close(fd);
	}
	if (!err->code) {
		*ret_number = number;
	}
	return err->code;
}

int dir_store_set(struct dir_store *store, const struct dir_node *node,
	const struct dir_write *write, struct err *err)
{
	char name[TMP_NAME_BYTES];
	int tmp_fd = store->lock_fd;
	int result = 0;
	next_tmp_name(store, name);
	if (write_record(tmp_fd, name, write, !write->ephemeral) != 0) {
		result = dir_errno(err, errno, "write", write->path);
	} else if (renameat(tmp_fd, name, node->fd, DIR_RECORD) != 0) {
		result = rename_errno(err, errno, write->path);
	}
	if (result != 0) {
		unlinkat(tmp_fd, name, 0);
	} else {
		unlinkat(node->fd, DIR_RECORD_CHECKSUM, 0);
	}
	if (result == 0 && !write->ephemeral) {
		sync_directory(node);
	}
	return result;
}

/* A power cut ends an ephemeral node, too. */
static bool has_owner(int parent_fd, const char *name)
{
	char owner[TMP_NAME_BYTES + sizeof("/" DIR_OWNER)];
	snprintf(owner, sizeof(owner), "%s/" DIR_OWNER, name);
	return faccessat(parent_fd, owner, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int dir_store_remove(struct dir_store *store, const struct dir_node *parent, const char *name,
	const char *path, bool all, struct err *err)
{
	char tmp_name[TMP_NAME_BYTES];
	int tmp_fd = store->lock_fd;
	int result = 0;
	next_tmp_name(store, tmp_name);
	if (renameat2(parent->fd, name, tmp_fd, tmp_name, RENAME_NOREPLACE) != 0) {
		result = rename_errno(err, errno, path);
	} else {
		bool lasted = !has_owner(tmp_fd, tmp_name);
		dismantle(tmp_fd, tmp_name, all);
		if (lasted) {
			sync_directory(parent);
		}
	}
	return result;
}
