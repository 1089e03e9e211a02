#include "lib/http/target.h"

#include <stdint.h>
#include <string.h>

bool http_is_authority(const char *text, size_t len, bool optional)
{
	/* A name of RFC 3986, but for the comma, which would make a list of a Host. */
	static const bool name[256] = {
		['0' ... '9'] = true,
		['A' ... 'Z'] = true,
		['a' ... 'z'] = true,
		['!'] = true,
		['$'] = true,
		['%'] = true,
		['&'] = true,
		['\''] = true,
		['('] = true,
		[')'] = true,
		['*'] = true,
		['+'] = true,
		['-'] = true,
		['.'] = true,
		[';'] = true,
		['='] = true,
		['_'] = true,
		['~'] = true,
	};
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
		while (at < end && name[(unsigned char)*at]) {
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

/* Visible ASCII alone? Eight bytes at a time, since most of a usual request is its target. */
static bool is_visible(const char *text, size_t len)
{
	const uint64_t ones = UINT64_MAX / UINT8_MAX;
	uint64_t outside = 0;
	size_t i = 0;
	for (uint64_t bytes; len - i >= sizeof(bytes); i += sizeof(bytes)) {
		memcpy(&bytes, text + i, sizeof(bytes));
		/* The first bit of a byte becomes 1 below '!', above '~', and beyond ASCII. */
		outside |= (bytes - ones * '!') | (bytes + ones) | bytes;
	}
	bool visible = !(outside & ones * 0x80);
	for (; i < len; i++) {
		visible = visible && text[i] > ' ' && text[i] < 0x7f;
	}
	return visible;
}

bool http_is_target(const char *method, size_t method_len, const char *target, size_t len)
{
	if (!is_visible(target, len) || memchr(target, '#', len)) {
		return false;
	}
	if (method_len == 7 && memcmp(method, "CONNECT", 7) == 0) {
		return http_is_authority(target, len, false) && memchr(target, ':', len);
	}
	if (target[0] == '/') {
		return true;
	}
	if (len == 1 && target[0] == '*') {
		return method_len == 7 && memcmp(method, "OPTIONS", 7) == 0;
	}
	const char *host = memmem(target, len, "://", 3);
	if (!host || host == target) {
		return false;
	}
	host += 3;
	size_t host_len = 0;
	while (host + host_len < target + len && host[host_len] != '/' && host[host_len] != '?') {
		host_len++;
	}
	return http_is_authority(host, host_len, false);
}
