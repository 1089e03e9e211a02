#include "agent/component/dialect_set.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"
#include "lib/base/text.h"

struct slot {
	struct dialect_set *set;
	struct announce *announce;
	struct dialect_node node; /* as the dialect wrote it last */
	bool retired;             /* the configuration no longer has it */
};

struct dialect_set {
	const struct config_dialect *config;
	struct dialect_set_options options;
	struct slot **slots;
	size_t slot_count;
	enum announce_wish wish;
	char wish_why[512];
	struct err err; /* the mistake in the instance that is to be registered */
	bool departing; /* Spring's instance is out of service, and leaves */
	bool pushing;   /* wishes are being handed out */
	int64_t registered_ms;
	enum announce_state state;
	char why[800];
	double since;
};

/* ---- state ---- */

/* The first of these that a node is in is the set's. */
static const enum announce_state by_weight[] = { ANNOUNCE_FAILED, ANNOUNCE_CONFLICT,
	ANNOUNCE_WAITING, ANNOUNCE_WITHDRAWING, ANNOUNCE_WRITING, ANNOUNCE_OUTDATED,
	ANNOUNCE_WITHDRAWN, ANNOUNCE_REGISTERED };

static const struct announce *heaviest(const struct dialect_set *set)
{
	for (size_t i = 0; i < ARRAY_LEN(by_weight); i++) {
		for (size_t j = 0; j < set->slot_count; j++) {
			const struct announce *announce = set->slots[j]->announce;
			if (!set->slots[j]->retired &&
				announce_get_state(announce) == by_weight[i]) {
				return announce;
			}
		}
	}
	return NULL;
}

static void update_state(struct dialect_set *set)
{
	char why[sizeof(set->why)];
	const struct announce *announce = heaviest(set);
	enum announce_state state = announce ? announce_get_state(announce) : ANNOUNCE_WITHDRAWN;
	text_printf(why, sizeof(why), "%s", announce ? announce_why(announce) : set->wish_why);
	if (set->err.code) {
		state = ANNOUNCE_FAILED;
		text_printf(
			why, sizeof(why), "%s: %s", berth_error_name(set->err.code), set->err.msg);
	}
	enum announce_state from = set->state;
	bool news = state != from;
	bool trouble = state == ANNOUNCE_FAILED || state == ANNOUNCE_CONFLICT;
	news = news || (trouble && strcmp(why, set->why) != 0);
	set->since = state != from ? ev_now(set->options.loop) : set->since;
	set->state = state;
	memcpy(set->why, why, sizeof(why));
	if (news) {
		set->options.on_change(set->options.context, set, from);
	}
}

/* ---- wishes ---- */

static bool is_up(const struct slot *slot)
{
	return announce_get_state(slot->announce) == ANNOUNCE_REGISTERED;
}

/* Every current node of a lower order than `order` is registered. */
static bool lower_are_up(const struct dialect_set *set, int order)
{
	for (size_t i = 0; i < set->slot_count; i++) {
		const struct slot *slot = set->slots[i];
		if (!slot->retired && slot->node.order < order && !is_up(slot)) {
			return false;
		}
	}
	return true;
}

static enum announce_wish wish_of(const struct dialect_set *set, const struct slot *slot)
{
	if (set->wish != ANNOUNCE_UP) {
		return set->wish;
	}
	if (slot->retired) {
		return lower_are_up(set, INT32_MAX) ? ANNOUNCE_DOWN : ANNOUNCE_KEEP;
	}
	return lower_are_up(set, slot->node.order) ? ANNOUNCE_UP : ANNOUNCE_KEEP;
}

static void push_to(struct dialect_set *set, bool retired)
{
	for (size_t i = 0; i < set->slot_count; i++) {
		struct slot *slot = set->slots[i];
		if (slot->retired == retired) {
			announce_wish(
				slot->announce, wish_of(set, slot), &slot->node, set->wish_why);
		}
	}
}

/* The retired nodes last: whether they leave depends on the others. */
static void push_wishes(struct dialect_set *set)
{
	set->pushing = true;
	push_to(set, false);
	push_to(set, true);
	set->pushing = false;
}

/*
 * A node that is registered lets others follow, or leave. A node that has only begun to change does
 * not: the announcement that reports it is not ready for another wish.
 */
static void on_node_change(
	void *context, enum announce_state from, enum announce_state to, const char *why)
{
	struct dialect_set *set = ((struct slot *)context)->set;
	(void)from;
	(void)why;
	if (set->pushing) {
		return;
	}
	if (to == ANNOUNCE_REGISTERED) {
		push_wishes(set);
	}
	update_state(set);
}

/* ---- nodes ---- */

static void copy_node(struct dialect_node *to, const struct dialect_node *from)
{
	struct dialect_node copy = *from;
	copy.path = allocate_text(from->path);
	copy.data = allocate_bytes(from->data, from->len);
	free(to->path);
	free(to->data);
	*to = copy;
}

static struct slot *find_slot(const struct dialect_set *set, const struct dialect_node *node)
{
	for (size_t i = 0; i < set->slot_count; i++) {
		struct slot *slot = set->slots[i];
		if (strcmp(slot->node.path, node->path) == 0 && slot->node.kind == node->kind) {
			return slot;
		}
	}
	return NULL;
}

static bool is_former(void *context, uint64_t session)
{
	const struct dialect_set_options *options = &((struct slot *)context)->set->options;
	return options->is_former(options->context, session);
}

static struct slot *add_slot(struct dialect_set *set, const struct dialect_node *node)
{
	struct slot *slot = allocate_zeroed(1, sizeof(*slot));
	bool ephemeral = node->kind == DIALECT_NODE_EPHEMERAL ||
		node->kind == DIALECT_NODE_SEQUENTIAL;
	const struct announce_options options = {
		.type = set->config->type,
		.kind = node->kind,
		.path = node->path,
		.ephemeral = ephemeral,
		.takeover = set->options.takeover,
		.may_be_registered = set->options.session_resumed,
		.update_interval_ms = set->options.update_interval_ms,
		.is_former = is_former,
		.on_change = on_node_change,
		.context = slot,
	};
	slot->set = set;
	set->pushing = true;
	slot->announce = announce_create(set->options.loop, set->options.registry, &options);
	set->pushing = false;
	set->slots = allocate_grow(set->slots, set->slot_count, sizeof(struct slot *));
	set->slots[set->slot_count++] = slot;
	return slot;
}

static void free_slot(struct slot *slot)
{
	announce_destroy(slot->announce);
	free(slot->node.path);
	free(slot->node.data);
	free(slot);
}

static void drop_retired(struct dialect_set *set)
{
	size_t kept = 0;
	for (size_t i = 0; i < set->slot_count; i++) {
		struct slot *slot = set->slots[i];
		bool gone = slot->retired && announce_finished(slot->announce) &&
			announce_get_state(slot->announce) == ANNOUNCE_WITHDRAWN;
		if (gone) {
			free_slot(slot);
		} else {
			set->slots[kept++] = slot;
		}
	}
	set->slot_count = kept;
}

static void arrange(struct dialect_set *set, const struct dialect_nodes *nodes)
{
	for (size_t i = 0; i < set->slot_count; i++) {
		set->slots[i]->retired = true;
	}
	for (size_t i = 0; i < nodes->count; i++) {
		struct slot *slot = find_slot(set, &nodes->items[i]);
		if (!slot) {
			slot = add_slot(set, &nodes->items[i]);
		}
		copy_node(&slot->node, &nodes->items[i]);
		slot->retired = false;
	}
	drop_retired(set);
}

/*
 * No nodes can be made: the instance leaves. An endpoint that is out is not a mistake, and an
 * instance that leaves anyway needs no nodes.
 */
static void do_without_nodes(struct dialect_set *set, const char *lack)
{
	if (set->wish == ANNOUNCE_UP && lack) {
		text_printf(set->wish_why, sizeof(set->wish_why), "%s", lack);
	}
	if (set->wish == ANNOUNCE_DOWN || lack) {
		err_clear(&set->err);
	}
	if (set->wish == ANNOUNCE_UP) {
		set->wish = ANNOUNCE_DOWN;
	}
}

static void make_nodes(struct dialect_set *set, const struct config_component *component,
	const struct config_record_endpoint *endpoints)
{
	const struct config_instance_state state = {
		.endpoints = endpoints,
		.registered_ms = set->registered_ms,
		.out_of_service = set->departing,
	};
	struct config_instance *instance = config_instance_create(component, set->config, &state);
	struct dialect_nodes nodes = { 0 };
	err_clear(&set->err);
	if (allocated_code(dialect_write(&nodes, config_instance_get(instance), &set->err)) == 0) {
		arrange(set, &nodes);
		dialect_nodes_finish(&nodes);
	} else {
		do_without_nodes(set, config_instance_lack(instance));
	}
	config_instance_free(instance);
}

/* ---- life ---- */

struct dialect_set *dialect_set_create(
	const struct config_dialect *config, const struct dialect_set_options *options)
{
	struct dialect_set *set = allocate_zeroed(1, sizeof(*set));
	set->config = config;
	set->options = *options;
	set->registered_ms = options->registered_ms ? options->registered_ms
						    : (int64_t)time(NULL) * 1000;
	set->since = ev_now(options->loop);
	return set;
}

void dialect_set_destroy(struct dialect_set *set)
{
	if (!set) {
		return;
	}
	for (size_t i = 0; i < set->slot_count; i++) {
		free_slot(set->slots[i]);
	}
	free(set->slots);
	free(set);
}

void dialect_set_configure(struct dialect_set *set, const struct config_dialect *config,
	const struct dialect_set_options *options)
{
	set->config = config;
	set->options.takeover = options->takeover;
	set->options.update_interval_ms = options->update_interval_ms;
	for (size_t i = 0; i < set->slot_count; i++) {
		announce_set_takeover(set->slots[i]->announce, options->takeover);
		announce_set_update_interval(set->slots[i]->announce, options->update_interval_ms);
	}
}

static void set_interval(struct dialect_set *set, int64_t interval_ms)
{
	for (size_t i = 0; i < set->slot_count; i++) {
		announce_set_update_interval(set->slots[i]->announce, interval_ms);
	}
}

static void set_wish(struct dialect_set *set, enum announce_wish wish,
	const struct config_component *component, const struct config_record_endpoint *endpoints,
	const char *why)
{
	set->wish = wish;
	text_printf(set->wish_why, sizeof(set->wish_why), "%s", why);
	make_nodes(set, component, endpoints);
	push_wishes(set);
}

/* An instance that is not registered has no reader to inform. */
static bool departs(const struct dialect_set *set)
{
	return set->config->type == DIALECT_SPRING && announce_state_is_in(set->state);
}

/*
 * Spring's instance goes out of service before it leaves: the removal follows the write that is
 * under way.
 */
void dialect_set_wish(struct dialect_set *set, enum announce_wish wish,
	const struct config_component *component, const struct config_record_endpoint *endpoints,
	const char *why)
{
	if (wish != ANNOUNCE_DOWN && set->departing) {
		set->departing = false;
		set_interval(set, set->options.update_interval_ms);
	} else if (wish == ANNOUNCE_DOWN && !set->departing && departs(set)) {
		set->departing = true;
		set_interval(set, 0);
		set_wish(set, ANNOUNCE_UP, component, endpoints, why);
	}
	set_wish(set, wish, component, endpoints, why);
	update_state(set);
}

void dialect_set_reconsider(struct dialect_set *set)
{
	for (size_t i = 0; i < set->slot_count; i++) {
		announce_reconsider(set->slots[i]->announce);
	}
}

void dialect_set_on_registry_state(
	struct dialect_set *set, enum registry_state state, const char *why)
{
	set->pushing = true;
	for (size_t i = 0; i < set->slot_count; i++) {
		announce_on_registry_state(set->slots[i]->announce, state, why);
	}
	push_wishes(set);
	update_state(set);
}

/* ---- questions ---- */

const struct config_dialect *dialect_set_config(const struct dialect_set *set)
{
	return set->config;
}

enum announce_state dialect_set_state(const struct dialect_set *set)
{
	return set->state;
}

const char *dialect_set_why(const struct dialect_set *set)
{
	return set->why;
}

bool dialect_set_settled(const struct dialect_set *set)
{
	bool settled = true;
	for (size_t i = 0; i < set->slot_count; i++) {
		settled = settled && announce_settled(set->slots[i]->announce);
	}
	return settled;
}

int64_t dialect_set_registered_ms(const struct dialect_set *set)
{
	return set->registered_ms;
}

json_t *dialect_set_json(const struct dialect_set *set)
{
	json_t *nodes = json_array();
	for (size_t i = 0; i < set->slot_count; i++) {
		const char *path = announce_path(set->slots[i]->announce);
		if (!set->slots[i]->retired && path) {
			json_array_append_new(nodes, json_string(path + 1));
		}
	}
	return json_pack("{s:s, s:s, s:s, s:s, s:f, s:o}", "name", set->config->name, "type",
		dialect_name(set->config->type), "state", announce_state_name(set->state), "reason",
		set->why, "since", set->since, "nodes", nodes);
}
