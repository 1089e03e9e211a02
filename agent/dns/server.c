/* Listeners, replies, and exchanges: queries that wait. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/dns/internal.h"
#include "agent/dns/reply.h"
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
	if (origin->connection) {
		dns_tcp_send(origin->connection, data, len);
	} else {
		dns_udp_send(dns->batch, origin, data, len);
	}
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
		.why = view->stale ? why : NULL,
		.beyond = beyond,
		.beyond_len = beyond_len };
	dns->counts.stale += view->stale;
	size_t len = dns_reply_write(dns->buffer, dns_reply_limit(query, origin->connection), query,
		view->answer, &options);
	send_reply(dns, origin, query, dns->buffer, len);
}

/* ---- exchanges ---- */

void dns_exchange_drop(struct dns_exchange *exchange)
{
	names_cancel(&exchange->wait);
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
	if (data && names_ask(dns->lookups, exchange->query.name, &view, NULL) &&
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

static void answer(struct dns *dns, const struct dns_origin *origin, const struct dns_query *query,
	const uint8_t *packet, size_t len, struct list *exchanges)
{
	struct names_view view;
	if (!dns_reply_may_answer(query)) {
		send_code(dns, origin, query, ns_r_refused, DNS_EDE_NOT_AUTHORITATIVE);
		return;
	}
	bool known = names_ask(dns->lookups, query->name, &view, NULL);
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
	if (names_ask(dns->lookups, query->name, &view, &exchange->wait)) {
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

/* ---- listeners ---- */

static void on_readable(void *context)
{
	struct dns_listener *listener = context;
	if (listener->socket.tcp) {
		dns_tcp_accept(listener->dns, listener->socket.fd);
	} else {
		dns_udp_receive(listener->dns, listener->socket.fd);
	}
}

static int inherited_fd(const struct dns_options *options, const char *address, bool tcp)
{
	for (size_t i = 0; i < options->inherited_count; i++) {
		const struct dns_socket *socket = &options->inherited[i];
		if (socket->tcp == tcp && strcmp(socket->address, address) == 0) {
			return socket->fd;
		}
	}
	return -1;
}

static int add_listener(struct dns *dns, const struct dns_options *options, const char *address,
	bool tcp, struct err *err)
{
	int fd = inherited_fd(options, address, tcp);
	if (fd >= 0) {
		dns_socket_adopt(fd, address, tcp);
	} else {
		fd = dns_socket_open(address, tcp, err);
	}
	if (fd < 0) {
		return fd;
	}
	struct dns_listener *listener = &dns->listeners[dns->listener_count++];
	listener->dns = dns;
	listener->socket = (struct dns_socket){ .tcp = tcp, .fd = fd };
	text_printf(listener->socket.address, sizeof(listener->socket.address), "%s", address);
	lasting_io_start(&listener->io, dns->loop, fd, "a socket of DNS", on_readable, listener);
	return 0;
}

static int open_listeners(struct dns *dns, const struct dns_options *options, struct err *err)
{
	if (options->listen_count > DNS_MAX_LISTENERS) {
		return err_set(err, BERTH_FAILED, "at most %d addresses are allowed for DNS",
			DNS_MAX_LISTENERS);
	}
	for (size_t i = 0; i < options->listen_count; i++) {
		dns->listen[dns->listen_count++] = allocate_text(options->listen[i]);
		for (int tcp = 0; tcp < 2; tcp++) {
			int code = add_listener(dns, options, options->listen[i], tcp, err);
			if (code) {
				return code;
			}
		}
	}
	return 0;
}

int dns_create(struct dns **ret_dns, struct ev_loop *loop, struct names_lookups *lookups,
	const struct dns_options *options, struct err *err)
{
	struct dns *dns = allocate_zeroed(1, sizeof(*dns));
	dns->loop = loop;
	dns->lookups = lookups;
	dns->batch = dns_batch_create();
	dns->rate = dns_rate_create();
	dns->domain = allocate_text(options->domain);
	dns->listen = allocate_zeroed(options->listen_count, sizeof(*dns->listen));
	list_init(&dns->exchanges);
	list_init(&dns->connections);
	dns->forward = dns_forward_create(loop);
	int code = open_listeners(dns, options, err);
	if (code) {
		dns_destroy(dns);
		return code;
	}
	dns_set_options(dns, options);
	for (size_t i = 0; i < dns->listen_count; i++) {
		log_info("dns", "serving names below %s on %s", dns->domain, dns->listen[i]);
	}
	*ret_dns = dns;
	return 0;
}

void dns_destroy(struct dns *dns)
{
	if (!dns) {
		return;
	}
	dns_tcp_close_all(dns);
	while (!list_empty(&dns->exchanges)) {
		dns_exchange_drop(LIST_ITEM(dns->exchanges.next, struct dns_exchange, link));
	}
	for (size_t i = 0; i < dns->listener_count; i++) {
		lasting_io_stop(&dns->listeners[i].io);
		close(dns->listeners[i].socket.fd);
	}
	for (size_t i = 0; i < dns->listen_count; i++) {
		free(dns->listen[i]);
	}
	free(dns->listen);
	dns_forward_destroy(dns->forward);
	free(dns->batch);
	free(dns->rate);
	free(dns->domain);
	free(dns);
}

void dns_set_options(struct dns *dns, const struct dns_options *options)
{
	dns->ttl_s = options->ttl_s;
	dns->stale_ttl_s = options->stale_ttl_s;
	dns_forward_set(dns->forward, options->forward, options->forward_count, dns->listen,
		dns->listen_count);
}

size_t dns_sockets(const struct dns *dns, struct dns_socket *ret_sockets)
{
	for (size_t i = 0; i < dns->listener_count; i++) {
		ret_sockets[i] = dns->listeners[i].socket;
	}
	return dns->listener_count;
}

size_t dns_pass_sockets(struct dns *dns, struct dns_socket *ret_sockets)
{
	size_t count = dns_sockets(dns, ret_sockets);
	for (size_t i = 0; i < count; i++) {
		lasting_io_stop(&dns->listeners[i].io);
	}
	dns->listener_count = 0;
	return count;
}

const struct dns_counts *dns_counts(struct dns *dns)
{
	return &dns->counts;
}
