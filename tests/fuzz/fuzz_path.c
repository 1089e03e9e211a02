/*
 * A path that passes path_check() has the properties that the other code relies on; no other path
 * crashes.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/limits.h"
#include "lib/base/path.h"
#include "lib/base/quote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_valid(const char *path, size_t len)
{
	assert(path[0] == '/' && strlen(path) == len && len <= LIMIT_PATH_BYTES);
	assert(path_is_under(path, "/") && path_is_under(path, path));
	size_t parent_len = path_parent_len(path);
	if (len == 1) {
		assert(parent_len == 0 && path_depth(path) == 0);
		return;
	}
	char parent[LIMIT_PATH_BYTES + 1];
	memcpy(parent, path, parent_len);
	parent[parent_len] = '\0';
	assert(path_check(parent, parent_len, NULL) == 0);
	assert(path_depth(parent) + 1 == path_depth(path));
	assert(path_is_under(path, parent) && !path_is_under(parent, path));
	char joined[LIMIT_PATH_BYTES + 1];
	assert(path_join(joined, sizeof(joined), parent, path_name(path), NULL) == 0);
	assert(strcmp(joined, path) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err err = ERR_INIT;
	struct quoted quoted = quote((const char *)data, len);
	assert(strlen(quoted.text) >= 2);
	if (path_check((const char *)data, len, &err)) {
		assert(err.code == BERTH_INVALID_PATHNAME && err.msg[0]);
		return 0;
	}
	char *path = strndup((const char *)data, len);
	if (path) {
		check_valid(path, len);
	}
	free(path);
	return 0;
}
