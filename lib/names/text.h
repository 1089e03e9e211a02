/*
 * The text of names: labels, the addresses in them, reverse names. Pure.
 */
#ifndef LIB_NAMES_TEXT_H
#define LIB_NAMES_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/path.h"

/* A name as text, with its final NUL. */
#define NAMES_NAME_BYTES PATH_DNS_NAME_BYTES
#define NAMES_MAX_LABELS 127 /* of one byte each, in the 253 bytes that a name may have */

struct names_address {
	int family; /* AF_INET or AF_INET6 */
	uint8_t bytes[16];
	size_t from; /* of an answer: the index of the first record that has it */
};

/* A name taken apart: labels in lower case, the first one first, without the domain. */
struct names_labels {
	char text[NAMES_NAME_BYTES]; /* the labels point into it */
	const char *labels[NAMES_MAX_LABELS];
	size_t count;
};

/* Splits a name at its dots. False when a label is empty or too long, or the name is. */
bool names_split(struct names_labels *ret_labels, const char *name);

/* The inverse, in lower case and without a trailing dot. */
void names_join(char out[NAMES_NAME_BYTES], const struct names_labels *labels);

/* Takes the domain's labels off the end. False when the name is not below (or equal to) it. */
bool names_take_domain(struct names_labels *labels, const char *domain);

/* Reads 1.0.0.10.in-addr.arpa and its like. */
bool names_read_reverse(struct names_address *ret_address, const struct names_labels *labels);

/* ip-10-0-0-1 and ip6-20010db8000000000000000000000001 as labels. */
bool names_read_address_label(struct names_address *ret_address, const char *label);
void names_write_address_label(char out[64], const struct names_address *address);

/* Reads a literal address. */
bool names_read_address(struct names_address *ret_address, const char *text);
bool names_address_equal(const struct names_address *a, const struct names_address *b);

/* The key that a record is found by, of an address that it claims. */
uint64_t names_address_key(const struct names_address *address);
/* Likewise of a container's name, the last element of a path; false when the label names none. */
bool names_container_key(uint64_t *ret_key, const char *label);

#endif
