#include "tests/support/registry_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/berth_error.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"

int scenario_code(const char *word)
{
	int code = strcmp(word, "OK") == 0 ? 0 : berth_error_from_name(word);
	if (code == 0 && strcmp(word, "OK") != 0) {
		scenario_fail("no such error: %s", word);
	}
	return code;
}

static const char *name_of(enum registry_operation operation)
{
	static const char *const names[] = { [REGISTRY_OP_GET] = "get",
		[REGISTRY_OP_CHILDREN] = "list",
		[REGISTRY_OP_STAT] = "stat",
		[REGISTRY_OP_CREATE] = "create",
		[REGISTRY_OP_SET] = "set",
		[REGISTRY_OP_DELETE] = "delete",
		[REGISTRY_OP_REPLACE] = "replace" };
	return names[operation];
}

static bool matches(const struct registry_rule *rule, const struct registry_task *task)
{
	size_t len = strlen(rule->path);
	if (strcmp(rule->operation, "*") != 0 &&
		strcmp(rule->operation, name_of(task->operation)) != 0) {
		return false;
	}
	if (strcmp(rule->path, "*") == 0 || strcmp(rule->path, task->path) == 0) {
		return true;
	}
	return len > 2 && strcmp(rule->path + len - 2, "/*") == 0 &&
		strncmp(task->path, rule->path, len - 2) == 0 &&
		(task->path[len - 2] == '/' || task->path[len - 2] == '\0');
}

static void free_words(char **words)
{
	for (size_t i = 0; words[i]; i++) {
		free(words[i]);
		words[i] = NULL;
	}
}

static void on_task(void *context, const struct registry_task *task, struct err *err)
{
	struct registry_script *script = context;
	script->tasks++;
	script->writes += task->operation == REGISTRY_OP_CREATE ||
		task->operation == REGISTRY_OP_SET || task->operation == REGISTRY_OP_REPLACE;
	for (size_t i = 0; i < script->rule_count; i++) {
		struct registry_rule *rule = &script->rules[i];
		if (!matches(rule, task)) {
			continue;
		}
		if (rule->code && rule->times > 0) {
			rule->times--;
			err_set(err, rule->code, "the scenario wants it");
		} else if (rule->words[0]) {
			char *words[SCENARIO_WORDS];
			memcpy(words, rule->words, sizeof(words));
			rule->words[0] = NULL;
			scenario_command(words);
			free_words(words);
		}
	}
}

static struct registry_rule *add_rule(struct registry_script *script, char **words)
{
	if (script->rule_count == REGISTRY_SCRIPT_RULES) {
		scenario_fail("too many rules");
	}
	struct registry_rule *rule = &script->rules[script->rule_count++];
	*rule = (struct registry_rule){ .code = 0 };
	snprintf(rule->operation, sizeof(rule->operation), "%s", words[0]);
	snprintf(rule->path, sizeof(rule->path), "%s", words[1]);
	return rule;
}

void registry_script_fail(void *stage, char **words)
{
	struct registry_rule *rule = add_rule(stage, words);
	rule->code = scenario_code(words[2]);
	rule->times = words[3] ? scenario_ms(words[3]) : INT64_MAX;
}

void registry_script_when(void *stage, char **words)
{
	struct registry_rule *rule = add_rule(stage, words);
	for (size_t i = 2; words[i]; i++) {
		rule->words[i - 2] = strdup(words[i]);
	}
}

void registry_script_heal(void *stage, char **words)
{
	struct registry_script *script = stage;
	(void)words;
	for (size_t i = 0; i < script->rule_count; i++) {
		free_words(script->rules[i].words);
	}
	script->rule_count = 0;
}

/* =TEXT as it is, else a record of that name, in that zone; none: no data */
void registry_script_put(void *stage, char **words)
{
	struct registry_script *script = stage;
	const char *data = words[1] ? words[1] : "=";
	const char *text = *data == '=' ? data + 1 : cache_stage_record(data);
	const char *zone = words[2] ? scenario_value(words[2], "zone") : NULL;
	char in_zone[512];
	if (zone) {
		snprintf(in_zone, sizeof(in_zone), "%.*s,\"berth:zone\":\"%s\"}",
			(int)strlen(text) - 1, text, zone);
	}
	memory_put(script->registry, words[0], zone ? in_zone : text);
}

void registry_script_remove(void *stage, char **words)
{
	struct registry_script *script = stage;
	for (size_t i = 0; words[i]; i++) {
		memory_remove(script->registry, words[i]);
	}
}

void registry_script_late(void *stage, char **words)
{
	struct registry_script *script = stage;
	snprintf(script->late, sizeof(script->late), "%s", words[0]);
	memory_be_late(script->registry, script->late);
}

void registry_script_silent(void *stage, char **words)
{
	struct registry_script *script = stage;
	(void)words;
	memory_set_answering(script->registry, false);
}

void registry_script_answering(void *stage, char **words)
{
	struct registry_script *script = stage;
	(void)words;
	memory_set_answering(script->registry, true);
}

void registry_script_begin(struct registry_script *script, struct registry *registry)
{
	*script = (struct registry_script){ .registry = registry };
	memory_on_task(registry, on_task, script);
}

void registry_script_end(struct registry_script *script)
{
	registry_script_heal(script, NULL);
	memory_set_answering(script->registry, true);
}
