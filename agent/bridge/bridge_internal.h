/*
 * Inside of the bridge: bridge.c has its life and looks at the containers; bridge_report.c answers
 * questions about it.
 */
#ifndef AGENT_BRIDGE_BRIDGE_INTERNAL_H
#define AGENT_BRIDGE_BRIDGE_INTERNAL_H

#include "agent/base/timer.h"
#include "agent/bridge/bridge.h"
#include "agent/bridge/container.h"
#include "agent/bridge/holders.h"
#include "agent/bridge/runtime.h"

/* The question that the looker has not answered yet. */
enum bridge_question { NOTHING, LIST, CONTAINER };

/* A subdirectory, as it was listed. */
struct bridge_entry {
	char name[HTTP_CONTAINER_BYTES];
	uint64_t device;
	uint64_t inode;
};

struct bridge {
	struct bridge_environment environment;
	const struct config *config;
	struct bridge_looker *looker; /* NULL: no containers are configured */
	enum bridge_question question;
	uint64_t asked; /* the container */
	struct bridge_publish *publish;
	struct bridge_holders holders;
	json_t *inherited; /* the environment's, until the first comparison */
	struct bridge_container **containers;
	size_t count;
	uint64_t last_id;
	struct bridge_runtime **runtimes;
	size_t runtime_count;
	struct bridge_entry *entries; /* while they come */
	size_t entry_count;
	bool listed;  /* once at least */
	bool crowded; /* there are more subdirectories, and the log says so */
	bool away;    /* the directory itself has gone, and the log says so */
	char why_away[400];
	bool replace;          /* another directory is in its place */
	bool relist;           /* the directory may have changed */
	int64_t list_again_ms; /* the next reading after one that failed; 0: none did */
	bool compared;         /* all containers have been looked at since the start */
	bool paths_freed;      /* containers in conflict may try again */
	struct timer due;      /* of the next look at a container */
};

/* bridge.c: where the container is in the array; its count: nowhere. */
size_t bridge_find(const struct bridge *bridge, const char *name);

#endif
