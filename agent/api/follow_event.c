/* The events of a stream of many questions. */
#include "agent/api/follow.h"

#include <inttypes.h>

#include "agent/api/stream.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/clock.h"
#include "lib/base/json_text.h"

enum {
	QUEUE_BYTES = 64 * 1024,       /* unread, beyond which no question is answered */
	MOST_BYTES = 16 * 1024 * 1024, /* unread, beyond which the client is given up */
	FRAME_BYTES = 64 * 1024 * 1024
};

void follow_stop(struct follow *follow, const char *why)
{
	if (!follow->ending) {
		follow->ending = true;
		log_limited(http_log_rate(follow->request), LOG_LEVEL_WARN, "api",
			"a stream of many questions (%s%s) is cut off: %s",
			*follow->container ? "container " : "a client of the socket",
			follow->container, why);
		http_stream_end(follow->request);
	}
}

struct buffer follow_begin(struct follow *follow, const char *type)
{
	struct buffer json;
	buffer_init(&json, FRAME_BYTES);
	buffer_printf(&json, "{\"type\":\"%s\",\"sequence\":%" PRIu64 ",\"time\":%.6f", type,
		++follow->sequence, clock_wall_s());
	return json;
}

void follow_end(struct follow *follow, struct buffer *json)
{
	buffer_append_text(json, "}");
	if (follow->read > follow->queue.len / 2) {
		buffer_consume(&follow->queue, follow->read);
		follow->read = 0;
	}
	buffer_printf(&follow->queue, "%zu\n", json->len);
	buffer_append(&follow->queue, json->data, json->len);
	bool failed = json->failed || follow->queue.failed || follow->queue.len > MOST_BYTES;
	buffer_finish(json);
	http_hold(follow->request, follow->queue.len);
	if (failed) {
		follow_stop(follow, "too much is unread");
	} else {
		http_stream_wake(follow->request);
	}
}

void follow_append_member(struct buffer *json, const char *name, const char *text)
{
	json_t *value = json_string(text);
	value = value ? value : allocated(json_string(""));
	buffer_printf(json, ",\"%s\":", name);
	(void)json_text_append(json, value, JSON_ENCODE_ANY);
	json_decref(value);
}

bool follow_has_room(const struct follow *follow)
{
	return follow->queue.len - follow->read <= QUEUE_BYTES && http_has_room(follow->request);
}

void follow_append_error(struct buffer *json, uint64_t id, const struct err *err)
{
	buffer_printf(
		json, ",\"id\":%" PRIu64 ",\"error\":\"%s\"", id, berth_error_name(err->code));
	follow_append_member(json, "why", err->msg);
}

void follow_append_heard(struct follow *follow, struct buffer *json)
{
	char text[API_STREAM_HEARD_BYTES];
	const char *heard = api_stream_heard(follow->api->cache, text);
	buffer_printf(json, "%s%s", heard ? "," : "", heard ? heard : "");
}
