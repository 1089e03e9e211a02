/*
 * The files that a configuration was read from, as they were when they were open.
 */
#ifndef AGENT_CONFIG_ORIGIN_H
#define AGENT_CONFIG_ORIGIN_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "agent/config/config.h"

struct config_origin {
	char *path;
	struct stat status;
	bool read_only; /* its mount */
};

/* Notes an open file at the end of `origins`. */
void config_origins_add(struct config_origins *origins, const char *path, FILE *stream);
void config_origins_finish(struct config_origins *origins);

#endif
