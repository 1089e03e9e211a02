#include "agent/api/poll.h"

#include <stdio.h>

enum { REMOTE_SHARE = 4 }; /* TCP clients may have a quarter of the watchers */

/* ---- watchers ---- */

static int remote_share(const struct api *api)
{
	int share = api->options.max_watchers / REMOTE_SHARE;
	return share > 0 ? share : 1;
}

int api_watcher_begin(struct api *api, struct http_request *request, struct err *err)
{
	if (api->watchers >= (size_t)api->options.max_watchers) {
		return err_set(err, BERTH_LIMIT_EXCEEDED, "more than %d watchers (max_watchers)",
			api->options.max_watchers);
	}
	if (!request->local && api->remote_watchers >= (size_t)remote_share(api)) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"more than %d watchers over TCP (a quarter of max_watchers)",
			remote_share(api));
	}
	size_t limit = (size_t)(request->local ? api->options.max_watchers : remote_share(api));
	if (!http_watch(request, request->local ? api->watchers : api->remote_watchers, limit)) {
		return err_set(err, BERTH_LIMIT_EXCEEDED,
			"this client has its share of the watchers (max_watchers)");
	}
	api->watchers++;
	api->remote_watchers += !request->local;
	return 0;
}

void api_watcher_end(struct api *api, bool local)
{
	api->watchers--;
	api->remote_watchers -= !local;
}

/* ---- long polls ---- */

bool api_poll_wanted(const struct http_request *request, const char *etag)
{
	return request->if_none_match && http_wait_seconds(request->prefer) > 0 &&
		http_tag_matches(request->if_none_match, etag, true);
}

static void on_timer(void *context)
{
	struct api_poll *poll = context;
	poll->on_over(poll);
}

int api_poll_begin(struct api_poll *poll, struct api *api, struct http_request *request,
	void (*on_over)(struct api_poll *poll), struct err *err)
{
	if (api_watcher_begin(api, request, err)) {
		return err->code;
	}
	poll->api = api;
	poll->local = request->local;
	poll->on_over = on_over;
	list_append(&api->polls, &poll->link);
	timer_init(&poll->timer, api->loop, "long poll", on_timer, poll);
	timer_start(&poll->timer, http_wait_seconds(request->prefer) * 1000LL);
	http_set_lasting(request);
	return 0;
}

void api_poll_end(struct api_poll *poll)
{
	if (poll->api) {
		list_remove(&poll->link);
		timer_stop(&poll->timer);
		api_watcher_end(poll->api, poll->local);
		poll->api = NULL;
	}
}

void api_poll_applied(const struct http_request *request, struct http_response *response)
{
	char applied[32];
	snprintf(applied, sizeof(applied), "wait=%d", http_wait_seconds(request->prefer));
	http_response_header(response, "Preference-Applied", applied);
}

void api_end_polls(struct api *api)
{
	while (!list_empty(&api->polls)) {
		struct api_poll *poll = LIST_ITEM(api->polls.next, struct api_poll, link);
		poll->on_over(poll);
	}
}
