#include "agent/api/internal.h"

/* The views of the agent itself. */

void api_agent_status(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	struct api_act act = { .kind = API_STATUS };
	struct err err = ERR_INIT;
	if (api->hooks.act(api->hooks.context, &act, &err)) {
		api_problem(request, 0, &err);
	} else {
		api_answer_json(request, 200, act.result);
	}
}

void api_agent_checks(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	json_t *checks = json_array();
	struct component *component;
	for (size_t i = 0; (component = api->hooks.find(api->hooks.context, i)) != NULL; i++) {
		for (size_t j = 0; j < component_check_count(component); j++) {
			json_array_append_new(checks, check_json(component_check(component, j)));
		}
	}
	api_answer_json(request, 200, checks);
}

void api_agent_history(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	api_answer_json(request, 200, history_json(api->history, api_may_administer(api, request)));
}
