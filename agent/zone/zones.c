#include "agent/zone/zones.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/allocate.h"
#include "agent/base/due.h"
#include "agent/base/log.h"
#include "lib/base/clock.h"

#define MAX_NODES 100000 /* of a domain */

struct zone {
	struct zone_tree *tree;
	int unknown;
	bool was_ready; /* what it knows has been whole once */
};

struct zones {
	struct ev_loop *loop;
	struct registry *registry;
	struct cache *cache;
	struct zone **items;
	size_t count;
	struct due waits; /* they are to ask again when a tree has settled */
};

/* ---- waiting ---- */

void zones_cancel(struct zone_wait *wait)
{
	if (wait->zones) {
		if (wait->confirming) {
			cache_cancel(&wait->confirm);
		}
		timer_stop(&wait->patience);
		list_remove(&wait->link);
		wait->zones = NULL;
	}
}

static void end_wait(void *context)
{
	struct zone_wait *wait = context;
	zones_cancel(wait);
	wait->on_ready(wait->context);
}

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)answer;
	(void)err;
	end_wait(context);
}

static void run(struct list *item)
{
	end_wait(LIST_ITEM(item, struct zone_wait, link));
}

static void begin_wait(struct zones *zones, struct zone_wait *wait)
{
	wait->zones = zones;
	list_init(&wait->link);
	wait->confirming = false;
	wait->confirm.on_answer = on_confirmed;
	wait->confirm.context = wait;
	timer_init(&wait->patience, zones->loop, "zone", end_wait, wait);
	timer_start(&wait->patience, ZONE_PATIENCE_MS);
}

/* ---- domains ---- */

/* The tree is in the middle of its own work: whoever waits asks in a later step. */
static void on_settled(void *context)
{
	struct zones *zones = context;
	due_wake(&zones->waits);
}

static struct zone *find_zone(const struct zones *zones, const char *domain)
{
	for (size_t i = 0; i < zones->count; i++) {
		if (zones->items[i] &&
			strcmp(zone_tree_domain(zones->items[i]->tree), domain) == 0) {
			return zones->items[i];
		}
	}
	return NULL;
}

static struct zone *create_zone(struct zones *zones, const char *domain)
{
	struct zone *zone = allocate_zeroed(1, sizeof(*zone));
	zone->tree = zone_tree_create(zones->registry, domain, MAX_NODES, on_settled, zones);
	log_info("zone", "answering names below %s from Registrar's nodes", domain);
	return zone;
}

static void free_zone(struct zone *zone)
{
	if (zone) {
		zone_tree_destroy(zone->tree);
		free(zone);
	}
}

static void take_from(struct zones *zones, const struct zone *zone)
{
	for (size_t i = 0; i < zones->count; i++) {
		if (zones->items[i] == zone) {
			zones->items[i] = NULL;
		}
	}
}

void zones_set(struct zones *zones, const struct zone_options *options, size_t count)
{
	struct zone **items = allocate_zeroed(count, sizeof(struct zone *));
	for (size_t i = 0; i < count; i++) {
		struct zone *zone = find_zone(zones, options[i].domain);
		take_from(zones, zone);
		items[i] = zone ? zone : create_zone(zones, options[i].domain);
		items[i]->unknown = options[i].unknown;
	}
	for (size_t i = 0; i < zones->count; i++) {
		free_zone(zones->items[i]);
	}
	free(zones->items);
	zones->items = items;
	zones->count = count;
	/* Questions that waited for a domain that has gone are asked again. */
	due_wake(&zones->waits);
}

static bool is_ready(struct zone *zone)
{
	zone->was_ready = zone->was_ready || zone_tree_settled(zone->tree);
	return zone->was_ready;
}

/* The domain with the most labels that the name is, or is below. */
static struct zone *zone_of(const struct zones *zones, const char *name)
{
	struct zone *found = NULL;
	size_t longest = 0;
	size_t len = strlen(name);
	for (size_t i = 0; i < zones->count; i++) {
		const char *domain = zone_tree_domain(zones->items[i]->tree);
		size_t domain_len = strlen(domain);
		bool ends_so = len >= domain_len &&
			strcasecmp(name + len - domain_len, domain) == 0 &&
			(len == domain_len || name[len - domain_len - 1] == '.');
		if (ends_so && domain_len > longest) {
			found = zones->items[i];
			longest = domain_len;
		}
	}
	return found;
}

/* ---- questions ---- */

/* How much a question may wait. */
enum patience {
	LOOK, /* not at all, and nothing is begun */
	WAIT,
	NOW /* it is answered with what is known */
};

static enum zone_verdict wait_for_tree(
	struct zones *zones, enum patience patience, struct zone_wait *wait)
{
	if (patience == WAIT) {
		begin_wait(zones, wait);
		due_put_off(&zones->waits, &wait->link);
	}
	return patience == NOW ? ZONE_ANSWERED : ZONE_WAITING;
}

/* Was the registry heard? If it has to be asked first, the question may wait for that. */
static enum zone_verdict confirm(
	struct zones *zones, enum patience patience, bool *ret_stale, struct zone_wait *wait)
{
	int64_t now_ms = clock_monotonic_ms();
	*ret_stale = false;
	if (cache_confirm(zones->cache, now_ms, NULL) == CACHE_READY) {
		return ZONE_ANSWERED;
	}
	if (patience == WAIT) {
		begin_wait(zones, wait);
		wait->confirming = true;
		if (cache_confirm(zones->cache, now_ms, &wait->confirm) == CACHE_WAITING) {
			return ZONE_WAITING;
		}
		zones_cancel(wait);
	}
	*ret_stale = true;
	return patience == LOOK ? ZONE_WAITING : ZONE_ANSWERED;
}

static enum zone_verdict ask_name(struct zones *zones, struct zone *zone,
	const struct zone_question *question, enum patience patience, struct zone_view *ret_view,
	struct zone_wait *wait)
{
	struct zone_answer *answer = &ret_view->answer;
	ret_view->domain = zone_tree_domain(zone->tree);
	if (!is_ready(zone)) {
		*answer = (struct zone_answer){ .rcode = ns_r_servfail };
		return wait_for_tree(zones, patience, wait);
	}
	if (confirm(zones, patience, &ret_view->stale, wait) == ZONE_WAITING) {
		return ZONE_WAITING;
	}
	zone_answer_name(answer, zone->tree, question->name, question->type, zone->unknown,
		question->rotation);
	ret_view->stale = ret_view->stale || !answer->holds;
	return ZONE_ANSWERED;
}

/* Reads 4.3.2.1.in-addr.arpa. */
static bool read_reverse(uint8_t ret_address[4], const char *name)
{
	static const char suffix[] = ".in-addr.arpa";
	char digits[INET_ADDRSTRLEN];
	uint8_t reversed[4];
	size_t len = strlen(name);
	size_t suffix_len = strlen(suffix);
	if (len < suffix_len || len - suffix_len >= sizeof(digits) ||
		strcasecmp(name + len - suffix_len, suffix) != 0) {
		return false;
	}
	memcpy(digits, name, len - suffix_len);
	digits[len - suffix_len] = '\0';
	if (inet_pton(AF_INET, digits, reversed) != 1) {
		return false;
	}
	for (size_t i = 0; i < 4; i++) {
		ret_address[i] = reversed[3 - i];
	}
	return true;
}

/* An address that none of the domains has may be a record's. */
static enum zone_verdict ask_address(struct zones *zones, const uint8_t address[4],
	enum patience patience, struct zone_view *ret_view, struct zone_wait *wait)
{
	for (size_t i = 0; i < zones->count; i++) {
		struct zone *zone = zones->items[i];
		if (!is_ready(zone) && patience != NOW) {
			return wait_for_tree(zones, patience, wait);
		}
		if (!zone_tree_of_address(zone->tree, address)) {
			continue;
		}
		ret_view->domain = zone_tree_domain(zone->tree);
		if (confirm(zones, patience, &ret_view->stale, wait) == ZONE_WAITING) {
			return ZONE_WAITING;
		}
		zone_answer_address(&ret_view->answer, zone->tree, address);
		ret_view->stale = ret_view->stale || !ret_view->answer.holds;
		return ZONE_ANSWERED;
	}
	return ZONE_OUTSIDE;
}

static enum zone_verdict ask(struct zones *zones, const struct zone_question *question,
	enum patience patience, struct zone_view *ret_view, struct zone_wait *wait)
{
	uint8_t address[4];
	*ret_view = (struct zone_view){ 0 };
	if (question->type == ns_t_ptr && read_reverse(address, question->name)) {
		return ask_address(zones, address, patience, ret_view, wait);
	}
	struct zone *zone = zone_of(zones, question->name);
	return zone ? ask_name(zones, zone, question, patience, ret_view, wait) : ZONE_OUTSIDE;
}

enum zone_verdict zones_ask(struct zones *zones, const struct zone_question *question,
	struct zone_view *ret_view, struct zone_wait *wait)
{
	return ask(zones, question, wait ? WAIT : LOOK, ret_view, wait);
}

enum zone_verdict zones_ask_now(
	struct zones *zones, const struct zone_question *question, struct zone_view *ret_view)
{
	return ask(zones, question, NOW, ret_view, NULL);
}

/* ---- the whole ---- */

struct zones *zones_create(struct ev_loop *loop, struct registry *registry, struct cache *cache)
{
	struct zones *zones = allocate_zeroed(1, sizeof(*zones));
	zones->loop = loop;
	zones->registry = registry;
	zones->cache = cache;
	due_init(&zones->waits, loop, run);
	return zones;
}

void zones_destroy(struct zones *zones)
{
	if (!zones) {
		return;
	}
	due_finish(&zones->waits);
	for (size_t i = 0; i < zones->count; i++) {
		free_zone(zones->items[i]);
	}
	free(zones->items);
	free(zones);
}

json_t *zones_report(const struct zones *zones)
{
	json_t *report = json_array();
	for (size_t i = 0; i < zones->count; i++) {
		struct zone *zone = zones->items[i];
		json_array_append_new(report,
			json_pack("{s:s, s:I, s:b}", "domain", zone_tree_domain(zone->tree),
				"nodes", (json_int_t)zone_tree_count(zone->tree), "ready",
				is_ready(zone)));
	}
	return report;
}
