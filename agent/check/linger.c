#include "agent/check/linger.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 16 * 1024, LINGER_BYTES = 1024 * 1024 };

void check_linger_stop(struct check_linger *linger)
{
	ev_io_stop(linger->loop, &linger->io);
	timer_stop(&linger->timer);
	if (linger->file >= 0) {
		close(linger->file);
		linger->file = -1;
	}
}

static void on_time(void *context)
{
	check_linger_stop(context);
}

static void on_io(struct ev_loop *loop, ev_io *watcher, int events)
{
	(void)loop;
	char bytes[READ_BYTES];
	struct check_linger *linger = watcher->data;
	ssize_t got = events & EV_ERROR ? 0 : recv(linger->file, bytes, sizeof(bytes), 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	if (got <= 0 || (size_t)got >= linger->left) {
		check_linger_stop(linger);
		return;
	}
	linger->left -= (size_t)got;
}

void check_linger_init(struct check_linger *linger, struct ev_loop *loop)
{
	*linger = (struct check_linger){ .loop = loop, .file = -1 };
	ev_init(&linger->io, on_io);
	linger->io.data = linger;
	timer_init(&linger->timer, loop, "end of a check's connection", on_time, linger);
}

void check_linger_take(struct check_linger *linger, int file_taken, bool hang_up, int64_t most_ms)
{
	check_linger_stop(linger);
	linger->file = file_taken;
	linger->left = LINGER_BYTES;
	if (hang_up) {
		(void)shutdown(file_taken, SHUT_WR);
	}
	ev_io_set(&linger->io, file_taken, EV_READ);
	ev_io_start(linger->loop, &linger->io);
	timer_start(&linger->timer, most_ms);
}
