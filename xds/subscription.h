/*
 * The subscriptions of one stream of the aggregated discovery service, and its next messages.
 *
 * A subscription has for each type the names asked for, or all that the world serves (a wildcard).
 * Of a name it knows which version it has sent:
 *
 *   WITHHELD (endpoints of an unknown name) --> DUE --subscription_next()--> SENT --change--> DUE
 *
 * So whatever a client reads and when, nothing waits here but one mark for each name: an answer is
 * made when it can be sent, from the state of that moment. State of the world: an answer with
 * clusters or listeners lists everything that is known, one with endpoints or routes what is due.
 * Delta: what is due, and what is no more.
 *
 * An answer that the client refuses (NACK) counts as sent: it is not sent again before it changes.
 */
#ifndef XDS_SUBSCRIPTION_H
#define XDS_SUBSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buffer.h"
#include "lib/base/err.h"
#include "xds/follow.h"

struct subscription;

/* Something is to be sent. Called from world_update() and from subscription_take(). */
typedef void subscription_on_due(void *context);

/* `quota`: of the client, for names that nobody follows yet; NULL: without bound. */
struct subscription *subscription_create(struct world *world, struct follow_quota *quota,
	bool delta, subscription_on_due *on_due, void *context);
/* Accepts NULL. */
void subscription_destroy(struct subscription *subscription);

/*
 * Takes a message of the client. BERTH_FAILED for bytes that are not a request,
 * BERTH_LIMIT_EXCEEDED beyond the bounds of discovery.h and follow.h: the stream cannot go on.
 */
int subscription_take(struct subscription *subscription, const void *message, size_t len,
	struct err *err) __attribute__((warn_unused_result)) ERR_REQUIRED(4);

/* The memory that it takes, roughly. */
size_t subscription_bytes(const struct subscription *subscription);

/* Appends the next message to the client; false when nothing is due. */
bool subscription_next(struct subscription *subscription, struct buffer *out);

/* Answers that clients have refused, of all subscriptions of the process. */
uint64_t subscription_refusals(void);

#endif
