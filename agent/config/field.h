/*
 * One option's value in its struct: everything that can be done to it by its row of the table
 * alone.
 *
 * `target` is the struct of the option's section: struct config_agent for CONFIG_AGENT and so on.
 */
#ifndef AGENT_CONFIG_FIELD_H
#define AGENT_CONFIG_FIELD_H

#include "agent/config/options.h"

/*
 * Gives every member the table knows its default; strings become "", never NULL. `target` must be
 * zeroed.
 */
void config_fields_init(const struct config_section_type *section, void *target);
/* Frees the members' memory. */
void config_fields_finish(const struct config_section_type *section, void *target);
/* True when both have the same value of this option. */
bool config_field_equal(const struct config_option *option, const void *a, const void *b);
/* True when all members the table knows have the same values. */
bool config_fields_equal(const struct config_section_type *section, const void *a, const void *b);

/*
 * Parses, verifies and stores an expanded value that is not empty; a value of CONFIG_COMMAND is not
 * expanded. `key` is as written. On a mistake returns BERTH_FAILED, with an error that says what is
 * allowed, and keeps the member. Values of CONFIG_PAIRS and CONFIG_NUMBERED are added to the
 * existing ones.
 */
int config_field_set(const struct config_option *option, void *target, const char *key,
	const char *value, struct err *err) ERR_REQUIRED(5);
/* Back to nothing: "" or no items. For strings and lists. */
void config_field_clear(const struct config_option *option, void *target);

/* The items of CONFIG_PAIRS and CONFIG_NUMBERED; 1 for every other type. */
size_t config_field_count(const struct config_option *option, const void *target);
/* The key of item `index` as in a file, malloc'ed. */
char *config_field_key(const struct config_option *option, const void *target, size_t index);
/* The value of item `index` as in a file, before ${…} is escaped; malloc'ed; "" when unset. */
char *config_field_text(const struct config_option *option, const void *target, size_t index);

#endif
