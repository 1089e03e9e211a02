#include "cli/output.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/err.h"
#include "lib/base/clock.h"
#include "lib/base/json_text.h"
#include "lib/base/json_visible.h"
#include "lib/base/text.h"
#include "lib/program/memory.h"

/* Enough for every number of a record to come back as what it was. */
#define NUMBER_PRECISION JSON_REAL_PRECISION(17)

void output_init(struct output *output, bool json)
{
	struct winsize size;
	const char *no_colour = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	*output = (struct output){
		.json = json,
		.terminal = isatty(STDOUT_FILENO) == 1,
		.progress = isatty(STDERR_FILENO) == 1,
		.now = clock_wall_s(),
	};
	output->colour = output->terminal && !(no_colour && *no_colour) &&
		!(term && strcmp(term, "dumb") == 0);
	if (output->terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
		output->width = size.ws_col;
	}
}

/* ---- errors and notes ---- */

int output_failure(const struct berth_failure *failure)
{
	char *message = table_escape(failure->message);
	fflush(stdout);
	fprintf(stderr, "berth: %s: %s\n", berth_error_name(failure->code), message);
	free(message);
	return err_exit_status(failure->code);
}

/* A line of stderr: what comes from a file or from the registry plays with no terminal. */
static void print_line(const char *prefix, const char *format, va_list arguments)
{
	char line[4096];
	text_vprintf(line, sizeof(line), format, arguments);
	char *shown = table_escape(line);
	fprintf(stderr, "%s: %s\n", prefix, shown);
	free(shown);
}

void output_note(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print_line("note", format, arguments);
	va_end(arguments);
}

int output_error(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print_line("berth", format, arguments);
	va_end(arguments);
	return EXIT_FAILURE;
}

int output_usage(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	print_line("berth", format, arguments);
	va_end(arguments);
	return EXIT_USAGE;
}

void output_freshness(const struct berth_freshness *freshness)
{
	if (freshness->stale) {
		char age[32] = "less than 1 s";
		if (freshness->age_s > 0) {
			output_duration(age, sizeof(age), (double)freshness->age_s);
		}
		fprintf(stderr, "note: the registry is away; this answer is %s old\n", age);
	}
}

/* ---- documents ---- */

static void print_json(const json_t *json, size_t flags)
{
	char *text = memory_must(json_text(json, flags | JSON_ENCODE_ANY | NUMBER_PRECISION));
	struct buffer visible;
	buffer_init(&visible, SIZE_MAX);
	json_append_visible(&visible, text, strlen(text));
	puts(memory_must(visible.failed ? NULL : visible.data));
	buffer_finish(&visible);
	free(text);
}

void output_json(const json_t *json)
{
	print_json(json, JSON_INDENT(2));
}

void output_json_line(const json_t *json)
{
	print_json(json, JSON_COMPACT);
	fflush(stdout);
}

void output_table_take(const struct output *output, struct table *table)
{
	table_print(table, stdout, output->colour, output->width);
	table_free(table);
}

void output_line(const char *text)
{
	char *escaped = table_escape(text);
	puts(escaped);
	free(escaped);
}

/* ---- times ---- */

void output_duration(char *out, size_t size, double seconds)
{
	long whole = (long)(seconds + 0.5);
	if (seconds < 1) {
		snprintf(out, size, "%ld ms", (long)(seconds * 1000 + 0.5));
	} else if (whole < 120) {
		snprintf(out, size, "%ld s", whole);
	} else if (whole < 2L * 3600) {
		snprintf(out, size, "%ld min", whole / 60);
	} else if (whole < 48L * 3600 && whole % 3600 < 60) {
		snprintf(out, size, "%ld h", whole / 3600);
	} else if (whole < 48L * 3600) {
		snprintf(out, size, "%ld h %ld min", whole / 3600, whole % 3600 / 60);
	} else {
		snprintf(out, size, "%ld d", whole / 86400);
	}
}

void output_relative(const struct output *output, char *out, size_t size, double then)
{
	char duration[32];
	double ago = output->now - then;
	if (then <= 0) {
		snprintf(out, size, "never");
		return;
	}
	output_duration(duration, sizeof(duration), fabs(ago) < 1 ? 0 : fabs(ago));
	if (fabs(ago) < 1) {
		snprintf(out, size, "now");
	} else {
		snprintf(out, size, ago > 0 ? "%s ago" : "in %s", duration);
	}
}

void output_local_time(char *out, size_t size, double then)
{
	struct tm local;
	time_t seconds = (time_t)then;
	localtime_r(&seconds, &local);
	strftime(out, size, "%Y-%m-%d %H:%M:%S", &local);
}

/* ---- progress ---- */

void output_progress_text(const struct output *output, const char *text)
{
	if (output->progress) {
		fprintf(stderr, "\r\033[K%s", text);
		fflush(stderr);
	}
}

void output_progress(const struct output *output, size_t visited, size_t matches)
{
	char text[96];
	snprintf(text, sizeof(text), "%zu nodes visited, %zu %s", visited, matches,
		matches == 1 ? "match" : "matches");
	output_progress_text(output, text);
}

void output_progress_end(const struct output *output)
{
	output_progress_text(output, "");
}

bool output_wait(int fd, int timeout_ms)
{
	struct pollfd files[] = { { STDOUT_FILENO, 0, 0 }, { fd, POLLIN, 0 } };
	return poll(files, 2, timeout_ms) > 0 && (files[0].revents & (POLLERR | POLLHUP));
}

/* ---- reading answers ---- */

const char *output_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text ? text : "";
}

double output_number(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}
