#include "lib/render/internal.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_text.h"
#include "lib/base/text.h"

const char *const render_format_names[] = {
	[RENDER_LINES] = "lines",
	[RENDER_JSON] = "json",
	[RENDER_PROMETHEUS] = "prometheus",
	[RENDER_ENVOY] = "envoy",
	[RENDER_HAPROXY] = "haproxy",
	[RENDER_NGINX] = "nginx",
	[RENDER_HOSTS] = "hosts",
	[RENDER_ENV] = "env",
	[RENDER_FORMATS] = NULL,
};

/* ---- helpers of the formats ---- */

void render_json_string(struct buffer *out, const char *text)
{
	json_t *json = json_string(text);
	(void)json_text_append(out, json, JSON_ENCODE_ANY | JSON_COMPACT);
	json_decref(json);
}

unsigned render_weight(const struct record *record)
{
	const json_t *value = record_attribute(record, "weight");
	const char *text = json_string_value(value);
	json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
	if (text && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 3) {
		number = atoi(text);
	}
	return number >= 1 && number <= 256 ? (unsigned)number : 0;
}

void render_host(struct buffer *out, const struct record_target *target)
{
	buffer_printf(out, strchr(target->host, ':') ? "[%s]" : "%s", target->host);
}

void render_server_name(char *out, size_t size, const char *from, const char *path, size_t index)
{
	size_t from_len = strcmp(from, "/") == 0 ? 0 : strlen(from);
	const char *below = path + from_len;
	if (*below == '/') {
		below++;
	} else {
		/* The path is that of the set's own record; no path element begins so. */
		const char *slash = strrchr(path, '/');
		text_printf(out, size, "_%s", slash ? slash + 1 : path);
		below = NULL;
	}
	if (below) {
		text_printf(out, size, "%s", below);
	}
	for (char *c = out; *c; c++) {
		*c = *c == '/' ? '.' : *c;
	}
	if (index > 0) {
		size_t used = strlen(out);
		text_printf(out + used, size - used, "_%zu", index + 1);
	}
}

/* ---- lines and json ---- */

static bool lines_item(struct render *render, const struct render_item *item)
{
	char *line = NULL;
	render->out->failed = render->out->failed ||
		record_address_text(item->endpoint->address_type, item->address, &line);
	bool good = line && *line && !strpbrk(line, "\r\n");
	if (good) {
		buffer_printf(render->out, "%s\n", line);
	}
	free(line);
	return good;
}

static const struct render_writer lines = { NULL, lines_item, NULL };

static void json_head(struct render *render)
{
	buffer_append_text(render->out, "[");
}

static bool json_item(struct render *render, const struct render_item *item)
{
	struct buffer *out = render->out;
	const struct record_endpoint *endpoint = item->endpoint;
	buffer_printf(out,
		"%s\n{\"path\":\"%s\",\"scope\":\"%s\",\"api\":", render->items ? "," : "",
		item->path, endpoint->scope);
	render_json_string(out, endpoint->api);
	buffer_append_text(out, ",\"protocol\":");
	render_json_string(out, endpoint->protocol);
	buffer_append_text(out, ",\"addressType\":");
	render_json_string(out, endpoint->address_type);
	buffer_append_text(out, ",\"address\":");
	(void)json_text_append(out, item->address, JSON_COMPACT);
	buffer_append_text(out, "}");
	return true;
}

static void json_tail(struct render *render)
{
	buffer_append_text(render->out, render->items ? "\n]\n" : "]\n");
}

static const struct render_writer json = { json_head, json_item, json_tail };

/* ---- the walk ---- */

static const struct render_writer *const writers[] = {
	[RENDER_LINES] = &lines,
	[RENDER_JSON] = &json,
	[RENDER_PROMETHEUS] = &render_prometheus,
	[RENDER_ENVOY] = &render_envoy,
	[RENDER_HAPROXY] = &render_haproxy,
	[RENDER_NGINX] = &render_nginx,
	[RENDER_HOSTS] = &render_hosts,
	[RENDER_ENV] = &render_env,
};

_Static_assert(sizeof(writers) / sizeof(writers[0]) == RENDER_FORMATS, "a writer for each format");

static bool is_literal(const char *host)
{
	unsigned char bytes[sizeof(struct in6_addr)];
	return inet_pton(strchr(host, ':') ? AF_INET6 : AF_INET, host, bytes) == 1;
}

static const char *wanted(const char *text)
{
	return text && *text ? text : NULL;
}

static bool lets_through(const struct render_filter *filter, const struct record_endpoint *endpoint)
{
	return record_endpoint_matches(
		endpoint, wanted(filter->api), wanted(filter->protocol), wanted(filter->scope));
}

static void write_member(
	struct render *render, const struct render_member *member, struct render_result *result)
{
	const struct render_writer *writer = writers[render->options->format];
	size_t index = 0;
	for (size_t i = 0; i < record_endpoint_count(member->record); i++) {
		struct record_endpoint endpoint = record_endpoint(member->record, i);
		size_t at;
		json_t *address;
		if (!lets_through(&render->options->filter, &endpoint)) {
			continue;
		}
		json_array_foreach (endpoint.addresses, at, address) {
			struct render_item item = { .path = member->path,
				.record = member->record,
				.endpoint = &endpoint,
				.address = address,
				.index = index };
			if (record_target_read(&item.target, endpoint.address_type, address)) {
				item.literal = is_literal(item.target.host);
			}
			if (writer->item(render, &item)) {
				index++;
				render->items++;
			} else {
				result->left_out++;
			}
		}
	}
}

static int refuse_large(const struct render *render, struct err *err)
{
	return err_set(err, BERTH_LIMIT_EXCEEDED,
		"the endpoints of %s as %s have more than %zu bytes", render->picture->from,
		render_format_names[render->options->format], render->out->max);
}

int render_write_items(struct buffer *out, const struct render_picture *picture,
	const struct render_options *options, size_t *items, struct err *err)
{
	struct render render = {
		.picture = picture, .options = options, .out = out, .items = *items
	};
	struct render_result ignored = { 0, 0 };
	buffer_init(&render.list, out->max);
	for (size_t i = 0; i < picture->count; i++) {
		write_member(&render, &picture->members[i], &ignored);
	}
	buffer_finish(&render.list);
	*items = render.items;
	return out->failed ? refuse_large(&render, err) : 0;
}

int render_write(struct buffer *out, const struct render_picture *picture,
	const struct render_options *options, struct render_result *ret_result, struct err *err)
{
	struct render render = { .picture = picture, .options = options, .out = out };
	struct render_result result = { 0, 0 };
	const struct render_writer *writer = writers[options->format];
	buffer_init(&render.list, out->max);
	if (writer->head) {
		writer->head(&render);
	}
	for (size_t i = 0; i < picture->count; i++) {
		write_member(&render, &picture->members[i], &result);
	}
	if (writer->tail) {
		writer->tail(&render);
	}
	buffer_finish(&render.list);
	if (out->failed) {
		return refuse_large(&render, err);
	}
	result.items = render.items;
	*ret_result = result;
	return 0;
}

size_t render_count_instances(
	const struct render_picture *picture, const struct render_filter *filter)
{
	size_t count = 0;
	for (size_t i = 0; i < picture->count; i++) {
		const struct record *record = picture->members[i].record;
		for (size_t at = 0; at < record_endpoint_count(record); at++) {
			struct record_endpoint endpoint = record_endpoint(record, at);
			if (lets_through(filter, &endpoint) &&
				json_array_size(endpoint.addresses) > 0) {
				count++;
				break;
			}
		}
	}
	return count;
}

unsigned render_server_weight(const struct record *record)
{
	unsigned weight = render_weight(record);
	return weight ? weight : 1;
}

void render_each_target(const struct render_picture *picture, const struct render_filter *filter,
	void (*visit)(void *context, const struct render_member *member,
		const struct record_target *target, bool literal, size_t index),
	void *context)
{
	for (size_t i = 0; i < picture->count; i++) {
		const struct render_member *member = &picture->members[i];
		size_t index = 0;
		for (size_t at = 0; at < record_endpoint_count(member->record); at++) {
			struct record_endpoint endpoint = record_endpoint(member->record, at);
			struct record_target target;
			size_t number;
			json_t *address;
			if (!lets_through(filter, &endpoint)) {
				continue;
			}
			json_array_foreach (endpoint.addresses, number, address) {
				if (record_target_read(&target, endpoint.address_type, address)) {
					visit(context, member, &target, is_literal(target.host),
						index++);
				}
			}
		}
	}
}
