#include "tests/sim/drain.h"

#include <stdio.h>

#include "tests/sim/client.h"
#include "tests/sim/sim.h"

/* An order is on the disk by then. */
enum { SAVED_MS = 10 * SIM_SECOND };
enum { LEAST_S = 10, MOST_S = 300, ENDS_EARLY = 4 }; /* of a number of drains one */

void sim_drain_init(struct sim_drain *drain)
{
	*drain = (struct sim_drain){ .ordered = SIM_UNSURE };
}

void sim_drain_order(struct sim_drain *drain, struct client *client, uint64_t choice)
{
	int for_s = LEAST_S + (int)(choice % (MOST_S - LEAST_S));
	bool ends = drain->state == SIM_DRAINS && choice % ENDS_EARLY == 0;
	char request[128];
	char body[32];
	int len = snprintf(body, sizeof(body), "{\"for\":%d}", for_s);
	snprintf(request, sizeof(request),
		ends ? "DELETE /v1/agent/drain HTTP/1.1\r\nHost: a\r\n\r\n"
		     : "POST /v1/agent/drain HTTP/1.1\r\nHost: a\r\nContent-Type: "
		       "application/json\r\nContent-Length: %d\r\n\r\n%s",
		len, body);
	if (client_order(client, request)) {
		drain->state = SIM_UNSURE;
		drain->ordered = ends ? SIM_SERVES : SIM_DRAINS;
		drain->until_ms = sim_wall_ms() + for_s * SIM_SECOND;
		drain->changed_ms = sim_now_ms();
	}
}

bool sim_drain_turn(struct sim_drain *drain, struct client *client)
{
	enum sim_drain_state before = drain->state;
	int status = client_order_status(client);
	if (status != 0 && drain->ordered != SIM_UNSURE) {
		drain->state = status == 204 ? drain->ordered : SIM_UNSURE;
		drain->ordered = SIM_UNSURE;
	}
	if (drain->state == SIM_DRAINS && sim_wall_ms() >= drain->until_ms) {
		drain->state = SIM_SERVES;
	}
	if (drain->state != before) {
		drain->changed_ms = sim_now_ms();
	}
	return drain->state != before;
}

void sim_drain_doubt(struct sim_drain *drain)
{
	if (sim_now_ms() < drain->changed_ms + SAVED_MS) {
		drain->state = SIM_UNSURE;
	}
}

void sim_drain_forget(struct sim_drain *drain)
{
	drain->state = SIM_SERVES;
}

void sim_drain_check(struct sim_drain *drain, int number, const json_t *said)
{
	bool active = json_is_true(json_object_get(said, "active"));
	if (drain->state == SIM_UNSURE) {
		drain->state = active ? SIM_DRAINS : SIM_SERVES;
		drain->until_ms = (int64_t)(json_number_value(json_object_get(said, "until")) *
			SIM_SECOND);
	} else if (active != (drain->state == SIM_DRAINS)) {
		sim_fail("agent %d %s, and it was told to %s", number, active ? "drains" : "serves",
			drain->state == SIM_DRAINS ? "drain" : "serve");
	}
}
