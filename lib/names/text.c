/* The text of names: labels, reverse names, names of paths. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "lib/names/text.h"
#include "lib/base/hash.h"
#include "lib/base/hex.h"
#include "lib/base/path.h"

#define MAX_NAME_LEN 253
#define MAX_LABEL_LEN 63

bool names_split(struct names_labels *ret_labels, const char *name)
{
	size_t len = strlen(name);
	if (len > 0 && name[len - 1] == '.') {
		len--;
	}
	if (len > MAX_NAME_LEN) {
		return false;
	}
	struct names_labels *out = ret_labels;
	out->count = 0;
	size_t start = 0;
	for (size_t i = 0; i <= len; i++) {
		char c = i < len ? name[i] : '.';
		if (c != '.') {
			out->text[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
			continue;
		}
		out->text[i] = '\0';
		if (len == 0) {
			return true; /* the root */
		}
		if (i == start || i - start > MAX_LABEL_LEN) {
			return false;
		}
		out->labels[out->count++] = out->text + start;
		start = i + 1;
	}
	return true;
}

void names_join(char out[NAMES_NAME_BYTES], const struct names_labels *labels)
{
	char *at = out;
	*at = '\0';
	for (size_t i = 0; i < labels->count; i++) {
		at = stpcpy(i > 0 ? stpcpy(at, ".") : at, labels->labels[i]);
	}
}

bool names_take_domain(struct names_labels *labels, const char *domain)
{
	struct names_labels of_domain;
	if (!names_split(&of_domain, domain) || of_domain.count > labels->count) {
		return false;
	}
	size_t left = labels->count - of_domain.count;
	for (size_t i = 0; i < of_domain.count; i++) {
		if (strcmp(labels->labels[left + i], of_domain.labels[i]) != 0) {
			return false;
		}
	}
	labels->count = left;
	return true;
}

static bool read_reverse_ipv4(struct names_address *address, const struct names_labels *labels)
{
	char text[INET_ADDRSTRLEN];
	const char *const *at = labels->labels;
	if (strlen(at[0]) + strlen(at[1]) + strlen(at[2]) + strlen(at[3]) + 4 > sizeof(text)) {
		return false;
	}
	snprintf(text, sizeof(text), "%s.%s.%s.%s", at[3], at[2], at[1], at[0]);
	address->family = AF_INET;
	return inet_pton(AF_INET, text, address->bytes) == 1;
}

static bool read_reverse_ipv6(struct names_address *address, const struct names_labels *labels)
{
	address->family = AF_INET6;
	for (size_t i = 0; i < sizeof(address->bytes); i++) {
		const char *low = labels->labels[2 * (15 - i)];
		const char *high = labels->labels[2 * (15 - i) + 1];
		const char digits[2] = { high[0], low[0] };
		int byte = low[1] == '\0' && high[1] == '\0' ? hex_byte(digits) : -1;
		if (byte < 0) {
			return false;
		}
		address->bytes[i] = (uint8_t)byte;
	}
	return true;
}

bool names_read_reverse(struct names_address *ret_address, const struct names_labels *labels)
{
	struct names_address address = { .family = 0 };
	struct names_labels left = *labels;
	bool is_reverse = (names_take_domain(&left, "in-addr.arpa") && left.count == 4 &&
				  read_reverse_ipv4(&address, labels)) ||
		(names_take_domain(&left, "ip6.arpa") && left.count == 32 &&
			read_reverse_ipv6(&address, labels));
	if (is_reverse) {
		*ret_address = address;
	}
	return is_reverse;
}

bool names_read_address(struct names_address *ret_address, const char *text)
{
	struct names_address address = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };
	if (inet_pton(address.family, text, address.bytes) != 1) {
		return false;
	}
	*ret_address = address;
	return true;
}

bool names_address_equal(const struct names_address *a, const struct names_address *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

void names_write_address_label(char out[64], const struct names_address *address)
{
	const uint8_t *bytes = address->bytes;
	if (address->family == AF_INET) {
		snprintf(out, 64, "ip-%u-%u-%u-%u", bytes[0], bytes[1], bytes[2], bytes[3]);
		return;
	}
	char *at = stpcpy(out, "ip6-");
	for (size_t i = 0; i < sizeof(address->bytes); i++) {
		at += sprintf(at, "%02x", bytes[i]);
	}
}

bool names_read_address_label(struct names_address *ret_address, const char *label)
{
	struct names_address address = { .family = AF_INET };
	if (strncmp(label, "ip-", 3) == 0 && strlen(label) < 3 + INET_ADDRSTRLEN) {
		char text[INET_ADDRSTRLEN];
		strcpy(text, label + 3);
		for (char *c = text; *c; c++) {
			*c = *c == '-' ? '.' : *c;
		}
		if (inet_pton(AF_INET, text, address.bytes) != 1) {
			return false;
		}
	} else if (strncmp(label, "ip6-", 4) == 0 && strlen(label) == 4 + 32) {
		address.family = AF_INET6;
		for (size_t i = 0; i < sizeof(address.bytes); i++) {
			int byte = hex_byte(label + 4 + 2 * i);
			if (byte < 0) {
				return false;
			}
			address.bytes[i] = (uint8_t)byte;
		}
	} else {
		return false;
	}
	*ret_address = address;
	return true;
}

uint64_t names_address_key(const struct names_address *address)
{
	uint64_t hash = hash_bytes(HASH_INIT, &address->family, sizeof(address->family));
	return hash_bytes(hash, address->bytes, sizeof(address->bytes));
}

bool names_container_key(uint64_t *ret_key, const char *label)
{
	bool is_container = strncmp(label, "ctr-", 4) == 0;
	if (is_container) {
		*ret_key = hash_text(HASH_INIT, label);
	}
	return is_container;
}
