/*
 * Allocation for the programs.
 *
 * A sidecar without memory can do nothing sensible: these functions log that memory is out and
 * abort, and the supervisor starts the program again. None of them returns NULL, so no caller has a
 * branch that no test reaches. The library (lib/) reports a failed allocation to its caller instead
 * and never uses this.
 */
#ifndef AGENT_BASE_ALLOCATE_H
#define AGENT_BASE_ALLOCATE_H

#include <stddef.h>

/* `count` zeroed items of `size` bytes. Free with free(). */
void *allocate_zeroed(size_t count, size_t size);

/*
 * Makes room in `items` (or NULL) for one more item behind `count` of `size` bytes each. Returns
 * the array, which may have moved; the new item is zeroed. The array must have grown by this
 * function alone.
 */
void *allocate_grow(void *items, size_t count, size_t size);

/* A copy of the text. Free with free(). */
char *allocate_text(const char *text);

/* A copy of `len` bytes with a NUL behind them. Free with free(). */
char *allocate_bytes(const char *bytes, size_t len);

/*
 * A text that is mostly empty and then takes no memory: NULL, or a copy. The text may be a part of
 * the one before. Free with free().
 */
void allocate_kept(char **kept, const char *text);
static inline const char *kept_text(const char *kept)
{
	return kept ? kept : "";
}

/* A formatted text. Free with free(). */
char *allocate_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * `memory` itself: for the result of a function of the library, or of another one, that is NULL
 * only without memory.
 */
void *allocated(void *memory);

/*
 * `code` itself: for a function of the library that returns BERTH_FAILED only without memory. With
 * the code, a caller would take a good record for a bad one.
 */
int allocated_code(int code);

#endif
