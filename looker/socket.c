#include "looker/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char FILE_NAME[] = "berth.sock";

enum { BACKLOG = 128, EVERYBODY = 0666 }; /* the mount decides who gets to it */

static struct socket_place find(int directory)
{
	struct stat stat;
	if (fstatat(directory, FILE_NAME, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
		return (struct socket_place){ .inode = 0 };
	}
	return (struct socket_place){ .device = stat.st_dev, .inode = stat.st_ino };
}

static bool is_place(const struct socket_place *a, const struct socket_place *b)
{
	return a->inode != 0 && a->inode == b->inode && a->device == b->device;
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

int socket_renew(int directory, struct socket_place *place, int *ret_fd, struct err *err)
{
	struct socket_place found = find(directory);
	if (is_place(&found, place)) {
		*ret_fd = -1;
		return 0;
	}
	int fd = make(directory, err);
	if (fd < 0) {
		return err->code;
	}
	*place = find(directory);
	*ret_fd = fd;
	return 0;
}
