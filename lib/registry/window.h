/*
 * The window after a reconnect over which the confirmations of many watches are spread. Pure.
 */
#ifndef LIB_REGISTRY_WINDOW_H
#define LIB_REGISTRY_WINDOW_H

#include <stddef.h>
#include <stdint.h>

struct registry_window {
	size_t count; /* confirmations at the reconnect */
	size_t begun; /* how many of them have begun */
	int64_t from_ms;
	int64_t length_ms;
};

/*
 * Opens the window at `now_ms` for `count` confirmations. It grows with their number, but is no
 * longer than half of the session's timeout.
 */
void registry_window_open(
	struct registry_window *window, size_t count, int64_t now_ms, int session_timeout_ms);
/* The number of confirmations that may have begun at `now_ms`. */
size_t registry_window_due(const struct registry_window *window, int64_t now_ms);
/* The time of the next confirmation. */
int64_t registry_window_next_ms(const struct registry_window *window);

#endif
