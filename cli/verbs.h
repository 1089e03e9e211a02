/*
 * The verbs of `berth`: one table that finds them, checks their operands, explains them and
 * completes them.
 */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"

/* The peer of a verb. */
enum verb_target {
	VERB_AGENT_OR_REGISTRY, /* the agent, unless --registry is given */
	VERB_REGISTRY,          /* --registry or BERTH_REGISTRY */
	VERB_AGENT,
	VERB_NOBODY
};

enum { VERB_OPERANDS = 2 };

struct verb {
	const char *name;
	const char *synopsis; /* of its options and operands */
	const char *help;     /* a sentence without its capital letter and full stop */
	const char *example;  /* a command line, behind "berth " */
	uint64_t options;     /* a set of enum option_id */
	enum verb_target target;
	const char *operands[VERB_OPERANDS]; /* names for people */
	size_t required;                     /* so many of them must be given */
	bool more;                           /* the last one may be repeated */
	bool command;                        /* takes a command behind "--" */
	bool changes;                        /* no typing error may lead here */
	int (*run)(struct cli *cli);
};

enum { VERBS_MOST = 64 };

/* verb_table.c */
extern const struct verb verbs[];
extern const size_t verb_count;

/* NULL when there is none of that name. */
const struct verb *verbs_find(const char *name);

/*
 * Says that there is no such verb, and which one the user may have meant: never one that changes
 * something. Returns 2.
 */
int verbs_unknown(const char *name);

/* 0, or 2 after saying what is wrong with the operands or the command. */
int verbs_check_operands(const struct verb *verb, const struct options *options);

#endif
