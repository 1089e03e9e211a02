#include "agent/agent_left.h"

#include <string.h>

#include "agent/agent_internal.h"
#include "agent/base/log.h"

static const char LEFT_DOCUMENT[] = "left";

static bool is_configured(const struct config *config, const char *path)
{
	for (size_t i = 0; i < config->component_count; i++) {
		if (strcmp(config->components[i].path, path) == 0) {
			return true;
		}
	}
	return false;
}

/* Nodes at other paths are not ours to change any more. */
static void keep_configured(struct agent *agent, json_t *nodes)
{
	const char *path;
	json_t *node;
	void *next;
	json_object_foreach_safe (nodes, next, path, node) {
		if (!is_configured(agent->config, path)) {
			json_object_del(nodes, path);
		}
	}
}

void agent_left_load(struct agent *agent)
{
	struct err err = ERR_INIT;
	json_t *document = state_dir_load(&agent->state, LEFT_DOCUMENT, &err);
	const char *url = json_string_value(json_object_get(document, "url"));
	json_t *nodes = json_object_get(document, "nodes");
	if (err.code) {
		log_warn("agent", "the list of our persistent records cannot be read: %s", err.msg);
	}
	if (url && strcmp(url, agent->config->registry.url) == 0 && json_is_object(nodes)) {
		agent->left = json_incref(nodes);
		keep_configured(agent, agent->left);
	} else {
		agent->left = json_object();
	}
	json_decref(document);
}

static void save(struct agent *agent)
{
	struct err err = ERR_INIT;
	json_t *document = json_pack(
		"{s:s, s:O}", "url", agent->config->registry.url, "nodes", agent->left);
	if (json_object_size(agent->left) == 0) {
		state_dir_remove(&agent->state, LEFT_DOCUMENT);
	} else if (state_dir_usable(&agent->state) &&
		state_dir_save(&agent->state, LEFT_DOCUMENT, document, &err)) {
		log_info("agent", "the list of our persistent records is not saved: %s", err.msg);
	}
	json_decref(document);
}

void agent_left_update(struct agent *agent, const struct component *component)
{
	enum announce_state state = announce_get_state(component_announce(component));
	if (announce_state_is_in(state) || state == ANNOUNCE_WITHDRAWN) {
		agent_left_note(agent, component);
	} /* else on its way to one of them, or nothing is known */
}

void agent_left_note(struct agent *agent, const struct component *component)
{
	const char *path = component_config(component)->path;
	json_t *left = announce_left(component_announce(component));
	json_t *before = json_object_get(agent->left, path);
	if (left ? !before || !json_equal(left, before) : before != NULL) {
		if (left) {
			json_object_set(agent->left, path, left);
		} else {
			json_object_del(agent->left, path);
		}
		save(agent);
	}
	json_decref(left);
}

void agent_left_finish(struct agent *agent)
{
	json_decref(agent->left);
}
