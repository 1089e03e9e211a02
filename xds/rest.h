/*
 * Discovery by REST: POST /v3/discovery:endpoints and :clusters, for Envoy's `api_type: REST`. The
 * same for both versions of HTTP.
 *
 * A request for names that are not followed yet waits for them, for less time than Envoy waits.
 */
#ifndef XDS_REST_H
#define XDS_REST_H

#include <ev.h>
#include <stdbool.h>

#include "lib/base/buffer.h"
#include "xds/follow.h"

enum { REST_WAIT_MS = 800 };

struct rest;

/* The answer can be written. Called from the loop, once. */
typedef void rest_on_ready(void *context);

/* Whether the target is one of discovery by REST, whatever the method. */
bool rest_is_target(const char *target);

/* Begins to answer. The body may be gone afterwards. */
struct rest *rest_create(struct ev_loop *loop, struct world *world, struct follow_quota *quota,
	const char *target, const char *body, size_t len, rest_on_ready *on_ready, void *context);
/* The memory that it takes, roughly. */
size_t rest_bytes(const struct rest *rest);
/* Accepts NULL. */
void rest_destroy(struct rest *rest);

/*
 * The status: 200 with JSON, 304 without a body, 400 or 503 with a text for people in `out`.
 */
int rest_write(struct rest *rest, struct buffer *out);

#endif
