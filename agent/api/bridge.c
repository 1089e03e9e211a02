/* GET /v1/bridge: the containers of this host, for administrators; its own part for a container. */
#include "agent/api/internal.h"

void api_bridge(struct api *api, struct http_request *request, const char *rest)
{
	struct api_act act = { .kind = API_BRIDGE, .container = request->container };
	struct err err = ERR_INIT;
	(void)rest;
	if (!request->container && !api_may_administer(api, request)) {
		err_set(&err, BERTH_NO_PATH_PERMISSIONS,
			"only root, the agent's own user and admin_group may see this");
	} else {
		(void)api->hooks.act(api->hooks.context, &act, &err);
	}
	if (err.code) {
		api_problem(request, 0, &err);
	} else {
		api_answer_json(request, 200, act.result);
	}
}
