/*
 * One exchange of `berth web`: a browser's request, and the agent's answer to it. A connection
 * carries one exchange.
 *
 *   FREE --> READING --(request)--> ANSWERING --(all is written)--> LEAVING --> FREE
 *               \                        ^
 *                \--(refused: an answer of our own)
 *
 * The answer passes as it comes, byte for byte, so that an event stream is as live as the agent's.
 * An exchange never blocks and holds at most one piece of the answer: the agent waits for a browser
 * that reads slowly. Each state has a deadline, but a stream may be silent for as long as it likes.
 */
#ifndef CLI_WEB_EXCHANGE_H
#define CLI_WEB_EXCHANGE_H

#include <poll.h>
#include <stdint.h>

#include "cli/web_request.h"

enum web_state { WEB_FREE, WEB_READING, WEB_ANSWERING, WEB_LEAVING };

enum { WEB_POLLERS = 2, WEB_PIECE_BYTES = 16384 };

struct web_exchange {
	enum web_state state;
	int browser_fd;
	int agent_fd;        /* -1: the rest of the answer is in `piece` */
	int64_t deadline_ms; /* on the monotonic clock; INT64_MAX: none */
	struct http_reader reader;
	size_t piece_at;
	size_t piece_len;
	char piece[WEB_PIECE_BYTES];
};

/* Takes a non-blocking descriptor. The exchange is free. */
void web_exchange_start(struct web_exchange *exchange, int browser_fd, int64_t now_ms);

/* The descriptors to wait for, -1 for those that do not matter now. */
void web_exchange_poll(const struct web_exchange *exchange, struct pollfd ret[WEB_POLLERS]);

/* Does what the descriptors allow, and ends an exchange whose time is over. */
void web_exchange_go_on(struct web_exchange *exchange, const struct web_site *site,
	const struct pollfd pollers[WEB_POLLERS], int64_t now_ms);

/* Closes everything. */
void web_exchange_end(struct web_exchange *exchange);

#endif
