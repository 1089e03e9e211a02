/* The syntax of a request's target and of its host (RFC 9112, section 3.2). Pure. */
#ifndef LIB_HTTP_TARGET_H
#define LIB_HTTP_TARGET_H

#include <stdbool.h>
#include <stddef.h>

/* True for "host", "host:port" and "[v6]:port"; the host may be empty where `optional`. */
bool http_is_authority(const char *text, size_t len, bool optional);
/* True for a target of one of the four forms that fits the method. `len` is at least 1. */
bool http_is_target(const char *method, size_t method_len, const char *target, size_t len);

#endif
