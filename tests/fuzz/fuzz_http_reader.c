/* However a response is cut into pieces, the reader says the same; it never takes more than it was given. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "lib/http/reader.h"

enum { BODY_BYTES = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct reading {
	int code;
	enum http_reader_state state;
	int status;
	size_t used;
	struct buffer body;
};

static struct reading read_in_pieces(const char *data, size_t len, size_t step)
{
	struct reading reading = { .used = 0 };
	struct http_reader reader;
	http_reader_init(&reader);
	buffer_init(&reading.body, BODY_BYTES);
	for (size_t at = 0; at < len && reading.code == 0; at += step) {
		size_t piece = len - at < step ? len - at : step;
		size_t used = 0;
		reading.code = http_reader_feed(
			&reader, data + at, piece, &reading.body, &used, NULL);
		assert(used <= piece);
		reading.used += used;
	}
	reading.state = reader.state;
	reading.status = reader.status;
	http_reader_finish(&reader);
	return reading;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct reading whole = read_in_pieces((const char *)data, len, len ? len : 1);
	for (size_t step = 1; step <= 7; step += 3) {
		struct reading pieces = read_in_pieces((const char *)data, len, step);
		assert((pieces.code == 0) == (whole.code == 0));
		if (whole.code == 0) {
			assert(pieces.state == whole.state && pieces.status == whole.status);
			assert(pieces.used == whole.used);
			assert(strcmp(buffer_text(&pieces.body), buffer_text(&whole.body)) == 0);
			assert(pieces.body.len == whole.body.len);
		}
		buffer_finish(&pieces.body);
	}
	assert(whole.body.len <= BODY_BYTES);
	buffer_finish(&whole.body);
	return 0;
}
