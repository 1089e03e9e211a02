#include "nss/memory.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/berth_error.h"
#include "lib/shared/fetch.h"

enum {
	ROOMS = 8,         /* maps at a time: one, and retired ones that are still read */
	FIRST_LOOKUP = 3,  /* a process that looks up less pays nothing */
	AGAIN_MS = 1000,   /* between two attempts to get a map */
	NEVER_MS = 60000,  /* after an agent without one */
	EXPIRED_MS = 1000, /* so long a lease may be over before the agent is taken for dead */
	NOWHERE = -1
};

/*
 * The life of a room: its state counts the steps, so that nobody takes another life for this one.
 *
 *   FREE --fetched--> MAPPED --replaced, and nobody reads--> CLOSING --unmapped--> FREE
 *
 * A thread that wants to read counts itself in, and looks again whether the room is the present
 * one. If so, whoever replaces it later sees the count, and leaves unmapping to the last reader.
 * All these operations are sequentially consistent.
 */
enum { FREE, MAPPED, CLOSING, STEPS };

static struct room {
	_Atomic unsigned state;
	_Atomic unsigned readers;
	struct shared_map map;
	char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
} rooms[ROOMS];

static _Atomic int present = NOWHERE;
static _Atomic unsigned lookups;
static _Atomic int64_t next_ms;
static _Atomic int64_t expired_ms; /* when the lease was first found to be over; 0: it is not */
static _Atomic pid_t fetching;     /* by which process; it may be the parent of this one */

/* ---- rooms ---- */

static void give_up(int number)
{
	struct room *room = &rooms[number];
	unsigned state = atomic_load(&room->state);
	if (state % STEPS == MAPPED && atomic_load(&present) != number &&
		atomic_load(&room->readers) == 0 &&
		atomic_compare_exchange_strong(&room->state, &state, state + 1)) {
		shared_map_close(&room->map);
		atomic_store(&room->state, state + 2);
	}
}

static void leave(int number)
{
	if (atomic_fetch_sub(&rooms[number].readers, 1) == 1) {
		give_up(number);
	}
}

/* The number of the present room, whose map stays until leave(); NOWHERE without one. */
static int enter(void)
{
	for (;;) {
		int number = atomic_load(&present);
		if (number == NOWHERE) {
			return NOWHERE;
		}
		atomic_fetch_add(&rooms[number].readers, 1);
		if (atomic_load(&present) == number) {
			return number;
		}
		leave(number);
	}
}

/* There is no present room from now on, if it was this one. */
static void retire(int number)
{
	int expected = number;
	(void)atomic_compare_exchange_strong(&present, &expected, NOWHERE);
	atomic_store(&expired_ms, 0);
}

/* ---- reading ---- */

/* An agent that was killed has not retired its map; a living one extends the lease when asked. */
static bool is_abandoned(void)
{
	int64_t now_ms = clock_monotonic_ms();
	int64_t since_ms = 0;
	return !atomic_compare_exchange_strong(&expired_ms, &since_ms, now_ms) &&
		now_ms - since_ms >= EXPIRED_MS;
}

static enum nss_memory_outcome judge(
	int number, enum shared_outcome outcome, const struct shared_answer *answer)
{
	bool expired = outcome == SHARED_EXPIRED;
	if (!expired && atomic_load(&expired_ms) != 0) {
		atomic_store(&expired_ms, 0);
	}
	if (outcome == SHARED_GONE || (expired && is_abandoned())) {
		retire(number);
		return NSS_MEMORY_NONE;
	}
	if (outcome != SHARED_FOUND) {
		return NSS_MEMORY_UNKNOWN;
	}
	return answer->error == 0                       ? NSS_MEMORY_FOUND
		: answer->error == BERTH_PATH_NOT_FOUND ? NSS_MEMORY_ABSENT
							: NSS_MEMORY_UNKNOWN;
}

enum nss_memory_outcome nss_memory_read(
	const char *socket_path, const char *key, char *value, size_t size)
{
	struct shared_answer answer = { .error = 0 };
	enum nss_memory_outcome outcome = NSS_MEMORY_NONE;
	int number = enter();
	if (number == NOWHERE) {
		return NSS_MEMORY_NONE;
	}
	const struct room *room = &rooms[number];
	if (strcmp(room->socket_path, socket_path) == 0) {
		outcome = judge(number,
			shared_map_read(&room->map, key, strlen(key), value, size, &answer),
			&answer);
	} else {
		retire(number); /* the environment names another agent by now */
	}
	leave(number);
	return outcome;
}

/* ---- getting a map ---- */

bool nss_memory_wants_map(void)
{
	return atomic_load(&present) == NOWHERE &&
		atomic_fetch_add(&lookups, 1) + 1 >= FIRST_LOOKUP &&
		clock_monotonic_ms() >= atomic_load(&next_ms);
}

/* A room whose state nobody else changes: only the process that fetches takes free ones. */
static int find_free(void)
{
	for (int number = 0; number < ROOMS; number++) {
		if (atomic_load(&rooms[number].state) % STEPS == FREE) {
			return number;
		}
	}
	return NOWHERE;
}

static void fetch(int number, const char *socket_path, int fd, int64_t deadline_ms)
{
	struct room *room = &rooms[number];
	enum shared_fetched fetched = shared_map_fetch(fd, deadline_ms, &room->map);
	atomic_store(
		&next_ms, clock_monotonic_ms() + (fetched == SHARED_NEVER ? NEVER_MS : AGAIN_MS));
	if (fetched == SHARED_FETCHED) {
		strcpy(room->socket_path, socket_path);
		atomic_fetch_add(&room->state, 1);
		atomic_store(&present, number);
	}
}

void nss_memory_fetch(const char *socket_path, int fd, int64_t deadline_ms)
{
	pid_t own = getpid();
	pid_t other = atomic_load(&fetching);
	if (other == own || !atomic_compare_exchange_strong(&fetching, &other, own)) {
		return;
	}
	int number = find_free();
	if (number != NOWHERE && atomic_load(&present) == NOWHERE &&
		strlen(socket_path) < sizeof(rooms[0].socket_path)) {
		fetch(number, socket_path, fd, deadline_ms);
	}
	atomic_store(&fetching, 0);
}
