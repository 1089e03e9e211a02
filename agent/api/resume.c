#include "agent/api/resume.h"
#include "lib/base/clock.h"
#include "lib/base/random_bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PARKED_MS = 30000, MOST_PARKED = 256, ID_BYTES = 64 };

static struct api_stream *first_parked(struct api *api)
{
	return list_empty(&api->parked) ? NULL
					: LIST_ITEM(api->parked.next, struct api_stream, parked);
}

bool api_resume_drop_one(struct api *api)
{
	struct api_stream *stream = first_parked(api);
	if (stream) {
		stream->state = API_STREAM_ENDING;
		stream->source->on_closed(stream);
	}
	return stream != NULL;
}

static void schedule_end(struct api *api)
{
	const struct api_stream *first = first_parked(api);
	timer_stop(&api->parked_timer);
	if (first) {
		double age_s = clock_monotonic_s() - first->parked_at;
		timer_start(&api->parked_timer, PARKED_MS - (int64_t)(age_s * 1000));
	}
}

static void on_end(void *context)
{
	struct api *api = context;
	const struct api_stream *first = first_parked(api);
	if (first && (clock_monotonic_s() - first->parked_at) * 1000 >= PARKED_MS) {
		(void)api_resume_drop_one(api);
	}
	schedule_end(api);
}

bool api_resume_park(struct api_stream *stream)
{
	struct api *api = stream->api;
	if (stream->state != API_STREAM_FOLLOWING) {
		return false;
	}
	if (list_count(&api->parked) >= MOST_PARKED) {
		(void)api_resume_drop_one(api);
	}
	api_stream_park(stream);
	stream->parked_at = clock_monotonic_s();
	list_append(&api->parked, &stream->parked);
	schedule_end(api);
	return true;
}

/* ---- where a client was ---- */

/* EPOCH-STREAM-SEQUENCE, the first two in hexadecimal digits. */
static bool read_id(const char *text, uint64_t *ret_epoch, struct api_resume_point *ret_point)
{
	int len = -1;
	bool begins_well = text[0] != '-' && text[0] != '+' && text[0] != ' ';
	return begins_well &&
		sscanf(text, "%16" SCNx64 "-%16" SCNx64 "-%19" SCNu64 "%n", ret_epoch,
			&ret_point->stream, &ret_point->sequence, &len) == 3 &&
		text[len] == '\0';
}

int api_resume_read(struct api *api, const struct http_request *request,
	struct api_resume_point *ret_point, struct err *err)
{
	char text[ID_BYTES];
	uint64_t epoch;
	int found = http_parameter(request, "after", text, sizeof(text), err);
	if (found < 0) {
		return found;
	}
	bool is_parameter = found > 0 && *text;
	if (is_parameter) {
		if (!read_id(text, &epoch, ret_point)) {
			return err_set(err, BERTH_FAILED,
				"query parameter after: must be the stream_id of a stream, a "
				"hyphen, and the sequence of an event");
		}
	} else if (!request->last_event_id || !*request->last_event_id) {
		return 0;
	} else if (!read_id(request->last_event_id, &epoch, ret_point)) {
		epoch = 0; /* of another server, perhaps */
	}
	if (epoch != api->epoch) {
		ret_point->stream = 0;
	}
	return 1;
}

struct api_stream *api_resume_find(struct api *api, const struct api_resume_point *point)
{
	for (struct list *at = api->parked.next; at != &api->parked; at = at->next) {
		struct api_stream *stream = LIST_ITEM(at, struct api_stream, parked);
		if (stream->id != point->stream) {
			continue;
		}
		bool reaches = stream->state == API_STREAM_PARKED &&
			point->sequence <= stream->sequence &&
			recent_reaches(&stream->recent, point->sequence);
		return reaches ? stream : NULL;
	}
	return NULL;
}

/* ---- the whole ---- */

void api_resume_init(struct api *api)
{
	list_init(&api->parked);
	timer_init(&api->parked_timer, api->loop, "streams without a client", on_end, api);
	(void)random_bytes(&api->epoch, sizeof(api->epoch));
	api->epoch += api->epoch == 0;
}

void api_resume_finish(struct api *api)
{
	while (api_resume_drop_one(api)) {
	}
	timer_stop(&api->parked_timer);
}
