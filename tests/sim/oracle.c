#include "tests/sim/oracle.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "agent/component/announce.h"
#include "lib/base/path.h"
#include "tests/sim/answers.h"
#include "tests/sim/bridge.h"
#include "tests/sim/configurations.h"
#include "tests/sim/followers.h"
#include "tests/sim/sim.h"

/*
 * The bound: a session's timeout and a tenth, a check's interval and timeout, and the pause after a
 * refusal or before a conflict is looked at again.
 */
enum { SETTLED_MS = 60 * SIM_SECOND, PERIOD_MS = 7 * SIM_SECOND, PREPARED_MS = 50 };

/* In calm a look-up is answered by then. */
enum { ANSWERED_MS = 5 * SIM_SECOND };

/* Calm that ends so soon after a look shows nothing new. */
enum { SOON_MS = 20 * SIM_SECOND };

/* An agent gives its session up by then. */
enum { NOTICED_MS = NET_SESSION_TIMEOUT_MS + SIM_SECOND };

/* A check that began while the application worked has ended, and its result was written. */
enum { FAILS_MS = 45 * SIM_SECOND };

/* When the last fault has settled. */
static int64_t settled_ms(const struct stage *stage)
{
	int64_t from_ms = stage->calm_from_ms;
	for (int i = 0; i < sim_agent_count(); i++) {
		int64_t agent_ms = sim_agent_disturbed_ms(stage->agents[i]);
		from_ms = agent_ms > from_ms ? agent_ms : from_ms;
	}
	return from_ms + SETTLED_MS;
}

bool oracle_is_calm(const struct stage *stage)
{
	return sim_now_ms() >= settled_ms(stage);
}

static bool host_runs(const struct stage *stage)
{
	return !sim_has_bridge() || sim_agent_is_running(stage->agents[SIM_HOST]);
}

/* Once all is calm, after each change of the registry, and before the calm ends. */
static bool is_due(const struct stage *stage, bool ends)
{
	int64_t from_ms = settled_ms(stage);
	bool changed = world_changes(stage->world) != stage->checked_changes;
	return sim_now_ms() >= from_ms && host_runs(stage) &&
		(stage->checked_ms < from_ms ||
			(ends && (changed || sim_now_ms() >= stage->checked_ms + SOON_MS)) ||
			(changed && sim_now_ms() >= stage->checked_ms + PERIOD_MS));
}

/* The components of the agents by GET /v1/agent at this moment. */
static json_t *components[SIM_MOST];

static const char *state_of(int number, const char *path)
{
	size_t index;
	json_t *component;
	json_array_foreach (components[number], index, component) {
		const char *its_path = json_string_value(json_object_get(component, "path"));
		if (its_path && strcmp(its_path, path) == 0) {
			return json_string_value(json_object_get(component, "state"));
		}
	}
	return "nothing";
}

static bool says(int number, const char *path, enum announce_state state)
{
	return strcmp(state_of(number, path), announce_state_name(state)) == 0;
}

/* The policy of its host does not have the agent's own path. */
static bool is_refused(const struct stage *stage, int number)
{
	return sim_has_bridge() &&
		!configuration_allows(sim_agent_configuration(stage->agents[SIM_HOST]), number);
}

/* The node is the agent's: its session made it; on a host, the data say of which container. */
static bool is_holder(const struct world_node *node, int number)
{
	return node && node->owner == sim_owner_of(number) &&
		(!sim_has_bridge() || bridge_container_of(node) == number);
}

/* A node that an agent holds is as its configuration says, and the agent says so too. */
static void check_held(const struct stage *stage, int number, const struct world_node *node)
{
	const struct sim_agent *agent = stage->agents[number];
	if (node->session != net_session(stage->net, sim_owner_of(number))) {
		sim_fail("%s is held by another session than that of agent %d", node->path, number);
	} else if (!strstr(node->data, sim_agent_mark(agent))) {
		sim_fail("%s is not as agent %d wants it: %s", node->path, number, node->data);
	} else if (!says(number, node->path, ANNOUNCE_REGISTERED)) {
		sim_fail("%s is there, and agent %d says %s", node->path, number,
			state_of(number, node->path));
	}
}

static void check_own(const struct stage *stage, int number)
{
	const struct sim_agent *agent = stage->agents[number];
	char path[64] = "/users/joe/web/prod/components/c0";
	path[strlen(path) - 1] = (char)('0' + number);
	const struct world_node *node = world_node(stage->world, path);
	bool refused = is_refused(stage, number);
	bool wanted = sim_agent_serves(agent) && !refused;
	if (node && node->owner == sim_owner_of(number) && wanted) {
		check_held(stage, number, node);
	} else if (node && node->owner == sim_owner_of(number)) {
		sim_fail("%s is there, and its component is not up", path);
	} else if (!node && wanted) {
		sim_fail("%s is not there, and agent %d says %s", path, number,
			state_of(number, path));
	} else if (sim_agent_is_running(agent)) {
		enum announce_state expected = node && wanted ? ANNOUNCE_CONFLICT
			: refused && sim_agent_serves(agent)  ? ANNOUNCE_FAILED
							      : ANNOUNCE_WITHDRAWN;
		if (!says(number, path, expected)) {
			sim_fail("agent %d says %s of %s, not %s", number, state_of(number, path),
				path, announce_state_name(expected));
		}
	}
}

/* A record that no policy has is the host's refusal. */
static void check_forbidden(const struct stage *stage, int number)
{
	if (sim_agent_serves(stage->agents[number]) &&
		!says(number, SIM_FORBIDDEN, ANNOUNCE_FAILED)) {
		sim_fail("agent %d says %s of %s", number, state_of(number, SIM_FORBIDDEN),
			SIM_FORBIDDEN);
	}
}

/* Of those who want it, one has it, and the others say so. */
static void check_shared(const struct stage *stage)
{
	const struct world_node *node = world_node(stage->world, "/services/leader");
	int wanted = 0;
	for (int i = 0; i < SIM_AGENTS; i++) {
		const struct sim_agent *agent = stage->agents[i];
		wanted += sim_agent_serves(agent);
		if (is_holder(node, i) && sim_agent_serves(agent)) {
			check_held(stage, i, node);
		} else if (is_holder(node, i)) {
			sim_fail(
				"%s belongs to agent %d, whose component is not up", node->path, i);
		} else if (node && sim_agent_serves(agent) &&
			!says(i, node->path, ANNOUNCE_CONFLICT)) {
			sim_fail("%s is another's, and agent %d says %s", node->path, i,
				state_of(i, node->path));
		}
	}
	if (!node && wanted > 0) {
		sim_fail("nobody has /services/leader, which %d want", wanted);
	}
}

/* The replayed events of a stream must agree with the registry. */
static void check_stream(const struct stage *stage, int number)
{
	struct sim_agent *agent = stage->agents[number];
	const struct client *client = sim_agent_client(agent);
	size_t count = 0;
	if (!sim_agent_is_running(agent)) {
		return;
	}
	if (!client_stream_ready(client)) {
		sim_fail("the stream of agent %d has not begun", number);
		return;
	}
	if (client_stream_stale(client)) {
		sim_fail("the stream of agent %d is stale, and all is calm", number);
	}
	for (size_t i = 0; i < world_count(stage->world); i++) {
		const struct world_node *node = world_node_at(stage->world, i);
		if (!path_is_under(node->path, "/users")) {
			continue;
		}
		count++;
		const json_t *record = client_stream_record(client, node->path);
		if (!record || !json_equal(record, world_record(node))) {
			char *text = record ? json_dumps(record, JSON_ENCODE_ANY) : NULL;
			sim_fail("the stream of agent %d has for %s: %s, and the registry: %s",
				number, node->path, text ? text : "nothing", node->data);
			free(text);
		}
	}
	if (count != client_stream_count(client)) {
		sim_fail("the stream of agent %d has %zu paths, and the registry %zu", number,
			client_stream_count(client), count);
	}
}

static bool holds_own(const struct stage *stage, int number)
{
	const struct world_node *node = world_node(
		stage->world, sim_agent_path(stage->agents[number], SIM_OWN));
	return node && node->owner == sim_owner_of(number);
}

/* A stream says so when the agent has lost the registry, which it notices in time. */
static void watch_stream(const struct stage *stage, int number)
{
	const struct client *client = sim_agent_client(stage->agents[number]);
	if (client_stream_ready(client) && !client_stream_stale(client) &&
		sim_agent_connected_ms(stage->agents[number]) < sim_now_ms() - NOTICED_MS) {
		sim_fail("agent %d has lost the registry, and its stream is not stale", number);
	}
}

static void watch_record(struct stage *stage, int number)
{
	const struct sim_agent *agent = stage->agents[number];
	bool holds = holds_own(stage, number);
	bool appears = holds && !stage->held[number];
	if (stage->steady[number] && !holds) {
		sim_fail("the record of agent %d vanishes, and nothing was wrong", number);
	}
	if (appears && sim_agent_health(agent) != SIM_WORKS &&
		sim_now_ms() > sim_agent_health_ms(agent) + FAILS_MS) {
		sim_fail("agent %d registers an application that has failed for %lld ms", number,
			(long long)(sim_now_ms() - sim_agent_health_ms(agent)));
	}
	if (appears && sim_agent_drain_of(stage->agents[number])->state == SIM_DRAINS &&
		sim_now_ms() > sim_agent_drain_of(stage->agents[number])->changed_ms + FAILS_MS) {
		sim_fail("agent %d registers its component, and drains", number);
	}
	if (appears && sim_has_bridge()) {
		bridge_watch_return(stage, number);
	}
	stage->held[number] = holds;
}

void oracle_watch(struct stage *stage)
{
	for (int i = 0; i < sim_agent_count(); i++) {
		watch_stream(stage, i);
	}
	if (sim_has_bridge()) {
		bridge_watch_ends(stage);
	}
	if (stage->watched_changes == world_changes(stage->world)) {
		return;
	}
	stage->watched_changes = world_changes(stage->world);
	for (int i = 0; i < SIM_AGENTS; i++) {
		watch_record(stage, i);
	}
	if (sim_has_bridge()) {
		bridge_watch(stage);
	}
}

static int waiting_client(const struct stage *stage)
{
	int number = 0;
	while (number < sim_agent_count() &&
		!client_waits(sim_agent_client(stage->agents[number]))) {
		number++;
	}
	return number < sim_agent_count() ? number : -1;
}

/*
 * A look-up that bypasses the cache makes all others of its path wait for its read, and no time
 * passes for the reads of the oracle's questions.
 */
static void wait_for_clients(struct stage *stage)
{
	int64_t until_ms = sim_now_ms() + ANSWERED_MS;
	int number;
	while ((number = waiting_client(stage)) >= 0 && sim_now_ms() < until_ms) {
		stage_pass(stage, 1);
	}
	if (number >= 0) {
		sim_fail("agent %d does not answer a look-up within %d ms", number, ANSWERED_MS);
	}
}

static void look(struct stage *stage)
{
	/*
	 * Nobody waits for these answers. Each question leads to the next reads at most; once they
	 * are done, it leads to the confirmation of what is known.
	 */
	for (int i = stage->checked_ms < settled_ms(stage) ? 0 : 1; i < 2; i++) {
		if (!sim_has_bridge()) {
			followers_prepare(stage);
		}
		stage_pass(stage, PREPARED_MS);
	}
	wait_for_clients(stage);
	if (!oracle_is_calm(stage)) {
		return; /* a drain has ended meanwhile */
	}
	stage->looks++;
	stage->checked_ms = sim_now_ms();
	stage->checked_changes = world_changes(stage->world);
	for (int i = 0; i < sim_agent_count(); i++) {
		json_t *status = sim_agent_ask(stage->agents[i], "/v1/agent", answers_read_json);
		if (!status && sim_agent_is_running(stage->agents[i])) {
			sim_fail("agent %d does not say how it is", i);
		} else if (status) {
			sim_drain_check(sim_agent_drain_of(stage->agents[i]), i,
				json_object_get(status, "drain"));
		}
		components[i] = json_incref(json_object_get(status, "components"));
		json_decref(status);
	}
	for (int i = 0; i < SIM_AGENTS; i++) {
		check_own(stage, i);
		if (sim_has_bridge()) {
			check_forbidden(stage, i);
		}
		check_stream(stage, i);
		stage->steady[i] = holds_own(stage, i) && sim_agent_serves(stage->agents[i]);
	}
	check_shared(stage);
	if (sim_has_bridge()) {
		check_stream(stage, SIM_HOST);
	} else {
		followers_check(stage);
	}
	for (int i = 0; i < sim_agent_count(); i++) {
		json_decref(components[i]);
	}
}

bool oracle_check(struct stage *stage, bool ends)
{
	if (!is_due(stage, ends)) {
		return false;
	}
	/* The questions make the agents read, and their answers must not be the next fault. */
	net_spare_allocations(stage->net, true);
	look(stage);
	net_spare_allocations(stage->net, false);
	return true;
}
