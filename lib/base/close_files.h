/*
 * Closing all descriptors of a range at once, on any kernel.
 */
#ifndef LIB_BASE_CLOSE_FILES_H
#define LIB_BASE_CLOSE_FILES_H

#include <stddef.h>

/*
 * Closes the descriptors from `first` up to `last` (INT_MAX: all), by close_range() where the
 * kernel has it and the container's runtime permits it: Linux has it since 5.9, and filters older
 * than it answer EPERM. Makes system calls only: safe between vfork() and exec().
 */
void close_files(int first, int last);

/* The same for all descriptors but these; each may be -1, or there twice. */
void close_files_but(const int *kept, size_t count);

#endif
