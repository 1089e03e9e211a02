#include "tests/sim/net_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/sim/process.h"

/* A backend's open() has no other way to know it. */
static struct net *in_use;

static struct end *end_of(const struct registry_backend *backend)
{
	return (struct end *)(uintptr_t)backend;
}

/* ---- the agent's end ---- */

static void tell_state(struct end *end, enum registry_state state, const char *why)
{
	end->state = state;
	end->net->disturbed_ms[end->client.agent] = sim_now_ms();
	sim_trace("agent %d: registry %s", end->client.agent, registry_state_name(state));
	end->base.core.state(end->base.core.core, state, why);
}

static struct request *next_of(struct list *requests, const struct end *end)
{
	for (struct list *at = requests->next; at != requests; at = at->next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		if (request->task && request->copy.owner == end) {
			return request;
		}
	}
	return NULL;
}

static void fail_all(struct end *end)
{
	struct request *request;
	while ((request = next_of(&end->waiting, end)) ||
		(request = next_of(&end->net->requests, end))) {
		wire_fail_unknown(end, request,
			wire_is_change(request->task) ? BERTH_TIMEOUT : BERTH_REGISTRY_UNAVAILABLE);
	}
	wire_free_forgotten(end);
}

static void notice(struct end *end)
{
	end->notice_ms = INT64_MAX;
	wire_clear_inbox(end);
	world_unwatch_all(end->net->world, &end->client);
	tell_state(end, REGISTRY_AWAY, "the connection is lost");
	fail_all(end);
	end->connect_ms = later_of(sim_now_ms(), end->cut_until_ms) + NET_HANDSHAKE_MS +
		wire_delay_ms(end->net);
}

static void lose(struct end *end, const char *why)
{
	end->lost_ms = INT64_MAX;
	end->client.session = 0;
	tell_state(end, REGISTRY_LOST, why);
}

static void connect(struct end *end)
{
	struct world *world = end->net->world;
	end->connect_ms = INT64_MAX;
	if (sim_now_ms() < end->cut_until_ms) {
		end->connect_ms = end->cut_until_ms + NET_HANDSHAKE_MS;
		return;
	}
	if (end->client.session && !world_session_lives(world, end->client.session)) {
		lose(end, "the session has expired");
	}
	if (end->client.session) {
		net_forget_expiry(end->net, end->client.session);
	} else {
		end->client.session = world_session_begin(world, end->client.agent);
	}
	end->lost_ms = INT64_MAX;
	end->heard_ms = sim_now_ms();
	end->last_delivery_ms = sim_now_ms();
	snprintf(end->session_name, sizeof(end->session_name), "session %llu",
		(unsigned long long)end->client.session);
	tell_state(end, REGISTRY_CONNECTED, "connected");
}

static struct request *overdue(struct list *requests, const struct end *end)
{
	for (struct list *at = requests->next; at != requests; at = at->next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		if (request->task && request->copy.owner == end &&
			request->task->deadline_ms <= sim_now_ms()) {
			return request;
		}
	}
	return NULL;
}

static void net_dispatch(struct registry_backend *backend, int64_t now_ms)
{
	struct end *end = end_of(backend);
	struct request *request;
	if (end->notice_ms <= now_ms) {
		notice(end);
	}
	if (end->lost_ms <= now_ms) {
		lose(end, "no contact within the session's timeout");
	}
	if (end->connect_ms <= now_ms) {
		connect(end);
	}
	while (!list_empty(&end->inbox)) {
		struct delivery *delivery = LIST_ITEM(end->inbox.next, struct delivery, link);
		if (delivery->due_ms > now_ms) {
			break;
		}
		wire_deliver(end, delivery);
	}
	while ((request = overdue(&end->waiting, end)) ||
		(request = overdue(&end->net->requests, end))) {
		wire_fail_unknown(end, request, BERTH_TIMEOUT);
	}
}

static int64_t first_deadline_ms(const struct list *requests, const struct end *end)
{
	int64_t due_ms = INT64_MAX;
	for (const struct list *at = requests->next; at != requests; at = at->next) {
		const struct request *request = LIST_ITEM(at, struct request, link);
		if (request->task && request->copy.owner == end) {
			due_ms = earlier_of(due_ms, request->task->deadline_ms);
		}
	}
	return due_ms;
}

static int64_t net_deadline_ms(const struct registry_backend *backend)
{
	const struct end *end = end_of(backend);
	int64_t due_ms = earlier_of(end->notice_ms, earlier_of(end->lost_ms, end->connect_ms));
	if (!list_empty(&end->inbox)) {
		due_ms = earlier_of(
			due_ms, LIST_ITEM(end->inbox.next, struct delivery, link)->due_ms);
	}
	return earlier_of(due_ms,
		earlier_of(first_deadline_ms(&end->waiting, end),
			first_deadline_ms(&end->net->requests, end)));
}

/* ---- opening and closing ---- */

static int net_backend_open(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core, struct err *err)
{
	(void)rest;
	(void)err;
	struct end *end = calloc(1, sizeof(*end));
	int agent = process_number(process_current());
	end->base.ops = &registry_zk_ops;
	end->base.core = *core;
	end->net = in_use;
	end->client =
		(struct world_client){ .agent = agent, .on_fired = wire_on_fired, .context = end };
	if (options->session) {
		end->client.session = (uint64_t)json_integer_value(
			json_object_get(options->session, "id"));
	}
	list_init(&end->waiting);
	list_init(&end->inbox);
	end->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	end->state = REGISTRY_CONNECTING;
	end->notice_ms = INT64_MAX;
	end->lost_ms = INT64_MAX;
	end->cut_until_ms = in_use->away_until_ms[agent];
	end->connect_ms = later_of(sim_now_ms(), end->cut_until_ms) + NET_HANDSHAKE_MS +
		wire_delay_ms(end->net);
	end->heard_ms = INT64_MIN;
	in_use->ends[agent] = end;
	*ret_backend = &end->base;
	return 0;
}

/* Nobody waits for them any more. */
static void forget_tasks(struct end *end)
{
	struct request *request;
	while ((request = next_of(&end->waiting, end)) ||
		(request = next_of(&end->net->requests, end))) {
		request->task = NULL;
	}
}

/* Bytes under way arrive without this end, or never. */
static void free_end(struct end *end, bool requests_arrive)
{
	struct net *net = end->net;
	net->ends[end->client.agent] = NULL;
	end->dead = true;
	for (struct list *at = net->requests.next, *next; at != &net->requests; at = next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		next = at->next;
		if (request->copy.owner == end) {
			list_remove(&request->link);
			if (requests_arrive) {
				wire_apply(end, request);
			} else {
				wire_free_request(request);
			}
		}
	}
	wire_free_forgotten(end);
	wire_clear_inbox(end);
	world_unwatch_all(net->world, &end->client);
	wire_clear_inbox(end);
	close(end->fd);
	free(end);
}

static void net_close(struct registry_backend *backend)
{
	struct end *end = end_of(backend);
	struct net *net = end->net;
	struct process *process = process_pause();
	uint64_t session = end->client.session;
	bool connected = end->state == REGISTRY_CONNECTED && !net_is_broken(end) && !end->dead;
	free_end(end, connected || sim_chance(&net->random, 50));
	if (connected) {
		world_session_end(net->world, session);
	} else {
		net_expire_later(net, session);
	}
	process_resume(process);
}

static json_t *net_detach(struct registry_backend *backend)
{
	struct end *end = end_of(backend);
	struct net *net = end->net;
	struct process *process = process_pause();
	uint64_t session = end->client.session;
	free_end(end, sim_chance(&net->random, 50));
	net_expire_later(net, session);
	process_resume(process);
	return session ? json_pack("{s:I}", "id", (json_int_t)session) : NULL;
}

static json_t *net_session_json(const struct registry_backend *backend)
{
	const struct end *end = end_of(backend);
	return end->client.session ? json_pack("{s:I}", "id", (json_int_t)end->client.session)
				   : NULL;
}

static int net_fd(const struct registry_backend *backend)
{
	return end_of(backend)->fd;
}

static void net_unwatch(
	struct registry_backend *backend, const char *path, enum registry_watch_kind kind)
{
	struct end *end = end_of(backend);
	world_unwatch(end->net->world, &end->client, path, kind);
}

static const char *net_session_name(const struct registry_backend *backend)
{
	return end_of(backend)->session_name;
}

static int net_session_timeout_ms(const struct registry_backend *backend)
{
	(void)backend;
	return NET_SESSION_TIMEOUT_MS;
}

static int64_t net_heard_ms(const struct registry_backend *backend)
{
	return end_of(backend)->heard_ms;
}

static int net_check(
	const struct registry_options *options, const char **ret_option, struct err *err)
{
	(void)options;
	(void)ret_option;
	(void)err;
	return 0;
}

const struct registry_backend_ops registry_zk_ops = {
	.scheme = "zookeeper",
	.check = net_check,
	.open = net_backend_open,
	.close = net_close,
	.detach = net_detach,
	.session = net_session_json,
	.fd = net_fd,
	.deadline_ms = net_deadline_ms,
	.dispatch = net_dispatch,
	.submit = wire_submit,
	.abandon = wire_abandon,
	.unwatch = net_unwatch,
	.session_name = net_session_name,
	.session_timeout_ms = net_session_timeout_ms,
	.heard_ms = net_heard_ms,
};

/* ---- for the simulation ---- */

int64_t net_agent_due_ms(const struct net *net, int agent)
{
	return net->ends[agent] ? net_deadline_ms(&net->ends[agent]->base) : INT64_MAX;
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
		hear(context, delivery->request ? delivery->request->copy.path : delivery->path);
	}
}

uint64_t net_session(const struct net *net, int agent)
{
	const struct end *end = net->ends[agent];
	return end && end->state == REGISTRY_CONNECTED ? end->client.session : 0;
}

int64_t net_disturbed_ms(const struct net *net, int agent)
{
	return net->disturbed_ms[agent];
}

/* Its process has closed the descriptor. */
void net_gone(struct net *net, int agent)
{
	struct end *end = net->ends[agent];
	if (end) {
		uint64_t session = end->client.session;
		end->dead = true;
		end->fd = -1;
		forget_tasks(end);
		free_end(end, sim_chance(&net->random, 50));
		net_expire_later(net, session);
	}
}

struct net *net_create(struct world *world, uint64_t seed)
{
	struct net *net = calloc(1, sizeof(*net));
	net->world = world;
	list_init(&net->requests);
	sim_random_init(&net->random, seed, 2);
	in_use = net;
	return net;
}

void net_destroy(struct net *net)
{
	free(net);
}
