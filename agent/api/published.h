/* The part of the registry that a further listener shows, for reading. */
#ifndef AGENT_API_PUBLISHED_H
#define AGENT_API_PUBLISHED_H

#include "agent/api/internal.h"

/* Does the listener by which the request came show external endpoints only? */
bool api_published_externally(const struct api *api, const struct http_request *request);
/* Does it show this path? */
bool api_published_shows(
	const struct api *api, const struct http_request *request, const char *path);

#endif
