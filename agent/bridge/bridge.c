/* The bridge's life, its directory, and whose turn it is to be looked at. */
#include "agent/bridge/bridge_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/bridge/claim.h"
#include "agent/bridge/policy.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "lib/looker/protocol.h"

enum {
	MOST_CONTAINERS = 1024,
	AGAIN_MS = 1000,
	BEGIN_MS = 2000, /* for the first comparison with the containers */
	MOST_STALLED = 4 /* whose records stay until stall_limit */
};

/* For a reading of the machine's locks: at the start, and in the loop. */
#define HOLDERS_FIRST_NS INT64_C(200000000)
#define HOLDERS_NS INT64_C(5000000)

static void go_on(struct bridge *bridge);

/* ---- when ---- */

static int64_t sooner(int64_t a, int64_t b)
{
	return b < a ? b : a;
}

static bool may_list(const struct bridge *bridge, int64_t now_ms)
{
	return !bridge_looker_has_abandoned(bridge->looker, "") &&
		(bridge->relist || (bridge->list_again_ms != 0 && now_ms >= bridge->list_again_ms));
}

static void plan(struct bridge *bridge)
{
	int64_t now_ms = clock_monotonic_ms();
	int64_t due_ms = INT64_MAX;
	bool is_free = bridge->looker && bridge_looker_is_free(bridge->looker);
	for (size_t i = 0; i < bridge->count; i++) {
		const struct bridge_container *container = bridge->containers[i];
		due_ms = sooner(due_ms, bridge_container_owners_due_ms(container));
		due_ms = sooner(due_ms, bridge_container_freezer_due_ms(container));
		due_ms = is_free ? sooner(due_ms, bridge_container_due_ms(container)) : due_ms;
	}
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		const struct bridge_runtime *runtime = bridge->runtimes[i];
		for (size_t j = 0; j < bridge_runtime_guests(runtime); j++) {
			due_ms = sooner(
				due_ms, bridge_guest_due_ms(bridge_runtime_guest(runtime, j)));
		}
	}
	if (is_free && may_list(bridge, now_ms)) {
		due_ms = now_ms;
	} else if (is_free && bridge->list_again_ms != 0) {
		due_ms = sooner(due_ms, bridge->list_again_ms);
	}
	if (due_ms != INT64_MAX) {
		timer_start(&bridge->due, due_ms - now_ms);
	} else {
		timer_stop(&bridge->due);
	}
}

/* ---- containers ---- */

size_t bridge_find(const struct bridge *bridge, const char *name)
{
	size_t at = 0;
	while (at < bridge->count &&
		strcmp(bridge_container_name(bridge->containers[at]), name) != 0) {
		at++;
	}
	return at;
}

/* NULL: it has gone. */
static struct bridge_container *find_id(const struct bridge *bridge, uint64_t id)
{
	for (size_t i = 0; i < bridge->count; i++) {
		if (bridge_container_id(bridge->containers[i]) == id) {
			return bridge->containers[i];
		}
	}
	return NULL;
}

static void remove_at(struct bridge *bridge, size_t at)
{
	bridge_container_destroy(bridge->containers[at], true);
	memmove(bridge->containers + at, bridge->containers + at + 1,
		(--bridge->count - at) * sizeof(*bridge->containers));
}

static void forget_inherited(struct bridge *bridge)
{
	json_decref(bridge->inherited);
	bridge->inherited = NULL;
}

static void expect_inherited(const struct bridge *bridge, struct bridge_container *container)
{
	const char *path;
	json_t *owner;
	json_object_foreach (bridge->inherited, path, owner) {
		const char *name = json_string_value(owner);
		if (name && strcmp(name, bridge_container_name(container)) == 0) {
			bridge_container_expect(container, path);
		}
	}
	for (size_t i = 0; i < bridge->environment.owner_count; i++) {
		struct bridge_owner_file *file = &bridge->environment.owners[i];
		if (file->fd >= 0 &&
			strcmp(file->container, bridge_container_name(container)) == 0) {
			bridge_container_inherit_owner(
				container, file->path, file->fd, file->inode);
			file->fd = -1;
		}
	}
}

static void set_policy(const struct bridge *bridge, struct bridge_container *container)
{
	bridge_container_set_policy(container,
		bridge_policy_find(bridge->config, bridge_container_full_name(container)),
		&bridge->config->bridge);
}

static void add(struct bridge *bridge, const struct bridge_entry *entry)
{
	const struct bridge_container_environment environment = {
		.looker = bridge->looker,
		.publish = bridge->publish,
		.holders = &bridge->holders,
		.http = bridge->environment.http,
		.sockets = bridge->environment.sockets,
		.socket_count = bridge->environment.socket_count,
	};
	struct bridge_container *container = bridge_container_create(
		&environment, entry->name, ++bridge->last_id, entry->device, entry->inode);
	set_policy(bridge, container);
	expect_inherited(bridge, container);
	for (size_t i = 0; i < bridge->environment.abandoned_count; i++) {
		const struct bridge_abandoned *abandoned = &bridge->environment.abandoned[i];
		if (strcmp(abandoned->container, entry->name) == 0) {
			bridge_container_inherit_stall(
				container, abandoned->stalled_ms, clock_monotonic_ms());
		}
	}
	bridge->containers[bridge->count++] = container;
}

/* A subdirectory that was removed and made again is another container. */
static void take_up(struct bridge *bridge, const struct bridge_entry *entry)
{
	size_t at = bridge_find(bridge, entry->name);
	if (at < bridge->count &&
		bridge_container_is(bridge->containers[at], entry->device, entry->inode)) {
		return;
	}
	if (at < bridge->count) {
		remove_at(bridge, at);
	}
	if (bridge->count < MOST_CONTAINERS) {
		add(bridge, entry);
	} else if (!bridge->crowded) {
		log_warn("bridge", "there are more than %d containers: the others are not served",
			MOST_CONTAINERS);
		bridge->crowded = true;
	}
}

static bool is_listed(const struct bridge *bridge, const struct bridge_container *container)
{
	for (size_t i = 0; i < bridge->entry_count; i++) {
		const struct bridge_entry *entry = &bridge->entries[i];
		if (strcmp(entry->name, bridge_container_name(container)) == 0) {
			return bridge_container_is(container, entry->device, entry->inode);
		}
	}
	return false;
}

/* ---- the directory ---- */

static void take_entry(struct bridge *bridge, struct wire_frame *frame)
{
	const char *name = wire_get_text(frame);
	struct bridge_entry entry = { .device = wire_get_number(frame),
		.inode = wire_get_number(frame) };
	if (frame->bad || bridge->entry_count > MOST_CONTAINERS || !bridge_policy_is_name(name)) {
		return;
	}
	text_printf(entry.name, sizeof(entry.name), "%s", name);
	bridge->entries = allocate_grow(bridge->entries, bridge->entry_count, sizeof(entry));
	bridge->entries[bridge->entry_count++] = entry;
}

static void forget_entries(struct bridge *bridge)
{
	free(bridge->entries);
	bridge->entries = NULL;
	bridge->entry_count = 0;
}

static void take_list(struct bridge *bridge, struct wire_frame *frame)
{
	const char *error = wire_get_text(frame);
	bridge->replace = wire_get_number(frame) & LOOKER_ANOTHER;
	if (frame->bad || *error || bridge->replace) {
		bridge->list_again_ms = clock_monotonic_ms() + AGAIN_MS;
	} else {
		bridge->list_again_ms = 0;
		for (size_t i = bridge->count; i-- > 0;) {
			if (!is_listed(bridge, bridge->containers[i])) {
				remove_at(bridge, i);
			}
		}
		for (size_t i = 0; i < bridge->entry_count; i++) {
			take_up(bridge, &bridge->entries[i]);
		}
		bridge->listed = true;
	}
	forget_entries(bridge);
}

static void on_ready(void *context, const char *error)
{
	struct bridge *bridge = context;
	bool was_away = bridge->away;
	bridge->away = *error != '\0';
	text_printf(bridge->why_away, sizeof(bridge->why_away), "%s", error);
	if (bridge->away && !was_away && bridge->compared) {
		log_warn("bridge", "%s; tried again until it works", error);
	}
	bridge->relist = true;
	for (size_t i = 0; i < bridge->count; i++) {
		bridge_container_doubt(bridge->containers[i]);
	}
	go_on(bridge);
}

/* ---- the looker ---- */

static void on_frame(void *context, struct wire *wire, struct wire_frame *frame)
{
	struct bridge *bridge = context;
	struct bridge_container *container = bridge->question == CONTAINER
		? find_id(bridge, bridge->asked)
		: NULL;
	if (bridge->question == LIST && frame->type == LOOKER_ENTRY) {
		take_entry(bridge, frame);
	} else if (bridge->question == LIST && frame->type == LOOKER_LISTED) {
		take_list(bridge, frame);
	} else if (bridge->question != CONTAINER) {
		frame->bad = true;
	} else if (container) {
		bridge_container_on_frame(container, wire, frame);
	}
}

static void stall(struct bridge *bridge, struct bridge_container *container,
	enum bridge_answer answer, int64_t now_ms)
{
	bool refused = answer == BRIDGE_STALLED &&
		bridge_looker_abandoned(bridge->looker) > MOST_STALLED;
	bridge_container_on_stalled(container,
		answer == BRIDGE_STALLED ? "its directory does not answer: somebody holds it"
					 : "the process that looked at it has ended",
		refused, now_ms);
}

static void on_answer(void *context, enum bridge_answer answer)
{
	struct bridge *bridge = context;
	int64_t now_ms = clock_monotonic_ms();
	struct bridge_container *container = bridge->question == CONTAINER
		? find_id(bridge, bridge->asked)
		: NULL;
	if (bridge->question == LIST && answer != BRIDGE_ANSWERED) {
		forget_entries(bridge);
		bridge->list_again_ms = now_ms + AGAIN_MS;
	}
	bridge->question = NOTHING;
	if (container && answer != BRIDGE_ANSWERED) {
		stall(bridge, container, answer, now_ms);
	} else if (container && !bridge_container_on_looked(container, now_ms)) {
		bridge->relist = true;
		bridge->list_again_ms = 0;
	}
	if (bridge->replace) {
		bridge->replace = false;
		bridge_looker_replace(bridge->looker);
	}
	go_on(bridge);
	bridge->environment.on_change(bridge->environment.context);
}

static void on_event(void *context, uint64_t id, unsigned what, size_t count)
{
	struct bridge *bridge = context;
	struct bridge_container *container = find_id(bridge, id);
	if (container) {
		bridge_container_on_event(container, what, count, clock_monotonic_ms());
	} else if (id == 0) {
		bridge->relist = true;
	}
	for (size_t i = 0; (what & LOOKER_LOST) && i < bridge->count; i++) {
		bridge_container_doubt(bridge->containers[i]);
	}
	go_on(bridge);
}

static void on_freed(void *context, const char *container)
{
	struct bridge *bridge = context;
	(void)container;
	go_on(bridge);
}

static void ask_for_list(struct bridge *bridge)
{
	bridge->relist = false;
	bridge->list_again_ms = 0;
	bridge->question = LIST;
	struct wire *wire = bridge_looker_ask(bridge->looker, "");
	wire_begin(wire, LOOKER_LIST);
	wire_end(wire);
	bridge_looker_send(bridge->looker);
}

static void ask_for_container(struct bridge *bridge, int64_t now_ms)
{
	struct bridge_container *next = NULL;
	int64_t next_ms = now_ms;
	for (size_t i = 0; i < bridge->count; i++) {
		int64_t due_ms = bridge_container_due_ms(bridge->containers[i]);
		if (due_ms < next_ms || (!next && due_ms == next_ms)) {
			next = bridge->containers[i];
			next_ms = due_ms;
		}
	}
	if (next) {
		bridge->question = CONTAINER;
		bridge->asked = bridge_container_id(next);
		bridge_container_ask(next, now_ms);
	}
}

/* Nobody knows yet whether a container that is stalled has it. */
static bool is_spared(void *context, const char *path, const char *container)
{
	const struct bridge *bridge = context;
	size_t at = bridge_find(bridge, container);
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		const struct bridge_runtime *runtime = bridge->runtimes[i];
		const struct bridge_guest *guest = bridge_runtime_find(runtime, container);
		if (bridge_runtime_owns(runtime, container)) {
			return guest ? bridge_guest_awaits(guest, path)
				     : !bridge_runtime_is_settled(runtime);
		}
	}
	return at < bridge->count ? bridge_container_awaits(bridge->containers[at], path)
				  : bridge->looker && !bridge->compared;
}

/* After the first comparison, what a predecessor announced and no container has now goes. */
static void compare(struct bridge *bridge)
{
	bool all = bridge->listed;
	for (size_t i = 0; all && i < bridge->count; i++) {
		all = bridge_container_is_known(bridge->containers[i]);
	}
	if (all && !bridge->compared) {
		bridge->compared = true;
		bridge_publish_forsake(bridge->publish, is_spared, bridge);
		forget_inherited(bridge);
	}
}

/* The same when a runtime has been listed, and when a container of it has a verdict. */
static void compare_runtimes(struct bridge *bridge)
{
	if (bridge->runtime_count > 0 && bridge_publish_has_inherited(bridge->publish)) {
		bridge_publish_forsake(bridge->publish, is_spared, bridge);
	}
}

static void go_on(struct bridge *bridge)
{
	int64_t now_ms = clock_monotonic_ms();
	if (!bridge->looker) {
		plan(bridge);
		return;
	}
	compare(bridge);
	if (bridge_looker_is_free(bridge->looker) && !bridge->away) {
		if (may_list(bridge, now_ms)) {
			ask_for_list(bridge);
		} else {
			ask_for_container(bridge, now_ms);
		}
	}
	plan(bridge);
}

/* At the same time for all containers, so one reading of the locks is for all of them. */
static void ask_freezer(struct bridge *bridge, int64_t now_ms)
{
	bool due = false;
	bool sought = false;
	for (size_t i = 0; i < bridge->count; i++) {
		const struct bridge_container *container = bridge->containers[i];
		due = due || now_ms >= bridge_container_freezer_due_ms(container);
		sought = sought || bridge_container_seeks_owners(container);
	}
	bool whole = due && sought && bridge_holders_read(&bridge->holders, HOLDERS_NS);
	for (size_t i = 0; due && i < bridge->count; i++) {
		bridge_container_ask_freezer(bridge->containers[i], whole, now_ms);
	}
	if (bridge->compared && (whole || !sought)) {
		bridge_holders_forget(&bridge->holders);
	}
}

static void on_timer(void *context)
{
	struct bridge *bridge = context;
	int64_t now_ms = clock_monotonic_ms();
	ask_freezer(bridge, now_ms);
	for (size_t i = 0; i < bridge->count; i++) {
		if (now_ms >= bridge_container_owners_due_ms(bridge->containers[i])) {
			bridge_container_ask_owners(bridge->containers[i], now_ms);
		}
	}
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		for (size_t j = 0; j < bridge_runtime_guests(bridge->runtimes[i]); j++) {
			bridge_guest_on_time(bridge_runtime_guest(bridge->runtimes[i], j), now_ms);
		}
	}
	go_on(bridge);
	bridge->environment.on_change(bridge->environment.context);
}

/* ---- life ---- */

static void on_publish_change(void *context)
{
	struct bridge *bridge = context;
	bridge->paths_freed = true;
	bridge->environment.on_change(bridge->environment.context);
}

static bool session_is_saved(void *context)
{
	const struct bridge_environment *environment = &((struct bridge *)context)->environment;
	return environment->session_is_saved(environment->context);
}

static void on_event_of_container(void *context, const struct bridge_event *event)
{
	const struct bridge_environment *environment = &((struct bridge *)context)->environment;
	environment->on_event(environment->context, event);
}

static void on_guest_change(void *context)
{
	struct bridge *bridge = context;
	compare_runtimes(bridge);
	plan(bridge);
	bridge->environment.on_change(bridge->environment.context);
}

static bool is_taken(void *context, const char *path)
{
	const struct bridge_environment *environment = &((struct bridge *)context)->environment;
	return environment->is_taken(environment->context, path);
}

/*
 * The containers have their sockets, and the records their owners, before the agent reports that it
 * is ready; but a container whose directory is held does not make it late.
 */
static int begin_directories(struct bridge *bridge, struct err *err)
{
	const struct bridge_looker_events events = { .on_frame = on_frame,
		.on_answer = on_answer,
		.on_event = on_event,
		.on_ready = on_ready,
		.on_freed = on_freed,
		.context = bridge };
	if (bridge_looker_create(&bridge->looker, bridge->environment.loop,
		    bridge->config->bridge.containers, &events, err)) {
		return err->code;
	}
	for (size_t i = 0; i < bridge->environment.abandoned_count; i++) {
		bridge_looker_adopt(bridge->looker, &bridge->environment.abandoned[i]);
	}
	(void)bridge_holders_read(&bridge->holders, HOLDERS_FIRST_NS);
	int64_t until_ms = clock_monotonic_ms() + BEGIN_MS;
	while (!bridge->compared && !bridge->away && clock_monotonic_ms() < until_ms &&
		bridge_looker_is_there(bridge->looker)) {
		bridge_looker_wait(bridge->looker, until_ms);
	}
	if (bridge->away && bridge_looker_abandoned(bridge->looker) == 0) {
		return err_set(err, BERTH_FAILED, "%s", bridge->why_away);
	}
	return 0;
}

static const struct config_runtime *find_options(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->runtime_count; i++) {
		if (strcmp(config->runtimes[i].name, name) == 0) {
			return &config->runtimes[i];
		}
	}
	return NULL;
}

static int begin_runtime(
	struct bridge *bridge, const struct config_runtime *options, struct err *err)
{
	const struct bridge_runtime_environment environment = {
		.loop = bridge->environment.loop,
		.publish = bridge->publish,
		.book = bridge->environment.book,
		.processes = json_object_get(bridge->environment.left, "processes"),
		.scheduler = bridge->environment.scheduler,
		.on_change = on_guest_change,
		.context = bridge,
	};
	bridge->runtimes = allocate_grow(
		bridge->runtimes, bridge->runtime_count, sizeof(struct bridge_runtime *));
	if (bridge_runtime_create(&bridge->runtimes[bridge->runtime_count], &environment,
		    bridge->config, options, err)) {
		return err->code;
	}
	bridge->runtime_count++;
	return 0;
}

static int begin(struct bridge *bridge, struct err *err)
{
	for (size_t i = 0; i < bridge->config->runtime_count; i++) {
		if (begin_runtime(bridge, &bridge->config->runtimes[i], err)) {
			return err->code;
		}
	}
	if (*bridge->config->bridge.containers) {
		int code = begin_directories(bridge, err);
		compare_runtimes(bridge);
		return code;
	}
	bridge->compared = true;
	bridge_publish_forsake(bridge->publish, is_spared, bridge);
	return 0;
}

/* Runtimes come and go with a reload. */
static void arrange_runtimes(struct bridge *bridge)
{
	for (size_t i = bridge->runtime_count; i-- > 0;) {
		struct bridge_runtime *runtime = bridge->runtimes[i];
		const struct config_runtime *options = find_options(
			bridge->config, bridge_runtime_name(runtime));
		if (options) {
			bridge_runtime_set_config(runtime, bridge->config, options);
			continue;
		}
		bridge_runtime_destroy(runtime, true);
		bridge->runtimes[i] = bridge->runtimes[--bridge->runtime_count];
	}
	for (size_t i = 0; i < bridge->config->runtime_count; i++) {
		const struct config_runtime *options = &bridge->config->runtimes[i];
		bool known = false;
		struct err err = ERR_INIT;
		for (size_t j = 0; j < bridge->runtime_count; j++) {
			known = known ||
				strcmp(bridge_runtime_name(bridge->runtimes[j]), options->name) ==
					0;
		}
		if (!known && begin_runtime(bridge, options, &err)) {
			log_error("bridge", "runtime %s: %s", options->name, err.msg);
		}
	}
}

static void describe(void *context, json_t *document)
{
	const struct bridge *bridge = context;
	json_t *processes = json_object_get(document, "processes");
	bridge_publish_describe(bridge->publish, json_object_get(document, "paths"),
		json_object_get(document, "parents"));
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		for (size_t j = 0; j < bridge_runtime_guests(bridge->runtimes[i]); j++) {
			const struct bridge_guest *guest = bridge_runtime_guest(
				bridge->runtimes[i], j);
			if (bridge_guest_process(guest)) {
				json_object_set_new(processes, bridge_guest_key(guest),
					allocated(json_string(bridge_guest_process(guest))));
			}
		}
	}
}

int bridge_create(struct bridge **ret_bridge, const struct bridge_environment *environment,
	const struct config *config, struct err *err)
{
	struct bridge *bridge = allocate_zeroed(1, sizeof(*bridge));
	const struct bridge_publish_environment publish = {
		.loop = environment->loop,
		.registry = environment->registry,
		.holder = environment->holder,
		.book = environment->book,
		.drains = environment->drains,
		.update_interval_ms = config->registry.update_interval_ms,
		.inherited = environment->inherited,
		.parents = json_object_get(environment->left, "parents"),
		.session_is_saved = session_is_saved,
		.is_taken = is_taken,
		.on_event = on_event_of_container,
		.on_change = on_publish_change,
		.context = bridge,
	};
	bridge->environment = *environment;
	bridge->inherited = json_incref((json_t *)(uintptr_t)environment->inherited);
	bridge->config = config;
	bridge->containers = allocate_zeroed(MOST_CONTAINERS, sizeof(struct bridge_container *));
	timer_init(&bridge->due, environment->loop, "containers", on_timer, bridge);
	bridge->publish = bridge_publish_create(&publish);
	bridge_book_open(environment->book, describe, bridge);
	if (begin(bridge, err)) {
		bridge_destroy(bridge);
		return err->code;
	}
	bridge->environment.inherited = NULL;
	bridge->environment.left = NULL;
	bridge->environment.sockets = NULL;
	bridge->environment.socket_count = 0;
	bridge->environment.owners = NULL;
	bridge->environment.owner_count = 0;
	bridge->environment.abandoned = NULL;
	bridge->environment.abandoned_count = 0;
	*ret_bridge = bridge;
	return 0;
}

void bridge_destroy(struct bridge *bridge)
{
	if (!bridge) {
		return;
	}
	bridge_book_close(bridge->environment.book);
	timer_stop(&bridge->due);
	while (bridge->count > 0) {
		bridge_container_destroy(bridge->containers[--bridge->count], false);
	}
	while (bridge->runtime_count > 0) {
		bridge_runtime_destroy(bridge->runtimes[--bridge->runtime_count], false);
	}
	free(bridge->runtimes);
	forget_inherited(bridge);
	bridge_publish_destroy(bridge->publish);
	bridge_looker_destroy(bridge->looker);
	bridge_holders_forget(&bridge->holders);
	forget_entries(bridge);
	free(bridge->containers);
	free(bridge);
}

void bridge_set_config(struct bridge *bridge, const struct config *config)
{
	bridge->config = config;
	bridge_publish_set_update_interval(bridge->publish, config->registry.update_interval_ms);
	for (size_t i = 0; i < bridge->count; i++) {
		set_policy(bridge, bridge->containers[i]);
	}
	arrange_runtimes(bridge);
	plan(bridge);
}

void bridge_on_registry_state(struct bridge *bridge, enum registry_state state, const char *why)
{
	bridge_publish_on_registry_state(bridge->publish, state, why);
}

void bridge_proceed(struct bridge *bridge)
{
	bridge_publish_proceed(bridge->publish);
	if (bridge->paths_freed) {
		bridge->paths_freed = false;
		for (size_t i = 0; i < bridge->count; i++) {
			bridge_container_retry(bridge->containers[i], clock_monotonic_ms());
		}
		for (size_t i = 0; i < bridge->runtime_count; i++) {
			for (size_t j = 0; j < bridge_runtime_guests(bridge->runtimes[i]); j++) {
				bridge_guest_retry(bridge_runtime_guest(bridge->runtimes[i], j),
					clock_monotonic_ms());
			}
		}
		plan(bridge);
	}
}

void bridge_review(struct bridge *bridge, const char *name)
{
	for (size_t i = 0; i < bridge->count; i++) {
		if (strcmp(bridge_container_full_name(bridge->containers[i]), name) == 0) {
			bridge_container_review(bridge->containers[i], clock_monotonic_ms());
		}
	}
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		struct bridge_guest *guest = bridge_runtime_find(bridge->runtimes[i], name);
		if (guest) {
			bridge_guest_review(guest);
		}
	}
	plan(bridge);
	bridge->environment.on_change(bridge->environment.context);
}
