#include "agent/base/drain.h"

#include <string.h>

#include "lib/base/text.h"

/* One look is not enough: a client that has just read the record may be about to connect. */
enum { QUIET_LOOKS = 2 };

void drain_begin(struct drain *drain, const char *reason, double for_s, double now)
{
	if (!drain->active) {
		drain->since = now;
	}
	drain->active = true;
	drain->until = for_s > 0 ? now + for_s : 0;
	text_printf(drain->reason, sizeof(drain->reason), "%s", reason);
}

void drain_end(struct drain *drain)
{
	memset(drain, 0, sizeof(*drain));
}

bool drain_look(struct drain *drain, bool quiet)
{
	drain->quiet_looks = quiet ? drain->quiet_looks + 1 : 0;
	return drain->quiet_looks == QUIET_LOOKS;
}

bool drain_is_quiet(const struct drain *drain)
{
	return drain->quiet_looks >= QUIET_LOOKS;
}

bool drain_expire(struct drain *drain, double now)
{
	if (!drain->active || drain->until == 0 || now < drain->until) {
		return false;
	}
	drain_end(drain);
	return true;
}

void drain_describe(const struct drain *drain, char *out, size_t size)
{
	text_printf(out, size, "draining%s%s", *drain->reason ? ": " : "", drain->reason);
}

json_t *drain_json(const struct drain *drain)
{
	if (!drain->active) {
		return json_pack("{s:b}", "active", 0);
	}
	return json_pack("{s:b, s:s, s:f, s:o}", "active", 1, "reason", drain->reason, "since",
		drain->since, "until", drain->until > 0 ? json_real(drain->until) : json_null());
}

bool drain_from_json(struct drain *drain, const json_t *json, double now)
{
	int active = 0;
	const char *reason = "";
	double since = 0;
	json_t *until = NULL;
	if (json_unpack((json_t *)json, "{s:b, s?s, s?F, s?o}", "active", &active, "reason",
		    &reason, "since", &since, "until", &until)) {
		return false;
	}
	drain_end(drain);
	if (active) {
		*drain = (struct drain){
			.active = true, .since = since, .until = json_number_value(until)
		};
		text_printf(drain->reason, sizeof(drain->reason), "%s", reason);
		drain_expire(drain, now);
	}
	return true;
}
