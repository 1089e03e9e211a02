/* Certificates and keys as PEM, which the agent sends once; counted by reference. */
#ifndef PROBE_BLOB_H
#define PROBE_BLOB_H

#include <stddef.h>
#include <stdint.h>

struct blob {
	uint64_t id;
	unsigned references; /* of transfers, and one of the list */
	char *text;
	size_t len;
};

/* The text is copied. */
void blob_add(uint64_t id, const char *text, size_t len);
/* Forgets all; those that are in use live on for their users. */
void blob_forget(void);
/* NULL: unknown. */
struct blob *blob_get(uint64_t id);
/* Accepts NULL. */
void blob_unref(struct blob *blob);

#endif
