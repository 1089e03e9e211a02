#include "agent/bridge/policy.h"

#include <fnmatch.h>
#include <string.h>

enum { NAME_BYTES = 64, ELEMENT_BYTES = 1024 };

static const char NAME_LETTERS[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

bool bridge_policy_is_name(const char *name)
{
	size_t len = strlen(name);
	return len > 0 && len <= NAME_BYTES && name[0] != '.' && strspn(name, NAME_LETTERS) == len;
}

const struct config_container *bridge_policy_find(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->container_count; i++) {
		if (fnmatch(config->containers[i].glob, name, FNM_NOESCAPE) == 0) {
			return &config->containers[i];
		}
	}
	return NULL;
}

/* The slash keeps a * within its element; a trailing slash and two asterisks take all below. */
static bool matches(const char *pattern, const char *path)
{
	char above[ELEMENT_BYTES + 1];
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

bool bridge_policy_allows(const struct config_container *policy, const char *path)
{
	for (size_t i = 0; policy && i < policy->allow_count; i++) {
		if (matches(policy->allow[i], path)) {
			return true;
		}
	}
	return false;
}
