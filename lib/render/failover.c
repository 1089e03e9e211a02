#include "lib/render/failover.h"

/* How many further paths would be in use if nothing had been before. */
static size_t find_needed(
	struct failover *failover, const struct failover_path *paths, size_t count, size_t least)
{
	size_t instances = 0;
	failover->blocked = false;
	for (size_t i = 0; i < count; i++) {
		if (!paths[i].confirmed) {
			failover->blocked = true;
			/* Paths that came in while more was known stay. */
			return i > failover->further + 1 ? i - 1 : failover->further;
		}
		instances += paths[i].instances;
		if (instances >= least) {
			return i;
		}
	}
	return count - 1;
}

static void hold(struct failover *failover, size_t needed, int64_t hold_ms, int64_t now_ms)
{
	if (!failover->holds || failover->enough != needed) {
		failover->holds = true;
		failover->enough = needed;
		failover->since_ms = now_ms;
	}
	if (now_ms - failover->since_ms >= hold_ms) {
		failover->further = needed;
		failover->holds = false;
	}
}

size_t failover_decide(struct failover *failover, const struct failover_path *paths, size_t count,
	size_t least, int64_t hold_ms, int64_t now_ms)
{
	size_t needed = find_needed(failover, paths, count, least);
	if (needed < failover->further) {
		hold(failover, needed, hold_ms, now_ms);
	} else {
		failover->further = needed;
		failover->holds = false;
	}
	return failover->further + 1;
}

int64_t failover_due_ms(const struct failover *failover, int64_t hold_ms, int64_t now_ms)
{
	int64_t due_ms = failover->since_ms + hold_ms - now_ms;
	return !failover->holds ? -1 : due_ms > 0 ? due_ms : 0;
}

struct failover failover_get(const struct failover_table *table, uint64_t key)
{
	size_t place = key % FAILOVER_SETS;
	return table->sets[place].key == key ? table->sets[place].failover
					     : (struct failover){ .further = 0 };
}

void failover_put(struct failover_table *table, uint64_t key, const struct failover *failover)
{
	size_t place = key % FAILOVER_SETS;
	if (failover->further > 0) {
		table->sets[place].key = key;
		table->sets[place].failover = *failover;
	} else if (table->sets[place].key == key) {
		table->sets[place].failover = *failover;
	}
}
