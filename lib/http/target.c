#include "lib/http/target.h"

#include <string.h>

bool http_is_authority(const char *text, size_t len, bool optional)
{
	const char *end = text + len;
	const char *at = text;
	if (at < end && *at == '[') {
		const char *close = memchr(at, ']', len);
		if (!close || close == at + 1) {
			return false;
		}
		for (at++; at < close; at++) {
			if (!memchr("0123456789abcdefABCDEFvV:.", *at, 26)) {
				return false;
			}
		}
		at++;
	} else {
		while (at < end && *at != ':' && *at != '[' && *at != ']' && *at != '@' &&
			*at > ' ' && *at < 0x7f && !memchr("/?#\"<>\\^`{|},", *at, 13)) {
			at++;
		}
	}
	if (at == text && !optional) {
		return false;
	}
	if (at < end && *at == ':') {
		at++;
		while (at < end && *at >= '0' && *at <= '9') {
			at++;
		}
	}
	return at == end;
}

bool http_is_target(const char *method, size_t method_len, const char *target, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (target[i] <= ' ' || target[i] >= 0x7f) {
			return false;
		}
	}
	if (method_len == 7 && memcmp(method, "CONNECT", 7) == 0) {
		return http_is_authority(target, len, false) && memchr(target, ':', len);
	}
	if (target[0] == '/') {
		return !memchr(target, '#', len);
	}
	if (len == 1 && target[0] == '*') {
		return method_len == 7 && memcmp(method, "OPTIONS", 7) == 0;
	}
	const char *host = memmem(target, len, "://", 3);
	if (!host || host == target || memchr(target, '#', len)) {
		return false;
	}
	host += 3;
	size_t host_len = 0;
	while (host + host_len < target + len && host[host_len] != '/' && host[host_len] != '?') {
		host_len++;
	}
	return http_is_authority(host, host_len, false);
}
