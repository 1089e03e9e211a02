/*
 * What the start of a health command needs and does not change from run to run: its environment, and who it runs as.
 *
 * Made once a check, because the user database may ask a server for its answer, and because what is not done for each run
 * does not cost anything for each run.
 */
#ifndef AGENT_CHECK_LAUNCH_H
#define AGENT_CHECK_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "agent/config/config.h"

struct check_identity {
	int error;   /* errno: the user could not be found */
	bool change; /* else stay who we are */
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int group_count;
};

struct check_launch {
	/*
	 * NULL-terminated: a place for the run's marker, which whoever starts it fills; then own_count variables of ours; then those
	 * of the agent's own that none of ours replaces and that are not its service manager's, borrowed from its `environ`.
	 */
	char **environment;
	size_t own_count;
	struct check_identity identity;
};

/* `config` and the texts are not needed any more afterwards. */
struct check_launch *check_launch_create(
	const struct config_check *config, const char *component, const char *path);
/* Accepts NULL. */
void check_launch_destroy(struct check_launch *launch);

#endif
