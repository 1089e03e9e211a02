#include "cli/verbs.h"

#include <string.h>

const struct verb *verbs_find(const char *name)
{
	for (size_t i = 0; i < verb_count; i++) {
		if (strcmp(verbs[i].name, name) == 0) {
			return &verbs[i];
		}
	}
	return NULL;
}

int verbs_unknown(const char *name)
{
	const char *names[VERBS_MOST] = { NULL };
	for (size_t i = 0; i < verb_count; i++) {
		names[i] = verbs[i].name;
	}
	const char *nearest = options_nearest(name, names, verb_count);
	const struct verb *verb = nearest ? verbs_find(nearest) : NULL;
	if (verb && !verb->changes) {
		return output_usage("there is no verb \"%s\"; did you mean %s?", name, nearest);
	}
	return output_usage("there is no verb \"%s\" (berth --help)", name);
}

int verbs_check_operands(const struct verb *verb, const struct options *options)
{
	size_t known = 0;
	while (known < VERB_OPERANDS && verb->operands[known]) {
		known++;
	}
	for (size_t i = 0; i < verb->required; i++) {
		if (i >= options->operand_count || !*options->operands[i]) {
			return output_usage("%s needs a %s (berth %s --help)", verb->name,
				verb->operands[i], verb->name);
		}
	}
	if (options->operand_count > known && !verb->more) {
		return output_usage("%s does not take \"%s\" (berth %s --help)", verb->name,
			options->operands[known], verb->name);
	}
	if (options->command && !verb->command) {
		return output_usage("%s takes no command", verb->name);
	}
	if (options->command && !*options->command) {
		return output_usage("%s: the command after -- is missing", verb->name);
	}
	return 0;
}
