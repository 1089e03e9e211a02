#include "tests/sim/events.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "tests/sim/configurations.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim.h"

enum { MOST_IN_A_STORM = 7, STORM_MS = 60 * SIM_SECOND, MOST_CALM_MS = 720 * SIM_SECOND };
enum { MOST_BETWEEN_DRAINS_MS = 15 * SIM_MINUTE };
enum { MOST_BETWEEN_CUTS_MS = 4 * SIM_SECOND };
/* A pause after which the host's agent has its session yet; by then it has it again. */
enum { MOST_SOON_MS = 8 * SIM_SECOND, HOST_RECOVERS_MS = 15 * SIM_SECOND };
/* The record of a container's process that was killed, or that its host no longer allows, when
 * nothing else happens. */
enum { MOST_UNTIL_GONE_MS = SIM_SECOND };
enum { MOST_IN_A_BURST = 6, BURST_STEP_MS = 12 };

static const char *const paths[] = {
	"/users/joe/web/prod/components/c0",
	"/users/joe/web/prod/components/c1",
	"/users/joe/web/prod/components/c2",
	"/services/leader",
	"/services/other",
};

static const struct {
	const char *name;
	unsigned weight;
	unsigned of_host; /* the same in the world of one host */
	int64_t most_ms;
} kinds[EVENT_KINDS] = {
	[EVENT_START] = { "start", 0, 0, 0 }, /* follows what ends an agent */
	[EVENT_STOP] = { "stop", 2, 2, 0 },
	[EVENT_QUIT] = { "quit", 1, 1, 0 },
	[EVENT_KILL] = { "kill", 3, 7, 0 },
	[EVENT_UPGRADE] = { "upgrade", 3, 5, 0 },
	[EVENT_RELOAD] = { "reload", 4, 5, 0 },
	[EVENT_RELOAD_BAD] = { "reload-bad", 1, 1, 0 },
	[EVENT_LOSE_STATE] = { "lose-state", 0, 0, 0 }, /* between an end and a start */
	[EVENT_NO_MEMORY] = { "no-memory", 2, 2, 0 },
	[EVENT_HEALTH] = { "health", 8, 6, 0 },
	[EVENT_DRAIN] = { "drain", 0, 0, 0 }, /* draw_drains() */
	[EVENT_CUT] = { "cut", 6, 4, 40 * SIM_SECOND },
	[EVENT_DROP] = { "drop", 2, 2, 0 },
	[EVENT_BREAK_AFTER_CHANGE] = { "break-after-change", 4, 3, 0 },
	[EVENT_EXPIRE] = { "expire", 3, 2, 0 },
	[EVENT_SLOW] = { "slow", 2, 2, 60 * SIM_SECOND },
	[EVENT_STALL] = { "stall", 3, 2, 14 * SIM_SECOND },
	[EVENT_REORDER] = { "reorder", 2, 1, 60 * SIM_SECOND },
	[EVENT_REFUSE] = { "refuse", 2, 1, 30 * SIM_SECOND },
	[EVENT_QUOTA] = { "quota", 1, 1, 30 * SIM_SECOND },
	[EVENT_STRANGER_WRITES] = { "stranger-writes", 4, 3, 0 },
	[EVENT_STRANGER_DELETES] = { "stranger-deletes", 5, 3, 0 },
	[EVENT_WALL_CLOCK_JUMPS] = { "wall-clock-jumps", 1, 1, 0 },
	[EVENT_REMOVE_CONTAINER] = { "remove-container", 0, 3, 0 },
};

const char *event_name(enum event_kind kind)
{
	return kinds[kind].name;
}

/* ---- the list ---- */

static void add(struct events *events, const struct event *event)
{
	if ((events->count & (events->count - 1)) == 0) {
		size_t room = events->count ? 2 * events->count : 1;
		events->items = realloc(events->items, room * sizeof(*events->items));
	}
	events->items[events->count++] = *event;
}

static unsigned weight_of(int kind)
{
	return sim_has_bridge() ? kinds[kind].of_host : kinds[kind].weight;
}

static enum event_kind draw_kind(struct sim_random *random)
{
	unsigned total = 0;
	for (int i = 0; i < EVENT_KINDS; i++) {
		total += weight_of(i);
	}
	unsigned left = (unsigned)sim_below(random, total);
	int kind = 0;
	while (left >= weight_of(kind)) {
		left -= weight_of(kind++);
	}
	return (enum event_kind)kind;
}

/*
 * A node comes and goes faster than a registry's notifications tell it: what is read is another
 * state than the announced one, and a list and the data of its paths do not fit together.
 */
static void draw_burst(struct events *events, struct sim_random *random, const struct event *first)
{
	struct event next = *first;
	for (uint64_t more = 1 + sim_below(random, MOST_IN_A_BURST); more > 0; more--) {
		next.at_ms += (int64_t)sim_below(random, BURST_STEP_MS);
		next.kind = next.kind == EVENT_STRANGER_WRITES ? EVENT_STRANGER_DELETES
							       : EVENT_STRANGER_WRITES;
		add(events, &next);
	}
}

/* Faults between the end of an agent and its start. */
static void draw_meanwhile(
	struct events *events, struct sim_random *random, const struct event *start)
{
	static const enum event_kind possible[] = { EVENT_LOSE_STATE, EVENT_WALL_CLOCK_JUMPS,
		EVENT_CUT };
	for (size_t i = 0; i < ARRAY_LEN(possible); i++) {
		struct event event = *start;
		event.at_ms = start->at_ms > 0 ? start->at_ms - 1 : 0;
		event.kind = possible[i];
		event.for_ms = 1 + (int64_t)sim_below(random, 20 * SIM_SECOND);
		if (sim_chance(random, 20)) {
			add(events, &event);
		}
	}
}

/*
 * A path changes while the connection is cut, and it is cut again before all paths have been read:
 * what is known is of different ages.
 */
static void draw_second_cut(
	struct events *events, struct sim_random *random, const struct event *first)
{
	struct event change = *first;
	change.kind = sim_chance(random, 50) ? EVENT_STRANGER_WRITES : EVENT_STRANGER_DELETES;
	change.at_ms += (int64_t)sim_below(random, (uint64_t)first->for_ms);
	change.for_ms = 1;
	add(events, &change);
	struct event second = *first;
	second.at_ms += first->for_ms + (int64_t)sim_below(random, MOST_BETWEEN_CUTS_MS);
	add(events, &second);
}

static bool ends_agent(enum event_kind kind)
{
	return kind == EVENT_KILL || kind == EVENT_STOP || kind == EVENT_QUIT ||
		kind == EVENT_REMOVE_CONTAINER;
}

static bool concerns_connection(enum event_kind kind)
{
	return kind >= EVENT_CUT && kind <= EVENT_QUOTA;
}

/* A third of what happens to an agent happens to the host's, which alone has a connection. */
static int draw_agent(struct sim_random *random, enum event_kind kind)
{
	int agent = (int)sim_below(random, SIM_AGENTS);
	if (!sim_has_bridge() || kind == EVENT_HEALTH || kind == EVENT_REMOVE_CONTAINER) {
		return agent;
	}
	return concerns_connection(kind) || sim_chance(random, 33) ? SIM_HOST : agent;
}

/* Nobody sees it at that moment. */
static void draw_end_in_container(
	struct events *events, struct sim_random *random, const struct event *drawn)
{
	struct event event = *drawn;
	event.agent = (int)sim_below(random, SIM_AGENTS);
	event.kind = sim_chance(random, 30) ? EVENT_REMOVE_CONTAINER : EVENT_KILL;
	add(events, &event);
	event.kind = EVENT_START;
	event.at_ms += SIM_SECOND * (int64_t)sim_below(random, sim_chance(random, 50) ? 4 : 300);
	add(events, &event);
}

/* Its service manager starts it again: mostly soon, so that its session lives on. */
static void draw_end_of_host(
	struct events *events, struct sim_random *random, const struct event *drawn)
{
	struct event event = *drawn;
	bool soon = sim_chance(random, 70);
	event.for_ms = 1 + (int64_t)sim_below(random, soon ? MOST_SOON_MS : 40 * SIM_SECOND);
	add(events, &event);
	struct event meanwhile = event;
	meanwhile.at_ms += (int64_t)sim_below(random, (uint64_t)event.for_ms);
	meanwhile.for_ms = 1;
	if (sim_chance(random, 10)) {
		meanwhile.kind = EVENT_LOSE_STATE;
		add(events, &meanwhile);
	} else if (sim_chance(random, 60)) {
		draw_end_in_container(events, random, &meanwhile);
	}
}

static void draw(struct events *events, struct sim_random *random, int64_t at_ms)
{
	struct event event = { .at_ms = at_ms, .kind = draw_kind(random) };
	event.agent = draw_agent(random, event.kind);
	event.choice = sim_below(random, 1000);
	event.is_first_half = sim_chance(random, 50);
	event.for_ms = 1 + (int64_t)sim_below(random, (uint64_t)kinds[event.kind].most_ms + 1);
	if (event.agent == SIM_HOST && ends_agent(event.kind)) {
		draw_end_of_host(events, random, &event);
		return;
	}
	add(events, &event);
	struct event after = event;
	after.at_ms += (int64_t)sim_below(random, 40 * SIM_SECOND);
	bool ends = ends_agent(event.kind);
	if (ends) {
		draw_meanwhile(events, random, &after);
	}
	if (ends) {
		after.kind = EVENT_START;
		add(events, &after);
	} else if (event.kind == EVENT_HEALTH && sim_chance(random, 70)) {
		after.choice = SIM_WORKS;
		add(events, &after);
	}
	if (event.kind == EVENT_CUT && sim_chance(random, 40)) {
		draw_second_cut(events, random, &event);
	}
	if (event.kind == EVENT_SLOW || event.kind == EVENT_STALL) {
		after.kind = EVENT_STRANGER_WRITES;
		after.at_ms = event.at_ms + (int64_t)sim_below(random, SIM_SECOND);
		add(events, &after);
		draw_burst(events, random, &after);
	}
	bool by_stranger = event.kind == EVENT_STRANGER_WRITES ||
		event.kind == EVENT_STRANGER_DELETES;
	if (by_stranger && sim_chance(random, 40)) {
		draw_burst(events, random, &event);
	}
	if (event.kind == EVENT_STRANGER_WRITES && sim_chance(random, 70)) {
		after.kind = EVENT_STRANGER_DELETES;
		add(events, &after);
	}
}

/* Of a stream of their own: what else happens in a seed does not depend on them. */
static void draw_drains(struct events *events, uint64_t seed, int64_t length_ms)
{
	struct sim_random random;
	sim_random_init(&random, seed, 6);
	int64_t at_ms = 0;
	while ((at_ms += (int64_t)sim_below(&random, MOST_BETWEEN_DRAINS_MS)) < length_ms) {
		const struct event event = { .at_ms = at_ms,
			.kind = EVENT_DRAIN,
			.agent = (int)sim_below(&random, SIM_AGENTS),
			.choice = sim_below(&random, 1000) };
		add(events, &event);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct event *first = a;
	const struct event *second = b;
	if (first->at_ms != second->at_ms) {
		return first->at_ms < second->at_ms ? -1 : 1;
	}
	return memcmp(&first->agent, &second->agent, sizeof(first->agent));
}

void events_create(struct events *events, uint64_t seed, int64_t length_ms)
{
	struct sim_random random;
	sim_random_init(&random, seed, 4);
	*events = (struct events){ 0 };
	for (int agent = 0; agent < sim_agent_count(); agent++) {
		const struct event start = { .at_ms = (int64_t)sim_below(&random, SIM_SECOND),
			.kind = EVENT_START,
			.agent = agent };
		add(events, &start);
	}
	int64_t at_ms = 0;
	while ((at_ms += (int64_t)sim_below(&random, MOST_CALM_MS)) < length_ms) {
		uint64_t count = 1 + sim_below(&random, MOST_IN_A_STORM);
		int64_t within_ms = sim_chance(&random, 30) ? 100 : STORM_MS;
		for (uint64_t i = 0; i < count; i++) {
			draw(events, &random,
				at_ms + (int64_t)sim_below(&random, (uint64_t)within_ms));
		}
		at_ms += within_ms;
	}
	draw_drains(events, seed, length_ms);
	qsort(events->items, events->count, sizeof(*events->items), by_time);
}

void events_destroy(struct events *events)
{
	free(events->items);
}

/* ---- strangers ---- */

static const struct world_client stranger = { .agent = WORLD_STRANGER };

static void finish_task(struct registry_task *task)
{
	free(task->ret_data);
}

static void stranger_writes(struct world *world, const struct event *event)
{
	static const char record[] =
		"{\"type\":\"JSONServiceRecord\",\"description\":\"a stranger\",\"external\":[],"
		"\"internal\":[],\"yarn:id\":\"stranger\",\"yarn:persistence\":\"permanent\"}";
	const char *path = paths[event->choice % (ARRAY_LEN(paths))];
	struct registry_task task = { .path = path,
		.operation = world_node(world, path) ? REGISTRY_OP_SET : REGISTRY_OP_CREATE,
		.data = event->is_first_half ? record : SIM_GARBAGE };
	task.len = strlen(task.data);
	world_apply(world, &stranger, &task);
	sim_trace("a stranger writes %s: %s", path, task.ret_err.code ? task.ret_err.msg : "done");
	finish_task(&task);
}

static void stranger_deletes(struct world *world, const struct event *event)
{
	struct registry_task task = { .operation = REGISTRY_OP_DELETE,
		.path = paths[event->choice % (ARRAY_LEN(paths))] };
	world_apply(world, &stranger, &task);
	sim_trace("a stranger deletes %s: %s", task.path,
		task.ret_err.code ? task.ret_err.msg : "done");
	finish_task(&task);
}

/* ---- what they do ---- */

static void jump(const struct event *event)
{
	int64_t by_ms = (int64_t)(event->choice + 1) * SIM_MINUTE;
	sim_trace("the wall clock jumps");
	sim_clock_jump(event->is_first_half ? by_ms : -by_ms);
}

static void happen_to_registry(const struct event *event, struct stage *stage)
{
	struct net *net = stage->net;
	switch (event->kind) {
	case EVENT_CUT:
		net_cut(net, event->agent, event->for_ms, (enum net_cut)(event->choice % 3));
		break;
	case EVENT_DROP:
		net_drop(net, event->agent);
		break;
	case EVENT_STALL:
		net_stall(net, event->agent, event->for_ms);
		break;
	case EVENT_REORDER:
		sim_trace("replies overtake each other for %lld ms", (long long)event->for_ms);
		net_reorder(net, event->for_ms);
		break;
	case EVENT_BREAK_AFTER_CHANGE:
		net_break_after_change(net, event->agent);
		break;
	case EVENT_EXPIRE:
		net_expire(net, event->agent);
		break;
	case EVENT_SLOW:
		sim_trace("the registry is slow for %lld ms", (long long)event->for_ms);
		net_slow(net, event->for_ms, SIM_SECOND + (int64_t)event->choice * 4);
		break;
	case EVENT_REFUSE:
		net_refuse(net, event->agent, event->for_ms);
		break;
	case EVENT_QUOTA:
		sim_trace("the quota is used up for %lld ms", (long long)event->for_ms);
		net_exceed_quota(net, event->for_ms);
		break;
	case EVENT_STRANGER_WRITES:
		stranger_writes(stage->world, event);
		break;
	case EVENT_STRANGER_DELETES:
		stranger_deletes(stage->world, event);
		break;
	default:
		jump(event);
	}
}

/* A record stays where it is while its agent is upgraded or reads its configuration. */
static bool spares_records(enum event_kind kind)
{
	return kind == EVENT_UPGRADE || kind == EVENT_RELOAD || kind == EVENT_RELOAD_BAD ||
		kind == EVENT_WALL_CLOCK_JUMPS;
}

/*
 * The record of a living container also stays while the host's agent is away for less than its
 * session lasts, and whatever happens to another container.
 */
static bool spares_record_on_host(const struct event *event, const struct stage *stage, int number)
{
	bool ends = ends_agent(event->kind);
	if (event->agent == SIM_HOST && ends) {
		return event->kind != EVENT_STOP && event->for_ms <= MOST_SOON_MS &&
			sim_now_ms() > stage->host_killed_ms + MOST_SOON_MS + HOST_RECOVERS_MS;
	}
	if (event->agent == SIM_HOST && event->kind == EVENT_RELOAD) {
		return configuration_allows(0, number) && configuration_allows(1, number);
	}
	bool others = event->agent != SIM_HOST && event->agent != number;
	bool of_process = ends || event->kind == EVENT_START || event->kind == EVENT_LOSE_STATE ||
		event->kind == EVENT_NO_MEMORY || event->kind == EVENT_HEALTH ||
		event->kind == EVENT_DRAIN;
	return spares_records(event->kind) || (others && of_process);
}

static void endanger(const struct event *event, struct stage *stage)
{
	for (int i = 0; i < SIM_AGENTS; i++) {
		bool spared = sim_has_bridge() ? spares_record_on_host(event, stage, i)
					       : spares_records(event->kind);
		stage->steady[i] = stage->steady[i] && spared;
		stage->gone_ms[i] = 0;
	}
	if (event->agent == SIM_HOST && ends_agent(event->kind)) {
		stage->host_killed_ms = sim_now_ms();
	}
}

/* The host's agent is there, and nothing else delays what follows from the kill. */
static void expect_end(const struct event *event, struct stage *stage)
{
	const struct sim_agent *host = stage->agents[SIM_HOST];
	if (sim_has_bridge() && event->agent != SIM_HOST && oracle_is_calm(stage) &&
		sim_agent_is_running(host) && sim_agent_configuration(host) == 0) {
		stage->gone_ms[event->agent] = sim_now_ms() + MOST_UNTIL_GONE_MS;
	}
}

/* Its host has a policy from now on that refuses one container. */
static void expect_refusal(struct stage *stage)
{
	const struct sim_agent *host = stage->agents[SIM_HOST];
	for (int i = 0; i < SIM_AGENTS; i++) {
		if (sim_agent_is_running(host) &&
			!configuration_allows(sim_agent_configuration(host), i)) {
			stage->gone_ms[i] = sim_now_ms() + MOST_UNTIL_GONE_MS;
		}
	}
}

void event_happen(const struct event *event, struct stage *stage)
{
	bool was_calm = oracle_is_calm(stage);
	endanger(event, stage);
	if (event->kind == EVENT_KILL || event->kind == EVENT_REMOVE_CONTAINER) {
		expect_end(event, stage);
	}
	struct sim_agent *agent = stage->agents[event->agent];
	switch (event->kind) {
	case EVENT_START:
		sim_agent_start(agent);
		break;
	case EVENT_STOP:
		sim_agent_stop(agent);
		break;
	case EVENT_QUIT:
		sim_agent_quit(agent);
		break;
	case EVENT_KILL:
		sim_agent_kill(agent);
		break;
	case EVENT_UPGRADE:
		sim_agent_upgrade(agent);
		break;
	case EVENT_RELOAD:
		sim_agent_reload(agent);
		if (event->agent == SIM_HOST && was_calm) {
			expect_refusal(stage);
		}
		break;
	case EVENT_RELOAD_BAD:
		sim_agent_reload_bad(agent);
		break;
	case EVENT_LOSE_STATE:
		sim_agent_lose_state(agent);
		break;
	case EVENT_NO_MEMORY:
		sim_agent_fail_allocation(agent, event->choice, event->is_first_half);
		break;
	case EVENT_REMOVE_CONTAINER:
		sim_agent_remove_container(agent);
		break;
	case EVENT_DRAIN:
		sim_agent_drain(agent, event->choice);
		break;
	case EVENT_HEALTH:
		sim_agent_set_health(agent, (enum sim_health)(event->choice % 3));
		break;
	default:
		happen_to_registry(event, stage);
	}
	if (event->agent == SIM_HOST && ends_agent(event->kind)) {
		sim_agent_start_later(agent, event->for_ms);
	}
	int64_t calm_ms = sim_now_ms() + event->for_ms;
	stage->calm_from_ms = calm_ms > stage->calm_from_ms ? calm_ms : stage->calm_from_ms;
}
