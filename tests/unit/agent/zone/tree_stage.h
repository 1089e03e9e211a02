/*
 * A domain of Registrar's, z.org, in a registry in memory, and its tree: the service web with two
 * instances. Nothing happens but when a test says so.
 */
#ifndef TESTS_UNIT_AGENT_ZONE_TREE_STAGE_H
#define TESTS_UNIT_AGENT_ZONE_TREE_STAGE_H

#include <criterion/criterion.h>

#include "agent/zone/answer.h"
#include "tests/support/memory_backend.h"

#define HOST(address) "{\"type\":\"moray_host\",\"moray_host\":{\"address\":\"" address "\"}}"
#define SERVICE                                                                                    \
	"{\"type\":\"service\",\"service\":{\"srvce\":\"_x\",\"proto\":\"_tcp\",\"port\":8}}"

struct stage {
	struct registry *registry;
	struct zone_tree *tree;
	unsigned settled;
};

static inline void on_settled(void *context)
{
	struct stage *stage = context;
	stage->settled++;
	cr_expect(zone_tree_settled(stage->tree));
}

static inline void turn(struct stage *stage)
{
	for (int i = 0; i < 20; i++) {
		registry_dispatch(stage->registry, 0);
	}
}

static inline void open_stage(struct stage *stage, size_t max_nodes)
{
	const struct registry_options options = { .foreign_paths = true };
	*stage = (struct stage){ .registry = memory_open("zone", &options) };
	memory_put(stage->registry, "//org", "");
	memory_put(stage->registry, "//org/z", "");
	memory_put(stage->registry, "//org/z/web", SERVICE);
	memory_put(stage->registry, "//org/z/web/a", HOST("10.0.0.1"));
	memory_put(stage->registry, "//org/z/web/b", HOST("10.0.0.2"));
	stage->tree = zone_tree_create(stage->registry, "z.org", max_nodes, on_settled, stage);
	cr_expect_not(zone_tree_settled(stage->tree));
	turn(stage);
}

static inline void close_stage(struct stage *stage)
{
	zone_tree_destroy(stage->tree);
	registry_close(stage->registry);
}

#endif
