#include "agent/registration/persistent.h"

#include <string.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/log.h"

static const char DOCUMENT[] = "persistent";

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

void agent_persistent_load(struct agent *agent)
{
	struct err err = ERR_INIT;
	json_t *document = state_dir_load(&agent->state, DOCUMENT, &err);
	const char *url = json_string_value(json_object_get(document, "url"));
	json_t *nodes = json_object_get(document, "nodes");
	if (err.code) {
		log_warn("agent", "the list of our persistent records cannot be read: %s", err.msg);
	}
	if (url && strcmp(url, agent->config->registry.url) == 0 && json_is_object(nodes)) {
		agent->persistent = json_incref(nodes);
		keep_configured(agent, agent->persistent);
	} else {
		agent->persistent = json_object();
	}
	json_decref(document);
}

/* The writes that waited for it go on, also when it could not be saved. */
static void on_saved(void *context, const struct err *err)
{
	struct agent *agent = context;
	if (err->code) {
		log_info("agent", "the list of our persistent records is not saved: %s", err->msg);
	}
	agent->persistent_is_being_saved = false;
	agent_wake(agent);
}

static void save(struct agent *agent)
{
	if (!state_dir_usable(&agent->state)) {
		return;
	}
	agent->persistent_is_being_saved = true;
	json_t *document = json_pack(
		"{s:s, s:O}", "url", agent->config->registry.url, "nodes", agent->persistent);
	if (json_object_size(agent->persistent) == 0) {
		state_dir_remove(&agent->state, DOCUMENT, on_saved, agent);
	} else {
		state_dir_save(&agent->state, DOCUMENT, document, on_saved, agent);
	}
	json_decref(document);
}

void agent_persistent_update(struct agent *agent, const struct component *component)
{
	enum announce_state state = announce_get_state(component_announce(component));
	if (announce_state_is_in(state) || state == ANNOUNCE_WITHDRAWN) {
		(void)agent_persistent_note(agent, component);
	} /* else on its way to one of them, or nothing is known */
}

bool agent_persistent_note(struct agent *agent, const struct component *component)
{
	const char *path = component_config(component)->path;
	json_t *node = announce_persistent(component_announce(component));
	json_t *before = json_object_get(agent->persistent, path);
	if (node ? !before || !json_equal(node, before) : before != NULL) {
		if (node) {
			json_object_set(agent->persistent, path, node);
		} else {
			json_object_del(agent->persistent, path);
		}
		save(agent);
	}
	json_decref(node);
	return !agent->persistent_is_being_saved;
}

void agent_persistent_finish(struct agent *agent)
{
	json_decref(agent->persistent);
}
