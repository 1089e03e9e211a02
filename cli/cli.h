/*
 * What the verbs of `berth` share. Each is a function that does its work on an open handle and returns the exit status.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <jansson.h>

#include "lib/berth.h"
#include "cli/options.h"
#include "cli/output.h"

struct cli {
	struct options options;
	struct output output;
	struct berth *berth;
};

/* lookup.c */
int verb_resolve(struct cli *cli);
int verb_ls(struct cli *cli);
int verb_records(struct cli *cli);
int verb_endpoints(struct cli *cli);
int verb_stat(struct cli *cli);
int verb_exists(struct cli *cli);
int verb_find(struct cli *cli);
/* watch.c */
int verb_watch(struct cli *cli);
/* lib/registry/registry.c */
int verb_bind(struct cli *cli);
int verb_mknode(struct cli *cli);
int verb_rm(struct cli *cli);
int verb_purge(struct cli *cli);
/* agent.c */
int verb_status(struct cli *cli);
int verb_history(struct cli *cli);
int verb_drain(struct cli *cli);
int verb_undrain(struct cli *cli);
int verb_reload(struct cli *cli);
/* checks.c */
int verb_checks(struct cli *cli);
int verb_run_check(struct cli *cli);

/* The operand, which main.c has made sure is there. */
const char *cli_operand(const struct cli *cli);

/* Parses an answer's JSON and frees the answer; ends the program when it is no JSON. New reference. */
json_t *cli_parse_take(struct berth_answer *answer);

/* Prints records (path -> record) as a table. */
void cli_print_records(const struct cli *cli, const json_t *records);

#endif
