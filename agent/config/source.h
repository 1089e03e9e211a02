/*
 * The text of the files before its interpretation: sections of keys and values, each with its
 * place.
 *
 * A section of the same kind and name in a later file adds to the first, the later value of a key
 * wins. Within one file a second section of the same name, or a second key in a section, is a
 * mistake.
 */
#ifndef AGENT_CONFIG_SOURCE_H
#define AGENT_CONFIG_SOURCE_H

#include <stddef.h>

#include "agent/config/problems.h"

struct config_entry {
	char *key;
	char *value; /* as written */
	/* set while the configuration is built; NULL before, and when it is not good */
	char *expanded;
	char *former; /* `expanded`, when the configuration is made again */
	const char *file;
	int line;
	unsigned header; /* the number of its [section] line */
	bool bad;        /* a mistake was found in it and reported */
};

struct config_section {
	char *kind;       /* "endpoint" of [endpoint rest] */
	char *name;       /* "rest"; "" without one */
	const char *file; /* the place of the first header */
	int line;
	const char *last_file; /* the place of the last header */
	int last_line;
	unsigned header;
	struct config_entry *entries;
	size_t entry_count;
};

struct config_source {
	unsigned references;
	char **files; /* in reading order */
	size_t file_count;
	struct config_origins origins;   /* goes to the configuration */
	struct config_section *sections; /* in order of first appearance */
	size_t section_count;
	unsigned header_count;
	struct config_problems *problems; /* borrowed, while a configuration is made */
};

/* files.c: reads FILE and conf.d next to it, or a directory; mistakes go to source->problems. */
void config_source_read(struct config_source *source, const char *path);
/* Counted by reference, and freed with the last one; accepts NULL. */
void config_source_unref(struct config_source *source);
/* For another configuration of the same text. */
void config_source_rewind(struct config_source *source);

/*
 * For the reader of one file. Opening a section gives its index; adding to it reports duplicates.
 * `file` is one of source->files.
 */
size_t config_source_open_section(struct config_source *source, const char *kind, const char *name,
	const char *file, int line);
void config_source_add(struct config_source *source, size_t section, const char *key,
	const char *value, const char *file, int line);

/* NULL when the section does not have the key. */
struct config_entry *config_section_find(const struct config_section *section, const char *key);

#endif
