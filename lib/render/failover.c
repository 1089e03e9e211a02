#include "lib/render/failover.h"

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

size_t failover_walk(struct failover *failover, size_t count, size_t least, int64_t hold_ms,
	int64_t now_ms, bool (*know)(void *context, size_t index, struct failover_path *ret_path),
	void *context)
{
	size_t needed = count - 1; /* so many further paths, if nothing had been before */
	size_t instances = 0;
	bool settled = false;
	bool blocked = false;
	for (size_t i = 0; i < count && !(settled && i > failover->further); i++) {
		struct failover_path path = { .confirmed = false };
		if (!know(context, i, &path)) {
			return 0;
		}
		instances += path.instances;
		if (settled) {
			continue;
		}
		if (!path.confirmed) {
			settled = blocked = true;
			/* Paths that came in while more was known stay. */
			needed = i > failover->further + 1 ? i - 1 : failover->further;
		} else if (instances >= least) {
			settled = true;
			needed = i;
		}
	}
	failover->blocked = blocked;
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
