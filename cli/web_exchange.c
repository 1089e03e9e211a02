#include "cli/web_exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/err.h"
#include "lib/peer/client.h"

enum {
	READING_MS = 10000,
	STALLED_MS = 60000, /* a browser that takes nothing of a piece */
	LEAVING_MS = 2000,
	BROWSER = 0, /* places in the pollers */
	AGENT = 1
};

void web_exchange_start(struct web_exchange *exchange, int browser_fd, int64_t now_ms)
{
	exchange->state = WEB_READING;
	exchange->browser_fd = browser_fd;
	exchange->agent_fd = -1;
	exchange->deadline_ms = now_ms + READING_MS;
	exchange->piece_at = exchange->piece_len = 0;
	http_reader_init(&exchange->reader, HTTP_REQUEST);
}

static void close_agent(struct web_exchange *exchange)
{
	if (exchange->agent_fd >= 0) {
		close(exchange->agent_fd);
		exchange->agent_fd = -1;
	}
}

void web_exchange_end(struct web_exchange *exchange)
{
	if (exchange->state == WEB_FREE) {
		return;
	}
	close_agent(exchange);
	close(exchange->browser_fd);
	http_reader_finish(&exchange->reader);
	exchange->state = WEB_FREE;
}

static bool has_piece(const struct web_exchange *exchange)
{
	return exchange->piece_at < exchange->piece_len;
}

void web_exchange_poll(const struct web_exchange *exchange, struct pollfd ret[WEB_POLLERS])
{
	/* POLLRDHUP: the browser went away while a stream is silent. */
	ret[BROWSER] = (struct pollfd){ .fd = exchange->browser_fd, .events = POLLIN };
	ret[AGENT] = (struct pollfd){ .fd = -1, .events = POLLIN };
	if (exchange->state == WEB_FREE) {
		ret[BROWSER].fd = -1;
	} else if (exchange->state == WEB_ANSWERING) {
		bool full = has_piece(exchange);
		ret[BROWSER].events = full ? POLLOUT : POLLRDHUP;
		ret[AGENT].fd = full ? -1 : exchange->agent_fd;
	}
}

/* ---- the request ---- */

static const char *phrase_of(int status)
{
	switch (status) {
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 421:
		return "Misdirected Request";
	case 502:
		return "Bad Gateway";
	default:
		return "Refused";
	}
}

/* An answer of our own, as the last piece. */
static void answer(struct web_exchange *exchange, int status, const char *why, int64_t now_ms)
{
	int len = snprintf(exchange->piece, sizeof(exchange->piece),
		"HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		"Content-Length: %zu\r\n%sConnection: close\r\n\r\n%s\n",
		status, phrase_of(status), strlen(why) + 1,
		status == 405 ? "Allow: GET, HEAD\r\n" : "", why);
	exchange->piece_len = (size_t)len < sizeof(exchange->piece) ? (size_t)len : 0;
	exchange->state = WEB_ANSWERING;
	exchange->deadline_ms = now_ms + STALLED_MS;
}

/*
 * A new connection has room for the whole request, so one call sends it. The browser asks again
 * when the agent's queue is full: nobody waits for it here.
 */
static void ask(struct web_exchange *exchange, const struct web_site *site, int64_t now_ms)
{
	struct err err = ERR_INIT;
	struct buffer text;
	buffer_init(&text, WEB_REQUEST_BYTES);
	web_request_write(&text, &exchange->reader);
	exchange->agent_fd = client_connect(site->socket_path, now_ms, &err);
	if (exchange->agent_fd < 0) {
		answer(exchange, 502, err.msg, now_ms);
	} else if (text.failed ||
		send(exchange->agent_fd, text.data, text.len, MSG_NOSIGNAL) != (ssize_t)text.len) {
		close_agent(exchange);
		answer(exchange, 502, "the agent did not take the request", now_ms);
	} else {
		exchange->state = WEB_ANSWERING;
		exchange->deadline_ms = INT64_MAX;
	}
	buffer_finish(&text);
}

static void read_request(struct web_exchange *exchange, const struct web_site *site, int64_t now_ms)
{
	char bytes[4096];
	ssize_t got = recv(exchange->browser_fd, bytes, sizeof(bytes), 0);
	if (got <= 0) {
		if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
			web_exchange_end(exchange);
		}
		return;
	}
	const char *at = bytes;
	enum http_event event = http_reader_next(&exchange->reader, &at, bytes + got);
	const char *why = exchange->reader.why;
	if (event == HTTP_EVENT_MORE) {
		return;
	}
	int status = event == HTTP_EVENT_HEAD ? web_request_judge(site, &exchange->reader, &why)
					      : exchange->reader.refusal;
	if (status != 0) {
		answer(exchange, status, why, now_ms);
	} else {
		ask(exchange, site, now_ms);
	}
}

/* ---- the answer ---- */

/* All is written: lets the browser read it, and close first. */
static void leave(struct web_exchange *exchange, int64_t now_ms)
{
	shutdown(exchange->browser_fd, SHUT_WR);
	exchange->state = WEB_LEAVING;
	exchange->deadline_ms = now_ms + LEAVING_MS;
}

static void read_answer(struct web_exchange *exchange, int64_t now_ms)
{
	ssize_t got = recv(exchange->agent_fd, exchange->piece, sizeof(exchange->piece), 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return;
	}
	exchange->piece_at = 0;
	exchange->piece_len = got > 0 ? (size_t)got : 0;
	exchange->deadline_ms = now_ms + STALLED_MS;
	if (got <= 0) {
		close_agent(exchange);
	}
}

static void write_answer(struct web_exchange *exchange, int64_t now_ms)
{
	ssize_t put = send(exchange->browser_fd, exchange->piece + exchange->piece_at,
		exchange->piece_len - exchange->piece_at, MSG_NOSIGNAL);
	if (put < 0) {
		if (errno != EAGAIN && errno != EINTR) {
			web_exchange_end(exchange);
		}
		return;
	}
	exchange->piece_at += (size_t)put;
	exchange->deadline_ms = has_piece(exchange) ? now_ms + STALLED_MS : INT64_MAX;
}

/* As many pieces as go without waiting would starve the others: one at a time. */
static void pass_answer(
	struct web_exchange *exchange, const struct pollfd pollers[WEB_POLLERS], int64_t now_ms)
{
	if (pollers[BROWSER].revents & (POLLRDHUP | POLLHUP | POLLERR)) {
		web_exchange_end(exchange);
		return;
	}
	if (pollers[AGENT].revents) {
		read_answer(exchange, now_ms);
	}
	if (has_piece(exchange)) {
		write_answer(exchange, now_ms);
	}
	if (exchange->state == WEB_ANSWERING && !has_piece(exchange) && exchange->agent_fd < 0) {
		leave(exchange, now_ms);
	}
}

static void read_rest(struct web_exchange *exchange)
{
	char bytes[4096];
	ssize_t got = recv(exchange->browser_fd, bytes, sizeof(bytes), 0);
	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		web_exchange_end(exchange);
	}
}

void web_exchange_go_on(struct web_exchange *exchange, const struct web_site *site,
	const struct pollfd pollers[WEB_POLLERS], int64_t now_ms)
{
	if (exchange->state == WEB_READING && pollers[BROWSER].revents) {
		read_request(exchange, site, now_ms);
	} else if (exchange->state == WEB_ANSWERING) {
		pass_answer(exchange, pollers, now_ms);
	} else if (exchange->state == WEB_LEAVING && pollers[BROWSER].revents) {
		read_rest(exchange);
	}
	if (exchange->state != WEB_FREE && now_ms >= exchange->deadline_ms) {
		web_exchange_end(exchange);
	}
}
