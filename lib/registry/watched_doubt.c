/*
 * How old the oldest state is that users still have although it may have changed since.
 */
#include "lib/registry/watched.h"

/* The list is ordered by time. */
void watched_doubt_begin(struct registry_watched *watched, const struct registry_watched *leader)
{
	struct registry_watches *watches = &watched->registry->watches;
	struct watched_doubt *doubt = &watched->doubt;
	doubt->resolved = false;
	if (!watched->value || watched->recalled || !list_empty(&doubt->link)) {
		return;
	}
	doubt->heard_ms = registry_server_heard_ms(watched->registry, watches->now_ms);
	for (; leader; leader = leader->leader) {
		if (!list_empty(&leader->doubt.link) && leader->doubt.heard_ms < doubt->heard_ms) {
			doubt->heard_ms = leader->doubt.heard_ms;
		}
	}
	struct list *later = &watches->doubted;
	while (later->prev != &watches->doubted &&
		LIST_ITEM(later->prev, struct watched_doubt, link)->heard_ms > doubt->heard_ms) {
		later = later->prev;
	}
	list_append(later, &doubt->link);
}

int64_t registry_watches_heard_ms(const struct registry *registry, int64_t heard_ms)
{
	const struct list *doubted = &registry->watches.doubted;
	if (list_empty(doubted)) {
		return heard_ms;
	}
	const struct watched_doubt *first = LIST_ITEM(doubted->next, struct watched_doubt, link);
	return first->heard_ms < heard_ms ? first->heard_ms : heard_ms;
}
