/*
 * Forwards questions for other zones: sends the client's packet unchanged, but for an id of our
 * own, from a port that the kernel chooses for each question, to one server after another. Keeps no
 * answers. Equal questions that are under way at the same time are one, so that servers that
 * forward to each other come to rest, whoever else is among them.
 *
 *   ask --> UDP or TCP to the server --(no answer in time, or refused)--> the next one --> give up
 *
 * A query that came over TCP is forwarded over TCP, so that a reply of any size reaches its client.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/resolv_conf.h"
#include "agent/base/own_addresses.h"
#include "agent/base/socket_address.h"
#include "agent/dns/internal.h"
#include "lib/base/text.h"

#define MAX_SERVERS RESOLV_CONF_SERVERS
#define MAX_IN_FLIGHT 256
#define TIMES_THE_FREE 3 /* a client may have so many times as many questions as are free */
#define V6_NETWORK_BYTES 8
#define ROUNDS 2
#define ADDRESS_BYTES RESOLV_CONF_SERVER_BYTES

const char *const dns_server_state_names[] = {
	[DNS_SERVER_ASKED] = "asked",
	[DNS_SERVER_OWN] = "own",
	[DNS_SERVER_LOOP] = "loop",
};

struct server {
	struct dns_forward *forward;
	char text[ADDRESS_BYTES];
	struct sockaddr_storage address;
	enum dns_server_state state;
	struct dns_probe probe;
};

struct dns_forward {
	struct ev_loop *loop;
	bool system;
	struct timespec read_at; /* when resolv.conf was last changed */
	struct server servers[MAX_SERVERS];
	size_t count;
	struct sockaddr_storage own[DNS_MAX_LISTENERS];
	size_t own_count;
	struct dns_server_events events;
	struct list questions;
	struct list in_flight; /* forwardings */
	size_t in_flight_count;
};

/* A question under way, and all who wait for its answer. */
struct dns_question {
	struct dns_forward *forward;
	struct list link;
	struct list waiting;
	unsigned attempt;
	bool ended; /* it tells them */
	struct dns_ask ask;
};

/* ---- servers ---- */

static const char *const reasons[] = {
	[DNS_SERVER_ASKED] = "",
	[DNS_SERVER_OWN] = "it is an address that this agent serves itself",
	[DNS_SERVER_LOOP] = "a question that was sent there came back: it forwards to this agent",
};

static void set_state(struct server *server, enum dns_server_state state)
{
	const struct dns_server_events *events = &server->forward->events;
	enum dns_server_state before = server->state;
	server->state = state;
	if (events->on_state && before != state) {
		events->on_state(events->context, server->text, before, state,
			state == DNS_SERVER_ASKED ? "what is sent there does not come back any more"
						  : reasons[state]);
	}
}

static void on_loop(void *context, bool loops)
{
	set_state(context, loops ? DNS_SERVER_LOOP : DNS_SERVER_ASKED);
}

static bool is_own(const struct dns_forward *forward, const struct sockaddr_storage *address)
{
	for (size_t i = 0; i < forward->own_count; i++) {
		if (own_addresses_hear(address, &forward->own[i])) {
			return true;
		}
	}
	return false;
}

/* A question to ourselves would come back for ever. */
static void place(struct server *server)
{
	struct dns_forward *forward = server->forward;
	if (is_own(forward, &server->address)) {
		dns_probe_stop(&server->probe);
		set_state(server, DNS_SERVER_OWN);
	} else {
		set_state(server, DNS_SERVER_ASKED);
		dns_probe_start(&server->probe, forward->loop, &server->address, on_loop, server);
	}
}

void dns_forward_look_for_own(struct dns_forward *forward)
{
	for (size_t i = 0; i < forward->count; i++) {
		struct server *server = &forward->servers[i];
		if (is_own(forward, &server->address) != (server->state == DNS_SERVER_OWN)) {
			place(server);
		}
	}
}

static void add_server(struct dns_forward *forward, const char *text)
{
	struct sockaddr_storage address;
	socklen_t len;
	if (forward->count == MAX_SERVERS || !socket_address_read(&address, &len, text)) {
		return;
	}
	struct server *server = &forward->servers[forward->count++];
	*server = (struct server){ .forward = forward, .address = address };
	text_printf(server->text, sizeof(server->text), "%s", text);
	place(server);
}

static void remove_servers(struct dns_forward *forward)
{
	for (size_t i = 0; i < forward->count; i++) {
		dns_probe_stop(&forward->servers[i].probe);
	}
	forward->count = 0;
}

/* The name servers of resolv.conf, read again when the file has changed. */
static void read_system(struct dns_forward *forward)
{
	struct stat status;
	if (stat(RESOLV_CONF, &status) < 0 ||
		memcmp(&status.st_mtim, &forward->read_at, sizeof(status.st_mtim)) == 0) {
		return;
	}
	forward->read_at = status.st_mtim;
	remove_servers(forward);
	char servers[RESOLV_CONF_SERVERS][RESOLV_CONF_SERVER_BYTES];
	size_t count = resolv_conf_read(servers);
	for (size_t i = 0; i < count; i++) {
		add_server(forward, servers[i]);
	}
	if (dns_forward_count(forward, DNS_SERVER_OWN) == forward->count) {
		log_warn("dns", RESOLV_CONF " names no server to forward to but ourselves");
	}
}

struct dns_forward *dns_forward_create(struct ev_loop *loop)
{
	struct dns_forward *forward = allocate_zeroed(1, sizeof(*forward));
	forward->loop = loop;
	list_init(&forward->questions);
	list_init(&forward->in_flight);
	return forward;
}

void dns_forward_destroy(struct dns_forward *forward)
{
	remove_servers(forward);
	free(forward);
}

void dns_forward_on_server(struct dns_forward *forward, const struct dns_server_events *events)
{
	forward->events = *events;
}

void dns_forward_set(struct dns_forward *forward, char *const *servers, size_t count,
	char *const *own, size_t own_count)
{
	remove_servers(forward);
	forward->own_count = 0;
	forward->read_at = (struct timespec){ 0 };
	forward->system = count == 1 && strcmp(servers[0], "system") == 0;
	for (size_t i = 0; i < own_count && i < DNS_MAX_LISTENERS; i++) {
		socklen_t len;
		forward->own_count += socket_address_read(
			&forward->own[forward->own_count], &len, own[i]);
	}
	for (size_t i = 0; i < count && !forward->system; i++) {
		add_server(forward, servers[i]);
	}
	if (forward->system) {
		read_system(forward);
	}
}

size_t dns_forward_count(const struct dns_forward *forward, enum dns_server_state state)
{
	size_t count = 0;
	for (size_t i = 0; i < forward->count; i++) {
		count += forward->servers[i].state == state;
	}
	return count;
}

bool dns_forward_enabled(const struct dns_forward *forward)
{
	return forward->system || dns_forward_count(forward, DNS_SERVER_OWN) < forward->count;
}

bool dns_forward_take_probe(struct dns_forward *forward, const struct dns_query *query)
{
	bool taken = false;
	for (size_t i = 0; i < forward->count && !taken; i++) {
		taken = dns_probe_take(&forward->servers[i].probe, query);
	}
	return taken;
}

json_t *dns_forward_json(const struct dns_forward *forward)
{
	json_t *servers = json_array();
	for (size_t i = 0; i < forward->count; i++) {
		const struct server *server = &forward->servers[i];
		json_array_append_new(servers,
			json_pack("{s:s, s:s, s:s}", "server", server->text, "state",
				dns_server_state_names[server->state], "why",
				reasons[server->state]));
	}
	return servers;
}

/* ---- clients ---- */

static struct dns_client client_of(const struct sockaddr_storage *address)
{
	struct dns_client client = { .family = address->ss_family };
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	if (address->ss_family == AF_INET) {
		memcpy(client.bytes, &v4->sin_addr, sizeof(v4->sin_addr));
	} else if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		client.family = AF_INET;
		memcpy(client.bytes, v6->sin6_addr.s6_addr + 12, sizeof(v4->sin_addr));
	} else if (address->ss_family == AF_INET6) {
		memcpy(client.bytes, v6->sin6_addr.s6_addr, V6_NETWORK_BYTES);
	}
	return client;
}

static bool is_same_client(const struct dns_client *a, const struct dns_client *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

/* ---- questions ---- */

/* The next server to ask; NULL behind the last round. */
static const struct server *next_server(const struct dns_forward *forward, unsigned *attempt)
{
	while (*attempt < ROUNDS * forward->count) {
		const struct server *server = &forward->servers[(*attempt)++ % forward->count];
		if (server->state == DNS_SERVER_ASKED) {
			return server;
		}
	}
	return NULL;
}

static void forget(struct dns_forwarding *forwarding)
{
	timer_stop(&forwarding->timer);
	list_remove(&forwarding->link);
	list_remove(&forwarding->of_question);
	forwarding->forward->in_flight_count -= forwarding->question != NULL;
	forwarding->question = NULL;
}

static void question_destroy(struct dns_question *question)
{
	list_remove(&question->link);
	dns_ask_finish(&question->ask);
	free(question);
}

/* The callback may free the forwarding. */
static void report(struct dns_forwarding *forwarding, const uint8_t *data, size_t len)
{
	forget(forwarding);
	forwarding->forward = NULL;
	forwarding->on_reply(forwarding->context, data, len);
}

static void on_given_up(void *context)
{
	report(context, NULL, 0);
}

/* Each gets its own id, and the name in the letters in which it asked. */
static void end(struct dns_question *question, uint8_t *reply, size_t len)
{
	question->ended = true;
	list_remove(&question->link); /* nobody joins it any more */
	while (!list_empty(&question->waiting)) {
		struct dns_forwarding *forwarding = LIST_ITEM(
			question->waiting.next, struct dns_forwarding, of_question);
		const struct dns_query *query = forwarding->query;
		if (reply) {
			ns_put16(query->id, reply);
			memcpy(reply + NS_HFIXEDSZ, query->question, query->question_len);
		}
		report(forwarding, reply, len);
	}
	question_destroy(question);
}

/* A reply is the end, unless another server may do better. */
static bool is_useful(const uint8_t *reply)
{
	unsigned rcode = reply[3] & 15;
	return rcode != ns_r_servfail && rcode != ns_r_refused && rcode != ns_r_notimpl;
}

static void on_answer(void *context, uint8_t *reply, size_t len)
{
	struct dns_question *question = context;
	unsigned attempt = question->attempt;
	const struct server *server = next_server(question->forward, &attempt);
	if (!server || (reply && is_useful(reply))) {
		end(question, reply, len);
	} else {
		question->attempt = attempt;
		dns_ask_send(&question->ask, &server->address);
	}
}

static struct dns_question *find_equal(const struct dns_forward *forward,
	const struct dns_query *query, const uint8_t *packet, size_t len, bool tcp)
{
	for (struct list *at = forward->questions.next; at != &forward->questions; at = at->next) {
		struct dns_question *question = LIST_ITEM(at, struct dns_question, link);
		const struct dns_ask *ask = &question->ask;
		if (ask->tcp == tcp && ask->len == len &&
			dns_packets_ask_the_same(
				ask->packet + 2, packet, len, query->question_len)) {
			return question;
		}
	}
	return NULL;
}

/* The question comes a second time, from a server that we ask: it may be the first one. */
static void doubt_server(struct dns_forward *forward, const struct dns_client *client)
{
	for (size_t i = 0; i < forward->count; i++) {
		const struct dns_client server = client_of(&forward->servers[i].address);
		if (forward->servers[i].state == DNS_SERVER_ASKED &&
			is_same_client(&server, client)) {
			dns_probe_doubt(&forward->servers[i].probe);
		}
	}
}

/* NULL when there is no server to ask. */
static struct dns_question *begin(struct dns_forward *forward, const struct dns_query *query,
	const uint8_t *packet, size_t len, bool tcp)
{
	unsigned attempt = 0;
	const struct server *server = next_server(forward, &attempt);
	if (!server) {
		return NULL;
	}
	struct dns_question *question = allocate_zeroed(1, sizeof(*question));
	question->forward = forward;
	question->attempt = attempt;
	question->ask.on_end = on_answer;
	question->ask.context = question;
	list_init(&question->waiting);
	list_append(&forward->questions, &question->link);
	dns_ask_init(&question->ask, forward->loop, query, packet, len, tcp);
	dns_ask_send(&question->ask, &server->address);
	return question;
}

/* ---- the share of a client ---- */

/* The last one that waits for a question takes the question along. */
static void leave(struct dns_forwarding *forwarding)
{
	struct dns_question *question = forwarding->question;
	forget(forwarding);
	if (question && !question->ended && list_empty(&question->waiting)) {
		question_destroy(question);
	}
}

/* Its end is reported in the next turn of the loop: the caller is in the middle of another one. */
static void give_up(struct dns_forwarding *forwarding)
{
	leave(forwarding);
	list_append(&forwarding->forward->in_flight, &forwarding->link);
	timer_start(&forwarding->timer, 0);
}

/*
 * Questions that no server answers stay for seconds. They must neither keep those of other clients
 * out, nor, among the processes behind one address, those that would be answered at once.
 */
static void make_room(struct dns_forward *forward, const struct dns_client *client)
{
	struct dns_forwarding *oldest = NULL;
	size_t used = 0;
	for (struct list *at = forward->in_flight.next; at != &forward->in_flight; at = at->next) {
		struct dns_forwarding *other = LIST_ITEM(at, struct dns_forwarding, link);
		if (other->question && is_same_client(&other->client, client)) {
			oldest = oldest ? oldest : other;
			used++;
		}
	}
	if (oldest && used >= TIMES_THE_FREE * (MAX_IN_FLIGHT - forward->in_flight_count)) {
		give_up(oldest);
	}
}

bool dns_forward_ask(struct dns_forward *forward, struct dns_forwarding *forwarding,
	const struct sockaddr_storage *client, const struct dns_query *query, const uint8_t *packet,
	size_t len, bool tcp)
{
	if (forward->system) {
		read_system(forward);
	}
	forwarding->client = client_of(client);
	make_room(forward, &forwarding->client);
	if (forward->in_flight_count >= MAX_IN_FLIGHT) {
		return false;
	}
	struct dns_question *question = find_equal(forward, query, packet, len, tcp);
	if (question) {
		doubt_server(forward, &forwarding->client);
	} else {
		question = begin(forward, query, packet, len, tcp);
	}
	if (!question) {
		return false;
	}
	forwarding->forward = forward;
	forwarding->question = question;
	forwarding->query = query;
	timer_init(&forwarding->timer, forward->loop, "forwarded question that was given up",
		on_given_up, forwarding);
	list_append(&question->waiting, &forwarding->of_question);
	list_append(&forward->in_flight, &forwarding->link);
	forward->in_flight_count++;
	return true;
}

void dns_forward_cancel(struct dns_forwarding *forwarding)
{
	if (forwarding->forward) {
		leave(forwarding);
		forwarding->forward = NULL;
	}
}
