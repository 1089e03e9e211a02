#include "agent/life/main_process.h"

#include <stdio.h>

#include "agent/core/event.h"
#include "agent/core/state.h"

static void on_started(void *context, pid_t pid)
{
	struct agent *agent = context;
	char why[64];
	snprintf(why, sizeof(why), "pid %ld", (long)pid);
	agent->main_process = AGENT_MAIN_PROCESS_RUNNING;
	agent_transition(agent, "main process", "stopped", "running", why);
	check_set_look_again(agent->checks);
}

static void on_exited(void *context, const char *why, bool failed, bool again)
{
	struct agent *agent = context;
	bool ran = agent->main_process == AGENT_MAIN_PROCESS_RUNNING;
	agent->main_process = AGENT_MAIN_PROCESS_DOWN;
	agent_event(agent,
		&(struct transition){ .subject = "main process",
			.from = ran ? "running" : "starting",
			.to = again ? "restarting" : "stopped",
			.why = why,
			.trouble = failed });
	if (again) {
		metrics_add(agent->metrics, METRIC_MAIN_RESTARTS, "", "", 1);
	}
}

static void on_over(void *context, int status)
{
	struct agent *agent = context;
	agent->main_process = AGENT_MAIN_PROCESS_ENDED;
	agent->exit_status = status;
	agent_wake(agent);
}

int agent_main_process_start(struct agent *agent, char **argv, pid_t running, struct err *err)
{
	if (!argv) {
		return 0;
	}
	const struct supervise_callbacks callbacks = {
		.on_started = on_started,
		.on_exited = on_exited,
		.on_over = on_over,
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
		supervise_set_policy(agent->supervise, &agent->config->agent);
	}
}

bool agent_main_process_over(const struct agent *agent)
{
	return !agent->supervise || agent->main_process == AGENT_MAIN_PROCESS_ENDED;
}
