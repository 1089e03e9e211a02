"""Bugs that the simulation has to find, planted one at a time.

Each was in this tree, in ZooKeeper's clients or in an agent that this one replaces, or is what
users of such agents complain about. A bug is a source, the text that is there exactly once, and the
text that takes its place: a change of the source that moves the text makes the list fail. Where two
places of the source prevent the bug, `more` has the second one. `world` has the options of
tests/sim/sim for the world in which it shows.
"""

import dataclasses


@dataclasses.dataclass
class Bug:
    name: str
    source: str
    text: str
    planted: str
    more: dict[str, str] = dataclasses.field(default_factory=dict)
    world: tuple[str, ...] = ()

    def plant(self, source):
        """The text of the source with the bug."""
        for text, planted in {self.text: self.planted, **self.more}.items():
            if source.count(text) != 1:
                raise ValueError(f"{self.source} holds this {source.count(text)} times:\n{text}")
            source = source.replace(text, planted)
        return source


ON_HOST = ("--bridge",)

BUGS = [
    Bug(
        "the record is set on the node of a session that is about to end",
        "lib/registry/bind.c",
        "bool same_kind = request->ephemeral ? present->own : !present->ephemeral;",
        "bool same_kind = request->ephemeral ? present->ephemeral : !present->ephemeral;",
    ),
    Bug(
        "the node of another client is taken over",
        "agent/component/decision.c",
        """		break;
	}
	return view->takeover ? ANNOUNCE_DO_TAKE_OVER : ANNOUNCE_DO_REFUSE;
}

static enum announce_action decide_down""",
        """		break;
	}
	return ANNOUNCE_DO_TAKE_OVER;
}

static enum announce_action decide_down""",
    ),
    Bug(
        "watches that were lost with the connection are not set again",
        "lib/registry/watched_read.c",
        "want_confirmation(LIST_ITEM(at, struct registry_watched, link));",
        "(void)want_confirmation;",
    ),
    Bug(
        "an announced change that was not read yet does not count",
        "lib/registry/watched_read.c",
        """			watched_doubt_begin(watched, watched->leader);
			watched_want_read(watched);""",
        "			watched_want_read(watched);",
    ),
    Bug(
        "a state that follows from another read counts before its users have it",
        "lib/registry/watched_list.c",
        "	watched_doubt_begin(watched, watched->leader);\n"
        "	registry_value_release(watched->next);",
        "	registry_value_release(watched->next);",
    ),
    Bug(
        "a record that another client has deleted is not made again",
        "agent/component/reconcile.c",
        """	} else if (result->err.code == BERTH_PATH_NOT_FOUND) {
		announce_forget_node(announce, ANNOUNCE_NODE_ABSENT);""",
        """	} else if (result->err.code == BERTH_PATH_NOT_FOUND) {
		if (announce->was_ours) {
			return;
		}
		announce_forget_node(announce, ANNOUNCE_NODE_ABSENT);""",
    ),
    Bug(
        "the record of a component that is down comes back with the connection",
        "agent/component/announce.c",
        "		announce->retry_ms = ANNOUNCE_RETRY_FIRST_MS;\n"
        "		if (!announce->watch ||",
        """		announce->retry_ms = ANNOUNCE_RETRY_FIRST_MS;
		announce->wish = announce->wanted.data.bytes ? ANNOUNCE_UP : announce->wish;
		if (!announce->watch ||""",
    ),
    Bug(
        "a stream misses the deletion of a node that was in the cache's snapshot",
        "agent/cache/entry.c",
        "	entry->existed = cache_entry_exists(entry);\n	entry->true_at_ms = true_at_ms;",
        "	entry->true_at_ms = true_at_ms;",
    ),
    Bug(
        "without memory an answer lacks a part",
        "agent/agent.c",
        "	json_set_alloc_funcs(allocate_for_json, free);",
        "	(void)allocate_for_json;",
    ),
    Bug(
        "a path that its parent's list names again stays absent",
        "lib/registry/watched_list.c",
        """		} else if (implied_by(leader, follower) == IMPLIED_NOTHING) {
			watched_want_read(follower);
""",
        """		} else if (implied_by(leader, follower) == IMPLIED_NOTHING) {
			if (!follower->value || registry_value_exists(follower->value)) {
				watched_want_read(follower);
			}
""",
    ),
    Bug(
        "the age of a saved answer follows a wall clock that was set back",
        "agent/cache/snapshot.c",
        "return same ? wall + (double)(now_ms - saved_ms) / 1e3 : clock_wall_s();",
        "return same ? clock_wall_s() : clock_wall_s();",
    ),
    Bug(
        "nobody hears of the end of a path that a list lacks",
        "lib/registry/watched_list.c",
        "	watched_deliver_later(watched);\n"
        "	if (watched->kind == REGISTRY_WATCH_CHILDREN) {",
        "	if (watched->kind == REGISTRY_WATCH_CHILDREN) {",
    ),
    Bug(
        "a record comes back with the list that names its path again",
        "lib/registry/watched_list.c",
        "	if (was_there(first, list->serial)) {",
        "	if (was_there(first, list->serial) && !first) {",
    ),
    Bug(
        "a path is shown before the list that names it",
        "lib/registry/watched_list.c",
        "		return has_failed && (!there || said != SAID_ABSENT) ? AGREED : HELD;",
        "		return has_failed || there ? AGREED : HELD;",
    ),
    Bug(
        "the records of a directory outlive a change of one of them",
        "agent/cache/ask.c",
        "		if (cache_answer_is_composite(answer)) {\n"
        "			drop(answer);",
        "		if (answer->kind == CACHE_ENDPOINTS) {\n"
        "			drop(answer);",
    ),
    Bug(
        "an answer's age begins when the connection was lost, not when the registry was last heard",
        "agent/cache/entry.c",
        "		entry->true_at_ms = heard_ms;",
        "		entry->true_at_ms = clock_monotonic_ms() + 0 * heard_ms;",
    ),
    Bug(
        "a doubted value counts as true until the registry goes away",
        "agent/cache/entry.c",
        "	if (entry->state == CACHE_LIVE) {\n		entry->true_at_ms = heard_ms;",
        "	if (entry->state >= CACHE_DOUBTED) {\n		entry->true_at_ms = heard_ms;",
    ),
    Bug(
        "a first list ends no doubt of what it lacks",
        "agent/cache/entry.c",
        "		end_doubts(list, next);",
        "		(void)end_doubts;",
    ),
    Bug(
        "a HIT needs no confirmation",
        "agent/cache/heard.c",
        "bool confirmed = heard_ms >= not_before_ms;",
        "bool confirmed = heard_ms >= not_before_ms || now_ms > 0;",
    ),
    Bug(
        "an upgrade ends the session",
        "agent/life/upgrade.c",
        "agent->leave_session = agent->upgrade->same_registry;",
        "agent->leave_session = false;",
    ),
    Bug(
        "a reload does not change the record",
        "agent/component/decision.c",
        "return view->likeness == ANNOUNCE_LIKE_BYTES ? ANNOUNCE_DO_NOTHING\n",
        "return view->likeness >= ANNOUNCE_LIKE_ID ? ANNOUNCE_DO_NOTHING\n",
    ),
    Bug(
        "a successor does not look for the numbered node of its predecessor",
        "agent/component/announce.c",
        "	announce->may_be_lost = options->may_be_registered;\n",
        "",
    ),
    Bug(
        "an imported member that has left stays",
        "lib/registry/registry.c",
        "		registry_mounts_notified(core, here, kind, gone);\n",
        "",
    ),
    Bug(
        "a set keeps a member that has left",
        "agent/set/place.c",
        "	} else if (event == CACHE_DELETED) {\n		drop(place, path);",
        "	} else {\n		(void)drop;",
    ),
    Bug(
        "a set that does not show a change is as young as what changed",
        "agent/set/evaluate.c",
        "	set_keep_age(followed, was_true_at_ms);\n",
        "	(void)was_true_at_ms;\n",
    ),
    Bug(
        "a writer of sets leaves out a member by a rule of its own",
        "agent/set/picture.c",
        "{ { from, members, set->count }, members };",
        "{ { from, members, set->count - (set->count > 1) }, members };",
    ),
    Bug(
        "each run of a command leaves a descriptor open",
        "agent/command/command.c",
        "	for (int i = 0; i < 3; i++) {\n		if (files[i] >= 0 && (i == 0",
        "	for (int i = 2; i < 3; i++) {\n		if (files[i] >= 0 && (i == 0",
    ),
    Bug(
        "a check that hangs has no result",
        "agent/command/command.c",
        "	timer_start(&command->timer, TERM_TO_KILL_MS);\n"
        "	report(command, COMMAND_TIMED_OUT, 0);",
        "	timer_start(&command->timer, TERM_TO_KILL_MS);",
    ),
    Bug(
        "a component is registered before its first check",
        "agent/component/verdict.c",
        "		verdict.wish = ANNOUNCE_KEEP;\n		name_all(&verdict, checks, count, "
        "CHECK_STATE_PENDING);",
        "		name_all(&verdict, checks, count, CHECK_STATE_PENDING);",
    ),
    Bug(
        "a write that was refused is not tried again",
        "agent/component/reconcile.c",
        "		announce_set_failed(announce, err);\n	}\n	retry_later(announce);",
        "		announce_set_failed(announce, err);\n	}\n	(void)retry_later;",
    ),
    Bug(
        "an answer counts for the newest question, and another answer ends the wait for it",
        "lib/registry/zookeeper/link.c",
        """	(void)take_answer(zk, rc, sent_ms);
""",
        """	if (take_answer(zk, rc, sent_ms) && zk->contact == REGISTRY_ZK_ASKED &&
		sent_ms >= zk->asked_ms) {
		zk->contact = REGISTRY_ZK_HEARD;
	}
""",
        {
            """	if (zk->contact != REGISTRY_ZK_ASKED || !take_answer(zk, rc, zk->asked_ms)) {
""": """	if (!take_answer(zk, rc, zk->asked_ms)) {
""",
        },
    ),
    Bug(
        "known lists fail while the registry is away",
        "agent/cache/need.c",
        "	if (!usable) {\n		need->unavailable++;",
        "	if (!usable || (kind == CACHE_CHILDREN && !cache_reachable(store->heard))) {\n"
        "		need->unavailable++;",
    ),
    Bug(
        "an output writes what is not confirmed",
        "agent/set/place.c",
        "place->state == SET_PLACE_KNOWN && place->observer.state == CACHE_OBSERVER_LIVE;",
        "place->state == SET_PLACE_KNOWN;",
    ),
    Bug(
        "the age of a stale answer is ten times too high",
        "agent/api/lookup.c",
        "cache_answer_age_ms(cache, answer, now_ms) + 999) / 1000)",
        "cache_answer_age_ms(cache, answer, now_ms) + 99) / 100)",
    ),
    Bug(
        "a stream never says that it is stale",
        "agent/api/watch.c",
        "	api_stream_send(&watch->stream, names[event],\n		path "
        "? buffer_text(&members) : api_stream_heard(watch->stream.cache, heard));",
        "	if (path) {\n"
        "		api_stream_send(&watch->stream, names[event], buffer_text(&members));\n	}",
        {"watch_of(stream)->observer.state == CACHE_OBSERVER_STALE": "!stream"},
    ),
    Bug(
        "a read that has timed out is not tried again",
        "lib/registry/watched_read.c",
        "	if (code && code != BERTH_PATH_NOT_FOUND &&",
        "	if (code && code != BERTH_PATH_NOT_FOUND && code != BERTH_TIMEOUT &&",
    ),
    Bug(
        "a stale answer has the age of its newest part",
        "agent/cache/need.c",
        "	if (!need->stale || entry->true_at_ms < need->true_at_ms) {",
        "	if (!need->stale || entry->true_at_ms > need->true_at_ms) {",
    ),
    Bug(
        "a read that has failed counts as true now",
        "agent/cache/entry.c",
        "	entry->true_at_ms = entry->value ? cache_entry_true_at_ms(entry) : 0;",
        "	entry->true_at_ms = clock_monotonic_ms();",
    ),
    Bug(
        "a look-up that waits for a read as well is a hit however long it waited",
        "agent/api/lookup.c",
        "	bool hits = lookup->confirming &&\n"
        "		cache_answer_confirmed(cache, answer, -1, clock_monotonic_ms());",
        "	bool hits = lookup->confirming;",
    ),
    Bug(
        "a stream is fresh before the changes that were announced are read",
        "agent/cache/follow.c",
        "(!stale || !is_confirmed(follow->heard, clock_monotonic_ms()))) {",
        "!stale) {",
    ),
    Bug(
        "a stream is fresh before the records of new paths are read",
        "agent/cache/follow.c",
        "	bool expected = each_observer(follow, node, hears_of_children, NULL);",
        "	bool expected = false;\n	(void)hears_of_children;",
    ),
    Bug(
        "an output does not wait for the record of a path that is listed",
        "agent/cache/picture.c",
        "	if (!data || !data->value) { /* a list",
        "	if (false) { /* a list",
    ),
    Bug(
        "a name of which nothing is known does not exist",
        "agent/set/evaluate.c",
        "\t\treturn NAMES_NODE_UNKNOWN;",
        "\t\treturn NAMES_NODE_ABSENT;",
    ),
    Bug(
        "the lease of the map counts from when it is extended, not from when the server was heard",
        "agent/cache/cache.c",
        "? cache_heard_ms(heard, now_ms) + cache_heard_bound_ms(heard)",
        "? now_ms + cache_heard_bound_ms(heard)",
    ),
    Bug(
        "a path in doubt stays in the map, whose lease is extended meanwhile",
        "agent/cache/cache.c",
        "? cache_heard_ms(heard, now_ms) + cache_heard_bound_ms(heard)",
        "? registry_server_heard_ms(heard->registry, now_ms) + cache_heard_bound_ms(heard)",
        {
            '#include "agent/cache/parts.h"':
            '#include "agent/cache/parts.h"\n#include "lib/registry/internal.h"',
        },
    ),
    Bug(
        "the map is updated after the streams",
        "agent/cache/cache.c",
        "	touch(cache, node);\n	cache_answers_drop(&cache->answers, node, kind);",
        "	is_late = true;\n	cache_answers_drop(&cache->answers, node, kind);",
        {
            "static void forget(struct cache *cache": "static bool is_late;\n\n"
            "static void forget(struct cache *cache",
            "static void on_more(void *context)\n{\n	struct cache *cache = context;\n":
            "static void on_more(void *context)\n{\n	struct cache *cache = context;\n"
            "	for (struct cache_node *node = cache_node_next(&cache->table, NULL);\n"
            "		node && is_late; node = cache_node_next(&cache->table, node)) {\n"
            "		touch(cache, node);\n	}\n"
            "	is_late = false;\n",
            "	evict(cache);\n	cache_queue_run(":
            "	if (is_late) {\n		cache_go_on(&cache->turn);\n	}\n"
            "	evict(cache);\n	cache_queue_run(",
        },
    ),
    Bug(
        "the map is not retired when the agent is upgraded",
        "agent/life/upgrade.c",
        "	shared_destroy(agent->shared);",
        "	cache_set_touched(agent->cache, NULL, NULL);",
    ),
    Bug(
        "a block of the map is used again, and the sequence of its slot is as before",
        "agent/shared/map.c",
        "load(&slot[SHARED_S_SEQUENCE]) + 1, memory_order_release);",
        "load(&slot[SHARED_S_SEQUENCE]) - 1, memory_order_release);",
    ),
    Bug(
        "a dead container's record comes back after the bridge's restart",
        "agent/bridge/bridge.c",
        "		bridge->compared = true;\n"
        "		bridge_publish_forsake(bridge->publish, is_spared, bridge);",
        "		bridge->compared = true;\n		(void)is_spared;",
        {"	expect_inherited(bridge, container);": "	(void)expect_inherited;"},
        world=ON_HOST,
    ),
    Bug(
        "the records of a container that went while the bridge was away stay",
        "agent/bridge/bridge.c",
        "		bridge->compared = true;\n"
        "		bridge_publish_forsake(bridge->publish, is_spared, bridge);",
        "		bridge->compared = true;\n		(void)is_spared;",
        world=ON_HOST,
    ),
    Bug(
        "a bridge that starts takes out the records of living containers",
        "agent/bridge/publish.c",
        "		if (post->state == POST_INHERITED &&\n"
        "			!is_spared(context, post->path, post->account->container)) {",
        "		if (post->state != POST_LEAVING) {\n(void)is_spared;\n(void)context;",
        world=ON_HOST,
    ),
    Bug(
        "a bridge that starts again knows of no path of its predecessor's",
        "agent/bridge/bridge.c",
        "		.inherited = environment->inherited,\n		.parents",
        "		.parents",
        world=ON_HOST,
    ),
    Bug(
        "the policy is forgotten at a reload",
        "agent/bridge/bridge.c",
        "set_policy(bridge, bridge->containers[i]);\n	}\n	arrange_runtimes(bridge);",
        "(void)set_policy;\n	}\n	arrange_runtimes(bridge);",
        world=ON_HOST,
    ),
    Bug(
        "a record that a new policy refuses stays",
        "agent/bridge/claims.c",
        "	bridge_claims_release(claims, claim, why);\n	claim->changed = true;",
        "	claim->changed = true;",
        world=ON_HOST,
    ),
    Bug(
        "the policy of the first container is that of all",
        "agent/bridge/bridge.c",
        "bridge_policy_find(bridge->config, bridge_container_full_name(container)),",
        "bridge_policy_find(bridge->config, bridge_container_full_name(bridge->count\n"
        "				? bridge->containers[0] : container)),",
        world=ON_HOST,
    ),
    Bug(
        "two containers' identities are swapped: the announcements are anybody's",
        "agent/bridge/publish.c",
        "	return strcmp(post->account->container, container) == 0;",
        "	return strlen(post->account->container) == strlen(container);",
        world=ON_HOST,
    ),
    Bug(
        "two containers' identities are swapped: a socket is anybody's after an upgrade",
        "agent/bridge/socket.c",
        "if (socket->fd >= 0 && strcmp(socket->container, name) == 0) {",
        "if (socket->fd >= 0) {",
        world=ON_HOST,
    ),
    Bug(
        "a container that has gone leaves its records",
        "agent/bridge/bridge.c",
        "	bridge_container_destroy(bridge->containers[at], true);",
        "	bridge_container_destroy(bridge->containers[at], false);",
        world=ON_HOST,
    ),
    Bug(
        "the end of an owner is seen by the next look without an event alone",
        "agent/bridge/container.c",
        "		container->look_at_ms = now_ms;\n",
        "",
        world=ON_HOST,
    ),
    Bug(
        "a container's first answers have no age",
        "lib/registry/host/host.c",
        "		hear(host, host->first_heard_ms);",
        "		(void)host->first_heard_ms;",
        world=ON_HOST,
    ),
    Bug(
        "a silence lasts until the next look-up",
        "agent/cache/heard.c",
        "		timer_start(&heard->again, AGAIN_MS);",
        "		(void)AGAIN_MS;",
        world=ON_HOST,
    ),
    Bug(
        "a container takes its own lock for the registration",
        "agent/component/outcome.c",
        "	enum announce_state state = outcome->hosted ? state_of(outcome, own) : own;",
        "	enum announce_state state = own;\n	(void)state_of;",
        world=ON_HOST,
    ),
    Bug(
        "a drain with an end never ends",
        "agent/registration/drain.c",
        "	if (end > 0) {\n		ev_periodic_set",
        "	if (end < 0) {\n		ev_periodic_set",
    ),
    Bug(
        "a restart does not know of a drain",
        "agent/registration/drain.c",
        "	if (any) {\n		state_dir_save",
        "	if (any && !agent) {\n		state_dir_save",
    ),
    Bug(
        "a drain that is handed over has no end",
        "agent/base/drain.c",
        ".until = json_number_value(until)",
        ".until = 0 * json_number_value(until)",
    ),
    Bug(
        "a container keeps what a reload no longer allows",
        "agent/bridge/container.c",
        "	container->dirty = true;\n}\n\nvoid bridge_container_doubt",
        "}\n\nvoid bridge_container_doubt",
        world=ON_HOST,
    ),
]
