/* From a record to addresses, targets and texts. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/holder.h"
#include "agent/names/internal.h"
#include "lib/base/array.h"
#include "lib/base/path.h"
#include "lib/record/service.h"
#include "lib/record/target.h"
#include "lib/render/locality.h"

#define MAX_TEXT_BYTES 4096 /* of one attribute in a TXT answer */

static bool has_address(const struct names_answer *answer, const struct names_address *address)
{
	for (size_t i = 0; i < answer->address_count; i++) {
		if (names_address_equal(&answer->addresses[i], address)) {
			return true;
		}
	}
	return false;
}

static void add_address(struct names_answer *answer, const struct names_address *address)
{
	if (has_address(answer, address)) {
		return;
	}
	answer->addresses = allocate_grow(
		answer->addresses, answer->address_count, sizeof(*answer->addresses));
	answer->addresses[answer->address_count] = *address;
	/* The record whose path comes next is being collected. */
	answer->addresses[answer->address_count++].from = answer->path_count;
}

static void add_alias(struct names_collector *collector, const char *host)
{
	if (!collector->alias) {
		collector->alias = allocate_text(host);
	} else if (strcasecmp(collector->alias, host) != 0) {
		collector->many_aliases = true;
	}
}

static void add_text(struct names_answer *answer, const char *key, const char *value)
{
	if (value[0] == '\0' || strlen(key) + 1 + strlen(value) > MAX_TEXT_BYTES) {
		return;
	}
	char text[MAX_TEXT_BYTES + 1];
	snprintf(text, sizeof(text), "%s=%s", key, value);
	answer->texts = allocate_grow(answer->texts, answer->text_count, sizeof(*answer->texts));
	answer->texts[answer->text_count++] = allocate_text(text);
}

static void add_texts(struct names_answer *answer, const struct record *record)
{
	static const char *const first[] = { "description", "yarn:id" };
	for (size_t i = 0; i < ARRAY_LEN(first); i++) {
		const char *value = json_string_value(record_attribute(record, first[i]));
		add_text(answer, first[i], value ? value : "");
	}
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)(uintptr_t)record_json(record), key, value) {
		bool is_first = strcmp(key, first[0]) == 0 || strcmp(key, first[1]) == 0;
		bool is_bare = strcmp(key, "type") == 0 || strcmp(key, HOLDER_MARK) == 0;
		if (!is_first && !is_bare && json_is_string(value)) {
			add_text(answer, key, json_string_value(value));
		}
	}
}

/* Calls `visit` for the host of every endpoint address. */
typedef void on_target(
	void *context, const struct record_endpoint *endpoint, const struct record_target *target);

static void each_target(const struct record *record, on_target *visit, void *context)
{
	for (size_t i = 0; i < record_endpoint_count(record); i++) {
		struct record_endpoint endpoint = record_endpoint(record, i);
		size_t index;
		json_t *address;
		json_array_foreach (endpoint.addresses, index, address) {
			struct record_target target;
			if (record_target_read(&target, endpoint.address_type, address)) {
				visit(context, &endpoint, &target);
			}
		}
	}
}

static void visit_literal(
	void *context, const struct record_endpoint *endpoint, const struct record_target *target)
{
	(void)endpoint;
	struct names_address address;
	if (names_read_address(&address, target->host)) {
		add_address(context, &address);
	}
}

static bool read_ip(struct names_address *ret_address, const struct record *record)
{
	const char *ip = json_string_value(record_attribute(record, "yarn:ip"));
	return ip && names_read_address(ret_address, ip);
}

/*
 * The addresses that a record's name has: the literal ones of its endpoints, which may lie on other
 * hosts than the writer of the record; where there are none, yarn:ip.
 */
static void own_addresses(struct names_answer *own, const struct record *record)
{
	struct names_address ip;
	each_target(record, visit_literal, own);
	if (own->address_count == 0 && read_ip(&ip, record)) {
		add_address(own, &ip);
	}
}

struct visit {
	struct names_collector *collector;
	const char *path;
	struct names_answer own; /* addresses of this record alone */
	uint16_t priority;
	uint16_t weight;
};

/* A writer may have put any text there; one name that DNS cannot hold would cut the whole reply. */
static bool fits_into_dns(const char *host)
{
	struct names_labels labels;
	return names_split(&labels, host) && labels.count > 0;
}

static void visit_host(
	void *context, const struct record_endpoint *endpoint, const struct record_target *target)
{
	(void)endpoint;
	if (fits_into_dns(target->host)) {
		add_alias(context, target->host);
	}
}

static size_t count_of_family(const struct names_answer *answer, int family)
{
	size_t count = 0;
	for (size_t i = 0; i < answer->address_count; i++) {
		count += answer->addresses[i].family == family;
	}
	return count;
}

/*
 * A literal's target is the component's own name. That name has every address of the record, so
 * where there are several of the family, a label of its own names the address that has the port.
 */
static bool write_own_name(
	char out[NAMES_NAME_BYTES], const struct visit *visit, const struct names_address *address)
{
	char own[NAMES_NAME_BYTES];
	char label[64];
	if (!path_dns_name(own, visit->path, visit->collector->domain)) {
		return false;
	}
	if (visit->own.address_count == 1 ||
		(count_of_family(&visit->own, address->family) == 1 &&
			visit->own.address_count <= 2)) {
		strcpy(out, own);
		return true;
	}
	names_write_address_label(label, address);
	int len = snprintf(out, NAMES_NAME_BYTES, "%s.%s", label, own);
	return len < NAMES_NAME_BYTES - 2;
}

static bool same_target(const struct names_target *a, const struct names_target *b)
{
	return a->port == b->port && a->priority == b->priority && a->weight == b->weight &&
		strcasecmp(a->name, b->name) == 0;
}

static void add_target(struct names_answer *answer, const struct names_target *target)
{
	for (size_t i = 0; i < answer->target_count; i++) {
		if (same_target(&answer->targets[i], target)) {
			return;
		}
	}
	answer->targets = allocate_grow(
		answer->targets, answer->target_count, sizeof(*answer->targets));
	answer->targets[answer->target_count] = *target;
	answer->targets[answer->target_count++].name = allocate_text(target->name);
}

static void visit_port(
	void *context, const struct record_endpoint *endpoint, const struct record_target *target)
{
	struct visit *visit = context;
	char name[NAMES_NAME_BYTES];
	struct names_target found = {
		.priority = visit->priority,
		.weight = visit->weight,
		.port = target->port,
		.name = name,
		.from = visit->collector->answer->path_count,
	};
	const char *service = visit->collector->service;
	if (!target->port || (service && !record_endpoint_offers(endpoint, service))) {
		return;
	}
	if (names_read_address(&found.address, target->host)) {
		if (!write_own_name(name, visit, &found.address)) {
			return;
		}
	} else if (fits_into_dns(target->host)) {
		strcpy(name, target->host);
	} else {
		return;
	}
	add_target(visit->collector->answer, &found);
}

void names_collect(struct names_collector *collector, const char *path, const struct record *record)
{
	struct names_answer *answer = collector->answer;
	unsigned priority = 0;
	(void)record_small_number(&priority, record, "priority");
	struct visit visit = { .collector = collector,
		.path = path,
		.own = { .status = NAMES_FOUND },
		.priority = (uint16_t)priority,
		.weight = (uint16_t)render_weight(record) };
	own_addresses(&visit.own, record);
	for (size_t i = 0; i < visit.own.address_count; i++) {
		add_address(answer, &visit.own.addresses[i]);
	}
	if (visit.own.address_count == 0) {
		each_target(record, visit_host, collector);
	}
	each_target(record, visit_port, &visit);
	names_answer_finish(&visit.own);
	add_texts(answer, record);
	answer->paths = allocate_grow(answer->paths, answer->path_count, sizeof(*answer->paths));
	answer->origins = allocate_grow(
		answer->origins, answer->path_count, sizeof(*answer->origins));
	answer->origins[answer->path_count] = (struct names_origin){
		.zone = allocate_text(render_zone(record)), .weight = visit.weight
	};
	answer->paths[answer->path_count++] = allocate_text(path);
}

/* A name with an alias has nothing else (RFC 1034); a service's name has no alias. */
static void keep_alias(struct names_answer *answer, char *alias_take)
{
	struct names_answer kept = { .status = answer->status,
		.alias = alias_take,
		.paths = answer->paths,
		.path_count = answer->path_count,
		.origins = answer->origins };
	answer->paths = NULL;
	answer->origins = NULL;
	answer->path_count = 0;
	names_answer_finish(answer);
	*answer = kept;
}

void names_collect_end(struct names_collector *collector)
{
	struct names_answer *answer = collector->answer;
	if (collector->alias && !collector->many_aliases && answer->address_count == 0 &&
		!collector->service) {
		keep_alias(answer, collector->alias);
	} else {
		free(collector->alias);
	}
	collector->alias = NULL;
}

/* /users/USER/CLASS/INSTANCE/components/NAME, or with Hadoop's `services` behind the user. */
static bool is_component_path(const char *path)
{
	char parent[NAMES_NAME_BYTES];
	size_t len = path_parent_len(path);
	size_t depth = path_depth(path);
	if (len >= sizeof(parent) || depth < 6 || !path_is_under(path, "/users")) {
		return false;
	}
	memcpy(parent, path, len);
	parent[len] = '\0';
	const char *behind_user = strchr(path + strlen("/users/"), '/');
	bool is_hadoop = behind_user && strncmp(behind_user, "/services/", 10) == 0 && depth == 7;
	return strcmp(path_name(parent), "components") == 0 && (depth == 6 || is_hadoop);
}

/* The addresses that the record says are its own; the caller finishes the answer. */
static struct names_answer claims_of(const char *path, const struct record *record)
{
	struct names_answer claims = { .status = NAMES_FOUND };
	struct names_address ip;
	if (read_ip(&ip, record)) {
		add_address(&claims, &ip);
	}
	if (is_component_path(path)) {
		each_target(record, visit_literal, &claims);
	}
	return claims;
}

bool names_record_claims(
	const char *path, const struct record *record, const struct names_address *address)
{
	struct names_answer claims = claims_of(path, record);
	bool has = has_address(&claims, address);
	names_answer_finish(&claims);
	return has;
}

void names_each_key(const char *path, const struct record *record,
	void (*visit)(void *context, uint64_t key), void *context)
{
	struct names_answer claims = claims_of(path, record);
	uint64_t key;
	for (size_t i = 0; i < claims.address_count; i++) {
		visit(context, names_address_key(&claims.addresses[i]));
	}
	names_answer_finish(&claims);
	if (names_container_key(&key, path_name(path))) {
		visit(context, key);
	}
}

/* ---- further paths ---- */

/* Is there an address, an alias or a target in it? */
static bool offers(const struct names_answer *answer)
{
	return answer->address_count > 0 || answer->target_count > 0 || answer->alias;
}

void names_answer_add(struct names_answer *answer, struct names_answer *further, unsigned rank)
{
	size_t first = answer->path_count;
	if (answer->alias || (further->alias && offers(answer))) {
		return;
	}
	for (size_t i = 0; i < further->path_count; i++) {
		answer->paths = allocate_grow(
			answer->paths, answer->path_count, sizeof(*answer->paths));
		answer->origins = allocate_grow(
			answer->origins, answer->path_count, sizeof(*answer->origins));
		answer->origins[answer->path_count] = (struct names_origin){ .rank = rank,
			.zone = allocate_text(further->origins[i].zone),
			.weight = further->origins[i].weight };
		answer->paths[answer->path_count++] = allocate_text(further->paths[i]);
	}
	for (size_t i = 0; i < further->address_count; i++) {
		size_t count = answer->address_count;
		add_address(answer, &further->addresses[i]);
		if (answer->address_count > count) {
			answer->addresses[count].from = first + further->addresses[i].from;
		}
	}
	for (size_t i = 0; i < further->target_count; i++) {
		struct names_target target = further->targets[i];
		target.from += first;
		add_target(answer, &target);
	}
	for (size_t i = 0; i < further->text_count; i++) {
		answer->texts = allocate_grow(
			answer->texts, answer->text_count, sizeof(*answer->texts));
		answer->texts[answer->text_count++] = allocate_text(further->texts[i]);
	}
	answer->alias = further->alias ? allocate_text(further->alias) : NULL;
	answer->status = further->status == NAMES_FOUND ? NAMES_FOUND : answer->status;
}

void names_scale_weights(struct names_answer *answer)
{
	unsigned lightest = UINT16_MAX;
	unsigned heaviest = 0;
	for (size_t i = 0; i < answer->target_count; i++) {
		unsigned weight = answer->targets[i].weight;
		lightest = weight > 0 && weight < lightest ? weight : lightest;
		heaviest = weight > heaviest ? weight : heaviest;
	}
	for (size_t i = 0; lightest < heaviest && i < answer->target_count; i++) {
		struct names_target *target = &answer->targets[i];
		target->weight = (uint16_t)(heaviest <= UINT8_MAX
				? target->weight * (UINT8_MAX + 1U)
				: render_weight_share(target->weight, heaviest, UINT16_MAX));
	}
}

/* ---- the end of an answer ---- */

static void free_texts(char **texts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(texts[i]);
	}
	free(texts);
}

void names_answer_finish(struct names_answer *answer)
{
	for (size_t i = 0; i < answer->target_count; i++) {
		free(answer->targets[i].name);
	}
	free(answer->targets);
	free(answer->addresses);
	free(answer->alias);
	free_texts(answer->texts, answer->text_count);
	free_texts(answer->pointers, answer->pointer_count);
	for (size_t i = 0; answer->origins && i < answer->path_count; i++) {
		free(answer->origins[i].zone);
	}
	free(answer->origins);
	free_texts(answer->paths, answer->path_count);
	*answer = (struct names_answer){ .status = answer->status };
}
