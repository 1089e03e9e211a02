/* Verbs that write to a registry: berth mknode, rm, purge. */
#include "cli/cli.h"
#include "lib/base/array.h"

#include <stdio.h>
#include <string.h>

int cli_write_failed(const struct cli *cli, struct berth_failure *failure)
{
	if (failure->code == BERTH_PATH_NOT_FOUND && !cli->options.parents) {
		size_t len = strlen(failure->message);
		snprintf(failure->message + len, sizeof(failure->message) - len, "; -p makes it");
	}
	return output_failure(failure);
}

/* ---- mknode, rm ---- */

int verb_mknode(struct cli *cli)
{
	struct berth_failure failure;
	const char *path = cli_operand(cli);
	const char *owner = cli->options.owner;
	bool parents = cli->options.parents;
	bool made;
	int code = owner ? berth_make_home(cli->berth, path, owner, parents, &made, &failure)
			 : berth_mknode(cli->berth, path, parents, &made, &failure);
	if (code != 0) {
		return cli_write_failed(cli, &failure);
	}
	if (cli->output.json) {
		json_t *json = json_pack("{s:s, s:b}", "path", path, "made", made);
		output_json(json);
		json_decref(json);
	} else {
		printf("%s %s%s\n", path, made ? "made" : "existed before",
			owner && !made ? ", and keeps its owner" : "");
	}
	return 0;
}

int verb_rm(struct cli *cli)
{
	struct berth_failure failure;
	unsigned flags = (cli->options.recursive ? BERTH_DELETE_RECURSIVE : 0) |
		(cli->options.force ? BERTH_DELETE_FOREIGN : 0);
	int code = berth_delete(cli->berth, cli_operand(cli), flags, &failure);
	return code ? output_failure(&failure) : 0;
}

/* ---- purge ---- */

static void on_progress(void *context, size_t visited, size_t matches)
{
	const struct cli *cli = context;
	output_progress(&cli->output, visited, matches);
}

static int parse_policy(const char *text, enum berth_purge_policy *ret)
{
	static const char *const names[] = {
		[BERTH_PURGE_ALL] = "all",
		[BERTH_PURGE_SKIP_ON_CHILDREN] = "skip-on-children",
		[BERTH_PURGE_FAIL_ON_CHILDREN] = "fail-on-children",
	};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (!text || strcmp(text, names[i]) == 0) {
			*ret = (enum berth_purge_policy)i;
			return 0;
		}
	}
	return output_usage(
		"--policy: \"%s\" is not all, skip-on-children or fail-on-children", text);
}

static json_t *paths_json(const struct berth_paths *paths)
{
	json_t *json = json_array();
	for (size_t i = 0; i < paths->count; i++) {
		json_array_append_new(json, json_string(paths->items[i]));
	}
	return json;
}

static void print_purged(
	const struct cli *cli, const json_t *matches, const struct berth_paths *purged)
{
	bool dry_run = cli->options.dry_run;
	if (cli->output.json) {
		json_t *json = json_pack("{s:O, s:o, s:I, s:b}", "matches", matches, "paths",
			paths_json(purged), "deleted", (json_int_t)(dry_run ? 0 : purged->count),
			"dry_run", dry_run);
		output_json(json);
		json_decref(json);
		return;
	}
	if (json_object_size(matches)) {
		cli_print_records(cli, matches);
		putchar('\n');
	}
	size_t count = json_object_size(matches);
	for (size_t i = 0; i < purged->count; i++) {
		printf("%s %s\n", dry_run ? "would delete" : "deleted", purged->items[i]);
	}
	printf("%zu %s matched, %zu %s %s\n", count, count == 1 ? "record" : "records",
		purged->count, purged->count == 1 ? "node" : "nodes",
		dry_run ? "would be deleted" : "deleted");
}

int verb_purge(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_answer matches;
	struct berth_paths purged;
	struct berth_purge purge = {
		.criteria = { .under = cli->options.under,
			.id = cli->options.id,
			.persistence = cli->options.persistence },
		.dry_run = cli->options.dry_run,
		.on_progress = on_progress,
		.context = cli,
	};
	if (!purge.criteria.id || !purge.criteria.persistence) {
		return output_usage("purge needs both --id and --persistence");
	}
	if (parse_policy(cli->options.policy, &purge.policy) != 0) {
		return EXIT_USAGE;
	}
	int code = berth_purge(cli->berth, &purge, &matches, &purged, &failure);
	output_progress_end(&cli->output);
	if (code != 0) {
		return output_failure(&failure);
	}
	json_t *json = cli_parse_take(&matches);
	print_purged(cli, json, &purged);
	berth_paths_finish(&purged);
	json_decref(json);
	return 0;
}
