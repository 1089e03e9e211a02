/* Rules of [import NAME] that concern more than one value. */
#include "agent/config/build.h"
#include "lib/base/path.h"

static bool overlap(const char *a, const char *b)
{
	return *a && *b && (path_is_under(a, b) || path_is_under(b, a));
}

/* Nothing is written below an import, and an ephemeral record has nothing below it. */
static void refuse_components(struct config_builder *builder, const struct config_import *import)
{
	for (size_t i = 0; i < builder->config->component_count; i++) {
		const struct config_component *component = &builder->config->components[i];
		if (overlap(import->as, component->path)) {
			config_fault(builder, "as",
				"`as = %s`: the record of [component%s%s] is at %s; one cannot lie "
				"below the other",
				import->as, *component->name ? " " : "", component->name,
				component->path);
		}
	}
}

static void refuse_imports(struct config_builder *builder, const struct config_import *import)
{
	for (size_t i = 0; i + 1 < builder->config->import_count; i++) {
		const struct config_import *other = &builder->config->imports[i];
		if (overlap(import->as, other->as)) {
			config_fault(builder, "as",
				"`as = %s`: [import %s] is at %s; one cannot lie below the other",
				import->as, other->name, other->as);
		}
	}
}

void config_rule_import(struct config_builder *builder, const struct config_import *import)
{
	config_require(builder, "type");
	config_require(builder, "from");
	config_require(builder, "as");
	refuse_components(builder, import);
	refuse_imports(builder, import);
}
