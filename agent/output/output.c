#include "agent/output/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/mount.h"
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

static void hold(struct output *output)
{
	const char *missing = output->counted.missing;
	output->backoff_ms = 0;
	output_enter_take(output, OUTPUT_HELD,
		allocate_format("%zu of at least %d instances%s%s%s: nothing is changed",
			output->counted.serving, output->config->min_instances,
			missing ? ", and " : "", missing ? missing : "",
			missing ? " is not confirmed" : ""));
}

static void take_picture(struct output *output, const struct render_picture *picture)
{
	const struct render_filter filter = output_filter(output->config);
	if (output->hosts && !output_hosts_want(output->hosts, picture, &filter)) {
		output_enter_take(output, OUTPUT_RESOLVING, allocate_text(""));
	} else if (output->haproxy) {
		struct render_result result;
		output_enter_take(output, OUTPUT_NOTIFYING, allocate_text(""));
		haproxy_want(output->haproxy, picture, &filter, &result);
		output_note_left_out(output, &result);
	} else {
		output_deliver(output, picture);
	}
}

/* There is no set: it was never known, or it has been refused since. */
static void take_refusal(struct output *output, const struct err *err)
{
	if (err->code == BERTH_REGISTRY_UNAVAILABLE) {
		wait_for_registry(output);
	} else {
		output->first_change_ms = 0;
		output_fail_take(output, allocate_text(err->msg), NULL);
	}
}

/* Writes what is confirmed now. */
static void attempt(struct output *output)
{
	const struct set_view view = set_look(&output->user, SET_CONFIRMED_NEAREST);
	if (view.err) {
		take_refusal(output, view.err);
	} else if (view.confirming) {
		output_enter_take(output, OUTPUT_CONFIRMING, allocate_text(""));
	} else if (view.state == SET_STALE || (view.set && !view.set->confirmed)) {
		wait_for_registry(output);
	} else if (view.set) {
		output->first_change_ms = 0;
		output->counted = view.counted;
		if (view.counted.held || !view.set->enough) {
			hold(output);
			return;
		}
		struct set_picture picture;
		set_picture_read(&picture, view.set, output->from);
		take_picture(output, &picture.picture);
		set_picture_finish(&picture);
	}
}

/* ---- changes ---- */

static void note_change(struct output *output)
{
	if (!output->first_change_ms) {
		output->first_change_ms = clock_monotonic_ms();
	}
	if (!output_is_busy(output)) {
		output_settle(output);
	}
}

/* The set is looked at again: it may be another one since the look-up began. */
static void on_hosts_changed(void *context)
{
	struct output *output = context;
	if (output->state == OUTPUT_RESOLVING) {
		attempt(output);
	} else {
		note_change(output);
	}
}

static void on_news(void *context)
{
	struct output *output = context;
	const struct set_view view = set_look(&output->user, SET_AS_KNOWN);
	bool changed = view.revision != output->revision;
	output->revision = view.revision;
	if (output->state == OUTPUT_CONFIRMING) {
		attempt(output);
	} else if (view.err && !output_is_busy(output)) {
		take_refusal(output, view.err);
	} else if (view.set && (changed || output->first_change_ms)) {
		note_change(output);
	}
}

static void on_timer(void *context)
{
	struct output *output = context;
	if (!output_is_busy(output)) {
		attempt(output);
	}
}

/* ---- life ---- */

static void follow(struct output *output, struct sets *sets)
{
	const struct config_output *config = output->config;
	const struct set_key key = { .kind = SET_OF_PLACES,
		.what = config->from,
		.filter = output_filter(config),
		.near = config->prefer == CONFIG_PREFER_ZONE ? output->zone : NULL,
		.least = (unsigned)config->min_instances,
		.empty_counts = config->write_when_empty,
		.further = config->failover,
		.further_count = config->failover_count,
		.hold_ms = config->failover_hold_ms };
	output->user.on_news = on_news;
	output->user.context = output;
	set_follow(sets, &output->user, &key);
	on_news(output);
}

/* Without the sign for all below it. */
static char *path_of(const char *from)
{
	static const char all[] = "/**";
	size_t len = strlen(from);
	bool tree = len >= strlen(all) && strcmp(from + len - strlen(all), all) == 0;
	len -= tree ? strlen(all) : 0;
	return len > 0 ? allocate_bytes(from, len) : allocate_text("/");
}

struct output *output_create(const struct output_options *options)
{
	struct output *output = allocate_zeroed(1, sizeof(*output));
	const struct config_output *config = options->config;
	config_ref(config->whole);
	output->loop = options->loop;
	output->files = options->files;
	output->config = config;
	output->from = path_of(config->from);
	output->domain = allocate_text(options->domain);
	output->zone = allocate_text(options->zone);
	output->state_dir = options->state_dir ? allocate_text(options->state_dir) : NULL;
	output->callbacks = options->callbacks;
	output->why = allocate_text("");
	output->left_out = allocate_text("");
	output->since = clock_wall_s();
	output->launch = output_make_launch(config);
	snprintf(output->delivered, sizeof(output->delivered), "%s",
		options->delivered ? options->delivered : "");
	timer_init(&output->timer, output->loop, "output", on_timer, output);
	if (config->awaits) {
		free(output->why);
		output->why = allocate_format("it waits for an address: %s", config->awaits);
		return output;
	}
	if (config->format == CONFIG_FORMAT_HAPROXY_RUNTIME) {
		output->haproxy = haproxy_create(
			output->loop, config->socket, config->backend, on_haproxy_done, output);
	}
	if (config->format == CONFIG_FORMAT_NGINX) {
		output->hosts = output_hosts_create(output->loop, on_hosts_changed, output);
	}
	if (config->write == CONFIG_WRITE_IN_PLACE) {
		log_info("output", "%s: %s is written in place%s", config->name, config->path,
			mount_is_at(config->path) ? ", since it is a mount" : "");
	}
	follow(output, options->sets);
	return output;
}

void output_destroy(struct output *output)
{
	if (!output) {
		return;
	}
	timer_stop(&output->timer);
	set_leave(&output->user);
	haproxy_destroy(output->haproxy);
	output_hosts_destroy(output->hosts);
	output_drop_attempt(output);
	command_launch_destroy(output->launch);
	config_unref(output->config->whole);
	free(output->from);
	free(output->domain);
	free(output->zone);
	free(output->state_dir);
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
	return output->counted.serving;
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
		"instances", (json_int_t)output->counted.serving, "writes",
		(json_int_t)counts->writes, "runs", (json_int_t)counts->runs, "failures",
		(json_int_t)counts->failures);
}
