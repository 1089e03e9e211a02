/*
 * A path that passes path_check(), or as another program's path_foreign_check(), has the properties
 * that the other code relies on; no other path crashes.
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

static void check_dns_name(const char *path)
{
	char name[PATH_DNS_NAME_BYTES];
	if (path_dns_name(name, path, "berth")) {
		assert(strlen(name) <= LIMIT_DNS_NAME_BYTES);
		assert(strcmp(name + strlen(name) - 5, "berth") == 0);
	}
}

/* Behind the slash that marks another program's path. */
static void check_foreign(const char *data, size_t len)
{
	char path[LIMIT_PATH_BYTES + 1] = "/";
	struct err err = ERR_INIT;
	if (path_foreign_check(data, len, &err)) {
		assert(err.code == BERTH_INVALID_PATHNAME && err.msg[0]);
		return;
	}
	memcpy(path + 1, data, len);
	assert(memchr(data, '\0', len) == NULL && path_is_foreign(path));
	const char *name = path_name(path);
	assert(path_foreign_element_valid(name, strlen(name)));
	size_t parent_len = path_parent_len(path);
	assert(parent_len < len);
	assert(parent_len < 2 || path_foreign_check(path + 1, parent_len - 1, NULL) == 0);
}

/* A name below the root, and below a path that leaves it little room. */
static void join(const char *data, size_t len)
{
	char name[LIMIT_PATH_BYTES + 1];
	char out[64] = "x";
	struct err err = ERR_INIT;
	if (len >= sizeof(name)) {
		return;
	}
	memcpy(name, data, len);
	name[len] = '\0';
	int code = path_join(out, sizeof(out), "/", name, &err);
	assert(code == err.code && (code || strcmp(path_name(out), name) == 0));
	err_clear(&err);
	memset(name, 'p', LIMIT_PATH_BYTES - 10);
	name[0] = '/';
	name[LIMIT_PATH_BYTES - 10] = '\0';
	code = path_join(name, sizeof(name), name, out, &err);
	assert(code == err.code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	check_foreign((const char *)data, len);
	join((const char *)data, len);
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
		check_dns_name(path);
	}
	free(path);
	return 0;
}
