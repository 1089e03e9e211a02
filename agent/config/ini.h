/*
 * Reading one INI file.
 *
 * A line is blank, a comment (its first character is ; or #), a [section] or `key = value`. Blanks
 * around keys, values and lines do not count, so an indented line is a key like any other, never
 * the continuation of the one above. A value goes to the end of its line and may hold " ;". UTF-8
 * with or without a byte order mark; lines end in \n or \r\n.
 */
#ifndef AGENT_CONFIG_INI_H
#define AGENT_CONFIG_INI_H

#include <stdio.h>

#include "agent/config/source.h"

/* The longest line; a longer one is a mistake, never cut. */
#define CONFIG_LINE_BYTES 65536

/* `file` is one of source->files; mistakes go to source->problems. */
void config_ini_read(struct config_source *source, const char *file, FILE *stream);

#endif
