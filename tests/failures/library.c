/*
 * library WHERE [EVERY]: every call of libberth fails once.
 *
 * A scenario of calls on a handle (WHERE: an agent's socket, or a registry's URL) runs once without
 * a failure, which lists the allocations and system calls of this process. Then it runs once for
 * the first and for the last call of each place, in a fork: a call of the library either does its
 * work or says why not, and succeeds when it is made again; the handle gives back all memory and
 * all descriptors. Prints a line for each kind, "kind points defects". EVERY: a sample of the
 * points.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/berth.h"
#include "tests/failures/points.h"
#include "tests/support/descriptors.h"

#define NODE "/services/library"
static const char RECORD[] =
	"{\"type\": \"JSONServiceRecord\", \"description\": \"library\", \"internal\": [], "
	"\"external\": [{\"api\": \"a\", \"addressType\": \"uri\", \"protocol\": \"http\", "
	"\"addresses\": [{\"uri\": \"http://127.0.0.1/\"}]}]}";

enum {
	WRONG = 1, /* of a step: it claims to have succeeded, with a wrong result */
	TRIES = 30,
	PAUSE_MS = 200,
	PATIENCE_S = 60,
	CALL_MS = 5000,
	ERRORS_MAX = 4
};

struct stage {
	const char *where;
	struct berth *berth;
	struct berth_failure failure;
};

static struct points_page *page;

/* ---- steps ---- */

static int checked(int code, bool right)
{
	return code ? code : right ? 0 : WRONG;
}

static int open_handle(struct stage *stage)
{
	struct berth_options options = { .timeout_ms = CALL_MS };
	return berth_open(&stage->berth, stage->where, &options, &stage->failure);
}

static int make(struct stage *stage)
{
	return berth_mknode(stage->berth, "/services", true, NULL, &stage->failure);
}

static int bind_record(struct stage *stage)
{
	return berth_bind(stage->berth, NODE, RECORD, BERTH_BIND_OVERWRITE | BERTH_BIND_PARENTS,
		&stage->failure);
}

static int bind_ephemeral(struct stage *stage)
{
	return berth_bind(stage->berth, NODE "-held", RECORD,
		BERTH_BIND_OVERWRITE | BERTH_BIND_PARENTS | BERTH_BIND_EPHEMERAL, &stage->failure);
}

static int resolve(struct stage *stage)
{
	struct berth_answer answer;
	int code = berth_resolve(stage->berth, NODE, &answer, &stage->failure);
	if (code == 0) {
		code = checked(code, strstr(answer.json, "\"library\"") != NULL);
		berth_answer_finish(&answer);
	}
	return code;
}

static int list(struct stage *stage)
{
	struct berth_paths paths;
	int code = berth_list(stage->berth, "/services", &paths, &stage->failure);
	if (code == 0) {
		code = checked(code, paths.count >= 1 && strcmp(paths.items[0], NODE) == 0);
		berth_paths_finish(&paths);
	}
	return code;
}

static int records(struct stage *stage)
{
	struct berth_answer answer;
	int code = berth_records(stage->berth, "/services", &answer, &stage->failure);
	if (code == 0) {
		code = checked(code, strstr(answer.json, "\"" NODE "\"") != NULL);
		berth_answer_finish(&answer);
	}
	return code;
}

static int endpoints(struct stage *stage)
{
	struct berth_endpoints found;
	int code = berth_endpoints(stage->berth, NODE, NULL, &found, &stage->failure);
	if (code == 0) {
		code = checked(code,
			found.count == 1 &&
				strcmp(found.items[0].address, "http://127.0.0.1/") == 0);
		berth_endpoints_finish(&found);
	}
	return code;
}

static int stat_node(struct stage *stage)
{
	struct berth_stat found;
	return checked(berth_stat(stage->berth, NODE, &found, &stage->failure), true);
}

static int exists(struct stage *stage)
{
	int code = berth_exists(stage->berth, NODE, &stage->failure);
	return code < 0 ? code : checked(0, code == 1);
}

static int find(struct stage *stage)
{
	struct berth_criteria criteria = { .under = "/services", .api = "a" };
	struct berth_answer answer;
	int code = berth_find(stage->berth, &criteria, NULL, NULL, &answer, &stage->failure);
	if (code == 0) {
		code = checked(code, strstr(answer.json, "\"" NODE "\"") != NULL);
		berth_answer_finish(&answer);
	}
	return code;
}

static int keep_lookup(struct stage *stage)
{
	struct berth_lookup *lookup;
	const struct berth_endpoints *found;
	int code = berth_lookup_create(&lookup, stage->berth, NODE, NULL, &stage->failure);
	if (code) {
		return code;
	}
	code = berth_lookup_get(lookup, &found, &stage->failure);
	if (code == 0) {
		berth_lookup_trouble(lookup);
		code = berth_lookup_get(lookup, &found, &stage->failure);
	}
	code = checked(code, code || found->count == 1);
	berth_lookup_free(lookup);
	return code;
}

static int keep_set(struct stage *stage)
{
	struct berth_set *set;
	const struct berth_members *members;
	const struct berth_member *member;
	const struct berth_set_options options = { .near = "self" };
	int code = berth_set_open(&set, stage->berth, NODE, &options, &stage->failure);
	if (code) {
		return code;
	}
	code = berth_set_members(set, &members, &stage->failure);
	code = code ? code : berth_pick(set, &member, &stage->failure);
	code = checked(code, code || members->count == 1);
	berth_set_close(set);
	return code;
}

struct begun {
	bool done;
	bool right; /* the snapshot holds the record */
};

static void on_event(void *context, const struct berth_event *event)
{
	struct begun *begun = context;
	if (event->type == BERTH_EVENT_SUBSCRIBED) {
		begun->done = true;
		begun->right = strstr(event->snapshot, "\"library\"") != NULL;
	}
}

/* A code when the watch missed an event. Another trouble passes by itself. */
static int has_ended(struct stage *stage, const struct berth_watch *watch)
{
	int code = berth_watch_trouble(watch, &stage->failure);
	return code == BERTH_FAILED ? code : 0;
}

static int watch(struct stage *stage)
{
	struct berth_watch *watch;
	struct begun begun = { 0 };
	int code = berth_watch(
		stage->berth, NODE, false, on_event, &begun, &watch, &stage->failure);
	if (code) {
		return code;
	}
	/* The library connects again by itself. */
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	time_t end = now.tv_sec + PATIENCE_S / 4;
	while (!code && !begun.done && now.tv_sec < end) {
		code = berth_dispatch(stage->berth, 100, &stage->failure);
		clock_gettime(CLOCK_MONOTONIC, &now);
		code = code ? code : has_ended(stage, watch);
	}
	berth_unwatch(watch);
	return checked(code, begun.right);
}

struct seen {
	bool begun;
	bool changed;
	bool lost;
};

static void on_change(void *context, const struct berth_event *event)
{
	struct seen *seen = context;
	seen->begun = seen->begun || event->type == BERTH_EVENT_SUBSCRIBED;
	seen->lost = seen->lost || event->type == BERTH_EVENT_LOST;
	seen->changed = seen->changed ||
		(event->type == BERTH_EVENT_UPDATED && event->record &&
			strstr(event->record, "\"changed "));
}

/* A watch shows a change, or ends with a reason. */
static int watch_change(struct stage *stage)
{
	static int round; /* a value that was written already would change nothing */
	char record[100];
	snprintf(record, sizeof(record),
		"{\"type\": \"JSONServiceRecord\", \"description\": \"changed %d\"}", ++round);
	struct berth_watch *watch;
	struct seen seen = { 0 };
	int code = berth_watch(
		stage->berth, NODE, false, on_change, &seen, &watch, &stage->failure);
	if (code) {
		return code;
	}
	bool written = false;
	for (int i = 0; !code && !seen.changed && !seen.lost && i < PATIENCE_S * 10; i++) {
		code = berth_dispatch(stage->berth, 100, &stage->failure);
		if (!code && seen.begun && !written) {
			code = berth_bind(
				stage->berth, NODE, record, BERTH_BIND_OVERWRITE, &stage->failure);
			written = true;
		}
	}
	code = code || seen.changed ? code : has_ended(stage, watch);
	berth_unwatch(watch);
	code = code ? code : bind_record(stage);
	return checked(code, seen.changed);
}

static int purge(struct stage *stage)
{
	struct berth_purge purge = {
		.criteria = { .under = "/services", .id = "none", .persistence = "container" },
	};
	struct berth_paths purged;
	int code = berth_purge(stage->berth, &purge, NULL, &purged, &stage->failure);
	if (code == 0) {
		code = checked(code, purged.count == 0);
		berth_paths_finish(&purged);
	}
	return code;
}

static int delete_held(struct stage *stage)
{
	return berth_delete(stage->berth, NODE "-held", 0, &stage->failure);
}

static int status(struct stage *stage)
{
	struct berth_answer answer;
	int code = berth_status(stage->berth, &answer, &stage->failure);
	if (code == 0) {
		code = checked(code, strstr(answer.json, "\"components\"") != NULL);
		berth_answer_finish(&answer);
	}
	return code;
}

static int name(struct stage *stage)
{
	struct berth_answer answer;
	int code = berth_name(
		stage->berth, "library.services.berth", "A", &answer, &stage->failure);
	if (code == 0) {
		code = checked(code, strstr(answer.json, "127.0.0.1") != NULL);
		berth_answer_finish(&answer);
	}
	return code;
}

static int live(struct stage *stage)
{
	return berth_live(stage->berth, &stage->failure);
}

struct step {
	const char *name;
	int (*run)(struct stage *stage);
};

#define LOOKUPS                                                                                    \
	{ "resolve", resolve }, { "list", list }, { "records", records },                          \
		{ "endpoints", endpoints }, { "stat", stat_node }, { "exists", exists },           \
		{ "find", find }, { "lookup", keep_lookup },                                       \
	{                                                                                          \
		"watch", watch                                                                     \
	}

static const struct step on_registry[] = { { "open", open_handle }, { "mknode", make },
	{ "bind", bind_record }, { "bind ephemeral", bind_ephemeral }, LOOKUPS,
	{ "change", watch_change }, { "purge", purge }, { "delete", delete_held }, { NULL, NULL } };
static const struct step on_agent[] = { { "open", open_handle }, LOOKUPS, { "set", keep_set },
	{ "status", status }, { "name", name }, { "live", live }, { NULL, NULL } };

/* ---- one run ---- */

static bool is_told(const struct stage *stage, int code)
{
	return code == stage->failure.code && code < 0 && code >= BERTH_AGENT_UNAVAILABLE &&
		stage->failure.message[0];
}

/* False, and a word about it, when a step has broken its promise. */
static bool take(struct stage *stage, const struct step *step)
{
	int code = WRONG;
	for (int i = 0; i < TRIES; i++) {
		stage->failure = (struct berth_failure){ 0 };
		code = step->run(stage);
		if (code == 0) {
			return true;
		}
		if (code == WRONG) {
			printf("%s: a wrong result\n", step->name);
			return false;
		}
		if (!is_told(stage, code)) {
			printf("%s: code %d, and the failure says %d: %s\n", step->name, code,
				stage->failure.code, stage->failure.message);
			return false;
		}
		/* A registry that was lost is tried again after a while. */
		if (i > 0 && stage->berth) {
			(void)berth_dispatch(stage->berth, PAUSE_MS, NULL);
		}
	}
	printf("%s: still fails with %d: %s\n", step->name, code, stage->failure.message);
	return false;
}

/* A sanitizer has a better eye for leaks, and its strdup() allocates past the counted malloc(). */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

static bool leaks(int64_t live_before)
{
	return __lsan_do_recoverable_leak_check ? __lsan_do_recoverable_leak_check() != 0
						: page->live != live_before;
}

/* The exit status of a run: 0 when every promise was kept. */
static int run(const char *where, const struct step *steps, bool traced)
{
	struct stage stage = { .where = where };
	int descriptors = descriptors_count();
	int64_t live_before = page->live;
	memset(page->counts, 0, sizeof(page->counts));
	page->seen = 0;
	page->tracing = traced;
	bool good = true;
	for (const struct step *step = steps; good && step->name; step++) {
		good = take(&stage, step);
	}
	page->kind = POINTS_NONE;
	page->tracing = 0;
	berth_close(stage.berth);
	if (good && leaks(live_before)) {
		printf("%lld allocations are left\n", (long long)(page->live - live_before));
		good = false;
	}
	int left = descriptors_count() - descriptors;
	if (left) {
		printf("%d descriptors are left\n", left);
		good = false;
	}
	return good ? 0 : 1;
}

/* ---- all of them ---- */

struct kind_errors {
	const char *kind;
	int errors[ERRORS_MAX];
};

static const struct kind_errors errors_of[] = {
	{ "alloc", { ENOMEM } },
	{ "open", { EMFILE, EIO, ENOMEM } },
	{ "read", { EIO, EINTR } },
	{ "write", { ENOSPC, EIO, EINTR } },
	{ "fsync", { EIO, ENOSPC } },
	{ "rename", { ENOSPC, EIO } },
	{ "mkdir", { ENOSPC, EACCES } },
	{ "unlink", { EIO } },
	{ "stat", { EIO, ENOMEM } },
	{ "readdir", { EIO } },
	{ "lock", { ENOLCK, EINTR } },
	{ "chmod", { EPERM } },
	{ "socket", { EMFILE, ENOBUFS } },
	{ "connect", { ECONNREFUSED, EAGAIN } },
	{ "send", { EINTR, EAGAIN, ECONNRESET } },
	{ "receive", { EINTR, EAGAIN, ECONNRESET } },
	{ "sockopt", { ENOPROTOOPT } },
	{ "pipe", { EMFILE } },
	{ "spawn", { EAGAIN, ENOMEM } },
	{ "wait", { EINTR } },
	{ "epoll", { ENOMEM } },
	{ "epoll_wait", { EINTR } },
	{ "poll", { EINTR } },
	{ "inotify", { ENOSPC, EMFILE } },
	{ "eventfd", { EMFILE } },
	{ "random", { EINTR } },
	{ NULL, { 0 } },
};

static uint16_t kind_number(const char *name)
{
	for (uint16_t i = 0; i < POINTS_KINDS_MAX; i++) {
		if (strcmp(page->names[i], name) == 0) {
			return i;
		}
	}
	abort();
}

/* A call of a place: the `number`-th one with this stack. */
struct point {
	uint16_t kind;
	uint32_t stack;
	uint32_t number;
	int error;
};

/*
 * A run in a process of its own, in which this call fails; with NULL, the page lists the calls. The
 * stacks of all runs begin here. Returns the status of waitpid().
 */
static __attribute__((noinline)) int run_apart(
	const char *where, const struct step *steps, const struct point *point)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		alarm(PATIENCE_S);
		page->fired = 0;
		page->frame_count = 0;
		if (point) {
			page->error = point->error;
			page->stack = point->stack;
			page->number = point->number;
			page->kind = point->kind;
		}
		int status = run(where, steps, !point);
		fflush(stdout);
		_exit(status);
	}
	int result;
	waitpid(child, &result, 0);
	return result;
}

static void report(const struct point *point, int result)
{
	printf("library:%s:%08x.%u:%s: %s %d\n", page->names[point->kind], point->stack,
		point->number, strerrorname_np(point->error),
		WIFSIGNALED(result) ? "signal" : "status",
		WIFSIGNALED(result) ? WTERMSIG(result) : WEXITSTATUS(result));
	for (uint32_t i = 0; i < page->frame_count; i++) {
		printf("    %s\n", page->frames[i]);
	}
}

static bool same_place(const struct points_call *a, const struct points_call *b)
{
	return a->kind == b->kind && a->stack == b->stack;
}

/* The number of this call among those of its place; 0: neither the first nor the last of them. */
static uint32_t number_of(const struct points_call *calls, size_t count, size_t at)
{
	uint32_t before = 0;
	uint32_t behind = 0;
	for (size_t i = 0; i < count; i++) {
		bool same = same_place(&calls[i], &calls[at]);
		before += same && i < at;
		behind += same && i > at;
	}
	return before == 0 || behind == 0 ? before + 1 : 0;
}

struct points {
	struct point *list;
	size_t count;
};

static void add_point(struct points *points, const struct point *point)
{
	points->list = reallocarray(points->list, points->count + 1, sizeof(*points->list));
	if (!points->list) {
		abort();
	}
	points->list[points->count++] = *point;
}

/* Of the listed calls, in the order of errors_of. */
static struct points choose_points(void)
{
	struct points points = { NULL, 0 };
	const struct points_call *calls = page->calls;
	size_t count = page->call_count < POINTS_CALLS_MAX ? page->call_count : POINTS_CALLS_MAX;
	for (const struct kind_errors *of = errors_of; of->kind; of++) {
		struct point point = { .kind = kind_number(of->kind) };
		for (size_t i = 0; i < count; i++) {
			point.stack = calls[i].stack;
			point.number = calls[i].kind == point.kind ? number_of(calls, count, i) : 0;
			for (int e = 0; point.number && e < ERRORS_MAX && of->errors[e]; e++) {
				point.error = of->errors[e];
				add_point(&points, &point);
			}
		}
	}
	return points;
}

struct tally {
	unsigned tried; /* the call was made, and failed */
	unsigned defects;
};

static void take_result(struct tally *tally, const struct point *point, int result)
{
	tally->tried += page->fired;
	if (result) {
		tally->defects++;
		report(point, result);
	}
}

static int print(const struct tally *tallies)
{
	unsigned defects = 0;
	for (int kind = 0; kind < POINTS_KINDS_MAX; kind++) {
		defects += tallies[kind].defects;
		if (tallies[kind].tried) {
			printf("%s %u %u\n", page->names[kind], tallies[kind].tried,
				tallies[kind].defects);
		}
	}
	fflush(stdout);
	return defects ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: library WHERE [EVERY]\n");
		return 2;
	}
	uint64_t every = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	const struct step *steps = strchr(argv[1], ':') ? on_registry : on_agent;
	page = points_page_create("library");
	/* libc keeps some of its allocations: it makes them in the first run. */
	(void)run(argv[1], steps, false);
	struct points points = { NULL, 0 };
	struct tally tallies[POINTS_KINDS_MAX] = { { 0, 0 } };
	const struct point *point = NULL;
	size_t next = 0;
	do {
		int result = run_apart(argv[1], steps, point);
		if (point) {
			take_result(&tallies[point->kind], point, result);
		} else if (result) {
			return 1; /* it has reported why */
		} else {
			points = choose_points();
		}
		point = points.list + next;
		next += every;
	} while (next < points.count + every);
	free(points.list);
	return print(tallies);
}
