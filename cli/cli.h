/*
 * Functions that the verbs of `berth` share. A verb does its work on an open handle and returns the
 * exit status.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <jansson.h>
#include <stdint.h>

#include "cli/options.h"
#include "cli/output.h"
#include "lib/berth.h"

struct cli {
	struct options options;
	struct output output;
	struct berth *berth; /* NULL for a verb that talks to nobody */
};

/* lookup.c */
int verb_resolve(struct cli *cli);
int verb_ls(struct cli *cli);
int verb_records(struct cli *cli);
int verb_stat(struct cli *cli);
int verb_host(struct cli *cli);
int verb_exists(struct cli *cli);
int verb_find(struct cli *cli);
/* endpoints.c */
int verb_endpoints(struct cli *cli);
/* The set that the operand and the options ask for; *ret_set is NULL on failure. */
int cli_open_set(struct cli *cli, struct berth_set **ret_set, struct berth_failure *failure);
/* pick.c */
int verb_pick(struct cli *cli);
/* watch.c */
int verb_watch(struct cli *cli);
/* wait.c */
int verb_wait(struct cli *cli);
/* render.c */
int verb_render(struct cli *cli);
/* bind.c */
int verb_bind(struct cli *cli);
/* registry.c */
int verb_mknode(struct cli *cli);
int verb_rm(struct cli *cli);
int verb_purge(struct cli *cli);
/* status.c */
int verb_status(struct cli *cli);
/* bridge.c */
int verb_bridge(struct cli *cli);
/* xds_dump.c */
int verb_xds_dump(struct cli *cli);
/* history.c */
int verb_history(struct cli *cli);
/* top.c */
int verb_top(struct cli *cli);
/* web.c */
int verb_web(struct cli *cli);
/* drain.c */
int verb_drain(struct cli *cli);
int verb_undrain(struct cli *cli);
int verb_undamp(struct cli *cli);
/* order.c */
int verb_ready(struct cli *cli);
int verb_live(struct cli *cli);
int verb_reload(struct cli *cli);
int verb_report(struct cli *cli);
int verb_supply(struct cli *cli);
int verb_withdraw(struct cli *cli);
/* checks.c */
int verb_checks(struct cli *cli);
int verb_run_check(struct cli *cli);
/* convert.c */
int verb_convert(struct cli *cli);
/* main.c */
int verb_help(struct cli *cli);
int verb_version(struct cli *cli);
/* completion.c */
int verb_completion(struct cli *cli);

/*
 * Calls `look` at once and after each change at and below the path of the operand, until it returns
 * something else than 0: 1 when it has seen enough, or a negative code with `failure` filled. It
 * writes into `remains`, for people, why that is not enough. Returns the exit status, that of
 * BERTH_TIMEOUT when --timeout is over. wait.c.
 */
enum { CLI_REMAINS_BYTES = 96 };
typedef int cli_look(void *context, char *remains, struct berth_failure *failure);
int cli_follow(struct cli *cli, cli_look *look, void *context);
/* True for a failure that may pass by itself: the path may come, and the registry too; wait.c. */
bool cli_may_come(int code, const struct berth_failure *failure, char *remains);

/* The first operand; NULL when none was given. */
static inline const char *cli_operand(const struct cli *cli)
{
	return cli->options.operands[0];
}

/* The filter that --api, --protocol and --scope make. */
struct berth_endpoint_filter cli_filter(const struct cli *cli);

/*
 * Parses an answer's JSON and frees the answer; ends the program when it is not JSON. New
 * reference.
 */
json_t *cli_parse_take(struct berth_answer *answer);

/*
 * The agent's state, or its history, once it is no longer the one with this tag; "" for the one of
 * now. `*tag` becomes the tag of the answer. Waits at most until `deadline_ms`: then BERTH_TIMEOUT.
 * 0 or a negative code.
 */
int cli_await(struct cli *cli, enum berth_document document, char *tag, int64_t deadline_ms,
	json_t **ret, struct berth_failure *failure);

/* The agent's state, its checks, and the newest of its history, as their verbs print them. */
void cli_print_status(const struct cli *cli, const json_t *agent);
void cli_print_checks(const struct cli *cli, const json_t *checks);
void cli_print_history(const struct cli *cli, const json_t *history, size_t count);

/* Prints records (path -> record) as a table. */
void cli_print_records(const struct cli *cli, const json_t *records);
/*
 * As output_failure(), for a look-up: with a note when the answer is not live, since a path that is
 * absent may have been made meanwhile.
 */
int cli_lookup_failure(const struct cli *cli, const struct berth_failure *failure);
/* As output_failure(), for a write that could have made the parents. */
int cli_write_failed(const struct cli *cli, struct berth_failure *failure);
/* Prints a problem of the configuration: "file:line: message". */
void cli_print_problem(FILE *out, const json_t *problem);
/* Says what has been done, on a terminal only: programs look at the exit status. */
void cli_say_done(const struct cli *cli, const char *what);

#endif
