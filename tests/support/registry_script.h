/*
 * Commands that every stage on a registry in memory has: the registry's nodes, its failures, its
 * silence. The stage's structure begins with a struct registry_script.
 */
#ifndef TESTS_SUPPORT_REGISTRY_SCRIPT_H
#define TESTS_SUPPORT_REGISTRY_SCRIPT_H

#include "lib/registry/registry.h"
#include "tests/support/scenario.h"

enum { REGISTRY_SCRIPT_RULES = 8 };

/* Of the registry's tasks: what fails, or what happens first. */
struct registry_rule {
	char operation[16]; /* as registry_script.c names it; "*": any */
	char path[128];     /* a star: any; behind PATH/: PATH and all below */
	int code;
	int64_t times;               /* it fails so often */
	char *words[SCENARIO_WORDS]; /* of a command, once */
};

struct registry_script {
	struct registry *registry;
	struct registry_rule rules[REGISTRY_SCRIPT_RULES];
	size_t rule_count;
	char late[128];
	size_t tasks;  /* of the registry; the stage sets them to 0 */
	size_t writes; /* and those that change a node */
};

void registry_script_begin(struct registry_script *script, struct registry *registry);
/* The registry answers, and nothing fails any more. */
void registry_script_end(struct registry_script *script);

/* "OK", or the name of an error. */
int scenario_code(const char *word);

void registry_script_put(void *stage, char **words);
void registry_script_remove(void *stage, char **words);
void registry_script_fail(void *stage, char **words);
void registry_script_when(void *stage, char **words);
void registry_script_heal(void *stage, char **words);
void registry_script_late(void *stage, char **words);
void registry_script_silent(void *stage, char **words);
void registry_script_answering(void *stage, char **words);

#define REGISTRY_SCRIPT_COMMANDS                                                                   \
	{ "put", 1, 3, registry_script_put, "PATH [RECORD|=TEXT] [zone=ZONE]" },                   \
		{ "remove", 1, 9, registry_script_remove, "PATH …" },                              \
		{ "fail", 3, 4, registry_script_fail, "OPERATION|* PATH|PATH/*|* ERROR [TIMES]" }, \
		{ "when", 3, 20, registry_script_when, "OPERATION|* PATH|PATH/*|* COMMAND" },      \
		{ "heal", 0, 0, registry_script_heal, "" },                                        \
		{ "late", 1, 1, registry_script_late, "PATH" },                                    \
		{ "silent", 0, 0, registry_script_silent, "" },                                    \
	{                                                                                          \
		"answering", 0, 0, registry_script_answering, ""                                   \
	}

#endif
