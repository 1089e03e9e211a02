#include "agent/registration/registry.h"

#include <stdlib.h>
#include <string.h>

#include "agent/registration/bridge.h"
#include "agent/registration/components.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/config/own_address.h"
#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/base/text.h"
#include "lib/registry/url.h"

static const char SESSION_DOCUMENT[] = "session";

enum { SESSION_VERSION = 1 };

/* How long records wait for the disk. */
enum { SAVE_PATIENCE_MS = 2000 };

/* ---- nodes of a predecessor at paths that the configuration no longer names ---- */

/* Forgotten once the registry has reported that the node is gone, or not ours. */
struct abandoned_node {
	struct list link;
	struct agent *agent;
	struct registry_request *request;
	char *path;
};

static void forget(struct abandoned_node *node)
{
	list_remove(&node->link);
	free(node->path);
	free(node);
}

static void remember_abandoned(struct agent *agent, const json_t *paths)
{
	json_t *seen = json_object();
	size_t index;
	json_t *item;
	json_array_foreach ((json_t *)paths, index, item) {
		const char *path = json_string_value(item);
		if (path && !json_object_get(seen, path)) {
			struct abandoned_node *node = allocate_zeroed(1, sizeof(*node));
			node->agent = agent;
			node->path = allocate_text(path);
			list_append(&agent->abandoned, &node->link);
			json_object_set_new(seen, path, json_true());
		}
	}
	json_decref(seen);
}

static void forget_abandoned(struct agent *agent)
{
	while (!list_empty(&agent->abandoned)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before is off the list */
		forget(LIST_ITEM(agent->abandoned.next, struct abandoned_node, link));
	}
}

/* A request that the connection broke is made again after the reconnect. */
static bool is_undecided(const struct err *err)
{
	return err->code == BERTH_REGISTRY_UNAVAILABLE || err->code == BERTH_TIMEOUT;
}

static void on_abandoned_removed(void *context, const struct registry_result *result)
{
	struct abandoned_node *node = context;
	node->request = NULL;
	if (is_undecided(&result->err)) {
		return;
	}
	if (result->err.code) {
		log_warn("agent", "%s, which is no longer configured, stays: %s", node->path,
			result->err.msg);
	} else {
		log_info("agent", "removed %s, which is no longer configured", node->path);
	}
	struct agent *agent = node->agent;
	forget(node);
	agent_registry_save_session(agent);
}

static void on_abandoned_stat(void *context, const struct registry_result *result)
{
	struct abandoned_node *node = context;
	node->request = NULL;
	if (is_undecided(&result->err)) {
		return;
	}
	if (result->err.code == 0 && result->stat.own) {
		node->request = registry_delete(node->agent->registry, node->path,
			REGISTRY_DELETE_NODE, &result->stat, NULL, on_abandoned_removed, node);
	}
	if (!node->request) {
		struct agent *agent = node->agent;
		forget(node);
		if (list_empty(&agent->abandoned)) {
			agent_registry_save_session(agent);
		}
	}
}

static void look_after_abandoned(struct agent *agent)
{
	struct list *next;
	for (struct list *at = agent->abandoned.next; at != &agent->abandoned; at = next) {
		struct abandoned_node *node = LIST_ITEM(at, struct abandoned_node, link);
		next = at->next;
		if (node->request) {
			continue; /* its answer decides */
		}
		if (agent_components_have_path(agent, node->path)) {
			forget(node);
		} else {
			node->request = registry_stat(
				agent->registry, node->path, on_abandoned_stat, node);
		}
	}
}

/* ---- the session, kept for a successor ---- */

json_t *agent_registry_paths(const struct agent *agent)
{
	json_t *paths = json_array();
	agent_components_add_paths(agent, paths);
	for (const struct list *at = agent->abandoned.next; at != &agent->abandoned;
		at = at->next) {
		const char *path = LIST_ITEM(at, struct abandoned_node, link)->path;
		if (!agent_components_have_path(agent, path)) {
			json_array_append_new(paths, json_string(path));
		}
	}
	return paths;
}

/* Takes both references. */
static json_t *session_document(const struct agent *agent, json_t *session, json_t *paths)
{
	return json_pack("{s:i, s:s, s:o, s:o}", "version", SESSION_VERSION, "url",
		agent->config->registry.url, "session", session, "paths", paths);
}

static void end_saving(struct agent *agent)
{
	timer_stop(&agent->session_save_timer);
	agent_wake(agent);
}

static void on_save_timer(void *context)
{
	log_warn("agent", "the session is not saved yet; records do not wait any longer");
	end_saving(context);
}

static void on_session_saved(void *context, const struct err *err)
{
	struct agent *agent = context;
	if (err->code) {
		log_warn("agent", "the session is not saved and ends with this process: %s",
			err->msg);
	}
	end_saving(agent);
}

static void note_saved(struct agent *agent, const json_t *session)
{
	const char *id = json_string_value(json_object_get(session, "id"));
	text_printf(agent->session_saved, sizeof(agent->session_saved), "%s", id ? id : "");
}

/*
 * The first records in a session wait for its file, for a while: after a kill the successor resumes
 * the session in it, and takes over one by one the records of any other. A power cut lasts longer
 * than a session, so nothing waits for the disk.
 */
static void await_session(struct agent *agent, const json_t *session)
{
	char before[sizeof(agent->session_saved)];
	text_printf(before, sizeof(before), "%s", agent->session_saved);
	note_saved(agent, session);
	if (strcmp(before, agent->session_saved) != 0) {
		timer_start(&agent->session_save_timer, SAVE_PATIENCE_MS);
	}
}

void agent_registry_save_session(struct agent *agent)
{
	json_t *session = registry_session(agent->registry);
	if (!session) {
		return;
	}
	await_session(agent, session);
	json_t *document = session_document(agent, session, agent_registry_paths(agent));
	if (document) {
		state_dir_save_passing(
			&agent->state, SESSION_DOCUMENT, document, on_session_saved, agent);
	}
	json_decref(document);
}

static void close_lookups(struct agent *agent)
{
	if (agent->lookups && agent->lookups != agent->registry) {
		registry_loop_finish(&agent->lookups_driver);
		registry_close(agent->lookups);
	}
	agent->lookups = NULL;
}

json_t *agent_registry_leave(
	struct agent *agent, json_t *paths_take, json_t *(*leave)(struct registry *registry))
{
	close_lookups(agent);
	registry_loop_finish(&agent->registry_driver);
	json_t *session = leave(agent->registry);
	agent->registry = NULL;
	json_t *document = NULL;
	if (session) {
		document = session_document(agent, session, paths_take);
	} else {
		json_decref(paths_take);
	}
	forget_abandoned(agent);
	return document;
}

/* The predecessor's session in the state directory; NULL when there is none. */
static json_t *load_session(struct agent *agent)
{
	struct err err = ERR_INIT;
	json_t *document = state_dir_load(&agent->state, SESSION_DOCUMENT, &err);
	if (err.code) {
		log_warn("agent", "the saved session cannot be read, a new one is made: %s",
			err.msg);
	} else if (!document) {
		log_info("agent", "no session was saved, a new one is made");
	}
	return document;
}

/* The session in a document that fits our registry, or NULL; borrowed. */
static json_t *session_of(const struct agent *agent, const json_t *document)
{
	if (!document) {
		return NULL;
	}
	const char *url = json_string_value(json_object_get(document, "url"));
	json_t *session = json_object_get(document, "session");
	if (json_integer_value(json_object_get(document, "version")) != SESSION_VERSION || !url ||
		!json_is_object(session)) {
		log_warn("agent",
			"the predecessor's session has an unknown shape, a new one is made");
		return NULL;
	}
	if (strcmp(url, agent->config->registry.url) != 0) {
		log_warn("agent",
			"the predecessor's session is with another registry, a new one is made; "
			"the records there end with it");
		return NULL;
	}
	return session;
}

/* ---- the root: the first agent makes it ---- */

static void on_root_made(void *context, const struct registry_result *result)
{
	(void)context;
	if (result->err.code && !is_undecided(&result->err)) {
		log_warn("agent", "cannot make the registry's root: %s", result->err.msg);
	}
}

static void on_root_stat(void *context, const struct registry_result *result)
{
	struct agent *agent = context;
	if (result->err.code == BERTH_PATH_NOT_FOUND) {
		registry_mknode(agent->registry, "/", NULL, false, on_root_made, agent);
	}
}

/* ---- the connection ---- */

static void note_state(struct agent *agent, enum registry_state state, const char *why)
{
	agent->registry_since = ev_now(agent->loop);
	agent_transition(agent, "registry", registry_state_name(agent->registry_was),
		registry_state_name(state), why);
	agent->registry_was = state;
	text_printf(agent->registry_error, sizeof(agent->registry_error), "%s",
		state == REGISTRY_CONNECTED ? "" : why);
	metrics_set(agent->metrics, METRIC_REGISTRY_CONNECTED, "", state == REGISTRY_CONNECTED);
	if (state == REGISTRY_LOST) {
		metrics_add(agent->metrics, METRIC_SESSION_EXPIRATIONS, "", "", 1);
	}
}

static void take_up_session(struct agent *agent, enum registry_state state)
{
	if (state == REGISTRY_CONNECTED) {
		registry_stat(agent->registry, "/", on_root_stat, agent);
		look_after_abandoned(agent);
		agent_registry_save_session(agent);
	}
}

static void tell_readers(struct agent *agent, enum registry_state state)
{
	shared_on_registry_state(agent->shared, state);
	cache_on_registry_state(agent->cache, state);
}

static void tell_writers(struct agent *agent, enum registry_state state, const char *why)
{
	agent_components_on_registry_state(agent, state, why);
	agent_bridge_on_registry_state(agent, state, why);
	if (agent->api) {
		api_follows_changed(agent->api);
	}
	agent_wake(agent);
}

static void on_state(void *context, enum registry_state state, const char *why)
{
	struct agent *agent = context;
	note_state(agent, state, why);
	if (state == REGISTRY_CONNECTED && agent->on_registry_server) {
		config_address_set_server(registry_server(agent->registry));
		agent->on_registry_server(agent); /* before the first record is written */
	}
	take_up_session(agent, state);
	tell_readers(agent, state);
	tell_writers(agent, state, why);
}

void agent_registry_log(enum registry_log_level level, const char *name, const char *message)
{
	static const enum log_level levels[] = {
		[REGISTRY_LOG_ERROR] = LOG_LEVEL_ERROR,
		[REGISTRY_LOG_WARN] = LOG_LEVEL_WARN,
		[REGISTRY_LOG_INFO] = LOG_LEVEL_INFO,
		[REGISTRY_LOG_DEBUG] = LOG_LEVEL_DEBUG,
	};
	log_at(levels[level], "registry", "%s%s%s", name, *name ? ": " : "", message);
}

static void on_log(void *context, enum registry_log_level level, const char *message)
{
	(void)context;
	agent_registry_log(level, "", message);
}

static void on_attempt(void *context, const char *why, unsigned count)
{
	struct agent *agent = context;
	const char *state = registry_state_name(agent->registry_was);
	text_printf(
		agent->registry_error, sizeof(agent->registry_error), "%s, attempt %u", why, count);
	agent_components_on_registry_state(agent, agent->registry_was, agent->registry_error);
	agent_bridge_on_registry_state(agent, agent->registry_was, agent->registry_error);
	/* The registry logs its attempts itself. */
	agent_event(agent,
		&(struct transition){ .subject = "registry",
			.from = state,
			.to = state,
			.why = agent->registry_error,
			.retry = true,
			.unlogged = true });
}

static const char *const results[] = { "ok", "refused", "timeout", "unavailable" };

/* "No such path" is an answer, too. */
static const char *result_of(int code)
{
	switch (code) {
	case 0:
	case BERTH_PATH_NOT_FOUND:
		return results[0];
	case BERTH_TIMEOUT:
		return results[2];
	case BERTH_REGISTRY_UNAVAILABLE:
		return results[3];
	default:
		return results[1];
	}
}

void agent_registry_count(const struct agent *agent, const char *name, int code, double duration_s)
{
	metrics_series_observe(
		metrics_series(agent->metrics, METRIC_REGISTRY_REQUESTS, name, result_of(code)),
		duration_s);
}

static void on_answer(void *context, int code, double duration_s)
{
	agent_registry_count(context, "", code, duration_s);
}

static void make_request_series(struct metrics *metrics)
{
	for (size_t i = 0; i < ARRAY_LEN(results); i++) {
		metrics_series(metrics, METRIC_REGISTRY_REQUESTS, "", results[i]);
	}
}

/* Hadoop's own layout lets users write their homes. */
static bool uses_hadoop_layout(const struct config *config)
{
	for (size_t i = 0; i < config->component_count; i++) {
		if (config->components[i].hadoop_layout) {
			return true;
		}
	}
	return false;
}

/* ---- imports ---- */

static enum dialect_type dialect_of(enum config_import_type type)
{
	static const enum dialect_type types[] = {
		[CONFIG_IMPORT_REGISTRAR] = DIALECT_REGISTRAR,
		[CONFIG_IMPORT_SERVERSET] = DIALECT_SERVERSET,
		[CONFIG_IMPORT_CURATOR] = DIALECT_CURATOR,
		[CONFIG_IMPORT_SPRING] = DIALECT_SPRING,
		[CONFIG_IMPORT_NERVE] = DIALECT_NERVE,
		[CONFIG_IMPORT_MESOS] = DIALECT_MESOS,
	};
	return types[type];
}

int agent_registry_set_imports(
	const struct agent *agent, struct registry *registry, const char *at, struct err *err)
{
	const struct config *config = agent->config;
	struct registry_import *imports = allocate_zeroed(config->import_count, sizeof(*imports));
	size_t count = 0;
	for (size_t i = 0; i < config->import_count; i++) {
		const struct config_import *import = &config->imports[i];
		if (!(*at ? path_is_under(import->as, at)
			  : !path_is_under(import->as, CONFIG_NET))) {
			continue;
		}
		imports[count++] = (struct registry_import){
			.type = dialect_of(import->type),
			.from = import->from,
			.as = import->as,
		};
	}
	int code = registry_set_imports(registry, imports, count, err);
	free(imports);
	return code;
}

json_t *agent_registry_imports_json(const struct agent *agent)
{
	json_t *imports = json_array();
	for (size_t i = 0; i < agent->config->import_count; i++) {
		const struct config_import *import = &agent->config->imports[i];
		json_array_append_new(imports,
			json_pack("{s:s, s:s, s:s, s:s}", "name", import->name, "type",
				dialect_name(dialect_of(import->type)), "from", import->from, "as",
				import->as));
	}
	return imports;
}

/* ---- url = host: the container's own directory, and what the host's agent sees ---- */

static void on_own_state(void *context, enum registry_state state, const char *why)
{
	struct agent *agent = context;
	take_up_session(agent, state);
	tell_writers(agent, state, why);
}

static void on_lookups_state(void *context, enum registry_state state, const char *why)
{
	struct agent *agent = context;
	note_state(agent, state, why);
	tell_readers(agent, state);
	agent_wake(agent);
}

static void on_container(void *context, const json_t *container)
{
	struct agent *agent = context;
	agent_components_on_container(agent, container);
	agent_wake(agent);
}

/* The directory next to the host's socket, in `directory`; NULL: the URL has no host. */
static const char *own_directory(const char *url, char *directory, size_t size)
{
	enum registry_url_kind kind;
	const char *rest = registry_url_rest(url, &kind);
	if (!rest || kind != REGISTRY_URL_HOST) {
		return NULL;
	}
	text_printf(directory, size, "dir:%s/%s", rest, REGISTRY_URL_HOST_RECORDS);
	return directory;
}

/* The registry of our records is open; look-ups have another one. */
static int open_lookups(struct agent *agent, struct err *err)
{
	const struct config_registry *config = &agent->config->registry;
	const struct registry_options options = {
		.url = config->url,
		.session_timeout_ms = (int)config->session_timeout_ms,
		.on_state = on_lookups_state,
		.on_log = on_log,
		.on_attempt = on_attempt,
		.on_answer = on_answer,
		.on_container = on_container,
		.hidden = CONFIG_NET,
		.context = agent,
	};
	return registry_open(&agent->lookups, &options, err);
}

void agent_registry_apply_options(struct agent *agent)
{
	struct err err = ERR_INIT;
	if (agent_registry_set_imports(agent, agent->registry, "", &err)) {
		log_error("agent", "the imports stay as they were: %s", err.msg);
	}
}

int agent_registry_open(struct agent *agent, const json_t *left, struct err *err)
{
	json_t *document = left ? json_incref((json_t *)left) : load_session(agent);
	json_t *session = session_of(agent, document);
	const struct config_registry *config = &agent->config->registry;
	char directory[sizeof("dir:") + sizeof(((struct registry_url *)NULL)->path) + 16];
	const char *own = own_directory(config->url, directory, sizeof(directory));
	const struct registry_options options = {
		.url = own ? own : config->url,
		.session_timeout_ms = (int)config->session_timeout_ms,
		.ends_in_silence = true,
		.auth = config->auth,
		.auth_file = config->auth_file,
		.tls_ca = config->tls_ca,
		.tls_cert = config->tls_cert,
		.tls_key = config->tls_key,
		.tls_passphrase_file = config->tls_passphrase_file,
		.secure = config->secure,
		.system_accounts = config->system_accounts,
		.write_accessors = config->write_accessors,
		.home_write = uses_hadoop_layout(agent->config),
		.realm = config->realm,
		.forks = true,
		.own_tree = own != NULL,
		.foreign_paths = true,
		.hidden = CONFIG_NET,
		.session = session,
		.on_state = own ? on_own_state : on_state,
		.on_log = on_log,
		.on_attempt = on_attempt,
		.on_answer = on_answer,
		.context = agent,
	};
	list_init(&agent->abandoned);
	timer_init(&agent->session_save_timer, agent->loop, "saving of the session", on_save_timer,
		agent);
	note_saved(agent, session);
	make_request_series(agent->metrics);
	int code = registry_open(&agent->registry, &options, err);
	agent->lookups = agent->registry;
	if (code == 0 &&
		(agent_registry_set_imports(agent, agent->registry, "", err) ||
			(own && open_lookups(agent, err)))) {
		registry_close(agent->registry);
		agent->registry = agent->lookups = NULL;
		code = err->code;
	}
	if (code == 0) {
		registry_loop_init(&agent->registry_driver, agent->loop, agent->registry);
		if (own) {
			registry_loop_init(&agent->lookups_driver, agent->loop, agent->lookups);
		}
		agent->registry_since = ev_now(agent->loop);
		agent->session_resumed = session != NULL;
		remember_abandoned(agent, session ? json_object_get(document, "paths") : NULL);
	}
	json_decref(document);
	return code;
}

void agent_registry_reauthenticate(struct agent *agent)
{
	struct err err = ERR_INIT;
	if (registry_reauthenticate(agent->registry, &err)) {
		log_warn("registry", "the credentials stay as they are: %s", err.msg);
	}
}

static void on_session_removed(void *context, const struct err *err)
{
	(void)context;
	if (err->code) {
		log_warn("agent", "%s", err->msg);
	}
}

void agent_registry_close(struct agent *agent)
{
	if (!agent->registry) {
		return;
	}
	if (agent->leave_session) {
		json_decref(agent_registry_leave(agent, json_array(), registry_detach));
		return;
	}
	close_lookups(agent);
	registry_loop_finish(&agent->registry_driver);
	if (state_dir_usable(&agent->state)) {
		state_dir_remove(&agent->state, SESSION_DOCUMENT, on_session_removed, agent);
	}
	registry_close(agent->registry);
	agent->registry = NULL;
	forget_abandoned(agent);
}
