#include "agent/api/published.h"

#include <string.h>

static const struct api_published *published_by(
	const struct api *api, const struct http_request *request)
{
	for (size_t i = 0; i < api->options.published_count; i++) {
		if (strcmp(api->options.published[i].name, request->listener) == 0) {
			return &api->options.published[i];
		}
	}
	return NULL;
}

bool api_published_externally(const struct api *api, const struct http_request *request)
{
	if (!request->listener) {
		return false;
	}
	const struct api_published *published = published_by(api, request);
	return !published || published->external;
}

/* `tree` ends in slash and two asterisks. */
static bool is_in(const char *path, const char *tree)
{
	size_t len = strlen(tree) - strlen("/**");
	return strncmp(path, tree, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

bool api_published_shows(
	const struct api *api, const struct http_request *request, const char *path)
{
	const struct api_published *published = published_by(api, request);
	bool shows = false;
	for (size_t i = 0; published && i < published->under_count && !shows; i++) {
		shows = is_in(path, published->under[i]);
	}
	return shows;
}
