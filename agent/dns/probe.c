/* Whether a server that we forward to forwards to us. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "agent/base/random.h"
#include "agent/dns/internal.h"
#include "lib/base/clock.h"
#include "lib/base/random_bytes.h"
#include "lib/base/text.h"

#define FIRST_PAUSE_MS 1000
#define LAST_PAUSE_MS 60000
#define ONCE_MORE_MS 10000
#define DOUBT_MS 3000 /* between two doubts */

/*
 * The name has no domain that a server between us and ourselves would answer by itself; the type is
 * one that nobody asks for.
 */
static void ask(void *context)
{
	struct dns_probe *probe = context;
	struct dns_query query;
	uint8_t packet[NS_PACKETSZ];
	uint64_t random[2];
	if (!random_bytes(random, sizeof(random))) {
		timer_start(&probe->timer, FIRST_PAUSE_MS);
		return;
	}
	text_printf(probe->before, sizeof(probe->before), "%s", probe->name);
	text_printf(probe->name, sizeof(probe->name), "%016" PRIx64 ".berth-loop-%016" PRIx64,
		random[0], random[1]);
	size_t len = dns_query_write(&query, packet, probe->name, ns_t_hinfo);
	dns_ask_init(&probe->ask, probe->loop, &query, packet, len, false);
	probe->asking = true;
	probe->asked_ms = clock_monotonic_ms();
	dns_ask_send(&probe->ask, &probe->server);
}

static void stop_asking(struct dns_probe *probe)
{
	timer_stop(&probe->timer);
	if (probe->asking) {
		dns_ask_finish(&probe->ask);
		probe->asking = false;
	}
}

static void on_end(void *context, uint8_t *reply, size_t len)
{
	(void)len;
	struct dns_probe *probe = context;
	stop_asking(probe);
	if (!reply) {
		probe->pause_ms = probe->pause_ms ? 2 * probe->pause_ms : FIRST_PAUSE_MS;
		if (probe->pause_ms > LAST_PAUSE_MS || probe->loops) {
			probe->pause_ms = LAST_PAUSE_MS;
		}
		timer_start(&probe->timer, random_jitter_ms(probe->pause_ms));
		return;
	}
	probe->pause_ms = 0;
	if (probe->loops) {
		probe->loops = false;
		timer_start(&probe->timer, random_jitter_ms(ONCE_MORE_MS));
		probe->on_loop(probe->context, false);
	}
}

void dns_probe_start(struct dns_probe *probe, struct ev_loop *loop,
	const struct sockaddr_storage *server, void (*on_loop)(void *context, bool loops),
	void *context)
{
	*probe = (struct dns_probe){
		.on_loop = on_loop,
		.context = context,
		.loop = loop,
		.server = *server,
		.ask = { .on_end = on_end, .context = probe },
	};
	timer_init(&probe->timer, loop, "search for a loop of DNS", ask, probe);
	timer_start(&probe->timer, 0);
}

void dns_probe_stop(struct dns_probe *probe)
{
	if (probe->loop) {
		stop_asking(probe);
		probe->loop = NULL;
	}
}

void dns_probe_doubt(struct dns_probe *probe)
{
	if (!probe->asking && !probe->loops && clock_monotonic_ms() - probe->asked_ms > DOUBT_MS) {
		timer_start(&probe->timer, 0);
	}
}

bool dns_probe_take(struct dns_probe *probe, const struct dns_query *query)
{
	if (!probe->loop || query->type != ns_t_hinfo || !*query->name ||
		(strcasecmp(query->name, probe->name) != 0 &&
			strcasecmp(query->name, probe->before) != 0)) {
		return false;
	}
	stop_asking(probe);
	timer_start(&probe->timer, random_jitter_ms(LAST_PAUSE_MS));
	if (!probe->loops) {
		probe->loops = true;
		probe->on_loop(probe->context, true);
	}
	return true;
}
