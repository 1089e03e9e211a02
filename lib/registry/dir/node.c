#include "lib/registry/dir/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/base/linux_calls.h"
#include "lib/base/limits.h"
#include "lib/registry/backend.h"

enum {
	NS_PER_MS = 1000000,
	MS_PER_S = 1000,
	SCAN_BLOCK_BYTES = 16 * 1024,
	SCAN_BYTES = 1024 * 1024,
	/*
	 * How often a reader looks again when a node was swapped while it was being opened. Each
	 * time another process has completed a write, so the limit is not reached in practice.
	 */
	LOOK_AGAIN = 64
};

#define READ_FLAGS (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define NODE_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int dir_errno(struct err *err, int errno_value, const char *doing, const char *path)
{
	int code;
	switch (errno_value) {
	case EACCES:
	case EPERM:
	case EROFS:
		code = BERTH_NO_PATH_PERMISSIONS;
		break;
	case ENOSPC:
	case EDQUOT:
	case EIO:
	case ESTALE:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		code = BERTH_REGISTRY_UNAVAILABLE;
		break;
	default:
		code = BERTH_FAILED;
		break;
	}
	return err_set_errno(err, code, errno_value, "cannot %s %s", doing, path);
}

bool dir_is_nodes_name(int fd, const char *name)
{
	char mark[DIR_NAME_BYTES + sizeof("/" DIR_FOREIGN)];
	struct stat stat;
	if (path_element_valid(name, strlen(name))) {
		return true;
	}
	return name[0] != '_' && name[0] != '.' && strlen(name) <= DIR_NAME_BYTES &&
		snprintf(mark, sizeof(mark), "%s/%s", name, DIR_FOREIGN) > 0 &&
		fstatat(fd, mark, &stat, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_absence(int errno_value)
{
	return errno_value == ENOENT || errno_value == ENOTDIR || errno_value == ELOOP;
}

/*
 * GETLK asks whether our lock would be refused, and takes none: the owner never notices readers.
 * For a read lock it reports write locks only, and only a process with the right to write can take
 * one: a reader cannot keep a dead node alive.
 */
static int look_at_owner(struct dir_node *node, const char *path, struct err *err)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	struct stat stat;
	int fd = openat(node->fd, DIR_OWNER, READ_FLAGS);
	if (fd < 0 && errno == ENOENT) {
		node->kind = DIR_PERSISTENT;
		return 0;
	}
	if (fd < 0 && errno != ELOOP && errno != ENXIO) {
		return dir_errno(err, errno, "open the owner's file of", path);
	}
	/* also when _owner is of a kind that no process can hold a lock on */
	node->kind = DIR_DEAD;
	if (fd < 0) {
		return 0;
	}
	/*
	 * The question about a lock takes as long as the inode has locks: whoever can link one that
	 * has many of them could have it asked for many nodes. No owner makes a second name.
	 */
	bool seen = fstat(fd, &stat) == 0;
	if (seen && stat.st_nlink > 1) {
		close(fd);
		return 0;
	}
	if (!seen || fcntl(fd, F_OFD_GETLK, &lock) != 0) {
		int error = errno;
		close(fd);
		return dir_errno(err, error, "test the owner's lock of", path);
	}
	close(fd);
	node->owner_device = stat.st_dev;
	node->owner_inode = stat.st_ino;
	if (lock.l_type != F_UNLCK) {
		node->kind = DIR_EPHEMERAL;
	}
	return 0;
}

static int open_once(
	struct dir_node *node, int parent_fd, const char *name, const char *path, struct err *err)
{
	struct stat stat;
	*node = (struct dir_node){ .kind = DIR_ABSENT, .fd = openat(parent_fd, name, NODE_FLAGS) };
	if (node->fd < 0) {
		return is_absence(errno) ? 0 : dir_errno(err, errno, "open", path);
	}
	if (fstat(node->fd, &stat) != 0) {
		return dir_errno(err, errno, "stat", path);
	}
	node->device = stat.st_dev;
	node->inode = stat.st_ino;
	return look_at_owner(node, path, err);
}

static bool still_named(const struct dir_node *node, int parent_fd, const char *name)
{
	struct stat stat;
	return fstatat(parent_fd, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
		stat.st_dev == node->device && stat.st_ino == node->inode;
}

/*
 * A free lock means a dead owner only if the directory was not swapped for another between opening
 * it and looking.
 */
int dir_node_open_child(struct dir_node *ret_node, int parent_fd, const char *name,
	const char *path, struct err *err)
{
	int result = open_once(ret_node, parent_fd, name, path, err);
	for (int i = 0; i < LOOK_AGAIN && result == 0 && ret_node->kind == DIR_DEAD; i++) {
		if (still_named(ret_node, parent_fd, name)) {
			break;
		}
		dir_node_close(ret_node);
		result = open_once(ret_node, parent_fd, name, path, err);
	}
	return result;
}

/* Opens the directories from the root down to the last element, which is left to the caller. */
static int open_parent(int root_fd, const char *path, const char *last)
{
	char name[DIR_NAME_BYTES + 1];
	int fd = openat(root_fd, ".", NODE_FLAGS);
	for (const char *element = path + 1; fd >= 0 && element < last;) {
		size_t len = (size_t)(strchrnul(element, '/') - element);
		int parent_fd = fd;
		if (len >= sizeof(name)) {
			close(fd);
			errno = ENOENT;
			return -1;
		}
		memcpy(name, element, len);
		name[len] = '\0';
		fd = openat(parent_fd, name, NODE_FLAGS);
		int error = errno;
		close(parent_fd);
		errno = error;
		element += len + 1;
	}
	return fd;
}

static int open_root(struct dir_node *node, int root_fd, struct err *err)
{
	struct stat stat;
	*node = (struct dir_node){ .kind = DIR_PERSISTENT, .fd = openat(root_fd, ".", NODE_FLAGS) };
	if (node->fd < 0 || fstat(node->fd, &stat) != 0) {
		return dir_errno(err, errno, "open", "/");
	}
	node->device = stat.st_dev;
	node->inode = stat.st_ino;
	return 0;
}

int dir_node_open(
	struct dir_node *ret_node, int root_fd, const char *path, size_t len, struct err *err)
{
	char copy[LIMIT_PATH_BYTES + 1];
	*ret_node = (struct dir_node){ .kind = DIR_ABSENT, .fd = -1 };
	if (root_fd < 0) {
		return 0; /* a registry without root has no nodes */
	}
	if (len <= 1) {
		return open_root(ret_node, root_fd, err);
	}
	if (len >= sizeof(copy)) {
		return err_set(err, BERTH_INVALID_PATHNAME, "the path has more than %d bytes",
			LIMIT_PATH_BYTES);
	}
	memcpy(copy, path, len);
	copy[len] = '\0';
	const char *last = strrchr(copy, '/') + 1;
	int parent_fd = open_parent(root_fd, copy, last);
	if (parent_fd < 0) {
		return is_absence(errno) ? 0 : dir_errno(err, errno, "open", copy);
	}
	int result = dir_node_open_child(ret_node, parent_fd, last, copy, err);
	close(parent_fd);
	return result;
}

void dir_node_close(struct dir_node *node)
{
	if (node->fd >= 0) {
		close(node->fd);
		node->fd = -1;
	}
}

bool dir_node_current(const struct dir_node *node, int root_fd, const char *path)
{
	struct dir_node now;
	struct err err = ERR_INIT;
	bool same = dir_node_open(&now, root_fd, path, strlen(path), &err) == 0 &&
		now.device == node->device && now.inode == node->inode;
	dir_node_close(&now);
	return same;
}

static int64_t to_ms(int64_t seconds, int64_t nanoseconds)
{
	return seconds * MS_PER_S + nanoseconds / NS_PER_MS;
}

static uint64_t scramble(uint64_t value)
{
	value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
	return value ^ (value >> 31);
}

/* statx() came with Linux 4.11, and filters older than it refuse it; then no birth is known. */
static int stat_with_birth(int fd, struct statx *ret_statx)
{
	struct stat plain;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, ret_statx) == 0) {
		return 0;
	}
	if ((errno != ENOSYS && errno != EPERM) || fstat(fd, &plain) != 0) {
		return -1;
	}
	*ret_statx = (struct statx){ .stx_ino = plain.st_ino,
		.stx_mtime = { .tv_sec = plain.st_mtim.tv_sec,
			.tv_nsec = (uint32_t)plain.st_mtim.tv_nsec } };
	return 0;
}

/* Inode numbers come back, but not with the same time of birth: store.c sees to that. */
static void stat_directory(const struct statx *statx, struct registry_stat *stat)
{
	const struct statx_timestamp *birth = &statx->stx_btime;
	uint64_t born = 0;
	if ((statx->stx_mask & STATX_BTIME) != 0) {
		born = (uint64_t)birth->tv_sec * UINT64_C(1000000000) + birth->tv_nsec;
	} else {
		birth = &statx->stx_mtime;
	}
	stat->created_ms = to_ms(birth->tv_sec, birth->tv_nsec);
	stat->node_id = scramble(scramble(born + 1) ^ statx->stx_ino);
}

static void stat_record(const struct stat *record, struct registry_stat *stat)
{
	stat->version = (int64_t)record->st_mtim.tv_sec * 1000000000 + record->st_mtim.tv_nsec;
	stat->modified_ms = to_ms(record->st_mtim.tv_sec, record->st_mtim.tv_nsec);
	stat->size = (size_t)record->st_size;
}

int dir_node_stat(const struct dir_node *node, const char *path, struct registry_stat *ret_stat,
	struct err *err)
{
	struct registry_stat result = { .ephemeral = node->kind == DIR_EPHEMERAL };
	struct statx directory;
	struct stat record;
	if (stat_with_birth(node->fd, &directory) != 0) {
		return dir_errno(err, errno, "stat", path);
	}
	stat_directory(&directory, &result);
	result.modified_ms = result.created_ms;
	if (fstatat(node->fd, DIR_RECORD, &record, AT_SYMLINK_NOFOLLOW) == 0) {
		stat_record(&record, &result);
	} else if (errno != ENOENT) {
		return dir_errno(err, errno, "stat the record of", path);
	}
	*ret_stat = result;
	return 0;
}

static int read_all(int fd, char *data, size_t size, size_t *ret_len)
{
	size_t len = 0;
	while (len < size) {
		ssize_t got = read(fd, data + len, size - len);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got < 0) {
			return -1;
		}
		if (got == 0) {
			break;
		}
		len += (size_t)got;
	}
	*ret_len = len;
	return 0;
}

/*
 * Data that is too large for a record is a record that is too large if it holds the marker, else no
 * record. The data is not kept; this looks at no more of it than a ZooKeeper server would hold.
 */
static int judge_too_large(int fd, const char *path, struct err *err)
{
	const size_t overlap = strlen(RECORD_TYPE) - 1;
	char block[SCAN_BLOCK_BYTES];
	size_t kept = 0;
	size_t len = 0;
	for (size_t scanned = 0; scanned < SCAN_BYTES; scanned += len) {
		if (read_all(fd, block + kept, sizeof(block) - kept, &len) != 0) {
			return dir_errno(err, errno, "read the record of", path);
		}
		if (memmem(block, kept + len, RECORD_TYPE, strlen(RECORD_TYPE))) {
			return err_set(err, BERTH_INVALID_RECORD,
				"the record of %s has more than %d bytes", path,
				LIMIT_RECORD_BYTES);
		}
		if (len == 0 || kept + len < overlap) {
			break;
		}
		memmove(block, block + kept + len - overlap, overlap);
		kept = overlap;
	}
	return err_set(err, BERTH_NO_RECORD, "%s holds no record but more than %d bytes", path,
		LIMIT_RECORD_BYTES);
}

static int read_record(int fd, const char *path, char **ret_data, size_t *ret_len,
	struct registry_stat *stat, struct err *err)
{
	struct stat record;
	size_t len = 0;
	if (fstat(fd, &record) != 0) {
		return dir_errno(err, errno, "stat the record of", path);
	}
	if (!S_ISREG(record.st_mode)) {
		return err_set(
			err, BERTH_INVALID_RECORD, "the record of %s is not a regular file", path);
	}
	if (record.st_nlink > 1) {
		return err_set(
			err, BERTH_INVALID_RECORD, "the record of %s has a second name", path);
	}
	if (record.st_size > LIMIT_RECORD_BYTES) {
		stat_record(&record, stat);
		return judge_too_large(fd, path, err);
	}
	char *data = malloc((size_t)record.st_size + 1);
	if (!data || read_all(fd, data, (size_t)record.st_size, &len) != 0) {
		int error = errno;
		free(data);
		return dir_errno(err, error, "read the record of", path);
	}
	data[len] = '\0';
	stat_record(&record, stat);
	*ret_data = data;
	*ret_len = len;
	return 0;
}

int dir_node_read(const struct dir_node *node, const char *path, char **ret_data, size_t *ret_len,
	struct registry_stat *stat, struct err *err)
{
	int fd = openat(node->fd, DIR_RECORD, READ_FLAGS);
	int result;
	if (fd >= 0) {
		result = read_record(fd, path, ret_data, ret_len, stat, err);
		close(fd);
		return result;
	}
	if (errno == ELOOP || errno == ENXIO) {
		return err_set(
			err, BERTH_INVALID_RECORD, "the record of %s is not a regular file", path);
	}
	if (errno != ENOENT) {
		return dir_errno(err, errno, "open the record of", path);
	}
	*ret_data = strdup("");
	if (!*ret_data) {
		return dir_errno(err, ENOMEM, "read", path);
	}
	*ret_len = 0;
	stat->version = 0;
	stat->size = 0;
	return 0;
}

static int add_child(struct dir_children *children, const char *name, enum dir_kind kind)
{
	if ((children->count & (children->count - 1)) == 0) {
		size_t size = children->count == 0 ? 1 : 2 * children->count;
		struct dir_child *entries = reallocarray(children->entries, size, sizeof(*entries));
		if (!entries) {
			return -1;
		}
		children->entries = entries;
	}
	struct dir_child *child = &children->entries[children->count];
	child->name = strdup(name);
	if (!child->name) {
		return -1;
	}
	child->kind = kind;
	children->count++;
	children->bytes += strlen(name) + 1 + sizeof(*child);
	children->live += dir_kind_live(kind) ? 1 : 0;
	return 0;
}

static int add_foreign(struct dir_children *children, const char *name)
{
	if ((children->foreign_count & (children->foreign_count - 1)) == 0) {
		size_t size = children->foreign_count == 0 ? 1 : 2 * children->foreign_count;
		char **grown = reallocarray(children->foreign, size, sizeof(*grown));
		if (!grown) {
			return -1;
		}
		children->foreign = grown;
	}
	char *copy = strdup(name);
	if (!copy) {
		return -1;
	}
	children->foreign[children->foreign_count++] = copy;
	children->bytes += strlen(name) + 1 + sizeof(copy);
	return 0;
}

static bool is_part_of_node(const char *name)
{
	static const char *const parts[] = { ".", "..", DIR_RECORD, DIR_OWNER, DIR_RECORD_CHECKSUM,
		DIR_SEQUENCE, DIR_CONTAINER, DIR_FOREIGN };
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		if (strcmp(name, parts[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* The root also holds what writers need. */
static bool is_own_at_root(const char *path, const char *name)
{
	return strcmp(path, "/") == 0 && strncmp(name, DIR_TMP, strlen(DIR_TMP)) == 0;
}

static bool is_there(const struct dir_node *node, const char *name)
{
	struct stat stat;
	return fstatat(node->fd, name, &stat, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Most are, and then need not be opened. */
static bool is_plainly_persistent(const struct dir_node *node, const struct dirent *entry)
{
	char owner[sizeof(entry->d_name) + sizeof("/" DIR_OWNER)];
	struct stat stat;
	snprintf(owner, sizeof(owner), "%s/%s", entry->d_name, DIR_OWNER);
	return entry->d_type == DT_DIR &&
		fstatat(node->fd, owner, &stat, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

static int look_at_entry(const struct dir_node *node, const char *path, const struct dirent *entry,
	struct dir_children *children, struct err *err)
{
	const char *name = entry->d_name;
	struct dir_node child = { .kind = DIR_PERSISTENT };
	bool is_node = dir_is_nodes_name(node->fd, name);
	if (is_node && !is_plainly_persistent(node, entry)) {
		int result = dir_node_open_child(&child, node->fd, name, path, err);
		dir_node_close(&child);
		if (result == BERTH_NO_PATH_PERMISSIONS) {
			/* A child that may not be opened exists all the same. */
			err_clear(err);
			child.kind = DIR_PERSISTENT;
		} else if (result != 0) {
			return result;
		}
		is_node = child.kind != DIR_ABSENT;
	}
	int added = is_node            ? add_child(children, name, child.kind)
		: is_there(node, name) ? add_foreign(children, name)
				       : 0;
	if (added < 0) {
		return dir_errno(err, ENOMEM, "list", path);
	}
	return registry_list_fits(
		       path, children->count + children->foreign_count, children->bytes, err)
		? 0
		: err->code;
}

int dir_node_children(const struct dir_node *node, const char *path,
	struct dir_children *ret_children, struct err *err)
{
	struct dir_children children = { 0 };
	int fd = openat(node->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	int result = 0;
	if (!stream) {
		result = dir_errno(err, errno, "list", path);
		if (fd >= 0) {
			close(fd);
		}
		return result;
	}
	while (result == 0 && (errno = 0, entry = readdir(stream)) != NULL) {
		if (!is_part_of_node(entry->d_name) && !is_own_at_root(path, entry->d_name)) {
			result = look_at_entry(node, path, entry, &children, err);
		}
	}
	if (result == 0 && errno != 0) {
		result = dir_errno(err, errno, "list", path);
	}
	closedir(stream);
	if (result != 0) {
		dir_children_free(&children);
		return result;
	}
	*ret_children = children;
	return 0;
}

void dir_children_free(struct dir_children *children)
{
	for (size_t i = 0; i < children->count; i++) {
		free(children->entries[i].name);
	}
	free(children->entries);
	for (size_t i = 0; i < children->foreign_count; i++) {
		free(children->foreign[i]);
	}
	free(children->foreign);
	*children = (struct dir_children){ 0 };
}
