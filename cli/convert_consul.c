/* Consul's definitions of services, with their checks: a file of its configuration directory. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/convert_write.h"
#include "lib/base/array.h"
#include "lib/base/buffer.h"

enum { LABEL_SIZE = 64, VALUE_SIZE = 1024 };

/* Consul takes Name, name and tls_skip_verify, TLSSkipVerify as the same. */
static bool same_name(const char *a, const char *b)
{
	while (*a && *b) {
		if (*a == '_') {
			a++;
		} else if (*b == '_') {
			b++;
		} else if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++)) {
			return false;
		}
	}
	return !*a && !*b;
}

static json_t *member(const json_t *object, const char *wanted)
{
	const char *name;
	json_t *value;
	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		if (same_name(name, wanted)) {
			return value;
		}
	}
	return NULL;
}

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(member(object, name));
}

static bool is_true(const json_t *object, const char *name)
{
	return json_is_true(member(object, name));
}

/* As convert_write_rest(), for names that may be written in several ways. */
static void write_rest(FILE *out, const char *prefix, const json_t *object, const char *const *used,
	const struct convert_drop *drops)
{
	const char *name;
	json_t *value;
	json_t *rest = json_object();
	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		bool is_used = false;
		const char *shown = name;
		for (size_t i = 0; used[i]; i++) {
			is_used |= same_name(used[i], name);
		}
		for (size_t i = 0; drops[i].name; i++) {
			shown = same_name(drops[i].name, name) ? drops[i].name : shown;
		}
		if (!is_used) {
			json_object_set(rest, shown, value);
		}
	}
	static const char *const none[] = { NULL };
	convert_write_rest(out, prefix, rest, none, drops);
	json_decref(rest);
}

/* ---- values ---- */

/* Go's durations: 1m30s, 500ms; a number is nanoseconds. -1: none. */
static double milliseconds(const json_t *object, const char *name)
{
	static const struct {
		const char *unit;
		double ms;
	} units[] = { { "ms", 1 }, { "us", 0.001 }, { "ns", 0.000001 }, { "s", 1000 },
		{ "m", 60000 }, { "h", 3600000 } };
	const json_t *value = member(object, name);
	const char *at = json_string_value(value);
	double sum = 0;
	if (json_is_number(value)) {
		return json_number_value(value) / 1000000;
	}
	if (!at || !*at) {
		return -1;
	}
	while (*at) {
		char *end;
		size_t i = 0;
		double number = isdigit((unsigned char)*at) ? strtod(at, &end) : -1;
		if (number < 0 || number > 1e9) {
			return -1;
		}
		while (i < 6 && strncmp(end, units[i].unit, strlen(units[i].unit)) != 0) {
			i++;
		}
		if (i == 6) {
			return -1;
		}
		sum += number * units[i].ms;
		at = end + strlen(units[i].unit);
	}
	return sum;
}

static void write_duration(
	FILE *out, const json_t *check, const char *name, const char *key, double fallback_ms)
{
	double ms = milliseconds(check, name);
	if (ms < 0 && member(check, name)) {
		convert_write_dropped(out, name, "it is not a duration");
	}
	fprintf(out, "%s = %.0fms\n", key, ms < 1 ? fallback_ms : ms);
}

static void write_count(FILE *out, const json_t *check, const char *name, const char *key)
{
	double count = json_number_value(member(check, name));
	if (count >= 2 && count <= 1000) {
		fprintf(out, "%s = %.0f\n", key, count);
	}
}

static bool is_token(const char *name)
{
	static const char token[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	return *name && !name[strspn(name, token)];
}

/* A word that is split off as it is. */
static void append_word(struct buffer *line, const char *word)
{
	buffer_append_text(line, line->len > 0 ? " '" : "'");
	for (; *word; word++) {
		if (*word == '\'') {
			buffer_append_text(line, "'\\''");
		} else {
			buffer_append(line, word, 1);
		}
	}
	buffer_append_text(line, "'");
}

/* ---- checks ---- */

static void write_args(FILE *out, const json_t *args)
{
	struct buffer line;
	size_t i;
	json_t *word;
	bool good = json_array_size(args) > 0;
	buffer_init(&line, 64 * (size_t)1024);
	json_array_foreach ((json_t *)(uintptr_t)args, i, word) {
		good = good && json_is_string(word);
		append_word(&line, good ? json_string_value(word) : "");
	}
	if (good && !line.failed) {
		convert_write_text(out, "command", buffer_text(&line));
	} else {
		convert_write_dropped(out, "checks.args", "it is not a list of texts");
	}
	buffer_finish(&line);
}

static void write_headers(FILE *out, const json_t *headers)
{
	static const char *const own[] = { "Connection", "Content-Length", "Transfer-Encoding" };
	const char *name;
	json_t *values;
	json_object_foreach ((json_t *)(uintptr_t)headers, name, values) {
		char key[128];
		const json_t *value = json_is_array(values) ? json_array_get(values, 0) : values;
		bool good = json_is_string(value) && is_token(name) && strlen(name) < 64 &&
			json_array_size(values) <= 1;
		for (size_t i = 0; i < ARRAY_LEN(own); i++) {
			good = good && strcasecmp(own[i], name) != 0;
		}
		snprintf(key, sizeof(key), "header.%s", name);
		if (good) {
			convert_write_text(out, strcasecmp(name, "Host") == 0 ? "host" : key,
				json_string_value(value));
		} else {
			convert_write_dropped(out, "checks.header",
				"one has no text or several, or is the agent's own");
		}
	}
}

static void write_tls(FILE *out, const json_t *check)
{
	if (is_true(check, "tls_skip_verify")) {
		fputs("tls_verify = no\n", out);
	}
	if (text_of(check, "tls_server_name") && *text_of(check, "tls_server_name")) {
		convert_write_text(out, "tls_server_name", text_of(check, "tls_server_name"));
	}
}

static void write_http(FILE *out, const json_t *check)
{
	const char *url = text_of(check, "http");
	fputs("type = http\n", out);
	convert_write_text(out, "target", url);
	/* As Consul takes it. */
	fputs("warning_status = 429\n", out);
	if (text_of(check, "method") && *text_of(check, "method")) {
		convert_write_text(out, "method", text_of(check, "method"));
	}
	if (text_of(check, "body") && *text_of(check, "body")) {
		convert_write_text(out, "body", text_of(check, "body"));
	}
	write_headers(out, member(check, "header"));
	if (strncasecmp(url, "https://", 8) == 0) {
		write_tls(out, check);
	}
	if (!is_true(check, "disable_redirects")) {
		convert_write_dropped(
			out, "checks.disable_redirects", "a redirect is not followed, and fails");
	}
}

static void write_grpc(FILE *out, const json_t *check)
{
	char target[VALUE_SIZE];
	snprintf(target, sizeof(target), "%s", text_of(check, "grpc"));
	char *slash = strchr(target, '/');
	if (slash) {
		*slash = '\0';
	}
	fputs("type = grpc\n", out);
	convert_write_text(out, "target", target);
	if (slash && slash[1]) {
		convert_write_text(out, "service", slash + 1);
	}
	if (is_true(check, "grpc_use_tls")) {
		fputs("tls = yes\n", out);
		write_tls(out, check);
	}
}

static void write_command(FILE *out, const json_t *check)
{
	fputs("type = command\n", out);
	if (member(check, "args")) {
		write_args(out, member(check, "args"));
	} else {
		convert_write_command(out, "command", text_of(check, "script"));
		fputs("shell = yes\n", out);
	}
	/* As Consul takes it. */
	fputs("warning_status = 1\n", out);
}

static void write_pace(FILE *out, const json_t *check, bool ttl)
{
	if (ttl) {
		write_duration(out, check, "ttl", "interval", 10000);
	} else {
		write_duration(out, check, "interval", "interval", 10000);
		write_duration(out, check, "timeout", "timeout", 10000);
	}
	write_count(out, check, "success_before_passing", "rise");
	if (member(check, "failures_before_critical")) {
		write_count(out, check, "failures_before_critical", "fall");
	} else {
		fputs("fall = 1\n", out);
	}
	if (text_of(check, "status") && strcmp(text_of(check, "status"), "passing") == 0) {
		fputs("initial = passing\n", out);
	}
}

static void write_check(FILE *out, const json_t *check, const char *label, size_t number)
{
	static const char *const used[] = { "id", "check_id", "name", "args", "script", "http",
		"method", "header", "body", "tls_server_name", "tls_skip_verify", "tcp", "grpc",
		"grpc_use_tls", "ttl", "interval", "timeout", "success_before_passing",
		"failures_before_critical", "status", "disable_redirects", "service_id", NULL };
	static const struct convert_drop drops[] = {
		{ "deregister_critical_service_after",
			"a component whose check is down has no record at once" },
		{ "failures_before_warning",
			"no failure is a warning; see `fall` and `warning_status`" },
		{ "notes", "`description` of the component is for people" },
		{ "output_max_size", "the first 4 KiB of output are kept" },
		{ "tcp_use_tls", "connecting is without TLS; use an https:// or grpc target" },
		{ NULL, NULL },
	};
	static const struct {
		const char *key;
		void (*write)(FILE *out, const json_t *check);
	} kinds[] = { { "http", write_http }, { "grpc", write_grpc }, { "args", write_command },
		{ "script", write_command } };
	bool docker = member(check, "docker_container_id") != NULL;
	const char *tcp = text_of(check, "tcp");
	bool ttl = member(check, "ttl") != NULL;
	size_t kind = 0;
	while (kind < 4 &&
		!(text_of(check, kinds[kind].key) ||
			json_is_array(member(check, kinds[kind].key)))) {
		kind++;
	}
	if (docker || (kind == 4 && !tcp && !ttl)) {
		convert_write_dropped(out, "checks",
			"one is none of args, http, grpc, tcp and ttl; write a command for it");
		return;
	}
	if (kind < 2 && !text_of(check, kinds[kind].key)) {
		convert_write_dropped(out, "checks", "the target of one is not a text");
		return;
	}
	fprintf(out, "\n[check %s-%zu]\ncomponent = %s\n", label, number, label);
	if (kind < 4) {
		kinds[kind].write(out, check);
	} else if (tcp) {
		fputs("type = tcp\n", out);
		convert_write_text(out, "target", tcp);
	} else {
		fputs("type = ttl\n", out);
	}
	write_pace(out, check, kind == 4 && !tcp);
	write_rest(out, "checks.", check, used, drops);
}

/* ---- services ---- */

static void write_attributes(FILE *out, const json_t *service)
{
	const char *name;
	json_t *value;
	const json_t *tags = member(service, "tags");
	double weight = json_number_value(member(member(service, "weights"), "passing"));
	struct buffer list;
	size_t i;
	if (weight >= 1 && weight <= 65535) {
		fprintf(out, "attribute.weight = %.0f\n", weight);
	}
	buffer_init(&list, VALUE_SIZE);
	json_array_foreach ((json_t *)(uintptr_t)tags, i, value) {
		buffer_printf(&list, "%s%s", i > 0 ? "," : "",
			json_is_string(value) ? json_string_value(value) : "");
	}
	if (list.len > 0 && !list.failed) {
		convert_write_text(out, "attribute.tags", buffer_text(&list));
	}
	buffer_finish(&list);
	json_object_foreach (member(service, "meta"), name, value) {
		char key[160];
		snprintf(key, sizeof(key), "attribute.%s", name);
		bool ours = strcmp(name, "weight") == 0 || strcmp(name, "tags") == 0 ||
			strcmp(name, "type") == 0 || strcmp(name, "description") == 0 ||
			strcmp(name, "external") == 0 || strcmp(name, "internal") == 0;
		if (json_is_string(value) && is_token(name) && strlen(name) < 128 && !ours) {
			convert_write_text(out, key, json_string_value(value));
		} else {
			convert_write_dropped(
				out, "meta", "one cannot be an attribute of a record");
		}
	}
}

static int write_service(FILE *out, const json_t *service, size_t number, struct err *err)
{
	static const char *const used[] = { "id", "name", "tags", "address", "port", "meta",
		"weights", "check", "checks", NULL };
	static const struct convert_drop drops[] = {
		{ "token", "the registry's accounts are [registry] auth" },
		{ "enable_tag_override", "only the agent writes its record" },
		{ "connect", "Berth has no proxies of its own; see [output] and berth-xds" },
		{ "proxy", "Berth has no proxies of its own; see [output] and berth-xds" },
		{ NULL, NULL },
	};
	const char *name = text_of(service, "name");
	const char *address = text_of(service, "address");
	double port = json_number_value(member(service, "port"));
	const json_t *check = member(service, "check");
	const json_t *checks = member(service, "checks");
	char kind[LABEL_SIZE];
	char label[LABEL_SIZE];
	char value[VALUE_SIZE];
	size_t count = 0;
	if (!name) {
		return err_set(err, BERTH_FAILED, "`name` of a service is missing");
	}
	convert_label(kind, sizeof(kind), name);
	convert_label(
		label, sizeof(label) - 12, text_of(service, "id") ? text_of(service, "id") : name);
	if (!*kind || !*label) {
		return err_set(err, BERTH_FAILED, "`name` or `id` of a service has no letter");
	}
	if (number > 1) { /* two services may have the same label */
		snprintf(label + strlen(label), sizeof(label) - strlen(label), "-%zu", number);
	}
	fprintf(out,
		"\n[component %s]\nuser = consul\nservice_class = %s\ninstance = default\n"
		"name = %s\n",
		label, kind, label);
	write_attributes(out, service);
	if (port >= 1 && port <= 65535) {
		fprintf(out,
			"\n[endpoint %s]\ncomponent = %s\napi = %s\nprotocol = tcp\n"
			"address_type = host/port\n",
			label, label, kind);
		snprintf(value, sizeof(value), "%s:%.0f", address && *address ? address : "", port);
		if (address && *address) {
			convert_write_text(out, "address", value);
		} else {
			fprintf(out, "address = ${berth.hostname}:%.0f\n", port);
		}
	} else {
		convert_write_dropped(out, "port", "there is none, so the record has no endpoint");
	}
	if (json_is_object(check)) {
		write_check(out, check, label, ++count);
	}
	for (size_t i = 0; i < json_array_size(checks); i++) {
		write_check(out, json_array_get(checks, i), label, ++count);
	}
	write_rest(out, "", service, used, drops);
	return 0;
}

int convert_consul(const json_t *json, FILE *out, struct err *err)
{
	static const char *const used[] = { "service", "services", NULL };
	static const struct convert_drop drops[] = {
		{ "check", "a check of the whole node guards no service; write its `component`" },
		{ "checks", "checks of the whole node guard no service; write their `component`" },
		{ NULL, NULL },
	};
	const json_t *service = member(json, "service");
	const json_t *services = member(json, "services");
	int code = 0;
	if (!json_is_object(service) && json_array_size(services) == 0) {
		return err_set(err, BERTH_FAILED, "it defines no service: `service` or `services`");
	}
	fputs("\n; Consul's catalogue has no paths: choose the names that fit your registry.\n",
		out);
	if (json_is_object(service)) {
		code = write_service(out, service, 1, err);
	}
	for (size_t i = 0; code == 0 && i < json_array_size(services); i++) {
		size_t number = i + 1 + json_is_object(service);
		code = write_service(out, json_array_get(services, i), number, err);
	}
	if (code == 0) {
		write_rest(out, "", json, used, drops);
	}
	return code;
}
