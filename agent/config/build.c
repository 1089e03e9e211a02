#include "agent/config/build.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/doubt.h"
#include "agent/config/expand.h"
#include "agent/config/field.h"
#include "agent/config/hint.h"
#include "agent/config/secret.h"
#include "agent/config/shellwords.h"

enum { SHOWN_BYTES = 60, HINT_BYTES = 256, MESSAGE_BYTES = 1024 };

void config_each_section(struct config_builder *builder, enum config_section_kind kind,
	void (*work)(struct config_builder *builder))
{
	for (size_t i = 0; i < builder->source->section_count; i++) {
		const struct config_section *section = &builder->source->sections[i];
		if (config_section_type_find(section->kind, section->name) ==
			&config_sections[kind]) {
			builder->section = section;
			work(builder);
		}
	}
}

static const struct config_entry *entry_of(const struct config_builder *builder, const char *key)
{
	return key ? config_section_find(builder->section, key) : NULL;
}

static void report(struct config_builder *builder, const char *key, bool doubts, const char *format,
	va_list arguments)
{
	const struct config_entry *entry = entry_of(builder, key);
	const char *file = entry ? entry->file : builder->section->file;
	int line = entry ? entry->line : builder->section->line;
	char message[MESSAGE_BYTES];
	vsnprintf(message, sizeof(message), format, arguments);
	if (doubts) {
		config_problems_warn(builder->source->problems, file, line, "`%s`: %s",
			entry ? entry->key : builder->section->kind, message);
	} else {
		config_problems_add(builder->source->problems, file, line, "%s", message);
	}
}

void config_fault(struct config_builder *builder, const char *key, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	report(builder, key, false, format, arguments);
	va_end(arguments);
}

void config_doubt(struct config_builder *builder, const char *key, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	report(builder, key, true, format, arguments);
	va_end(arguments);
}

void config_doubt_command(struct config_builder *builder, const char *key, char *const *argv)
{
	struct err doubt = ERR_INIT;
	size_t len;
	if (builder->former || !argv) {
		return;
	}
	const char *syntax = shellwords_find_syntax(entry_of(builder, key)->value, &len);
	if (syntax) {
		config_doubt(builder, key,
			"`%.*s` is passed to the program as it is; write sh -c '…' for a shell",
			(int)len, syntax);
	} else if (config_doubt_program(argv[0], "", &doubt)) {
		config_doubt(builder, key, "%s", doubt.msg);
	}
}

static void report_unknown_key(struct config_builder *builder,
	const struct config_section_type *type, struct config_entry *entry)
{
	char hint[HINT_BYTES];
	entry->bad = true;
	if (type == &config_sections[CONFIG_FURTHER] &&
		config_option_find(&config_sections[CONFIG_REGISTRY], entry->key)) {
		config_fault(builder, entry->key,
			"`%s` is for [registry] alone: nothing is written to [registry %s]",
			entry->key, builder->section->name);
		return;
	}
	config_hint_key(type, entry->key, hint, sizeof(hint));
	config_fault(builder, entry->key, "[%s] has no key `%.*s`; %s", type->kind, SHOWN_BYTES,
		entry->key, hint);
}

static void report_bad_value(struct config_builder *builder, const struct config_option *option,
	struct config_entry *entry, const char *value, const char *why)
{
	char *shown = config_mask(option, entry->key, value);
	const char *cut = strlen(shown) > SHOWN_BYTES ? "…" : "";
	/* A quote or a comment is often the very reason. */
	struct err doubt = ERR_INIT;
	bool doubtful = config_doubt_value(option, value, &doubt) != 0;
	config_fault(builder, entry->key, "`%.*s = %.*s%s`: %s%s%s", SHOWN_BYTES, entry->key,
		SHOWN_BYTES, shown, cut, why, doubtful ? "; " : "", doubtful ? doubt.msg : "");
	free(shown);
	entry->bad = true;
}

static void apply_value(struct config_builder *builder, const struct config_option *option,
	void *target, struct config_entry *entry, char *value_take)
{
	struct err err = ERR_INIT;
	if (!*value_take && option->type != CONFIG_PAIRS) {
		if (option->may_be_empty) {
			config_field_clear(option, target);
		}
	} else if (config_field_set(option, target, entry->key, value_take, &err)) {
		report_bad_value(builder, option, entry, value_take, err.msg);
		free(value_take);
		return;
	} else if (!builder->former &&
		(config_doubt_value(option, value_take, &err) ||
			(option->doubt && option->doubt(value_take, &err)))) {
		config_doubt(builder, entry->key, "%s", err.msg);
	}
	entry->expanded = value_take;
}

void config_wait_for(struct config_builder *builder, const char *key, const struct err *why)
{
	struct config *config = builder->config;
	config->waits = allocate_grow(config->waits, config->wait_count, sizeof(*config->waits));
	config->waits[config->wait_count++] = (struct config_wait){
		.section = allocate_text(builder->section->kind),
		.name = allocate_text(builder->section->name),
		.text = allocate_format("[%s%s%s] %s: %s", builder->section->kind,
			*builder->section->name ? " " : "", builder->section->name, key, why->msg),
	};
	config_doubt(builder, key, "%s: the agent waits for one", why->msg);
}

/* The value waits for an address, if it may. */
static void wait_for_address(struct config_builder *builder, const struct config_section_type *type,
	const struct config_option *option, struct config_entry *entry, const struct err *why)
{
	if (!type->waits && !option->waits) {
		if (!entry->bad) {
			report_bad_value(builder, option, entry, entry->value, why->msg);
		}
		return;
	}
	config_wait_for(builder, entry->key, why);
}

static char *value_of(const struct config_builder *builder, const struct config_option *option,
	const struct config_entry *entry, struct err *err)
{
	if (option->type == CONFIG_COMMAND) {
		return allocate_text(entry->value);
	}
	if (builder->former && option->fixed && !option->waits && entry->former) {
		return allocate_text(entry->former);
	}
	return option->per_container ? config_expand_but_containers(entry->value, err)
				     : config_expand(entry->value, err);
}

static void apply_entry(struct config_builder *builder, const struct config_section_type *type,
	const struct config_option *option, void *target, struct config_entry *entry)
{
	struct err err = ERR_INIT;
	struct err why;
	char *value = value_of(builder, option, entry, &err);
	if (!value) {
		report_bad_value(builder, option, entry, entry->value, err.msg);
		(void)config_expand_missing(&why);
		return;
	}
	bool for_shell = option->shell && *((const bool *)((const char *)target + option->shell));
	/* In a regular expression a dollar is an anchor. */
	if (!for_shell && option->doubt != config_doubt_regex &&
		config_doubt_dollar(entry->value, option->type == CONFIG_COMMAND, &err)) {
		config_doubt(builder, entry->key, "%s", err.msg);
	}
	apply_value(builder, option, target, entry, value);
	if (config_expand_missing(&why)) {
		wait_for_address(builder, type, option, entry, &why);
	}
}

struct config_entry *config_next_numbered(
	const struct config_builder *builder, const struct config_option *option, int *above)
{
	struct config_entry *next = NULL;
	int lowest = 0;
	for (size_t i = 0; i < builder->section->entry_count; i++) {
		struct config_entry *entry = &builder->section->entries[i];
		int number = config_option_number(option, entry->key);
		if (!entry->bad && number > *above && (!next || number < lowest)) {
			next = entry;
			lowest = number;
		}
	}
	*above = next ? lowest : *above;
	return next;
}

static void apply_numbered(struct config_builder *builder, const struct config_section_type *type,
	const struct config_option *option, void *target)
{
	int above = -1;
	struct config_entry *entry;
	while ((entry = config_next_numbered(builder, option, &above))) {
		apply_entry(builder, type, option, target, entry);
	}
}

/*
 * Options that need others before them: numbers in their order, and a command after what says how
 * it runs.
 */
static bool is_applied_late(const struct config_option *option)
{
	return option->type == CONFIG_NUMBERED || option->type == CONFIG_COMMAND;
}

void config_apply(
	struct config_builder *builder, const struct config_section_type *type, void *target)
{
	for (size_t i = 0; i < builder->section->entry_count; i++) {
		struct config_entry *entry = &builder->section->entries[i];
		const struct config_option *option = config_option_find(type, entry->key);
		if (!option) {
			report_unknown_key(builder, type, entry);
		} else if (!is_applied_late(option)) {
			apply_entry(builder, type, option, target, entry);
		}
	}
	for (size_t i = 0; type->options[i].key; i++) {
		if (is_applied_late(&type->options[i])) {
			apply_numbered(builder, type, &type->options[i], target);
		}
	}
}

const char *config_given(const struct config_builder *builder, const char *key)
{
	const struct config_entry *entry = entry_of(builder, key);
	return entry && entry->expanded ? entry->expanded : "";
}

bool config_lacks(const struct config_builder *builder, const char *key)
{
	const struct config_entry *entry = entry_of(builder, key);
	return !entry || (!entry->bad && !*config_given(builder, key));
}

bool config_is_bad(const struct config_builder *builder, const char *key)
{
	const struct config_entry *entry = entry_of(builder, key);
	return entry && entry->bad;
}

const char *config_key_or(const struct config_builder *builder, const char *key, const char *other)
{
	return entry_of(builder, key) ? key : other;
}

void config_require(struct config_builder *builder, const char *key)
{
	const struct config_section *section = builder->section;
	if (config_lacks(builder, key)) {
		config_fault(builder, key, "[%s%s%s] needs `%s`", section->kind,
			*section->name ? " " : "", section->name, key);
	}
}

void config_refuse_other_types(struct config_builder *builder,
	const struct config_section_type *section_type, unsigned type)
{
	const char *word = config_option_find(section_type, "type")->words[type];
	for (size_t i = 0; i < builder->section->entry_count; i++) {
		const struct config_entry *entry = &builder->section->entries[i];
		const struct config_option *option = config_option_find(section_type, entry->key);
		if (entry->bad || !*config_given(builder, entry->key) || !option->for_types ||
			(option->for_types & CONFIG_FOR(type))) {
			continue;
		}
		config_fault(builder, entry->key, "`%s` means nothing to a %s of `type = %s`",
			entry->key, section_type->kind, word);
	}
}
