#include "tests/sim/oracle.h"

#include <string.h>

#include "lib/base/path.h"
#include "tests/sim/sim.h"

/*
 * The bound: a session's timeout and a tenth, a check's interval and timeout, and the pause after a
 * refusal or before a conflict is looked at again.
 */
enum { SETTLED_MS = 60 * SIM_SECOND };

static bool is_calm(const struct stage *stage)
{
	int64_t from_ms = stage->calm_from_ms;
	for (int i = 0; i < SIM_AGENTS; i++) {
		int64_t agent_ms = sim_agent_disturbed_ms(stage->agents[i]);
		from_ms = agent_ms > from_ms ? agent_ms : from_ms;
	}
	return sim_now_ms() >= from_ms + SETTLED_MS;
}

static const char *state_of(const struct sim_agent *agent, enum sim_agent_component component)
{
	return announce_state_name(sim_agent_state(agent, component));
}

static bool wants_record(const struct sim_agent *agent)
{
	return sim_agent_is_running(agent) && sim_agent_health(agent) == SIM_WORKS;
}

/* A node that an agent holds is as its configuration says, and the agent says so too. */
static void check_held(const struct stage *stage, int number, enum sim_agent_component component,
	const struct world_node *node)
{
	const struct sim_agent *agent = stage->agents[number];
	if (node->session != net_session(stage->net, number)) {
		sim_fail("%s is held by another session than that of agent %d", node->path, number);
	} else if (!strstr(node->data, sim_agent_mark(agent))) {
		sim_fail("%s is not as agent %d wants it: %s", node->path, number, node->data);
	} else if (sim_agent_state(agent, component) != ANNOUNCE_REGISTERED) {
		sim_fail("%s is there, and agent %d says %s", node->path, number,
			state_of(agent, component));
	}
}

static void check_own(const struct stage *stage, int number)
{
	const struct sim_agent *agent = stage->agents[number];
	char path[64] = "/users/joe/web/prod/components/c0";
	path[strlen(path) - 1] = (char)('0' + number);
	const struct world_node *node = world_node(stage->world, path);
	bool wanted = wants_record(agent);
	if (node && node->owner == number && wanted) {
		check_held(stage, number, SIM_OWN, node);
	} else if (node && node->owner == number) {
		sim_fail("%s is there, and its component is not up", path);
	} else if (!node && wanted) {
		sim_fail("%s is not there, and agent %d says %s", path, number,
			state_of(agent, SIM_OWN));
	} else if (sim_agent_is_running(agent)) {
		enum announce_state expected = node && wanted ? ANNOUNCE_CONFLICT
							      : ANNOUNCE_WITHDRAWN;
		if (sim_agent_state(agent, SIM_OWN) != expected) {
			sim_fail("agent %d says %s of %s, not %s", number, state_of(agent, SIM_OWN),
				path, announce_state_name(expected));
		}
	}
}

/* Of those who want it, one has it, and the others say so. */
static void check_shared(const struct stage *stage)
{
	const struct world_node *node = world_node(stage->world, "/services/leader");
	int wanted = 0;
	for (int i = 0; i < SIM_AGENTS; i++) {
		const struct sim_agent *agent = stage->agents[i];
		wanted += wants_record(agent);
		if (node && node->owner == i && wants_record(agent)) {
			check_held(stage, i, SIM_SHARED, node);
		} else if (node && node->owner == i) {
			sim_fail(
				"%s belongs to agent %d, whose component is not up", node->path, i);
		} else if (node && wants_record(agent) &&
			sim_agent_state(agent, SIM_SHARED) != ANNOUNCE_CONFLICT) {
			sim_fail("%s is another's, and agent %d says %s", node->path, i,
				state_of(agent, SIM_SHARED));
		}
	}
	if (!node && wanted > 0) {
		sim_fail("nobody has /services/leader, which %d want", wanted);
	}
}

/* The replayed events of a stream must agree with the registry. */
static void check_stream(const struct stage *stage, int number)
{
	const struct sim_agent *agent = stage->agents[number];
	size_t count = 0;
	if (!sim_agent_is_running(agent)) {
		return;
	}
	if (!sim_agent_stream_ready(agent)) {
		sim_fail("the stream of agent %d has not begun", number);
		return;
	}
	for (size_t i = 0; i < world_count(stage->world); i++) {
		const struct world_node *node = world_node_at(stage->world, i);
		if (!path_is_under(node->path, "/users")) {
			continue;
		}
		count++;
		const char *record = sim_agent_stream_record(agent, node->path);
		bool is_record = strstr(node->data, "JSONServiceRecord");
		if (!record || strcmp(record, is_record ? node->data : "null") != 0) {
			sim_fail("the stream of agent %d has for %s: %s, and the registry: %s",
				number, node->path, record ? record : "nothing", node->data);
		}
	}
	if (count != sim_agent_stream_count(agent)) {
		sim_fail("the stream of agent %d has %zu paths, and the registry %zu", number,
			sim_agent_stream_count(agent), count);
	}
}

bool oracle_check(const struct stage *stage)
{
	if (!is_calm(stage)) {
		return false;
	}
	for (int i = 0; i < SIM_AGENTS; i++) {
		check_own(stage, i);
		check_stream(stage, i);
	}
	check_shared(stage);
	return true;
}
