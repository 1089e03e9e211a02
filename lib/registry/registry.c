/* Opening, closing and driving a registry; the requests are in the other registry_*.c. */
#include "lib/registry/mount.h"

#include <stdlib.h>
#include <string.h>

#include "lib/registry/url.h"

static void on_completed(void *core, struct registry_task *task)
{
	(void)core;
	registry_call_completed(task);
}

static void on_notified(void *core, const char *path, enum registry_watch_kind kind, bool gone)
{
	char here[LIMIT_PATH_BYTES + 1];
	if (registry_path_of_backend(core, path, here)) {
		registry_watches_notified(core, here, kind, gone);
		registry_mounts_notified(core, here, kind, gone);
	}
}

static void on_state(void *core, enum registry_state state, const char *why)
{
	struct registry *registry = core;
	registry->state = state;
	registry_watches_state(registry);
	if (registry->on_state) {
		registry->on_state(registry->context, state, why);
	}
}

static void on_log(void *core, enum registry_log_level level, const char *message)
{
	struct registry *registry = core;
	if (registry->on_log) {
		registry->on_log(registry->context, level, message);
	}
}

static void on_attempt(void *core, const char *why, unsigned count)
{
	struct registry *registry = core;
	if (registry->on_attempt) {
		registry->on_attempt(registry->context, why, count);
	}
}

static void on_container(void *core, const json_t *container)
{
	struct registry *registry = core;
	if (registry->on_container) {
		registry->on_container(registry->context, container);
	}
}

/* Everything but the backend. */
static void registry_free(struct registry *registry)
{
	registry_mounts_finish(registry);
	registry_acl_policy_finish(&registry->acl_policy);
	free(registry->warning);
	free(registry->hidden);
	free(registry->at);
	free(registry->url);
	free(registry);
}

static struct registry *registry_create(const struct registry_options *options, struct err *err)
{
	struct registry *registry = calloc(1, sizeof(*registry));
	if (!registry) {
		err_set(err, BERTH_FAILED, "no memory for a registry");
		return NULL;
	}
	registry->on_state = options->on_state;
	registry->on_log = options->on_log;
	registry->on_attempt = options->on_attempt;
	registry->on_answer = options->on_answer;
	registry->on_container = options->on_container;
	registry->context = options->context;
	registry->request_timeout_ms = options->request_timeout_ms;
	registry->foreign_paths = options->foreign_paths;
	list_init(&registry->requests);
	list_init(&registry->refused);
	registry_watches_init(&registry->watches);
	registry->url = registry_url_display(options->url);
	registry->at = strdup(options->at);
	registry->hidden = strdup(options->hidden);
	if (!registry->url || !registry->at || !registry->hidden) {
		err_set(err, BERTH_FAILED, "no memory for a registry");
	} else if (!registry_acl_policy_init(
			   &registry->acl_policy, options, &registry->warning, err)) {
		return registry;
	}
	registry_free(registry);
	return NULL;
}

int registry_open_backend(struct registry **ret_registry, const struct registry_backend_ops *ops,
	const char *rest, const struct registry_options *options, struct err *err)
{
	struct registry_options all = registry_options_complete(options);
	struct registry *registry = registry_create(&all, err);
	if (!registry) {
		return err->code;
	}
	registry->ops = ops;
	const struct registry_core core = { .core = registry,
		.completed = on_completed,
		.notified = on_notified,
		.state = on_state,
		.log = on_log,
		.attempt = on_attempt,
		.container = on_container };
	if (ops->open(&registry->backend, rest, &all, &core, err)) {
		registry_free(registry);
		return err->code;
	}
	*ret_registry = registry;
	return 0;
}

int registry_open(
	struct registry **ret_registry, const struct registry_options *options, struct err *err)
{
	if (registry_options_check(options, NULL, err)) {
		return err->code;
	}
	const char *rest;
	const struct registry_backend_ops *ops = registry_backend_of(options->url, &rest);
	ops = ops->choose ? ops->choose(rest, options) : ops;
	return registry_open_backend(ret_registry, ops, rest, options, err);
}

static void free_requests(struct registry *registry)
{
	while (!list_empty(&registry->requests)) {
		registry_request_free(
			LIST_ITEM(registry->requests.next, struct registry_request, link));
	}
	registry_watches_finish(registry);
}

void registry_close(struct registry *registry)
{
	if (!registry) {
		return;
	}
	free_requests(registry);
	registry->ops->close(registry->backend);
	registry_free(registry);
}

json_t *registry_detach(struct registry *registry)
{
	free_requests(registry);
	json_t *session = registry->ops->detach(registry->backend);
	registry_free(registry);
	return session;
}

json_t *registry_leave(struct registry *registry)
{
	return registry->ops->detach(registry->backend);
}

json_t *registry_session(const struct registry *registry)
{
	return registry->ops->session(registry->backend);
}

int registry_fd(const struct registry *registry)
{
	return registry->ops->fd(registry->backend);
}

int64_t registry_deadline_ms(const struct registry *registry)
{
	if (!list_empty(&registry->refused) || registry->warning) {
		return 0;
	}
	int64_t watches_ms = registry_watches_deadline_ms(registry);
	int64_t backend_ms = registry->ops->deadline_ms(registry->backend);
	return watches_ms < backend_ms ? watches_ms : backend_ms;
}

void registry_dispatch(struct registry *registry, int64_t now_ms)
{
	registry->watches.now_ms = now_ms;
	if (registry->warning) {
		on_log(registry, REGISTRY_LOG_WARN, registry->warning);
		free(registry->warning);
		registry->warning = NULL;
	}
	registry_calls_complete_refused(registry);
	registry->ops->dispatch(registry->backend, now_ms);
	registry_watches_dispatch(registry);
}

int registry_reauthenticate(struct registry *registry, struct err *err)
{
	return registry->ops->reauthenticate ? registry->ops->reauthenticate(registry->backend, err)
					     : 0;
}

enum registry_state registry_state(const struct registry *registry)
{
	return registry->state;
}

const char *registry_state_name(enum registry_state state)
{
	static const char *const names[] = {
		[REGISTRY_CONNECTING] = "connecting",
		[REGISTRY_CONNECTED] = "connected",
		[REGISTRY_AWAY] = "away",
		[REGISTRY_LOST] = "lost",
		[REGISTRY_DENIED] = "denied",
	};
	return names[state];
}

const char *registry_url(const struct registry *registry)
{
	return registry->url;
}

const char *registry_session_name(const struct registry *registry)
{
	return registry->ops->session_name(registry->backend);
}

const char *registry_server(const struct registry *registry)
{
	return registry->ops->server ? registry->ops->server(registry->backend) : "";
}

int registry_session_timeout_ms(const struct registry *registry)
{
	return registry->ops->session_timeout_ms(registry->backend);
}

int64_t registry_heard_ms(const struct registry *registry, int64_t now_ms)
{
	return registry_watches_heard_ms(registry, registry_server_heard_ms(registry, now_ms));
}

int registry_add_write_accessor(
	struct registry *registry, const char *user, const char *password, struct err *err)
{
	if (registry->acl_policy.fixed.count == 0) {
		return err_set(err, BERTH_FAILED,
			"a write accessor for %s does nothing: without secure everybody may write",
			user);
	}
	return registry_acl_add_accessor(&registry->acl_policy, user, password, err);
}

void registry_clear_write_accessors(struct registry *registry)
{
	registry_acl_clear_accessors(&registry->acl_policy);
}
