/*
 * Finds the known word that a person probably meant: for "there is no key `adress`; the nearest is
 * `address`".
 */
#ifndef LIB_BASE_NEAREST_H
#define LIB_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The distance of the first `len` bytes of `word` from `known`: 0 for the same word in any letter
 * case. Twice the number of insertions, deletions, replacements and swaps of neighbours that lead
 * from one to the other, and one more when the lengths differ: of two words with as many changes
 * the one of the same length is nearer. Only the first 64 bytes count.
 */
size_t nearest_distance(const char *word, size_t len, const char *known);

/* Whether a word of `len` bytes at this distance is near enough to be suggested. */
bool nearest_is_close(size_t distance, size_t len);

#endif
