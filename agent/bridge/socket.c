#include "agent/bridge/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/text.h"

static const char FILE_NAME[] = "berth.sock";

enum { BACKLOG = 128, EVERYBODY = 0666 }; /* the mount decides who gets to it */

static struct http_place find(int directory)
{
	struct stat stat;
	if (fstatat(directory, FILE_NAME, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
		return (struct http_place){ .inode = 0 };
	}
	return (struct http_place){ .device = stat.st_dev, .inode = stat.st_ino };
}

static bool is_place(const struct http_place *a, const struct http_place *b)
{
	return a->inode != 0 && a->inode == b->inode && a->device == b->device;
}

static int take_inherited(const char *name, const struct http_place *place,
	struct bridge_socket *inherited, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct bridge_socket *socket = &inherited[i];
		if (socket->fd >= 0 && strcmp(socket->container, name) == 0 &&
			is_place(&socket->place, place)) {
			int fd = socket->fd;
			socket->fd = -1;
			return fd;
		}
	}
	return -1;
}

/* Only a socket is a leftover; the agent has the lock of its state, so nobody serves it. */
static int remove_stale(int directory, struct err *err)
{
	struct stat stat;
	if (fstatat(directory, FILE_NAME, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
		return 0;
	}
	if (!S_ISSOCK(stat.st_mode)) {
		return err_set(err, BERTH_FAILED, "%s exists and is not a socket", FILE_NAME);
	}
	return unlinkat(directory, FILE_NAME, 0) == 0
		? 0
		: err_set_errno(err, BERTH_FAILED, errno, "cannot remove a stale %s", FILE_NAME);
}

static int make(int directory, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (remove_stale(directory, err)) {
		return -1;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		err_set_errno(err, BERTH_FAILED, errno, "socket");
		return -1;
	}
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", directory,
		FILE_NAME);
	mode_t before = umask(~(mode_t)EVERYBODY & 0777);
	int bound = bind(fd, (const struct sockaddr *)&address, sizeof(address));
	int error = errno;
	umask(before);
	if (bound != 0 || listen(fd, BACKLOG) != 0) {
		err_set_errno(
			err, BERTH_FAILED, bound != 0 ? error : errno, "cannot make %s", FILE_NAME);
		close(fd);
		return -1;
	}
	return fd;
}

int bridge_listener_renew(struct bridge_listener *listener, struct http *http, const char *name,
	int directory, struct bridge_socket *inherited, size_t count, struct err *err)
{
	struct http_place place = find(directory);
	if (listener->http && is_place(&place, &listener->place)) {
		return 0;
	}
	bridge_listener_finish(listener);
	int fd = take_inherited(name, &place, inherited, count);
	if (fd < 0) {
		fd = make(directory, err);
		place = find(directory);
	}
	if (fd < 0) {
		return err->code;
	}
	listener->http = http_container_open(http, name, fd);
	listener->place = place;
	return 0;
}

void bridge_listener_finish(struct bridge_listener *listener)
{
	http_container_close(listener->http);
	listener->http = NULL;
}

bool bridge_listener_pass(
	const struct bridge_listener *listener, const char *name, struct bridge_socket *ret_socket)
{
	int fd = listener->http
		? fcntl(http_container_fd(listener->http), F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
		: -1;
	if (fd < 0) {
		return false;
	}
	*ret_socket = (struct bridge_socket){ .fd = fd, .place = listener->place };
	text_printf(ret_socket->container, sizeof(ret_socket->container), "%s", name);
	return true;
}
