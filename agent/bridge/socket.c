#include "agent/bridge/socket.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/text.h"

void bridge_listener_inherit(struct bridge_listener *listener, struct http *http, const char *name,
	struct bridge_socket *inherited, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct bridge_socket *socket = &inherited[i];
		if (socket->fd >= 0 && strcmp(socket->container, name) == 0) {
			bridge_listener_take(listener, http, name, socket->fd, &socket->place);
			socket->fd = -1;
		}
	}
}

void bridge_listener_take(struct bridge_listener *listener, struct http *http, const char *name,
	int fd_take, const struct http_place *place)
{
	bridge_listener_finish(listener);
	listener->http = http_container_open(http, name, fd_take);
	listener->place = *place;
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
