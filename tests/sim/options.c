#include "tests/sim/options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/sim.h"

enum { MOST_HOURS = 24 * 366 };

static const char help[] =
	"usage: tests/sim/sim [OPTION…]\n"
	"\n"
	"Runs agents on one registry in virtual time, with all that can go wrong. A seed\n"
	"determines the whole run. Exit status: 0 when all promises held, 1 when one was\n"
	"broken, 2 for a wrong option.\n"
	"\n"
	"  --seed=N         this seed alone (1)\n"
	"  --seeds=COUNT    so many seeds\n"
	"  --from=N         the first of them (1)\n"
	"  --hours=H        of virtual time for each (1)\n"
	"  --jobs=N         processes (1); 0: none besides this one, for a debugger\n"
	"  --stop           ends at the first broken promise; otherwise a seed that breaks one\n"
	"                   is run again with fewer events, and the command that repeats it is\n"
	"                   printed\n"
	"  --twice          runs each seed twice: both must write the same trace\n"
	"  --only=N,N…      of the events of the seed these alone, by their numbers from 0 on\n"
	"  --trace          prints what happens\n"
	"  --reads          prints with --trace what the agents read, too\n"
	"  --log            lets the agents log\n"
	"  --bridge         the agents are in containers of one host, whose agent bridges them\n"
	"  --unread         nobody reads the agents' maps\n"
	"  --quiet          prints broken promises alone\n"
	"  --help           prints this\n";

__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *format, ...)
{
	va_list arguments;
	fputs("sim: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs("; --help lists the options\n", stderr);
	exit(2);
}

/* A whole number from `least` to `most`. */
static uint64_t read_number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	bool is_number = *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
	if (!is_number || value < least || value > most) {
		refuse("--%s: `%s` is not a number from %llu to %llu", option, text,
			(unsigned long long)least, (unsigned long long)most);
	}
	return value;
}

static int64_t read_hours(const char *text)
{
	char *end;
	double hours = strtod(text, &end);
	if (end == text || *end || !isfinite(hours) || hours * SIM_HOUR < 1 || hours > MOST_HOURS) {
		refuse("--hours: `%s` is not a number of hours up to %d", text, MOST_HOURS);
	}
	return (int64_t)(hours * SIM_HOUR);
}

static bool *read_events(const char *list)
{
	bool *chosen = calloc(OPTIONS_MOST_EVENTS, sizeof(*chosen));
	for (const char *at = list;;) {
		char *end;
		unsigned long number = strtoul(at, &end, 10);
		bool is_number = *at >= '0' && *at <= '9' && (*end == ',' || *end == '\0');
		if (!chosen || !is_number || number >= OPTIONS_MOST_EVENTS) {
			refuse("--only: `%s` is not a list of numbers below %d", list,
				OPTIONS_MOST_EVENTS);
		}
		chosen[number] = true;
		if (*end == '\0') {
			return chosen;
		}
		at = end + 1;
	}
}

enum {
	SEED,
	SEEDS,
	FROM,
	HOURS,
	JOBS,
	STOP,
	TWICE,
	ONLY,
	TRACE,
	READS,
	LOG,
	BRIDGE,
	UNREAD,
	QUIET,
	HELP
};

static const struct option names[] = {
	[SEED] = { "seed", required_argument, NULL, SEED },
	[SEEDS] = { "seeds", required_argument, NULL, SEEDS },
	[FROM] = { "from", required_argument, NULL, FROM },
	[HOURS] = { "hours", required_argument, NULL, HOURS },
	[JOBS] = { "jobs", required_argument, NULL, JOBS },
	[STOP] = { "stop", no_argument, NULL, STOP },
	[TWICE] = { "twice", no_argument, NULL, TWICE },
	[ONLY] = { "only", required_argument, NULL, ONLY },
	[TRACE] = { "trace", no_argument, NULL, TRACE },
	[READS] = { "reads", no_argument, NULL, READS },
	[LOG] = { "log", no_argument, NULL, LOG },
	[BRIDGE] = { "bridge", no_argument, NULL, BRIDGE },
	[UNREAD] = { "unread", no_argument, NULL, UNREAD },
	[QUIET] = { "quiet", no_argument, NULL, QUIET },
	[HELP] = { "help", no_argument, NULL, HELP },
	{ NULL, 0, NULL, 0 },
};

static void read_option(struct options *options, int name, const char *value)
{
	switch (name) {
	case SEED:
	case FROM:
		options->first = read_number(names[name].name, value, 0, UINT64_MAX);
		break;
	case SEEDS:
		options->count = read_number(names[name].name, value, 1, UINT64_MAX);
		break;
	case HOURS:
		options->length_ms = read_hours(value);
		break;
	case JOBS:
		options->jobs = (int)read_number(names[name].name, value, 0, OPTIONS_MOST_JOBS);
		break;
	case ONLY:
		free(options->chosen);
		options->chosen = read_events(value);
		break;
	default:
		*(bool *[]){ [STOP] = &options->stop,
			[TWICE] = &options->twice,
			[TRACE] = &options->trace,
			[READS] = &options->reads,
			[LOG] = &options->log,
			[BRIDGE] = &options->bridge,
			[UNREAD] = &options->unread,
			[QUIET] = &options->quiet }[name] = true;
	}
}

struct options options_read(int argc, char **argv)
{
	struct options options = { .first = 1, .count = 1, .length_ms = SIM_HOUR, .jobs = 1 };
	int name;
	opterr = 0;
	while ((name = getopt_long(argc, argv, ":", names, NULL)) != -1) {
		if (name == '?') {
			refuse("`%s` is not an option, or takes no value", argv[optind - 1]);
		} else if (name == ':') {
			refuse("`%s` lacks a value", argv[optind - 1]);
		} else if (name == HELP) {
			fputs(help, stdout);
			exit(0);
		}
		read_option(&options, name, optarg);
	}
	if (optind < argc) {
		refuse("`%s` is not an option", argv[optind]);
	}
	return options;
}
