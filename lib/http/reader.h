/*
 * Reads HTTP/1.1 messages (RFC 9112) from bytes as they arrive: a codec without I/O, for requests
 * and for answers.
 *
 * The caller pushes bytes and takes events. The events do not depend on the sizes of the pieces.
 *
 *   START --> FIELDS --> LENGTH ----------------------------> DONE
 *                   \--> CHUNK_SIZE -> CHUNK -> CHUNK_END     /
 *                   \         ^ \-----------------/ |        /
 *                    \         \--------------------+       /
 *                     \             TRAILERS --------------+
 *                      \--> UNTIL_CLOSE                   FAILED: from everywhere, for good
 *
 * The reader is strict: two parsers must not be able to see different messages in the same bytes.
 * It refuses a bare CR or LF, NUL and every other control character but the tab, folded lines,
 * blanks before a colon, a second Host, Content-Length or Transfer-Encoding, a length with a
 * coding, and every coding but "chunked". Only answers of a server that is not ours may end their
 * lines with LF alone, fold them, and end with the connection.
 *
 * An answer begins with any number of interim answers (1xx, RFC 9110 15.2), which the reader reads
 * over; a caller sees the final head alone. 101 is refused: nobody asks for another protocol.
 *
 * The reader keeps the start line of a head and the fields of enum http_field. It joins two fields
 * of one name by a comma when the field is a list, and refuses them otherwise. It checks trailers
 * and drops them.
 */
#ifndef LIB_HTTP_READER_H
#define LIB_HTTP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"

#define HTTP_TARGET_BYTES 4096        /* bytes of a request's target; longer: 414 */
#define HTTP_REQUEST_FIELD_BYTES 8192 /* bytes of a request's field lines; longer: 431 */
#define HTTP_ANSWER_FIELD_BYTES 16384 /* bytes of an answer's field lines */

enum http_kind {
	HTTP_REQUEST,
	HTTP_ANSWER,        /* an agent's answer */
	HTTP_FOREIGN_ANSWER /* any server's answer */
};

enum http_field {
	HTTP_FIELD_ACCEPT,
	HTTP_FIELD_AGE,
	HTTP_FIELD_CACHE_CONTROL,
	HTTP_FIELD_CONNECTION,
	HTTP_FIELD_CONTENT_ENCODING,
	HTTP_FIELD_CONTENT_LENGTH,
	HTTP_FIELD_CONTENT_TYPE,
	HTTP_FIELD_ETAG,
	HTTP_FIELD_EXPECT,
	HTTP_FIELD_HOST,
	HTTP_FIELD_IF_MATCH,
	HTTP_FIELD_IF_NONE_MATCH,
	HTTP_FIELD_LAST_EVENT_ID,
	HTTP_FIELD_PREFER,
	HTTP_FIELD_TRANSFER_ENCODING,
	HTTP_FIELD_X_CACHE,
	HTTP_FIELD_X_FILTER,
	HTTP_FIELDS
};

enum http_event {
	HTTP_EVENT_MORE, /* all bytes are taken */
	HTTP_EVENT_HEAD, /* the head is complete; its parts may be asked for until the restart */
	HTTP_EVENT_BODY, /* `body` and `body_len` are a piece of the body, in the caller's bytes */
	HTTP_EVENT_END,  /* the message is complete; bytes behind it belong to the next one */
	/* `refusal` is the status that answers such a request, `why` names the fault. */
	HTTP_EVENT_REFUSED
};

enum http_reader_state {
	HTTP_READER_START,
	HTTP_READER_FIELDS,
	HTTP_READER_LENGTH,
	HTTP_READER_CHUNK_SIZE,
	HTTP_READER_CHUNK,
	HTTP_READER_CHUNK_END,
	HTTP_READER_TRAILERS,
	HTTP_READER_UNTIL_CLOSE,
	HTTP_READER_DONE,
	HTTP_READER_FAILED
};

struct http_reader {
	enum http_kind kind;
	struct buffer text; /* kept parts of the head, each with a NUL; then an unfinished line */
	/* From here on all is of one message, and zero at its beginning. */
	enum http_reader_state state;
	bool bodiless;    /* set by the caller behind the restart: this answers a HEAD */
	bool http_1_0;    /* the sender knows no chunks */
	bool keep_alive;  /* from the head on: the connection can carry another message */
	int status;       /* the final one of an answer, from the end of its first line on */
	bool is_interim;  /* this head is that of an interim answer */
	unsigned interim; /* interim answers before this head */
	int refusal;
	const char *why; /* static */
	uint64_t left;   /* bytes of the body, or of the chunk, that are still to come */
	const char *body;
	size_t body_len;
	size_t line_bytes; /* the size of the lines so far, for the limits */
	size_t line;       /* where in `text` an unfinished line begins */
	size_t target;     /* a request's, in `text`; its method is the first thing there */
	size_t query;      /* 0: none */
	uint16_t fields[HTTP_FIELDS]; /* where in `text`, plus 1; 0: absent */
};

/* The reader is the caller's memory; it allocates nothing before the first byte. */
void http_reader_init(struct http_reader *reader, enum http_kind kind);
void http_reader_finish(struct http_reader *reader);
/* Ready for the next message. */
void http_reader_restart(struct http_reader *reader);

/*
 * Takes bytes from *at on, up to the next event, and moves *at behind them. DONE and FAILED take
 * nothing.
 */
enum http_event http_reader_next(struct http_reader *reader, const char **at, const char *end);

/* True from the end of the head on. */
bool http_reader_has_head(const struct http_reader *reader);
/* True while nothing of a message has come. */
bool http_reader_is_idle(const struct http_reader *reader);

/* The parts of a head. Borrowed until the next restart. */
const char *http_reader_method(const struct http_reader *reader);
/* Without its query. */
const char *http_reader_target(const struct http_reader *reader);
/* Behind the question mark; "" without one. */
const char *http_reader_query(const struct http_reader *reader);
/* A field's value without the blanks around it; NULL when it is absent. */
static inline const char *http_reader_field(const struct http_reader *reader, enum http_field field)
{
	size_t place = reader->fields[field];
	return place ? reader->text.data + place - 1 : NULL;
}

/*
 * For a caller that wants a whole answer: takes bytes, appends those of the body to `body`, and
 * stops behind the end of the answer; *ret_used is the number of bytes that it took. 0,
 * BERTH_FAILED for bytes that are not an answer, or BERTH_LIMIT_EXCEEDED when `body` or the head is
 * full; after an error the reader stays failed.
 */
int http_reader_feed(struct http_reader *reader, const char *data, size_t len, struct buffer *body,
	size_t *ret_used, struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(6);

#endif
