#include "agent/names/write.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/array.h"
#include "lib/base/json_visible.h"

static const struct {
	const char *type;
	unsigned part;
} types[] = {
	{ "A", NAMES_PART_A },
	{ "AAAA", NAMES_PART_AAAA },
	{ "SRV", NAMES_PART_SRV },
	{ "TXT", NAMES_PART_TXT },
	{ "PTR", NAMES_PART_PTR },
	{ "ANY", NAMES_PART_ALL },
};

unsigned names_part(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		if (strcasecmp(types[i].type, type) == 0) {
			return types[i].part;
		}
	}
	return 0;
}

static const char *address_text(const struct names_address *address, char out[INET6_ADDRSTRLEN])
{
	return inet_ntop(address->family, address->bytes, out, INET6_ADDRSTRLEN);
}

static bool is_wanted(const struct names_address *address, unsigned parts)
{
	return parts & (address->family == AF_INET ? NAMES_PART_A : NAMES_PART_AAAA);
}

static json_t *texts_json(char *const *texts, size_t count)
{
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++) {
		json_array_append_new(list, json_string(texts[i]));
	}
	return list;
}

/* `tiers` gets those of the addresses, if there is a zone. */
static json_t *addresses_json(
	const struct names_answer *answer, unsigned parts, const char *near, json_t *tiers)
{
	json_t *list = json_array();
	char text[INET6_ADDRSTRLEN];
	size_t *order = names_order_addresses(answer, near);
	for (size_t i = 0; i < answer->address_count; i++) {
		const struct names_address *address = &answer->addresses[order[i]];
		if (!is_wanted(address, parts)) {
			continue;
		}
		json_array_append_new(list, json_string(address_text(address, text)));
		if (near) {
			json_array_append_new(
				tiers, json_integer(names_tier(answer, address->from, near)));
		}
	}
	free(order);
	return list;
}

static json_t *targets_json(const struct names_answer *answer, const char *near)
{
	json_t *list = json_array();
	char text[INET6_ADDRSTRLEN];
	size_t *order = names_order_targets(answer, near);
	for (size_t i = 0; i < answer->target_count; i++) {
		const struct names_target *target = &answer->targets[order[i]];
		json_t *json = json_pack("{s:i, s:i, s:i, s:s, s:s*}", "priority", target->priority,
			"weight", target->weight, "port", target->port, "target", target->name,
			"address",
			target->address.family ? address_text(&target->address, text) : NULL);
		if (near) {
			json_object_set_new(
				json, "tier", json_integer(names_tier(answer, target->from, near)));
		}
		json_array_append_new(list, json);
	}
	free(order);
	return list;
}

static void set_filled(json_t *json, const char *key, json_t *list_take)
{
	if (json_array_size(list_take) > 0) {
		json_object_set_new(json, key, list_take);
	} else {
		json_decref(list_take);
	}
}

json_t *names_json(const struct names_view *view, const char *name, unsigned parts, uint32_t ttl_s,
	const char *near)
{
	json_t *tiers = json_array();
	const struct names_answer *answer = view->answer;
	json_t *json = json_pack("{s:s, s:I, s:f, s:b}", "name", name, "ttl", (json_int_t)ttl_s,
		"age", (double)view->age_ms / 1000, "stale", view->stale);
	json_object_set_new(json, "paths", texts_json(answer->paths, answer->path_count));
	set_filled(json, "addresses", addresses_json(answer, parts, near, tiers));
	set_filled(json, "tiers", tiers);
	if (answer->alias) {
		json_object_set_new(json, "alias", json_string(answer->alias));
	}
	if (parts & NAMES_PART_SRV) {
		set_filled(json, "targets", targets_json(answer, near));
	}
	if (parts & NAMES_PART_TXT) {
		set_filled(json, "texts", texts_json(answer->texts, answer->text_count));
	}
	if (parts & NAMES_PART_PTR) {
		set_filled(json, "names", texts_json(answer->pointers, answer->pointer_count));
	}
	return json;
}

static void write_texts(const char *type, char *const *texts, size_t count, struct buffer *out)
{
	for (size_t i = 0; i < count; i++) {
		if (!text_has_hidden(texts[i], strlen(texts[i]))) {
			buffer_printf(out, "%s %s\n", type, texts[i]);
		}
	}
}

void names_write_lines(
	const struct names_view *view, unsigned parts, const char *near, struct buffer *out)
{
	const struct names_answer *answer = view->answer;
	char text[INET6_ADDRSTRLEN];
	size_t *addresses = names_order_addresses(answer, near);
	size_t *targets = names_order_targets(answer, near);
	for (size_t i = 0; i < answer->address_count; i++) {
		const struct names_address *address = &answer->addresses[addresses[i]];
		if (is_wanted(address, parts)) {
			buffer_printf(out, "%s %s\n", address->family == AF_INET ? "A" : "AAAA",
				address_text(address, text));
		}
	}
	if (answer->alias) {
		buffer_printf(out, "CNAME %s\n", answer->alias);
	}
	for (size_t i = 0; i < answer->target_count && parts & NAMES_PART_SRV; i++) {
		const struct names_target *target = &answer->targets[targets[i]];
		buffer_printf(out, "SRV %u %u %u %s\n", target->priority, target->weight,
			target->port, target->name);
	}
	free(addresses);
	free(targets);
	if (parts & NAMES_PART_TXT) {
		write_texts("TXT", answer->texts, answer->text_count, out);
	}
	if (parts & NAMES_PART_PTR) {
		write_texts("PTR", answer->pointers, answer->pointer_count, out);
	}
}
