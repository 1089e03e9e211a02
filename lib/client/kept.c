#include "lib/client/kept.h"

#include "lib/base/clock.h"

enum {
	CATCH_UP_MS = 1000, /* between two questions about a kept answer that is not in memory */
	CATCH_UP_TIMEOUT_MS = 100
};

static void note_answer(struct kept *kept)
{
	kept->has_answer = true;
	kept->trouble = false;
	kept->answered_ms = clock_monotonic_ms() - kept->freshness.age_s * 1000;
}

static int read_once(struct kept *kept, struct err *err)
{
	kept->asked_ms = clock_monotonic_ms();
	int code = kept->read(kept->context, kept->trouble, err);
	kept->memory = memory_place(&kept->berth->memory);
	if (code == 0) {
		note_answer(kept);
	}
	return code;
}

static int read_again(struct kept *kept, struct err *err)
{
	bool past_caches = kept->trouble;
	int code = read_once(kept, err);
	if (code == 0 && !past_caches && !kept->memory.map &&
		memory_is_open(&kept->berth->memory)) {
		code = read_once(kept, err); /* the first has put it into memory */
	}
	return code;
}

void kept_took(struct kept *kept)
{
	kept->asked_ms = clock_monotonic_ms();
	kept->memory = (struct memory_place){ .map = 0 };
	note_answer(kept);
}

/*
 * The kept answer is not, or no longer, what the agent's memory says: worth a question now and
 * then, which must not take long.
 */
static void catch_up(struct kept *kept)
{
	struct berth *berth = kept->berth;
	struct err err = ERR_INIT;
	int timeout_ms = berth->timeout_ms;
	if (!berth->client || !memory_may_help(&berth->memory) ||
		(!kept->memory.map && clock_monotonic_ms() - kept->asked_ms < CATCH_UP_MS)) {
		return;
	}
	berth->timeout_ms = timeout_ms < CATCH_UP_TIMEOUT_MS ? timeout_ms : CATCH_UP_TIMEOUT_MS;
	int code = read_again(kept, &err);
	kept->freshness.stale = kept->freshness.stale || code != 0;
	berth->timeout_ms = timeout_ms;
}

int kept_renew(struct kept *kept, struct err *err)
{
	if (kept->has_answer && !kept->trouble) {
		catch_up(kept);
	}
	if ((!kept->has_answer || kept->trouble) && read_again(kept, err) != 0) {
		if (!kept->has_answer) {
			return err->code;
		}
		kept->freshness.stale = true;
	}
	kept->freshness.age_s = (long)((clock_monotonic_ms() - kept->answered_ms) / 1000);
	return 0;
}
