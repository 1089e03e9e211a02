/* Puts an output's content in place: its check, the file, on_change. */
#include "agent/output/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/file_place.h"
#include "agent/base/log.h"
#include "agent/output/file.h"
#include "lib/base/array.h"
#include "lib/base/hash.h"

/*
 * One attempt at a file, step by step: content, check, file, on_change. Each step ends the attempt
 * or begins the next one.
 */

enum { CONTENT_BYTES = 16 << 20, COMMAND_OUTPUT_BYTES = 4096, SHOWN_BYTES = 200 };

static void fail(struct output *output, const struct err *err)
{
	output_fail_take(output, allocate_text(err->msg), NULL);
}

/* ---- commands ---- */

struct command_launch *output_make_launch(const struct config_output *config)
{
	const struct command_variable variables[] = {
		{ "BERTH_OUTPUT", config->name },
		{ "BERTH_OUTPUT_PATH", config->path },
	};
	const struct command_launch_options options = { .variables = variables,
		.variable_count = ARRAY_LEN(variables),
		.user = "",
		.cwd = "" };
	return command_launch_create(&options);
}

/* The last line that says something, cut to a readable length. */
static char *last_line(const char *text, size_t len)
{
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
		len--;
	}
	size_t start = len;
	while (start > 0 && text[start - 1] != '\n') {
		start--;
	}
	len -= start;
	return allocate_bytes(text + start, len < SHOWN_BYTES ? len : SHOWN_BYTES);
}

/* True when the command succeeded; else the attempt has failed. */
static bool succeeded(
	struct output *output, const char *step, const struct command_outcome *outcome)
{
	output->command = NULL;
	if (outcome->end == COMMAND_EXITED && outcome->status == 0) {
		return true;
	}
	char status[COMMAND_STATUS_BYTES];
	if (outcome->end == COMMAND_TIMED_OUT) {
		snprintf(status, sizeof(status), "not ended after %lld ms",
			(long long)output->config->timeout_ms);
	} else {
		command_status_text(status, outcome->end, outcome->status);
	}
	char *line = outcome->errors_len > 0 ? last_line(outcome->errors, outcome->errors_len)
					     : last_line(outcome->output, outcome->output_len);
	output_fail_take(output, allocate_format("%s: %s", step, status), line);
	return false;
}

static void start_command(struct output *output, enum output_state state, char *const *argv,
	const struct buffer *input, void (*on_end)(void *, const struct command_outcome *))
{
	const struct command_options options = { .argv = argv,
		.launch = output->launch,
		.input = input ? buffer_text(input) : NULL,
		.input_len = input ? input->len : 0,
		.output_max = state == OUTPUT_RENDERING ? CONTENT_BYTES : COMMAND_OUTPUT_BYTES,
		.separate_errors = true,
		.timeout_ms = output->config->timeout_ms };
	const struct command_callbacks callbacks = { .on_end = on_end, .context = output };
	struct err err = ERR_INIT;
	output->command = command_start(output->loop, &options, &callbacks, &err);
	if (output->command) {
		output_enter_take(output, state, allocate_text(""));
	} else {
		fail(output, &err);
	}
}

/* ---- on_change ---- */

static void on_notified(void *context, const struct command_outcome *outcome)
{
	struct output *output = context;
	if (succeeded(output, "on_change", outcome)) {
		memcpy(output->delivered, output->digest, sizeof(output->delivered));
		output->callbacks.on_delivered(output->callbacks.context, output);
		output_succeed(output);
	}
}

/*
 * Also for a file that was in place already: its command may have failed, or died with the agent.
 */
static void notify(struct output *output)
{
	if (!output->config->on_change_argv || strcmp(output->digest, output->delivered) == 0) {
		output_succeed(output);
		return;
	}
	output->counts.runs++;
	start_command(output, OUTPUT_NOTIFYING, output->config->on_change_argv, NULL, on_notified);
}

/* ---- the file ---- */

/* The work of this step, without its data. */
static struct file_work make_work(const struct output *output, enum file_step step)
{
	const struct config_output *config = output->config;
	bool is_block = config->format == CONFIG_FORMAT_HOSTS;
	bool in_place = config->write == CONFIG_WRITE_IN_PLACE;
	return (struct file_work){
		.step = step,
		.in_place = in_place,
		.temporary = in_place
			? allocate_format("%s/output-%s.new", output->state_dir, config->name)
			: output_file_temporary(output->place, is_block ? config->name : ""),
		.path = allocate_text(output->place),
		.owner = output_file_owner(
			output->place, config->mode, config->owner_id, config->group_id),
		.block = is_block ? allocate_text(config->name) : NULL,
		.block_domain = is_block ? allocate_text(output->domain) : NULL,
		.version = output->version,
	};
}

static void add_work_take(struct output *output, struct file_work *work_take,
	void (*on_done)(void *context, const struct err *err))
{
	output->file = file_queue_add(output->files, work_take, on_done, output);
	output_enter_take(output, OUTPUT_WRITING, allocate_text(""));
}

static void on_in_place(void *context, const struct err *err)
{
	struct output *output = context;
	output->file = NULL;
	if (err->code) {
		fail(output, err);
		return;
	}
	free(output->temporary);
	output->temporary = NULL;
	output->counts.writes++;
	output->delivered[0] = '\0';
	log_info("output", "%s: %s is written, %zu instances", output->config->name,
		output->config->path, output->counted.serving);
	notify(output);
}

static void put_in_place(struct output *output)
{
	struct file_work work = make_work(output, FILE_COMMIT);
	add_work_take(output, &work, on_in_place);
}

static void on_checked(void *context, const struct command_outcome *outcome)
{
	struct output *output = context;
	if (succeeded(output, "check", outcome)) {
		put_in_place(output);
	}
}

/* The word with each {} replaced by the name of the new file. */
static char *fill_word(const char *word, const char *name)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	for (const char *found; (found = strstr(word, "{}")); word = found + 2) {
		buffer_append(&out, word, (size_t)(found - word));
		buffer_append_text(&out, name);
	}
	buffer_append_text(&out, word);
	return allocated(buffer_take(&out, NULL));
}

static void check(struct output *output)
{
	char *const *words = output->config->check_argv;
	size_t count = 0;
	while (words[count]) {
		count++;
	}
	char **argv = allocate_zeroed(count + 1, sizeof(*argv));
	for (size_t i = 0; i < count; i++) {
		argv[i] = fill_word(words[i], output->temporary);
	}
	start_command(output, OUTPUT_CHECKING, argv, NULL, on_checked);
	for (size_t i = 0; i < count; i++) {
		free(argv[i]);
	}
	free(argv);
}

static void on_prepared(void *context, const struct err *err)
{
	struct output *output = context;
	output->file = NULL;
	if (err->code) {
		fail(output, err);
		return;
	}
	struct file_work work = make_work(output, FILE_COMMIT);
	output->temporary = work.temporary;
	work.temporary = NULL;
	file_work_finish(&work);
	check(output);
}

/* Whether the file is as the work would make it; a block's version is that of the file. */
static int is_done(
	const struct output *output, struct file_work *work, bool *ret_done, struct err *err)
{
	struct buffer whole;
	buffer_init(&whole, SIZE_MAX);
	int code = work->block ? file_work_content(work, &whole, &work->version, err) : 0;
	if (!code) {
		*ret_done = output_file_equals(output->place,
			work->block ? buffer_text(&whole) : work->data,
			work->block ? whole.len : work->len, work->in_place ? NULL : &work->owner);
	}
	buffer_finish(&whole);
	return code;
}

/* The head of the lines, which a block's marks take the place of. */
static void drop_head(struct buffer *lines)
{
	const char *end = strchr(buffer_text(lines), '\n');
	if (*buffer_text(lines) == '#' && end) {
		buffer_consume(lines, (size_t)(end + 1 - lines->data));
	}
}

static int find_place(struct output *output, struct err *err)
{
	const struct config_output *config = output->config;
	if (config->write != CONFIG_WRITE_IN_PLACE) {
		output->place = file_place(config->path, err);
	} else if (output->state_dir) {
		output->place = allocate_text(config->path);
	} else {
		err_set(err, BERTH_FAILED,
			"`write = in-place` makes the new file in state_dir, which cannot be used");
	}
	return err->code;
}

static void take_content(struct output *output)
{
	const struct config_output *config = output->config;
	struct err err = ERR_INIT;
	bool done = false;
	if (find_place(output, &err)) {
		fail(output, &err);
		return;
	}
	struct file_work work = make_work(output, config->check_argv ? FILE_PREPARE : FILE_REPLACE);
	if (work.block) {
		drop_head(&output->content);
	}
	work.data = allocated(buffer_take(&output->content, &work.len));
	snprintf(output->digest, sizeof(output->digest), "%016llx",
		(unsigned long long)hash_bytes(HASH_INIT, work.data, work.len));
	if (is_done(output, &work, &done, &err)) {
		fail(output, &err);
	} else if (done) {
		notify(output);
	} else {
		output->version = work.version;
		add_work_take(output, &work, config->check_argv ? on_prepared : on_in_place);
	}
	file_work_finish(&work);
}

/* ---- the content ---- */

static void on_rendered(void *context, const struct command_outcome *outcome)
{
	struct output *output = context;
	if (!succeeded(output, "render", outcome)) {
		return;
	}
	if (outcome->output_len == 0 || outcome->output_cut) {
		output_fail_take(output,
			allocate_text(outcome->output_cut ? "render: it printed more than 16 MiB"
							  : "render: it printed nothing"),
			NULL);
		return;
	}
	buffer_clear(&output->content);
	buffer_append(&output->content, outcome->output, outcome->output_len);
	take_content(output);
}

static void render_by_command(struct output *output, const struct render_picture *picture)
{
	const struct config_output *config = output->config;
	const struct render_filter filter = output_filter(config);
	struct render_result result;
	struct err err = ERR_INIT;
	struct buffer input;
	buffer_init(&input, CONTENT_BYTES);
	if (output_picture_write(picture, config->name, &filter,
		    config->prefer == CONFIG_PREFER_ZONE, &input, &result, &err)) {
		fail(output, &err);
	} else {
		output_note_left_out(output, &result);
		start_command(output, OUTPUT_RENDERING, config->render_argv, &input, on_rendered);
	}
	buffer_finish(&input);
}

_Static_assert((int)CONFIG_FORMAT_HAPROXY_RUNTIME == (int)RENDER_FORMATS,
	"a configured format before haproxy-runtime is one of lib/render/render.h");

static void render(struct output *output, const struct render_picture *picture)
{
	const struct config_output *config = output->config;
	const struct render_options options = { .format = (enum render_format)config->format,
		.filter = output_filter(config),
		.name = config->name,
		.backend = config->backend,
		.domain = output->domain,
		.tiers = config->prefer == CONFIG_PREFER_ZONE,
		.address_of = output->hosts ? output_hosts_address : NULL,
		.address_context = output->hosts };
	struct render_result result;
	struct err err = ERR_INIT;
	if (render_write(&output->content, picture, &options, &result, &err)) {
		fail(output, &err);
		return;
	}
	output_note_left_out(output, &result);
	take_content(output);
}

void output_deliver(struct output *output, const struct render_picture *picture)
{
	output_drop_attempt(output);
	buffer_init(&output->content, CONTENT_BYTES);
	if (output->config->format == CONFIG_FORMAT_RENDER) {
		render_by_command(output, picture);
	} else {
		render(output, picture);
	}
}
