/*
 * Frames of numbers and texts, and descriptors next to them, between the agent and a looker, on a
 * pair of stream sockets.
 *
 *   frame:   length of the rest (4 bytes), type (1), fields
 *   number:  8 bytes      text:  length (4), bytes, NUL (not counted)
 *
 * Both are of the same build, since the agent keeps its looker's program open, so numbers are as
 * the machine has them. Descriptors are a queue of their own: they arrive in the order in which
 * they were sent, and a receiver without room for one gets its frame without it.
 */
#ifndef LIB_LOOKER_WIRE_H
#define LIB_LOOKER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"

enum { WIRE_FDS_MAX = 64, WIRE_READ_BYTES = 32 * 1024 };
#define WIRE_FRAME_MAX_BYTES (8 * 1024 * 1024)

/* One end. Zeroed by wire_init(). */
struct wire {
	int fd; /* -1: closed */
	struct buffer in;
	struct buffer out;
	size_t begin; /* of the frame that is being written */
	bool gone;    /* the other end */
	int fds[WIRE_FDS_MAX];
	size_t fd_count;
};

/* Takes the socket. */
void wire_init(struct wire *wire, int fd_take);
/* Closes all. May be called twice. */
void wire_finish(struct wire *wire);

/* A frame: begin, add its fields, end. Without memory the other end counts as gone. */
void wire_begin(struct wire *wire, uint8_t type);
void wire_number(struct wire *wire, uint64_t number);
void wire_bytes(struct wire *wire, const void *bytes, size_t len);
void wire_text(struct wire *wire, const char *text);
void wire_end(struct wire *wire);
/* Bytes of the frame that has been begun; without it. */
size_t wire_written(const struct wire *wire);
void wire_take_back(struct wire *wire);

/*
 * Sends all that was written to a socket that blocks, else as much as it takes. wire_waits(): some
 * of it is left. When the other end has gone, wire_is_gone() from then on. Without a socket
 * all of it waits.
 */
void wire_flush(struct wire *wire);
bool wire_waits(const struct wire *wire);
bool wire_is_gone(const struct wire *wire);
/*
 * For a socket that blocks, and a frame that is the only one: ends it, and sends it with a
 * descriptor, which goes with its first byte. Without a socket a copy of it joins the queue.
 */
void wire_end_with(struct wire *wire, int fd);

/* One read: 1, 0 when there is nothing now, -1 when the other end has gone. */
int wire_receive(struct wire *wire);

struct wire_frame {
	uint8_t type;
	const char *at;
	const char *end;
	bool bad; /* a field was missing */
};

/*
 * The next whole frame, borrowed until the next wire_receive(). 1; 0: none is complete; -1: no
 * frame. `used` counts on from 0; afterwards wire_consume().
 */
int wire_next(const struct wire *wire, size_t *used, struct wire_frame *ret_frame);
void wire_consume(struct wire *wire, size_t used);
/* 0, "" when the field is missing. The text is NUL-terminated, and may hold other NULs. */
uint64_t wire_get_number(struct wire_frame *frame);
const char *wire_get_bytes(struct wire_frame *frame, size_t *ret_len);
const char *wire_get_text(struct wire_frame *frame);
/* The oldest descriptor that has arrived; -1: none. */
int wire_take_fd(struct wire *wire);

#endif
