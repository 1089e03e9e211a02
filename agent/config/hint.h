/*
 * Hints for a key that a section does not have: what its author probably meant.
 */
#ifndef AGENT_CONFIG_HINT_H
#define AGENT_CONFIG_HINT_H

#include <stddef.h>

#include "agent/config/options.h"

/*
 * Writes a clause for the end of the error message: our word for what other tools call `key`, or
 * the sections that have this key, or the nearest key of the section: "write `fall`", "it belongs
 * to [check NAME]", "the nearest is `address`".
 */
void config_hint_key(
	const struct config_section_type *section, const char *key, char *out, size_t size);

#endif
