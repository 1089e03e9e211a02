#include "agent/output/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/output/internal.h"
#include "lib/base/clock.h"

enum { AWAY_MS = 1000 };

/* ---- attempts ---- */

/* The change stays due: it is taken up when the registry answers again. */
static void wait_for_registry(struct output *output)
{
	output->first_change_ms = output->first_change_ms ? output->first_change_ms
							  : clock_monotonic_ms();
	timer_start(&output->timer, AWAY_MS);
	output_enter_take(output, OUTPUT_WAITING, allocate_text("the registry does not answer"));
}

static bool is_enough(const struct output *output)
{
	const struct config_output *config = output->config;
	return output->instances == 0 ? config->write_when_empty
				      : output->instances >= (size_t)config->min_instances;
}

static void on_haproxy_done(void *context, const struct err *err, size_t changes)
{
	struct output *output = context;
	if (output->state == OUTPUT_CONFIRMING) {
		return; /* HAProxy hears the next picture soon */
	}
	if (err) {
		output_fail_take(output, allocate_text(err->msg), NULL);
		return;
	}
	output->counts.writes += changes > 0;
	/*
	 * HAProxy has the servers of the last picture; the next look shows whether that picture is
	 * still true.
	 */
	if (output->state != OUTPUT_NOTIFYING && !output->first_change_ms) {
		output->first_change_ms = clock_monotonic_ms();
	}
	output_succeed(output);
}

static void take_picture(struct output *output, const struct output_picture *picture)
{
	const struct render_filter filter = output_filter(output->config);
	output->first_change_ms = 0;
	output->instances = render_count_instances(&picture->picture, &filter);
	if (!is_enough(output)) {
		output->backoff_ms = 0;
		output_enter_take(output, OUTPUT_HELD,
			allocate_format("%zu of at least %d instances: nothing is changed",
				output->instances, output->config->min_instances));
	} else if (output->hosts && !output_hosts_want(output->hosts, &picture->picture, &filter)) {
		output_enter_take(output, OUTPUT_RESOLVING, allocate_text(""));
	} else if (output->haproxy) {
		struct render_result result;
		output_enter_take(output, OUTPUT_NOTIFYING, allocate_text(""));
		haproxy_want(output->haproxy, &picture->picture, &filter, &result);
		output_note_left_out(output, &result);
	} else {
		output_deliver(output, picture);
	}
}

static void attempt(struct output *output)
{
	struct output_picture picture;
	output_picture_read(
		&picture, output->config->from_path, &output->observer, clock_monotonic_ms());
	if (picture.confirmed) {
		take_picture(output, &picture);
	} else {
		wait_for_registry(output);
	}
	output_picture_finish(&picture);
}

static void on_confirmed(void *context, struct cache_answer *answer, const struct err *err)
{
	(void)answer;
	struct output *output = context;
	if (err->code) {
		wait_for_registry(output);
	} else {
		attempt(output);
	}
}

static void confirm(struct output *output)
{
	output->confirmation.on_answer = on_confirmed;
	output->confirmation.context = output;
	switch (cache_confirm(output->cache, clock_monotonic_ms(), &output->confirmation)) {
	case CACHE_READY:
		attempt(output);
		break;
	case CACHE_WAITING:
		output_enter_take(output, OUTPUT_CONFIRMING, allocate_text(""));
		break;
	case CACHE_UNAVAILABLE:
		wait_for_registry(output);
		break;
	}
}

/* ---- changes ---- */

static void note_change(struct output *output)
{
	if (!output->first_change_ms) {
		output->first_change_ms = clock_monotonic_ms();
	}
	if (output->complete && !output_is_busy(output)) {
		output_settle(output);
	}
}

/* The picture is read again: it may be another one since the look-up began. */
static void on_hosts_changed(void *context)
{
	struct output *output = context;
	if (output->state == OUTPUT_RESOLVING) {
		confirm(output);
	} else {
		note_change(output);
	}
}

static void on_ready(void *context)
{
	struct output *output = context;
	output->complete = true;
	note_change(output);
}

static void on_event(void *context, enum cache_event event, const char *path, const char *record)
{
	(void)path;
	(void)record;
	struct output *output = context;
	bool changes = event == CACHE_UPDATED || event == CACHE_DELETED;
	if (changes || (event == CACHE_FRESH && output->first_change_ms)) {
		note_change(output);
	}
}

static void on_refused(void *context, const struct err *err)
{
	struct output *output = context;
	output->observing = false;
	output->complete = false;
	if (err->code == BERTH_REGISTRY_UNAVAILABLE) {
		wait_for_registry(output);
	} else {
		output->first_change_ms = 0;
		output_fail_take(output, allocate_text(err->msg), NULL);
	}
}

static void observe(struct output *output)
{
	output->observer = (struct cache_observer){
		.scope = output->config->from_tree ? CACHE_TREE : CACHE_CHILDREN_TOO,
		.on_ready = on_ready,
		.on_event = on_event,
		.on_refused = on_refused,
		.context = output,
	};
	output->observing = true;
	cache_observe(output->cache, output->config->from_path, &output->observer);
}

static void on_timer(void *context)
{
	struct output *output = context;
	if (!output->observing) {
		observe(output);
	} else if (output->complete && !output_is_busy(output)) {
		confirm(output);
	}
}

/* ---- life ---- */

struct output *output_create(const struct output_options *options)
{
	struct output *output = allocate_zeroed(1, sizeof(*output));
	const struct config_output *config = options->config;
	config_ref(config->whole);
	output->loop = options->loop;
	output->cache = options->cache;
	output->files = options->files;
	output->config = config;
	output->domain = allocate_text(options->domain);
	output->zone = allocate_text(options->zone);
	output->callbacks = options->callbacks;
	output->why = allocate_text("");
	output->left_out = allocate_text("");
	output->since = clock_wall_s();
	output->launch = output_make_launch(config);
	snprintf(output->delivered, sizeof(output->delivered), "%s",
		options->delivered ? options->delivered : "");
	timer_init(&output->timer, output->loop, "output", on_timer, output);
	if (config->format == CONFIG_FORMAT_HAPROXY_RUNTIME) {
		output->haproxy = haproxy_create(
			output->loop, config->socket, config->backend, on_haproxy_done, output);
	}
	if (config->format == CONFIG_FORMAT_NGINX) {
		output->hosts = output_hosts_create(output->loop, on_hosts_changed, output);
	}
	observe(output);
	return output;
}

void output_destroy(struct output *output)
{
	if (!output) {
		return;
	}
	timer_stop(&output->timer);
	if (output->observing) {
		cache_unobserve(&output->observer);
	}
	if (output->state == OUTPUT_CONFIRMING) {
		cache_cancel(&output->confirmation);
	}
	haproxy_destroy(output->haproxy);
	output_hosts_destroy(output->hosts);
	output_drop_attempt(output);
	command_launch_destroy(output->launch);
	config_unref(output->config->whole);
	free(output->domain);
	free(output->zone);
	free(output->why);
	free(output->left_out);
	free(output->printed);
	free(output);
}

/* ---- views ---- */

const struct config_output *output_config(const struct output *output)
{
	return output->config;
}

enum output_state output_state(const struct output *output)
{
	return output->state;
}

const char *output_why(const struct output *output)
{
	return output->why;
}

const char *output_printed(const struct output *output)
{
	return output->printed ? output->printed : "";
}

const char *output_delivered(const struct output *output)
{
	return output->delivered;
}

size_t output_instances(const struct output *output)
{
	return output->instances;
}

const struct output_counts *output_counts(const struct output *output)
{
	return &output->counts;
}

json_t *output_json(const struct output *output)
{
	const struct config_output *config = output->config;
	const struct output_counts *counts = &output->counts;
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:I, s:I, s:I, s:I}", "name", config->name,
		"from", config->from, output->haproxy ? "socket" : "path",
		output->haproxy ? config->socket : config->path, "state",
		output_state_name(output->state), "why", output->why, "since", output->since,
		"instances", (json_int_t)output->instances, "writes", (json_int_t)counts->writes,
		"runs", (json_int_t)counts->runs, "failures", (json_int_t)counts->failures);
}
