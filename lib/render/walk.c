/* The items of a picture: which endpoint addresses pass the filter, and what is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/quote.h"
#include "lib/base/text.h"
#include "lib/record/select.h"
#include "lib/render/host.h"
#include "lib/render/internal.h"
#include "lib/render/locality.h"

/* ---- what is left out ---- */

/*
 * The first ones are named: a list of all could be long, and whoever mends these sees the others.
 */
static void note_left_out(
	struct render_result *result, const struct render_item *item, const char *reason)
{
	enum { NAMED = 3 };
	char *address = NULL;
	size_t used = strlen(result->why);
	if (result->left_out++ < NAMED) {
		/* Without memory the path alone says where to look. */
		(void)!record_address_text(item->endpoint->address_type, item->address, &address);
		text_printf(result->why + used, sizeof(result->why) - used, "%s%s %s%s%s",
			used ? "; " : "left out: ", item->path,
			address ? quote_text(address).text : "", address ? " " : "", reason);
		free(address);
	}
}

static void end_left_out(struct render_result *result)
{
	enum { NAMED = 3, MORE_BYTES = 40 };
	if (result->left_out > NAMED) {
		char more[MORE_BYTES];
		snprintf(more, sizeof(more), "; and %zu more", result->left_out - NAMED);
		size_t used = strlen(result->why);
		size_t most = sizeof(result->why) - sizeof(more);
		used = used < most ? used : most;
		text_printf(result->why + used, sizeof(result->why) - used, "%s", more);
	}
}

/* ---- items ---- */

static void read_target(struct render_item *item)
{
	if (!record_target_read(&item->target, item->endpoint->address_type, item->address)) {
		item->problem = "names no host";
		return;
	}
	enum render_host kind = render_host_read(item->target.host);
	item->literal = kind == RENDER_HOST_ADDRESS;
	if (kind == RENDER_HOST_BAD) {
		item->target.host[0] = '\0';
		item->problem = "names neither an address nor a host name";
	}
}

const char *render_server_problem(const struct render_item *item)
{
	return item->problem ? item->problem : item->target.port ? NULL : "has no port";
}

static const char *wanted(const char *text)
{
	return text && *text ? text : NULL;
}

static bool lets_through(const struct render_filter *filter, const struct record_endpoint *endpoint)
{
	return record_endpoint_matches(
		endpoint, wanted(filter->api), wanted(filter->protocol), wanted(filter->scope));
}

static void take_member(const struct render_member *member, const struct render_filter *filter,
	const char *(*take)(void *context, const struct render_item *item), void *context,
	struct render_result *result)
{
	size_t index = 0;
	if (!select_takes(filter->attributes, member->record)) {
		return;
	}
	for (size_t i = 0; i < record_endpoint_count(member->record); i++) {
		struct record_endpoint endpoint = record_endpoint(member->record, i);
		size_t at;
		json_t *address;
		if (!lets_through(filter, &endpoint)) {
			continue;
		}
		unsigned weight = 1;
		bool weighted = render_weight_read(&weight, member->record);
		json_array_foreach (endpoint.addresses, at, address) {
			struct render_item item = { .path = member->path,
				.record = member->record,
				.endpoint = &endpoint,
				.address = address,
				.index = index,
				.tier = member->tier,
				.weight = weight,
				.weighted = weighted };
			read_target(&item);
			const char *reason = take(context, &item);
			if (reason) {
				note_left_out(result, &item, reason);
			} else {
				index++;
				result->items++;
			}
		}
	}
}

void render_each(const struct render_picture *picture, const struct render_filter *filter,
	const char *(*take)(void *context, const struct render_item *item), void *context,
	struct render_result *ret_result)
{
	struct render_result result = { .items = 0 };
	for (size_t i = 0; i < picture->count; i++) {
		take_member(&picture->members[i], filter, take, context, &result);
	}
	end_left_out(&result);
	*ret_result = result;
}

/* ---- nearness ---- */

static int by_tier(const void *a, const void *b)
{
	const struct render_member *left = a;
	const struct render_member *right = b;
	int order = (left->tier > right->tier) - (left->tier < right->tier);
	return order != 0 ? order : strcmp(left->path, right->path);
}

void render_by_nearness(struct render_member *members, size_t count, const char *own)
{
	for (size_t i = 0; i < count; i++) {
		members[i].tier = render_tier(members[i].rank, render_zone(members[i].record), own);
	}
	if (count > 0) {
		qsort(members, count, sizeof(*members), by_tier);
	}
}

size_t render_count_instances(
	const struct render_picture *picture, const struct render_filter *filter)
{
	size_t count = 0;
	for (size_t i = 0; i < picture->count; i++) {
		const struct record *record = picture->members[i].record;
		bool counts = render_weight(record) > 0 && select_takes(filter->attributes, record);
		for (size_t at = 0; counts && at < record_endpoint_count(record); at++) {
			struct record_endpoint endpoint = record_endpoint(record, at);
			if (lets_through(filter, &endpoint) &&
				json_array_size(endpoint.addresses) > 0) {
				count++;
				break;
			}
		}
	}
	return count;
}

/* ---- weights ---- */

unsigned render_heaviest(const struct render_picture *picture)
{
	unsigned heaviest = 0;
	for (size_t i = 0; i < picture->count; i++) {
		unsigned weight = render_weight(picture->members[i].record);
		heaviest = weight > heaviest ? weight : heaviest;
	}
	return heaviest;
}

unsigned render_haproxy_weight(unsigned weight, unsigned heaviest)
{
	enum { MOST = 256 };
	return heaviest <= MOST ? weight : render_weight_share(weight, heaviest, MOST);
}
