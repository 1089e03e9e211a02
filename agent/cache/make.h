/* Makes an answer of the entries that it needs. */
#ifndef AGENT_CACHE_MAKE_H
#define AGENT_CACHE_MAKE_H

#include "agent/cache/answer.h"

/*
 * Makes the answer of its entries and publishes it. WAITING: answer->missing of them are being
 * loaded, or the body goes on in the next turn. UNAVAILABLE fills err. Not of kind FIND.
 */
enum cache_verdict cache_answer_make(struct answer *answer, struct err *err);

#endif
