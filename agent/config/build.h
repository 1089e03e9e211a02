/*
 * From sections to structs: the steps between source.h and config.h.
 *
 * Each step reports mistakes to source->problems and goes on, so that one run shows all of them.
 */
#ifndef AGENT_CONFIG_BUILD_H
#define AGENT_CONFIG_BUILD_H

#include "agent/config/config.h"
#include "agent/config/options.h"
#include "agent/config/source.h"

struct config_builder {
	struct config_source *source;
	struct config *config;
	/*
	 * The configuration that this one follows, when it is made again for other addresses; else
	 * NULL. Then no rule may look at files.
	 */
	const struct config *former;
	/* The one that is read now: of it the functions below speak. */
	const struct config_section *section;
};

/* ---- config.c: the parts of a configuration ---- */

struct config *config_create(void);
/* A further section of the kind in its array, with its name and its defaults. */
void *config_section_add(struct config *config, enum config_section_kind kind, const char *name);
void config_endpoint_init(struct config_endpoint *endpoint, const char *name);
void config_endpoint_finish(struct config_endpoint *endpoint);
/* The intervals that follow from those that are given. In rule_check.c. */
void config_check_fill_intervals(struct config_check *check);
void config_dialect_init(struct config_dialect *dialect, const char *name);
void config_dialect_finish(struct config_dialect *dialect);
/* The [component NAME], or NULL. */
struct config_component *config_component_named(const struct config *config, const char *name);
/* The [output NAME], or NULL. */
const struct config_output *config_output_named(const struct config *config, const char *name);

/* ---- build.c: the section that is read now ---- */

/* Calls `work` for each section of a kind, in their order. */
void config_each_section(struct config_builder *builder, enum config_section_kind kind,
	void (*work)(struct config_builder *builder));

/*
 * Reports a mistake in a key, with its line; in the section as a whole when `key` is NULL or the
 * section lacks it.
 */
void config_fault(struct config_builder *builder, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Reports a doubt likewise; its text goes on after the key's name, or the section's kind. */
void config_doubt(struct config_builder *builder, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Reports a doubt about a command that runs without a shell; `argv` NULL: there is none. */
void config_doubt_command(struct config_builder *builder, const char *key, char *const *argv);

/* The value of the key waits for an address that the machine does not have yet. */
void config_wait_for(struct config_builder *builder, const char *key, const struct err *why);

/* Expands, parses and stores every key into `target`, which has its defaults. */
void config_apply(
	struct config_builder *builder, const struct config_section_type *type, void *target);

/* The key's expanded value; "" when it is absent, empty or bad. */
const char *config_given(const struct config_builder *builder, const char *key);
/* True when the key is absent or empty; false also for a bad one, which has been reported. */
bool config_lacks(const struct config_builder *builder, const char *key);
bool config_is_bad(const struct config_builder *builder, const char *key);
/* `key` if the section has it, else `other`: the one to report. */
const char *config_key_or(const struct config_builder *builder, const char *key, const char *other);
/* Reports a required key that the section lacks. */
void config_require(struct config_builder *builder, const char *key);

/*
 * The entry of a CONFIG_NUMBERED option that has the lowest number above `above`, or NULL; sets
 * `above` to its number.
 */
struct config_entry *config_next_numbered(
	const struct config_builder *builder, const struct config_option *option, int *above);

/*
 * Reports keys that are for other values of the section's `type`, which is an index into the words
 * of that option.
 */
void config_refuse_other_types(struct config_builder *builder,
	const struct config_section_type *section_type, unsigned type);

/*
 * The rules within and between sections, beyond those for single values. They also complete the
 * structs.
 */
void config_rule_agent(struct config_builder *builder);
void config_rule_registry(struct config_builder *builder, struct config_registry *registry);
void config_rule_further(struct config_builder *builder, const struct config_registry *further);
/* Which paths may lie below /net; the configuration is complete. */
void config_rule_net(struct config_builder *builder);
void config_rule_dns(struct config_builder *builder);
void config_rule_component(struct config_builder *builder, struct config_component *component);
void config_rule_endpoint(struct config_builder *builder, const struct config_endpoint *endpoint);
/*
 * Call it for a component that has all its endpoints and no mistakes so far: the record of a wrong
 * part would repeat the part's mistake.
 */
void config_rule_record(struct config_builder *builder, const struct config_component *component);
/*
 * The doubts about what it lacks; call it when the configuration has all its endpoints and checks.
 */
void config_rule_parts(struct config_builder *builder, const struct config_component *component);
/* The limits of a container's agent. */
void config_rule_host(struct config_builder *builder);
/* The doubts about a configuration that is complete. */
void config_rule_whole(struct config_builder *builder);
void config_rule_output(struct config_builder *builder, struct config_output *output);
/* The configuration has all its components, and the imports before this one. */
void config_rule_import(struct config_builder *builder, const struct config_import *import);
/* Adds the names by which clients may reach a TCP listener, whatever listen_hosts says. */
void config_add_own_hosts(struct config_agent *agent, const char *address);
/* The configuration has [agent], and the listeners before this one. */
void config_rule_listen(struct config_builder *builder, const struct config_listen *listen);
/* The configuration has [dns]. */
void config_rule_zone(struct config_builder *builder, const struct config_zone *zone);
void config_rule_runtime(struct config_builder *builder, struct config_runtime *runtime);
void config_rule_container(struct config_builder *builder, struct config_container *container);
/* The doubts about a [bridge] whose containers are all known. */
void config_rule_containers(struct config_builder *builder);
/* `component` is NULL when the section names none; that has been reported. */
void config_rule_check(
	struct config_builder *builder, struct config_check *check, bool components_known);

/* As config_rule_check(), for a [dialect]. */
void config_rule_dialect(struct config_builder *builder, struct config_dialect *dialect,
	const struct config_component *component);
/* For the [dialect] that was built last: no other one may be the same member of a group. */
void config_rule_dialect_group(
	struct config_builder *builder, const struct config_dialect *dialect);

#endif
