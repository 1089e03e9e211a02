/* A registry between its user and its backend: what it passes on, either way. */
#include "tests/support/core_stage.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/registry/internal.h"

/* The last that a registry told its user. */
struct told {
	enum registry_state state;
	size_t states;
	size_t lines;
	char line[512];
	unsigned attempts;
	char why[64];
};

static void on_state(void *context, enum registry_state state, const char *why)
{
	struct told *told = context;
	cr_assert_not_null(why);
	told->state = state;
	told->states++;
}

static void on_log(void *context, enum registry_log_level level, const char *message)
{
	struct told *told = context;
	(void)level;
	told->lines++;
	snprintf(told->line, sizeof(told->line), "%s", message);
}

static void on_attempt(void *context, const char *why, unsigned count)
{
	struct told *told = context;
	told->attempts = count;
	snprintf(told->why, sizeof(told->why), "%s", why);
}

static struct registry *open_with(struct registry_options options)
{
	struct registry *registry = memory_open("core", &options);
	client_add(registry);
	return registry;
}

static struct registry *open_telling(struct told *told)
{
	return open_with((struct registry_options){ .on_state = on_state,
		.on_log = on_log,
		.on_attempt = on_attempt,
		.context = told });
}

/* ---- from the backend ---- */

Test(registry_passing, its_user_is_told_each_state)
{
	struct told told = { .states = 0 };
	struct registry *registry = open_telling(&told);
	client_wait_state(registry, REGISTRY_CONNECTED);
	cr_assert_eq(told.states, 1);
	cr_assert_eq(told.state, REGISTRY_CONNECTED);
	move_to(registry, REGISTRY_LOST);
	cr_assert_eq(told.states, 2);
	cr_assert_eq(told.state, REGISTRY_LOST);
	client_close(registry);
}

Test(registry_passing, a_warning_about_the_options_is_logged_once)
{
	struct told told = { .lines = 0 };
	struct registry *registry = open_with((struct registry_options){ .auth = "digest",
		.secure = true,
		.system_accounts = "sasl:yarn@",
		.on_log = on_log,
		.context = &told });
	memory_set_answering(registry, false);
	cr_assert_eq(registry_deadline_ms(registry), 0, "at once");
	registry_dispatch(registry, clock_monotonic_ms());
	cr_assert_eq(told.lines, 1);
	cr_assert_not_null(strstr(told.line, "sasl:yarn@"), "%s", told.line);
	cr_assert_gt(registry_deadline_ms(registry), 0);
	registry_dispatch(registry, clock_monotonic_ms());
	cr_assert_eq(told.lines, 1);
	client_close(registry);
}

/* ---- to the backend ---- */

static json_t *session_of(const struct registry_backend *backend)
{
	(void)backend;
	return json_string("the session");
}

static int reauthenticate(struct registry_backend *backend, struct err *err)
{
	(void)backend;
	return err_set(err, BERTH_AUTHENTICATION_FAILED, "no such file");
}

static int64_t deadline_ms(const struct registry_backend *backend)
{
	(void)backend;
	return 4711;
}

static int session_timeout_ms(const struct registry_backend *backend)
{
	(void)backend;
	return 1234;
}

/* The memory with some answers of its own. */
static struct registry *open_answering(struct registry_backend_ops *ops)
{
	struct registry *registry = NULL;
	struct err err = ERR_INIT;
	const struct registry_options options = { .url = "dir:/shown" };
	*ops = memory_ops;
	ops->session = session_of;
	ops->reauthenticate = reauthenticate;
	ops->deadline_ms = deadline_ms;
	ops->session_timeout_ms = session_timeout_ms;
	cr_assert_eq(registry_open_backend(&registry, ops, "core", &options, &err), 0);
	return registry;
}

Test(registry_passing, the_backend_answers_for_its_session)
{
	struct registry_backend_ops ops;
	struct registry *registry = open_answering(&ops);
	struct err err = ERR_INIT;
	json_t *session = registry_session(registry);
	cr_assert_str_eq(json_string_value(session), "the session");
	json_decref(session);
	cr_assert_eq(registry_reauthenticate(registry, &err), BERTH_AUTHENTICATION_FAILED);
	cr_assert_eq(registry_deadline_ms(registry), 4711);
	cr_assert_eq(registry_session_timeout_ms(registry), 1234);
	cr_assert_eq(strncmp(registry_session_name(registry), "memory ", 7), 0);
	cr_assert_gt(registry_fd(registry), 2);
	cr_assert_str_eq(registry_url(registry), "dir:/shown");
	registry_close(registry);
}

/* ---- what it knows itself ---- */

Test(registry_passing, a_write_accessor_needs_a_secure_registry)
{
	struct err err = ERR_INIT;
	struct registry *open = open_connected();
	struct registry *secure = open_with(
		(struct registry_options){ .auth = "digest", .secure = true });
	cr_assert_eq(registry_add_write_accessor(open, "ann", "secret", &err), BERTH_FAILED);
	cr_assert_not_null(strstr(err.msg, "ann"), "%s", err.msg);
	cr_assert_null(strstr(err.msg, "secret"), "%s", err.msg);
	err_clear(&err);
	cr_assert_eq(registry_add_write_accessor(secure, "ann", "secret", &err), 0);
	cr_assert_eq(registry_add_write_accessor(secure, "a:b", "secret", &err), BERTH_FAILED);
	registry_clear_write_accessors(secure);
	client_close(open);
	client_close(secure);
}
