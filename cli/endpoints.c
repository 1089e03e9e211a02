/* berth endpoints. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "lib/base/json_read.h"

/* ---- all of them ---- */

/* As GET /v1/endpoints has it: the address is the record's own map. */
static json_t *json_of_endpoint(const struct berth_endpoint *endpoint)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "path", endpoint->path, "scope",
		endpoint->scope, "api", endpoint->api, "protocol", endpoint->protocol,
		"addressType", endpoint->address_type, "address",
		json_read_text(endpoint->address_json, JSON_DECODE_ANY));
}

static void print_table(const struct cli *cli, const struct berth_endpoints *endpoints)
{
	static const char *const headings[] = { "ADDRESS", "PROTOCOL", "SCOPE", "API", "PATH" };
	struct table *table = table_create(headings, 5, 0);
	for (size_t i = 0; i < endpoints->count; i++) {
		const struct berth_endpoint *endpoint = &endpoints->items[i];
		table_cell(table, TABLE_GOOD,
			*endpoint->address ? endpoint->address : endpoint->address_json);
		table_cell(table, TABLE_PLAIN, endpoint->protocol);
		table_cell(table, TABLE_PLAIN, endpoint->scope);
		table_cell(table, TABLE_PLAIN, endpoint->api);
		table_cell(table, TABLE_DIM, endpoint->path);
	}
	output_table_take(&cli->output, table);
}

static void print_all(const struct cli *cli, const struct berth_endpoints *endpoints)
{
	if (!cli->output.json) {
		print_table(cli, endpoints);
		return;
	}
	json_t *array = json_array();
	for (size_t i = 0; i < endpoints->count; i++) {
		json_array_append_new(array, json_of_endpoint(&endpoints->items[i]));
	}
	output_json(array);
	json_decref(array);
}

/* ---- addresses in one line: --plain, --first, --random ---- */

static size_t random_below(size_t count)
{
	unsigned number = 0;
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
		number = (unsigned)time(NULL);
	}
	return number % count;
}

static void print_one(const struct cli *cli, const struct berth_endpoint *endpoint)
{
	if (cli->output.json) {
		json_t *one = json_of_endpoint(endpoint);
		output_json(one);
		json_decref(one);
	} else {
		output_line(endpoint->address);
	}
}

/*
 * The bare addresses, for scripts; endpoints without such a form are passed over. 0 or the exit
 * status.
 */
static int print_addresses(const struct cli *cli, const struct berth_endpoints *endpoints)
{
	static const struct berth_failure none = { BERTH_NO_RECORD,
		"no endpoint that matches has an address in one line" };
	size_t count = 0;
	for (size_t i = 0; i < endpoints->count; i++) {
		count += *endpoints->items[i].address != '\0';
	}
	if (count == 0) {
		return output_failure(&none);
	}
	size_t chosen = cli->options.random ? random_below(count) : 0;
	size_t number = 0;
	for (size_t i = 0; i < endpoints->count; i++) {
		const struct berth_endpoint *endpoint = &endpoints->items[i];
		if (*endpoint->address && (cli->options.plain || number++ == chosen)) {
			print_one(cli, endpoint);
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

int verb_endpoints(struct cli *cli)
{
	static const struct berth_failure none = { BERTH_NO_RECORD, "no endpoint matches" };
	struct berth_failure failure;
	struct berth_endpoints endpoints;
	struct berth_endpoint_filter filter = cli_filter(cli);
	const struct options *options = &cli->options;
	if (options->plain + options->first + options->random > 1) {
		return output_usage("--plain, --first and --random exclude each other");
	}
	if (options->plain && options->json) {
		return output_usage("--plain is text; it cannot be JSON");
	}
	if (berth_endpoints(cli->berth, cli_operand(cli), &filter, &endpoints, &failure) != 0) {
		return cli_lookup_failure(cli, &failure);
	}
	int status = 0;
	if (endpoints.count == 0) {
		if (cli->output.json && !options->first && !options->random) {
			print_all(cli, &endpoints);
		}
		status = output_failure(&none);
	} else if (options->plain || options->first || options->random) {
		status = print_addresses(cli, &endpoints);
	} else {
		print_all(cli, &endpoints);
	}
	output_freshness(&endpoints.freshness);
	berth_endpoints_finish(&endpoints);
	return status;
}
