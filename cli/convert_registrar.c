/* Registrar's configuration; what it means is in docs/DIALECTS.md. */
#include <stdlib.h>
#include <string.h>

#include "cli/convert_write.h"
#include "lib/base/array.h"

enum { LABEL_SIZE = 64 };

#define NOT_NEEDED "not needed: the agent reconnects and keeps its session by itself"

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* ---- [agent], [registry] ---- */

/* bunyan's names and numbers. */
static const char *log_level(const json_t *level)
{
	static const struct {
		const char *name;
		int number;
		const char *ours;
	} levels[] = {
		{ "fatal", 60, "error" },
		{ "error", 50, "error" },
		{ "warn", 40, "warn" },
		{ "info", 30, "info" },
		{ "debug", 20, "debug" },
		{ "trace", 10, "debug" },
	};
	for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
		const char *name = json_string_value(level);
		if (name ? strcmp(name, levels[i].name) == 0
			 : json_integer_value(level) == levels[i].number) {
			return levels[i].ours;
		}
	}
	return NULL;
}

static void write_agent(FILE *out, const json_t *json)
{
	const json_t *level = json_object_get(json, "logLevel");
	const char *ours = log_level(level);
	fputs("\n[agent]\n", out);
	if (ours) {
		convert_write_text(out, "log_level", ours);
	} else if (level) {
		convert_write_dropped(out, "logLevel", "it is not a level of bunyan's");
	}
}

static int write_registry(FILE *out, const json_t *zookeeper, struct err *err)
{
	static const char *const used[] = { "servers", "timeout", NULL };
	static const struct convert_drop drops[] = {
		{ "connectTimeout", NOT_NEEDED },
		{ "retry", NOT_NEEDED },
		{ "maxAttempts", "Registrar's code does not read it" },
		{ NULL, NULL },
	};
	const json_t *servers = json_object_get(zookeeper, "servers");
	double timeout_ms;
	if (json_array_size(servers) == 0) {
		return err_set(err, BERTH_FAILED, "zookeeper.servers is missing");
	}
	fputs("\n[registry]\nurl = zookeeper://", out);
	for (size_t i = 0; i < json_array_size(servers); i++) {
		const json_t *server = json_array_get(servers, i);
		const char *host = text_of(server, "host");
		double port = 2181;
		(void)convert_number(server, "port", &port);
		if (!host || strpbrk(host, "\r\n$ ,/")) {
			return err_set(
				err, BERTH_FAILED, "zookeeper.servers: a server has no host");
		}
		fprintf(out, strchr(host, ':') ? "%s[%s]:%.0f" : "%s%s:%.0f", i ? "," : "", host,
			port);
	}
	fputs("/registry\n", out);
	if (convert_number(zookeeper, "timeout", &timeout_ms)) {
		fprintf(out, "session_timeout = %.0fms\n", timeout_ms);
	}
	convert_write_rest(out, "zookeeper.", zookeeper, used, drops);
	return 0;
}

/* ---- [component], [endpoint], [dialect] ---- */

static const json_t *service_of(const json_t *registration)
{
	return json_object_get(json_object_get(registration, "service"), "service");
}

static void write_component(FILE *out, const json_t *registration, const char *address)
{
	char instance[LABEL_SIZE];
	const json_t *service = service_of(registration);
	double port;
	convert_label(instance, sizeof(instance), text_of(registration, "domain"));
	fprintf(out,
		"\n; Registrar has no record of this kind: choose the "
		"names that fit your registry.\n"
		"[component]\nuser = registrar\nservice_class = %s\ninstance = %s\n",
		service ? "service" : "host", instance);
	if (!convert_number(service, "port", &port)) {
		return;
	}
	const char *name = text_of(service, "srvce");
	const char *api = name && *name == '_' ? name + 1 : name;
	fputs("\n[endpoint service]\n", out);
	convert_write_text(out, "api", api && *api ? api : "service");
	convert_write_text(out, "protocol", api && *api ? api : "tcp");
	fprintf(out, "address_type = host/port\naddress = %s:%.0f\n",
		address ? address : "${berth.ip}", port);
}

static void write_list(FILE *out, const char *key, const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *item = json_array_get(list, i);
		const char *text = json_string_value(item);
		fputs(i ? ", " : key, out);
		fputs(i ? "" : " = ", out);
		if (text && !strpbrk(text, "\r\n$,")) {
			fputs(text, out);
		} else if (json_is_integer(item)) {
			fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(item));
		}
	}
	fputs(json_array_size(list) ? "\n" : "", out);
}

static void write_service(FILE *out, const json_t *registration)
{
	static const char *const used[] = { "srvce", "proto", "port", "ttl", NULL };
	static const char *const outer_used[] = { "type", "service", NULL };
	static const struct convert_drop drops[] = { { NULL, NULL } };
	static const struct convert_drop outer_drops[] = {
		{ "ttl", "Registrar's own default, 60, is in the inner object" },
		{ NULL, NULL },
	};
	const json_t *service = service_of(registration);
	double number;
	if (!service) {
		return;
	}
	if (text_of(service, "srvce")) {
		convert_write_text(out, "service", text_of(service, "srvce"));
	}
	if (text_of(service, "proto")) {
		convert_write_text(out, "protocol", text_of(service, "proto"));
	}
	if (convert_number(service, "port", &number)) {
		fprintf(out, "port = %.0f\n", number);
	}
	if (convert_number(service, "ttl", &number)) {
		fprintf(out, "service_ttl = %.0f\n", number);
	}
	convert_write_rest(out, "registration.service.service.", service, used, drops);
	convert_write_rest(out, "registration.service.", json_object_get(registration, "service"),
		outer_used, outer_drops);
}

static void write_dialect(FILE *out, const json_t *registration, const char *address)
{
	static const char *const used[] = { "domain", "type", "aliases", "ttl", "ports", "service",
		NULL };
	static const struct convert_drop drops[] = {
		{ "heartbeatInterval", NOT_NEEDED },
		{ NULL, NULL },
	};
	double ttl;
	fputs("\n[dialect binder]\ntype = registrar\n", out);
	convert_write_text(out, "domain", text_of(registration, "domain"));
	fputs("host_name = ${berth.hostname}\n", out);
	convert_write_text(out, "host_type", text_of(registration, "type"));
	if (address) {
		convert_write_text(out, "address", address);
	}
	write_list(out, "aliases", json_object_get(registration, "aliases"));
	if (convert_number(registration, "ttl", &ttl)) {
		fprintf(out, "ttl = %.0f\n", ttl);
	}
	write_list(out, "ports", json_object_get(registration, "ports"));
	write_service(out, registration);
	convert_write_rest(out, "registration.", registration, used, drops);
}

/* ---- [check] ---- */

/*
 * A match by line does not see the end of the line: "^\\n$" is an empty one. A dollar at the end
 * means itself.
 */
static void write_pattern(FILE *out, const char *pattern)
{
	size_t len = strlen(pattern);
	size_t end = len > 0 && pattern[len - 1] == '$' ? len - 1 : len;
	char *line = end > 0 && pattern[end - 1] == '\n' ? strdup(pattern) : NULL;
	if (line) {
		strcpy(line + end - 1, "$");
	}
	if (line && strchr(line, '$') == line + end - 1) {
		convert_write_command(out, "match", line);
	} else {
		convert_write_text(out, "match", line ? line : pattern);
	}
	free(line);
}

static void write_match(FILE *out, const json_t *match)
{
	static const char *const used[] = { "pattern", "flags", "invert", NULL };
	static const struct convert_drop drops[] = { { NULL, NULL } };
	const char *pattern = text_of(match, "pattern");
	const char *flags = text_of(match, "flags");
	if (!pattern || !*pattern) {
		return; /* an empty one matches whatever is printed */
	}
	fputs("; A POSIX extended regular expression, for one line; "
	      "JavaScript's matched all the output.\n",
		out);
	write_pattern(out, pattern);
	if (flags && strchr(flags, 'i')) {
		fputs("match_ignore_case = yes\n", out);
	}
	if (flags && strspn(flags, "i") != strlen(flags)) {
		convert_write_dropped(out, "healthCheck.stdoutMatch.flags",
			"but for i, they change nothing for a match by line");
	}
	if (json_is_true(json_object_get(match, "invert"))) {
		fputs("; Registrar ignored this.\nmatch_invert = yes\n", out);
	}
	convert_write_rest(out, "healthCheck.stdoutMatch.", match, used, drops);
}

static double number_or(const json_t *object, const char *name, double fallback)
{
	(void)convert_number(object, name, &fallback);
	return fallback;
}

static void write_check(FILE *out, const json_t *check)
{
	static const char *const used[] = { "command", "interval", "timeout", "threshold", "period",
		"ignoreExitStatus", "stdoutMatch", NULL };
	static const struct convert_drop drops[] = { { NULL, NULL } };
	const char *command = text_of(check, "command");
	if (!command) {
		return;
	}
	double interval_ms = number_or(check, "interval", 60000);
	double threshold = number_or(check, "threshold", 5);
	double period_s = number_or(check, "period", 300);
	fputs("\n[check health]\ntype = command\nshell = yes\n", out);
	convert_write_command(out, "command", command);
	fprintf(out, "interval = %.0fms\ntimeout = %.0fms\nfall = %.0f\n", interval_ms,
		number_or(check, "timeout", 1000), threshold);
	if ((threshold - 1) * interval_ms < period_s * 1000) {
		fprintf(out, "window = %.0fs\n", period_s);
	} else {
		convert_write_dropped(out, "healthCheck.period",
			"so many failures, at this interval, never lie "
			"within it; they count in a row");
	}
	if (json_is_true(json_object_get(check, "ignoreExitStatus"))) {
		fputs("ignore_exit_status = yes\n", out);
	}
	write_match(out, json_object_get(check, "stdoutMatch"));
	convert_write_rest(out, "healthCheck.", check, used, drops);
}

int convert_registrar(const json_t *json, FILE *out, struct err *err)
{
	static const char *const used[] = { "logLevel", "adminIp", "zookeeper", "registration",
		"healthCheck", NULL };
	static const struct convert_drop drops[] = {
		{ "heartbeatInterval", NOT_NEEDED },
		{ "repairHeartbeatMiss", NOT_NEEDED },
		{ "maxAttempts", "Registrar's code does not read it" },
		{ NULL, NULL },
	};
	const json_t *registration = json_object_get(json, "registration");
	const char *address = text_of(json, "adminIp");
	if (!text_of(registration, "domain") || !text_of(registration, "type")) {
		return err_set(
			err, BERTH_FAILED, "registration.domain or registration.type is missing");
	}
	if (address && strspn(address, "0123456789.") != strlen(address)) {
		return err_set(err, BERTH_FAILED, "adminIp is not an IPv4 address");
	}
	write_agent(out, json);
	if (write_registry(out, json_object_get(json, "zookeeper"), err)) {
		return err->code;
	}
	write_component(out, registration, address);
	write_dialect(out, registration, address);
	write_check(out, json_object_get(json, "healthCheck"));
	convert_write_rest(out, "", json, used, drops);
	return 0;
}
