#include "agent/agent_main_process.h"

#include <stdio.h>
#include <string.h>

#include "agent/agent_event.h"
#include "agent/agent_internal.h"

static void on_started(void *context, pid_t pid)
{
	struct agent *agent = context;
	char why[64];
	snprintf(why, sizeof(why), "pid %ld", (long)pid);
	agent->main_process = AGENT_MAIN_PROCESS_RUNNING;
	agent_transition(agent, "main process", "stopped", "running", why);
	agent_wake(agent);
}

/* `status` as a shell says it: above 128 it names a signal, unless the program itself exits like that. */
static void describe_end(int status, char *out, size_t size)
{
	const char *name = status > 128 ? sigabbrev_np(status - 128) : NULL;
	if (name) {
		snprintf(out, size, "exit status %d (SIG%s)", status, name);
	} else {
		snprintf(out, size, "exit status %d", status);
	}
}

static void on_ended(void *context, int status, bool again)
{
	struct agent *agent = context;
	char why[64];
	describe_end(status, why, sizeof(why));
	agent->main_process = again ? AGENT_MAIN_PROCESS_RESTARTING : AGENT_MAIN_PROCESS_ENDED;
	agent_event(agent,
		&(struct transition){ .subject = "main process",
			.from = "running",
			.to = again ? "restarting" : "stopped",
			.why = why,
			.trouble = status != 0 && agent->phase == AGENT_RUNNING });
	if (again) {
		metrics_add(agent->metrics, METRIC_MAIN_RESTARTS, "", "", 1);
	} else {
		agent->exit_status = status;
	}
	agent_wake(agent);
}

int agent_main_process_start(struct agent *agent, char **argv, pid_t running, struct err *err)
{
	if (!argv) {
		return 0;
	}
	const struct supervise_callbacks callbacks = {
		.on_started = on_started,
		.on_ended = on_ended,
		.context = agent,
	};
	agent->supervise = supervise_create(agent->loop, argv, &agent->limits, &callbacks);
	agent_main_process_apply_options(agent);
	if (running > 0) {
		supervise_adopt(agent->supervise, running);
		agent->main_process = AGENT_MAIN_PROCESS_RUNNING;
		return 0;
	}
	return supervise_start(agent->supervise, &agent->exit_status, err);
}

void agent_main_process_apply_options(struct agent *agent)
{
	if (agent->supervise) {
		supervise_set_policy(agent->supervise, agent->config->agent.restart,
			agent->config->agent.stop_timeout_ms);
	}
}

bool agent_main_process_runs(const struct agent *agent)
{
	return agent->main_process == AGENT_MAIN_PROCESS_RUNNING;
}
