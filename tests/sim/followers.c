#include "tests/sim/followers.h"

#include <arpa/nameser.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/path.h"
#include "tests/sim/addresses.h"
#include "tests/sim/answers.h"
#include "tests/sim/sim.h"

#define IMPORT_TARGET "/v1/list/imported/web"
#define NAME_TARGET "/v1/names/" ADDRESSES_NAME "?type=A"
#define MEMBERS "//discovery/web"

/* Below each a registered component has one node. */
static const char *const groups[] = { MEMBERS, "//curator/web", "//services/web", "//nerve/web",
	SIM_SHARED_NODE };

/* Agents that hold their own record, and all records of components, whosever they are. */
static bool holds_own(const struct stage *stage, int number)
{
	const struct world_node *node = world_node(
		stage->world, sim_agent_path(stage->agents[number], SIM_OWN));
	return node && node->owner == number;
}

/* ---- dialects ---- */

static int count_members(const struct stage *stage, const char *group, int owner)
{
	int count = 0;
	size_t len = strlen(group);
	for (size_t i = 0; i < world_count(stage->world); i++) {
		const struct world_node *node = world_node_at(stage->world, i);
		count += strncmp(node->path, group, len) == 0 && node->path[len] == '/' &&
			(owner == WORLD_STRANGER || node->owner == owner);
	}
	return count;
}

static void check_dialects(const struct stage *stage, int number)
{
	const struct sim_agent *agent = stage->agents[number];
	bool up = sim_agent_serves(agent);
	if (up && !holds_own(stage, number)) {
		return; /* a conflict */
	}
	for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
		int members = count_members(stage, groups[i], number);
		if (members != up) {
			sim_fail("agent %d is %s, and has %d nodes below %s", number,
				up ? "up" : "not up", members, groups[i]);
		}
	}
}

/* The members of the group, as the agent shows them. */
static void check_import(const struct stage *stage, int number)
{
	json_t *list = sim_agent_ask(stage->agents[number], IMPORT_TARGET, answers_read_json);
	size_t expected = (size_t)count_members(stage, MEMBERS, WORLD_STRANGER);
	if (json_array_size(list) != expected) {
		sim_fail("agent %d shows %zu imported members, and there are %zu", number,
			json_array_size(list), expected);
	}
	json_decref(list);
}

/* ---- names and outputs ---- */

static bool any_record(const struct stage *stage)
{
	for (int i = 0; i < SIM_AGENTS; i++) {
		if (holds_own(stage, i)) {
			return true;
		}
	}
	return false;
}

static void check_name(const struct stage *stage, int number)
{
	json_t *answer = sim_agent_ask(stage->agents[number], NAME_TARGET, answers_read_json);
	char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
	if (text && json_object_get(answer, "addresses")) {
		addresses_check(stage->world, number, "name", text, sim_now_ms());
	} else if (any_record(stage)) {
		sim_fail("agent %d does not know the name: %s", number, text ? text : "no answer");
	}
	free(text);
	json_decref(answer);
}

static void check_dns(const struct stage *stage, int number, bool tcp)
{
	const char *what = tcp ? "DNS answer over TCP" : "DNS answer over UDP";
	struct question_answer answer = sim_agent_ask_name(stage->agents[number], tcp);
	if (answer.code != ns_r_noerror && (answer.code != ns_r_nxdomain || any_record(stage))) {
		sim_fail("the %s of agent %d has code %d", what, number, answer.code);
	} else if (answer.stale) {
		sim_fail("the %s of agent %d is stale, and all is calm", what, number);
	} else if (answer.code == ns_r_noerror) {
		addresses_check(stage->world, number, what, answer.text, sim_now_ms());
	}
}

/* The last instance stays in the file: when_empty = keep, min_instances. */
static void check_output(const struct stage *stage, int number)
{
	if (any_record(stage)) {
		addresses_check(stage->world, number, "output",
			sim_agent_output(stage->agents[number]), sim_now_ms());
	}
}

void followers_prepare(const struct stage *stage)
{
	for (int i = 0; i < SIM_AGENTS; i++) {
		sim_agent_ask(stage->agents[i], IMPORT_TARGET, NULL);
		sim_agent_ask(stage->agents[i], NAME_TARGET, NULL);
	}
}

void followers_check(const struct stage *stage)
{
	for (int i = 0; i < SIM_AGENTS; i++) {
		check_dialects(stage, i);
		if (!sim_agent_is_running(stage->agents[i])) {
			continue;
		}
		check_import(stage, i);
		check_output(stage, i);
		check_dns(stage, i, false);
		/* The other ways to the same answer: an agent in each look. */
		if (stage->looks % SIM_AGENTS == (unsigned)i) {
			check_name(stage, i);
			check_dns(stage, i, true);
		}
	}
}
