/*
 * Memory for the configuration, beside agent/base/allocate.h and as unable to fail.
 */
#ifndef AGENT_CONFIG_MEMORY_H
#define AGENT_CONFIG_MEMORY_H

#include <stddef.h>

/* A copy of `len` bytes, with a NUL behind them. */
char *config_copy_bytes(const char *bytes, size_t len);
/* A formatted string to be freed with free(). */
char *config_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Makes room for one more item behind `count` of `size` bytes each; returns the array, perhaps moved. The new item is zeroed. */
void *config_grow(void *items, size_t count, size_t size);

#endif
