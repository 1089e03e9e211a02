/* From a query to its reply: at once, or by an exchange, a query that waits. */
#include <stdlib.h>
#include <strings.h>

#include "agent/base/allocate.h"
#include "agent/dns/internal.h"
#include "agent/dns/reply.h"
#include "agent/dns/reply_zone.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

#define MAX_EXCHANGES 1024

/* ---- replies ---- */

/* True when the reply would make more of the question than its address may get over UDP. */
static bool is_too_much(
	struct dns *dns, const struct dns_origin *origin, const struct dns_query *query, size_t len)
{
	size_t asked = dns_reply_bare_len(query);
	return !origin->connection &&
		!dns_rate_take(dns->rate, &origin->address, len > asked ? len - asked : 0,
			clock_monotonic_ms());
}

static void send_reply(struct dns *dns, const struct dns_origin *origin,
	const struct dns_query *query, const uint8_t *data, size_t len)
{
	uint8_t cut[DNS_UDP_BYTES];
	if (is_too_much(dns, origin, query, len)) {
		len = dns_reply_write_cut(cut, query, dns_forward_enabled(dns->forward));
		data = cut;
		dns->counts.limited++;
	}
	dns->counts.replies[data[3] & 15]++;
	dns->counts.truncated += (data[2] & 2) != 0;
	origin->send(origin, data, len);
}

static void send_code(struct dns *dns, const struct dns_origin *origin,
	const struct dns_query *query, int rcode, enum dns_extended_error error)
{
	uint8_t reply[DNS_UDP_BYTES];
	size_t len = dns_reply_write_code(
		reply, sizeof(reply), query, rcode, error, dns_forward_enabled(dns->forward));
	send_reply(dns, origin, query, reply, len);
}

/* `beyond` is another server's reply about the alias that the answer holds, or NULL. */
static void send_view(struct dns *dns, const struct dns_origin *origin,
	const struct dns_query *query, const struct names_view *view, const uint8_t *beyond,
	size_t beyond_len)
{
	char why[64];
	if (view->stale) {
		text_printf(
			why, sizeof(why), "last confirmed %.1f s ago", (double)view->age_ms / 1000);
	}
	struct dns_reply_options options = { .domain = dns->domain,
		.ttl_s = view->stale ? dns->stale_ttl_s : dns->ttl_s,
		.serial = (uint32_t)clock_wall_s(),
		.stale = view->stale,
		.recursion_available = dns_forward_enabled(dns->forward),
		.rotation = dns->rotation++,
		.near = dns->near,
		.why = view->stale ? why : NULL,
		.beyond = beyond,
		.beyond_len = beyond_len };
	dns->counts.stale += view->stale;
	size_t len = dns_reply_write(dns->buffer, dns_reply_limit(query, origin->connection), query,
		view->answer, &options);
	send_reply(dns, origin, query, dns->buffer, len);
}

/* Finishes the view's answer. */
static void send_zone_view(struct dns *dns, const struct dns_origin *origin,
	const struct dns_query *query, struct zone_view *view)
{
	const struct dns_reply_zone_options options = { .stale_ttl_s = dns->stale_ttl_s,
		.recursion_available = dns_forward_enabled(dns->forward) };
	dns->counts.stale += view->stale;
	dns->rotation++;
	size_t len = dns_reply_write_zone(
		dns->buffer, dns_reply_limit(query, origin->connection), query, view, &options);
	zone_answer_finish(&view->answer);
	send_reply(dns, origin, query, dns->buffer, len);
}

/* ---- exchanges ---- */

void dns_exchange_drop(struct dns_exchange *exchange)
{
	names_cancel(&exchange->wait);
	zones_cancel(&exchange->zone_wait);
	dns_forward_cancel(&exchange->forwarding);
	list_remove(&exchange->link);
	list_remove(&exchange->of_connection);
	exchange->dns->counts.exchanges--;
	free(exchange);
}

static bool follow_alias(struct dns_exchange *exchange, const struct names_view *view);

static void on_names_answer(void *context, const struct names_view *view)
{
	struct dns_exchange *exchange = context;
	if (!follow_alias(exchange, view)) {
		send_view(exchange->dns, &exchange->origin, &exchange->query, view, NULL, 0);
		dns_exchange_drop(exchange);
	}
}

static void on_zone_ready(void *context);

static void on_forwarded(void *context, const uint8_t *data, size_t len)
{
	struct dns_exchange *exchange = context;
	struct dns *dns = exchange->dns;
	if (data) {
		send_reply(dns, &exchange->origin, &exchange->query, data, len);
	} else {
		send_code(dns, &exchange->origin, &exchange->query, ns_r_servfail,
			DNS_EDE_NETWORK_ERROR);
	}
	dns_exchange_drop(exchange);
}

/* ---- aliases ---- */

/* The answer of another server for the alias counts while the name still has that alias. */
static void on_beyond(void *context, const uint8_t *data, size_t len)
{
	struct dns_exchange *exchange = context;
	struct dns *dns = exchange->dns;
	struct names_view view;
	if (data &&
		names_ask(dns->lookups, &(struct names_question){ exchange->query.name, NULL },
			&view, NULL) &&
		view.answer->alias && strcasecmp(view.answer->alias, exchange->beyond.name) == 0) {
		send_view(dns, &exchange->origin, &exchange->query, &view, data, len);
	} else {
		send_code(dns, &exchange->origin, &exchange->query, ns_r_servfail,
			DNS_EDE_NETWORK_ERROR);
	}
	dns_exchange_drop(exchange);
}

/*
 * A resolver that wants recursion does not ask for the name that an alias leads to: the agent asks
 * another server for it, when there is one and the name is not the agent's own.
 */
static bool leads_beyond(
	const struct dns *dns, const struct dns_query *query, const struct names_view *view)
{
	bool wants_address = query->type == ns_t_a || query->type == ns_t_aaaa;
	return view->answer->alias && wants_address && query->recursion_desired &&
		dns_forward_enabled(dns->forward) &&
		!names_lookups_own(dns->lookups, view->answer->alias);
}

/* True when another server is asked about the answer's alias. */
static bool follow_alias(struct dns_exchange *exchange, const struct names_view *view)
{
	struct dns *dns = exchange->dns;
	uint8_t packet[NS_PACKETSZ];
	if (!leads_beyond(dns, &exchange->query, view)) {
		return false;
	}
	size_t len = dns_query_write(
		&exchange->beyond, packet, view->answer->alias, exchange->query.type);
	exchange->forwarding.on_reply = on_beyond;
	return len > 0 &&
		dns_forward_ask(dns->forward, &exchange->forwarding, &exchange->origin.address,
			&exchange->beyond, packet, len, exchange->origin.connection);
}

static struct dns_exchange *add_exchange(struct dns *dns, const struct dns_origin *origin,
	const struct dns_query *query, struct list *exchanges)
{
	struct dns_exchange *exchange = allocate_zeroed(1, sizeof(*exchange));
	exchange->dns = dns;
	exchange->origin = *origin;
	exchange->query = *query;
	exchange->wait.on_answer = on_names_answer;
	exchange->wait.context = exchange;
	exchange->zone_wait.on_ready = on_zone_ready;
	exchange->zone_wait.context = exchange;
	exchange->forwarding.on_reply = on_forwarded;
	exchange->forwarding.context = exchange;
	list_init(&exchange->of_connection);
	list_append(&dns->exchanges, &exchange->link);
	if (exchanges) {
		list_append(exchanges, &exchange->of_connection);
	}
	dns->counts.exchanges++;
	return exchange;
}

/* ---- queries ---- */

/* For a name outside the domain; true when another server is asked. */
static bool forward(struct dns *dns, const struct dns_origin *origin, const struct dns_query *query,
	const uint8_t *packet, size_t len, struct list *exchanges)
{
	if (!dns_forward_enabled(dns->forward) || dns->counts.exchanges >= MAX_EXCHANGES) {
		return false;
	}
	struct dns_exchange *exchange = add_exchange(dns, origin, query, exchanges);
	if (!dns_forward_ask(dns->forward, &exchange->forwarding, &exchange->origin.address,
		    &exchange->query, packet, len, origin->connection)) {
		dns_exchange_drop(exchange);
		return false;
	}
	dns->counts.forwarded++;
	return true;
}

static struct zone_question zone_question(const struct dns *dns, const struct dns_query *query)
{
	return (struct zone_question){ query->name, query->type, dns->rotation };
}

/*
 * The domain may have gone from the configuration meanwhile, and an address that none of the
 * domains has may be that of a record.
 */
static void on_zone_ready(void *context)
{
	struct dns_exchange *exchange = context;
	struct dns *dns = exchange->dns;
	const struct zone_question question = zone_question(dns, &exchange->query);
	struct zone_view view;
	struct names_view names;
	if (zones_ask_now(dns->zones, &question, &view) == ZONE_ANSWERED) {
		send_zone_view(dns, &exchange->origin, &exchange->query, &view);
		dns_exchange_drop(exchange);
	} else if (names_ask(dns->lookups, &(struct names_question){ exchange->query.name, NULL },
			   &names, &exchange->wait)) {
		on_names_answer(exchange, &names);
	}
}

/* True when one of the zones answers, now or later. */
static bool answer_zone(struct dns *dns, const struct dns_origin *origin,
	const struct dns_query *query, struct list *exchanges)
{
	const struct zone_question question = zone_question(dns, query);
	struct zone_view view;
	enum zone_verdict verdict = zones_ask(dns->zones, &question, &view, NULL);
	if (verdict == ZONE_WAITING && dns->counts.exchanges >= MAX_EXCHANGES) {
		send_code(dns, origin, query, ns_r_servfail, DNS_EDE_NO_REACHABLE_AUTHORITY);
		return true;
	}
	struct dns_exchange *exchange = NULL;
	if (verdict == ZONE_WAITING) {
		exchange = add_exchange(dns, origin, query, exchanges);
		verdict = zones_ask(dns->zones, &question, &view, &exchange->zone_wait);
	}
	if (verdict == ZONE_ANSWERED) {
		send_zone_view(dns, origin, query, &view);
	}
	if (exchange && verdict != ZONE_WAITING) {
		dns_exchange_drop(exchange);
	}
	return verdict != ZONE_OUTSIDE;
}

static void answer(struct dns *dns, const struct dns_origin *origin, const struct dns_query *query,
	const uint8_t *packet, size_t len, struct list *exchanges)
{
	struct names_view view;
	if (!dns_reply_may_answer(query) || dns_forward_take_probe(dns->forward, query)) {
		send_code(dns, origin, query, ns_r_refused, DNS_EDE_NOT_AUTHORITATIVE);
		return;
	}
	if (dns->zones && answer_zone(dns, origin, query, exchanges)) {
		return;
	}
	bool known = names_ask(
		dns->lookups, &(struct names_question){ query->name, NULL }, &view, NULL);
	if (known && view.answer->status == NAMES_OUTSIDE &&
		forward(dns, origin, query, packet, len, exchanges)) {
		return;
	}
	if (known && !leads_beyond(dns, query, &view)) {
		send_view(dns, origin, query, &view, NULL, 0);
		return;
	}
	if (dns->counts.exchanges >= MAX_EXCHANGES) {
		send_code(dns, origin, query, ns_r_servfail, DNS_EDE_NO_REACHABLE_AUTHORITY);
		return;
	}
	struct dns_exchange *exchange = add_exchange(dns, origin, query, exchanges);
	if (names_ask(dns->lookups, &(struct names_question){ query->name, NULL }, &view,
		    &exchange->wait)) {
		on_names_answer(exchange, &view);
	}
}

void dns_handle(struct dns *dns, const struct dns_origin *origin, const uint8_t *packet, size_t len,
	struct list *exchanges)
{
	struct dns_query query;
	int rcode = 0;
	switch (dns_query_read(&query, packet, len, &rcode)) {
	case DNS_DROP:
		dns->counts.dropped++;
		return;
	case DNS_REJECT:
		dns->counts.queries[origin->connection != NULL]++;
		send_code(dns, origin, &query, rcode, DNS_EDE_NONE);
		return;
	case DNS_ANSWER:
		dns->counts.queries[origin->connection != NULL]++;
		answer(dns, origin, &query, packet, len, exchanges);
		return;
	}
}
