#include "agent/http/internal.h"

#include <string.h>

#include "lib/base/hex.h"

int http_decode(const char *text, char *out, size_t size)
{
	size_t len = 0;
	for (; *text; text++) {
		int value = (unsigned char)*text;
		if (*text == '+') {
			value = ' ';
		} else if (*text == '%') {
			value = hex_byte(text + 1);
			if (value < 0) {
				return -1;
			}
			text += 2;
		}
		if (value < 0x20 || value == 0x7f || len + 1 >= size) {
			return -1;
		}
		out[len++] = (char)value;
	}
	out[len] = '\0';
	return (int)len;
}

int http_parameter(const struct http_request *request, const char *name, char *out, size_t size,
	struct err *err)
{
	const char *raw = MHD_lookup_connection_value(
		((const struct connection *)request)->mhd, MHD_GET_ARGUMENT_KIND, name);
	if (!raw) {
		return 0;
	}
	if (http_decode(raw, out, size) < 0) {
		return err_set(err, BERTH_FAILED,
			"query parameter %s: not text of at most %zu bytes", name, size - 1);
	}
	return 1;
}
