#include "lib/record/service.h"

#include <string.h>

/* The last part of an api: rest of http://example.org/apis/rest, admin of urn:admin. */
static const char *last_part(const char *api, size_t *ret_len)
{
	static const char package[] = "classpath:";
	bool is_package = strncmp(api, package, sizeof(package) - 1) == 0;
	size_t end = strlen(api);
	while (end > 0 && api[end - 1] == '/') {
		end--;
	}
	size_t start = end;
	while (start > 0 && !strchr(is_package ? "/:#." : "/:#", api[start - 1])) {
		start--;
	}
	*ret_len = end - start;
	return api + start;
}

static bool is_label(const char *text, size_t len, const char *label)
{
	if (strlen(label) != len || len == 0) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		bool is_upper = c >= 'A' && c <= 'Z';
		bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		char as_label = (char)(is_upper ? c - 'A' + 'a' : is_plain ? c : '-');
		if (as_label != label[i] && c != label[i]) {
			return false;
		}
	}
	return true;
}

bool record_text_is_label(const char *text, const char *label)
{
	return is_label(text, strlen(text), label);
}

bool record_endpoint_offers(const struct record_endpoint *endpoint, const char *service)
{
	size_t len;
	const char *part = last_part(endpoint->api, &len);
	return record_text_is_label(endpoint->protocol, service) || is_label(part, len, service);
}
