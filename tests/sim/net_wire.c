#include "tests/sim/net_internal.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/process.h"

enum {
	NORMAL_DELAY_MS = 4,
	MOST_REQUESTS = 300, /* of one agent under way: what it asks for is bounded */
	MOST_CHANGES = 100,  /* of one agent in PERIOD_MS */
	PERIOD_MS = 10 * SIM_SECOND
};

int64_t wire_delay_ms(struct net *net)
{
	bool is_slow = sim_now_ms() < net->slow_until_ms;
	return (int64_t)sim_below(
		&net->random, (uint64_t)(is_slow ? net->slow_most_ms : NORMAL_DELAY_MS) + 1);
}

/* ---- requests ---- */

static bool is_change(const struct registry_task *task)
{
	return task->operation != REGISTRY_OP_GET && task->operation != REGISTRY_OP_CHILDREN &&
		task->operation != REGISTRY_OP_STAT;
}

void wire_free_request(struct request *request)
{
	struct registry_task *task = &request->task;
	list_remove(&request->link);
	free((void *)(uintptr_t)task->path);
	free((void *)(uintptr_t)task->data);
	free(task->ret_data);
	for (size_t i = 0; i < task->ret_children_count; i++) {
		free(task->ret_children[i]);
	}
	free(task->ret_children);
	free(request);
}

/* The client library takes a watch out of its tables itself. */
static void unwatch(struct end *end, const struct zk_request *request)
{
	char *path = frame_world_path(request->path);
	world_unwatch(end->net->world, &end->client, path,
		request->operation == ZK_UNWATCH_DATA ? REGISTRY_WATCH_DATA
						      : REGISTRY_WATCH_CHILDREN);
	free(path);
}

void wire_submit(struct end *end, const struct zk_request *sent)
{
	struct net *net = end->net;
	if (sent->operation == ZK_UNWATCH_DATA || sent->operation == ZK_UNWATCH_CHILDREN) {
		unwatch(end, sent);
		return;
	}
	int64_t due_ms = later_of(sim_now_ms() + wire_delay_ms(net), end->last_request_ms);
	end->last_request_ms = due_ms;
	if (++end->requests > MOST_REQUESTS) {
		sim_fail("agent %d has %zu requests under way", end->client.agent, end->requests);
	}
	if (end->ended || (end->broken && end->cut != NET_CUT_REPLIES)) {
		return;
	}
	struct request *request = calloc(1, sizeof(*request));
	request->end = end;
	request->due_ms = due_ms;
	frame_read_request(request, sent);
	list_append(&net->requests, &request->link);
}

/* ---- on the way back ---- */

void wire_free_delivery(struct delivery *delivery)
{
	list_remove(&delivery->link);
	buffer_finish(&delivery->frame);
	free(delivery->path);
	free(delivery);
}

void wire_clear_inbox(struct end *end)
{
	while (!list_empty(&end->inbox)) {
		wire_free_delivery(LIST_ITEM(end->inbox.next, struct delivery, link));
	}
}

static struct delivery *make_delivery(const char *path)
{
	struct delivery *delivery = calloc(1, sizeof(*delivery));
	buffer_init(&delivery->frame, ZK_FRAME_MAX_BYTES);
	delivery->path = path ? strdup(path) : NULL;
	return delivery;
}

/* Replies about other paths may be overtaken; a notification comes before what it announces. */
static struct list *place_of(struct end *end, const struct delivery *delivery)
{
	struct net *net = end->net;
	if (sim_now_ms() >= net->reorder_until_ms || !delivery->is_reply ||
		list_empty(&end->inbox) || sim_chance(&net->random, 50)) {
		return &end->inbox;
	}
	struct delivery *last = LIST_ITEM(end->inbox.prev, struct delivery, link);
	bool other = last->is_reply && strcmp(last->path, delivery->path) != 0;
	return other ? &last->link : &end->inbox;
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

void wire_report(struct end *end, enum zk_session_state state)
{
	struct delivery *delivery = make_delivery(NULL);
	const struct zk_session session = { .state = state,
		.id = end->client.session,
		.timeout_ms = NET_SESSION_TIMEOUT_MS,
		.server = "10.0.0.1:2181",
		.addresses = state == ZK_SESSION_EXPIRED ? "" : "10.0.0.1:2181" };
	zk_session_encode(&delivery->frame, &session);
	delivery->due_ms = later_of(sim_now_ms(), end->last_delivery_ms);
	end->last_delivery_ms = delivery->due_ms;
	list_append(&end->inbox, &delivery->link);
}

void wire_on_fired(void *context, const char *path, enum registry_watch_kind kind, bool gone)
{
	struct end *end = context;
	if (end->ended || (end->broken && end->cut != NET_CUT_REQUESTS)) {
		return;
	}
	struct delivery *delivery = make_delivery(path);
	frame_event(&delivery->frame, path, kind, gone);
	deliver_later(end, delivery);
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
	struct changes *changes = &way_of(end)->changes;
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
	if (sim_now_ms() < way_of(end)->refuse_until_ms) {
		return err_set(
			&task->ret_err, BERTH_NO_PATH_PERMISSIONS, "%s: refused", task->path);
	}
	if (sim_now_ms() < end->net->quota_until_ms && task->operation != REGISTRY_OP_DELETE) {
		return err_set(&task->ret_err, BERTH_LIMIT_EXCEEDED, "%s: the quota is exceeded",
			task->path);
	}
	return false;
}

void wire_apply(struct request *request)
{
	struct end *end = request->end;
	struct net *net = end->net;
	struct registry_task *task = &request->task;
	bool change = is_change(task);
	bool is_heard = !end->broken && !end->ended;
	if (!world_session_lives(net->world, end->client.session)) {
		/* The server does nothing for a session that is over; its answer would be lost. */
		list_init(&request->link);
		wire_free_request(request);
		return;
	}
	struct delivery *delivery = make_delivery(task->path);
	task->watch = task->watch && is_heard;
	if (change) {
		count_change(end, task);
	}
	if (!change || !is_refused(end, task)) {
		check_owner(end, task, world_node(net->world, task->path));
	}
	frame_apply(request, &delivery->frame);
	if (change || sim_traces_reads()) {
		sim_trace("agent %d: %s %s: %s", end->client.agent, operation_name(task->operation),
			task->path, task->ret_err.code ? task->ret_err.msg : "done");
	}
	delivery->is_reply = true;
	delivery->is_data = request->operation == ZK_GET && !task->ret_err.code;
	if (is_heard) {
		deliver_later(end, delivery);
	} else {
		list_init(&delivery->link);
		wire_free_delivery(delivery);
	}
	if (change && end->breaks && task->ret_err.code == 0) {
		end->breaks = false;
		net_cut(net, end->client.agent, (int64_t)sim_below(&net->random, 8000),
			NET_CUT_BOTH);
	}
	list_init(&request->link);
	wire_free_request(request);
}
