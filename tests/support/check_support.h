/*
 * Support for the tests of checks: a configuration made by hand, a loop that runs until a condition
 * holds, and a look at what a run has left behind.
 */
#ifndef TESTS_SUPPORT_CHECK_SUPPORT_H
#define TESTS_SUPPORT_CHECK_SUPPORT_H

#include <ev.h>
#include <stdbool.h>

#include "agent/config/config.h"

/* A check with the defaults of the contract; all strings are "". */
struct config_check check_support_config(enum config_check_type type);

/*
 * A command check that gives the script to /bin/sh. `argv` is the caller's, for as long as the
 * check.
 */
struct config_check check_support_script(char *argv[4], const char *script);
/* One run each `interval_ms`, whatever its state. */
void check_support_pace(struct config_check *config, int64_t interval_ms);

/* Runs the default loop until the condition holds; false when that takes unreasonably long. */
bool check_support_run_until(bool (*holds)(void *context), void *context);
bool check_support_run_until_true(bool *flag);
/* Until this process has no child, dead or alive. */
bool check_support_run_until_childless(void);

/* Orphans of our descendants become our children, as in the agent. */
void check_support_be_subreaper(void);

bool check_support_has_children(void);
long check_support_resident_bytes(void);

#endif
