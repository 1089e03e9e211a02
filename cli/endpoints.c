/* berth endpoints. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/json_read.h"
#include "lib/base/random_bytes.h"
#include "lib/program/memory.h"

enum { CHILDREN_ASKED = 16 /* for what is below them */ };

/* ---- all of them ---- */

struct found {
	struct berth_endpoints endpoints;
	unsigned *tiers;       /* one for each endpoint; NULL without --near */
	struct berth_set *set; /* whose strings those of the endpoints are; NULL: their own */
};

/* As GET /v1/endpoints has it: the address is the record's own map. */
static json_t *json_of_endpoint(const struct found *found, size_t i)
{
	const struct berth_endpoint *endpoint = &found->endpoints.items[i];
	json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "path", endpoint->path, "scope",
		endpoint->scope, "api", endpoint->api, "protocol", endpoint->protocol,
		"addressType", endpoint->address_type, "address",
		json_read_text(endpoint->address_json, JSON_DECODE_ANY));
	if (found->tiers) {
		json_object_set_new(json, "tier", json_integer(found->tiers[i]));
	}
	return json;
}

static void print_table(const struct cli *cli, const struct found *found)
{
	static const char *const headings[] = { "ADDRESS", "TIER", "PROTOCOL", "SCOPE", "API",
		"PATH" };
	static const char *const without_tiers[] = { "ADDRESS", "PROTOCOL", "SCOPE", "API",
		"PATH" };
	struct table *table = found->tiers ? table_create(headings, 6, 0)
					   : table_create(without_tiers, 5, 0);
	for (size_t i = 0; i < found->endpoints.count; i++) {
		const struct berth_endpoint *endpoint = &found->endpoints.items[i];
		table_cell(table, TABLE_GOOD,
			*endpoint->address ? endpoint->address : endpoint->address_json);
		if (found->tiers) {
			char tier[16];
			snprintf(tier, sizeof(tier), "%u", found->tiers[i]);
			table_cell(table, TABLE_PLAIN, tier);
		}
		table_cell(table, TABLE_PLAIN, endpoint->protocol);
		table_cell(table, TABLE_PLAIN, endpoint->scope);
		table_cell(table, TABLE_PLAIN, endpoint->api);
		table_cell(table, TABLE_DIM, endpoint->path);
	}
	output_table_take(&cli->output, table);
}

static void print_all(const struct cli *cli, const struct found *found)
{
	if (!cli->output.json) {
		print_table(cli, found);
		return;
	}
	json_t *array = json_array();
	for (size_t i = 0; i < found->endpoints.count; i++) {
		json_array_append_new(array, json_of_endpoint(found, i));
	}
	output_json(array);
	json_decref(array);
}

/* ---- addresses in one line: --plain, --first, --random ---- */

static size_t random_below(size_t count)
{
	unsigned number;
	(void)random_bytes(&number, sizeof(number));
	return number % count;
}

static void print_one(const struct cli *cli, const struct found *found, size_t i)
{
	if (cli->output.json) {
		json_t *one = json_of_endpoint(found, i);
		output_json(one);
		json_decref(one);
	} else {
		output_line(found->endpoints.items[i].address);
	}
}

static bool has_address(const struct found *found, size_t i)
{
	return *found->endpoints.items[i].address != '\0';
}

/* The number of addresses in one line that the nearest tier with such addresses has. */
static size_t count_nearest(const struct found *found)
{
	size_t count = 0;
	unsigned tier = 0;
	for (size_t i = 0; i < found->endpoints.count; i++) {
		if (has_address(found, i)) {
			unsigned own = found->tiers ? found->tiers[i] : 0;
			tier = count == 0 ? own : tier;
			count += own == tier;
		}
	}
	return count;
}

/*
 * The bare addresses, for scripts; endpoints without such a form are passed over. 0 or the exit
 * status.
 */
static int print_addresses(const struct cli *cli, const struct found *found)
{
	static const struct berth_failure none = { BERTH_NO_RECORD,
		"no endpoint that matches has an address in one line" };
	size_t count = count_nearest(found);
	if (count == 0) {
		return output_failure(&none);
	}
	size_t chosen = cli->options.random ? random_below(count) : 0;
	size_t number = 0;
	for (size_t i = 0; i < found->endpoints.count; i++) {
		if (has_address(found, i) && (cli->options.plain || number++ == chosen)) {
			print_one(cli, found, i);
		}
	}
	return 0;
}

/* ---- the verb ---- */

struct berth_endpoint_filter cli_filter(const struct cli *cli)
{
	return (struct berth_endpoint_filter){ .api = cli->options.api,
		.protocol = cli->options.protocol,
		.scope = cli->options.scope };
}

int cli_open_set(struct cli *cli, struct berth_set **ret_set, struct berth_failure *failure)
{
	const struct berth_set_options options = { .filter = cli_filter(cli),
		.attributes = cli->options.attributes,
		.near = cli->options.near };
	*ret_set = NULL;
	return berth_set_open(ret_set, cli->berth, cli_operand(cli), &options, failure);
}

/* The endpoints of a set's members. */
static void take_members(struct cli *cli, struct found *found, const struct berth_members *members)
{
	found->endpoints.freshness = members->freshness;
	found->endpoints.count = members->count;
	found->endpoints.items = memory_must(
		calloc(members->count + 1, sizeof(*found->endpoints.items)));
	found->tiers = cli->options.near
		? memory_must(calloc(members->count + 1, sizeof(*found->tiers)))
		: NULL;
	for (size_t i = 0; i < members->count; i++) {
		found->endpoints.items[i] = *members->items[i].endpoint;
		if (found->tiers) {
			found->tiers[i] = members->items[i].tier;
		}
	}
}

static int look_up_set(struct cli *cli, struct found *ret, struct berth_failure *failure)
{
	const struct berth_members *members;
	int code = cli_open_set(cli, &ret->set, failure);
	code = code ? code : berth_set_members(ret->set, &members, failure);
	if (code == 0 && !members->exists) {
		*failure = (struct berth_failure){ .code = BERTH_PATH_NOT_FOUND };
		snprintf(failure->message, sizeof(failure->message), "no node at %s",
			cli_operand(cli));
		code = failure->code;
	}
	if (code == 0) {
		take_members(cli, ret, members);
	} else {
		berth_set_close(ret->set);
	}
	return code;
}

static void finish(struct found *found)
{
	if (found->set) {
		free(found->endpoints.items);
		berth_set_close(found->set);
	} else {
		berth_endpoints_finish(&found->endpoints);
	}
	free(found->tiers);
}

static int look_up(struct cli *cli, struct found *ret, struct berth_failure *failure)
{
	struct berth_endpoint_filter filter = cli_filter(cli);
	const char *near = cli->options.near;
	*ret = (struct found){ .tiers = NULL };
	if (cli->options.attributes[0]) {
		return look_up_set(cli, ret, failure);
	}
	return near
		? berth_endpoints_near(cli->berth, cli_operand(cli), &filter, near, &ret->endpoints,
			  &ret->tiers, failure)
		: berth_endpoints(cli->berth, cli_operand(cli), &filter, &ret->endpoints, failure);
}

/* The first of some children that has children itself; NULL without one. */
static const char *find_parent(struct cli *cli, const struct berth_paths *children)
{
	struct berth_failure failure;
	struct berth_stat stat;
	for (size_t i = 0; i < children->count && i < CHILDREN_ASKED; i++) {
		if (berth_stat(cli->berth, children->items[i], &stat, &failure) == 0 &&
			stat.children > 0) {
			return children->items[i];
		}
	}
	return NULL;
}

/* Points at nodes further below, which may have what the user looked for. */
static int report_none(struct cli *cli)
{
	struct berth_failure none = { BERTH_NO_RECORD, "no endpoint matches" };
	struct berth_failure failure;
	struct berth_paths children;
	if (berth_list(cli->berth, cli_operand(cli), &children, &failure) == 0) {
		const char *parent = find_parent(cli, &children);
		if (parent) {
			snprintf(none.message, sizeof(none.message),
				"no endpoint matches here or at its children; there is more below "
				"%s",
				parent);
		}
		berth_paths_finish(&children);
	}
	return output_failure(&none);
}

int verb_endpoints(struct cli *cli)
{
	struct berth_failure failure;
	struct found found;
	const struct options *options = &cli->options;
	if (options->plain + options->first + options->random > 1) {
		return output_usage("--plain, --first and --random exclude each other");
	}
	if (options->plain && options->json) {
		return output_usage("--plain is text; it cannot be JSON");
	}
	if (look_up(cli, &found, &failure) != 0) {
		return cli_lookup_failure(cli, &failure);
	}
	int status = 0;
	if (found.endpoints.count == 0) {
		if (cli->output.json && !options->first && !options->random) {
			print_all(cli, &found);
		}
		status = report_none(cli);
	} else if (options->plain || options->first || options->random) {
		status = print_addresses(cli, &found);
	} else {
		print_all(cli, &found);
	}
	output_freshness(&found.endpoints.freshness);
	finish(&found);
	return status;
}
