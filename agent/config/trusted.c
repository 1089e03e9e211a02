#include "agent/config/trusted.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/trust.h"
#include "agent/config/origin.h"
#include "agent/config/problems.h"

/* The user of [agent] user, or -1. */
static uid_t find_user(const struct config *config)
{
	const struct passwd *entry = *config->agent.user ? getpwnam(config->agent.user) : NULL;
	return entry ? entry->pw_uid : (uid_t)-1;
}

static bool checks_run_as_others(const struct config *config)
{
	for (size_t i = 0; i < config->check_count; i++) {
		const char *user = config->checks[i].user;
		if (user && *user && strcmp(user, config->agent.user) != 0) {
			return true;
		}
	}
	return false;
}

static struct trust_rule rule_for(const struct config *config, uid_t user)
{
	struct trust_rule rule = { .read_only_is_good = true, .user = geteuid() };
	if (user != (uid_t)-1) {
		rule.user = checks_run_as_others(config) ? 0 : user;
	}
	return rule;
}

static int check_way(const struct trust_rule *rule, const char *path, struct err *err)
{
	char absolute[2 * PATH_MAX];
	char here[PATH_MAX];
	if (*path == '/') {
		return trust_check_way(rule, path, err);
	}
	if (!getcwd(here, sizeof(here)) || strlen(path) >= PATH_MAX) {
		return err_set_errno(err, BERTH_FAILED, errno, "the working directory");
	}
	snprintf(absolute, sizeof(absolute), "%s/%s", here, path);
	return trust_check_way(rule, absolute, err);
}

static int check(const struct trust_rule *rule, const struct config_origin *origin, struct err *err)
{
	if (!origin->read_only && trust_check_status(rule, &origin->status, err)) {
		return err->code;
	}
	/* A pipe has no path of its own. */
	return S_ISREG(origin->status.st_mode) ? check_way(rule, origin->path, err) : 0;
}

static void check_all(const struct config *config, struct config_problems *problems)
{
	uid_t user = find_user(config);
	struct trust_rule rule = rule_for(config, user);
	bool refuse = geteuid() == 0 || geteuid() == user;
	for (size_t i = 0; i < config->origins.count; i++) {
		const struct config_origin *origin = &config->origins.items[i];
		struct err err = ERR_INIT;
		if (check(&rule, origin, &err) == 0) {
			continue;
		}
		if (refuse) {
			config_problems_add(problems, origin->path, 0,
				"others could have written the commands in it: %s; give file and "
				"directories to root (chown root, chmod go-w), copy the file to "
				"such a place or mount it read-only, or start the agent as the "
				"user who owns them",
				err.msg);
		} else {
			config_problems_warn(problems, origin->path, 0,
				"an agent that root starts refuses it, since others could have "
				"written the commands in it: %s",
				err.msg);
		}
	}
}

int config_load_trusted(
	struct config **ret_config, const char *path, struct config_problems *problems)
{
	struct config *config = NULL;
	if (config_load(&config, path, problems)) {
		return BERTH_FAILED;
	}
	check_all(config, problems);
	if (problems->error_count) {
		config_unref(config);
		return BERTH_FAILED;
	}
	*ret_config = config;
	return 0;
}
