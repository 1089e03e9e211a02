/* Listening sockets for one container each: all that come by one of them are the same client. */
#include <stdlib.h>

#include "agent/base/allocate.h"
#include "agent/http/internal.h"

struct http_container *http_container_open(struct http *http, const char *name, int fd_take)
{
	struct http_container *container = allocate_zeroed(1, sizeof(*container));
	container->name = allocate_text(name);
	container->listener = (struct listener){
		.http = http,
		.pool = &http->listeners[0],
		.fd = fd_take,
		.local = true,
		.container = container,
	};
	list_append(&http->containers, &container->link);
	http_accept_start(&container->listener);
	return container;
}

void http_container_close(struct http_container *container)
{
	if (!container) {
		return;
	}
	struct http *http = container->listener.http;
	struct list *next;
	for (struct list *at = http->connections.next; at != &http->connections; at = next) {
		struct connection *connection = LIST_ITEM(at, struct connection, link);
		next = at->next;
		if (connection->listener == &container->listener) {
			http_connection_destroy(connection);
		}
	}
	http_listener_stop(&container->listener);
	list_remove(&container->link);
	free(container->name);
	free(container);
}

int http_container_fd(const struct http_container *container)
{
	return container->listener.fd;
}
