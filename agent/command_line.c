#include "agent/command_line.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_CONFIG BERTH_SYSCONFDIR "/berth/berth.ini"

static const char usage[] =
	"usage: berthd [-c FILE|DIR] [-t [--strict] | -T] [--ready-fd N] [-- CMD ARGS...]\n";

static const char help[] =
	"Announces this container's components in a service registry and answers lookups.\n"
	"\n"
	"  -c, --config FILE|DIR  configuration (default " DEFAULT_CONFIG ");\n"
	"                         with a FILE, conf.d/*.ini next to it is read too\n"
	"  -t, --test             check the configuration and exit: 0 good, 1 bad\n"
	"      --strict           with -t: warnings count as bad\n"
	"  -T, --print            print the effective configuration, secrets masked\n"
	"      --ready-fd N       write a newline to descriptor N when ready (s6)\n"
	"      --convert-registrar FILE, --convert-nerve FILE\n"
	"                         the same as berth convert registrar FILE, … nerve FILE\n"
	"  -h, --help             this text\n"
	"  -V, --version          the version\n"
	"      -- CMD ARGS...     run and supervise the container's main process\n"
	"\n"
	"Signals: HUP reload; TERM, INT (with a command: stop_on) drain, deregister,\n"
	"exit; USR2 upgrade in place; QUIT exit and leave the session to a successor.\n"
	"See berthd(8).\n";

static struct command_line leave_with(int exit_status)
{
	return (struct command_line){ .action = COMMAND_LINE_EXIT, .exit_status = exit_status };
}

static struct command_line usage_error(void)
{
	fputs(usage, stderr);
	fputs("Try berthd --help.\n", stderr);
	return leave_with(2);
}

static int parse_descriptor(const char *text)
{
	char *end;
	errno = 0;
	long value = strtol(text, &end, 10);
	return errno || *end || end == text || value < 0 || value > INT_MAX ? -1 : (int)value;
}

struct command_line command_line_parse(int argc, char **argv)
{
	enum { OPTION_READY_FD = 256, OPTION_STRICT, OPTION_REGISTRAR, OPTION_NERVE };
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "test", no_argument, NULL, 't' },
		{ "print", no_argument, NULL, 'T' },
		{ "strict", no_argument, NULL, OPTION_STRICT },
		{ "convert-registrar", required_argument, NULL, OPTION_REGISTRAR },
		{ "convert-nerve", required_argument, NULL, OPTION_NERVE },
		{ "ready-fd", required_argument, NULL, OPTION_READY_FD },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	struct command_line line = {
		.action = COMMAND_LINE_RUN, .config_path = DEFAULT_CONFIG, .ready_fd = -1
	};
	int option;
	while ((option = getopt_long(argc, argv, "+c:tThV", options, NULL)) != -1) {
		switch (option) {
		case 'c':
			line.config_path = optarg;
			break;
		case 't':
			line.action = COMMAND_LINE_TEST;
			break;
		case 'T':
			line.action = COMMAND_LINE_PRINT;
			break;
		case OPTION_REGISTRAR:
		case OPTION_NERVE:
			line.action = COMMAND_LINE_CONVERT;
			line.convert_from = option == OPTION_NERVE ? "nerve" : "registrar";
			line.convert_path = optarg;
			break;
		case OPTION_STRICT:
			line.strict = true;
			break;
		case OPTION_READY_FD:
			line.ready_fd = parse_descriptor(optarg);
			if (line.ready_fd < 0) {
				fprintf(stderr,
					"berthd: --ready-fd takes a descriptor "
					"number, not \"%s\"\n",
					optarg);
				return leave_with(2);
			}
			break;
		case 'h':
			fputs(usage, stdout);
			fputs(help, stdout);
			return leave_with(0);
		case 'V':
			puts("berthd " BERTH_VERSION);
			return leave_with(0);
		default:
			return usage_error();
		}
	}
	if (line.strict && line.action != COMMAND_LINE_TEST) {
		fputs("berthd: --strict goes with -t\n", stderr);
		return leave_with(2);
	}
	if (optind < argc) {
		/* A command only behind "--": a file without -c would be taken for one. */
		if (strcmp(argv[optind - 1], "--") != 0) {
			fprintf(stderr,
				"berthd: what is \"%s\"? For a configuration write -c "
				"%s, for a command -- %s\n",
				argv[optind], argv[optind], argv[optind]);
			return leave_with(2);
		}
		line.argv = argv + optind;
	}
	return line;
}
