/*
 * Calls of the installed library that the command line has no verb for; test_libberth.py compiles
 * and runs it.
 *
 *   use_libberth WHERE report CHECK passing|warning|failing TEXT
 *   use_libberth WHERE supply ENDPOINT ADDRESS...
 *       prints "supplied", and keeps its handle until standard input ends
 *   use_libberth WHERE withdraw ENDPOINT
 *   use_libberth WHERE share AUTH-FILE PATH USER PASSWORD
 *       binds a protected record that USER may change, too
 *   use_libberth WHERE look PATH
 *       prints what each kind of lookup has below PATH, with a form feed behind each
 *   use_libberth WHERE follow PATH
 *       prints the events of a watch on PATH, until a node has gone
 *   use_libberth WHERE wrong-handle
 *       each call is refused by the wrong kind of handle
 */
#include <berth.h>
#include <stdio.h>
#include <string.h>

#define RECORD "{\"type\":\"JSONServiceRecord\",\"external\":[],\"internal\":[]}"

static struct berth_failure failure;

static int report(struct berth *berth, char **arguments)
{
	static const char *const names[] = { [BERTH_PASSING] = "passing",
		[BERTH_WARNING] = "warning",
		[BERTH_FAILING] = "failing" };
	enum berth_health health = BERTH_PASSING;
	while (strcmp(names[health], arguments[1]) != 0) {
		health++;
	}
	return berth_report(berth, arguments[0], health, arguments[2], &failure);
}

static int supply(struct berth *berth, char **arguments, int count)
{
	int code = berth_supply(berth, arguments[0], (const char *const *)arguments + 1,
		(size_t)count - 1, &failure);
	if (code == 0) {
		puts("supplied");
		fflush(stdout);
		while (getchar() != EOF) {
		}
	}
	return code;
}

static int share(struct berth *berth, char **arguments)
{
	int code = berth_add_write_accessor(berth, arguments[1], arguments[2], &failure);
	if (code == 0) {
		code = berth_bind(berth, arguments[0], RECORD, BERTH_BIND_PARENTS, &failure);
	}
	return code ? code : berth_clear_write_accessors(berth, &failure);
}

/* The children of `path`, and the record of each. */
static int look_at_children(struct berth *berth, const char *path)
{
	struct berth_paths children;
	int code = berth_list(berth, path, &children, &failure);
	for (size_t i = 0; code == 0 && i < children.count; i++) {
		struct berth_answer record;
		printf("child %s\f", children.items[i]);
		code = berth_resolve(berth, children.items[i], &record, &failure);
		if (code == 0) {
			printf("record %s\f", record.json);
			berth_answer_finish(&record);
		}
	}
	berth_paths_finish(&children);
	return code;
}

static int look_at_endpoints(struct berth *berth, const char *path)
{
	struct berth_endpoints endpoints;
	int code = berth_endpoints(berth, path, NULL, &endpoints, &failure);
	for (size_t i = 0; code == 0 && i < endpoints.count; i++) {
		printf("address %s %s\f", endpoints.items[i].path, endpoints.items[i].address);
	}
	berth_endpoints_finish(&endpoints);
	return code;
}

static int look(struct berth *berth, const char *path)
{
	const struct berth_criteria criteria = { .under = path };
	struct berth_stat stat;
	struct berth_answer found;
	int code = look_at_children(berth, path);
	if (code == 0) {
		code = look_at_endpoints(berth, path);
	}
	if (code == 0) {
		code = berth_stat(berth, path, &stat, &failure);
	}
	if (code == 0) {
		printf("children %zu\f", stat.children);
		code = berth_find(berth, &criteria, NULL, NULL, &found, &failure);
	}
	if (code == 0) {
		printf("found %s\f", found.json);
		berth_answer_finish(&found);
	}
	return code;
}

static void on_event(void *context, const struct berth_event *event)
{
	bool *gone = context;
	const char *what = event->path ? event->path : event->snapshot;
	printf("%s %s\n", berth_event_name(event->type), what ? what : "");
	fflush(stdout);
	*gone = event->type == BERTH_EVENT_DELETED;
}

static int follow(struct berth *berth, const char *path)
{
	bool gone = false;
	struct berth_watch *watch = NULL;
	int code = berth_watch(berth, path, true, on_event, &gone, &watch, &failure);
	while (code == 0 && !gone) {
		code = berth_dispatch(berth, -1, &failure);
	}
	berth_unwatch(watch);
	return code;
}

static int wrong_handle(struct berth *berth)
{
	struct berth_answer answer;
	int wrong = 0;
	if (berth_is_registry(berth)) {
		wrong += berth_status(berth, &answer, &failure) != BERTH_FAILED;
		wrong += berth_report(berth, "x", BERTH_PASSING, NULL, &failure) != BERTH_FAILED;
		wrong += berth_withdraw(berth, "x", &failure) != BERTH_FAILED;
		wrong += berth_drain(berth, NULL, 0, &failure) != BERTH_FAILED;
	} else {
		wrong += berth_bind(berth, "/a", RECORD, 0, &failure) != BERTH_FAILED;
		wrong += berth_mknode(berth, "/a", true, NULL, &failure) != BERTH_FAILED;
		wrong += berth_delete(berth, "/a", false, &failure) != BERTH_FAILED;
		wrong += berth_add_write_accessor(berth, "u", "p", &failure) != BERTH_FAILED;
	}
	return wrong ? BERTH_FAILED : 0;
}

static int run(struct berth *berth, const char *verb, char **arguments, int count)
{
	if (strcmp(verb, "report") == 0 && count == 3) {
		return report(berth, arguments);
	}
	if (strcmp(verb, "supply") == 0 && count >= 1) {
		return supply(berth, arguments, count);
	}
	if (strcmp(verb, "withdraw") == 0 && count == 1) {
		return berth_withdraw(berth, arguments[0], &failure);
	}
	if (strcmp(verb, "share") == 0 && count == 4) {
		return share(berth, arguments + 1);
	}
	if (strcmp(verb, "look") == 0 && count == 1) {
		return look(berth, arguments[0]);
	}
	if (strcmp(verb, "follow") == 0 && count == 1) {
		return follow(berth, arguments[0]);
	}
	if (strcmp(verb, "wrong-handle") == 0) {
		return wrong_handle(berth);
	}
	snprintf(failure.message, sizeof(failure.message), "what is %s?", verb);
	return BERTH_FAILED;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		return 2;
	}
	struct berth *berth = NULL;
	struct berth_options options = { .timeout_ms = 60000 };
	if (strcmp(argv[2], "share") == 0 && argc > 3) {
		options.auth_file = argv[3];
		options.secure = true;
	}
	int code = berth_open(&berth, argv[1], &options, &failure);
	if (code == 0) {
		code = run(berth, argv[2], argv + 3, argc - 3);
	}
	if (code != 0) {
		fprintf(stderr, "%s: %s\n", berth_error_name(code), failure.message);
	}
	berth_close(berth);
	return code != 0;
}
