/* `berth host`: the DNS answer for a name, as host(1) would print it, with its age. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* "NAME SAYS TEXT" for each text of a list. */
static size_t print_list(
	const json_t *answer, const char *key, const char *name, const char *says, bool quoted)
{
	size_t index;
	json_t *item;
	const json_t *list = json_object_get(answer, key);
	json_array_foreach (list, index, item) {
		char *escaped = table_escape(json_string_value(item));
		printf("%s %s %s%s%s\n", name, says, quoted ? "\"" : "", escaped,
			quoted ? "\"" : "");
		free(escaped);
	}
	return json_array_size(list);
}

/* Ends a line, with its tier after a look-up with --near. */
static void end_line(const json_t *tier)
{
	if (json_is_integer(tier)) {
		printf(", tier %lld", (long long)json_integer_value(tier));
	}
	putchar('\n');
}

static size_t print_addresses(const json_t *answer, const char *name)
{
	size_t index;
	json_t *item;
	const json_t *list = json_object_get(answer, "addresses");
	const json_t *tiers = json_object_get(answer, "tiers");
	json_array_foreach (list, index, item) {
		const char *text = json_string_value(item);
		printf("%s has %s %s", name, strchr(text, ':') ? "IPv6 address" : "address", text);
		end_line(json_array_get(tiers, index));
	}
	return json_array_size(list);
}

static size_t print_targets(const json_t *answer, const char *name)
{
	size_t index;
	json_t *item;
	const json_t *list = json_object_get(answer, "targets");
	json_array_foreach (list, index, item) {
		const char *address = json_string_value(json_object_get(item, "address"));
		printf("%s has SRV record %.0f %.0f %.0f %s%s%s%s", name,
			output_number(item, "priority"), output_number(item, "weight"),
			output_number(item, "port"), output_text(item, "target"),
			address ? " (" : "", address ? address : "", address ? ")" : "");
		end_line(json_object_get(item, "tier"));
	}
	return json_array_size(list);
}

static void print_answer(const json_t *answer, const char *name)
{
	size_t lines = print_addresses(answer, name);
	const char *alias = json_string_value(json_object_get(answer, "alias"));
	if (alias) {
		printf("%s is an alias for %s\n", name, alias);
		lines++;
	}
	lines += print_targets(answer, name);
	lines += print_list(answer, "texts", name, "descriptive text", true);
	lines += print_list(answer, "names", name, "domain name pointer", false);
	if (lines == 0) {
		printf("%s exists, without such a record\n", name);
	}
}

int verb_host(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer found;
	const char *name = cli_operand(cli);
	const struct options *options = &cli->options;
	int code = options->near
		? berth_name_near(cli->berth, name, options->type, options->near, &found, &failure)
		: berth_name(cli->berth, name, options->type, &found, &failure);
	if (code != 0) {
		return cli_lookup_failure(cli, &failure);
	}
	struct berth_freshness freshness = found.freshness;
	json_t *answer = cli_parse_take(&found);
	if (cli->output.json) {
		output_json(answer);
	} else {
		print_answer(answer, name);
	}
	json_decref(answer);
	output_freshness(&freshness);
	return 0;
}
