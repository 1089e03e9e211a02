#include "tests/sim/net_internal.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/process.h"

enum {
	NORMAL_DELAY_MS = 4,
	MOST_TASKS = 300,   /* of one agent under way: what it asks for is bounded */
	MOST_CHANGES = 100, /* of one agent in PERIOD_MS */
	PERIOD_MS = 10 * SIM_SECOND
};

int64_t wire_delay_ms(struct net *net)
{
	bool is_slow = sim_now_ms() < net->slow_until_ms;
	return (int64_t)sim_below(
		&net->random, (uint64_t)(is_slow ? net->slow_most_ms : NORMAL_DELAY_MS) + 1);
}

bool wire_is_change(const struct registry_task *task)
{
	return task->operation != REGISTRY_OP_GET && task->operation != REGISTRY_OP_CHILDREN &&
		task->operation != REGISTRY_OP_STAT;
}

/* Not strdup(): its memory would be the agent's, which calls us. */
static char *copy_bytes(const char *data, size_t len)
{
	char *copy = malloc(len + 1);
	memcpy(copy, data, len);
	copy[len] = '\0';
	return copy;
}

/* ---- requests ---- */

void wire_free_request(struct request *request)
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

void wire_submit(struct registry_backend *backend, struct registry_task *task)
{
	struct end *end = (struct end *)backend;
	struct net *net = end->net;
	struct request *request = calloc(1, sizeof(*request));
	int64_t due_ms = later_of(sim_now_ms() + wire_delay_ms(net), end->last_request_ms);
	request->task = task;
	request->copy = *task;
	request->copy.path = copy_bytes(task->path, strlen(task->path));
	request->copy.data = task->data ? copy_bytes(task->data, task->len) : NULL;
	request->copy.owner = end;
	request->made_ms = sim_now_ms();
	request->due_ms = due_ms;
	end->last_request_ms = due_ms;
	list_append(
		net_is_broken(end) && end->cut != NET_CUT_REPLIES ? &end->waiting : &net->requests,
		&request->link);
	task->tag = (uint64_t)(uintptr_t)request;
	if (++end->tasks > MOST_TASKS) {
		sim_fail("agent %d has %zu requests under way", end->client.agent, end->tasks);
	}
}

void wire_abandon(struct registry_backend *backend, struct registry_task *task)
{
	struct request *request = (struct request *)(uintptr_t)task->tag;
	request->task = NULL;
	((struct end *)backend)->tasks--;
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
		task->ret_childless = copy->ret_childless;
		copy->ret_data = NULL;
		copy->ret_children = NULL;
		copy->ret_children_count = 0;
		end->tasks--;
		request->task = NULL;
	}
	wire_free_request(request);
	if (task) {
		end->base.core.completed(end->base.core.core, task);
	}
}

/* The reader of this answer has no memory for it. */
static void fail_allocation(struct end *end, const struct request *request)
{
	bool reads = request->copy.operation == REGISTRY_OP_GET && !request->copy.ret_err.code;
	if (end->fail_in > 0 && reads && request->task && !end->net->spares_allocations) {
		struct memory *memory = process_memory(process_current());
		memory->fail_in = end->fail_in;
		memory->fail_until_ms = sim_now_ms();
		end->net->disturbed_ms[end->client.agent] = sim_now_ms();
		end->fail_in = 0;
	}
}

void wire_fail_unknown(struct end *end, struct request *request, int code)
{
	struct registry_task *task = request->task;
	request->task = NULL;
	end->tasks--;
	err_set(&task->ret_err, code, "%s: %s", task->path,
		code == BERTH_TIMEOUT ? "no answer" : "the connection is lost");
	end->base.core.completed(end->base.core.core, task);
}

void wire_free_forgotten(struct end *end)
{
	for (struct list *at = end->waiting.next, *next; at != &end->waiting; at = next) {
		struct request *request = LIST_ITEM(at, struct request, link);
		next = at->next;
		if (!request->task) {
			wire_free_request(request);
		}
	}
}

/* ---- on the way back ---- */

/* Replies about other paths may be overtaken; a notification comes before what it announces. */
static struct list *place_of(const struct end *end, struct delivery *delivery)
{
	struct net *net = end->net;
	struct list *place = (struct list *)(uintptr_t)&end->inbox;
	if (sim_now_ms() >= net->reorder_until_ms || !delivery->request ||
		list_empty(&end->inbox) || sim_chance(&net->random, 50)) {
		return place;
	}
	struct delivery *last = LIST_ITEM(end->inbox.prev, struct delivery, link);
	bool other = last->request &&
		strcmp(last->request->copy.path, delivery->request->copy.path) != 0;
	return other ? &last->link : place;
}

static void deliver_later(struct end *end, struct delivery *delivery)
{
	struct list *place = place_of(end, delivery);
	delivery->due_ms = later_of(sim_now_ms() + wire_delay_ms(end->net), end->last_delivery_ms);
	end->last_delivery_ms = delivery->due_ms;
	if (place != &end->inbox) { /* both come when the first one was due */
		delivery->due_ms = LIST_ITEM(place, struct delivery, link)->due_ms;
	}
	list_append(place, &delivery->link);
}

void wire_on_fired(void *context, const char *path, enum registry_watch_kind kind, bool gone)
{
	struct end *end = context;
	bool passes = !net_is_broken(end) ||
		(end->notice_ms != INT64_MAX && end->cut == NET_CUT_REQUESTS);
	if (!passes) {
		return;
	}
	struct delivery *delivery = calloc(1, sizeof(*delivery));
	delivery->path = copy_bytes(path, strlen(path));
	delivery->kind = kind;
	delivery->gone = gone;
	deliver_later(end, delivery);
}

void wire_clear_inbox(struct end *end)
{
	while (!list_empty(&end->inbox)) {
		struct delivery *delivery = LIST_ITEM(end->inbox.next, struct delivery, link);
		list_remove(&delivery->link);
		free(delivery->path);
		free(delivery);
	}
}

void wire_deliver(struct end *end, struct delivery *delivery)
{
	struct request *request = delivery->request;
	list_remove(&delivery->link);
	if (request) {
		end->heard_ms = later_of(end->heard_ms, request->made_ms);
		fail_allocation(end, request);
		complete(end, request);
	} else {
		end->base.core.notified(
			end->base.core.core, delivery->path, delivery->kind, delivery->gone);
	}
	free(delivery->path);
	free(delivery);
}

/* ---- at the registry ---- */

static const char *operation_name(enum registry_operation operation)
{
	static const char *const names[] = { "get", "children", "stat", "create", "set", "delete",
		"replace" };
	return names[operation];
}

/* The registry will carry it out: the node is the one that the agent has seen. */
static bool is_expected(const struct registry_task *task, const struct world_node *before)
{
	return !task->has_expected ||
		(task->expected.node_id == before->stat.node_id &&
			task->expected.version == before->stat.version);
}

/* Nobody but its maker may change a node, and no record vanishes with the session of another. */
static void check_owner(
	const struct end *end, const struct registry_task *task, const struct world_node *before)
{
	bool touches = task->operation == REGISTRY_OP_SET ||
		task->operation == REGISTRY_OP_DELETE || task->operation == REGISTRY_OP_REPLACE;
	bool shared = strcmp(task->path, SIM_SHARED_NODE) == 0;
	if (!touches || shared || !before || !is_expected(task, before)) {
		return;
	}
	if (before->owner != end->client.agent) {
		sim_fail("agent %d: %s of %s, which belongs to %d", end->client.agent,
			operation_name(task->operation), task->path, before->owner);
	} else if (task->operation == REGISTRY_OP_SET && before->session &&
		before->session != end->client.session) {
		sim_fail("agent %d sets %s, which vanishes with another session", end->client.agent,
			task->path);
	}
}

/* An agent does not repeat its writes as fast as the registry answers. */
static void count_change(const struct end *end, const struct registry_task *task)
{
	struct changes *changes = &end->net->changes[end->client.agent];
	if (sim_now_ms() >= changes->since_ms + PERIOD_MS) {
		*changes = (struct changes){ .since_ms = sim_now_ms() };
	}
	if (++changes->count > MOST_CHANGES) {
		sim_fail("agent %d: %u changes within %d ms, the last one: %s of %s",
			end->client.agent, changes->count, PERIOD_MS,
			operation_name(task->operation), task->path);
	}
}

static bool is_refused(const struct end *end, struct registry_task *task)
{
	if (sim_now_ms() < end->refuse_until_ms) {
		return err_set(
			&task->ret_err, BERTH_NO_PATH_PERMISSIONS, "%s: refused", task->path);
	}
	if (sim_now_ms() < end->net->quota_until_ms && task->operation != REGISTRY_OP_DELETE) {
		return err_set(&task->ret_err, BERTH_LIMIT_EXCEEDED, "%s: the quota is exceeded",
			task->path);
	}
	return false;
}

void wire_apply(struct end *end, struct request *request)
{
	struct net *net = end->net;
	struct registry_task *task = &request->copy;
	bool change = wire_is_change(task);
	bool is_heard = !net_is_broken(end) && !end->dead && request->task;
	task->watch = task->watch && is_heard;
	if (change) {
		count_change(end, task);
	}
	if (!change || !is_refused(end, task)) {
		check_owner(end, task, world_node(net->world, task->path));
		world_apply(net->world, &end->client, task);
	}
	if (change || sim_traces_reads()) {
		sim_trace("agent %d: %s %s: %s", end->client.agent, operation_name(task->operation),
			task->path, task->ret_err.code ? task->ret_err.msg : "done");
	}
	list_append(&end->waiting, &request->link); /* for good, when no reply ever comes */
	if (is_heard) {
		struct delivery *delivery = calloc(1, sizeof(*delivery));
		delivery->request = request;
		deliver_later(end, delivery);
	}
	if (change && end->breaks && task->ret_err.code == 0) {
		end->breaks = false;
		net_cut(net, end->client.agent, (int64_t)sim_below(&net->random, 8000),
			NET_CUT_BOTH);
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
	while ((request = first_due(net))) {
		list_remove(&request->link);
		wire_apply(request->copy.owner, request);
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
