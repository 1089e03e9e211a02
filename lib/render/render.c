#include "lib/base/array.h"
#include "lib/render/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"
#include "lib/base/path.h"
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

void render_host(struct buffer *out, const struct record_target *target)
{
	buffer_printf(out, strchr(target->host, ':') ? "[%s]" : "%s", target->host);
}

void render_server_name(
	char out[RENDER_SERVER_NAME_BYTES], const char *from, const char *path, size_t index)
{
	bool is_below = path_is_under(path, from);
	size_t from_len = !is_below || strcmp(from, "/") == 0 ? 0 : strlen(from);
	const char *below = path + from_len;
	char number[24] = "";
	if (index > 0) {
		snprintf(number, sizeof(number), "_%zu", index + 1);
	}
	if (!is_below) {
		text_printf(
			out, RENDER_SERVER_NAME_BYTES, RENDER_SERVER_PREFIX "%s%s", path, number);
	} else if (*below == '/') {
		text_printf(out, RENDER_SERVER_NAME_BYTES, RENDER_SERVER_PREFIX "%s%s", below + 1,
			number);
	} else {
		/* The path is that of the set's own record; no path element begins so. */
		const char *slash = strrchr(path, '/');
		text_printf(out, RENDER_SERVER_NAME_BYTES, RENDER_SERVER_PREFIX "_%s%s",
			slash ? slash + 1 : path, number);
	}
	for (char *c = out; *c; c++) {
		*c = *c == '/' ? '.' : *c;
	}
}

/* ---- lines and json ---- */

static const char *lines_item(struct render *render, const struct render_item *item)
{
	char *line = NULL;
	const char *reason = NULL;
	render->out->failed = render->out->failed ||
		record_address_text(item->endpoint->address_type, item->address, &line);
	if (!line || !*line) {
		reason = "has no text";
	} else if (text_has_hidden(line, strlen(line))) {
		reason = "holds control characters";
	} else {
		buffer_printf(render->out, "%s\n", line);
	}
	free(line);
	return reason;
}

static const struct render_writer lines = { .item = lines_item };

static void json_head(struct render *render)
{
	buffer_append_text(render->out, "[");
}

static const char *json_item(struct render *render, const struct render_item *item)
{
	struct buffer *out = render->out;
	const struct record_endpoint *endpoint = item->endpoint;
	buffer_printf(out,
		"%s%s{\"path\":\"%s\",\"scope\":\"%s\",\"api\":", render->items ? "," : "",
		render->options->compact ? "" : "\n", item->path, endpoint->scope);
	render_json_string(out, endpoint->api);
	buffer_append_text(out, ",\"protocol\":");
	render_json_string(out, endpoint->protocol);
	buffer_append_text(out, ",\"addressType\":");
	render_json_string(out, endpoint->address_type);
	buffer_append_text(out, ",\"address\":");
	(void)json_text_append(out, item->address, JSON_COMPACT);
	if (item->weighted) {
		buffer_printf(out, ",\"weight\":%u", item->weight);
	}
	if (render->options->tiers) {
		buffer_printf(out, ",\"tier\":%u", item->tier);
	}
	buffer_append_text(out, "}");
	return NULL;
}

static void json_tail(struct render *render)
{
	buffer_append_text(render->out, render->items ? "\n]\n" : "]\n");
}

static const struct render_writer json = { json_head, json_item, json_tail, true };

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

_Static_assert(ARRAY_LEN(writers) == RENDER_FORMATS, "a writer for each format");

static const char *take_item(void *context, const struct render_item *item)
{
	struct render *render = context;
	const char *reason = writers[render->options->format]->item(render, item);
	render->items += !reason;
	return reason;
}

static void write_items(struct render *render, struct render_result *ret_result)
{
	render_each(render->picture, &render->options->filter, take_item, render, ret_result);
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
	struct render_result ignored;
	size_t start = out->len;
	buffer_init(&render.list, out->max);
	write_items(&render, &ignored);
	buffer_finish(&render.list);
	if (writers[options->format]->is_json) {
		json_make_visible(out, start);
	}
	*items = render.items;
	return out->failed ? refuse_large(&render, err) : 0;
}

int render_write(struct buffer *out, const struct render_picture *picture,
	const struct render_options *options, struct render_result *ret_result, struct err *err)
{
	struct render render = { .picture = picture, .options = options, .out = out };
	struct render_result result;
	const struct render_writer *writer = writers[options->format];
	size_t start = out->len;
	buffer_init(&render.list, out->max);
	if (writer->head) {
		writer->head(&render);
	}
	write_items(&render, &result);
	if (writer->tail) {
		writer->tail(&render);
	}
	buffer_finish(&render.list);
	if (writer->is_json) {
		json_make_visible(out, start);
	}
	if (out->failed) {
		return refuse_large(&render, err);
	}
	*ret_result = result;
	return 0;
}
