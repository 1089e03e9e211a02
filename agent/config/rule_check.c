/* Rules for a [check] as a whole: options that need, or exclude, one another. */
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "agent/base/allocate.h"
#include "agent/config/build.h"
#include "agent/config/builtin.h"
#include "agent/config/doubt.h"
#include "agent/config/rule_probe.h"
#include "agent/config/value.h"

/* The pace on the way up, where none is written: an application is announced soon after it came. */
enum { SOON_MS = 1000 };

/* Berth's built-in values, for the shell; variables of the section go first. */
static void add_builtin(void *context, const char *name, const char *value)
{
	struct config_check *check = context;
	for (size_t i = 0; i < check->environment_count; i++) {
		if (strcmp(check->environment[i].name, name) == 0) {
			return;
		}
	}
	check->environment = allocate_grow(
		check->environment, check->environment_count, sizeof(*check->environment));
	check->environment[check->environment_count++] = (struct config_name_value){
		.name = allocate_text(name),
		.value = allocate_text(value),
	};
}

/* The statuses of a type: the table has those of all types. */
static void rule_warning_status(struct config_builder *builder, const struct config_check *check)
{
	enum { EXIT_FIRST = 1, EXIT_LAST = 255, HTTP_FIRST = 100, HTTP_LAST = 599 };
	bool http = check->type == CONFIG_CHECK_HTTP;
	int first = http ? HTTP_FIRST : EXIT_FIRST;
	int last = http ? HTTP_LAST : EXIT_LAST;
	for (size_t i = 0; i < check->warning_status_count; i++) {
		const struct config_status_range *range = &check->warning_status[i];
		if (range->first < first || range->last > last) {
			config_fault(builder, "warning_status",
				"`warning_status`: write statuses from %d to %d, and ranges of "
				"them, for type %s",
				first, last, http ? "http" : "command");
			return;
		}
		for (int status = range->first; http && status <= range->last; status++) {
			if (config_status_in_ranges(
				    check->expect_status, check->expect_status_count, status)) {
				config_fault(builder, "warning_status",
					"`warning_status`: status %d is in `expect_status`, too%s",
					status,
					config_lacks(builder, "expect_status")
						? ", which is 200-299 by default"
						: "");
				return;
			}
		}
	}
}

static void rule_command(struct config_builder *builder, struct config_check *check)
{
	config_require(builder, "command");
	rule_warning_status(builder, check);
	if (!check->argv) {
		return;
	}
	if (check->shell) {
		config_builtin_each(check->command, add_builtin, check);
		return;
	}
	const struct config_entry *entry = config_section_find(builder->section, "command");
	struct err doubt = ERR_INIT;
	if (builder->former) {
		return;
	}
	if (config_doubt_shell_syntax(entry->value, &doubt) ||
		config_doubt_program(check->argv[0], check->cwd, &doubt)) {
		config_doubt(builder, "command", "%s", doubt.msg);
	}
}

/* unix:/path, or http://unix:/path:/uri; not for grpc. False for any other target. */
static bool split_unix_target(
	const struct config_check *check, char **ret_host, char **ret_path, struct err *err)
{
	const char *prefix = check->type == CONFIG_CHECK_HTTP ? "http://unix:" : "unix:";
	if (strncmp(check->target, prefix, strlen(prefix)) != 0) {
		return false;
	}
	if (check->type == CONFIG_CHECK_GRPC) {
		err_set(err, BERTH_FAILED, "a gRPC server is asked over TCP: write host:port");
		return true;
	}
	const char *socket = check->target + strlen(prefix);
	const char *uri = check->type == CONFIG_CHECK_HTTP ? strstr(socket, ":/") : NULL;
	size_t len = uri ? (size_t)(uri - socket) : strlen(socket);
	if (*socket != '/' || len >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		err_set(err, BERTH_FAILED,
			"behind unix: write the absolute path of a socket, at most %zu bytes",
			sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
		return true;
	}
	*ret_host = allocate_bytes(socket, len);
	*ret_path = allocate_text(uri ? uri + 1 : "/");
	return true;
}

static void rule_target(struct config_builder *builder, struct config_check *check)
{
	config_require(builder, "target");
	if (!*check->target) {
		return;
	}
	struct err err = ERR_INIT;
	char *host = NULL;
	char *port = NULL;
	char *path = NULL;
	if (split_unix_target(check, &host, &path, &err)) {
		port = err.code ? NULL : allocate_text("");
	} else if (check->type == CONFIG_CHECK_HTTP) {
		config_parse_http_url(check->target, &host, &port, &path, &check->tls, &err);
	} else if (config_parse_host_port(check->target, 1, &host, &port, &err) == 0) {
		path = allocate_text("");
	}
	if (err.code) {
		config_fault(builder, "target", "`target`: %s", err.msg);
		return;
	}
	free(check->target_host);
	free(check->target_port);
	free(check->target_path);
	check->target_host = host;
	check->target_port = port;
	check->target_path = path;
}

static void rule_http(struct config_builder *builder, struct config_check *check)
{
	rule_target(builder, check);
	rule_warning_status(builder, check);
	config_rule_probe(builder, check);
	if (*check->body && config_lacks(builder, "method")) {
		free(check->method);
		check->method = allocate_text("POST");
	}
}

static void refuse_twice(struct config_builder *builder, const struct config_check *check)
{
	for (size_t i = 0; i < check->component_count; i++) {
		for (size_t j = 0; j < i; j++) {
			if (strcmp(check->components[i], check->components[j]) == 0) {
				config_fault(builder, "component", "`component` names %s twice",
					check->components[i]);
			}
		}
	}
}

static bool has_endpoint(const struct config_component *component, const char *name)
{
	for (size_t i = 0; i < component->endpoint_count; i++) {
		if (strcmp(component->endpoints[i].name, name) == 0) {
			return true;
		}
	}
	return false;
}

/* The first component of the check that has none of its endpoints; NULL: each has one. */
static const char *without_endpoint(const struct config_check *check)
{
	for (size_t i = 0; i < check->component_count; i++) {
		bool any = false;
		for (size_t j = 0; j < check->endpoint_count; j++) {
			any |= has_endpoint(config_check_component(check, i), check->endpoints[j]);
		}
		if (!any) {
			return check->components[i];
		}
	}
	return NULL;
}

static bool any_has_endpoint(const struct config_check *check, const char *name)
{
	bool any = false;
	for (size_t i = 0; i < check->component_count; i++) {
		any |= has_endpoint(config_check_component(check, i), name);
	}
	return any;
}

static void rule_endpoints(struct config_builder *builder, const struct config_check *check)
{
	bool all_known = true;
	for (size_t i = 0; i < check->endpoint_count; i++) {
		if (!any_has_endpoint(check, check->endpoints[i])) {
			all_known = false;
			config_fault(builder, "endpoints",
				check->component_count > 1
					? "`endpoints`: none of its components has [endpoint %s]"
					: "`endpoints`: this component has no [endpoint %s]",
				check->endpoints[i]);
		}
	}
	if (check->endpoint_count > 0 && all_known && without_endpoint(check)) {
		config_fault(builder, "endpoints",
			"`endpoints` names no endpoint of [component %s], which `component` names",
			without_endpoint(check));
	}
}

/*
 * After a failure of an up check the next run comes after fast_interval, without one after
 * interval; reports to a ttl check come as they like.
 */
static bool window_holds_fall(
	const struct config_builder *builder, const struct config_check *check)
{
	return check->window_ms == 0 || check->type == CONFIG_CHECK_TTL ||
		config_is_bad(builder, "fall") || config_is_bad(builder, "interval") ||
		config_is_bad(builder, "fast_interval") ||
		(check->fall - 1) * check->falling_interval_ms < check->window_ms;
}

static void rule_window(struct config_builder *builder, const struct config_check *check)
{
	if (window_holds_fall(builder, check)) {
		return;
	}
	double apart_s = (double)check->falling_interval_ms / 1000;
	config_fault(builder, "window",
		"`window` can never hold `fall` = %d failures, which `%s` = %.9gs sets "
		"apart: it must be longer than %.9gs",
		check->fall, config_lacks(builder, "fast_interval") ? "interval" : "fast_interval",
		apart_s, (check->fall - 1) * apart_s);
}

/* Both are written: of a default nobody says that it was meant. */
static void doubt_longer_than_interval(struct config_builder *builder, const char *key,
	int64_t value_ms, int64_t interval_ms, const char *effect)
{
	if (!*config_given(builder, key) || !*config_given(builder, "interval") ||
		value_ms <= interval_ms) {
		return;
	}
	config_doubt(builder, key, "%.9gs is longer than `interval`, %.9gs: %s",
		(double)value_ms / 1000, (double)interval_ms / 1000, effect);
}

static void doubt_times(struct config_builder *builder, const struct config_check *check)
{
	if (check->type != CONFIG_CHECK_TTL) {
		doubt_longer_than_interval(builder, "timeout", check->timeout_ms,
			check->interval_ms, "a run that hangs keeps the next ones from their time");
	}
	doubt_longer_than_interval(builder, "fast_interval", check->fast_interval_ms,
		check->interval_ms, "while the state changes, the check would run less often");
}

static void rule_type(struct config_builder *builder, struct config_check *check)
{
	switch (check->type) {
	case CONFIG_CHECK_COMMAND:
		rule_command(builder, check);
		break;
	case CONFIG_CHECK_TCP:
		rule_target(builder, check);
		break;
	case CONFIG_CHECK_HTTP:
		rule_http(builder, check);
		break;
	case CONFIG_CHECK_GRPC:
		rule_target(builder, check);
		config_rule_probe(builder, check);
		break;
	case CONFIG_CHECK_TTL:
		break;
	}
}

/*
 * On the way down `interval` stays: it is the patience that was asked for, and a shorter one by
 * default would take the component out for a few seconds of trouble.
 */
void config_check_fill_intervals(struct config_check *check)
{
	int64_t fast_ms = check->fast_interval_ms;
	int64_t soon_ms = check->interval_ms < SOON_MS ? check->interval_ms : SOON_MS;
	check->rising_interval_ms = fast_ms > 0 ? fast_ms : soon_ms;
	check->falling_interval_ms = fast_ms > 0 ? fast_ms : check->interval_ms;
	if (check->down_interval_ms == 0) {
		check->down_interval_ms = soon_ms;
	}
}

void config_rule_check(
	struct config_builder *builder, struct config_check *check, bool components_known)
{
	refuse_twice(builder, check);
	if (components_known) {
		rule_endpoints(builder, check);
	}
	config_check_fill_intervals(check);
	if (config_is_bad(builder, "type")) {
		return;
	}
	if (config_lacks(builder, "type") && config_lacks(builder, "command")) {
		config_fault(builder, "type",
			"[check %s] needs `type` (command, tcp, http, ttl or grpc), or a `command`",
			builder->section->name);
		return;
	}
	config_refuse_other_types(builder, &config_sections[CONFIG_CHECK], check->type);
	rule_window(builder, check);
	doubt_times(builder, check);
	rule_type(builder, check);
	struct err doubt = ERR_INIT;
	if (!builder->former &&
		config_doubt_writer(&check->writer, &builder->config->agent, &doubt)) {
		config_doubt(builder, "writer", "%s", doubt.msg);
	}
}
