/* A handle on a registry: every call of the library, on a directory. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/berth.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

#define RECORD(more) "{\"type\":\"JSONServiceRecord\"" more "}"
#define AT(api, protocol, host, port)                                                              \
	"{\"api\":\"" api "\",\"addressType\":\"host/port\",\"protocolType\":\"" protocol          \
	"\",\"addresses\":[{\"host\":\"" host "\",\"port\":\"" port "\"}]}"
#define SERVES(api, host, port) ",\"external\":[" AT(api, "REST", host, port) "]"

enum { PATIENT_MS = 60000, MOST_TURNS = 1000 };

struct stage {
	char folder[SCRATCH_PATH];
	char url[SCRATCH_PATH + 16];
	struct berth *berth;
	struct berth_failure failure;
	char events[1024];
	char snapshot[256];
	int64_t sequence;
};

static struct berth *open_handle(const struct stage *stage)
{
	struct berth *berth = NULL;
	const struct berth_options options = { .timeout_ms = PATIENT_MS };
	struct berth_failure failure;
	cr_assert_eq(berth_open(&berth, stage->url, &options, &failure), 0, "%s", failure.message);
	return berth;
}

static struct stage *open_stage(struct stage *stage)
{
	scratch_memory_folder(stage->folder);
	snprintf(stage->url, sizeof(stage->url), "dir:%s/root", stage->folder);
	stage->berth = open_handle(stage);
	return stage;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void close_stage(struct stage *stage)
{
	berth_close(stage->berth);
	nftw(stage->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(on_registry, name, struct stage *, stage,                                      \
		open_stage(&(struct stage){ .berth = NULL }), close_stage)

static void bind(struct stage *stage, const char *path, const char *record)
{
	int code = berth_bind(stage->berth, path, record, BERTH_BIND_PARENTS | BERTH_BIND_OVERWRITE,
		&stage->failure);
	cr_assert_eq(code, 0, "%s: %s", path, stage->failure.message);
}

static void expect_failure(struct stage *stage, int code, int expected, const char *text)
{
	cr_expect_eq(code, expected, "%d: %s", code, stage->failure.message);
	cr_expect_eq(stage->failure.code, expected);
	cr_expect(strstr(stage->failure.message, text), "%s", stage->failure.message);
	stage->failure = (struct berth_failure){ .code = 0 };
}

STAGED(a_record_is_written_and_read)
{
	struct berth_answer answer;
	cr_expect(berth_is_registry(stage->berth));
	bind(stage, "/s/one", RECORD(",\"description\":\"first\""));
	cr_assert_eq(berth_resolve(stage->berth, "/s/one", &answer, &stage->failure), 0);
	cr_expect(strstr(answer.json, "\"first\""), "%s", answer.json);
	cr_expect_eq(answer.len, strlen(answer.json));
	cr_expect_eq(answer.freshness.age_s, 0);
	cr_expect_not(answer.freshness.stale);
	berth_answer_finish(&answer);
	bind(stage, "/s/one", RECORD(",\"description\":\"second\""));
	cr_assert_eq(berth_resolve(stage->berth, "/s/one", &answer, NULL), 0);
	cr_expect(strstr(answer.json, "\"second\""), "%s", answer.json);
	berth_answer_finish(&answer);
	expect_failure(stage, berth_resolve(stage->berth, "/s/two", &answer, &stage->failure),
		BERTH_PATH_NOT_FOUND, "/s/two");
	expect_failure(stage, berth_resolve(stage->berth, "/s", &answer, &stage->failure),
		BERTH_NO_RECORD, "");
	expect_failure(stage, berth_resolve(stage->berth, "s", &answer, &stage->failure),
		BERTH_INVALID_PATHNAME, "");
}

STAGED(binding_has_its_flags)
{
	const char *record = RECORD("");
	expect_failure(stage, berth_bind(stage->berth, "/s/one", record, 0, &stage->failure),
		BERTH_PATH_NOT_FOUND, "/s");
	cr_assert_eq(berth_bind(stage->berth, "/s/one", record, BERTH_BIND_PARENTS, NULL), 0);
	expect_failure(stage, berth_bind(stage->berth, "/s/one", record, 0, &stage->failure),
		BERTH_FILE_ALREADY_EXISTS, "/s/one");
	cr_expect_eq(berth_bind(stage->berth, "/s/one", record, BERTH_BIND_OVERWRITE, NULL), 0);
	expect_failure(stage,
		berth_bind(stage->berth, "/s/two", "{\"type\":1}", 0, &stage->failure),
		BERTH_INVALID_RECORD, "type");
	cr_expect_eq(berth_exists(stage->berth, "/s/two", NULL), 0);
}

STAGED(children_are_listed_with_their_records)
{
	struct berth_paths paths;
	struct berth_answer answer;
	struct berth_stat stat;
	bool made = false;
	bind(stage, "/s/b", RECORD(",\"description\":\"bee\""));
	bind(stage, "/s/a", RECORD(",\"description\":\"ay\""));
	cr_assert_eq(berth_mknode(stage->berth, "/s/c", false, &made, NULL), 0);
	cr_expect(made);
	cr_assert_eq(berth_mknode(stage->berth, "/s/c", false, &made, NULL), 0);
	cr_expect_not(made);
	cr_assert_eq(berth_list(stage->berth, "/s", &paths, NULL), 0);
	cr_assert_eq(paths.count, 3);
	cr_expect_str_eq(paths.items[0], "/s/a");
	cr_expect_str_eq(paths.items[1], "/s/b");
	cr_expect_str_eq(paths.items[2], "/s/c");
	cr_expect_eq(paths.foreign_count, 0);
	berth_paths_finish(&paths);
	cr_assert_eq(berth_list(stage->berth, "/s/c", &paths, NULL), 0);
	cr_expect_eq(paths.count, 0);
	berth_paths_finish(&paths);
	expect_failure(stage, berth_list(stage->berth, "/t", &paths, &stage->failure),
		BERTH_PATH_NOT_FOUND, "/t");
	cr_assert_eq(berth_records(stage->berth, "/s", &answer, NULL), 0);
	cr_expect(strstr(answer.json, "\"/s/a\":{"), "%s", answer.json);
	cr_expect(strstr(answer.json, "\"bee\""), "%s", answer.json);
	berth_answer_finish(&answer);
	expect_failure(stage, berth_records(stage->berth, "/t", &answer, &stage->failure),
		BERTH_PATH_NOT_FOUND, "/t");
	cr_assert_eq(berth_stat(stage->berth, "/s", &stat, NULL), 0);
	cr_expect_eq(stat.children, 3);
	cr_expect_eq(stat.size, 0);
	cr_expect_gt(stat.time_ms, INT64_C(1600000000000));
	cr_assert_eq(berth_stat(stage->berth, "/s/a", &stat, NULL), 0);
	cr_expect_eq(stat.children, 0);
	cr_expect_gt(stat.size, 30);
	expect_failure(stage, berth_stat(stage->berth, "/t", &stat, &stage->failure),
		BERTH_PATH_NOT_FOUND, "/t");
}

STAGED(names_that_no_path_can_hold_are_listed_apart)
{
	struct berth_paths paths;
	struct berth_stat stat;
	char folder[2 * SCRATCH_PATH];
	bind(stage, "/s/a", RECORD(""));
	snprintf(folder, sizeof(folder), "%s/root/s/No Name", stage->folder);
	cr_assert_eq(mkdir(folder, 0755), 0);
	cr_assert_eq(berth_list(stage->berth, "/s", &paths, NULL), 0);
	cr_expect_eq(paths.count, 1);
	cr_assert_eq(paths.foreign_count, 1);
	cr_expect_str_eq(paths.foreign[0], "/s/No%20Name");
	berth_paths_finish(&paths);
	cr_assert_eq(berth_stat(stage->berth, "/s", &stat, NULL), 0);
	cr_expect_eq(stat.children, 1);
	cr_expect_eq(stat.foreign, 1);
}

static const char *addresses(struct stage *stage, const char *path, const char *api)
{
	static char text[256];
	const struct berth_endpoint_filter filter = { .api = api };
	struct berth_endpoints endpoints;
	text[0] = '\0';
	int code = berth_endpoints(
		stage->berth, path, api ? &filter : NULL, &endpoints, &stage->failure);
	cr_assert_eq(code, 0, "%s", stage->failure.message);
	for (size_t i = 0; i < endpoints.count; i++) {
		size_t len = strlen(text);
		snprintf(text + len, sizeof(text) - len, "%s=%s ", endpoints.items[i].path,
			endpoints.items[i].address);
	}
	berth_endpoints_finish(&endpoints);
	return text;
}

STAGED(endpoints_are_those_of_the_record_and_of_its_children)
{
	struct berth_endpoints endpoints;
	bind(stage, "/s", RECORD(SERVES("http://x/own", "h0", "80")));
	bind(stage, "/s/a", RECORD(SERVES("http://x/rest", "h1", "81")));
	bind(stage, "/s/b", RECORD(SERVES("http://x/other", "h2", "82")));
	cr_assert_eq(berth_mknode(stage->berth, "/s/c", false, NULL, NULL), 0);
	bind(stage, "/s/a/deeper", RECORD(SERVES("http://x/rest", "h3", "83")));
	cr_expect_str_eq(addresses(stage, "/s", NULL), "/s=h0:80 /s/a=h1:81 /s/b=h2:82 ");
	cr_expect_str_eq(addresses(stage, "/s", "http://x/rest"), "/s/a=h1:81 ");
	cr_expect_str_eq(addresses(stage, "/", NULL), "/s=h0:80 ", "the root holds no record");
	cr_expect_str_eq(addresses(stage, "/s/c", NULL), "");
	expect_failure(stage,
		berth_endpoints(stage->berth, "/t", NULL, &endpoints, &stage->failure),
		BERTH_PATH_NOT_FOUND, "/t");
}

STAGED(a_malformed_record_of_its_own_is_an_error_and_one_of_a_child_is_left_out)
{
	struct berth_endpoints endpoints;
	char file[2 * SCRATCH_PATH];
	bind(stage, "/s/a", RECORD(SERVES("x", "h1", "81")));
	bind(stage, "/s/b", RECORD(SERVES("x", "h2", "82")));
	snprintf(file, sizeof(file), "%s/root/s/b/_record", stage->folder);
	FILE *stream = fopen(file, "w");
	cr_assert(stream);
	fputs("{\"type\":\"JSONServiceRecord\",", stream);
	fclose(stream);
	cr_expect_str_eq(addresses(stage, "/s", NULL), "/s/a=h1:81 ");
	expect_failure(stage,
		berth_endpoints(stage->berth, "/s/b", NULL, &endpoints, &stage->failure),
		BERTH_INVALID_RECORD, "");
}

static void on_progress(void *context, size_t visited, size_t matches)
{
	size_t *most = context;
	cr_expect_leq(matches, visited);
	*most = visited > *most ? visited : *most;
}

STAGED(records_are_found_by_each_criterion)
{
	static const struct {
		struct berth_criteria criteria;
		const char *found;
	} rows[] = {
		{ { .under = NULL }, "/s/a /s/b /t/c " },
		{ { .under = "/t" }, "/t/c " },
		{ { .api = "http://x/rest" }, "/s/a " },
		{ { .protocol = "rest" }, "/s/a /t/c " },
		{ { .type = "JSONServiceRecord" }, "/s/a /s/b /t/c " },
		{ { .type = "Other" }, "" },
		{ { .id = "two" }, "/s/b " },
		{ { .persistence = "container" }, "/t/c " },
	};
	struct berth_answer answer;
	size_t visited = 0;
	bind(stage, "/s/a", RECORD(SERVES("http://x/rest", "h1", "81")));
	bind(stage, "/s/b", RECORD(",\"yarn:id\":\"two\""));
	bind(stage, "/t/c",
		RECORD(",\"yarn:id\":\"c\",\"yarn:persistence\":\"container\"" SERVES(
			"http://x/other", "h2", "82")));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static const char *const all[] = { "/s/a", "/s/b", "/t/c" };
		char found[64] = "";
		int code = berth_find(stage->berth, &rows[i].criteria, on_progress, &visited,
			&answer, &stage->failure);
		cr_assert_eq(code, 0, "%s", stage->failure.message);
		for (size_t at = 0; at < 3; at++) {
			if (strstr(answer.json, all[at])) {
				strcat(strcat(found, all[at]), " ");
			}
		}
		cr_expect_str_eq(found, rows[i].found, "row %zu: %s", i, answer.json);
		berth_answer_finish(&answer);
	}
	cr_assert_eq(berth_find(stage->berth, &rows[0].criteria, NULL, NULL, &answer, NULL), 0);
	berth_answer_finish(&answer);
	expect_failure(stage,
		berth_find(stage->berth, &(struct berth_criteria){ .under = "t" }, NULL, NULL,
			&answer, &stage->failure),
		BERTH_INVALID_PATHNAME, "");
}

STAGED(long_walks_report_how_far_they_are)
{
	struct berth_purge purge = { .criteria = { .id = "x", .persistence = "container" },
		.on_progress = on_progress };
	struct berth_answer answer;
	size_t visited = 0;
	for (int i = 0; i < 70; i++) {
		char path[32];
		snprintf(path, sizeof(path), "/s/n%d", i);
		bind(stage, path, RECORD(""));
	}
	cr_assert_eq(berth_find(stage->berth, &(struct berth_criteria){ .under = "/s" },
			     on_progress, &visited, &answer, NULL),
		0);
	cr_expect_geq(visited, 64);
	berth_answer_finish(&answer);
	visited = 0;
	purge.context = &visited;
	cr_assert_eq(berth_purge(stage->berth, &purge, NULL, NULL, NULL), 0);
	cr_expect_geq(visited, 64);
}

STAGED(nodes_are_deleted_alone_or_with_all_below)
{
	char folder[2 * SCRATCH_PATH];
	bind(stage, "/s/a/b", RECORD(""));
	expect_failure(stage, berth_delete(stage->berth, "/s/a", 0, &stage->failure),
		BERTH_PATH_IS_NOT_EMPTY_DIRECTORY, "/s/a");
	cr_expect_eq(berth_delete(stage->berth, "/s/a/b", 0, NULL), 0);
	cr_expect_eq(berth_exists(stage->berth, "/s/a/b", NULL), 0);
	bind(stage, "/s/a/b", RECORD(""));
	cr_expect_eq(berth_delete(stage->berth, "/s/a", BERTH_DELETE_RECURSIVE, NULL), 0);
	cr_expect_eq(berth_exists(stage->berth, "/s/a", NULL), 0);
	bind(stage, "/s/a", RECORD(""));
	snprintf(folder, sizeof(folder), "%s/root/s/a/No Name", stage->folder);
	cr_assert_eq(mkdir(folder, 0755), 0);
	expect_failure(stage,
		berth_delete(stage->berth, "/s/a", BERTH_DELETE_RECURSIVE, &stage->failure),
		BERTH_PATH_IS_NOT_EMPTY_DIRECTORY, "No%20Name");
	cr_expect_eq(berth_delete(stage->berth, "/s/a",
			     BERTH_DELETE_RECURSIVE | BERTH_DELETE_FOREIGN, NULL),
		0);
	cr_expect_eq(berth_exists(stage->berth, "/s/a", NULL), 0);
}

STAGED(a_purge_takes_what_matches_with_its_policy)
{
	struct berth_purge purge = { .criteria = { .id = "dead", .persistence = "container" },
		.policy = BERTH_PURGE_SKIP_ON_CHILDREN,
		.dry_run = true };
	struct berth_answer matches;
	struct berth_paths purged;
	size_t visited = 0;
	bind(stage, "/s/a", RECORD(",\"yarn:id\":\"dead\",\"yarn:persistence\":\"container\""));
	bind(stage, "/s/b", RECORD(",\"yarn:id\":\"dead\",\"yarn:persistence\":\"container\""));
	bind(stage, "/s/b/child", RECORD(""));
	bind(stage, "/s/c", RECORD(",\"yarn:id\":\"alive\",\"yarn:persistence\":\"container\""));
	purge.on_progress = on_progress;
	purge.context = &visited;
	cr_assert_eq(berth_purge(stage->berth, &purge, &matches, &purged, NULL), 0);
	cr_expect(strstr(matches.json, "/s/a") && strstr(matches.json, "/s/b"), "%s", matches.json);
	cr_expect_null(strstr(matches.json, "/s/c"));
	berth_answer_finish(&matches);
	berth_paths_finish(&purged);
	cr_expect_eq(berth_exists(stage->berth, "/s/a", NULL), 1, "a dry run deletes nothing");
	purge.dry_run = false;
	cr_assert_eq(berth_purge(stage->berth, &purge, NULL, &purged, NULL), 0);
	cr_assert_eq(purged.count, 1);
	cr_expect_str_eq(purged.items[0], "/s/a");
	berth_paths_finish(&purged);
	cr_expect_eq(berth_exists(stage->berth, "/s/a", NULL), 0);
	purge.policy = BERTH_PURGE_FAIL_ON_CHILDREN;
	expect_failure(stage, berth_purge(stage->berth, &purge, NULL, NULL, &stage->failure),
		BERTH_PATH_IS_NOT_EMPTY_DIRECTORY, "/s/b");
	purge.policy = BERTH_PURGE_ALL;
	cr_assert_eq(berth_purge(stage->berth, &purge, NULL, NULL, NULL), 0);
	cr_expect_eq(berth_exists(stage->berth, "/s/b", NULL), 0);
	cr_expect_eq(berth_exists(stage->berth, "/s/c", NULL), 1);
}

STAGED(a_home_needs_a_root_that_everybody_may_write)
{
	bind(stage, "/users", RECORD(""));
	expect_failure(stage,
		berth_make_home(stage->berth, "/users/root", "root", false, NULL, &stage->failure),
		BERTH_FAILED, "root");
}

/* ---- watches ---- */

static void on_event(void *context, const struct berth_event *event)
{
	struct stage *stage = context;
	size_t used = strlen(stage->events);
	cr_expect_eq(event->sequence, ++stage->sequence);
	snprintf(stage->events + used, sizeof(stage->events) - used, "%s%s%s%s ",
		berth_event_name(event->type), event->path ? ":" : "",
		event->path ? event->path : "",
		event->type == BERTH_EVENT_UPDATED && !event->record ? "(none)" : "");
	if (event->snapshot) {
		snprintf(stage->snapshot, sizeof(stage->snapshot), "%s", event->snapshot);
	}
}

static void wait_for(struct stage *stage, const char *event)
{
	for (int i = 0; i < MOST_TURNS && !strstr(stage->events, event); i++) {
		int code = berth_dispatch(stage->berth, 1000, &stage->failure);
		cr_assert_eq(code, 0, "%s", stage->failure.message);
	}
	cr_assert(strstr(stage->events, event), "%s is not in %s", event, stage->events);
}

STAGED(a_watch_tells_what_is_there_and_then_each_change)
{
	struct berth_watch *watch;
	struct berth *other = open_handle(stage);
	bind(stage, "/s/a", RECORD(",\"description\":\"one\""));
	cr_assert_eq(berth_watch(stage->berth, "/s", true, on_event, stage, &watch, NULL), 0);
	cr_expect_str_empty(stage->events, "events come from berth_dispatch() alone");
	wait_for(stage, "SUBSCRIBED");
	cr_expect(strstr(stage->snapshot, "\"/s/a\":{"), "%s", stage->snapshot);
	cr_expect_eq(berth_watch_trouble(watch, &stage->failure), 0);
	cr_assert_eq(berth_bind(other, "/s/b", RECORD(""), BERTH_BIND_EPHEMERAL, NULL), 0);
	wait_for(stage, "UPDATED:/s/b ");
	berth_close(other);
	wait_for(stage, "DELETED:/s/b ");
	cr_assert_eq(berth_mknode(stage->berth, "/s/c", false, NULL, NULL), 0);
	wait_for(stage, "UPDATED:/s/c(none) ");
	berth_unwatch(watch);
	stage->events[0] = '\0';
	bind(stage, "/s/d", RECORD(""));
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(berth_dispatch(stage->berth, 0, NULL), 0);
	}
	cr_expect_str_empty(stage->events);
}

/* For a program with a loop of its own. */
STAGED(the_descriptor_is_ready_when_there_is_something_to_dispatch_and_only_then)
{
	struct berth_watch *watch;
	struct berth *other = open_handle(stage);
	struct pollfd poller = { .fd = berth_fd(stage->berth), .events = POLLIN };
	bind(stage, "/s/a", RECORD(""));
	cr_assert_eq(berth_watch(stage->berth, "/s", true, on_event, stage, &watch, NULL), 0);
	wait_for(stage, "SUBSCRIBED");
	while (poll(&poller, 1, 0) > 0) {
		cr_assert_eq(berth_dispatch(stage->berth, 0, NULL), 0);
	}
	stage->events[0] = '\0';
	cr_assert_eq(berth_bind(other, "/s/b", RECORD(""), 0, NULL), 0);
	while (!strstr(stage->events, "UPDATED:/s/b ")) {
		cr_assert_eq(poll(&poller, 1, PATIENT_MS), 1);
		cr_assert_eq(berth_dispatch(stage->berth, 0, NULL), 0);
	}
	berth_close(other);
}

/* The registry reports changes while another call waits for its answer. */
STAGED(events_that_came_during_another_call_make_the_descriptor_ready)
{
	struct berth_watch *watch;
	struct pollfd poller = { .fd = berth_fd(stage->berth), .events = POLLIN };
	bind(stage, "/s/a", RECORD(""));
	cr_assert_eq(berth_watch(stage->berth, "/s", true, on_event, stage, &watch, NULL), 0);
	for (int i = 0; i < 50; i++) {
		cr_assert_eq(berth_exists(stage->berth, "/s/a", NULL), 1);
	}
	cr_expect_str_empty(stage->events, "events come from berth_dispatch() alone");
	while (!strstr(stage->events, "SUBSCRIBED")) {
		cr_assert_eq(poll(&poller, 1, PATIENT_MS), 1);
		cr_assert_eq(berth_dispatch(stage->berth, 0, NULL), 0);
	}
}

STAGED(a_watch_of_one_path_tells_of_no_other)
{
	struct berth_watch *watch;
	bind(stage, "/s/a", RECORD(""));
	cr_assert_eq(berth_watch(stage->berth, "/s", false, on_event, stage, &watch, NULL), 0);
	wait_for(stage, "SUBSCRIBED");
	bind(stage, "/s/b", RECORD(""));
	bind(stage, "/s", RECORD(",\"description\":\"own\""));
	wait_for(stage, "UPDATED:/s ");
	cr_expect_null(strstr(stage->events, "/s/b"), "%s", stage->events);
	berth_unwatch(watch);
	expect_failure(stage,
		berth_watch(stage->berth, "s", false, on_event, stage, &watch, &stage->failure),
		BERTH_INVALID_PATHNAME, "");
}

STAGED(a_registry_that_goes_is_told_of_and_its_return_too)
{
	struct berth_watch *watch;
	struct berth_answer answer;
	char away[2 * SCRATCH_PATH];
	char root[2 * SCRATCH_PATH];
	snprintf(root, sizeof(root), "%s/root", stage->folder);
	snprintf(away, sizeof(away), "%s/away", stage->folder);
	bind(stage, "/s/a", RECORD(""));
	cr_assert_eq(berth_watch(stage->berth, "/s", true, on_event, stage, &watch, NULL), 0);
	wait_for(stage, "SUBSCRIBED");
	cr_assert_eq(rename(root, away), 0);
	wait_for(stage, "STALE");
	expect_failure(stage, berth_watch_trouble(watch, &stage->failure),
		BERTH_REGISTRY_UNAVAILABLE, root);
	expect_failure(stage, berth_resolve(stage->berth, "/s/a", &answer, &stage->failure),
		BERTH_REGISTRY_UNAVAILABLE, root);
	cr_assert_eq(rename(away, root), 0);
	wait_for(stage, "FRESH");
	cr_expect_eq(berth_watch_trouble(watch, NULL), 0);
	cr_assert_eq(berth_resolve(stage->berth, "/s/a", &answer, NULL), 0);
	berth_answer_finish(&answer);
	berth_unwatch(watch);
}

STAGED(a_url_that_cannot_be_meant_is_refused)
{
	struct berth *berth = NULL;
	expect_failure(stage, berth_open(&berth, "dir:here", NULL, &stage->failure), BERTH_FAILED,
		"dir:here");
	cr_expect_null(berth);
	expect_failure(stage,
		berth_open(&berth, stage->url, &(struct berth_options){ .secure = true },
			&stage->failure),
		BERTH_FAILED, "secure");
}
