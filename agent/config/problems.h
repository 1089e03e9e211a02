/*
 * Collecting mistakes: all of them in one run, in the order of the files and their lines.
 */
#ifndef AGENT_CONFIG_PROBLEMS_H
#define AGENT_CONFIG_PROBLEMS_H

#include "agent/config/config.h"

/* Beyond this many mistakes one last problem says that the list ends here. */
#define CONFIG_PROBLEMS_MAX 1000

/* `file` is copied; `line` 0 means the file as a whole. */
void config_problems_add(struct config_problems *problems, const char *file, int line,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Likewise, as a warning. */
void config_problems_warn(struct config_problems *problems, const char *file, int line,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * Puts them in the order of `files` and, within a file, of lines; mistakes of one line stay in the
 * order they were found.
 */
void config_problems_sort(struct config_problems *problems, char *const *files, size_t file_count);

#endif
