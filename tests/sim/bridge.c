#include "tests/sim/bridge.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

/*
 * A node that was on its way when its owner died may still be made: each request takes up to five
 * seconds of a slow registry, and the host's agent may have been away.
 */
enum { MOST_ON_ITS_WAY_MS = 30 * SIM_SECOND };

/* The digit of a member of the record; -1: there is no such member. */
static int digit_of(const struct world_node *node, const char *member, size_t skip)
{
	const char *at = strstr(node->data, member);
	size_t len = strlen(member) + skip;
	return at && strlen(at) > len ? at[len] - '0' : -1;
}

int bridge_container_of(const struct world_node *node)
{
	return digit_of(node, "\"mark\":\"", 1);
}

static void look_at(const struct world_node *node, int number)
{
	if (!node || node->owner != SIM_HOST || node->writer != SIM_HOST) {
		return;
	}
	int container = bridge_container_of(node);
	int pinned = digit_of(node, "\"host\":\"h", 0);
	if (container < 0 || container != pinned || (number >= 0 && container != number)) {
		sim_fail("%s has the record of container %d with the attributes of %d: %s",
			node->path, container, pinned, node->data);
	}
}

void bridge_watch(const struct stage *stage)
{
	const struct world_node *forbidden = world_node(stage->world, SIM_FORBIDDEN);
	for (int i = 0; i < SIM_AGENTS; i++) {
		look_at(world_node(stage->world, sim_agent_path(stage->agents[i], SIM_OWN)), i);
	}
	look_at(world_node(stage->world, sim_agent_path(stage->agents[0], SIM_SHARED)), -1);
	if (forbidden) {
		sim_fail("%s is there, which no policy allows", forbidden->path);
	}
}

static bool holds(const struct stage *stage, int number)
{
	const struct world_node *node = world_node(
		stage->world, sim_agent_path(stage->agents[number], SIM_OWN));
	return node && node->owner == SIM_HOST;
}

void bridge_watch_ends(struct stage *stage)
{
	for (int i = 0; i < SIM_AGENTS; i++) {
		if (stage->gone_ms[i] && stage->gone_ms[i] <= sim_now_ms()) {
			stage->gone_ms[i] = 0;
			if (holds(stage, i)) {
				sim_fail("the record of agent %d, killed or not allowed, stays", i);
			}
		}
	}
}

void bridge_watch_return(const struct stage *stage, int number)
{
	int64_t down_ms = sim_agent_down_ms(stage->agents[number]);
	if (down_ms < sim_now_ms() - MOST_ON_ITS_WAY_MS) {
		sim_fail("the record of agent %d comes back %lld ms after its end", number,
			(long long)(sim_now_ms() - down_ms));
	}
}
