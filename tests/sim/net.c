#include "tests/sim/net_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/sim/process.h"

/* Of a living agent: twice what it promises. */
enum { MOST_SILENCE_MS = NET_SESSION_TIMEOUT_MS / 2 };

struct net *net_in_use;

/* ---- a worker's life ---- */

struct end *net_begin_end(int agent, uint64_t session)
{
	struct net *net = net_in_use;
	struct end *end = calloc(1, sizeof(*end));
	end->net = net;
	end->client = (struct world_client){
		.session = session, .agent = agent, .on_fired = wire_on_fired, .context = end
	};
	list_init(&end->inbox);
	/* The kernel's, because it lies in the backend's own epoll. */
	end->fd = (int)syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
	end->notice_ms = INT64_MAX;
	end->connect_ms = later_of(sim_now_ms(), way_of(end)->cut_until_ms) + NET_HANDSHAKE_MS +
		wire_delay_ms(net);
	end->last_delivery_ms = sim_now_ms();
	end->said_ms = sim_now_ms();
	net->ends[agent] = end;
	return end;
}

void net_finish_end(struct end *end, bool requests_arrive)
{
	struct net *net = end->net;
	net->ends[end->client.agent] = NULL;
	way_of(end)->disturbed_ms = sim_now_ms();
	end->ended = true;
	for (struct list *at = net->requests.next, *next; at != &net->requests; at = next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		next = at->next;
		if (request->end != end) {
			continue;
		}
		list_remove(&request->link);
		if (requests_arrive) {
			wire_apply(request);
		} else {
			wire_free_request(request);
		}
	}
	world_unwatch_all(net->world, &end->client);
	wire_clear_inbox(end);
	if (end->connected && !end->broken) {
		net_expire_later(net, end->client.session);
	}
	if (end->fd >= 0) {
		close(end->fd);
	}
	free(end);
}

static void connect(struct end *end)
{
	struct net *net = end->net;
	int64_t cut_ms = way_of(end)->cut_until_ms;
	end->connect_ms = INT64_MAX;
	if (sim_now_ms() < cut_ms) {
		end->connect_ms = cut_ms + NET_HANDSHAKE_MS;
		return;
	}
	way_of(end)->disturbed_ms = sim_now_ms();
	if (end->client.session && !world_session_lives(net->world, end->client.session)) {
		sim_trace("agent %d: session %llu is over", end->client.agent,
			(unsigned long long)end->client.session);
		wire_report(end, ZK_SESSION_EXPIRED);
		return;
	}
	if (end->client.session) {
		net_forget_expiry(net, end->client.session);
	} else {
		end->client.session = world_session_begin(net->world, end->client.agent);
	}
	sim_trace("agent %d: session %llu is connected", end->client.agent,
		(unsigned long long)end->client.session);
	end->connected = true;
	wire_report(end, ZK_SESSION_CONNECTED);
}

/* The client library has missed the server's answers for too long, or its connection is closed. */
static void notice(struct end *end)
{
	end->notice_ms = INT64_MAX;
	way_of(end)->disturbed_ms = sim_now_ms();
	wire_clear_inbox(end);
	world_unwatch_all(end->net->world, &end->client);
	end->cut = NET_CUT_BOTH;
	wire_report(end, ZK_SESSION_CONNECTING);
}

static void step(struct end *end)
{
	if (end->needs_words && sim_now_ms() >= end->said_ms + MOST_SILENCE_MS) {
		sim_fail("agent %d says nothing to its worker for %lld ms", end->client.agent,
			(long long)(sim_now_ms() - end->said_ms));
	}
	if (end->notice_ms <= sim_now_ms()) {
		notice(end);
	}
	if (end->connect_ms <= sim_now_ms()) {
		connect(end);
	}
}

static struct request *first_due(const struct net *net)
{
	for (struct list *at = net->requests.next; at != &net->requests; at = at->next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		if (request->due_ms <= sim_now_ms()) {
			return request;
		}
	}
	return NULL;
}

void net_step(struct net *net)
{
	struct request *request;
	net_expire_sessions(net);
	for (int agent = 0; agent < SIM_MOST; agent++) {
		if (net->ends[agent]) {
			step(net->ends[agent]);
		}
	}
	while ((request = first_due(net))) {
		list_remove(&request->link);
		wire_apply(request);
	}
}

int64_t net_due_ms(const struct net *net)
{
	int64_t due_ms = INT64_MAX;
	for (size_t i = 0; i < net->expiry_count; i++) {
		due_ms = earlier_of(due_ms, net->expiries[i].at_ms);
	}
	for (int agent = 0; agent < SIM_MOST; agent++) {
		const struct end *end = net->ends[agent];
		if (end) {
			due_ms = earlier_of(due_ms, earlier_of(end->notice_ms, end->connect_ms));
		}
	}
	for (const struct list *at = net->requests.next; at != &net->requests; at = at->next) {
		due_ms = earlier_of(due_ms, LIST_ITEM(at, struct request, link)->due_ms);
	}
	return due_ms;
}

/* ---- for the simulation ---- */

int64_t net_agent_due_ms(const struct net *net, int agent)
{
	const struct end *end = net->ends[agent];
	if (!end || (list_empty(&end->inbox) && !end->ended)) {
		return INT64_MAX;
	}
	return list_empty(&end->inbox) ? sim_now_ms()
				       : LIST_ITEM(end->inbox.next, struct delivery, link)->due_ms;
}

void net_ring(struct net *net, int agent)
{
	struct end *end = net->ends[agent];
	uint64_t one = 1;
	if (!end->rings) {
		end->rings = true;
		(void)!syscall(SYS_write, end->fd, &one, sizeof(one));
	}
}

void net_each_due(const struct net *net, int agent, void (*hear)(void *context, const char *path),
	void *context)
{
	const struct end *end = net->ends[agent];
	for (const struct list *at = end ? end->inbox.next : NULL; end && at != &end->inbox;
		at = at->next) {
		const struct delivery *delivery = LIST_ITEM(at, struct delivery, link);
		if (delivery->due_ms > sim_now_ms()) {
			break;
		}
		if (delivery->path) {
			hear(context, delivery->path);
		}
	}
}

uint64_t net_session(const struct net *net, int agent)
{
	const struct end *end = net->ends[agent];
	return end && end->connected && !end->broken ? end->client.session : 0;
}

int64_t net_disturbed_ms(const struct net *net, int agent)
{
	return net->ways[agent].disturbed_ms;
}

/* Its process has closed the descriptor. */
void net_gone(struct net *net, int agent)
{
	struct end *end = net->ends[agent];
	if (end) {
		end->fd = -1;
		net_finish_end(end, sim_chance(&net->random, 50));
	}
}

struct net *net_create(struct world *world, uint64_t seed)
{
	struct net *net = calloc(1, sizeof(*net));
	net->world = world;
	list_init(&net->requests);
	sim_random_init(&net->random, seed, 2);
	net_in_use = net;
	return net;
}

void net_destroy(struct net *net)
{
	free(net);
}
