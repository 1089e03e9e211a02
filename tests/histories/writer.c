/*
 * writer URL TIMEOUT_MS: writes to a registry through libberth, as its standard input says.
 *
 * A line "bind PATH VALUE" makes a record whose description is VALUE, "put PATH VALUE" makes or
 * replaces it, "remove PATH" deletes it. The answer to each line is the name of the error, or "ok".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/berth.h"

enum { LINE_BYTES = 512, SESSION_MS = 6000 };

static int write_record(struct berth *berth, const char *path, const char *value, unsigned flags)
{
	char record[LINE_BYTES + 128];
	snprintf(record, sizeof(record),
		"{\"type\": \"JSONServiceRecord\", \"description\": \"%s\", \"external\": [], "
		"\"internal\": []}",
		value);
	return berth_bind(berth, path, record, flags, NULL);
}

static int carry_out(struct berth *berth, const char *verb, const char *path, const char *value)
{
	if (strcmp(verb, "bind") == 0) {
		return write_record(berth, path, value, 0);
	}
	if (strcmp(verb, "put") == 0) {
		return write_record(berth, path, value, BERTH_BIND_OVERWRITE);
	}
	return berth_delete(berth, path, 0, NULL);
}

int main(int argc, char **argv)
{
	struct berth *berth;
	struct berth_options options = { .session_timeout_ms = SESSION_MS };
	options.timeout_ms = argc == 3 ? atoi(argv[2]) : 0;
	if (argc != 3 || berth_open(&berth, argv[1], &options, NULL)) {
		fprintf(stderr, "usage: writer URL TIMEOUT_MS\n");
		return 2;
	}
	char line[LINE_BYTES];
	while (fgets(line, sizeof(line), stdin)) {
		char verb[16];
		char path[256];
		char value[64] = "";
		if (sscanf(line, "%15s %255s %63s", verb, path, value) < 2) {
			break;
		}
		int code = carry_out(berth, verb, path, value);
		puts(code ? berth_error_name(code) : "ok");
		fflush(stdout);
	}
	berth_close(berth);
	return 0;
}
