#include "lib/base/nearest.h"

#include <string.h>

enum { COMPARED_BYTES = 64 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static char lower(char letter)
{
	return letter >= 'A' && letter <= 'Z' ? (char)(letter | 0x20) : letter;
}

/* Damerau's and Levenshtein's edit distance (optimal string alignment), three rows at a time. */
static size_t edits(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][COMPARED_BYTES + 1];
	for (size_t j = 0; j <= b_len; j++) {
		rows[0][j] = j;
	}
	for (size_t i = 1; i <= a_len; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i - 1) % 3];
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			char x = lower(a[i - 1]);
			char y = lower(b[j - 1]);
			row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2])) {
				row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
			}
		}
	}
	return rows[a_len % 3][b_len];
}

size_t nearest_distance(const char *word, size_t len, const char *known)
{
	size_t known_len = strlen(known);
	size_t count = edits(
		word, least(len, COMPARED_BYTES), known, least(known_len, COMPARED_BYTES));
	return 2 * count + (len != known_len);
}

bool nearest_is_close(size_t distance, size_t len)
{
	return distance <= len + 1;
}
