#include "agent/output/picture.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"

struct writing {
	struct buffer *out;
	size_t count;
	bool tiers;
};

/* Whether jansson wrote a character into this text that changes a line of text. */
static bool has_control(const char *json)
{
	struct buffer harmless;
	buffer_init(&harmless, SIZE_MAX);
	json_append_harmless(&harmless, json, strlen(json));
	bool same = strcmp(buffer_text(&harmless), json) == 0;
	buffer_finish(&harmless);
	return !same;
}

static json_t *endpoint_json(const struct render_item *item, bool tiers)
{
	const struct record_endpoint *endpoint = item->endpoint;
	json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:O}", "path", item->path, "scope",
		endpoint->scope, "api", endpoint->api, "protocol", endpoint->protocol,
		"addressType", endpoint->address_type, "address", item->address);
	if (item->target.host[0]) {
		json_object_set_new(json, "host", json_string(item->target.host));
	}
	if (!render_server_problem(item)) {
		json_object_set_new(json, "port", json_integer(item->target.port));
	}
	if (item->weighted) {
		json_object_set_new(json, "weight", json_integer(item->weight));
	}
	if (tiers) {
		json_object_set_new(json, "tier", json_integer(item->tier));
	}
	return json;
}

static const char *write_endpoint(void *context, const struct render_item *item)
{
	struct writing *writing = context;
	json_t *json = endpoint_json(item, writing->tiers);
	char *text = allocated(json_text(json, JSON_COMPACT));
	bool bad = has_control(text);
	json_decref(json);
	if (!bad) {
		buffer_printf(writing->out, "%s%s", writing->count++ > 0 ? "," : "", text);
	}
	free(text);
	return bad ? "holds control characters" : NULL;
}

static void write_records(const struct render_picture *picture, struct buffer *out)
{
	json_t *records = json_object();
	for (size_t i = 0; i < picture->count; i++) {
		json_object_set_nocheck(records, picture->members[i].path,
			(json_t *)(uintptr_t)record_json(picture->members[i].record));
	}
	char *text = allocated(json_text(records, JSON_COMPACT));
	json_append_harmless(out, text, strlen(text));
	json_decref(records);
	free(text);
}

int output_picture_write(const struct render_picture *picture, const char *name,
	const struct render_filter *filter, bool tiers, struct buffer *out,
	struct render_result *ret_result, struct err *err)
{
	struct writing writing = { .out = out, .tiers = tiers };
	/* Names and paths are labels: they need no escapes. */
	buffer_printf(out, "{\"name\":\"%s\",\"from\":\"%s\",\"records\":", name, picture->from);
	write_records(picture, out);
	buffer_append_text(out, ",\"endpoints\":[");
	render_each(picture, filter, write_endpoint, &writing, ret_result);
	if (buffer_append_text(out, "]}\n") < 0) {
		return err_set(
			err, BERTH_LIMIT_EXCEEDED, "the picture has more than %zu bytes", out->max);
	}
	return 0;
}
