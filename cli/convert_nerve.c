/* nerve's file of one service, as in its nerve_conf.d. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/convert_write.h"
#include "lib/base/quote.h"

enum { LABEL_SIZE = 64 };

static const char *text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static int write_registry(FILE *out, const json_t *json, struct err *err)
{
	const json_t *hosts = json_object_get(json, "zk_hosts");
	if (json_array_size(hosts) == 0) {
		return err_set(err, BERTH_FAILED, "zk_hosts is missing: only ZooKeeper is read");
	}
	fputs("\n[registry]\nurl = zookeeper://", out);
	for (size_t i = 0; i < json_array_size(hosts); i++) {
		const char *host = json_string_value(json_array_get(hosts, i));
		if (!host || strpbrk(host, "\r\n$ ,/")) {
			return err_set(
				err, BERTH_FAILED, "an element of zk_hosts is not a host:port");
		}
		fprintf(out, "%s%s%s", i ? "," : "", host, strchr(host, ':') ? "" : ":2181");
	}
	fputs("/registry\n", out);
	return 0;
}

static void write_dialect(FILE *out, const json_t *json)
{
	double weight;
	const char *name;
	json_t *label;
	fputs("\n[dialect nerve]\ntype = nerve\n", out);
	convert_write_text(out, "path", text_of(json, "zk_path"));
	fputs("; nerve's instance_id, from its main file.\ninstance_id = ${berth.hostname}\n", out);
	if (convert_number(json, "weight", &weight)) {
		fprintf(out, "weight = %.0f\n", weight);
	}
	if (text_of(json, "haproxy_server_options")) {
		convert_write_text(
			out, "haproxy_server_options", text_of(json, "haproxy_server_options"));
	}
	if (json_is_true(json_object_get(json, "use_path_encoding"))) {
		fputs("path_encoding = yes\n", out);
	}
	json_object_foreach (json_object_get(json, "labels"), name, label) {
		char key[128];
		snprintf(key, sizeof(key), "labels.%s", name);
		if (json_is_string(label) && !strpbrk(name, "\r\n= ")) {
			convert_write_text(out, key, json_string_value(label));
		} else {
			convert_write_dropped(out, "labels", "one is not a text");
		}
	}
}

static double seconds_of(const json_t *check, const char *name, double fallback)
{
	(void)convert_number(check, name, &fallback);
	return fallback;
}

/* Those that the agent sets itself, from the target and for each request. */
static bool is_own_header(const char *name)
{
	static const char *const own[] = { "Connection", "Content-Length", "Transfer-Encoding",
		NULL };
	size_t i = 0;
	while (own[i] && strcasecmp(own[i], name) != 0) {
		i++;
	}
	return own[i] != NULL;
}

static void write_headers(FILE *out, const json_t *headers)
{
	static const char token[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	const char *name;
	json_t *value;
	json_object_foreach ((json_t *)(uintptr_t)headers, name, value) {
		char key[128];
		bool is_host = strcasecmp(name, "Host") == 0;
		snprintf(key, sizeof(key), "header.%s", name);
		if (!json_is_string(value) || !*name || name[strspn(name, token)] ||
			is_own_header(name)) {
			convert_write_dropped(
				out, "checks.headers", "one has no text, or is the agent's own");
		} else {
			convert_write_text(out, is_host ? "host" : key, json_string_value(value));
		}
	}
}

static void write_check(FILE *out, const json_t *check, size_t number, const char *host,
	double port, double interval)
{
	static const char *const used_by_tcp[] = { "type", "uri", "timeout", "rise", "fall", "host",
		"port", "name", NULL };
	static const char *const used_by_http[] = { "type", "uri", "timeout", "rise", "fall",
		"host", "port", "name", "headers", "ssl", "ssl_verify", NULL };
	static const struct convert_drop drops[] = {
		{ "expect", "the body is compared by `match`, a line at a time" },
		{ "open_timeout", "`timeout` is that of the whole run" },
		{ "read_timeout", "`timeout` is that of the whole run" },
		{ "ssl_timeout", "`timeout` is that of the whole run" },
		{ NULL, NULL },
	};
	const char *type = text_of(check, "type");
	bool http = type && strcmp(type, "http") == 0;
	if (!type || (!http && strcmp(type, "tcp") != 0)) {
		convert_write_dropped(out, "checks", "one is neither http nor tcp; use a command");
		return;
	}
	bool tls = http && json_is_true(json_object_get(check, "ssl"));
	const char *scheme = tls ? "https://" : http ? "http://" : "";
	const char *uri = text_of(check, "uri");
	const char *target = text_of(check, "host");
	char value[512];
	(void)convert_number(check, "port", &port);
	snprintf(value, sizeof(value), "%s%s:%.0f%s", scheme, target ? target : host, port,
		http ? (uri ? uri : "/") : "");
	fprintf(out, "\n[check check-%zu]\ntype = %s\n", number, type);
	convert_write_text(out, "target", value);
	fprintf(out, "interval = %.0fms\ntimeout = %.0fms\nrise = %.0f\nfall = %.0f\n",
		interval * 1000, seconds_of(check, "timeout", 0.1) * 1000,
		seconds_of(check, "rise", 1), seconds_of(check, "fall", 1));
	if (tls && json_is_false(json_object_get(check, "ssl_verify"))) {
		fputs("tls_verify = no\n", out);
	}
	if (http) {
		write_headers(out, json_object_get(check, "headers"));
	}
	convert_write_rest(out, "checks.", check, http ? used_by_http : used_by_tcp, drops);
}

/* nerve's main file, or that of a reporter other than ZooKeeper's. */
static int refuse_other_file(const json_t *json, struct err *err)
{
	const char *folder = text_of(json, "service_conf_dir");
	const json_t *services = json_object_get(json, "services");
	const char *reporter = text_of(json, "reporter_type");
	if (folder || json_is_object(services) || json_object_get(json, "instance_id")) {
		return err_set(err, BERTH_FAILED,
			"this is nerve's main file: convert the file of each service%s%s, or a "
			"file of its own for each of `services`",
			folder ? " in " : "", folder ? quote_text(folder).text : "");
	}
	if (reporter && strcmp(reporter, "zookeeper") != 0) {
		return err_set(err, BERTH_FAILED, "its reporter is %s: only ZooKeeper's is read",
			quote_text(reporter).text);
	}
	return 0;
}

int convert_nerve(const json_t *json, FILE *out, struct err *err)
{
	static const char *const used[] = { "host", "port", "reporter_type", "zk_hosts", "zk_path",
		"weight", "haproxy_server_options", "use_path_encoding", "labels", "checks",
		"check_interval", NULL };
	static const struct convert_drop drops[] = {
		{ "node_type",
			"members are ephemeral and sequential, as nerve has them without it" },
		{ "rate_limiting", "damping of the component takes its place" },
		{ NULL, NULL },
	};
	const char *host = text_of(json, "host");
	const char *path = text_of(json, "zk_path");
	const json_t *checks = json_object_get(json, "checks");
	char label[LABEL_SIZE];
	double port;
	double weight;
	if (refuse_other_file(json, err)) {
		return err->code;
	}
	if (!host || !path || !convert_number(json, "port", &port)) {
		return err_set(err, BERTH_FAILED, "host, port or zk_path is missing");
	}
	if (write_registry(out, json, err)) {
		return err->code;
	}
	convert_label(label, sizeof(label), strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
	fprintf(out,
		"\n; nerve has no record of this kind: choose the names that fit your registry.\n"
		"[component]\nuser = nerve\nservice_class = %s\ninstance = default\n",
		*label ? label : "service");
	if (convert_number(json, "weight", &weight)) {
		fprintf(out, "attribute.weight = %.0f\n", weight);
	}
	fprintf(out, "\n[endpoint service]\napi = %s\nprotocol = tcp\naddress_type = host/port\n",
		*label ? label : "service");
	char address[300];
	snprintf(address, sizeof(address), "%s:%.0f", host, port);
	convert_write_text(out, "address", address);
	write_dialect(out, json);
	for (size_t i = 0; i < json_array_size(checks); i++) {
		write_check(out, json_array_get(checks, i), i + 1, host, port,
			seconds_of(json, "check_interval", 0.5));
	}
	convert_write_rest(out, "", json, used, drops);
	return 0;
}
