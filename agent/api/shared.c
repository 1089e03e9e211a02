/* GET /v1/shared, and which answers go into the shared map. */
#include <stdio.h>
#include <string.h>

#include "agent/api/internal.h"
#include "lib/shared/layout.h"

/* ---- handing it out ---- */

static void refuse(struct http_request *request, const char *why)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_LIMIT_EXCEEDED, "%s", why);
	api_problem(request, 503, &err);
}

static void hand_out(struct http_request *request, int fd, size_t size)
{
	char body[64];
	int len = snprintf(
		body, sizeof(body), "{\"version\":%d,\"size\":%zu}\n", SHARED_VERSION, size);
	struct http_response *response = http_response_create(
		"application/json", body, (size_t)len);
	http_response_header(response, "Cache-Control", "no-store");
	if (http_response_descriptor(response, fd)) {
		http_answer(request, 200, response);
	} else {
		refuse(request, "no descriptor is free");
	}
	http_response_free(response);
}

void api_shared(struct api *api, struct http_request *request, const char *rest)
{
	(void)rest;
	struct err err = ERR_INIT;
	int fd;
	size_t size;
	if (!api->shared || !shared_is_enabled(api->shared)) {
		api_refuse(request, 404, "Not Found",
			"option shared in [agent] is off, or max_size in [cache] is too small",
			NULL);
	} else if (!http_may_hand_over(request)) {
		refuse(request, "this client has not read the last descriptor that it was sent");
	} else if (shared_hand_out(api->shared, &fd, &size, &err)) {
		refuse(request, err.msg);
	} else {
		hand_out(request, fd, size);
	}
}

void api_set_shared(struct api *api, struct shared *shared)
{
	api->shared = shared;
}

/* ---- filling it ---- */

bool api_shares(const struct api *api, const struct http_request *request)
{
	return request->prefer && request->local && request->method == HTTP_GET && api->shared &&
		shared_is_out(api->shared) && http_has_token(request->prefer, "shared");
}

void api_share(const struct api *api, const struct http_request *request, bool text,
	const struct shared_item *item)
{
	char key[SHARED_KEY_BYTES + 1];
	int len = snprintf(key, sizeof(key), "%s%s%s%s", request->path, *request->query ? "?" : "",
		request->query, text ? " text/plain" : "");
	if (len < 0 || (size_t)len >= sizeof(key)) {
		return;
	}
	struct shared_item keyed = *item;
	keyed.key = key;
	keyed.key_len = (size_t)len;
	shared_put(api->shared, &keyed);
}

void api_share_lookup(struct api *api, struct cache *cache, const struct http_request *request,
	const struct cache_query *query, const struct cache_answer *answer)
{
	struct cache_query plain = *query;
	plain.refresh = false;
	plain.max_age_ms = -1;
	/* An answer that changes on its way to this client would not be the next client's. */
	if (query->kind == CACHE_FIND || cache_find(cache, &plain) != answer) {
		return;
	}
	const struct shared_item item = shared_item_of(cache, NULL, query, answer);
	api_share(api, request, query->filter && query->filter->text, &item);
}
