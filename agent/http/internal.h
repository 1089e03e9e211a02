/*
 * Shared by the files of the server. A file calls only those below it:
 *
 *   http.c         opening, closing, upgrade
 *   container.c    listening sockets for one container each
 *   accept.c       taking connections in
 *   serve.c        a connection from its beginning to its end: reads, hands requests on, writes
 *   answer.c       answers and streams: their heads, and writing them
 *   connection.c   the state of a connection, the end of a request
 *   share.c        the share of one client
 *   response.c     responses          listener.c  when connections are taken in
 *   request.c      parts of a request
 *   socket.c       the listening sockets and the file of the Unix socket
 */
#ifndef AGENT_HTTP_INTERNAL_H
#define AGENT_HTTP_INTERNAL_H

#include "agent/base/timer.h"
#include "agent/http/http.h"
#include "lib/base/buffer.h"
#include "lib/base/list.h"
#include "lib/http/reader.h"
#include "lib/program/log_rate.h"

#define HTTP_SCRATCH_BYTES (16 * 1024)
#define HTTP_DATE_BYTES 37 /* "Date: Sun, 06 Nov 1994 08:49:37 GMT", CR, LF */
/*
 * All bytes that wait for clients to read them, and all requests that clients have begun to send.
 */
#define HTTP_HELD_BYTES (64 * 1024 * 1024)

struct client; /* see share.c */

struct http_response {
	unsigned references;
	struct buffer head; /* content fields, the other fields, and the empty line */
	size_t content_len; /* bytes of the content fields, which a 304 leaves out */
	size_t etag;        /* place and length in `head` */
	size_t etag_len;
	const char *body;
	size_t len;
	void (*release)(void *context);
	void *context;
	int fd;               /* that goes with it; -1: none */
	size_t writers;       /* connections that still have to write it */
	struct client *payer; /* the client whose share it counts in, while there are writers */
	char packed[];        /* the bytes of `head`, after http_response_pack() */
};

/*
 * The life of a connection; it has one request at a time.
 *
 *             bytes           head and body        handler returns without an answer
 *   IDLE <-----------> READING ------------> HANDLING ------------> WAITING
 *    ^  \                 |                   |  |                   |   |
 *    |   \                | refused           |  | answer            |   | answer
 *    |    \               v                   |  v                   |   v
 *    |     \              +-----------------> WRITING <--------------|---+
 *    |      \             | all is written     |                     |
 *    +-------|----------- | <------------------+                     | http_stream(), here or there
 *            |            v or LINGERING, when the client may still  v
 *            |            |    send what is thrown away           STREAMING
 *            v            v                                          v
 *          GONE: its watcher frees it <------------------------------+
 *
 * A request that comes in one piece goes from IDLE on as from READING; READING becomes IDLE when
 * only empty lines have come. In every state but GONE the client may go away, and the state becomes
 * GONE. http_connection_set_state() knows the steps.
 */
enum http_connection_state {
	HTTP_IDLE,
	HTTP_READING,
	HTTP_HANDLING,
	HTTP_WAITING,
	HTTP_WRITING,
	HTTP_STREAMING,
	HTTP_LINGERING,
	HTTP_GONE
};

/* The use of the body of the request. */
enum http_connection_body { HTTP_BODY_NONE, HTTP_BODY_KEPT, HTTP_BODY_THROWN_AWAY };

/* The sequel of a written answer. LINGER: the client may still be sending. */
enum http_connection_sequel { HTTP_THEN_CLOSE, HTTP_THEN_LINGER, HTTP_THEN_NEXT_REQUEST };

struct connection {
	struct http_request request; /* first: a request is found in its connection */
	struct http *http;
	struct listener *listener;
	struct client *client;
	struct list link;
	struct list woken; /* on http->woken: to be run although the socket says nothing */
	ev_io io;
	enum http_connection_state state;
	/* Beside the state: */
	bool pinned;
	bool half_closed; /* the client has ended its half */
	bool active;      /* a request is under way: from its head to the end of its answer */
	bool lasting;     /* the answer may take any time */
	bool watches;     /* is counted as a watcher of its client */
	bool searches;    /* likewise as a search */
	enum http_connection_body body_use;
	enum http_connection_sequel sequel;
	double last; /* monotonic: when a request ended, or the client took a part of an answer */
	struct http_reader reader;
	struct buffer input; /* has come before its turn */
	struct buffer body;
	size_t thrown_away; /* bytes of a body, or while lingering */
	struct buffer out;  /* has to be written before `response` */
	struct http_response *response;
	struct http_response *handing; /* its descriptor goes with the next byte; or NULL */
	size_t sent;                   /* of its body */
	size_t stream_bytes;           /* held by the source of its stream */
	size_t held;                   /* bytes that the budget counts for it */
	void (*on_closed)(void *context);
	void *on_closed_context;
	size_t (*on_read)(void *context, char *buffer, size_t size);
};

static inline struct connection *http_connection_of(const struct http_request *request)
{
	return (struct connection *)(uintptr_t)request;
}

struct listener {
	struct http *http;
	/* whose bound on connections holds: itself, or for a container the Unix socket */
	struct listener *pool;
	struct http_container *container; /* that it is for alone; or NULL */
	char *name;                       /* of a further listener; or NULL */
	char *address;                    /* over TCP */
	bool full; /* no connection was accepted, here or for a container, until one ends */
	ev_io accept;
	struct timer retry; /* while nothing can be accepted */
	int fd;
	bool local;
	bool exhausted; /* the last accept() failed */
	size_t connections;
	size_t max_connections;
};

struct http_container {
	struct list link;
	struct listener listener;
	char *name;
};

struct http {
	struct ev_loop *loop;
	struct http_options options;
	char *socket_path;
	struct http_place socket_place;
	bool socket_missing; /* and could not be made again: logged already */
	struct listener
		*listeners; /* the Unix socket, `listen` if there is one, the further ones */
	size_t listener_count;
	struct list containers;
	int max_remote;     /* connections over TCP */
	struct timer sweep; /* idle connections */
	struct list woken;  /* connections to run, in the order in which they were woken */
	ev_idle kick;
	struct list connections;
	struct list clients;
	struct log_rate lines; /* of the log, that all clients cause */
	size_t held;           /* bytes, of HTTP_HELD_BYTES */
	size_t connection_count;
	size_t requests;
	uint64_t next_connection;
	bool closing;
	time_t date_time;
	char date[HTTP_DATE_BYTES];       /* the line of date_time, without a NUL */
	unsigned turn;                    /* of the loop */
	size_t pumped;                    /* bytes of streams in this turn */
	char scratch[HTTP_SCRATCH_BYTES]; /* bytes just read, or about to be written */
};

/* ---- accept.c ---- */

void http_accept_start(struct listener *listener);
/* Takes `fd` for the listening socket, once the connections that wait for the old one are in. */
void http_accept_replace(struct listener *listener, int fd);

/* ---- serve.c ---- */

/* Takes the descriptor. */
struct connection *http_connection_create(struct listener *listener, int fd, uint64_t id);
/* Calls the handlers that wait for its end. */
void http_connection_destroy(struct connection *connection);
/* Acts as its state demands, as if its watcher had been called. May free it. */
void http_connection_run(struct connection *connection, int events);
/* Looks for an end that no watcher reports, and for silence since `limit`. May free it. */
void http_connection_sweep(struct connection *connection, double limit);

/* ---- answer.c ---- */

/* Answers a request that no handler sees, and closes the connection. */
void http_refuse(struct connection *connection, int status, const char *detail);
/* Answers that a condition of the request does not hold. */
void http_refuse_condition(struct connection *connection);
void http_send_continue(struct connection *connection);
/* Goes on writing. */
void http_write(struct connection *connection);
void http_pump(struct connection *connection);

/* ---- connection.c ---- */

/* The only place that sets it; a step that the diagram does not have is a fault of the server. */
void http_connection_set_state(struct connection *connection, enum http_connection_state state);
/* Has the client gone? Over TCP a client that ends its half waits no more for a lasting answer. */
bool http_connection_has_left(const struct connection *connection);
/* Has it run in the next turn of the loop. */
void http_connection_wake(struct connection *connection);
/* All of the answer is written. */
void http_connection_end_request(struct connection *connection);
/* Frees the kept parts of the request; its answer may go on. */
void http_connection_free_request(struct connection *connection);

/* ---- share.c ---- */

/* The client of a connection, with a reference for it. */
struct client *http_client_get(const struct listener *listener, int fd);
void http_client_release(struct client *client);
/* Once no client has a connection. */
void http_clients_finish(struct http *http);
struct log_rate *http_client_log_rate(struct client *client);
void http_client_count(struct client *client, int connections);
/* May it have this connection, which is counted already? */
bool http_client_may_connect(struct client *client, const struct listener *listener);
/* True when the log should say so: the first refusal in a row. */
bool http_client_note_refusal(struct client *client, bool refused);
void http_end_watch(struct connection *connection);
/* Counts the bytes of the connection anew. False: it has grown, and there is no room for that. */
bool http_account(struct connection *connection);
/*
 * Counts the body of the response for the connection until it is written. False: there is no room.
 */
bool http_response_hold(struct connection *connection, struct http_response *response);
void http_response_drop(struct connection *connection);
/* The connection is about to hand over the response's descriptor; has done so, or will not. */
void http_hand_over_begin(struct connection *connection, struct http_response *response);
void http_hand_over_end(struct connection *connection);
/* The connection ends: nothing is on its way to the client by it any more. */
void http_hand_over_forget(struct connection *connection);

/* ---- listener.c ---- */

/* Begins to ask it for connections; its `accept` watcher is made. */
void http_listener_start(struct listener *listener);
/* Accepts no connection for a moment, since the kernel lacks what `error` says. */
void http_listener_pause(struct listener *listener, int error);
/* A connection of the listener's has ended: there may be room for another. */
void http_listener_more(struct listener *listener);
/* Closes the listening socket. */
void http_listener_stop(struct listener *listener);

/* ---- request.c ---- */

/* Fills the connection's request from its reader. False: the method is unknown. */
bool http_request_fill(struct connection *connection);

#endif
