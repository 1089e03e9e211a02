/*
 * The kernel's news that addresses, interfaces or routes of this machine have changed.
 *
 *   WATCHING --netlink says something--> SETTLING --quiet--> on_change --> WATCHING
 *   LOOKING: without netlink, on_change comes once in a while
 *
 * A change takes several messages, and on a router they never end: while they come, on_change is
 * called at growing distances, some seconds at most.
 */
#ifndef AGENT_BASE_ADDRESS_NEWS_H
#define AGENT_BASE_ADDRESS_NEWS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/timer.h"

struct address_news {
	/* True when there was a change that matters: the next one is to be heard of soon. */
	bool (*on_change)(void *context);
	void *context;
	struct ev_loop *loop; /* the rest is the module's; NULL: it does not run */
	int fd;               /* -1: without netlink */
	int64_t pause_ms;
	int64_t called_ms;
	ev_io io;
	struct timer timer;
};

/* on_change and context are the caller's to set. Logs how it looks when netlink is refused. */
void address_news_start(struct address_news *news, struct ev_loop *loop);
void address_news_stop(struct address_news *news);

#endif
