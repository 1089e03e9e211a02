/* The parameters of a look-up that say which records and endpoints count. */
#include <string.h>

#include "agent/api/internal.h"
#include "agent/api/published.h"
#include "agent/config/verify.h"

const char *api_parameter(const struct http_request *request, const char *name, char *out,
	size_t size, struct err *err)
{
	*out = '\0';
	return !err->code && http_parameter(request, name, out, size, err) > 0 && *out ? out : NULL;
}

const char *api_attributes(
	const struct http_request *request, char out[SELECT_BYTES], struct err *err)
{
	static const char prefix[] = "attribute.";
	*out = '\0';
	for (const char *at = request->query; *at && !err->code; at += *at == '&') {
		size_t len = strcspn(at, "&");
		size_t name_len = strcspn(at, "=&");
		char name[LIMIT_API_BYTES + 1];
		char value[SELECT_VALUE_BYTES];
		if (strncmp(at, prefix, strlen(prefix)) != 0) {
			at += len;
			continue;
		}
		const char *of_value = at + name_len + (name_len < len);
		if (http_decode(at, name_len, name, sizeof(name)) < 0 ||
			http_decode(of_value, (size_t)(at + len - of_value), value, sizeof(value)) <
				0) {
			err_set(err, BERTH_FAILED,
				"query parameter attribute.…: not text of at most %d bytes",
				SELECT_VALUE_BYTES - 1);
		} else if (config_verify_selected_name(name + strlen(prefix), err) ||
			select_add(out, name + strlen(prefix), value, err)) {
			err_wrap(err, "query parameter");
		}
		at += len;
	}
	return *out && !err->code ? out : NULL;
}

bool api_read_filter(const struct api *api, const struct http_request *request,
	struct cache_filter *ret_filter, struct api_filter_room *room, struct err *err)
{
	*ret_filter = (struct cache_filter){
		.api = api_parameter(request, "api", room->api, sizeof(room->api), err),
		.protocol = api_parameter(
			request, "protocol", room->protocol, sizeof(room->protocol), err),
		.scope = api_parameter(request, "scope", room->scope, sizeof(room->scope), err),
		.near = api_parameter(request, "near", room->near, sizeof(room->near), err),
		.attributes = api_attributes(request, room->attributes, err),
	};
	if (ret_filter->near && strcmp(ret_filter->near, "self") == 0) {
		ret_filter->near = api->options.zone ? api->options.zone : "";
	} else if (ret_filter->near && !err->code && config_verify_zone(ret_filter->near, err)) {
		err_wrap(err, "query parameter near");
	}
	const char *scope = ret_filter->scope;
	if (scope && strcmp(scope, "external") != 0 && strcmp(scope, "internal") != 0) {
		err_set(err, BERTH_FAILED, "query parameter scope: must be external or internal");
	}
	if (api_published_externally(api, request)) {
		if (scope && strcmp(scope, "external") != 0) {
			err_set(err, BERTH_FAILED,
				"query parameter scope: this listener shows external endpoints");
		}
		ret_filter->scope = "external";
	}
	return err->code == 0;
}
