/*
 * berthd's command line.
 */
#ifndef AGENT_COMMAND_LINE_H
#define AGENT_COMMAND_LINE_H

#include <stdbool.h>

enum command_line_action {
	COMMAND_LINE_RUN,
	COMMAND_LINE_TEST,    /* -t: check the configuration and exit */
	COMMAND_LINE_PRINT,   /* -T: print the effective configuration */
	COMMAND_LINE_CONVERT, /* --convert-…: run `berth convert` */
	/* --help, --version, or a usage error: everything is printed; exit with exit_status */
	COMMAND_LINE_EXIT
};

struct command_line {
	enum command_line_action action;
	int exit_status;
	const char *config_path;
	const char *convert_from; /* a word of `berth convert` */
	const char *convert_path;
	bool strict;  /* -t: warnings count as bad */
	int ready_fd; /* s6's notification descriptor, -1 for none */
	char **argv;  /* the main process's, behind "--"; NULL for none */
};

struct command_line command_line_parse(int argc, char **argv);

#endif
