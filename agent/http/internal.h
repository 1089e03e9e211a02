/*
 * Shared by the files of http.h: http.c (listeners, and libmicrohttpd's calls), accept.c, connection.c (one
 * connection: waiting, answering, streaming), response.c, parameter.c.
 */
#ifndef AGENT_HTTP_INTERNAL_H
#define AGENT_HTTP_INTERNAL_H

#include <microhttpd.h>

#include "lib/base/buffer.h"
#include "agent/http/http.h"
#include "lib/base/list.h"

struct http_response {
	struct MHD_Response *mhd;
	unsigned references;
};

/* One connection and its one request at a time. */
struct connection {
	struct http_request request; /* first: a request is found in its connection */
	struct http *http;
	struct MHD_Connection *mhd;
	struct list link;
	ev_tstamp last; /* sign of life */
	int fd;
	int status;
	struct http_response *answer; /* came later: waits for libmicrohttpd to ask for it */
	enum MHD_Result queued;       /* came within the handler */
	const char *target_end;
	struct buffer body;
	void (*on_closed)(void *context);
	void *on_closed_context;
	struct http_stream_callbacks stream;
	bool heard;  /* a request line has been read */
	bool active; /* a request is under way */
	bool in_handler;
	bool suspended;
	bool answered;
	bool streaming;
	bool pinned;
	bool watched; /* for its hang-up */
	bool lasting; /* the request waits for what may take minutes */
	bool half_closed;
	bool gone;
};

struct listener {
	struct http *http;
	struct MHD_Daemon *daemon;
	ev_io io; /* of the daemon */
	ev_io accept;
	ev_timer retry; /* while nothing can be accepted */
	int fd;
	bool local;
	bool exhausted; /* the last accept() failed */
	size_t connections;
	size_t max_connections;
};

struct http {
	struct ev_loop *loop;
	struct http_options options;
	char *socket_path;
	struct listener listeners[2];
	size_t listener_count;
	ev_idle kick;     /* something was resumed, or libmicrohttpd has more to do: do not block */
	ev_timer sweep;   /* idle connections */
	int hangup_epoll; /* libmicrohttpd does not look at suspended connections */
	ev_io hangup;
	struct list connections;
	size_t connection_count;
	size_t requests;
	uint64_t next_connection;
	bool closing;
};

void http_accept_start(struct listener *listener);
/* A connection of the listener's has ended: there may be room for another. */
void http_accept_more(struct listener *listener);
/* Closes the listening socket. */
void http_accept_stop(struct listener *listener);
/* Takes the descriptor. False when the connection has ended with that. */
bool http_accept_add(struct listener *listener, int fd);

/* Exempts it from the idle timeout, and watches for its end. */
void http_connection_pin(struct connection *connection);
/* Stops looking at the socket until http_connection_resume(). False when the peer is known to be gone. */
bool http_connection_suspend(struct connection *connection);
void http_connection_resume(struct connection *connection);
/* Hands an answer to libmicrohttpd, which asks for it. MHD_NO closes the connection, and so does NULL. */
enum MHD_Result http_connection_queue(
	struct connection *connection, int status, const struct http_response *response);
/* Has ended its half while something lasts: what that means over TCP. */
bool http_connection_has_left(const struct connection *connection);

/* Percent-decodes a query parameter; "+" is a blank, as forms and URL libraries send it. The length, or -1: no text, or too long. */
int http_decode(const char *text, char *out, size_t size);

#endif
