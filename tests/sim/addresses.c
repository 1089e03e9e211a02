#include "tests/sim/addresses.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

static void make(struct world *world, const char *path, const char *data)
{
	static const struct world_client stranger = { .agent = WORLD_STRANGER };
	struct registry_task task = { .operation = REGISTRY_OP_CREATE, .path = path, .data = data };
	task.len = strlen(data);
	world_apply(world, &stranger, &task);
	free(task.ret_data);
}

void addresses_make_lasting(struct world *world)
{
	static const char record[] =
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"a\",\"addressType\":"
		"\"host/port\",\"protocol\":\"http\",\"addresses\":[{\"host\":\"10.1.0.1\","
		"\"port\":\"80\"}]}],\"internal\":[],\"yarn:persistence\":\"permanent\"}";
	make(world, "/", "");
	make(world, "/lasting", "");
	for (unsigned i = 0; i < ADDRESSES_LASTING; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/lasting/n%u", i);
		make(world, path, record);
	}
}

const char *addresses_lasting_name(unsigned number)
{
	static char name[32];
	snprintf(name, sizeof(name), "n%u.lasting.berth", number);
	return name;
}

void addresses_check_each(const struct world *world, int agent, const char *what, const char *text,
	int64_t has_not_before_ms, int64_t lacks_not_before_ms)
{
	for (int i = 0; i < SIM_AGENTS; i++) {
		char path[64];
		char address[16];
		snprintf(path, sizeof(path), "/users/joe/web/prod/components/c%d", i);
		snprintf(address, sizeof(address), "10.0.0.%d", i + 1);
		bool has = strstr(text, address) != NULL;
		int64_t true_ms = world_last_held_ms(world, path, address, has);
		int64_t not_before_ms = has ? has_not_before_ms : lacks_not_before_ms;
		if (true_ms < not_before_ms) {
			sim_fail("the %s of agent %d %s %s, last true %lld ms ago, not %lld: %s",
				what, agent, has ? "has" : "lacks", address,
				true_ms == INT64_MIN ? -1LL : (long long)(sim_now_ms() - true_ms),
				(long long)(sim_now_ms() - not_before_ms), text);
		}
	}
}

void addresses_check(const struct world *world, int agent, const char *what, const char *text,
	int64_t not_before_ms)
{
	addresses_check_each(world, agent, what, text, not_before_ms, not_before_ms);
}
