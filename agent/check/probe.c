#include "agent/check/probe.h"

#include <stdlib.h>

#include "agent/base/allocate.h"
#include "agent/check/command.h"
#include "agent/check/http.h"
#include "agent/check/probed.h"
#include "agent/check/tcp.h"
#include "lib/base/clock.h"

struct check_probe {
	const struct config_check *config;
	struct check_run_callbacks callbacks;
	double started;
	double started_monotonic_s;
	struct check_command *command; /* one of these */
	struct check_socket *socket;
	struct check_probed *probed;
	struct check_linger *linger;
};

static void complete(const struct check_probe *probe, struct check_result *result)
{
	const struct config_check *config = probe->config;
	result->started = probe->started;
	result->duration_s = clock_monotonic_s() - probe->started_monotonic_s;
	if (result->verdict == CHECK_PASSING && config->warn_time_ms > 0 &&
		result->duration_s * 1000 > (double)config->warn_time_ms) {
		result->verdict = CHECK_WARNING;
		check_result_set_detail(
			result, "slower than %.9gs", (double)config->warn_time_ms / 1000);
	}
}

static void on_result(void *context, const struct check_result *found)
{
	struct check_probe *probe = context;
	struct check_result result = *found;
	complete(probe, &result);
	probe->callbacks.on_result(probe->callbacks.context, &result);
}

static void on_gone(void *context)
{
	struct check_probe *probe = context;
	struct check_run_callbacks callbacks = probe->callbacks;
	free(probe);
	callbacks.on_gone(callbacks.context);
}

static void on_socket_result(void *context, const struct check_result *found)
{
	struct check_probe *probe = context;
	probe->socket = NULL;
	probe->probed = NULL;
	on_result(probe, found);
	on_gone(probe);
}

static void start_command(struct check_probe *probe, struct ev_loop *loop,
	const struct command_launch *launch, struct check_result *result)
{
	const struct check_run_callbacks callbacks = { on_result, on_gone, probe };
	struct err err = ERR_INIT;
	probe->command = check_command_start(loop, probe->config, launch, &callbacks, &err);
	if (!probe->command) {
		result->verdict = CHECK_COULD_NOT_RUN;
		check_result_set_detail(result, "%s", err.msg);
	}
}

static void start_tcp(struct check_probe *probe, struct ev_loop *loop)
{
	const struct check_socket_exchange exchange = check_tcp_exchange(probe->config);
	probe->socket = check_socket_start(
		loop, probe->config, &exchange, probe->linger, on_socket_result, probe);
}

static void start_http(struct check_probe *probe, struct ev_loop *loop, struct check_result *result)
{
	struct check_socket_exchange exchange;
	struct buffer request;
	buffer_init(&request, CHECK_HTTP_REQUEST_BYTES);
	if (check_http_exchange(probe->config, &request, &exchange)) {
		probe->socket = check_socket_start(
			loop, probe->config, &exchange, probe->linger, on_socket_result, probe);
	} else {
		result->verdict = CHECK_COULD_NOT_RUN;
		check_result_set_detail(
			result, "the request is longer than %d bytes", CHECK_HTTP_REQUEST_BYTES);
	}
	buffer_finish(&request);
}

static void start_probed(struct check_probe *probe, struct ev_loop *loop,
	struct check_prober *prober, struct check_result *result)
{
	probe->probed = check_probed_start(loop, probe->config, prober, on_socket_result, probe);
	if (!probe->probed) {
		result->verdict = CHECK_COULD_NOT_RUN;
		check_result_set_detail(
			result, "the request is longer than %d bytes", CHECK_HTTP_REQUEST_BYTES);
	}
}

struct check_probe *check_probe_start(struct ev_loop *loop, const struct config_check *config,
	const struct command_launch *launch, struct check_linger *linger,
	struct check_prober *prober, const struct check_run_callbacks *callbacks,
	struct check_result *result)
{
	struct check_probe *probe = allocate_zeroed(1, sizeof(*probe));
	probe->config = config;
	probe->linger = linger;
	probe->callbacks = *callbacks;
	probe->started = clock_wall_s();
	probe->started_monotonic_s = clock_monotonic_s();
	switch (config->type) {
	case CONFIG_CHECK_COMMAND:
		start_command(probe, loop, launch, result);
		break;
	case CONFIG_CHECK_TCP:
		start_tcp(probe, loop);
		break;
	case CONFIG_CHECK_HTTP:
		if (config->tls) {
			start_probed(probe, loop, prober, result);
		} else {
			start_http(probe, loop, result);
		}
		break;
	case CONFIG_CHECK_GRPC:
		start_probed(probe, loop, prober, result);
		break;
	case CONFIG_CHECK_TTL:
		break;
	}
	if (!probe->command && !probe->socket && !probe->probed) {
		complete(probe, result);
		free(probe);
		return NULL;
	}
	return probe;
}

void check_probe_abandon(struct check_probe *probe)
{
	if (!probe) {
		return;
	}
	if (probe->command) {
		check_command_abandon(probe->command);
	} else if (probe->probed) {
		check_probed_abandon(probe->probed);
	} else {
		check_socket_abandon(probe->socket);
	}
	free(probe);
}
