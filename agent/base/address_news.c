#include "agent/base/address_news.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "lib/base/clock.h"

enum {
	SHORTEST_PAUSE_MS = 200,
	LONGEST_PAUSE_MS = 5000,
	LOOK_MS = 10000,
	ROOM_BYTES = 4096, /* for messages that nobody reads: that there are some is enough */
	MESSAGES = 64,     /* at once */
};

static int open_netlink(void)
{
	const int room = ROOM_BYTES;
	struct sockaddr_nl address = { .nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
			RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (fd < 0) {
		return -errno;
	}
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		int error = errno;
		close(fd);
		return -error;
	}
	return fd;
}

/* Messages that do not fit into the socket are one error. */
static void read_messages(const struct address_news *news)
{
	char bytes[ROOM_BYTES];
	for (int i = 0; i < MESSAGES &&
		(recv(news->fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0 || errno == ENOBUFS);
		i++) {
	}
}

static void on_timer(void *context)
{
	struct address_news *news = context;
	if (news->fd >= 0) {
		read_messages(news);
	}
	bool matters = news->on_change(news->context);
	news->called_ms = clock_monotonic_ms();
	if (!news->loop) {
		return; /* stopped from there */
	}
	if (news->fd < 0) {
		timer_start(&news->timer, LOOK_MS);
		return;
	}
	news->pause_ms = matters ? SHORTEST_PAUSE_MS : 2 * news->pause_ms;
	if (news->pause_ms > LONGEST_PAUSE_MS) {
		news->pause_ms = LONGEST_PAUSE_MS;
	}
	ev_io_start(news->loop, &news->io);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct address_news *news = io->data;
	ev_io_stop(loop, io);
	if (clock_monotonic_ms() - news->called_ms > 2 * LONGEST_PAUSE_MS) {
		news->pause_ms = SHORTEST_PAUSE_MS;
	}
	if (events & EV_ERROR) { /* the kernel refuses to watch it */
		close(news->fd);
		news->fd = -1;
	}
	timer_start(&news->timer, news->pause_ms);
}

void address_news_start(struct address_news *news, struct ev_loop *loop)
{
	news->loop = loop;
	news->pause_ms = SHORTEST_PAUSE_MS;
	timer_init(&news->timer, loop, "addresses", on_timer, news);
	news->fd = open_netlink();
	if (news->fd < 0) {
		log_info("agent",
			"the kernel does not report changes of addresses (netlink: %s): they are "
			"looked at every %d s",
			strerror(-news->fd), LOOK_MS / 1000);
		news->fd = -1;
		timer_start(&news->timer, LOOK_MS);
		return;
	}
	ev_io_init(&news->io, on_readable, news->fd, EV_READ);
	news->io.data = news;
	ev_io_start(loop, &news->io);
}

void address_news_stop(struct address_news *news)
{
	if (!news->loop) {
		return;
	}
	timer_stop(&news->timer);
	if (news->fd >= 0) {
		ev_io_stop(news->loop, &news->io);
		close(news->fd);
	}
	news->loop = NULL;
}
