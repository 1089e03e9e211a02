#include "agent/life/meaning.h"

#include <signal.h>
#include <unistd.h>

#include "agent/base/log.h"
#include "agent/command/command.h"
#include "agent/config/value.h"
#include "agent/core/state.h"
#include "lib/registry/url.h"

static bool is_in_stop_on(const struct config_agent *config, int signal_number)
{
	for (size_t i = 0; i < config->stop_on_count; i++) {
		struct err unused = ERR_INIT;
		int number;
		if (config_parse_signal(config->stop_on[i], &number, &unused) == 0 &&
			number == signal_number) {
			return true;
		}
	}
	return false;
}

/* A directory's records end with this process; without a state directory nobody learns of ours. */
static bool has_something_to_leave(const struct agent *agent)
{
	enum registry_url_kind kind;
	(void)registry_url_rest(agent->config->registry.url, &kind);
	return kind != REGISTRY_URL_DIR && state_dir_usable(&agent->state);
}

static void warn_of_inherited_stop(struct agent *agent, int signal_number, const char *what)
{
	sigset_t *warned = &agent->warned_of;
	/* A terminal sends WINCH whenever its window changes. */
	bool resized = signal_number == SIGWINCH && isatty(STDIN_FILENO);
	if (getpid() != 1 || !agent->supervise || resized ||
		sigismember(warned, signal_number) == 1) {
		return;
	}
	sigaddset(warned, signal_number);
	const char *name = command_signal_name(signal_number);
	log_warn("agent",
		"SIG%s %s. If it was to stop the container, its image has inherited this stop "
		"signal: write STOPSIGNAL SIGTERM in its Dockerfile, or add %s to stop_on",
		name, what, name);
}

static enum agent_meaning with_main_process(struct agent *agent, int signal_number)
{
	if (is_in_stop_on(&agent->config->agent, signal_number)) {
		return AGENT_MEANS_STOP;
	}
	if (signal_number != SIGQUIT) {
		warn_of_inherited_stop(agent, signal_number, "goes to the main process");
		return AGENT_MEANS_PROGRAM;
	}
	if (!has_something_to_leave(agent)) {
		return AGENT_MEANS_STOP;
	}
	warn_of_inherited_stop(agent, signal_number,
		"leaves the records to a successor, until the session times out");
	return AGENT_MEANS_HAND_OVER;
}

enum agent_meaning agent_meaning_of(struct agent *agent, int signal_number)
{
	switch (signal_number) {
	case SIGHUP:
		return AGENT_MEANS_RELOAD;
	case SIGUSR2:
		return AGENT_MEANS_UPGRADE;
	default:
		break;
	}
	if (agent->supervise) {
		return with_main_process(agent, signal_number);
	}
	switch (signal_number) {
	case SIGTERM:
	case SIGINT:
		return AGENT_MEANS_STOP;
	case SIGQUIT:
		return AGENT_MEANS_HAND_OVER;
	default:
		return AGENT_MEANS_PROGRAM;
	}
}

bool agent_is_asked_to_end(const struct config *config)
{
	sigset_t pending;
	sigpending(&pending);
	for (int number = 1; number < NSIG; number++) {
		bool asks = number == SIGTERM || number == SIGINT || number == SIGQUIT ||
			(config && is_in_stop_on(&config->agent, number));
		if (asks && sigismember(&pending, number) == 1) {
			return true;
		}
	}
	return false;
}
