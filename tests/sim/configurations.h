/*
 * The configuration files of the agents, three of each: two that differ and can be reloaded, and
 * one with a mistake. In the world of one host those of the containers' agents, and the host's; and
 * the directories of the containers.
 */
#ifndef TESTS_SIM_CONFIGURATIONS_H
#define TESTS_SIM_CONFIGURATIONS_H

#include <stdbool.h>

enum { CONFIGURATIONS = 2, CONFIGURATION_BAD = CONFIGURATIONS };

/* Makes NUMBER/WHICH.ini below the folder for all agents. */
void configurations_make(const char *folder);

/* Whether the host's policy allows the container its own path, with this configuration. */
bool configuration_allows(unsigned which, int container);

/* The subdirectory of a container, as its maker has it; whether it is there already or not. */
void containers_make(const char *folder, int number);
void containers_remove(const char *folder, int number);

#endif
