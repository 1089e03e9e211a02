#include "xds/listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, HOST_BYTES = 64 };

/* A socket file whose program has ended. */
static bool is_left_behind(const struct sockaddr_un *address)
{
	struct stat status;
	if (lstat(address->sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) {
		return false;
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused = fd >= 0 &&
		connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
		errno == ECONNREFUSED;
	if (fd >= 0) {
		close(fd);
	}
	return refused;
}

static int open_unix(const char *path, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen(path) >= sizeof(address.sun_path)) {
		return err_set(err, BERTH_FAILED, "%s: the path of a socket has %zu bytes at most",
			path, sizeof(address.sun_path) - 1);
	}
	strcpy(address.sun_path, path);
	if (is_left_behind(&address)) {
		unlink(path);
	}
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
		listen(fd, BACKLOG) != 0) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot listen at %s", path);
		if (fd >= 0) {
			close(fd);
		}
		return err->code;
	}
	return fd;
}

static int bind_tcp(const struct addrinfo *address)
{
	const int yes = 1;
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
		int saved = errno;
		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static int open_tcp(const char *where, const char *colon, struct err *err)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
		.ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char host[HOST_BYTES];
	bool bracketed = where[0] == '[' && colon > where && colon[-1] == ']';
	int len = (int)(colon - where) - (bracketed ? 2 : 0);
	snprintf(host, sizeof(host), "%.*s", len, where + bracketed);
	if (len <= 0 || len >= HOST_BYTES || getaddrinfo(host, colon + 1, &hints, &found) != 0) {
		return err_set(err, BERTH_FAILED,
			"cannot listen at '%s': allowed are the path of a socket, and address:port "
			"with a numeric address",
			where);
	}
	int fd = bind_tcp(found);
	if (fd < 0) {
		err_set_errno(err, BERTH_FAILED, errno, "cannot listen at %s", where);
	}
	freeaddrinfo(found);
	return fd < 0 ? err->code : fd;
}

int listen_open(const char *where, struct err *err)
{
	const char *colon = strrchr(where, ':');
	return strchr(where, '/') || !colon ? open_unix(where, err) : open_tcp(where, colon, err);
}
