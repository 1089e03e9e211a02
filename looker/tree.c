#include "looker/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/linux_calls.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/program/memory.h"
#include "lib/registry/registry_dir.h"

enum {
	LOOK_AGAIN = 8, /* at a node that is replaced while it is looked at */
	MOST_DEPTH = 32,
	MOST_PASSED_OVER = 64 * 1024, /* entries, to where a walk goes on */
	PROC_NAME_BYTES = 40,
};

#define NS_PER_S INT64_C(1000000000)

/* ---- opening ---- */

int tree_open(int directory, const char *name, bool same_mount)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	if (same_mount) {
		how.resolve |= RESOLVE_NO_XDEV;
	}
	return linux_openat2(directory, name, &how, sizeof(how));
}

bool tree_is_want(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/*
 * A regular file, for reading; -1 with errno, ENXIO for any other kind. The kind is known before
 * the file is opened: opening a device may do something.
 */
static int open_file(int directory, const char *name, struct stat *ret_stat)
{
	char again[PROC_NAME_BYTES];
	int place = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (place < 0) {
		return -1;
	}
	int fd = -1;
	if (fstat(place, ret_stat) == 0 && S_ISREG(ret_stat->st_mode)) {
		snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
		fd = open(again, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	} else {
		errno = ENXIO;
	}
	int error = errno;
	close(place);
	errno = error;
	return fd;
}

/* The directory of the node; *ret_parent is the one above it. Both are -1 when there is none. */
static int open_node(int registry_fd, const char *path, int *ret_parent)
{
	char above[LIMIT_PATH_BYTES + 2];
	snprintf(above, sizeof(above), ".%.*s", (int)(path_name(path) - path), path);
	*ret_parent = tree_open(registry_fd, above, true);
	return *ret_parent < 0 ? -1 : tree_open(*ret_parent, path_name(path), true);
}

/* ---- one node ---- */

/* *ret_owner: the file of a live one; else -1. `ret_stat` is of that file. */
static enum looker_kind kind_of(int fd, int *ret_owner, struct stat *ret_stat)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int owner = open_file(fd, DIR_OWNER, ret_stat);
	*ret_owner = -1;
	if (owner < 0) {
		return tree_is_want(errno) ? LOOKER_KIND_UNSEEN
			: errno == ENOENT  ? LOOKER_KIND_PERSISTENT
					   : LOOKER_KIND_DEAD;
	}
	/*
	 * The question takes as long as the inode has locks, and one inode linked into many nodes
	 * would be asked for each of them. No owner makes a second name.
	 */
	if (ret_stat->st_nlink > 1) {
		close(owner);
		return LOOKER_KIND_DEAD;
	}
	bool asked = fcntl(owner, F_OFD_GETLK, &lock) == 0;
	/* The owner empties the file, then drops its lock: look in the opposite order. */
	if (asked && lock.l_type != F_UNLCK) {
		*ret_owner = owner;
		return LOOKER_KIND_LIVE;
	}
	bool emptied = fstat(owner, ret_stat) == 0 && ret_stat->st_size == 0;
	close(owner);
	return emptied ? LOOKER_KIND_ENDED : LOOKER_KIND_DEAD;
}

static bool still_named(int fd, int parent, const char *name)
{
	struct stat opened;
	struct stat named;
	return fstat(fd, &opened) == 0 && fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

static char *read_bytes(int fd, size_t size, size_t *ret_len)
{
	char *data = memory_zeroed(size + 1, 1);
	size_t len = 0;
	ssize_t got = 1;
	while (len < size && got > 0) {
		got = read(fd, data + len, size - len);
		len += got > 0 ? (size_t)got : 0;
	}
	*ret_len = len;
	if (got < 0) {
		free(data);
		return NULL;
	}
	return data;
}

static struct tree_version version_of(const struct stat *stat)
{
	return (struct tree_version){
		.inode = stat->st_ino,
		.size = (uint64_t)stat->st_size,
		.modified_ns = stat->st_mtim.tv_sec * NS_PER_S + stat->st_mtim.tv_nsec,
		.changed_ns = stat->st_ctim.tv_sec * NS_PER_S + stat->st_ctim.tv_nsec,
	};
}

static bool is_version(const struct tree_version *a, const struct tree_version *b)
{
	return a->inode == b->inode && a->size == b->size && a->modified_ns == b->modified_ns &&
		a->changed_ns == b->changed_ns;
}

static void read_record(
	struct tree_node *node, int fd, const char *path, const struct tree_want *want)
{
	struct stat stat;
	int file = open_file(fd, DIR_RECORD, &stat);
	if (file < 0 && tree_is_want(errno)) {
		node->kind = LOOKER_KIND_UNSEEN;
		return;
	}
	if (file < 0 && errno == ENOENT) {
		err_set(&node->err, BERTH_NO_RECORD, "%s holds no record", path);
		return;
	}
	if (file < 0) {
		err_set_errno(&node->err, BERTH_INVALID_RECORD, errno,
			"the record of %s cannot be opened as a regular file", path);
		return;
	}
	node->version = version_of(&stat);
	if (stat.st_nlink > 1) {
		err_set(&node->err, BERTH_INVALID_RECORD, "the record of %s has a second name",
			path);
	} else if (stat.st_size > LIMIT_RECORD_BYTES) {
		err_set(&node->err, BERTH_LIMIT_EXCEEDED, "the record of %s has more than %d bytes",
			path, LIMIT_RECORD_BYTES);
	} else if ((size_t)stat.st_size > want->max_bytes) {
		node->too_large = true;
	} else if (!is_version(&node->version, want->known)) {
		node->data = read_bytes(file, (size_t)stat.st_size, &node->len);
		if (!node->data) {
			err_set(&node->err, BERTH_INVALID_RECORD, "the record of %s cannot be read",
				path);
		}
	}
	close(file);
}

void tree_look(
	struct tree_node *ret_node, int registry_fd, const char *path, const struct tree_want *want)
{
	struct stat owner;
	bool changed = true;
	*ret_node = (struct tree_node){ .kind = LOOKER_KIND_ABSENT, .owner_fd = -1 };
	/* A free lock means a dead owner only while the directory is the one at the path. */
	for (int i = 0; i < LOOK_AGAIN && changed; i++) {
		int parent;
		int fd = open_node(registry_fd, path, &parent);
		if (fd >= 0) {
			ret_node->kind = kind_of(fd, &ret_node->owner_fd, &owner);
		} else {
			ret_node->kind = tree_is_want(errno) ? LOOKER_KIND_UNSEEN
							     : LOOKER_KIND_ABSENT;
		}
		bool live = ret_node->kind == LOOKER_KIND_LIVE;
		changed = fd >= 0 && !live && !still_named(fd, parent, path_name(path));
		if (live) {
			ret_node->owner_device = owner.st_dev;
			ret_node->owner_inode = owner.st_ino;
		}
		if (live && want->data) {
			read_record(ret_node, fd, path, want);
		}
		if (fd >= 0) {
			close(fd);
		}
		if (parent >= 0) {
			close(parent);
		}
	}
}

void tree_node_finish(struct tree_node *node)
{
	if (node->owner_fd >= 0) {
		close(node->owner_fd);
	}
	free(node->data);
}

/* ---- all nodes ---- */

struct walker {
	const struct tree_walk *walk;
	struct tree_place *place;
	const char *go_on; /* in `place`, below the directory at hand; NULL: its first entry */
	enum tree_end end;
	size_t depth;
	char path[LIMIT_PATH_BYTES + 1];
};

static bool walk_below(struct walker *walker, int fd, size_t len);

static void note_unseen(const struct walker *walker, int error)
{
	if (tree_is_want(error)) {
		walker->walk->on_unseen(walker->walk->context);
	}
}

/* Takes one entry; false when the walk is over. */
static bool visit(struct walker *walker, int parent, const char *name, size_t len)
{
	size_t name_len = strlen(name);
	if (!path_element_valid(name, name_len) || len + 1 + name_len > LIMIT_PATH_BYTES) {
		return true;
	}
	int fd = tree_open(parent, name, true);
	if (fd < 0) {
		note_unseen(walker, errno);
		return true; /* or it is gone, or no directory */
	}
	walker->walk->on_directory(walker->walk->context, fd);
	walker->path[len] = '/';
	memcpy(walker->path + len + 1, name, name_len + 1);
	struct stat stat;
	int owner;
	enum looker_kind kind = kind_of(fd, &owner, &stat);
	if (owner >= 0) {
		close(owner);
	}
	if (kind == LOOKER_KIND_LIVE) {
		walker->walk->on_live(walker->walk->context, walker->path);
	} else if (kind == LOOKER_KIND_UNSEEN) {
		walker->walk->on_unseen(walker->walk->context);
	}
	return walk_below(walker, fd, len + 1 + name_len);
}

/* Below path[..len]. */
static bool may_visit(struct walker *walker, const char *name, size_t len)
{
	struct tree_place *place = walker->place;
	if (place->left == 0) {
		walker->end = TREE_MANY_ENTRIES;
		return false;
	}
	place->left--;
	if (clock_read_ns(CLOCK_MONOTONIC) >= walker->walk->until_ns) {
		text_printf(
			place->path, sizeof(place->path), "%.*s/%s", (int)len, walker->path, name);
		walker->end = TREE_OUT_OF_TIME;
		return false;
	}
	return true;
}

/* The entry at which the walk goes on; NULL, and the first one is next, when it has gone. */
static const struct dirent *find_place(struct walker *walker, DIR *stream)
{
	const char *name = walker->go_on;
	const char *slash = strchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : strlen(name);
	const struct dirent *entry = readdir(stream);
	for (size_t i = 0; entry && i < MOST_PASSED_OVER; i++) {
		if (strncmp(entry->d_name, name, len) == 0 && entry->d_name[len] == '\0') {
			walker->go_on = slash ? slash + 1 : NULL;
			return entry;
		}
		entry = readdir(stream);
	}
	walker->go_on = NULL;
	rewinddir(stream);
	return NULL;
}

/* Takes the descriptor. */
static bool walk_below(struct walker *walker, int fd, size_t len)
{
	DIR *stream = fdopendir(fd);
	if (!stream) {
		note_unseen(walker, errno);
		close(fd);
		return true;
	}
	bool goes_on = ++walker->depth <= MOST_DEPTH;
	const struct dirent *entry = walker->go_on ? find_place(walker, stream) : NULL;
	/* Without a look at the time: each part of a walk comes further than the one before. */
	goes_on = goes_on && (!entry || visit(walker, dirfd(stream), entry->d_name, len));
	while (goes_on && (entry = readdir(stream)) != NULL) {
		goes_on = may_visit(walker, entry->d_name, len) &&
			visit(walker, dirfd(stream), entry->d_name, len);
	}
	walker->depth--;
	closedir(stream);
	return goes_on;
}

enum tree_end tree_walk(const struct tree_walk *walk, int registry_fd, struct tree_place *place)
{
	char from[sizeof(place->path)];
	struct walker walker = { .walk = walk, .place = place, .end = TREE_MANY_ENTRIES };
	memcpy(from, place->path, sizeof(from));
	walker.go_on = *from == '/' ? from + 1 : NULL;
	*place->path = '\0';
	int fd = tree_open(registry_fd, ".", true);
	if (fd < 0) {
		note_unseen(&walker, errno);
		return TREE_WHOLE;
	}
	walk->on_directory(walk->context, fd);
	return walk_below(&walker, fd, 0) ? TREE_WHOLE : walker.end;
}
