/*
 * render: prints once what an output of the agent writes into a file, for entry points and for
 * people.
 *
 * The same renderers as the agent's (lib/render); the records come by the look-ups of libberth.
 */
#include "cli/cli.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json_text.h"
#include "lib/base/path.h"
#include "lib/program/memory.h"
#include "lib/render/render.h"

enum { TEXT_BYTES = 64 << 20 };

/* The records at and below the path, decoded. */
struct picture {
	struct render_member *members;
	struct record **records;
	size_t count;
	bool stale;
};

static void finish(struct picture *picture)
{
	for (size_t i = 0; i < picture->count; i++) {
		record_free(picture->records[i]);
		free((char *)(uintptr_t)picture->members[i].path);
	}
	free(picture->members);
	free(picture->records);
	*picture = (struct picture){ .count = 0 };
}

/* Adds the record if the JSON is one. */
static void add(struct picture *picture, const char *path, const json_t *json)
{
	struct record *record;
	char *text = memory_must(json_text(json, JSON_COMPACT));
	int code = record_decode(&record, text, strlen(text), NULL);
	free(text);
	if (code == BERTH_FAILED) {
		memory_must(NULL); /* no fault of the record */
	}
	if (code) {
		return;
	}
	size_t count = picture->count + 1;
	picture->members = memory_must(
		realloc(picture->members, count * sizeof(*picture->members)));
	picture->records = memory_must(
		realloc(picture->records, count * sizeof(*picture->records)));
	picture->members[picture->count] =
		(struct render_member){ .path = memory_must(strdup(path)), .record = record };
	picture->records[picture->count++] = record;
}

static int by_path(const void *a, const void *b)
{
	const struct render_member *left = a;
	const struct render_member *right = b;
	return strcmp(left->path, right->path);
}

static void add_all(struct picture *picture, struct berth_answer *answer)
{
	const char *path;
	json_t *json;
	picture->stale = picture->stale || answer->freshness.stale;
	json_t *records = cli_parse_take(answer);
	json_object_foreach (records, path, json) {
		add(picture, path, json);
	}
	json_decref(records);
}

/* The record of the path itself; a node without a record is not an error. */
static int read_self(struct cli *cli, struct picture *picture, struct berth_failure *failure)
{
	struct berth_answer answer;
	int code = berth_resolve(cli->berth, cli_operand(cli), &answer, failure);
	if (code == BERTH_NO_RECORD || code == BERTH_INVALID_RECORD) {
		return 0;
	}
	if (code == 0) {
		picture->stale = picture->stale || answer.freshness.stale;
		json_t *json = cli_parse_take(&answer);
		add(picture, cli_operand(cli), json);
		json_decref(json);
	}
	return code;
}

static int read_picture(struct cli *cli, struct picture *ret, struct berth_failure *failure)
{
	struct picture picture = { .count = 0 };
	struct berth_answer answer;
	int code = read_self(cli, &picture, failure);
	if (code == 0 && cli->options.recursive) {
		const struct berth_criteria below = { .under = cli_operand(cli) };
		finish(&picture); /* it is among those that are found */
		code = berth_find(cli->berth, &below, NULL, NULL, &answer, failure);
	} else if (code == 0) {
		code = berth_records(cli->berth, cli_operand(cli), &answer, failure);
	}
	if (code != 0) {
		finish(&picture);
		return code;
	}
	add_all(&picture, &answer);
	if (picture.count > 0) {
		qsort(picture.members, picture.count, sizeof(*picture.members), by_path);
	}
	*ret = picture;
	return 0;
}

static struct render_filter filter_of(const struct cli *cli)
{
	const struct options *options = &cli->options;
	return (struct render_filter){ options->api, options->protocol, options->scope, NULL };
}

/* The set is called like its path; what is above all components of an instance says more. */
static void write_name(char *out, size_t size, const char *path)
{
	size_t len = strlen(path);
	static const char generic[] = "/components";
	size_t generic_len = strlen(generic);
	if (len > generic_len && strcmp(path + len - generic_len, generic) == 0) {
		len -= generic_len;
	}
	size_t start = len;
	while (start > 0 && path[start - 1] != '/') {
		start--;
	}
	snprintf(out, size, "%.*s", (int)(len - start), path + start);
}

/* The table of options has checked the word already, against a list of its own. */
static bool find_format(const char *name, enum render_format *ret_format)
{
	for (int format = 0; format < RENDER_FORMATS; format++) {
		if (strcmp(render_format_names[format], name) == 0) {
			*ret_format = (enum render_format)format;
			return true;
		}
	}
	return false;
}

/* ---- names, for a format that takes addresses only ---- */

struct lookup {
	char *name; /* NULL: nothing has been looked up yet */
	struct addrinfo *found;
	char address[INET6_ADDRSTRLEN];
};

static void look_up(struct lookup *lookup, const char *name)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	if (lookup->found) {
		freeaddrinfo(lookup->found);
	}
	free(lookup->name);
	lookup->found = NULL;
	lookup->name = NULL;
	if (name) {
		lookup->name = memory_must(strdup(name));
		if (getaddrinfo(name, NULL, &hints, &lookup->found)) {
			lookup->found = NULL;
		}
	}
}

static const char *address_of(void *context, const char *name, size_t index)
{
	struct lookup *lookup = context;
	if (!lookup->name || strcmp(lookup->name, name) != 0) {
		look_up(lookup, name);
	}
	const struct addrinfo *item = lookup->found;
	while (item && index > 0) {
		item = item->ai_next;
		index--;
	}
	bool good = item &&
		getnameinfo(item->ai_addr, item->ai_addrlen, lookup->address,
			sizeof(lookup->address), NULL, 0, NI_NUMERICHOST) == 0;
	return good ? lookup->address : NULL;
}

/* ---- the text ---- */

static int print(const struct cli *cli, const struct picture *picture)
{
	char name[256];
	struct buffer out;
	struct render_result result;
	struct err err = ERR_INIT;
	struct lookup lookup = { .name = NULL };
	struct render_options options = { .filter = filter_of(cli),
		.name = name,
		.domain = "berth",
		.address_of = address_of,
		.address_context = &lookup };
	const struct render_picture all = { cli_operand(cli), picture->members, picture->count };
	if (!find_format(cli->options.render_format, &options.format)) {
		return output_error("no format is called %s", cli->options.render_format);
	}
	write_name(name, sizeof(name), cli_operand(cli));
	buffer_init(&out, TEXT_BYTES);
	int code = render_write(&out, &all, &options, &result, &err);
	if (code) {
		(void)output_error("%s", err.msg);
	} else {
		fwrite(buffer_text(&out), 1, out.len, stdout);
		if (result.left_out > 0) {
			output_note("%s", result.why);
		}
	}
	look_up(&lookup, NULL);
	buffer_finish(&out);
	return code ? EXIT_FAILURE : 0;
}

/* ---- with --wait ---- */

struct waiting {
	struct cli *cli;
	struct picture picture;
};

static int look(void *context, char *remains, struct berth_failure *failure)
{
	struct waiting *waiting = context;
	struct cli *cli = waiting->cli;
	struct picture picture;
	int code = read_picture(cli, &picture, failure);
	if (code != 0) {
		return cli_may_come(code, failure, remains) ? 0 : code;
	}
	const struct render_filter filter = filter_of(cli);
	const struct render_picture all = { cli_operand(cli), picture.members, picture.count };
	size_t count = render_count_instances(&all, &filter);
	snprintf(remains, CLI_REMAINS_BYTES, "%zu of %u instances%s", count, cli->options.instances,
		picture.stale ? ", and the registry is away" : "");
	if (count < cli->options.instances || picture.stale) {
		finish(&picture);
		return 0;
	}
	waiting->picture = picture;
	return 1;
}

int verb_render(struct cli *cli)
{
	struct waiting waiting = { .cli = cli };
	if (!cli->options.render_format) {
		return output_usage("render needs --format (berth render --help)");
	}
	int status = 0;
	if (cli->options.instances) {
		status = cli_follow(cli, look, &waiting);
	} else {
		struct berth_failure failure;
		status = read_picture(cli, &waiting.picture, &failure) ? output_failure(&failure)
								       : 0;
	}
	if (status == 0) {
		status = print(cli, &waiting.picture);
	}
	finish(&waiting.picture);
	return status;
}
