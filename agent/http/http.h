/*
 * HTTP/1.1 in the agent's loop: a Unix socket, and a TCP listener for the read-only subset.
 *
 * A handler answers a request at once, or keeps it and answers later, or turns it into a stream:
 *
 *   on_request --> http_answer()                         done
 *             \--> (returns) ... http_answer()            later, or on_closed: the client has gone
 *              \-> http_stream() --> on_read, on_read, ... --> on_closed
 *
 * The server reads by lib/http/reader.h, keeps the order of pipelined requests, evaluates
 * conditions against the ETag of an answer, and writes head and body in one call. A hostile client
 * costs at most one connection of bounded memory: heads, bodies, unread answers, connections and
 * silence are limited here.
 */
#ifndef AGENT_HTTP_HTTP_H
#define AGENT_HTTP_HTTP_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

#define HTTP_CONTAINER_BYTES 72     /* for the name of a container */
#define HTTP_LISTENER_BYTES 72      /* for the name of a further listener */
#define HTTP_BODY_BYTES (64 * 1024) /* bytes of a request's body; longer: 413 */

struct http;
struct http_response; /* may be sent many times, to many clients */

/* HTTP_OTHER: a method of the standard that no resource here has. */
enum http_method {
	HTTP_GET,
	HTTP_HEAD,
	HTTP_POST,
	HTTP_PUT,
	HTTP_DELETE,
	HTTP_OPTIONS,
	HTTP_OTHER
};

/*
 * One request. Everything is borrowed, and valid until it was answered, became a stream, or was
 * closed.
 */
struct http_request {
	enum http_method method;
	const char *path;  /* raw, without the query; "*" for the server as a whole */
	const char *query; /* raw, "" without one */
	const char *host;  /* by which the client came, and perhaps a port; "" without one */
	size_t host_len;
	const char *accept; /* these are NULL when absent */
	const char *cache_control;
	const char *if_none_match;
	const char *last_event_id;
	const char *prefer;
	const char *body; /* NUL-terminated, "" without one */
	size_t body_len;
	uint64_t connection; /* names the connection as long as the agent lives */
	bool local;          /* came over the Unix socket, or over a container's */
	/* the name of the container over whose socket it came; NULL: over none */
	const char *container;
	const char *listener; /* the name of the further listener by which it came; or NULL */
};

/* The client at the other end of a Unix socket, by the kernel's word. */
struct http_peer {
	bool known;
	uid_t uid;
	gid_t gid;
	pid_t pid;
	gid_t groups[64]; /* supplementary ones */
	size_t group_count;
};

/* Which file of the file system a socket is; inode 0: unknown. */
struct http_place {
	uint64_t device;
	uint64_t inode;
};

/* A further TCP listener, whose requests carry its name. */
struct http_listen {
	const char *name;    /* shorter than HTTP_LISTENER_BYTES */
	const char *address; /* host:port, or "" for now */
	int fd;              /* an inherited listening socket, or -1 */
};

struct http_options {
	const char *socket_path;
	unsigned socket_mode;
	unsigned socket_group_id;          /* (unsigned)-1: leave as it is */
	int socket_fd;                     /* an inherited listening socket, or -1 */
	const char *listen;                /* host:port, "" for none */
	bool listens_later;                /* there is no such address yet: http_listen_at() */
	int listen_fd;                     /* an inherited listening socket, or -1 */
	const struct http_listen *further; /* borrowed for the call */
	size_t further_count;
	/* of the inherited socket, as http_socket_place() gave it */
	struct http_place socket_place;
	bool keep_socket; /* the path is not ours to unlink (socket activation) */
	int max_connections;
	int reserved; /* descriptors that the rest of the agent needs beyond the usual */
	/*
	 * Closes a connection on which no request has ended, and no byte of an answer was taken,
	 * for so long.
	 */
	int idle_timeout_ms;
	/* Must answer, or keep the request to answer later; see http_on_closed(). */
	void (*on_request)(void *context, struct http_request *request);
	/*
	 * Is the body of this request to be read for on_request? False: it is thrown away. Decides
	 * by the head alone.
	 */
	bool (*wants_body)(void *context, const struct http_request *request);
	/* A connection that http_pin() named has ended. */
	void (*on_pinned_closed)(void *context, uint64_t connection);
	void *context;
};

/*
 * Opens the listeners. A socket file that no process serves is replaced; a served one is an error,
 * as is any other kind of file. BERTH_FAILED.
 */
int http_open(struct http **ret_http, struct ev_loop *loop, const struct http_options *options,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);
/*
 * Ends every request (their on_closed are called), closes the listeners, unlinks the own socket.
 * Accepts NULL.
 */
void http_close(struct http *http);

/*
 * Makes the Unix socket again when its file was removed or replaced; logs why when that is not
 * possible. Connections go on. Also done now and then by itself.
 */
void http_renew_socket(struct http *http);
/*
 * Lets the TCP listener of this name ("": that of `listen`) listen at another address, if it is
 * another one; "": at none. Connections go on. 0; or BERTH_FAILED, and nothing has changed.
 */
int http_listen_at(struct http *http, const char *name, const char *address, struct err *err)
	ERR_REQUIRED(4);
/* The file that the Unix socket has made; inode 0 when the path is not ours. */
struct http_place http_socket_place(const struct http *http);
/* The listening descriptors, for a successor; -1 when there is none. */
int http_socket_fd(const struct http *http);
int http_listen_fd(const struct http *http);
/* Likewise of the further listener of this name. */
int http_further_fd(const struct http *http, const char *name);

/*
 * A listening Unix socket that one container alone can reach. All requests that come by it are this
 * container's, and count as one client, whatever the kernel says of the peers. Takes the
 * descriptor.
 */
struct http_container;
struct http_container *http_container_open(struct http *http, const char *name, int fd_take);
/* Ends its connections, too; never from a handler. Accepts NULL. */
void http_container_close(struct http_container *container);
int http_container_fd(const struct http_container *container);

/*
 * A connection between two requests, which a successor can go on with; or a connection that was
 * pinned and ends now.
 */
struct http_kept {
	int fd;      /* -1: it ends */
	uint64_t id; /* http_request.connection */
	bool local;
	bool pinned;
	char container[HTTP_CONTAINER_BYTES]; /* over whose socket it came; "": over none */
	char listener[HTTP_LISTENER_BYTES];   /* by which further one it came; "": by none */
};

/*
 * Writes pending answers as far as the sockets take them; reads and handles requests that have
 * arrived.
 */
void http_flush(struct http *http);
/*
 * For a successor of this process: the connections without a request under way, and the pinned
 * ones, `max` at most; how many. The descriptors stay ours. A request of which only a part has come
 * is cut off.
 */
size_t http_keep(const struct http *http, struct http_kept *kept, size_t max);
/*
 * Goes on with a connection of a predecessor. Takes the descriptor; false when the connection has
 * ended with that.
 */
bool http_adopt(struct http *http, const struct http_kept *kept);
size_t http_connections(const struct http *http);
/* Requests begun and not finished, streams included. */
size_t http_requests(const struct http *http);

/*
 * The value of a query parameter, percent-decoded, into out: 1 found, 0 absent, BERTH_FAILED when
 * it does not fit or is not a text.
 */
int http_parameter(const struct http_request *request, const char *name, char *out, size_t size,
	struct err *err) ERR_REQUIRED(5);
/*
 * Percent-decodes a query parameter; "+" is a blank, as forms and URL libraries send it. The
 * length, or -1: no text, or too long.
 */
int http_decode(const char *text, size_t len, char *out, size_t size);
/* Fills `peer` from the kernel; peer->known stays false on TCP and for a container. */
void http_peer(const struct http_request *request, struct http_peer *peer);
/* Exempts the connection from the idle timeout and reports its end through on_pinned_closed. */
void http_pin(const struct http_request *request);

/* Responses. The body is copied. Without a content type there is no body. */
struct http_response *http_response_create(const char *content_type, const char *body, size_t len);
/* As above for a body that `release(context)` gives back when the last client has got it. */
struct http_response *http_response_create_borrowed(const char *content_type, const char *body,
	size_t len, void (*release)(void *context), void *context);
/*
 * An application/problem+json (RFC 9457). The texts need not be UTF-8. `instance` is the request's
 * path, `members_take` an object of further members; both may be NULL.
 */
struct http_response *http_response_create_problem(int status, const char *title,
	const char *detail, const char *instance, json_t *members_take);
void http_response_header(struct http_response *response, const char *name, const char *value);
/*
 * The entity tag, quoted. A GET or HEAD that is answered with 200 gets 304 when its If-None-Match
 * holds the tag, and 412 when its If-Match does not.
 */
void http_response_etag(struct http_response *response, const char *etag);
/*
 * Moves a response that will be sent many times into one piece of memory: sending it touches fewer
 * pages. Nobody else may have it yet, and no field can be added to the result.
 */
struct http_response *http_response_pack(struct http_response *response_take);
/*
 * A copy of the descriptor goes to the client with the first byte of a 200, which is the last
 * answer of its connection. For clients of the Unix socket. False: no descriptor is free for the
 * copy.
 */
bool http_response_descriptor(struct http_response *response, int fd)
	__attribute__((warn_unused_result));
/*
 * May the client be sent a descriptor? Only one is on its way to a client at a time, and only while
 * the client has not ended its half of the connection.
 */
bool http_may_hand_over(const struct http_request *request);
/* Gives up the caller's reference; accepts NULL. */
void http_response_free(struct http_response *response);

/* Answers, at once or later; this ends the request. */
void http_answer(struct http_request *request, int status, struct http_response *response);

/*
 * For a request that is kept: on_closed is called, once, if the client goes away before the answer.
 */
void http_on_closed(struct http_request *request, void (*on_closed)(void *context), void *context);

/*
 * The request that is kept may take minutes: a TCP client that ends its half is taken for gone, as
 * with streams. Of other requests it may still read the answer.
 */
void http_set_lasting(struct http_request *request);

/*
 * Counts the request as an event stream or long poll of its client, until it ends: false when the
 * client has its share of `limit`, of which all clients together have `total`.
 */
bool http_watch(struct http_request *request, size_t total, size_t limit)
	__attribute__((warn_unused_result));
/* Likewise as a search, until it ends or http_end_search() is called. */
bool http_search(struct http_request *request, size_t total, size_t limit)
	__attribute__((warn_unused_result));
void http_end_search(const struct http_request *request);

struct http_stream_callbacks {
	/*
	 * Copies up to `size` bytes into `buffer` and returns how many; 0: nothing now, until
	 * http_stream_wake().
	 */
	size_t (*on_read)(void *context, char *buffer, size_t size);
	/* The client has gone, or http is closing; the last call. */
	void (*on_closed)(void *context);
	void *context;
};

/* Answers 200 with a body that has no end. `fields`: more lines of the head, each with its end. */
void http_stream(struct http_request *request, const char *content_type, const char *fields,
	const struct http_stream_callbacks *callbacks);
/* There is something to read. */
void http_stream_wake(struct http_request *request);
/*
 * One budget holds for all bytes that wait for clients. The source of a stream reports the bytes
 * that it holds, and asks for room before it makes more.
 */
void http_hold(struct http_request *request, size_t bytes);
bool http_has_room(const struct http_request *request);
/* For lines of the log that its client causes; a container is one client. */
struct log_rate *http_log_rate(const struct http_request *request);
/* Breaks the stream off, soon: on_read is called no more, on_closed later. */
void http_stream_end(struct http_request *request);

#endif
