/*
 * The server of agent/http on a loop of its own, with a handler that the test directs, and clients
 * on real sockets.
 *
 * Nothing happens but when a test says so, and time passes when it says so, besides the true one. A
 * Unix socket hands bytes over at once; so after some turns of the loop all has happened that can.
 */
#ifndef TESTS_SUPPORT_HTTP_STAGE_H
#define TESTS_SUPPORT_HTTP_STAGE_H

#include "agent/http/internal.h"
#include "tests/support/scratch.h"

/* An answer of the stage's handlers; `len` is the length of the text, as a string. */
#define HTTP_STAGE_TEXT(len, text)                                                                 \
	"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " len "\r\n\r\n" text
#define HTTP_STAGE_HELLO HTTP_STAGE_TEXT("6", "hello\n")

struct http_stage {
	struct ev_loop *loop;
	struct http *http;
	struct http_options options; /* for http_stage_open_again() */
	char path[SCRATCH_PATH + 20];
	void (*handle)(struct http_request *request);
	bool wants_body;
	struct http_request *request; /* the last request that the handler got */
	size_t requests;
	uint64_t pinned; /* the connection whose end was reported last */
	size_t closed;   /* calls of http_stage_on_closed() */
};

/* One for a program. */
extern struct http_stage http_stage;

/* For TestSuite(): opens the server with a Unix socket and a handler that answers hello. */
void http_stage_begin(void);
void http_stage_end(void);
/* With the options of the stage as they are now. */
void http_stage_open_again(void);
/* The same with a TCP listener besides. */
void http_stage_open_tcp(void);

/* Handlers: HTTP_STAGE_HELLO; nothing yet. */
void http_stage_hello(struct http_request *request);
void http_stage_keep(struct http_request *request);
void http_stage_on_closed(void *context);
/* Answers with a text. */
void http_stage_answer(struct http_request *request, int status, const char *text);

/* All happens that can. */
void http_stage_turn(void);
/* Some seconds pass, and what was to happen in them does. */
void http_stage_pass(int seconds);
/* Has the loop nothing to do in its next turn? Otherwise it would turn for ever. */
bool http_stage_is_at_rest(void);

/* A client, as a descriptor; the server has not accepted it yet, and then it has. */
int http_stage_knock(void);
int http_stage_connect(void);
int http_stage_connect_remote(void);
/* Sends bytes as far as the server takes them; returns how many those are. */
size_t http_stage_send_bytes(int fd, const char *bytes, size_t len);
void http_stage_send(int fd, const char *text);
/*
 * The bytes that have come, as a text without its lines of dates, which have to be right in form.
 * Valid until the next call.
 */
const char *http_stage_receive(int fd);
/* Sends, and receives. */
const char *http_stage_ask(int fd, const char *text);
/* The same of a remote client, which gets at least one byte or the end. */
const char *http_stage_ask_remote(int fd, const char *text);
/* Has the server closed its half, and nothing is left to read? */
bool http_stage_has_ended(int fd);
/* Does the server know the client no more? Bytes for it come back. */
bool http_stage_has_closed(int fd);
struct connection *http_stage_connection(size_t number);

/* How often the log says so since the beginning. */
size_t http_stage_logged(const char *text);

#endif
