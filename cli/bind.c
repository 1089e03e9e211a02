/* berth bind. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/buffer.h"
#include "lib/base/limits.h"
#include "lib/base/utf8.h"
#include "lib/program/memory.h"
#include "lib/record/record.h"

static int report(const struct err *err)
{
	struct berth_failure failure = { .code = err->code };
	snprintf(failure.message, sizeof(failure.message), "%s", err->msg);
	return output_failure(&failure);
}

/* ---- the record to bind ---- */

static int cannot_read(const char *name, bool too_long, int reason)
{
	struct err err = ERR_INIT;
	if (too_long) {
		err_set(&err, BERTH_LIMIT_EXCEEDED, "%s: a record has at most %d bytes", name,
			LIMIT_RECORD_BYTES);
	} else {
		err_set_errno(&err, BERTH_FAILED, reason, "%s", name);
	}
	return report(&err);
}

/* Reads all of a file or of standard input into malloc'ed text. 0 or the exit status. */
static int read_file(const char *name, char **ret_text)
{
	struct buffer content;
	bool standard = strcmp(name, "-") == 0;
	FILE *file = standard ? stdin : fopen(name, "re");
	buffer_init(&content, 4 * LIMIT_RECORD_BYTES);
	bool good = file != NULL;
	while (good && !feof(file)) {
		char bytes[4096];
		size_t got = fread(bytes, 1, sizeof(bytes), file);
		good = !ferror(file) && buffer_append(&content, bytes, got) == 0;
	}
	int reason = errno;
	if (file && !standard) {
		fclose(file);
	}
	if (!good) {
		bool long_one = content.failed;
		buffer_finish(&content);
		return cannot_read(name, long_one, reason);
	}
	if (strlen(buffer_text(&content)) != content.len) {
		struct err err = ERR_INIT;
		err_set(&err, BERTH_INVALID_RECORD, "%s: a record holds no NUL", name);
		buffer_finish(&content);
		return report(&err);
	}
	*ret_text = memory_must(strdup(utf8_skip_mark(buffer_text(&content))));
	buffer_finish(&content);
	return 0;
}

/* The short forms of an endpoint: at most one of them is given. */
static const struct short_form {
	const char *option;
	size_t place;
	const char *address_type;
	const char *protocol;
	const char *api; /* NULL: --api says it */
} short_forms[] = {
	{ "--uri", offsetof(struct options, uri), "uri", "", NULL },
	{ "--inet", offsetof(struct options, inet), "inetaddress", "tcp", NULL },
	{ "--webui", offsetof(struct options, webui), "uri", "webui", "http://" },
	{ "--rest", offsetof(struct options, rest), "uri", "REST", "http://" },
};

static const char *address_of(const struct options *options, const struct short_form *form)
{
	return *(const char *const *)(const void *)((const char *)options + form->place);
}

static const struct short_form *given_form(const struct options *options, size_t *ret_count)
{
	const struct short_form *given = NULL;
	*ret_count = 0;
	for (size_t i = 0; i < ARRAY_LEN(short_forms); i++) {
		if (address_of(options, &short_forms[i])) {
			given = &short_forms[i];
			(*ret_count)++;
		}
	}
	return given;
}

static int add_short_endpoint(struct record *record, const struct options *options,
	const struct short_form *form, struct err *err)
{
	const char *text = address_of(options, form);
	const char *api = options->api ? options->api : form->api;
	const char *protocol = options->protocol ? options->protocol : form->protocol;
	json_t *address = record_address_parse(form->address_type, text, err);
	if (!address) {
		return err_wrap(err, "%s", form->option);
	}
	json_t *addresses = json_pack("[o]", address);
	if (record_add_endpoint_take(record, options->internal ? "internal" : "external", api,
		    protocol, form->address_type, addresses) != 0) {
		return err_set(
			err, BERTH_FAILED, "%s: no valid text, or out of memory", form->option);
	}
	return 0;
}

static int set_texts(struct record *record, const struct options *options, struct err *err)
{
	const struct {
		const char *name;
		const char *value;
	} texts[] = { { "description", options->description }, { "yarn:id", options->id },
		{ "yarn:persistence", options->persistence } };
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (texts[i].value && record_set_text(record, texts[i].name, texts[i].value) != 0) {
			return err_set(err, BERTH_FAILED, "%s: no valid text", texts[i].name);
		}
	}
	return 0;
}

static int build_record(
	const struct options *options, const struct short_form *form, char **ret_text)
{
	struct err err = ERR_INIT;
	size_t len;
	struct record *record = record_create();
	int code = record ? set_texts(record, options, &err)
			  : err_set(&err, BERTH_FAILED, "out of memory");
	if (code == 0) {
		code = add_short_endpoint(record, options, form, &err);
	}
	if (code == 0) {
		code = record_encode(record, ret_text, &len, &err);
	}
	record_free(record);
	return code ? report(&err) : 0;
}

/* The record as text, from a file or from the short forms. 0 or the exit status. */
static int make_record(const struct options *options, char **ret_text)
{
	size_t count;
	const struct short_form *form = given_form(options, &count);
	if (options->file) {
		if (form || options->api || options->protocol || options->description ||
			options->id || options->persistence || options->internal) {
			return output_usage("bind: with --file the record says all of itself");
		}
		return read_file(options->file, ret_text);
	}
	if (count != 1) {
		return output_usage(
			"bind needs --file, or one of --uri, --inet, --webui and --rest");
	}
	if (!options->api && !form->api) {
		return output_usage("bind: %s needs --api", form->option);
	}
	return build_record(options, form, ret_text);
}

/* ---- bind ---- */

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

/* From now on signals only interrupt the wait, so that the record is withdrawn in order. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* A record that is held: bound again when it is gone. */
struct holding {
	struct cli *cli;
	const char *record;
	bool look; /* something has changed at our path */
	bool gone; /* it has been reported */
};

/* Every event only says that something changed; a lookup of the path gives the state of now. */
static void on_change(void *context, const struct berth_event *event)
{
	struct holding *holding = context;
	(void)event;
	holding->look = true;
}

static void report_gone(struct holding *holding, bool gone)
{
	if (gone != holding->gone) {
		fprintf(stderr, "note: %s is %s\n", cli_operand(holding->cli),
			gone ? "gone; binding it again" : "bound again");
		holding->gone = gone;
	}
}

static bool same_record(const char *a, const char *b)
{
	struct err ignored = ERR_INIT;
	struct record *a_record = NULL;
	struct record *b_record = NULL;
	bool same = record_decode(&a_record, a, strlen(a), &ignored) == 0 &&
		record_decode(&b_record, b, strlen(b), &ignored) == 0 &&
		record_equal(a_record, b_record);
	record_free(a_record);
	record_free(b_record);
	return same;
}

/* Reads the record at the path: 0 when it is ours. */
static int look(const struct holding *holding, struct berth_failure *failure)
{
	struct berth_answer answer;
	const char *path = cli_operand(holding->cli);
	int code = berth_resolve(holding->cli->berth, path, &answer, failure);
	bool ours = code == 0 && same_record(answer.json, holding->record);
	if (code == 0) {
		berth_answer_finish(&answer);
	}
	if ((code == 0 && !ours) || code == BERTH_NO_RECORD || code == BERTH_INVALID_RECORD) {
		failure->code = BERTH_FILE_ALREADY_EXISTS;
		snprintf(failure->message, sizeof(failure->message),
			"%s: another client has replaced the record", path);
		return failure->code;
	}
	return code;
}

static int look_and_bind(struct holding *holding, struct berth_failure *failure)
{
	int code = look(holding, failure);
	if (code == BERTH_PATH_NOT_FOUND) {
		unsigned parents = holding->cli->options.parents ? BERTH_BIND_PARENTS : 0u;
		report_gone(holding, true);
		code = berth_bind(holding->cli->berth, cli_operand(holding->cli), holding->record,
			BERTH_BIND_EPHEMERAL | parents, failure);
	}
	if (code == 0) {
		report_gone(holding, false);
	}
	return code;
}

/* While the registry is away, nothing is known to be lost. */
static bool is_temporary(int code)
{
	return code == BERTH_REGISTRY_UNAVAILABLE || code == BERTH_TIMEOUT;
}

/* Keeps the session, and so the record, until a signal comes. */
static int keep(struct holding *holding)
{
	struct berth_failure failure;
	while (!interrupted) {
		/* A bound on the wait, for a signal that arrives just before it. */
		if (berth_dispatch(holding->cli->berth, 1000, &failure) != 0) {
			return output_failure(&failure);
		}
		int code = holding->look && !interrupted ? look_and_bind(holding, &failure) : 0;
		if (code != 0 && !is_temporary(code)) {
			return output_failure(&failure);
		}
		holding->look = code != 0;
	}
	return 0;
}

static int hold(struct cli *cli, const char *record)
{
	struct berth_failure failure;
	struct berth_watch *watch;
	struct holding holding = { .cli = cli, .record = record };
	if (cli->output.terminal) {
		puts("bound; held until interrupted");
		fflush(stdout);
	}
	if (berth_watch(cli->berth, cli_operand(cli), false, on_change, &holding, &watch,
		    &failure) != 0) {
		return output_failure(&failure);
	}
	int status = keep(&holding);
	berth_unwatch(watch);
	return status;
}

int verb_bind(struct cli *cli)
{
	struct berth_failure failure;
	char *record = NULL;
	int status = make_record(&cli->options, &record);
	if (status != 0) {
		return status;
	}
	unsigned flags = (cli->options.overwrite ? BERTH_BIND_OVERWRITE : 0u) |
		(cli->options.ephemeral ? BERTH_BIND_EPHEMERAL : 0u) |
		(cli->options.parents ? BERTH_BIND_PARENTS : 0u);
	if (cli->options.ephemeral) {
		catch_signals();
	}
	if (berth_bind(cli->berth, cli_operand(cli), record, flags, &failure) != 0) {
		status = cli_write_failed(cli, &failure);
	} else if (cli->options.ephemeral) {
		status = hold(cli, record);
	}
	free(record);
	return status;
}
