#include "agent/check/launch.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"

/* BERTH_CHECK, BERTH_COMPONENT and BERTH_PATH. */
enum { STANDARD_VARIABLES = 3 };

/* ---- environment ---- */

static bool same_name(const char *one, const char *other)
{
	size_t len = strcspn(one, "=");
	return strncmp(one, other, len) == 0 && other[len] == '=';
}

/* Ours and the marker of a run win over the agent's own. */
static bool is_replaced(const struct check_launch *launch, const char *variable)
{
	if (same_name("BERTH_RUN=", variable)) {
		return true;
	}
	for (size_t i = 1; i <= launch->own_count; i++) {
		if (same_name(launch->environment[i], variable)) {
			return true;
		}
	}
	return false;
}

/* What a service manager tells its service: a command that took it up would speak for the agent. Of LISTEN_FDS and its
 * like the agent's own environment is rid when it starts. */
static bool is_managers(const char *variable)
{
	return same_name("NOTIFY_SOCKET=", variable) || same_name("WATCHDOG_USEC=", variable) ||
		same_name("WATCHDOG_PID=", variable);
}

static void add_variable(struct check_launch *launch, const char *name, const char *value)
{
	char *variable = allocate_format("%s=%s", name, value);
	if (is_replaced(launch, variable)) {
		free(variable);
		return;
	}
	launch->environment[++launch->own_count] = variable;
}

static void make_environment(struct check_launch *launch, const struct config_check *config,
	const char *component, const char *path)
{
	size_t inherited = 0;
	while (environ[inherited]) {
		inherited++;
	}
	size_t most = 1 + STANDARD_VARIABLES + config->environment_count + inherited;
	launch->environment = allocate_zeroed(most + 1, sizeof(char *));
	add_variable(launch, "BERTH_CHECK", config->name);
	add_variable(launch, "BERTH_COMPONENT", component);
	add_variable(launch, "BERTH_PATH", path);
	for (size_t i = 0; i < config->environment_count; i++) {
		add_variable(launch, config->environment[i].name, config->environment[i].value);
	}
	char **end = launch->environment + 1 + launch->own_count;
	for (size_t i = 0; i < inherited; i++) {
		if (!is_replaced(launch, environ[i]) && !is_managers(environ[i])) {
			*end++ = environ[i];
		}
	}
}

/* ---- identity ---- */

static void find_groups(struct check_identity *identity, const char *user)
{
	int size = 32;
	int count;
	do {
		free(identity->groups);
		identity->groups = allocate_zeroed((size_t)size, sizeof(gid_t));
		count = size;
		size *= 2;
	} while (getgrouplist(user, identity->gid, identity->groups, &count) < 0);
	identity->group_count = count;
}

static void find_identity(struct check_identity *identity, const char *user)
{
	if (!*user) {
		return;
	}
	errno = 0;
	const struct passwd *entry = getpwnam(user);
	if (!entry) {
		identity->error = errno ? errno : ENOENT;
		return;
	}
	identity->uid = entry->pw_uid;
	identity->gid = entry->pw_gid;
	/* Its own user needs no privilege, and without privilege nothing could be changed anyway. */
	identity->change = identity->uid != geteuid() || getuid() != geteuid();
	if (identity->change) {
		find_groups(identity, user);
	}
}

struct check_launch *check_launch_create(
	const struct config_check *config, const char *component, const char *path)
{
	struct check_launch *launch = allocate_zeroed(1, sizeof(*launch));
	make_environment(launch, config, component, path);
	find_identity(&launch->identity, config->user);
	return launch;
}

void check_launch_destroy(struct check_launch *launch)
{
	if (!launch) {
		return;
	}
	for (size_t i = 1; i <= launch->own_count; i++) {
		free(launch->environment[i]);
	}
	free(launch->environment);
	free(launch->identity.groups);
	free(launch);
}
