/* The options of tests/sim/sim: which seeds run, for how long, and what is printed. */
#ifndef TESTS_SIM_OPTIONS_H
#define TESTS_SIM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OPTIONS_MOST_JOBS = 64, OPTIONS_MOST_EVENTS = 100000 };

struct options {
	uint64_t first;
	uint64_t count;
	int64_t length_ms;
	int jobs; /* 0: no process besides this one */
	bool trace;
	bool reads;
	bool log;
	bool twice;
	bool unread;
	bool bridge;
	bool quiet;
	bool stop;    /* at the first failure, which is not made smaller */
	bool *chosen; /* of OPTIONS_MOST_EVENTS; NULL: all events happen */
};

/* Ends the program when asked for help (0), and when an option makes no sense (2). */
struct options options_read(int argc, char **argv);

#endif
