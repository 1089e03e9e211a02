#include "agent/config/source.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

size_t config_source_open_section(struct config_source *source, const char *kind, const char *name,
	const char *file, int line)
{
	size_t index = 0;
	while (index < source->section_count &&
		(strcmp(source->sections[index].kind, kind) != 0 ||
			strcmp(source->sections[index].name, name) != 0)) {
		index++;
	}
	if (index == source->section_count) {
		source->sections = allocate_grow(
			source->sections, source->section_count++, sizeof(*source->sections));
		source->sections[index].kind = allocate_text(kind);
		source->sections[index].name = allocate_text(name);
		source->sections[index].file = file;
		source->sections[index].line = line;
	} else if (source->sections[index].last_file == file) {
		config_problems_add(source->problems, file, line,
			"[%s%s%s] is here a second time, first in line %d: put its keys together",
			kind, *name ? " " : "", name, source->sections[index].last_line);
	}
	source->sections[index].last_file = file;
	source->sections[index].last_line = line;
	source->sections[index].header = ++source->header_count;
	return index;
}

struct config_entry *config_section_find(const struct config_section *section, const char *key)
{
	for (size_t i = 0; i < section->entry_count; i++) {
		if (strcmp(section->entries[i].key, key) == 0) {
			return &section->entries[i];
		}
	}
	return NULL;
}

void config_source_add(struct config_source *source, size_t index, const char *key,
	const char *value, const char *file, int line)
{
	struct config_section *section = &source->sections[index];
	struct config_entry *entry = config_section_find(section, key);
	if (!entry) {
		section->entries = allocate_grow(
			section->entries, section->entry_count, sizeof(*section->entries));
		entry = &section->entries[section->entry_count++];
		entry->key = allocate_text(key);
	} else if (entry->header == section->header) {
		config_problems_add(source->problems, file, line,
			"`%s` is here a second time, first in line %d", key, entry->line);
		return;
	}
	free(entry->value);
	entry->value = allocate_text(value);
	entry->file = file;
	entry->line = line;
	entry->header = section->header;
}

void config_source_rewind(struct config_source *source)
{
	for (size_t i = 0; i < source->section_count; i++) {
		for (size_t j = 0; j < source->sections[i].entry_count; j++) {
			struct config_entry *entry = &source->sections[i].entries[j];
			if (entry->expanded) {
				free(entry->former);
				entry->former = entry->expanded;
			}
			entry->expanded = NULL;
			entry->bad = false;
		}
	}
}

void config_source_unref(struct config_source *source)
{
	if (!source || --source->references > 0) {
		return;
	}
	for (size_t i = 0; i < source->section_count; i++) {
		struct config_section *section = &source->sections[i];
		for (size_t j = 0; j < section->entry_count; j++) {
			free(section->entries[j].key);
			free(section->entries[j].value);
			free(section->entries[j].expanded);
			free(section->entries[j].former);
		}
		free(section->entries);
		free(section->kind);
		free(section->name);
	}
	free(source->sections);
	for (size_t i = 0; i < source->file_count; i++) {
		free(source->files[i]);
	}
	free(source->files);
	free(source);
}
