#include "agent/zone/answer.h"

#include <arpa/nameser.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/base/allocate.h"

/* One question being answered. */
struct question {
	struct zone_answer *answer;
	const struct zone_tree *tree;
	uint16_t type;
	int unknown;
	unsigned rotation;
	/* "_http" and "_tcp" of a name that begins with both; else NULL */
	const char *service;
	size_t service_len;
	const char *protocol;
	size_t protocol_len;
};

/* ---- parts of answers ---- */

static struct zone_record *add_record(struct zone_record **records, size_t *count, uint16_t type)
{
	*records = allocate_grow(*records, *count, sizeof(**records));
	struct zone_record *record = &(*records)[(*count)++];
	*record = (struct zone_record){ .type = type };
	return record;
}

static void add_soa(struct question *question, const char *owner, uint32_t ttl_s)
{
	strcpy(question->answer->soa_owner, owner);
	question->answer->soa_ttl_s = ttl_s;
}

/* The name is ours, and has nothing of this type. */
static void say_no_data(struct question *question)
{
	add_soa(question, zone_tree_domain(question->tree), ZONE_TTL_S);
}

static void say_unknown(struct question *question)
{
	question->answer->rcode = question->unknown;
	if (question->unknown == ns_r_nxdomain) {
		say_no_data(question);
	}
}

static uint32_t ttl_of(const struct zone_facts *facts, uint32_t fallback_s)
{
	return facts->ttl_s >= 0 ? (uint32_t)facts->ttl_s : fallback_s;
}

/* ---- services ---- */

static bool is_instance(const struct zone_node *node)
{
	return node->facts.kind == ZONE_INSTANCE && node->facts.has_address;
}

/* Its address is that of a member and of the service: the shorter time to live counts. */
static void add_member(struct question *question, const struct zone_node *service,
	const struct zone_node *instance)
{
	uint32_t service_s = ttl_of(&service->facts, ZONE_TTL_S);
	uint32_t instance_s = ttl_of(&instance->facts, service_s);
	struct zone_answer *answer = question->answer;
	struct zone_record *record = add_record(&answer->records, &answer->count, ns_t_a);
	record->ttl_s = instance_s < service_s ? instance_s : service_s;
	memcpy(record->address, instance->facts.address, sizeof(record->address));
}

static void add_target(struct question *question, const struct zone_node *service,
	const struct zone_node *instance, uint16_t port)
{
	struct zone_answer *answer = question->answer;
	if (port > 0) {
		struct zone_record *record = add_record(&answer->records, &answer->count, ns_t_srv);
		record->ttl_s = ttl_of(&service->facts, ZONE_TTL_S);
		record->port = port;
		record->node = instance;
	}
}

static void add_targets(struct question *question, const struct zone_node *service,
	const struct zone_node *instance)
{
	const struct zone_facts *facts = &instance->facts;
	struct zone_answer *answer = question->answer;
	for (size_t i = 0; i < facts->port_count; i++) {
		add_target(question, service, instance, facts->ports[i]);
	}
	if (facts->port_count == 0) {
		add_target(question, service, instance, service->facts.port);
	}
	struct zone_record *glue = add_record(&answer->glue, &answer->glue_count, ns_t_a);
	glue->ttl_s = ttl_of(facts, ttl_of(&service->facts, ZONE_TTL_S));
	memcpy(glue->address, facts->address, sizeof(glue->address));
	glue->node = instance;
}

static void answer_service(struct question *question, const struct zone_node *service)
{
	struct zone_answer *answer = question->answer;
	for (size_t i = 0; i < service->child_count && answer->count < ZONE_MAX_RECORDS; i++) {
		size_t at = (i + question->rotation) % service->child_count;
		const struct zone_node *instance = service->children[at];
		if (!is_instance(instance)) {
			continue;
		}
		if (question->type == ns_t_srv) {
			add_targets(question, service, instance);
		} else {
			add_member(question, service, instance);
		}
		answer->holds = zone_node_holds(instance, false) && answer->holds;
	}
	answer->holds = zone_node_holds(service, true) && answer->holds;
}

static bool is_named(const char *label, size_t len, const char *name)
{
	return strncasecmp(label, name, len) == 0 && name[len] == '\0';
}

static bool is_asked_for(const struct question *question, const struct zone_facts *service)
{
	return is_named(question->service, question->service_len, service->name) &&
		is_named(question->protocol, question->protocol_len, service->protocol);
}

/* ---- nodes ---- */

static void answer_srv(struct question *question, const struct zone_node *node)
{
	char name[ZONE_NAME_BYTES];
	if (node->facts.kind != ZONE_SERVICE) {
		zone_node_name(node, name);
		add_soa(question, name, ttl_of(&node->facts, ZONE_TTL_S));
	} else if (is_asked_for(question, &node->facts)) {
		answer_service(question, node);
	} else {
		question->answer->rcode = ns_r_nxdomain;
	}
}

static void answer_a(struct question *question, const struct zone_node *node)
{
	struct zone_answer *answer = question->answer;
	if (node->facts.kind == ZONE_SERVICE) {
		answer_service(question, node);
	} else if (node->facts.has_address) {
		struct zone_record *record = add_record(&answer->records, &answer->count, ns_t_a);
		record->ttl_s = ttl_of(&node->facts, ZONE_TTL_S);
		memcpy(record->address, node->facts.address, sizeof(record->address));
	} else {
		say_no_data(question);
	}
}

static void answer_node(struct question *question, const struct zone_node *node)
{
	question->answer->holds = zone_node_holds(node, false);
	if (question->type != ns_t_a && question->type != ns_t_srv) {
		say_no_data(question);
	} else if (node->facts.kind == ZONE_NOTHING) {
		question->answer->rcode = ns_r_servfail;
	} else if (question->type == ns_t_srv) {
		answer_srv(question, node);
	} else {
		answer_a(question, node);
	}
}

/* ---- names ---- */

/* The labels left of the node's, without a dot behind: `len` bytes of `name`. */
static const struct zone_node *find_below(const struct zone_tree *tree, const char *name,
	size_t len, const struct zone_node **ret_last)
{
	const struct zone_node *node = zone_tree_root(tree);
	while (len > 0 && node) {
		const char *dot = memrchr(name, '.', len);
		const char *label = dot ? dot + 1 : name;
		*ret_last = node;
		node = zone_node_child(node, label, len - (size_t)(label - name));
		len = dot ? (size_t)(dot - name) : 0;
	}
	return node && node->data_known != ZONE_ABSENT ? node : NULL;
}

/* The label that `name` begins with, if it is of a service or a protocol; its length, or 0. */
static size_t underscored(const char *name)
{
	size_t len = name[0] == '_' ? 1 + strcspn(name + 1, "._") : 0;
	return len > 0 && name[len] == '.' ? len : 0;
}

/* Takes "_http._tcp." off the front. */
static const char *take_service(struct question *question, const char *name)
{
	size_t service_len = underscored(name);
	size_t protocol_len = service_len > 0 ? underscored(name + service_len + 1) : 0;
	if (protocol_len == 0) {
		return NULL;
	}
	question->service = name;
	question->service_len = service_len;
	question->protocol = name + service_len + 1;
	question->protocol_len = protocol_len;
	return question->protocol + protocol_len + 1;
}

static size_t below_domain(const struct zone_tree *tree, const char *name)
{
	size_t len = strlen(name);
	size_t domain_len = strlen(zone_tree_domain(tree));
	return len > domain_len ? len - domain_len - 1 : 0;
}

/*
 * A name that is not there. Right below a service the labels of its SRV records lead to something:
 * whoever denied them would deny the SRV records, too.
 */
static void answer_absent(struct question *question, const char *name, const struct zone_node *last)
{
	/* An ephemeral node is there without a list: it has no children. */
	bool is_unlisted = last->list_known == ZONE_UNREADABLE ||
		(last->list_watch && last->list_known == ZONE_UNREAD);
	bool is_unsure = zone_tree_partial(question->tree) || is_unlisted ||
		last->data_known == ZONE_UNREADABLE || last->data_known == ZONE_UNREAD;
	question->answer->holds = zone_node_holds(last, true);
	if (is_unsure) {
		question->answer->rcode = ns_r_servfail;
	} else if (question->unknown == ns_r_nxdomain && name[0] == '_' &&
		last->facts.kind == ZONE_SERVICE) {
		say_no_data(question);
	} else {
		say_unknown(question);
	}
}

static void answer_domain(struct question *question)
{
	question->answer->holds = zone_node_holds(zone_tree_root(question->tree), false);
	if (question->type == ns_t_a) {
		say_unknown(question);
	} else {
		say_no_data(question);
	}
}

static void answer(struct question *question, const char *name)
{
	bool wants_service = question->type == ns_t_srv;
	const char *host = wants_service ? take_service(question, name) : name;
	size_t len = host ? below_domain(question->tree, host) : 0;
	const struct zone_node *last = zone_tree_root(question->tree);
	if (wants_service && len == 0) {
		question->answer->rcode = ns_r_refused;
		return;
	}
	if (len == 0) {
		answer_domain(question);
		return;
	}
	const struct zone_node *node = find_below(question->tree, host, len, &last);
	if (!node) {
		answer_absent(question, host, last);
	} else if (node->data_known == ZONE_THERE) {
		answer_node(question, node);
	} else {
		question->answer->rcode = ns_r_servfail;
	}
}

void zone_answer_name(struct zone_answer *ret_answer, const struct zone_tree *tree,
	const char *name, uint16_t type, int unknown, unsigned rotation)
{
	struct question question = { .answer = ret_answer,
		.tree = tree,
		.type = type,
		.unknown = unknown,
		.rotation = rotation };
	char lower[NS_MAXDNAME];
	size_t len = strnlen(name, sizeof(lower) - 1);
	for (size_t i = 0; i < len; i++) {
		lower[i] = (char)tolower((unsigned char)name[i]);
	}
	lower[len] = '\0';
	*ret_answer = (struct zone_answer){ .rcode = ns_r_noerror, .holds = true };
	answer(&question, lower);
}

bool zone_answer_address(
	struct zone_answer *ret_answer, const struct zone_tree *tree, const uint8_t address[4])
{
	const struct zone_node *node = zone_tree_of_address(tree, address);
	if (!node) {
		return false;
	}
	*ret_answer = (struct zone_answer){ .rcode = ns_r_noerror,
		.holds = zone_node_holds(node, false) };
	struct zone_record *record = add_record(&ret_answer->records, &ret_answer->count, ns_t_ptr);
	record->ttl_s = ttl_of(&node->facts, ZONE_TTL_S);
	record->node = node;
	return true;
}

void zone_answer_finish(struct zone_answer *answer)
{
	free(answer->records);
	free(answer->glue);
	*answer = (struct zone_answer){ 0 };
}
