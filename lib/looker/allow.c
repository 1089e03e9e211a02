#include "lib/looker/allow.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

enum { PATTERN_BYTES = 1024 };

/* The slash keeps a * within its element. */
bool looker_allows(const char *pattern, const char *path)
{
	char above[PATTERN_BYTES + 1];
	size_t len = strlen(pattern);
	bool tree = len >= 3 && strcmp(pattern + len - 3, "/**") == 0;
	if (!tree) {
		return fnmatch(pattern, path, FNM_PATHNAME | FNM_NOESCAPE) == 0;
	}
	len -= 3;
	if (len >= sizeof(above)) {
		return false;
	}
	memcpy(above, pattern, len);
	above[len] = '\0';
	return fnmatch(above, path, FNM_PATHNAME | FNM_NOESCAPE | FNM_LEADING_DIR) == 0 &&
		fnmatch(above, path, FNM_PATHNAME | FNM_NOESCAPE) != 0;
}
