/*
 * Reads the values of header fields (RFC 9110): pure functions on text from outside.
 *
 * A `field` may be NULL, for an absent one.
 */
#ifndef LIB_HTTP_FIELD_H
#define LIB_HTTP_FIELD_H

#include <stdbool.h>
#include <stddef.h>

/* How many bytes at the beginning are characters of a token: a method, or a field's name. */
size_t http_token_len(const char *text, size_t len);
/* Is there no control character but the tab? */
bool http_is_field_text(const char *text, size_t len);
/* Leaves blanks and tabs at both ends out. */
void http_trim(const char **text, size_t *len);

/* Does a media type fit an Accept field? An absent one is as good as a wildcard. q=0 excludes. */
bool http_accepts(const char *field, const char *media_type, bool wildcards);
/* Is the word in the list, such as no-cache in Cache-Control? Without regard to case. */
bool http_has_token(const char *field, const char *token);
/*
 * Does a list of entity tags hold this one? The weak comparison is for If-None-Match, the strong
 * one for If-Match.
 */
bool http_tag_matches(const char *field, const char *etag, bool weak);
/* The seconds of "Prefer: wait=N", 0 to 600; 0 without. */
int http_wait_seconds(const char *field);
/* The seconds of "Cache-Control: max-age=N"; -1 without. */
long http_max_age_seconds(const char *field);

#endif
