#include "tests/sim/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/list.h"
#include "lib/registry/internal.h"
#include "tests/sim/sim.h"

enum {
	NORMAL_DELAY_MS = 4,
	HANDSHAKE_MS = 20,
	MOST_TASKS = 300, /* of one agent under way: what it asks for is bounded */
	MOST_EXPIRIES = 256,
};

/* On its way to the registry. */
struct request {
	struct list link;
	struct registry_task *task; /* NULL: nobody waits for it any more */
	struct registry_task copy;  /* with inputs of its own */
	int64_t made_ms;
	int64_t due_ms;
};

/* On its way back. */
struct delivery {
	struct list link;
	int64_t due_ms;
	struct request *request; /* NULL: a notification */
	char *path;
	enum registry_watch_kind kind;
	bool gone;
};

/* An agent's end of a connection. */
struct end {
	struct registry_backend base;
	struct net *net;
	struct world_client client;
	struct list waiting; /* requests that have not been answered, each with its task */
	struct list inbox;
	int fd;
	enum registry_state state;
	bool dead;          /* killed */
	bool requests_pass; /* while it is broken */
	bool breaks;        /* after the next change */
	int64_t refuse_until_ms;
	int64_t cut_until_ms; /* no connection is made before */
	int64_t notice_ms;    /* INT64_MAX: nothing to notice */
	int64_t lost_ms;
	int64_t connect_ms;
	int64_t last_request_ms; /* no later one arrives earlier */
	int64_t last_delivery_ms;
	int64_t heard_ms;
	size_t tasks;
	char session_name[32];
};

struct expiry {
	uint64_t session;
	int64_t at_ms;
};

struct net {
	struct world *world;
	struct end *ends[SIM_AGENTS];
	struct list requests; /* of all connections, not yet at the registry */
	struct expiry expiries[MOST_EXPIRIES];
	size_t expiry_count;
	struct sim_random random;
	int64_t slow_until_ms;
	int64_t slow_most_ms;
};

static struct net *opening; /* a backend's open() has no other way to know it */
static int opening_agent;

static const struct registry_backend_ops net_ops;

static struct end *end_of(const struct registry_backend *backend)
{
	return (struct end *)(uintptr_t)backend;
}

static int64_t delay_ms(struct net *net)
{
	bool is_slow = sim_now_ms() < net->slow_until_ms;
	return (int64_t)sim_below(
		&net->random, (uint64_t)(is_slow ? net->slow_most_ms : NORMAL_DELAY_MS) + 1);
}

static int64_t later_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t earlier_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* From the cut until the agent has connected anew: no reply and no notification comes through. */
static bool is_broken(const struct end *end)
{
	return end->notice_ms != INT64_MAX || end->state == REGISTRY_AWAY ||
		end->state == REGISTRY_LOST;
}

static bool is_change(const struct registry_task *task)
{
	return task->operation != REGISTRY_OP_GET && task->operation != REGISTRY_OP_CHILDREN &&
		task->operation != REGISTRY_OP_STAT;
}

/* ---- requests ---- */

static void free_request(struct request *request)
{
	struct registry_task *copy = &request->copy;
	list_remove(&request->link);
	free((void *)(uintptr_t)copy->path);
	free((void *)(uintptr_t)copy->data);
	free(copy->ret_data);
	for (size_t i = 0; i < copy->ret_children_count; i++) {
		free(copy->ret_children[i]);
	}
	free(copy->ret_children);
	free(request);
}

static void net_submit(struct registry_backend *backend, struct registry_task *task)
{
	struct end *end = end_of(backend);
	struct net *net = end->net;
	struct request *request = calloc(1, sizeof(*request));
	int64_t due_ms = later_of(sim_now_ms() + delay_ms(net), end->last_request_ms);
	request->task = task;
	request->copy = *task;
	request->copy.path = strdup(task->path);
	request->copy.data = task->data ? strndup(task->data, task->len) : NULL;
	request->copy.owner = end;
	request->made_ms = sim_now_ms();
	request->due_ms = due_ms;
	end->last_request_ms = due_ms;
	list_append(is_broken(end) && !end->requests_pass ? &end->waiting : &net->requests,
		&request->link);
	task->tag = (uint64_t)(uintptr_t)request;
	if (++end->tasks > MOST_TASKS) {
		sim_fail("agent %d has %zu requests under way", end->client.agent, end->tasks);
	}
}

static void net_abandon(struct registry_backend *backend, struct registry_task *task)
{
	struct request *request = (struct request *)(uintptr_t)task->tag;
	request->task = NULL;
	end_of(backend)->tasks--;
}

static void complete(struct end *end, struct request *request)
{
	struct registry_task *task = request->task;
	if (task) {
		struct registry_task *copy = &request->copy;
		task->ret_err = copy->ret_err;
		task->ret_stat = copy->ret_stat;
		task->ret_data = copy->ret_data;
		task->ret_len = copy->ret_len;
		task->ret_children = copy->ret_children;
		task->ret_children_count = copy->ret_children_count;
		copy->ret_data = NULL;
		copy->ret_children = NULL;
		copy->ret_children_count = 0;
		end->tasks--;
		request->task = NULL;
	}
	free_request(request);
	if (task) {
		end->base.core.completed(end->base.core.core, task);
	}
}

/* Fails a request whose fate the agent does not know; the registry may still get it. */
static void fail_unknown(struct end *end, struct request *request, int code)
{
	struct registry_task *task = request->task;
	request->task = NULL;
	end->tasks--;
	err_set(&task->ret_err, code, "%s: %s", task->path,
		code == BERTH_TIMEOUT ? "no answer" : "the connection is lost");
	end->base.core.completed(end->base.core.core, task);
}

/* ---- at the registry ---- */

static void deliver_later(struct end *end, struct delivery *delivery)
{
	delivery->due_ms = later_of(sim_now_ms() + delay_ms(end->net), end->last_delivery_ms);
	end->last_delivery_ms = delivery->due_ms;
	list_append(&end->inbox, &delivery->link);
}

static void on_fired(void *context, const char *path, enum registry_watch_kind kind, bool gone)
{
	struct end *end = context;
	if (is_broken(end)) {
		return;
	}
	struct delivery *delivery = calloc(1, sizeof(*delivery));
	delivery->path = strdup(path);
	delivery->kind = kind;
	delivery->gone = gone;
	deliver_later(end, delivery);
}

static const char *operation_name(enum registry_operation operation)
{
	static const char *const names[] = { "get", "children", "stat", "create", "set", "delete",
		"replace" };
	return names[operation];
}

/* Nobody but its maker may change a node. */
static void check_owner(
	const struct end *end, const struct registry_task *task, const struct world_node *before)
{
	bool touches = task->operation == REGISTRY_OP_SET ||
		task->operation == REGISTRY_OP_DELETE || task->operation == REGISTRY_OP_REPLACE;
	if (touches && before && before->owner != end->client.agent) {
		const struct registry_task try = *task;
		bool expected = !try.has_expected ||
			(try.expected.node_id == before->stat.node_id &&
				try.expected.version == before->stat.version);
		if (expected) {
			sim_fail("agent %d: %s of %s, which belongs to %d", end->client.agent,
				operation_name(task->operation), task->path, before->owner);
		}
	}
}

static void apply(struct end *end, struct request *request)
{
	struct net *net = end->net;
	struct registry_task *task = &request->copy;
	bool change = is_change(task);
	bool is_heard = !is_broken(end) && !end->dead && request->task;
	task->watch = task->watch && is_heard;
	if (change && sim_now_ms() < end->refuse_until_ms) {
		err_set(&task->ret_err,
			sim_chance(&net->random, 50) ? BERTH_NO_PATH_PERMISSIONS
						     : BERTH_LIMIT_EXCEEDED,
			"%s: refused", task->path);
	} else {
		check_owner(end, task, world_node(net->world, task->path));
		world_apply(net->world, &end->client, task);
	}
	if (change) {
		sim_trace("agent %d: %s %s: %s", end->client.agent, operation_name(task->operation),
			task->path, task->ret_err.code ? task->ret_err.msg : "done");
	}
	if (!is_heard) {
		list_append(&end->waiting, &request->link); /* no reply ever comes */
	} else {
		struct delivery *delivery = calloc(1, sizeof(*delivery));
		delivery->request = request;
		list_append(&end->waiting, &request->link);
		deliver_later(end, delivery);
	}
	if (change && end->breaks && task->ret_err.code == 0) {
		end->breaks = false;
		net_cut(net, end->client.agent, (int64_t)sim_below(&net->random, 8000), false);
	}
}

static void expire_sessions(struct net *net)
{
	for (size_t i = 0; i < net->expiry_count; i++) {
		struct expiry *expiry = &net->expiries[i];
		if (expiry->at_ms <= sim_now_ms()) {
			uint64_t session = expiry->session;
			*expiry = net->expiries[--net->expiry_count];
			i--;
			sim_trace("session %llu expires", (unsigned long long)session);
			world_session_end(net->world, session);
		}
	}
}

static void forget_expiry(struct net *net, uint64_t session)
{
	for (size_t i = 0; i < net->expiry_count; i++) {
		if (net->expiries[i].session == session) {
			net->expiries[i] = net->expiries[--net->expiry_count];
			return;
		}
	}
}

/* The registry has heard of the session for the last time. */
static void expire_later(struct net *net, uint64_t session)
{
	if (session && world_session_lives(net->world, session) &&
		net->expiry_count < MOST_EXPIRIES) {
		forget_expiry(net, session);
		net->expiries[net->expiry_count++] = (struct expiry){ session,
			sim_now_ms() + NET_SESSION_TIMEOUT_MS +
				(int64_t)sim_below(&net->random, NET_SESSION_TIMEOUT_MS / 10) };
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
	expire_sessions(net);
	while ((request = first_due(net))) {
		list_remove(&request->link);
		apply(request->copy.owner, request);
	}
}

int64_t net_due_ms(const struct net *net)
{
	int64_t due_ms = INT64_MAX;
	for (size_t i = 0; i < net->expiry_count; i++) {
		due_ms = earlier_of(due_ms, net->expiries[i].at_ms);
	}
	for (const struct list *at = net->requests.next; at != &net->requests; at = at->next) {
		due_ms = earlier_of(due_ms, LIST_ITEM(at, struct request, link)->due_ms);
	}
	return due_ms;
}

/* ---- the agent's end ---- */

static void tell_state(struct end *end, enum registry_state state, const char *why)
{
	end->state = state;
	sim_trace("agent %d: registry %s", end->client.agent, registry_state_name(state));
	end->base.core.state(end->base.core.core, state, why);
}

static void clear_inbox(struct end *end)
{
	while (!list_empty(&end->inbox)) {
		struct delivery *delivery = LIST_ITEM(end->inbox.next, struct delivery, link);
		list_remove(&delivery->link);
		free(delivery->path);
		free(delivery);
	}
}

/* Requests that nobody waits for and that the registry has seen, or never will. */
static void free_forgotten(struct end *end)
{
	for (struct list *at = end->waiting.next, *next; at != &end->waiting; at = next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		next = at->next;
		if (!request->task) {
			free_request(request);
		}
	}
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
		fail_unknown(end, request,
			is_change(request->task) ? BERTH_TIMEOUT : BERTH_REGISTRY_UNAVAILABLE);
	}
	free_forgotten(end);
}

static void notice(struct end *end)
{
	end->notice_ms = INT64_MAX;
	tell_state(end, REGISTRY_AWAY, "the connection is lost");
	fail_all(end);
	end->connect_ms = later_of(sim_now_ms(), end->cut_until_ms) + HANDSHAKE_MS +
		delay_ms(end->net);
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
		end->connect_ms = end->cut_until_ms + HANDSHAKE_MS;
		return;
	}
	if (end->client.session && !world_session_lives(world, end->client.session)) {
		lose(end, "the session has expired");
	}
	if (end->client.session) {
		forget_expiry(end->net, end->client.session);
	} else {
		end->client.session = world_session_begin(world, end->client.agent);
	}
	end->lost_ms = INT64_MAX;
	end->heard_ms = sim_now_ms();
	snprintf(end->session_name, sizeof(end->session_name), "session %llu",
		(unsigned long long)end->client.session);
	tell_state(end, REGISTRY_CONNECTED, "connected");
}

static void take(struct end *end, struct delivery *delivery)
{
	struct request *request = delivery->request;
	list_remove(&delivery->link);
	if (request) {
		end->heard_ms = later_of(end->heard_ms, request->made_ms);
		complete(end, request);
	} else {
		end->base.core.notified(
			end->base.core.core, delivery->path, delivery->kind, delivery->gone);
	}
	free(delivery->path);
	free(delivery);
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
		take(end, delivery);
	}
	while ((request = overdue(&end->waiting, end)) ||
		(request = overdue(&end->net->requests, end))) {
		fail_unknown(end, request, BERTH_TIMEOUT);
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
	end->base.ops = &net_ops;
	end->base.core = *core;
	end->net = opening;
	end->client = (struct world_client){
		.agent = opening_agent, .on_fired = on_fired, .context = end
	};
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
	end->connect_ms = sim_now_ms() + HANDSHAKE_MS + delay_ms(end->net);
	end->heard_ms = INT64_MIN;
	opening->ends[opening_agent] = end;
	*ret_backend = &end->base;
	return 0;
}

int net_open(struct net *net, int agent, const struct registry_options *options,
	struct registry **ret_registry, struct err *err)
{
	struct registry_options all = *options;
	opening = net;
	opening_agent = agent;
	all.url = "dir:/simulated";
	all.session_timeout_ms = NET_SESSION_TIMEOUT_MS;
	return registry_open_backend(ret_registry, &net_ops, "", &all, err);
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
				apply(end, request);
			} else {
				free_request(request);
			}
		}
	}
	free_forgotten(end);
	clear_inbox(end);
	world_unwatch_all(net->world, &end->client);
	clear_inbox(end);
	close(end->fd);
	free(end);
}

static void net_close(struct registry_backend *backend)
{
	struct end *end = end_of(backend);
	struct net *net = end->net;
	uint64_t session = end->client.session;
	bool connected = end->state == REGISTRY_CONNECTED && !is_broken(end) && !end->dead;
	free_end(end, connected || sim_chance(&net->random, 50));
	if (connected) {
		world_session_end(net->world, session);
	} else {
		expire_later(net, session);
	}
}

static json_t *net_detach(struct registry_backend *backend)
{
	struct end *end = end_of(backend);
	struct net *net = end->net;
	uint64_t session = end->client.session;
	free_end(end, sim_chance(&net->random, 50));
	expire_later(net, session);
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

static const struct registry_backend_ops net_ops = {
	.scheme = "simulated",
	.check = net_check,
	.open = net_backend_open,
	.close = net_close,
	.detach = net_detach,
	.session = net_session_json,
	.fd = net_fd,
	.deadline_ms = net_deadline_ms,
	.dispatch = net_dispatch,
	.submit = net_submit,
	.abandon = net_abandon,
	.unwatch = net_unwatch,
	.session_name = net_session_name,
	.session_timeout_ms = net_session_timeout_ms,
	.heard_ms = net_heard_ms,
};

/* ---- faults ---- */

void net_cut(struct net *net, int agent, int64_t for_ms, bool requests_pass)
{
	struct end *end = net->ends[agent];
	if (!end || end->state != REGISTRY_CONNECTED || is_broken(end)) {
		return;
	}
	sim_trace("agent %d is cut off for %lld ms", agent, (long long)for_ms);
	end->cut_until_ms = sim_now_ms() + for_ms;
	end->requests_pass = requests_pass;
	end->notice_ms = sim_now_ms() +
		(int64_t)sim_below(&net->random, NET_SESSION_TIMEOUT_MS * 2 / 3);
	end->notice_ms = earlier_of(end->notice_ms, end->cut_until_ms);
	end->lost_ms = sim_now_ms() + NET_SESSION_TIMEOUT_MS;
	clear_inbox(end);
	world_unwatch_all(net->world, &end->client);
	if (!requests_pass) {
		for (struct list *at = net->requests.next, *next; at != &net->requests; at = next) {
			struct request *request = LIST_ITEM(at, struct request, link);
			next = at->next;
			if (request->copy.owner == end) {
				list_remove(&request->link);
				list_append(&end->waiting, &request->link);
			}
		}
	}
	expire_later(net, end->client.session);
}

void net_break_after_change(struct net *net, int agent)
{
	if (net->ends[agent]) {
		net->ends[agent]->breaks = true;
	}
}

void net_expire(struct net *net, int agent)
{
	struct end *end = net->ends[agent];
	if (end && end->client.session) {
		uint64_t session = end->client.session;
		net_cut(net, agent, 1, false);
		forget_expiry(net, session);
		sim_trace("session %llu is ended by the registry", (unsigned long long)session);
		world_session_end(net->world, session);
	}
}

void net_slow(struct net *net, int64_t for_ms, int64_t most_ms)
{
	net->slow_until_ms = sim_now_ms() + for_ms;
	net->slow_most_ms = most_ms;
}

void net_refuse(struct net *net, int agent, int64_t for_ms)
{
	if (net->ends[agent]) {
		net->ends[agent]->refuse_until_ms = sim_now_ms() + for_ms;
	}
}

void net_kill(struct net *net, int agent)
{
	if (net->ends[agent]) {
		net->ends[agent]->dead = true;
	}
}

uint64_t net_session(const struct net *net, int agent)
{
	const struct end *end = net->ends[agent];
	return end && end->state == REGISTRY_CONNECTED ? end->client.session : 0;
}

struct net *net_create(struct world *world, uint64_t seed)
{
	struct net *net = calloc(1, sizeof(*net));
	net->world = world;
	list_init(&net->requests);
	sim_random_init(&net->random, seed, 2);
	return net;
}

void net_destroy(struct net *net)
{
	free(net);
}
