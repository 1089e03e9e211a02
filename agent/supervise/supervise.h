/*
 * The container's main process: started, watched, signalled, ended.
 *
 *                pre_start                 exit                    not again
 *   PREPARING ──────────────▶ RUNNING ──────────────▶ CLEANING ──────────────▶ OVER
 *       ▲                        │                       │ again, after post_stop
 *       │   a growing pause      ▼ stop signal,          ▼
 *       └──────────────────── (still RUNNING)         WAITING ──▶ PREPARING
 *                              KILL later
 *
 * It runs in a process group of its own, which gets the terminal when standard input is one, so
 * that it behaves as it would without the agent. When the agent is killed and is not the first
 * process of a container, the kernel sends the process its stop signal. Loop thread only; needs the
 * default loop.
 */
#ifndef AGENT_SUPERVISE_SUPERVISE_H
#define AGENT_SUPERVISE_SUPERVISE_H

#include <ev.h>
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
	/*
	 * The main process exited, or could not be started; `why` in words. `failed`: its status is
	 * not 0, and no stop was requested. `again`: it will be started again after a while; else
	 * on_over follows.
	 */
	void (*on_exited)(void *context, const char *why, bool failed, bool again);
	/* Nothing follows; `status` is what a shell would report (128 + signal). */
	void (*on_over)(void *context, int status);
	void *context;
};

/* The limits of the process that was started, before it changed its own. */
struct supervise_limits {
	struct rlimit core;
	struct rlimit files;
};

/* `argv` is borrowed. */
struct supervise *supervise_create(struct ev_loop *loop, char **argv,
	const struct supervise_limits *limits, const struct supervise_callbacks *callbacks);
/* Leaves a running process alone. Accepts NULL. */
void supervise_destroy(struct supervise *supervise);

/* `config` is borrowed until the next call. */
void supervise_set_policy(struct supervise *supervise, const struct config_agent *config);

/*
 * Starts it, after pre_start when there is one. BERTH_FAILED when it cannot run, with *ret_status
 * 127 (the program does not exist) or 126; on_exited and on_over report later failures.
 */
int supervise_start(struct supervise *supervise, int *ret_status, struct err *err)
	__attribute__((warn_unused_result)) ERR_REQUIRED(3);
/* Goes on with a process that this same pid started before its upgrade. */
void supervise_adopt(struct supervise *supervise, pid_t pid);

/* From now on an end is an end, and a restart that is due does not come. */
void supervise_forbid_restart(struct supervise *supervise);

/* 0 while none runs. */
pid_t supervise_pid(const struct supervise *supervise);
/* Sends a signal to its process group. */
void supervise_signal(struct supervise *supervise, int signal_number);
/* The stop signal, and KILL after the stop timeout; on_over follows. At once if nothing runs. */
void supervise_stop(struct supervise *supervise);

#endif
