#include "agent/config/field.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/config/config.h"
#include "agent/config/shellwords.h"
#include "agent/config/value.h"
#include "agent/config/verify.h"
#include "agent/command/command.h"
#include "lib/base/array.h"

static void *place_at(void *target, size_t offset)
{
	return (char *)target + offset;
}

static const void *const_place_at(const void *target, size_t offset)
{
	return (const char *)target + offset;
}

/* The member itself, and its companion. */
#define MEMBER(type) (*(type *)place_at(target, option->offset))
#define SECOND(type) (*(type *)place_at(target, option->second))
#define CONST_MEMBER(type) (*(type const *)const_place_at(target, option->offset))
#define CONST_SECOND(type) (*(type const *)const_place_at(target, option->second))

static void replace_text(char **text, char *value_take)
{
	free(*text);
	*text = value_take;
}

void config_field_clear(const struct config_option *option, void *target)
{
	switch (option->type) {
	case CONFIG_TEXT:
	case CONFIG_FILE:
		replace_text(&MEMBER(char *), allocate_text(""));
		break;
	case CONFIG_USER:
	case CONFIG_GROUP:
		replace_text(&MEMBER(char *), allocate_text(""));
		SECOND(unsigned) = (unsigned)-1;
		break;
	case CONFIG_BYTES:
		replace_text(&MEMBER(char *), allocate_text(""));
		SECOND(size_t) = 0;
		break;
	case CONFIG_COMMAND:
		replace_text(&MEMBER(char *), allocate_text(""));
		shellwords_free(SECOND(char **));
		SECOND(char **) = NULL;
		break;
	case CONFIG_WRITER:
		replace_text(&MEMBER(struct config_writer).name, allocate_text(""));
		MEMBER(struct config_writer).kind = CONFIG_WRITER_NONE;
		MEMBER(struct config_writer).id = (unsigned)-1;
		break;
	case CONFIG_LIST:
	case CONFIG_NUMBERED:
		config_free_list(MEMBER(char **), SECOND(size_t));
		MEMBER(char **) = NULL;
		SECOND(size_t) = 0;
		break;
	default:
		break;
	}
}

static void finish(const struct config_option *option, void *target)
{
	switch (option->type) {
	case CONFIG_TEXT:
	case CONFIG_FILE:
	case CONFIG_USER:
	case CONFIG_GROUP:
	case CONFIG_BYTES:
	case CONFIG_STATUS_RANGES:
		free(MEMBER(void *));
		break;
	case CONFIG_COMMAND:
		free(MEMBER(char *));
		shellwords_free(SECOND(char **));
		break;
	case CONFIG_WRITER:
		free(MEMBER(struct config_writer).name);
		break;
	case CONFIG_LIST:
	case CONFIG_NUMBERED:
		config_free_list(MEMBER(char **), SECOND(size_t));
		break;
	case CONFIG_PAIRS:
		for (size_t i = 0; i < SECOND(size_t); i++) {
			free(MEMBER(struct config_name_value *)[i].name);
			free(MEMBER(struct config_name_value *)[i].value);
		}
		free(MEMBER(struct config_name_value *));
		break;
	default:
		break;
	}
}

void config_fields_finish(const struct config_section_type *section, void *target)
{
	for (size_t i = 0; section->options[i].key; i++) {
		finish(&section->options[i], target);
	}
}

void config_fields_init(const struct config_section_type *section, void *target)
{
	for (size_t i = 0; section->options[i].key; i++) {
		const struct config_option *option = &section->options[i];
		config_field_clear(option, target);
		struct err err = ERR_INIT;
		if (option->fallback) {
			(void)config_field_set(option, target, option->key, option->fallback, &err);
			assert(!err.code);
		}
	}
}

static int set_text(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	if (option->type == CONFIG_FILE && value[0] != '/') {
		return err_set(
			err, BERTH_FAILED, "write an absolute file name, which begins with /");
	}
	if (option->max && strlen(value) > (size_t)option->max) {
		return err_set(err, BERTH_FAILED, "has %zu bytes; at most %lld are allowed",
			strlen(value), (long long)option->max);
	}
	replace_text(&MEMBER(char *), allocate_text(value));
	return 0;
}

static char **shell_words(const char *command)
{
	const char *const words[] = { "/bin/sh", "-c", command };
	enum { COUNT = ARRAY_LEN(words) };
	char **argv = allocate_zeroed(COUNT + 1, sizeof(*argv));
	for (size_t i = 0; i < COUNT; i++) {
		argv[i] = allocate_text(words[i]);
	}
	return argv;
}

static int split_command(char ***ret_words, const char *value, struct err *err)
{
	char **words;
	if (shellwords_split(&words, value, err)) {
		return err->code;
	}
	/* Quotes make a word of nothing, too. */
	if (words[0][strspn(words[0], " \t")] == '\0') {
		shellwords_free(words);
		return err_set(err, BERTH_FAILED, "is blank: it must name a program");
	}
	*ret_words = words;
	return 0;
}

/*
 * A text for the shell stays as it is; otherwise it must split into the words without any ${…}.
 */
static int set_command(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	char **words = NULL;
	bool shell = option->shell && *(bool *)place_at(target, option->shell);
	if (shell) {
		if (strstr(value, "${berth.")) {
			return err_set(err, BERTH_FAILED,
				"a shell runs this and finds the value as an environment variable: "
				"$BERTH_IP for ${berth.ip}, and so on");
		}
		words = shell_words(value);
	} else if (split_command(&words, value, err)) {
		return err->code;
	}
	config_field_clear(option, target);
	replace_text(&MEMBER(char *), shell ? allocate_text(value) : shellwords_join(words));
	SECOND(char **) = words;
	return 0;
}

static int set_list(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	char **items;
	size_t count;
	config_parse_list(value, &items, &count);
	for (size_t i = 0; i < count && option->verify; i++) {
		if (option->verify(items[i], err)) {
			config_free_list(items, count);
			return BERTH_FAILED;
		}
	}
	config_field_clear(option, target);
	MEMBER(char **) = items;
	SECOND(size_t) = count;
	return 0;
}

static void add_numbered(const struct config_option *option, void *target, const char *value)
{
	size_t count = SECOND(size_t)++;
	MEMBER(char **) = allocate_grow(MEMBER(char **), count, sizeof(char *));
	MEMBER(char **)[count] = allocate_text(value);
}

static int add_pair(const struct config_option *option, void *target, const char *key,
	const char *value, struct err *err)
{
	const char *name = key + strlen(option->key) + 1;
	if (option->verify_name(name, err)) {
		return BERTH_FAILED;
	}
	size_t count = SECOND(size_t)++;
	struct config_name_value *pairs = allocate_grow(
		MEMBER(struct config_name_value *), count, sizeof(*pairs));
	pairs[count].name = allocate_text(name);
	pairs[count].value = allocate_text(value);
	MEMBER(struct config_name_value *) = pairs;
	return 0;
}

static int set_account(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	int code = option->type == CONFIG_USER ? config_find_user(value, &SECOND(unsigned), err)
					       : config_find_group(value, &SECOND(unsigned), err);
	if (code == 0) {
		replace_text(&MEMBER(char *), allocate_text(value));
	}
	return code;
}

static int set_writer(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	struct config_writer writer = { .kind = CONFIG_WRITER_NONE };
	const char *colon = strchr(value, ':');
	size_t kind_len = colon ? (size_t)(colon - value) : 0;
	if (kind_len == 4 && strncmp(value, "user", kind_len) == 0) {
		writer.kind = CONFIG_WRITER_USER;
	} else if (kind_len == 5 && strncmp(value, "group", kind_len) == 0) {
		writer.kind = CONFIG_WRITER_GROUP;
	} else {
		return err_set(err, BERTH_FAILED, "write user:NAME or group:NAME");
	}
	int (*find)(const char *, unsigned *, struct err *) = writer.kind == CONFIG_WRITER_USER
		? config_find_user
		: config_find_group;
	if (find(colon + 1, &writer.id, err)) {
		return BERTH_FAILED;
	}
	config_field_clear(option, target);
	writer.name = allocate_text(colon + 1);
	replace_text(&MEMBER(struct config_writer).name, NULL);
	MEMBER(struct config_writer) = writer;
	return 0;
}

static int set_bytes(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	char *bytes;
	size_t len;
	if (config_parse_bytes(value, &bytes, &len, err)) {
		return BERTH_FAILED;
	}
	replace_text(&MEMBER(char *), bytes);
	SECOND(size_t) = len;
	return 0;
}

static int set_status_ranges(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	struct config_status_range *ranges;
	size_t count;
	if (config_parse_status_ranges(value, option->min, option->max, &ranges, &count, err)) {
		return BERTH_FAILED;
	}
	free(MEMBER(struct config_status_range *));
	MEMBER(struct config_status_range *) = ranges;
	SECOND(size_t) = count;
	return 0;
}

static int set_mode(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	unsigned mode;
	if (config_parse_mode(value, &mode, err)) {
		return BERTH_FAILED;
	}
	if (mode < option->min) {
		return err_set(err, BERTH_FAILED, "leaves no permission to anybody");
	}
	MEMBER(unsigned) = mode;
	return 0;
}

static int set_scalar(
	const struct config_option *option, void *target, const char *value, struct err *err)
{
	int64_t number = 0;
	unsigned index = 0;
	int ret = BERTH_FAILED;
	switch (option->type) {
	case CONFIG_BOOLEAN:
		return config_parse_boolean(value, &MEMBER(bool), err);
	case CONFIG_NUMBER:
		return config_parse_number(value, &MEMBER(double), err);
	case CONFIG_MODE:
		return set_mode(option, target, value, err);
	case CONFIG_SIGNAL:
		return config_parse_signal(value, &MEMBER(int), err);
	case CONFIG_WORD:
		return config_parse_word(value, option->words, &MEMBER(unsigned), err);
	case CONFIG_DURATION:
		return config_parse_duration(
			value, option->min, option->max, &MEMBER(int64_t), err);
	case CONFIG_CHOICE:
		ret = config_parse_word(value, option->words, &index, err);
		if (ret == 0) {
			MEMBER(bool) = index == 1;
		}
		break;
	case CONFIG_INTEGER:
		ret = config_parse_integer(value, option->min, option->max, &number, err);
		if (ret == 0) {
			MEMBER(int) = (int)number;
		}
		break;
	case CONFIG_SIZE:
		ret = config_parse_size(value, option->min, option->max, &number, err);
		if (ret == 0) {
			MEMBER(size_t) = (size_t)number;
		}
		break;
	default:
		break;
	}
	return ret;
}

int config_field_set(const struct config_option *option, void *target, const char *key,
	const char *value, struct err *err)
{
	if (option->verify && option->type != CONFIG_LIST && option->verify(value, err)) {
		return BERTH_FAILED;
	}
	switch (option->type) {
	case CONFIG_TEXT:
	case CONFIG_FILE:
		return set_text(option, target, value, err);
	case CONFIG_COMMAND:
		return set_command(option, target, value, err);
	case CONFIG_USER:
	case CONFIG_GROUP:
		return set_account(option, target, value, err);
	case CONFIG_LIST:
		return set_list(option, target, value, err);
	case CONFIG_NUMBERED:
		add_numbered(option, target, value);
		return 0;
	case CONFIG_PAIRS:
		return add_pair(option, target, key, value, err);
	case CONFIG_BYTES:
		return set_bytes(option, target, value, err);
	case CONFIG_STATUS_RANGES:
		return set_status_ranges(option, target, value, err);
	case CONFIG_WRITER:
		return set_writer(option, target, value, err);
	default:
		return set_scalar(option, target, value, err);
	}
}

size_t config_field_count(const struct config_option *option, const void *target)
{
	bool family = option->type == CONFIG_PAIRS || option->type == CONFIG_NUMBERED;
	return family ? CONST_SECOND(size_t) : 1;
}

char *config_field_key(const struct config_option *option, const void *target, size_t index)
{
	if (option->type == CONFIG_PAIRS) {
		return allocate_format(
			"%s.%s", option->key, CONST_MEMBER(struct config_name_value *)[index].name);
	}
	if (config_field_count(option, target) > 1) {
		return allocate_format("%s.%zu", option->key, index + 1);
	}
	return allocate_text(option->key);
}

static char *writer_text(const struct config_writer *writer)
{
	switch (writer->kind) {
	case CONFIG_WRITER_USER:
		return allocate_format("user:%s", writer->name);
	case CONFIG_WRITER_GROUP:
		return allocate_format("group:%s", writer->name);
	default:
		return allocate_text("");
	}
}

/* Unset durations are 0 where 0 is not an allowed value. */
static char *duration_text(const struct config_option *option, int64_t ms)
{
	return ms < option->min ? allocate_text("") : config_format_duration(ms);
}

static char *mode_text(const struct config_option *option, unsigned mode)
{
	return mode < option->min ? allocate_text("") : allocate_format("%04o", mode);
}

char *config_field_text(const struct config_option *option, const void *target, size_t index)
{
	switch (option->type) {
	case CONFIG_BOOLEAN:
		return allocate_text(CONST_MEMBER(bool) ? "yes" : "no");
	case CONFIG_CHOICE:
		return allocate_text(option->words[CONST_MEMBER(bool) ? 1 : 0]);
	case CONFIG_WORD:
		return allocate_text(option->words[CONST_MEMBER(unsigned)]);
	case CONFIG_INTEGER:
		return allocate_format("%d", CONST_MEMBER(int));
	case CONFIG_NUMBER:
		return allocate_format("%.15g", CONST_MEMBER(double));
	case CONFIG_DURATION:
		return duration_text(option, CONST_MEMBER(int64_t));
	case CONFIG_SIZE:
		return config_format_size((int64_t)CONST_MEMBER(size_t));
	case CONFIG_MODE:
		return mode_text(option, CONST_MEMBER(unsigned));
	case CONFIG_SIGNAL:
		return allocate_text(command_signal_name(CONST_MEMBER(int)));
	case CONFIG_LIST:
		return config_format_list(CONST_MEMBER(char **), CONST_SECOND(size_t));
	case CONFIG_NUMBERED:
		return allocate_text(CONST_MEMBER(char **)[index]);
	case CONFIG_PAIRS:
		return allocate_text(CONST_MEMBER(struct config_name_value *)[index].value);
	case CONFIG_BYTES:
		return config_format_bytes(CONST_MEMBER(char *), CONST_SECOND(size_t));
	case CONFIG_STATUS_RANGES:
		return config_format_status_ranges(
			CONST_MEMBER(struct config_status_range *), CONST_SECOND(size_t));
	case CONFIG_WRITER:
		return writer_text(&CONST_MEMBER(struct config_writer));
	case CONFIG_TEXT:
	case CONFIG_COMMAND:
	case CONFIG_FILE:
	case CONFIG_USER:
	case CONFIG_GROUP:
		break;
	}
	return allocate_text(CONST_MEMBER(char *));
}

static bool item_equal(
	const struct config_option *option, const void *a, const void *b, size_t index)
{
	char *text_a = config_field_text(option, a, index);
	char *text_b = config_field_text(option, b, index);
	char *key_a = config_field_key(option, a, index);
	char *key_b = config_field_key(option, b, index);
	bool equal = strcmp(text_a, text_b) == 0 && strcmp(key_a, key_b) == 0;
	free(text_a);
	free(text_b);
	free(key_a);
	free(key_b);
	return equal;
}

bool config_field_equal(const struct config_option *option, const void *a, const void *b)
{
	size_t count = config_field_count(option, a);
	bool equal = count == config_field_count(option, b);
	for (size_t i = 0; equal && i < count; i++) {
		equal = item_equal(option, a, b, i);
	}
	return equal;
}

bool config_fields_equal(const struct config_section_type *section, const void *a, const void *b)
{
	for (size_t i = 0; section->options[i].key; i++) {
		if (!config_field_equal(&section->options[i], a, b)) {
			return false;
		}
	}
	return true;
}
