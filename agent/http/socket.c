#include "agent/http/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/directory.h"
#include "lib/base/array.h"

enum { BACKLOG = 1024 };

static int fill_address(struct sockaddr_un *address, const char *path, struct err *err)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	size_t len = strlen(path);
	if (len == 0 || len >= sizeof(address->sun_path)) {
		return err_set(err, BERTH_FAILED, "socket path %s: must have 1 to %zu bytes", path,
			sizeof(address->sun_path) - 1);
	}
	memcpy(address->sun_path, path, len + 1);
	return 0;
}

/*
 * Only a socket that refuses connections is a leftover; any other file belongs to another program.
 */
static int remove_stale(const struct sockaddr_un *address, struct err *err)
{
	const char *path = address->sun_path;
	struct stat status;
	if (lstat(path, &status) < 0) {
		return errno == ENOENT ? 0 : err_set_errno(err, BERTH_FAILED, errno, "%s", path);
	}
	if (!S_ISSOCK(status.st_mode)) {
		return err_set(err, BERTH_FAILED, "%s exists and is not a socket", path);
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "socket");
	}
	int error = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
	close(fd);
	if (error != ECONNREFUSED) {
		return err_set(err, BERTH_FAILED, "%s is served by another process", path);
	}
	if (unlink(path) < 0 && errno != ENOENT) {
		return err_set_errno(
			err, BERTH_FAILED, errno, "cannot remove the stale socket %s", path);
	}
	return 0;
}

/*
 * In a directory that strangers can write, the socket may have been replaced since bind(): a path
 * would lead root to the file of their choice. Only a socket of our own gets the group.
 */
static int give_to_group(const char *path, unsigned group_id, struct err *err)
{
	struct stat status;
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0) {
		err_set_errno(err, BERTH_FAILED, errno, "%s", path);
	} else if (!S_ISSOCK(status.st_mode) || status.st_uid != geteuid() ||
		status.st_nlink != 1) {
		err_set(err, BERTH_FAILED, "another process has replaced the socket %s", path);
	} else if (status.st_gid != group_id &&
		fchownat(fd, "", (uid_t)-1, group_id, AT_EMPTY_PATH) < 0) {
		err_set_errno(
			err, BERTH_FAILED, errno, "cannot give %s to group %u", path, group_id);
	}
	if (fd >= 0) {
		close(fd);
	}
	return err->code;
}

/* The umask sets the mode, so that nothing is left to do by path. Nobody can connect yet. */
static int bind_unix(int fd, const struct sockaddr_un *address, unsigned mode, unsigned group_id,
	struct err *err)
{
	const char *path = address->sun_path;
	mode_t before = umask(~(mode_t)mode & 0777);
	int ret = bind(fd, (const struct sockaddr *)address, sizeof(*address));
	int error = errno;
	umask(before);
	if (ret < 0) {
		return err_set_errno(err, BERTH_FAILED, error, "cannot make the socket %s", path);
	}
	if (group_id != (unsigned)-1 && give_to_group(path, group_id, err)) {
		return err->code;
	}
	if (listen(fd, BACKLOG) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "cannot listen on %s", path);
	}
	return 0;
}

int http_socket_unix(const char *path, unsigned mode, unsigned group_id, struct err *err)
{
	struct sockaddr_un address;
	if (fill_address(&address, path, err) || directory_make_for(path, NULL, err) ||
		remove_stale(&address, err)) {
		return BERTH_FAILED;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "socket");
	}
	if (bind_unix(fd, &address, mode, group_id, err)) {
		close(fd);
		return BERTH_FAILED;
	}
	return fd;
}

struct http_place http_socket_find(const char *path)
{
	struct stat status;
	if (lstat(path, &status) < 0) {
		return (struct http_place){ .inode = 0 };
	}
	return (struct http_place){ .device = status.st_dev, .inode = status.st_ino };
}

bool http_socket_stands(const char *path, const struct http_place *place)
{
	struct http_place found = http_socket_find(path);
	return found.inode != 0 && found.inode == place->inode && found.device == place->device;
}

void http_socket_unlink(const char *path, const struct http_place *place)
{
	if (http_socket_stands(path, place)) {
		unlink(path);
	}
}

/* host:port, [v6]:port or :port, taken apart in place. */
static int split_address(char *text, char **ret_host, char **ret_port, struct err *err)
{
	char *colon = strrchr(text, ':');
	if (!colon || !colon[1]) {
		return err_set(err, BERTH_FAILED, "listen address %s: must be host:port", text);
	}
	*colon = '\0';
	size_t len = strlen(text);
	if (text[0] == '[' && len > 2 && text[len - 1] == ']') {
		text[len - 1] = '\0';
		text++;
	}
	*ret_host = *text && strcmp(text, "*") != 0 ? text : NULL;
	*ret_port = colon + 1;
	return 0;
}

static int listen_on(const struct addrinfo *info)
{
	int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return -1;
	}
	int on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
		int error = errno;
		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

int http_socket_tcp(const char *address, struct err *err)
{
	char text[300];
	if (strlen(address) >= sizeof(text)) {
		return err_set(err, BERTH_FAILED, "listen address is too long");
	}
	strcpy(text, address);
	char *host = NULL;
	char *port = NULL;
	if (split_address(text, &host, &port, err)) {
		return BERTH_FAILED;
	}
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct addrinfo *info;
	int error = getaddrinfo(host, port, &hints, &info);
	if (error) {
		return err_set(
			err, BERTH_FAILED, "listen address %s: %s", address, gai_strerror(error));
	}
	int fd = listen_on(info);
	error = errno;
	freeaddrinfo(info);
	if (fd < 0) {
		return err_set_errno(err, BERTH_FAILED, error, "cannot listen on %s", address);
	}
	return fd;
}

int http_socket_adopt(int fd, struct err *err)
{
	int listening = 0;
	socklen_t len = sizeof(listening);
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 || !listening) {
		return err_set(err, BERTH_FAILED, "descriptor %d is not a listening socket", fd);
	}
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
		fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
		return err_set_errno(err, BERTH_FAILED, errno, "descriptor %d", fd);
	}
	return 0;
}

static void fill_groups(int fd, struct http_peer *peer)
{
	socklen_t len = sizeof(peer->groups);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, peer->groups, &len) == 0) {
		peer->group_count = len / sizeof(peer->groups[0]);
		return;
	}
	/* A kernel that does not know the groups: the user database does. */
	struct passwd entry;
	struct passwd *found = NULL;
	char names[4096];
	int count = (int)(ARRAY_LEN(peer->groups));
	if (getpwuid_r(peer->uid, &entry, names, sizeof(names), &found) == 0 && found &&
		getgrouplist(found->pw_name, peer->gid, peer->groups, &count) >= 0) {
		peer->group_count = (size_t)count;
	}
}

void http_socket_peer(int fd, struct http_peer *peer)
{
	*peer = (struct http_peer){ .known = false };
	struct ucred credentials;
	socklen_t len = sizeof(credentials);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) < 0 ||
		credentials.uid == (uid_t)-1) {
		return;
	}
	peer->known = true;
	peer->uid = credentials.uid;
	peer->gid = credentials.gid;
	peer->pid = credentials.pid;
	fill_groups(fd, peer);
}
