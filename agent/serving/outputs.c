#include "agent/serving/outputs.h"

#include <stdlib.h>
#include <string.h>

#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "lib/base/array.h"

static const char DELIVERED_DOCUMENT[] = "outputs";

/* ---- events of outputs ---- */

struct agent_output {
	struct agent *agent;
	struct output *output;
	enum output_state reported; /* the last lasting state */
	char *why;
};

static const char *name_of(const struct agent_output *item)
{
	return output_config(item->output)->name;
}

/* Log and history hear of lasting states; steps on the way would bury the rest. */
static void on_state(void *context, const struct output *output)
{
	struct agent_output *item = context;
	enum output_state state = output_state(output);
	const char *why = output_why(output);
	if (output_state_is_lasting(state) &&
		(state != item->reported || strcmp(why, item->why) != 0)) {
		char *subject = allocate_format("output %s", output_config(output)->name);
		agent_event(item->agent,
			&(struct transition){ .subject = subject,
				.from = output_state_name(item->reported),
				.to = output_state_name(state),
				.why = why,
				.output = output_printed(output) });
		free(subject);
		free(item->why);
		item->why = allocate_text(why);
		item->reported = state;
	}
	agent_wake(item->agent);
}

/* {name: what on_change was run for}; new reference. */
static json_t *delivered_json(const struct agent *agent)
{
	json_t *document = json_object();
	for (size_t i = 0; i < agent->output_count; i++) {
		const struct agent_output *item = agent->outputs[i];
		json_object_set_new(
			document, name_of(item), json_string(output_delivered(item->output)));
	}
	return document;
}

static void on_delivered_saved(void *context, const struct err *err)
{
	(void)context;
	if (err->code) {
		log_warn("output", "on_change runs once more after a restart: %s", err->msg);
	}
}

/*
 * An agent that is killed later must not run on_change again for what it has delivered. Nothing
 * waits for it: between the command's success and the disk there is always a moment.
 */
static void save_delivered(struct agent *agent)
{
	json_t *document = delivered_json(agent);
	if (state_dir_usable(&agent->state)) {
		state_dir_save(
			&agent->state, DELIVERED_DOCUMENT, document, on_delivered_saved, agent);
	}
	json_decref(document);
}

static void on_delivered(void *context, const struct output *output)
{
	(void)output;
	const struct agent_output *item = context;
	save_delivered(item->agent);
}

/* ---- coming and going ---- */

/* Accepts NULL. */
static void destroy(struct agent_output *item)
{
	if (!item) {
		return;
	}
	output_destroy(item->output);
	free(item->why);
	free(item);
}

static struct agent_output *create(
	struct agent *agent, const struct config_output *config, const char *delivered)
{
	struct agent_output *item = allocate_zeroed(1, sizeof(*item));
	item->agent = agent;
	item->reported = OUTPUT_WAITING;
	item->why = allocate_text("");
	item->output = output_create(&(struct output_options){
		.loop = agent->loop,
		.sets = agent->sets,
		.files = agent->files,
		.config = config,
		.domain = agent->config->dns.domain,
		.zone = agent->config->agent.zone,
		.state_dir = state_dir_usable(&agent->state) ? agent->state.path : NULL,
		.delivered = delivered,
		.callbacks = { on_state, on_delivered, item },
	});
	return item;
}

/* The item of `before` with the same options, taken out of there; NULL when there is none. */
static struct agent_output *take_equal(
	struct agent_output **before, size_t count, const struct config_output *config)
{
	for (size_t i = 0; i < count; i++) {
		struct agent_output *item = before[i];
		if (item && config_output_equal(output_config(item->output), config)) {
			before[i] = NULL;
			return item;
		}
	}
	return NULL;
}

/* Makes the outputs those of the configuration in force. */
static void arrange(struct agent *agent, const json_t *delivered)
{
	const struct config *config = agent->config;
	struct agent_output **before = agent->outputs;
	size_t before_count = agent->output_count;
	agent->outputs = allocate_zeroed(config->output_count, sizeof(*agent->outputs));
	agent->output_count = config->output_count;
	for (size_t i = 0; i < config->output_count; i++) {
		agent->outputs[i] = take_equal(before, before_count, &config->outputs[i]);
	}
	/* Those that go make way first: another one may write their file now. */
	for (size_t i = 0; i < before_count; i++) {
		destroy(before[i]);
	}
	free(before);
	for (size_t i = 0; i < config->output_count; i++) {
		const struct config_output *output = &config->outputs[i];
		if (!agent->outputs[i]) {
			agent->outputs[i] = create(agent, output,
				json_string_value(json_object_get(delivered, output->name)));
		}
	}
}

void agent_outputs_open(struct agent *agent)
{
	struct err err = ERR_INIT;
	json_t *delivered = state_dir_load(&agent->state, DELIVERED_DOCUMENT, &err);
	if (err.code) {
		log_warn("output", "on_change runs once more: %s", err.msg);
	}
	arrange(agent, delivered);
	json_decref(delivered);
}

void agent_outputs_reload(struct agent *agent)
{
	json_t *delivered = delivered_json(agent);
	arrange(agent, delivered);
	json_decref(delivered);
}

void agent_outputs_close(struct agent *agent)
{
	for (size_t i = 0; i < agent->output_count; i++) {
		destroy(agent->outputs[i]);
	}
	free(agent->outputs);
	agent->outputs = NULL;
	agent->output_count = 0;
}

/* ---- status ---- */

json_t *agent_outputs_json(const struct agent *agent)
{
	json_t *list = json_array();
	for (size_t i = 0; i < agent->output_count; i++) {
		json_array_append_new(list, output_json(agent->outputs[i]->output));
	}
	return list;
}

static bool is_kept(void *context, const char *name)
{
	(void)context;
	(void)name;
	return false;
}

void agent_outputs_update_metrics(struct agent *agent)
{
	static const enum metric of_outputs[] = { METRIC_OUTPUT_CURRENT, METRIC_OUTPUT_INSTANCES,
		METRIC_OUTPUT_WRITES, METRIC_OUTPUT_RUNS, METRIC_OUTPUT_FAILURES };
	struct metrics *metrics = agent->metrics;
	/* Those of the outputs that are there are set anew. */
	for (size_t i = 0; i < ARRAY_LEN(of_outputs); i++) {
		metrics_retain(metrics, of_outputs[i], is_kept, NULL);
	}
	for (size_t i = 0; i < agent->output_count; i++) {
		const struct output *output = agent->outputs[i]->output;
		const char *name = name_of(agent->outputs[i]);
		const struct output_counts *counts = output_counts(output);
		metrics_set(metrics, METRIC_OUTPUT_CURRENT, name,
			output_state(output) == OUTPUT_CURRENT);
		metrics_set(
			metrics, METRIC_OUTPUT_INSTANCES, name, (double)output_instances(output));
		metrics_set(metrics, METRIC_OUTPUT_WRITES, name, (double)counts->writes);
		metrics_set(metrics, METRIC_OUTPUT_RUNS, name, (double)counts->runs);
		metrics_set(metrics, METRIC_OUTPUT_FAILURES, name, (double)counts->failures);
	}
}
