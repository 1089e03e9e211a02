#include "lib/registry/dir/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int dir_session_add(struct dir_session *session, const char *path, int owner_fd, struct err *err)
{
	struct dir_owned owned = { .fd = owner_fd };
	struct dir_owned *grown = reallocarray(session->owned, session->count + 1, sizeof(*grown));
	struct stat stat;
	if (grown) {
		session->owned = grown;
		owned.path = strdup(path);
	}
	if (!owned.path || fstat(owner_fd, &stat) != 0) {
		free(owned.path);
		close(owner_fd);
		return err_set(err, BERTH_FAILED, "no memory to own %s", path);
	}
	owned.device = stat.st_dev;
	owned.inode = stat.st_ino;
	if (session->keeper) {
		session->keeper->keep(session->keeper->context, path, owner_fd);
		close(owner_fd);
		owned.fd = -1;
	}
	session->owned[session->count++] = owned;
	return 0;
}

static struct dir_owned *find(const struct dir_session *session, const struct dir_node *node)
{
	for (size_t i = 0; i < session->count; i++) {
		if (session->owned[i].inode == node->owner_inode &&
			session->owned[i].device == node->owner_device) {
			return &session->owned[i];
		}
	}
	return NULL;
}

bool dir_session_owns(const struct dir_session *session, const struct dir_node *node)
{
	return find(session, node) != NULL;
}

/*
 * The empty file tells those who look that the owner has not died. A child that writes a file has a
 * copy of the descriptor for a moment, which would keep the lock.
 */
static void unlock(const struct dir_owned *owned)
{
	struct flock lock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	if (owned->fd >= 0) {
		(void)fcntl(owned->fd, F_OFD_SETLK, &lock);
		close(owned->fd);
	}
}

static void end(const struct dir_session *session, struct dir_owned *owned)
{
	if (owned->ended) {
		return;
	}
	owned->ended = true;
	if (session->keeper) {
		session->keeper->drop(session->keeper->context, owned);
		return;
	}
	(void)!ftruncate(owned->fd, 0);
	unlock(owned);
	owned->fd = -1;
}

static void forget(struct dir_session *session, struct dir_owned *owned)
{
	free(owned->path);
	*owned = session->owned[--session->count];
}

static void drop(struct dir_session *session, struct dir_owned *owned)
{
	end(session, owned);
	forget(session, owned);
}

void dir_session_drop(struct dir_session *session, const struct dir_node *node)
{
	struct dir_owned *owned = find(session, node);
	if (owned) {
		drop(session, owned);
	}
}

void dir_session_drop_path(struct dir_session *session, const char *path)
{
	for (size_t i = session->count; i-- > 0;) {
		if (strcmp(session->owned[i].path, path) == 0) {
			drop(session, &session->owned[i]);
		}
	}
}

static void clear(struct dir_session *session)
{
	for (size_t i = 0; i < session->count; i++) {
		free(session->owned[i].path);
	}
	free(session->owned);
	*session = (struct dir_session){ .keeper = session->keeper };
}

void dir_session_release(struct dir_session *session)
{
	for (size_t i = 0; i < session->count; i++) {
		end(session, &session->owned[i]);
	}
}

void dir_session_finish(struct dir_session *session)
{
	dir_session_release(session);
	clear(session);
}

json_t *dir_session_detach(struct dir_session *session)
{
	json_t *result = json_pack("{s:s, s:[]}", "backend", "dir", "locks");
	json_t *locks = json_object_get(result, "locks");
	for (size_t i = 0; i < session->count; i++) {
		const struct dir_owned *owned = &session->owned[i];
		if (fcntl(owned->fd, F_SETFD, 0) != 0 ||
			json_array_append_new(locks,
				json_pack("{s:s, s:i}", "path", owned->path, "fd", owned->fd)) !=
				0) {
			/*
			 * no process would know of this node: it has to end now, or it never would
			 */
			close(owned->fd);
		}
	}
	clear(session);
	return result;
}

/* The file is the _owner file of the node at the path. */
static bool is_owner_at(int root_fd, const char *path, dev_t device, ino_t inode)
{
	struct err ignored = ERR_INIT;
	struct dir_node node;
	bool is = dir_node_open(&node, root_fd, path, strlen(path), &ignored) == 0 &&
		node.kind != DIR_ABSENT && node.owner_inode == inode && node.owner_device == device;
	dir_node_close(&node);
	return is;
}

static bool is_locked_by_us(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* `root_fd` NULL: wherever the nodes are. */
static void adopt_one(struct dir_session *session, const int *root_fd, const char *path, int fd)
{
	struct err ignored = ERR_INIT;
	struct stat owner;
	/* Another kind of file under this number was never one of ours. */
	if (fstat(fd, &owner) != 0 || !S_ISREG(owner.st_mode)) {
		return;
	}
	if ((root_fd && !is_owner_at(*root_fd, path, owner.st_dev, owner.st_ino)) ||
		!is_locked_by_us(fd) || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
		close(fd);
		return;
	}
	/* A program before ours did not; write_owner() of store.c has why. */
	(void)flock(fd, LOCK_SH | LOCK_NB);
	(void)!dir_session_add(session, path, fd, &ignored);
}

static void adopt_all(struct dir_session *session, const int *root_fd, const json_t *detached)
{
	const char *backend = json_string_value(json_object_get(detached, "backend"));
	const json_t *locks = json_object_get(detached, "locks");
	size_t index;
	json_t *lock;
	if (!backend || strcmp(backend, "dir") != 0) {
		return;
	}
	json_array_foreach (locks, index, lock) {
		const char *path = json_string_value(json_object_get(lock, "path"));
		const json_t *fd = json_object_get(lock, "fd");
		if (path && path[0] == '/' && json_is_integer(fd)) {
			adopt_one(session, root_fd, path, (int)json_integer_value(fd));
		}
	}
}

void dir_session_adopt(struct dir_session *session, int root_fd, const json_t *detached)
{
	adopt_all(session, &root_fd, detached);
}

/* ---- keepers ---- */

void dir_session_receive(struct dir_session *session, const json_t *detached)
{
	adopt_all(session, NULL, detached);
}

void dir_session_unlock(struct dir_session *session, dev_t device, ino_t inode)
{
	for (size_t i = session->count; i-- > 0;) {
		struct dir_owned *owned = &session->owned[i];
		if (owned->device == device && owned->inode == inode) {
			unlock(owned);
			forget(session, owned);
		}
	}
}

void dir_session_unlock_all(struct dir_session *session)
{
	for (size_t i = 0; i < session->count; i++) {
		unlock(&session->owned[i]);
	}
	clear(session);
}

void dir_session_enter_kept(
	struct dir_session *session, int root_fd, const char *path, dev_t device, ino_t inode)
{
	struct dir_owned owned = { .fd = -1, .device = device, .inode = inode };
	struct dir_owned *grown = reallocarray(session->owned, session->count + 1, sizeof(*grown));
	if (grown) {
		session->owned = grown;
		owned.path = strdup(path);
	}
	if (!owned.path || !is_owner_at(root_fd, path, device, inode)) {
		session->keeper->drop(session->keeper->context, &owned);
		free(owned.path);
		return;
	}
	session->owned[session->count++] = owned;
}
