#include "lib/client/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/peer/client.h"
#include "lib/shared/fetch.h"

enum {
	FIRST_LOOKUP = 3,
	AGAIN_MS = 100, /* after an agent that cannot hand out a map now */
	EXPIRED_MS =
		1000, /* so long a lease may be over before the map is taken for a dead agent's */
	NEVER_MS = 60000, /* after one that has none: it may be upgraded */
	PATIENCE_MS = 1000
};

void memory_close(struct memory *memory)
{
	shared_map_close(&memory->map);
	free(memory->value);
	memory->value = NULL;
}

void memory_set(struct memory *memory, bool on)
{
	if (!on) {
		memory_close(memory);
	}
	memory->off = !on;
}

bool memory_may_help(const struct memory *memory)
{
	return !memory->off && !memory->never;
}

bool memory_is_open(const struct memory *memory)
{
	return memory->map.words != NULL;
}

/* The pause also bounds what an agent costs that retires map after map. */
static void fetch(struct memory *memory, const char *socket_path, int timeout_ms)
{
	struct err err = ERR_INIT;
	int64_t now_ms = clock_monotonic_ms();
	int64_t deadline_ms = now_ms + (timeout_ms < PATIENCE_MS ? timeout_ms : PATIENCE_MS);
	if (now_ms < memory->next_ms) {
		return;
	}
	memory->next_ms = now_ms + AGAIN_MS;
	char *value = memory->value ? memory->value : malloc(SHARED_VALUE_BYTES + 1);
	memory->value = value;
	int fd = value ? client_connect(socket_path, deadline_ms, &err) : -1;
	if (fd < 0) {
		return;
	}
	enum shared_fetched fetched = shared_map_fetch(fd, deadline_ms, &memory->map);
	close(fd);
	if (fetched == SHARED_NEVER) {
		memory->next_ms = now_ms + NEVER_MS;
	}
	memory->never = fetched == SHARED_NEVER;
	memory->maps += fetched == SHARED_FETCHED;
}

static enum shared_outcome look(struct memory *memory, const char *target)
{
	return memory->map.words ? shared_map_read(&memory->map, target, strlen(target),
					   memory->value, SHARED_VALUE_BYTES + 1, &memory->answer)
				 : SHARED_GONE;
}

/*
 * An agent that was killed has not retired its map. A living agent extends the lease for the
 * request that follows, unless its registry is away.
 */
static bool is_abandoned(struct memory *memory, enum shared_outcome outcome)
{
	if (outcome != SHARED_EXPIRED) {
		memory->expired_ms = 0;
		return false;
	}
	int64_t now_ms = clock_monotonic_ms();
	if (memory->expired_ms == 0) {
		memory->expired_ms = now_ms;
	}
	bool abandoned = now_ms - memory->expired_ms >= EXPIRED_MS;
	memory->expired_ms = abandoned ? now_ms : memory->expired_ms;
	return abandoned;
}

bool memory_read(struct memory *memory, const char *target, const char *socket_path, int timeout_ms)
{
	enum shared_outcome outcome = memory->off ? SHARED_UNKNOWN : look(memory, target);
	if (outcome == SHARED_GONE || is_abandoned(memory, outcome)) {
		shared_map_close(&memory->map);
		memory->lookups += memory->lookups < FIRST_LOOKUP;
		if (memory->lookups == FIRST_LOOKUP) {
			fetch(memory, socket_path, timeout_ms);
			outcome = look(memory, target);
		}
	}
	memory->found = outcome == SHARED_FOUND;
	return memory->found;
}

struct memory_place memory_place(const struct memory *memory)
{
	return (struct memory_place){ memory->found ? memory->maps : 0, memory->answer.place };
}

bool memory_unchanged(const struct memory *memory, const struct memory_place *place)
{
	return memory->map.words && place->map == memory->maps &&
		shared_map_unchanged(&memory->map, &place->place) == SHARED_FOUND;
}
