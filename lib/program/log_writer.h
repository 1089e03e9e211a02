/*
 * Lines to stderr for a program that must not wait: the reader of stderr may stop, a disk may hang,
 * a terminal may be halted with ^S.
 *
 *   program --never waits--> a pipe of its own --> the writer, a child --may wait--> stderr
 *
 * Nothing less holds for everything that stderr can be. Other processes have it too, so the program
 * must not make it non-blocking; they may fill it between a poll() and a write(); and poll() finds
 * a file on a disk that hangs ready. The writer is a fork of the program that keeps no descriptor
 * but these two.
 *
 * A line that finds the pipe full is dropped and counted, and so is a line that the writer cannot
 * write, to a full disk for instance. A line in their place says how many are missing.
 */
#ifndef LIB_PROGRAM_LOG_WRITER_H
#define LIB_PROGRAM_LOG_WRITER_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"

/* The longest line, with its end: the pipe takes so much as a whole, or not at all. */
enum { LOG_WRITER_LINE_BYTES = PIPE_BUF - 16 };

/* Makes a line of `message`, in the form of `previous`, which is the last line or "". */
typedef void log_writer_compose(struct buffer *line, const char *previous, const char *message);

/*
 * Makes the writer, which calls `compose` to report lost lines. 0, or -1 with errno; without a
 * writer the program writes a line itself if stderr has room at the moment, and so does a process
 * that the program forks.
 */
int log_writer_start(log_writer_compose *compose);

/* `len` is at most LOG_WRITER_LINE_BYTES. Keeps errno. */
void log_writer_write(const char *line, size_t len);

/* The lines that are lost since the program started. */
uint64_t log_writer_lost(void);

/*
 * Ends the writer when all is written, and after 1 s at the latest. Without this call the writer
 * ends by itself when the program has ended or has executed another one.
 */
void log_writer_finish(void);

#endif
