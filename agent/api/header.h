/*
 * What clients say in header fields: text from outside, taken as it is, without state.
 */
#ifndef AGENT_API_HEADER_H
#define AGENT_API_HEADER_H

#include <stdbool.h>

/* Does a media type fit an Accept header (NULL: absent, which is as good as a wildcard)? q=0 excludes. */
bool api_accepts(const char *accept, const char *media_type, bool wildcards);
/* Is the word in the list, such as no-cache in Cache-Control? Without regard to case. */
bool api_has_token(const char *header, const char *token);
/* If-None-Match: compares weakly, as RFC 9110 has it. */
bool api_tag_matches(const char *header, const char *etag);
/* The seconds of "Prefer: wait=N", 0 to 600; 0 without. */
int api_wait_seconds(const char *prefer);

#endif
