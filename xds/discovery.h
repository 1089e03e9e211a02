/*
 * The messages of the discovery service, v3: what a client asks, as protocol buffers or as JSON,
 * and the parts of an answer.
 */
#ifndef XDS_DISCOVERY_H
#define XDS_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "xds/resource.h"

enum {
	DISCOVERY_REQUEST_BYTES = 512 * 1024, /* of a request */
	DISCOVERY_NAMES_MAX = 4096,           /* in a request; and of a type, in a subscription */
	DISCOVERY_NAME_BYTES = LIMIT_PATH_BYTES,
	DISCOVERY_NONCE_BYTES = 24,
	DISCOVERY_VERSION_BYTES = 17 /* a hash in hexadecimal */
};

/* Text inside the request's bytes. */
struct discovery_text {
	const char *data;
	size_t len;
};

/* A list of names; `versions` go with the names of initial_resource_versions alone. */
struct discovery_names {
	struct discovery_text *items;
	struct discovery_text *versions;
	size_t count;
};

/* A DiscoveryRequest, or with `delta` a DeltaDiscoveryRequest. discovery_request_finish(). */
struct discovery_request {
	enum resource_type type; /* RESOURCE_TYPES: of a type that we do not have */
	struct discovery_text type_url;
	struct discovery_text node; /* its id */
	struct discovery_text version;
	struct discovery_text nonce;
	struct discovery_names names;   /* those asked for; delta: those to subscribe to */
	struct discovery_names dropped; /* delta: those to unsubscribe from */
	struct discovery_names held;    /* delta: those that the client has, with their versions */
	bool refused;                   /* an error_detail: the client rejects the last answer */
	struct discovery_text error;    /* its message */
};

/*
 * Reads a request; its texts point into `data`. BERTH_FAILED for bytes that are not a request,
 * BERTH_LIMIT_EXCEEDED for too many names, or one that is empty, too long or holds control
 * characters.
 */
int discovery_read(struct discovery_request *ret_request, bool delta, const void *data, size_t len,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(5);
void discovery_request_finish(struct discovery_request *request);

/* True for a name that a subscription can hold. */
bool discovery_name_valid(const char *name, size_t len);

bool discovery_text_is(const struct discovery_text *text, const char *other);

/* A version as text, and back: 0 for a text that is not one of ours. */
void discovery_write_version(char out[DISCOVERY_VERSION_BYTES], uint64_t version);
uint64_t discovery_read_version(const struct discovery_text *text);

/* ---- answers: DiscoveryResponse, DeltaDiscoveryResponse ---- */

/* Appends a resource, whose message is between begin and end. */
struct discovery_mark {
	size_t outer;
	size_t any;
	size_t value;
};
/* `name` and `version`: delta only. */
struct discovery_mark discovery_begin_resource(struct buffer *out, enum resource_type type,
	bool delta, const char *name, uint64_t version);
void discovery_end_resource(struct buffer *out, bool delta, const struct discovery_mark *mark);
/* Delta: a resource that is no more. */
void discovery_add_removed(struct buffer *out, const char *name, size_t len);
/* The rest of an answer, the same for both kinds. */
void discovery_end_answer(
	struct buffer *out, enum resource_type type, uint64_t version, const char *nonce);

#endif
