/*
 * Runs seeds of the simulation, each twice when asked to; makes a failing one smaller and prints
 * the command that repeats it.
 */
#include <errno.h>
#include <grp.h>
#include <malloc.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "agent/base/log.h"
#include "lib/base/hash.h"
#include "tests/sim/addresses.h"
#include "tests/sim/answers.h"
#include "tests/sim/children.h"
#include "tests/sim/file_children.h"
#include "tests/sim/events.h"
#include "tests/sim/options.h"
#include "tests/sim/oracle.h"
#include "tests/sim/process.h"
#include "tests/sim/sim.h"

enum { MOST_SHRINKING_RUNS = 400, MOST_HEAP = 1 << 25 };

struct result {
	uint64_t hash;
	uint64_t settled; /* how often everything was found right */
	int64_t failed_ms;
	char failure[600];
};

/* ---- one run ---- */

static bool wants_trace;
static bool wants_hash;
static bool wants_reads;
static bool has_readers;
static bool has_bridge;
static uint64_t trace_hash;
static char failure[600];

void sim_begin(uint64_t seed, bool trace, bool hash)
{
	wants_trace = trace;
	wants_hash = hash;
	trace_hash = HASH_INIT;
	failure[0] = '\0';
	sim_clock_begin();
	sim_random_begin(seed);
}

void sim_trace(const char *format, ...)
{
	char line[1200];
	va_list arguments;
	if (!wants_hash) {
		return;
	}
	int len = snprintf(line, sizeof(line), "%10.3f ", (double)(sim_now_ms() - SIM_HOUR) / 1000);
	va_start(arguments, format);
	vsnprintf(line + len, sizeof(line) - (size_t)len, format, arguments);
	va_end(arguments);
	trace_hash = hash_text(trace_hash, line);
	if (wants_trace) {
		puts(line);
	}
}

bool sim_has_readers(void)
{
	return has_readers;
}

bool sim_has_bridge(void)
{
	return has_bridge;
}

int sim_agent_count(void)
{
	return has_bridge ? SIM_MOST : SIM_AGENTS;
}

int sim_owner_of(int agent)
{
	return has_bridge ? SIM_HOST : agent;
}

bool sim_traces_reads(void)
{
	return wants_reads;
}

uint64_t sim_trace_hash(void)
{
	return trace_hash;
}

void sim_fail(const char *format, ...)
{
	va_list arguments;
	if (failure[0] == '\0') {
		va_start(arguments, format);
		vsnprintf(failure, sizeof(failure), format, arguments);
		va_end(arguments);
		sim_trace("BROKEN: %s", failure);
	}
}

const char *sim_failure(void)
{
	return failure[0] ? failure : NULL;
}

static int64_t earlier_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Everything that is due now, and what follows from it at once. When something is due next. */
static int64_t step(struct stage *stage)
{
	int64_t due_ms = INT64_MAX;
	net_step(stage->net);
	children_step();
	file_children_step();
	bool calm = oracle_is_calm(stage);
	for (int i = 0; i < sim_agent_count(); i++) {
		sim_agent_turn(stage->agents[i], calm);
		due_ms = earlier_of(due_ms, sim_agent_due_ms(stage->agents[i]));
	}
	bool changed = files_have_changed();
	/* They write to each other, and into directories that others watch. */
	for (int i = 0; i < SIM_MOST && sim_has_bridge() && changed; i++) {
		sim_agent_look_at_files(stage->agents[i]);
		due_ms = earlier_of(due_ms, sim_agent_due_ms(stage->agents[i]));
	}
	due_ms = earlier_of(due_ms, net_due_ms(stage->net));
	due_ms = earlier_of(due_ms, children_due_ms());
	due_ms = earlier_of(due_ms, file_children_due_ms());
	return due_ms > sim_now_ms() ? due_ms : sim_now_ms() + 1;
}

void stage_pass(struct stage *stage, int64_t for_ms)
{
	int64_t until_ms = sim_now_ms() + for_ms;
	while (sim_now_ms() < until_ms) {
		sim_clock_set(earlier_of(step(stage), until_ms));
	}
	step(stage);
}

/* `kept` says which events happen; NULL: all. */
static struct result run(
	uint64_t seed, const struct options *options, const struct events *events, const bool *kept)
{
	struct result result = { .settled = 0 };
	struct stage stage = { .world = world_create() };
	sim_begin(seed, options->trace, options->trace || options->twice);
	addresses_make_lasting(stage.world);
	stage.net = net_create(stage.world, seed);
	for (int i = 0; i < sim_agent_count(); i++) {
		stage.agents[i] = sim_agent_create(stage.net, stage.world, i, seed);
	}
	int64_t begin_ms = sim_now_ms();
	int64_t ended_ms = 0; /* the calm before this moment was looked at */
	size_t next = 0;
	while (!sim_failure() && sim_now_ms() < begin_ms + options->length_ms) {
		while (next < events->count &&
			begin_ms + events->items[next].at_ms <= sim_now_ms()) {
			if (!kept || kept[next]) {
				event_happen(&events->items[next], &stage);
			}
			next++;
		}
		int64_t due_ms = step(&stage);
		oracle_watch(&stage);
		int64_t next_ms = begin_ms +
			(next < events->count ? events->items[next].at_ms : options->length_ms);
		bool ends = due_ms >= next_ms && next_ms != ended_ms;
		if (oracle_check(&stage, ends)) {
			result.settled++;
			ended_ms = ends ? next_ms : ended_ms;
			due_ms = step(&stage); /* its questions woke the agents */
		}
		due_ms = earlier_of(due_ms, next_ms);
		sim_clock_set(due_ms > sim_now_ms() ? due_ms : sim_now_ms() + 1);
	}
	result.hash = sim_trace_hash();
	result.failed_ms = sim_now_ms() - begin_ms;
	snprintf(result.failure, sizeof(result.failure), "%s", sim_failure() ? sim_failure() : "");
	for (int i = 0; i < sim_agent_count(); i++) {
		sim_agent_destroy(stage.agents[i]);
	}
	net_step(stage.net);
	net_destroy(stage.net);
	world_destroy(stage.world);
	return result;
}

/* ---- a failing run made smaller ---- */

/*
 * Leaves out as many events as possible, a part at a time and then one by one; the length that is
 * left.
 */
static int64_t shrink(
	uint64_t seed, struct options options, const struct events *events, bool *kept)
{
	int runs = 0;
	options.trace = false;
	for (size_t part = events->count / 2; part > 0 && runs < MOST_SHRINKING_RUNS; part /= 2) {
		for (size_t from = 0; from < events->count; from += part) {
			bool before[OPTIONS_MOST_EVENTS];
			memcpy(before, kept, events->count * sizeof(*kept));
			bool any = false;
			for (size_t i = from; i < from + part && i < events->count; i++) {
				any = any || kept[i];
				kept[i] = false;
			}
			if (!any) {
				continue;
			}
			runs++;
			struct result result = run(seed, &options, events, kept);
			if (result.failure[0] == '\0') {
				memcpy(kept, before, events->count * sizeof(*kept));
			} else {
				options.length_ms = result.failed_ms + 1;
			}
		}
	}
	return options.length_ms;
}

static void print_command(
	uint64_t seed, const struct options *options, const struct events *events, const bool *kept)
{
	const char *separator = "";
	printf("repeat it: tests/sim/sim --seed=%llu --hours=%.4f%s --trace --only=",
		(unsigned long long)seed, (double)(options->length_ms + SIM_SECOND) / SIM_HOUR,
		options->bridge ? " --bridge" : "");
	for (size_t i = 0; i < events->count; i++) {
		if (kept[i]) {
			printf("%s%zu", separator, i);
			separator = ",";
		}
	}
	printf("\n");
}

static void report(uint64_t seed, const struct options *options, const struct events *events,
	const struct result *result)
{
	static bool kept[OPTIONS_MOST_EVENTS];
	printf("seed %llu, after %.3f s: %s\n", (unsigned long long)seed,
		(double)result->failed_ms / 1000, result->failure);
	struct options shorter = *options;
	shorter.length_ms = result->failed_ms + 1;
	for (size_t i = 0; i < events->count; i++) {
		kept[i] = events->items[i].at_ms <= result->failed_ms;
	}
	shorter.length_ms = shrink(seed, shorter, events, kept);
	struct result smaller = run(seed, &shorter, events, kept);
	printf("with fewer events: %s\n", smaller.failure);
	print_command(seed, &shorter, events, kept);
	fflush(stdout);
}

/* ---- many runs ---- */

/* True when all promises held. */
static bool run_seed(uint64_t seed, const struct options *options, uint64_t *settled)
{
	struct events events;
	events_create(&events, seed, options->length_ms);
	struct result result = run(seed, options, &events, options->chosen);
	*settled += result.settled;
	bool good = result.failure[0] == '\0';
	if (good && options->twice) {
		struct result again = run(seed, options, &events, options->chosen);
		good = again.hash == result.hash;
		if (!good) {
			printf("seed %llu does not repeat itself\n", (unsigned long long)seed);
		}
	} else if (!good && !options->chosen && !options->stop) {
		report(seed, options, &events, &result);
	} else if (!good) {
		printf("seed %llu, after %.3f s: %s\n", (unsigned long long)seed,
			(double)result.failed_ms / 1000, result.failure);
	}
	events_destroy(&events);
	return good;
}

/* The seed that each job is at, for the report of a crash; behind them whether all are to stop. */
static uint64_t *seeds;

/* Every `jobs`-th seed; the number of failures, at most 100. */
static int run_job(const struct options *options, int job)
{
	int failures = 0;
	uint64_t settled = 0;
	for (uint64_t i = (uint64_t)job;
		i < options->count && failures < 100 && !seeds[OPTIONS_MOST_JOBS];
		i += (uint64_t)options->jobs) {
		seeds[job] = options->first + i;
		failures += !run_seed(options->first + i, options, &settled);
		if (options->stop && failures > 0) {
			seeds[OPTIONS_MOST_JOBS] = true;
		}
	}
	uint64_t counts[ANSWERS_COUNTS];
	answers_counts(counts);
	if (!options->quiet) {
		printf("job %d: found right %llu times; %llu hits, %llu stale answers, "
		       "%llu failures, %llu found in maps; %d "
		       "seeds broken\n",
			job, (unsigned long long)settled, (unsigned long long)counts[0],
			(unsigned long long)counts[1], (unsigned long long)counts[2],
			(unsigned long long)counts[3], failures);
	}
	return failures;
}

/* Files of the agents, below a directory in memory if there is one. */
static void make_folder(char folder[64])
{
	strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/sim-XXXXXX" : "/tmp/sim-XXXXXX");
	if (!mkdtemp(folder)) {
		perror(folder);
		exit(2);
	}
	sim_agents_begin(folder);
}

static void remove_folder(const char *folder)
{
	char command[96];
	snprintf(command, sizeof(command), "rm -r %s", folder);
	if (system(command) != 0) {
		perror(command);
	}
}

static int run_in_folder(const struct options *options, int job)
{
	char folder[64];
	make_folder(folder);
	if (!getenv("SIM_LOG")) { /* logs of faults are not news */
		(void)!freopen("/dev/null", "w", stderr);
	}
	int failures = run_job(options, job);
	remove_folder(folder);
	fflush(stdout);
	return failures;
}

static int result_of(const struct options *options, pid_t pid, int status, const pid_t *pids)
{
	for (int job = 0; job < options->jobs; job++) {
		if (pids[job] == pid && !WIFEXITED(status)) {
			printf("seed %llu crashes: signal %d\n", (unsigned long long)seeds[job],
				WTERMSIG(status));
			fflush(stdout);
			seeds[OPTIONS_MOST_JOBS] = options->stop;
		}
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int run_all(const struct options *options)
{
	pid_t pids[OPTIONS_MOST_JOBS];
	int failures = 0;
	fflush(stdout);
	for (int job = 0; job < options->jobs; job++) {
		pids[job] = fork();
		if (pids[job] == 0) {
			/* It does not go on alone; prctl() is that of the agents here. */
			syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
			_exit(run_in_folder(options, job));
		}
	}
	for (int job = 0; job < options->jobs; job++) {
		int status;
		pid_t pid = wait(&status);
		failures += result_of(options, pid, status, pids);
	}
	return failures;
}

/* The C library keeps memory of its own, which must not belong to the agent that asks first. */
static void warm_up(void)
{
	const time_t now = 0;
	struct tm parts;
	tzset();
	gmtime_r(&now, &parts);
	getpwnam("root");
	getgrnam("root");
	free(strdup(strerror(EINVAL)));
	json_object_seed(1);
}

int main(int argc, char **argv)
{
	log_set(LOG_LEVEL_ERROR, false);
	/* Agents come and go: their memory stays with this program. */
	mallopt(M_MMAP_THRESHOLD, MOST_HEAP);
	mallopt(M_TRIM_THRESHOLD, MOST_HEAP);
	struct options options = options_read(argc, argv);
	wants_reads = options.reads;
	has_readers = !options.unread;
	has_bridge = options.bridge;
	if (options.log) {
		setenv("SIM_LOG", "debug", 1);
	}
	warm_up();
	seeds = mmap(NULL, (OPTIONS_MOST_JOBS + 1) * sizeof(*seeds), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (options.jobs == 0) { /* for a debugger */
		options.jobs = 1;
		/* exit() would look at files that an agent had open when it had no memory. */
		_exit(run_in_folder(&options, 0) > 0);
	}
	return run_all(&options) > 0;
}
