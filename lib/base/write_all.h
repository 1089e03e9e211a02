/*
 * Writing all of something: write() may take less than it was given, and a signal may interrupt it.
 */
#ifndef LIB_BASE_WRITE_ALL_H
#define LIB_BASE_WRITE_ALL_H

#include <stddef.h>

/* To a file that blocks. 0, or -1 with errno; then part of the data may be written. */
int write_all(int fd, const void *data, size_t len);

#endif
