/* The files of a configuration, in their order. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/base/allocate.h"
#include "agent/config/ini.h"
#include "agent/config/origin.h"
#include "agent/config/source.h"

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
