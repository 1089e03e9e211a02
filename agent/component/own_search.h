/*
 * Finds the sequential nodes of this agent's own session: after an upgrade or a crash whose session
 * goes on, and after a write whose answer was lost, the agent does not know the number in their
 * names.
 */
#ifndef AGENT_COMPONENT_OWN_SEARCH_H
#define AGENT_COMPONENT_OWN_SEARCH_H

#include <stddef.h>

#include "lib/base/err.h"
#include "lib/registry/registry.h"

struct own_search;

/*
 * Lists the children of the prefix's parent and looks at each that is the prefix and ten digits.
 * `on_found` gets the paths of the own ones in order (borrowed), or why they could not be found;
 * then the search is over and is freed.
 */
struct own_search *own_search_start(struct registry *registry, const char *prefix,
	void (*on_found)(void *context, char *const *paths, size_t count, const struct err *err),
	void *context);
/* Gives up a search that has not ended. Accepts NULL. */
void own_search_cancel(struct own_search *search);

#endif
