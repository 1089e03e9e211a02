/*
 * Health commands without processes: a run ends by a timer, with what the simulated application
 * says. The linker puts these functions in the place of those of agent/command/command.h.
 */
#include <stdlib.h>

#include "agent/command/command.h"
#include "tests/sim/agent.h"

struct command {
	struct ev_loop *loop;
	struct command_callbacks callbacks;
	struct command_outcome outcome;
	ev_timer timer;
};

struct command *__wrap_command_start(struct ev_loop *loop, const struct command_options *options,
	const struct command_callbacks *callbacks, struct err *err);
void __wrap_command_abandon(struct command *command);

static void on_end(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct command *command = timer->data;
	command->callbacks.on_end(command->callbacks.context, &command->outcome);
	if (command->callbacks.on_gone) {
		command->callbacks.on_gone(command->callbacks.context);
	}
	free(command);
}

struct command *__wrap_command_start(struct ev_loop *loop, const struct command_options *options,
	const struct command_callbacks *callbacks, struct err *err)
{
	struct sim_run run = sim_agent_run(ev_userdata(loop));
	if (run.fails_to_start) {
		err_set(err, BERTH_FAILED, "no process can be made");
		return NULL;
	}
	struct command *command = calloc(1, sizeof(*command));
	bool in_time = run.takes_ms < options->timeout_ms;
	int64_t ms = in_time ? run.takes_ms : options->timeout_ms;
	command->loop = loop;
	command->callbacks = *callbacks;
	command->outcome = (struct command_outcome){ .end = in_time ? COMMAND_EXITED
								    : COMMAND_TIMED_OUT,
		.status = run.status,
		.output = "",
		.errors = "" };
	ev_timer_init(&command->timer, on_end, (double)ms / 1000, 0.);
	command->timer.data = command;
	ev_timer_start(loop, &command->timer);
	return command;
}

void __wrap_command_abandon(struct command *command)
{
	ev_timer_stop(command->loop, &command->timer);
	free(command);
}
