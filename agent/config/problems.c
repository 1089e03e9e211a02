#include "agent/config/problems.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"

enum { MESSAGE_BYTES = 1024 };

static void add(struct config_problems *problems, const char *file, int line, bool warning,
	const char *format, va_list arguments)
{
	if (problems->count > CONFIG_PROBLEMS_MAX) {
		problems->error_count += warning ? 0 : 1;
		return;
	}
	char message[MESSAGE_BYTES];
	if (problems->count == CONFIG_PROBLEMS_MAX) {
		snprintf(message, sizeof(message), "there are more mistakes than the %d reported",
			CONFIG_PROBLEMS_MAX);
		line = 0;
	} else {
		vsnprintf(message, sizeof(message), format, arguments);
	}
	problems->items = allocate_grow(problems->items, problems->count, sizeof(*problems->items));
	problems->items[problems->count++] = (struct config_problem){
		.file = allocate_text(file),
		.line = line,
		.warning = warning,
		.message = allocate_text(message),
	};
	problems->error_count += warning ? 0 : 1;
}

void config_problems_add(
	struct config_problems *problems, const char *file, int line, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	add(problems, file, line, false, format, arguments);
	va_end(arguments);
}

void config_problems_warn(
	struct config_problems *problems, const char *file, int line, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	add(problems, file, line, true, format, arguments);
	va_end(arguments);
}

static size_t rank_of(const struct config_problem *problem, char *const *files, size_t file_count)
{
	size_t rank = 0;
	while (rank < file_count && strcmp(files[rank], problem->file) != 0) {
		rank++;
	}
	return rank;
}

void config_problems_sort(struct config_problems *problems, char *const *files, size_t file_count)
{
	/*
	 * Nearly sorted already, and a stable order is wanted: insertion. The note that the list
	 * was cut stays last.
	 */
	size_t count = problems->count;
	if (count > CONFIG_PROBLEMS_MAX) {
		count = CONFIG_PROBLEMS_MAX;
	}
	for (size_t i = 1; i < count; i++) {
		struct config_problem moving = problems->items[i];
		size_t rank = rank_of(&moving, files, file_count);
		size_t to = i;
		for (; to > 0; to--) {
			const struct config_problem *before = &problems->items[to - 1];
			size_t rank_before = rank_of(before, files, file_count);
			if (rank_before < rank ||
				(rank_before == rank && before->line <= moving.line)) {
				break;
			}
			problems->items[to] = *before;
		}
		problems->items[to] = moving;
	}
}

void config_problems_finish(struct config_problems *problems)
{
	for (size_t i = 0; i < problems->count; i++) {
		free(problems->items[i].file);
		free(problems->items[i].message);
	}
	free(problems->items);
	*problems = (struct config_problems){ 0 };
}

void config_problems_print(const struct config_problems *problems, FILE *stream)
{
	for (size_t i = 0; i < problems->count; i++) {
		const struct config_problem *problem = &problems->items[i];
		const char *severity = problem->warning ? "warning: " : "";
		if (problem->line) {
			fprintf(stream, "%s:%d: %s%s\n", problem->file, problem->line, severity,
				problem->message);
		} else {
			fprintf(stream, "%s: %s%s\n", problem->file, severity, problem->message);
		}
	}
}

static void log_problems(const struct config_problems *problems, bool errors)
{
	for (size_t i = 0; i < problems->count; i++) {
		const struct config_problem *problem = &problems->items[i];
		if (problem->warning || errors) {
			log_at(problem->warning ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR, "config",
				"%s:%d: %s", problem->file, problem->line, problem->message);
		}
	}
}

void config_problems_log(const struct config_problems *problems)
{
	log_problems(problems, true);
}

void config_problems_log_warnings(const struct config_problems *problems)
{
	log_problems(problems, false);
}

json_t *config_problems_json(const struct config_problems *problems)
{
	json_t *list = json_array();
	for (size_t i = 0; i < problems->count; i++) {
		const struct config_problem *problem = &problems->items[i];
		if (problem->warning) {
			continue;
		}
		json_array_append_new(list,
			json_pack("{s:s, s:i, s:s}", "file", problem->file, "line", problem->line,
				"message", problem->message));
	}
	return list;
}
