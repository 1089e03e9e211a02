#include "agent/serving/xds.h"

#include <string.h>
#include <unistd.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/config/own_address.h"
#include "agent/core/upgrade.h"
#include "agent/http/socket.h"
#include "lib/base/text.h"

static void on_state(void *context, bool runs, const char *why)
{
	struct agent *agent = context;
	agent_event(agent,
		&(struct transition){ .subject = "xds",
			.from = runs ? "stopped" : "running",
			.to = runs ? "running" : "restarting",
			.why = why,
			.trouble = !runs });
}

static bool is_path(const char *listen)
{
	return listen[0] == '/';
}

static int open_socket(const struct config *config, struct err *err)
{
	const char *listen = config->xds.listen;
	return is_path(listen) ? http_socket_unix(listen, config->agent.socket_mode,
					 config->agent.socket_group_id, err)
			       : http_socket_tcp(listen, err);
}

int agent_xds_open(struct agent *agent, struct upgrade *received, struct err *err)
{
	const char *listen = agent->config->xds.listen;
	agent->xds_fd = received->xds_fd;
	received->xds_fd = -1;
	if (!*listen || config_address_is_placeholder(listen)) {
		return 0;
	}
	if (agent->xds_fd < 0) {
		agent->xds_fd = open_socket(agent->config, err);
	}
	if (agent->xds_fd < 0) {
		return err_wrap(err, "[xds] listen");
	}
	text_printf(agent->xds_address, sizeof(agent->xds_address), "%s", listen);
	agent->xds_place = is_path(listen) ? http_socket_find(listen)
					   : (struct http_place){ .inode = 0 };
	const struct xds_options options = { .loop = agent->loop,
		.config = agent->config,
		.listen_fd = agent->xds_fd,
		.on_state = on_state,
		.context = agent };
	agent->xds = xds_create(&options);
	return 0;
}

int agent_xds_listen(struct agent *agent, struct err *err)
{
	const char *listen = agent->config->xds.listen;
	struct upgrade none = { .xds_fd = -1 };
	const char *wanted = config_address_is_placeholder(listen) ? "" : listen;
	if (strcmp(agent->xds_address, wanted) == 0) {
		return 0;
	}
	agent_xds_close(agent);
	return agent_xds_open(agent, &none, err);
}

void agent_xds_close(struct agent *agent)
{
	agent->xds_address[0] = '\0';
	xds_destroy(agent->xds);
	agent->xds = NULL;
	if (agent->xds_fd >= 0) {
		close(agent->xds_fd);
		agent->xds_fd = -1;
		http_socket_unlink(agent->config->xds.listen, &agent->xds_place);
	}
}

void agent_xds_pass(struct agent *agent, struct upgrade *passed)
{
	xds_destroy(agent->xds);
	agent->xds = NULL;
	passed->xds_fd = agent->xds_fd;
	agent->xds_fd = -1;
}

json_t *agent_xds_json(const struct agent *agent)
{
	return agent->xds ? xds_json(agent->xds) : json_null();
}

void agent_xds_update_metrics(struct agent *agent)
{
	static const struct xds_counts none;
	struct metrics *metrics = agent->metrics;
	struct xds_counts counts = agent->xds ? xds_counts(agent->xds) : none;
	metrics_set(metrics, METRIC_XDS_RUNNING, "", agent->xds && xds_runs(agent->xds));
	metrics_set(metrics, METRIC_XDS_CONNECTIONS, "", counts.connections);
	metrics_set(metrics, METRIC_XDS_NAMES, "", counts.names);
	metrics_set(metrics, METRIC_XDS_REFUSALS, "", counts.refusals);
	metrics_set(metrics, METRIC_XDS_RESTARTS, "", (double)counts.restarts);
}
