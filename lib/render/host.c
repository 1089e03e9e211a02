#include "lib/render/host.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { NAME_BYTES = 253, LABEL_BYTES = 63 };

static bool is_label(const char *label, size_t len)
{
	if (len == 0 || len > LABEL_BYTES || !isalnum((unsigned char)label[0]) ||
		label[len - 1] == '-') {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)label[i]) && label[i] != '-' && label[i] != '_') {
			return false;
		}
	}
	return true;
}

/* 999.1.1.1 is a name to the grammar, but no top-level domain is a number. */
static bool is_number(const char *host, const char *last, size_t last_len)
{
	struct in_addr ignored;
	bool has_digits_only = last != host && strspn(last, "0123456789") >= last_len;
	return has_digits_only || inet_aton(host, &ignored);
}

/* One dot at the end makes a name absolute. */
static bool is_name(const char *host)
{
	size_t len = strlen(host);
	len -= len > 0 && host[len - 1] == '.';
	if (len > NAME_BYTES) {
		return false;
	}
	for (const char *label = host;;) {
		size_t label_len = strcspn(label, ".");
		if (!is_label(label, label_len)) {
			return false;
		}
		if (label + label_len == host + len) {
			return !is_number(host, label, label_len);
		}
		label += label_len + 1;
	}
}

enum render_host render_host_read(char *host)
{
	struct in_addr ip4;
	struct in6_addr ip6;
	char canonical[INET6_ADDRSTRLEN];
	if (inet_pton(AF_INET, host, &ip4) == 1) {
		return RENDER_HOST_ADDRESS;
	}
	if (inet_pton(AF_INET6, host, &ip6) != 1) {
		return is_name(host) ? RENDER_HOST_NAME : RENDER_HOST_BAD;
	}
	inet_ntop(AF_INET6, &ip6, canonical, sizeof(canonical));
	strcpy(host, canonical); /* not necessarily shorter: "::1.2.3.4" for "::102:304" */
	return RENDER_HOST_ADDRESS;
}
