/*
 * Everything that `berth` prints goes through here: text for eyes, JSON for programs, errors and
 * notes on stderr.
 *
 * Colour only on a terminal, and not when NO_COLOR is set; tables are fitted to a terminal's width.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/berth.h"
#include "cli/table.h"

enum { EXIT_USAGE = 2 };

struct output {
	bool json;
	bool terminal; /* stdout is one */
	bool progress; /* stderr is one */
	bool colour;
	size_t width; /* 0: no terminal */
	double now;   /* seconds since 1970: what relative times are relative to */
};

void output_init(struct output *output, bool json);

/* "berth: PathNotFound: message" on stderr; returns the exit status that goes with it. */
int output_failure(const struct berth_failure *failure);
/* "note: message", and "berth: message", which returns 1. */
void output_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
int output_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for what is wrong with the arguments; returns 2. */
int output_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says on stderr when an answer is stale. */
void output_freshness(const struct berth_freshness *freshness);

/* Prints one JSON document. */
void output_json(const json_t *json);
/* As one line. */
void output_json_line(const json_t *json);
/* Prints and frees a table. */
void output_table_take(const struct output *output, struct table *table);
/* A line of text, escaped. */
void output_line(const char *text);

/* "12 s", "3 min", "2 h 5 min", "4 d". */
void output_duration(char *out, size_t size, double seconds);
/* "3 min ago", "in 4 s", "now"; "never" for 0. */
void output_relative(const struct output *output, char *out, size_t size, double then);

/* "2026-01-31 14:05:09" of this machine's time zone. */
void output_local_time(char *out, size_t size, double then);

/* How many nodes a walk has visited, on a terminal only; output_progress_end() wipes the line. */
void output_progress(const struct output *output, size_t visited, size_t matches);
void output_progress_text(const struct output *output, const char *text);
void output_progress_end(const struct output *output);

/*
 * Waits until `fd` can be read (-1: none), the reader of standard output has gone, as head does, or
 * so many milliseconds are over (-1: for ever). True when the reader has gone.
 */
bool output_wait(int fd, int timeout_ms);

/* The member's text; "" when it is absent or no text. */
const char *output_text(const json_t *object, const char *name);
/* The member's number; 0 when it is absent or no number. */
double output_number(const json_t *object, const char *name);

#endif
