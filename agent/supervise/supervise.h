/*
 * The container's main process: started, watched, signalled, ended.
 *
 * It runs in a process group of its own, which gets the terminal when standard input is one, so that it behaves as it
 * would without us. Loop thread only; needs the default loop (SIGCHLD).
 */
#ifndef AGENT_SUPERVISE_SUPERVISE_H
#define AGENT_SUPERVISE_SUPERVISE_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "agent/config/config.h"
#include "lib/base/err.h"

struct supervise;

struct supervise_callbacks {
	/* The process runs (again). */
	void (*on_started)(void *context, pid_t pid);
	/* It ended; `status` is what a shell would say (128 + signal). `again`: it will be restarted after a while. */
	void (*on_ended)(void *context, int status, bool again);
	void *context;
};

/* Of the process that was started, before it made some of its own. */
struct supervise_limits {
	struct rlimit core;
	struct rlimit files;
};

/* `argv` is borrowed. */
struct supervise *supervise_create(struct ev_loop *loop, char **argv,
	const struct supervise_limits *limits, const struct supervise_callbacks *callbacks);
/* Leaves a running process alone. Accepts NULL. */
void supervise_destroy(struct supervise *supervise);

void supervise_set_policy(
	struct supervise *supervise, enum config_restart restart, int64_t stop_timeout_ms);

/* Starts it: 0, or BERTH_FAILED with *ret_status 127 (no such program) or 126 (cannot be executed). */
int supervise_start(struct supervise *supervise, int *ret_status, struct err *err) ERR_REQUIRED(3);
/* Goes on with a process that this same pid started before an upgrade. */
void supervise_adopt(struct supervise *supervise, pid_t pid);

/* From now on an end is an end, and a restart that is due does not come. */
void supervise_forbid_restart(struct supervise *supervise);

/* 0 while none runs. */
pid_t supervise_pid(const struct supervise *supervise);
/* Sends a signal to its process group. */
void supervise_signal(struct supervise *supervise, int signal_number);
/* TERM, and KILL after the stop timeout; on_ended follows, with `again` false. At once if none runs. */
void supervise_stop(struct supervise *supervise);

#endif
