#include "agent/check/linger.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"

enum { READ_BYTES = 16 * 1024, LINGER_BYTES = 1024 * 1024, AT_ONCE = 4 };

struct connection {
	struct check_linger *linger;
	struct list link; /* on linger->open */
	ev_io io;
	struct timer timer;
	size_t left;
};

static void end(void *context)
{
	struct connection *connection = context;
	ev_io_stop(connection->linger->loop, &connection->io);
	timer_stop(&connection->timer);
	list_remove(&connection->link);
	connection->linger->count--;
	close(connection->io.fd);
	free(connection);
}

static void on_io(struct ev_loop *loop, ev_io *watcher, int events)
{
	(void)loop;
	char bytes[READ_BYTES];
	struct connection *connection = watcher->data;
	ssize_t got = events & EV_ERROR ? 0 : recv(watcher->fd, bytes, sizeof(bytes), 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	if (got <= 0 || (size_t)got >= connection->left) {
		end(connection);
		return;
	}
	connection->left -= (size_t)got;
}

static void end_oldest(struct check_linger *linger)
{
	end(LIST_ITEM(linger->open.next, struct connection, link));
}

void check_linger_init(struct check_linger *linger, struct ev_loop *loop)
{
	linger->loop = loop;
	linger->count = 0;
	list_init(&linger->open);
}

void check_linger_take(struct check_linger *linger, int file_taken, bool hang_up, int64_t most_ms)
{
	struct connection *connection = allocate_zeroed(1, sizeof(*connection));
	if (linger->count == AT_ONCE) {
		end_oldest(linger);
	}
	if (hang_up) {
		(void)shutdown(file_taken, SHUT_WR);
	}
	connection->linger = linger;
	connection->left = LINGER_BYTES;
	list_append(&linger->open, &connection->link);
	linger->count++;
	ev_io_init(&connection->io, on_io, file_taken, EV_READ);
	connection->io.data = connection;
	ev_io_start(linger->loop, &connection->io);
	timer_init(
		&connection->timer, linger->loop, "end of a check's connection", end, connection);
	timer_start(&connection->timer, most_ms);
}

void check_linger_stop(struct check_linger *linger)
{
	while (linger->count > 0) {
		end_oldest(linger);
	}
}
