#include "agent/bridge/policy.h"

#include <fnmatch.h>
#include <string.h>

#include "lib/looker/allow.h"

enum { NAME_BYTES = 64 };

static const char NAME_LETTERS[] =
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

bool bridge_policy_is_name(const char *name)
{
	size_t len = strlen(name);
	return len > 0 && len <= NAME_BYTES && name[0] != '.' && strspn(name, NAME_LETTERS) == len;
}

const char *bridge_policy_plain_name(const char *name)
{
	const char *slash = strchr(name, '/');
	return slash ? slash + 1 : name;
}

const struct config_container *bridge_policy_find(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->container_count; i++) {
		const char *glob = config->containers[i].glob;
		const char *named = strchr(glob, '/') ? name : bridge_policy_plain_name(name);
		if (fnmatch(glob, named, FNM_NOESCAPE) == 0) {
			return &config->containers[i];
		}
	}
	return NULL;
}

bool bridge_policy_allows(const struct config_container *policy, const char *path)
{
	for (size_t i = 0; policy && i < policy->allow_count; i++) {
		if (looker_allows(policy->allow[i], path)) {
			return true;
		}
	}
	return false;
}
