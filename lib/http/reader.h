/*
 * Reads one HTTP/1.1 response after another from bytes as they arrive: a codec without I/O.
 *
 * It knows what an agent sends: a bounded head, then a body with Content-Length, in chunks, or none (204, 304). Whatever
 * else (both framings, a body that ends with the connection, folded header lines, NUL bytes) is refused: a client that
 * guesses can be lied to.
 *
 *   HEAD --> LENGTH ----------------------------------> DONE
 *        \-> CHUNK_SIZE -> CHUNK -> CHUNK_END -\     /
 *                 ^-----------------------------+-> TRAILER
 *
 * How the bytes are cut into pieces makes no difference to the result.
 */
#ifndef LIB_HTTP_READER_H
#define LIB_HTTP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"

#define HTTP_READER_HEAD_BYTES (16 * 1024)

enum http_reader_state {
	HTTP_READER_HEAD,
	HTTP_READER_LENGTH,
	HTTP_READER_CHUNK_SIZE,
	HTTP_READER_CHUNK,
	HTTP_READER_CHUNK_END,
	HTTP_READER_TRAILER,
	HTTP_READER_DONE,
	HTTP_READER_FAILED
};

struct http_reader {
	enum http_reader_state state;
	int status;      /* from the end of the head on */
	bool keep_alive; /* the connection can carry another request */
	struct buffer head;
	struct buffer line; /* a chunk's size or a trailer, as far as it has come */
	uint64_t left;      /* bytes of the body, or of the chunk */
	size_t trailers;    /* bytes of trailers */
};

/* The reader is the caller's memory. */
void http_reader_init(struct http_reader *reader);
void http_reader_finish(struct http_reader *reader);
/* Ready for the next response; keeps its memory. */
void http_reader_restart(struct http_reader *reader);

/*
 * Takes bytes, appends what belongs to the body to `body`, and stops behind the end of the response: *ret_used says how many
 * of `len` bytes were taken. 0, BERTH_FAILED for what is no response, or BERTH_LIMIT_EXCEEDED when `body` or the head is
 * full; the reader stays failed then.
 */
int http_reader_feed(struct http_reader *reader, const char *data, size_t len, struct buffer *body,
	size_t *ret_used, struct err *err) __attribute__((warn_unused_result));

/* True when the head is complete, and status and headers can be asked for. */
bool http_reader_has_head(const struct http_reader *reader);

/* Copies the first header of that name (case-insensitive) into `out`, cut to its size; false and "" when there is none. */
bool http_reader_header(const struct http_reader *reader, const char *name, char *out, size_t size);

#endif
