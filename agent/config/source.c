#include "agent/config/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/allocate.h"
#include "agent/config/ini.h"
#include "agent/config/origin.h"

static bool ends_with(const char *text, const char *suffix)
{
	size_t len = strlen(text);
	size_t suffix_len = strlen(suffix);
	return len > suffix_len && strcmp(text + len - suffix_len, suffix) == 0;
}

static int is_configuration(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && ends_with(entry->d_name, ".ini");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_file(struct config_source *source, char *path_take)
{
	source->files = allocate_grow(source->files, source->file_count, sizeof(*source->files));
	source->files[source->file_count++] = path_take;
	FILE *stream = fopen(path_take, "re");
	if (!stream) {
		config_problems_add(
			source->problems, path_take, 0, "cannot be opened: %s", strerror(errno));
		return;
	}
	config_origins_add(&source->origins, path_take, stream);
	config_ini_read(source, path_take, stream);
	fclose(stream);
}

/* Returns the number of files, or -1 with errno set. */
static int read_directory(struct config_source *source, const char *path)
{
	struct dirent **names;
	int count = scandir(path, &names, is_configuration, by_name);
	if (count < 0) {
		return -1;
	}
	for (int i = 0; i < count; i++) {
		const char *slash = ends_with(path, "/") ? "" : "/";
		read_file(source, allocate_format("%s%s%s", path, slash, names[i]->d_name));
		free(names[i]);
	}
	free(names);
	return count;
}

static void read_companions(struct config_source *source, const char *file)
{
	const char *slash = strrchr(file, '/');
	int directory_len = slash ? (int)(slash - file + 1) : 0;
	char *path = allocate_format("%.*sconf.d", directory_len, file);
	if (read_directory(source, path) < 0 && errno != ENOENT && errno != ENOTDIR) {
		config_problems_add(
			source->problems, path, 0, "cannot be read: %s", strerror(errno));
	}
	free(path);
}

void config_source_read(struct config_source *source, const char *path)
{
	struct stat status;
	if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
		read_file(source, allocate_text(path));
		read_companions(source, path);
		return;
	}
	int count = read_directory(source, path);
	if (count < 0) {
		config_problems_add(
			source->problems, path, 0, "cannot be read: %s", strerror(errno));
	} else if (count == 0) {
		config_problems_add(
			source->problems, path, 0, "holds no file whose name ends in .ini");
	}
}

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

void config_source_finish(struct config_source *source)
{
	for (size_t i = 0; i < source->section_count; i++) {
		struct config_section *section = &source->sections[i];
		for (size_t j = 0; j < section->entry_count; j++) {
			free(section->entries[j].key);
			free(section->entries[j].value);
			free(section->entries[j].expanded);
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
}
