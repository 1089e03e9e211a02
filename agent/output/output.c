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

/* The nearest path that would be needed and is not confirmed; NULL: none. */
static const struct output_source *blocking(const struct output *output)
{
	const struct failover *failover = &output->failover;
	for (size_t i = 1; failover->blocked && i < output->source_count; i++) {
		if (!output->sources[i].confirmed) {
			return &output->sources[i];
		}
	}
	return NULL;
}

/* Without any instance, a path that is not confirmed may have some. */
static bool is_enough(const struct output *output)
{
	const struct config_output *config = output->config;
	return output->instances == 0 ? config->write_when_empty && !blocking(output)
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
	if (!is_enough(output)) {
		const struct output_source *missing = blocking(output);
		output->backoff_ms = 0;
		output_enter_take(output, OUTPUT_HELD,
			allocate_format("%zu of at least %d instances%s%s%s: nothing is changed",
				output->instances, output->config->min_instances,
				missing ? ", and " : "", missing ? missing->path : "",
				missing ? " is not confirmed" : ""));
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

/* Adds a path to the picture, and says what is known of it. */
static struct failover_path add_source(
	struct output *output, struct output_source *source, struct output_picture *picture)
{
	const struct render_filter filter = output_filter(output->config);
	size_t before = picture->count;
	int64_t now_ms = clock_monotonic_ms();
	struct failover_path path = { .confirmed = false };
	/* The nearest one has been confirmed; of a further one that may take a moment. */
	bool heard = source->rank == 0 ||
		(source->complete && output_source_confirm(source, now_ms) == CACHE_READY);
	if (source->complete) {
		bool live = output_picture_add(picture, source->rank, &source->observer, now_ms);
		const struct render_picture added = { .members = picture->members + before,
			.count = picture->count - before };
		path.confirmed = heard && live;
		path.instances = render_count_instances(&added, &filter);
	}
	source->confirmed = path.confirmed;
	return path;
}

struct reading {
	struct output *output;
	struct output_picture *picture;
	size_t *instances; /* of each path */
};

/* False: the nearest one is not confirmed. */
static bool know(void *context, size_t index, struct failover_path *ret_path)
{
	const struct reading *reading = context;
	*ret_path = add_source(reading->output, &reading->output->sources[index], reading->picture);
	reading->instances[index] = ret_path->instances;
	return index > 0 || ret_path->confirmed;
}

/* The picture of the paths in use; false when the nearest one is not confirmed. */
static bool read_picture(struct output *output, struct output_picture *picture)
{
	const struct config_output *config = output->config;
	struct reading reading = { output, picture,
		allocate_zeroed(output->source_count, sizeof(*reading.instances)) };
	int64_t now_ms = clock_monotonic_ms();
	size_t used = failover_walk(&output->failover, output->source_count,
		(size_t)config->min_instances, config->failover_hold_ms, now_ms, know, &reading);
	if (used > 0) {
		int64_t due_ms = failover_due_ms(
			&output->failover, config->failover_hold_ms, now_ms);
		output_picture_cut(picture, (unsigned)used);
		output->instances = 0;
		for (size_t i = 0; i < used; i++) {
			output->instances += reading.instances[i];
		}
		if (due_ms >= 0) {
			timer_start(&output->again, due_ms);
		}
	}
	free(reading.instances);
	return used > 0;
}

static void attempt(struct output *output)
{
	const struct config_output *config = output->config;
	struct output_picture picture;
	output_picture_init(&picture, output->sources[0].path);
	if (read_picture(output, &picture)) {
		if (config->prefer == CONFIG_PREFER_ZONE) {
			picture.tiers = true;
			render_by_nearness(picture.members, picture.count, output->zone);
		}
		take_picture(output, &picture);
	} else {
		wait_for_registry(output);
	}
	output_picture_finish(&picture);
}

static void confirm(struct output *output)
{
	switch (output_source_confirm(&output->sources[0], clock_monotonic_ms())) {
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
	if (output->sources[0].complete && !output_is_busy(output)) {
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

/* Whether a further path is in use, or would be if it were known. */
static bool matters(const struct output *output, const struct output_source *source)
{
	return source->rank <= output->failover.further || output->failover.blocked;
}

static void on_source_change(void *context, const struct output_source *source, bool fresh)
{
	struct output *output = context;
	bool news = source->rank == 0 ? !fresh || output->first_change_ms : matters(output, source);
	if (news) {
		note_change(output);
	}
}

static void on_source_refused(
	void *context, const struct output_source *source, const struct err *err)
{
	struct output *output = context;
	if (source->rank > 0) {
		log_warn("output", "%s: %s is not followed: %s", output->config->name, source->path,
			err->msg);
		timer_start(&output->again, AWAY_MS);
	} else if (err->code == BERTH_REGISTRY_UNAVAILABLE) {
		wait_for_registry(output);
	} else {
		output->first_change_ms = 0;
		output_fail_take(output, allocate_text(err->msg), NULL);
	}
}

static void on_source_confirmed(
	void *context, const struct output_source *source, const struct err *err)
{
	struct output *output = context;
	if (source->rank > 0) {
		if (err->code == 0 && matters(output, source)) {
			note_change(output);
		}
	} else if (err->code) {
		wait_for_registry(output);
	} else {
		attempt(output);
	}
}

static void on_again(void *context)
{
	struct output *output = context;
	for (size_t i = 1; i < output->source_count; i++) {
		output_source_observe(&output->sources[i]);
	}
	note_change(output);
}

static void on_timer(void *context)
{
	struct output *output = context;
	if (!output->sources[0].observing) {
		output_source_observe(&output->sources[0]);
	} else if (output->sources[0].complete && !output_is_busy(output)) {
		confirm(output);
	}
}

/* ---- life ---- */

static void create_sources(struct output *output, struct cache *cache)
{
	const struct config_output *config = output->config;
	const struct output_source_callbacks callbacks = { .on_change = on_source_change,
		.on_refused = on_source_refused,
		.on_confirmed = on_source_confirmed,
		.context = output };
	output->source_count = config->failover_count + 1;
	output->sources = allocate_zeroed(output->source_count, sizeof(*output->sources));
	for (size_t i = 0; i < output->source_count; i++) {
		const char *from = i == 0 ? config->from : config->failover[i - 1];
		output_source_init(&output->sources[i], (unsigned)i, cache, from, &callbacks);
	}
	for (size_t i = 0; i < output->source_count; i++) {
		output_source_observe(&output->sources[i]);
	}
}

struct output *output_create(const struct output_options *options)
{
	struct output *output = allocate_zeroed(1, sizeof(*output));
	const struct config_output *config = options->config;
	config_ref(config->whole);
	output->loop = options->loop;
	output->files = options->files;
	output->config = config;
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
	timer_init(&output->again, output->loop, "failover", on_again, output);
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
	create_sources(output, options->cache);
	return output;
}

bool output_is_attached(const struct output *output, struct cache *cache)
{
	for (size_t i = 0; i < output->source_count; i++) {
		const struct output_source *source = &output->sources[i];
		if (cache_at(cache, source->path) != source->cache) {
			return false;
		}
	}
	return true;
}

void output_destroy(struct output *output)
{
	if (!output) {
		return;
	}
	timer_stop(&output->timer);
	timer_stop(&output->again);
	for (size_t i = 0; i < output->source_count; i++) {
		output_source_finish(&output->sources[i]);
	}
	free(output->sources);
	haproxy_destroy(output->haproxy);
	output_hosts_destroy(output->hosts);
	output_drop_attempt(output);
	command_launch_destroy(output->launch);
	config_unref(output->config->whole);
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
