/* berth pick. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/json_read.h"

static json_t *json_of(const struct berth_member *member)
{
	json_t *json = json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:o}", "path",
		member->endpoint->path, "host", member->host, "port", (int)member->port, "tier",
		(int)member->tier, "weight", (int)member->weight, "health", member->health,
		"attributes", json_read_text(member->attributes_json, 0));
	if (*member->zone) {
		json_object_set_new(json, "zone", json_string(member->zone));
	}
	return json;
}

static void print_member(const struct cli *cli, const struct berth_member *member)
{
	char line[512];
	if (cli->output.json) {
		json_t *json = json_of(member);
		output_json(json);
		json_decref(json);
		return;
	}
	snprintf(line, sizeof(line), strchr(member->host, ':') ? "[%s]:%u" : "%s:%u", member->host,
		member->port);
	output_line(line);
}

int verb_pick(struct cli *cli)
{
	struct berth_failure failure;
	struct berth_set *set;
	const struct berth_member *member;
	int code = cli_open_set(cli, &set, &failure);
	code = code ? code : berth_pick(set, &member, &failure);
	struct berth_freshness freshness = berth_last_freshness(cli->berth);
	int status = code ? output_failure(&failure) : 0;
	if (code == 0) {
		print_member(cli, member);
	}
	output_freshness(&freshness);
	berth_set_close(set);
	return status;
}
