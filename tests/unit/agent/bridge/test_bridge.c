/* Containers that come and go. */
#include "agent/bridge/bridge.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "agent/bridge/claim.h"
#include "tests/unit/agent/bridge/bridge_stage.h"

struct stage {
	struct bridge_stage common;
	struct bridge *bridge;
	struct config config;
	struct config_container policies[2];
	char *allow;
	char containers[SCRATCH_PATH + 20];
	char counted[256];
};

static void on_registry_state(void *context, enum registry_state state, const char *why)
{
	struct stage *stage = context;
	if (stage->bridge) {
		bridge_on_registry_state(stage->bridge, state, why);
	}
}

static void ignore_event(void *context, const struct bridge_event *event)
{
	(void)context;
	(void)event;
}

static const struct drains no_drains;

static struct bridge_environment environment_of(struct stage *stage)
{
	return (struct bridge_environment){
		.loop = stage->common.loop,
		.registry = stage->common.registry,
		.book = stage->common.book,
		.drains = &no_drains,
		.http = stage->common.http,
		.session_is_saved = stage_session_is_saved,
		.is_taken = stage_is_taken,
		.on_event = ignore_event,
		.on_change = stage_on_change,
		.context = &stage->common,
	};
}

static void open_bridge(struct stage *stage)
{
	struct err err = ERR_INIT;
	const struct bridge_environment environment = environment_of(stage);
	cr_assert_eq(bridge_create(&stage->bridge, &environment, &stage->config, &err), 0, "%s",
		err.msg);
}

static struct stage *begin(struct stage *stage)
{
	const struct registry_options options = { .on_state = on_registry_state, .context = stage };
	umask(022);
	stage_open(&stage->common, &options);
	snprintf(stage->containers, sizeof(stage->containers), "%s",
		stage_file(&stage->common, "containers"));
	stage->allow = (char *)(uintptr_t) "/services/*";
	for (int i = 0; i < 2; i++) {
		stage->policies[i] = (struct config_container){
			.glob = (char *)(uintptr_t)(i ? "*" : "web-*"),
			.allow = &stage->allow,
			.allow_count = i ? 0 : 1,
			.owner_uid = (unsigned)-1,
			.max_records = 8,
			.max_bytes = 100000,
			.rate = 1000,
		};
	}
	stage->config.bridge.containers = stage->containers;
	stage->config.containers = stage->policies;
	stage->config.container_count = 2;
	open_bridge(stage);
	return stage;
}

static void end(struct stage *stage)
{
	bridge_destroy(stage->bridge);
	bridge_destroy(NULL);
	stage_close(&stage->common);
}

#define BRIDGE_TEST(name)                                                                          \
	STAGED_TEST(bridge, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

#define GO_ON_UNTIL(stage, condition)                                                              \
	RUN_UNTIL((stage)->common.loop, (bridge_proceed((stage)->bridge), (condition)))

static int own(const struct stage *stage, const char *container, const char *path)
{
	char name[LIMIT_PATH_BYTES];
	snprintf(name, sizeof(name), "containers/%s", container);
	mkdir(stage_file(&stage->common, name), 0755);
	snprintf(name, sizeof(name), "containers/%s/registry", container);
	mkdir(stage_file(&stage->common, name), 0755);
	snprintf(name, sizeof(name), "containers/%s/registry/services", container);
	mkdir(stage_file(&stage->common, name), 0755);
	snprintf(name, sizeof(name), "containers/%s/registry%s", container, path);
	return stage_own(&stage->common, name, RECORD("one"));
}

/* The state of a container's record; "" without one. */
static const char *state(const struct stage *stage, const char *container, const char *path)
{
	static char text[64];
	json_t *json = bridge_container_status(stage->bridge, container);
	size_t index;
	json_t *record;
	text[0] = '\0';
	json_array_foreach (json_object_get(json, "records"), index, record) {
		if (strcmp(json_string_value(json_object_get(record, "path")), path) == 0) {
			snprintf(text, sizeof(text), "%s",
				json_string_value(json_object_get(record, "state")));
		}
	}
	json_decref(json);
	return text;
}

static bool is(
	const struct stage *stage, const char *container, const char *path, const char *expected)
{
	return strcmp(state(stage, container, path), expected) == 0;
}

static bool is_listed(const struct stage *stage, const char *container)
{
	json_t *json = bridge_container_status(stage->bridge, container);
	bool listed = json != NULL;
	json_decref(json);
	return listed;
}

BRIDGE_TEST(containers_come_and_go)
{
	cr_expect_eq(bridge_containers(stage->bridge), 0);
	int owner = own(stage, "web-1", "/services/db");
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/db", "registered"));
	cr_expect_eq(bridge_containers(stage->bridge), 1);
	cr_expect(stage_has(&stage->common, "/services/db", "one"));
	mkdir(stage_file(&stage->common, "containers/.hidden"), 0755);
	mkdir(stage_file(&stage->common, "containers/db"), 0755);
	stage_put(&stage->common, "containers/file", "", 0);
	GO_ON_UNTIL(stage, bridge_containers(stage->bridge) == 2);
	stage_remove(&stage->common, "containers/web-1");
	GO_ON_UNTIL(stage, bridge_containers(stage->bridge) == 1);
	GO_ON_UNTIL(stage, !stage_node(&stage->common, "/services/db"));
	cr_expect_null(bridge_container_status(stage->bridge, "web-1"));
	close(owner);
}

BRIDGE_TEST(a_subdirectory_that_was_made_anew_is_another_container)
{
	int owner = own(stage, "web-1", "/services/db");
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/db", "registered"));
	char away[SCRATCH_PATH + 40];
	snprintf(away, sizeof(away), "%s", stage_file(&stage->common, "away"));
	cr_assert_eq(rename(stage_file(&stage->common, "containers/web-1"), away), 0);
	int other = own(stage, "web-1", "/services/other");
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/other", "registered"));
	GO_ON_UNTIL(stage, !stage_node(&stage->common, "/services/db"));
	cr_expect_eq(bridge_containers(stage->bridge), 1);
	close(owner);
	close(other);
}

BRIDGE_TEST(each_container_has_its_policy)
{
	int owners[] = { own(stage, "web-1", "/services/a"), own(stage, "db", "/services/b") };
	GO_ON_UNTIL(stage,
		is(stage, "web-1", "/services/a", "registered") &&
			is(stage, "db", "/services/b", "refused"));
	stage->policies[0].allow_count = 0;
	stage->policies[1].allow_count = 1;
	bridge_set_config(stage->bridge, &stage->config);
	GO_ON_UNTIL(stage,
		is(stage, "web-1", "/services/a", "refused") &&
			is(stage, "db", "/services/b", "registered"));
	cr_expect_null(stage_node(&stage->common, "/services/a"));
	close(owners[0]);
	close(owners[1]);
}

static void visit(void *context, const char *name, size_t count)
{
	struct stage *stage = context;
	size_t len = strlen(stage->counted);
	if (count > 0) {
		snprintf(
			stage->counted + len, sizeof(stage->counted) - len, "%s=%zu ", name, count);
	}
}

BRIDGE_TEST(a_path_that_has_become_free_goes_to_who_waits_for_it)
{
	int owners[] = { own(stage, "web-1", "/services/a"), -1 };
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/a", "registered"));
	owners[1] = own(stage, "web-2", "/services/a");
	GO_ON_UNTIL(stage, is(stage, "web-2", "/services/a", "conflict"));
	cr_assert(file_queue_wait(stage->common.files, 60000));
	stage_withdraw(owners[0]);
	GO_ON_UNTIL(stage, is(stage, "web-2", "/services/a", "registered"));
	close(owners[1]);
}

BRIDGE_TEST(a_path_of_the_host_itself_is_a_conflict)
{
	stage->common.taken = "/services/a";
	int owner = own(stage, "web-1", "/services/a");
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/a", "conflict"));
	close(owner);
}

BRIDGE_TEST(no_node_is_made_before_the_session_is_saved)
{
	stage->common.session_hangs = true;
	int owner = own(stage, "web-1", "/services/a");
	GO_ON_UNTIL(stage, *state(stage, "web-1", "/services/a") && stage->common.saved > 0);
	for (int i = 0; i < 30; i++) {
		bridge_proceed(stage->bridge);
		ev_run(stage->common.loop, EVRUN_NOWAIT);
	}
	cr_expect_null(stage_node(&stage->common, "/services/a"));
	stage->common.session_hangs = false;
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/a", "registered"));
	close(owner);
}

/* So many events does the kernel keep for a reader; each file here makes more than one. */
static int most_events(void)
{
	static int most;
	FILE *file = most ? NULL : fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	if (file) {
		cr_assert_eq(fscanf(file, "%d", &most), 1);
		fclose(file);
	}
	return most / 2;
}

/* The kernel queues some thousand events, and then says that others are missing. */
BRIDGE_TEST(after_lost_events_everything_is_looked_at)
{
	char names[2][SCRATCH_PATH + 60];
	int owner = own(stage, "web-1", "/services/a");
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/a", "registered"));
	for (int i = 0; i < 2; i++) {
		snprintf(names[i], sizeof(names[i]), "%s%d",
			stage_file(&stage->common, "containers/web-1/registry/services/x"), i);
	}
	for (int i = 0; i < most_events(); i++) {
		close(open(names[i % 2], O_RDWR | O_CREAT | O_CLOEXEC, 0600));
		unlink(names[i % 2]);
	}
	int other = own(stage, "web-2", "/services/b");
	GO_ON_UNTIL(stage, is(stage, "web-2", "/services/b", "registered"));
	close(owner);
	close(other);
}

static void expect_logged(int log, const char *text)
{
	off_t len = lseek(log, 0, SEEK_END);
	char *lines = mmap(NULL, (size_t)len + 1, PROT_READ, MAP_PRIVATE, log, 0);
	cr_assert_neq(lines, MAP_FAILED);
	const char *first = memmem(lines, (size_t)len, text, strlen(text));
	cr_assert(first, "%s", text);
	const char *rest = first + 1;
	cr_expect_null(memmem(rest, (size_t)(len - (rest - lines)), text, strlen(text)),
		"it is told once");
	munmap(lines, (size_t)len + 1);
	close(log);
}

/* The rest waits until there is room. */
BRIDGE_TEST(so_many_containers_are_served_and_no_more)
{
	struct rlimit limit;
	char name[64];
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max < 8192 ? limit.rlim_max : 8192;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < 1026; i++) {
		snprintf(name, sizeof(name), "containers/web-%d", i);
		cr_assert_eq(mkdir(stage_file(&stage->common, name), 0755), 0);
	}
	int log = stage_begin_log();
	GO_ON_UNTIL(stage, bridge_containers(stage->bridge) == 1024);
	expect_logged(log, "there are more than 1024 containers: the others are not served");
	int left = 0;
	for (int i = 0; i < 1026; i++) {
		snprintf(name, sizeof(name), "web-%d", i);
		left += !is_listed(stage, name);
	}
	cr_expect_eq(left, 2);
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "containers/web-%d", i);
		stage_remove(&stage->common, name);
	}
	GO_ON_UNTIL(stage,
		bridge_containers(stage->bridge) == 1024 && !is_listed(stage, "web-0") &&
			!is_listed(stage, "web-1"));
}

/* ---- successors ---- */

static json_t *leave(struct stage *stage, int *ret_owner)
{
	*ret_owner = own(stage, "web-1", "/services/a");
	int dead = own(stage, "web-2", "/services/b");
	int gone = own(stage, "web-3", "/services/c");
	GO_ON_UNTIL(stage,
		is(stage, "web-1", "/services/a", "registered") &&
			is(stage, "web-2", "/services/b", "registered") &&
			is(stage, "web-3", "/services/c", "registered"));
	cr_assert(file_queue_wait(stage->common.files, 60000));
	bridge_destroy(stage->bridge);
	stage->bridge = NULL;
	cr_expect(stage_has(&stage->common, "/services/a", "one"));
	close(dead);
	close(gone);
	stage_remove(&stage->common, "containers/web-3");
	return json_pack("{s:s, s:s, s:s, s:i}", "/services/a", "web-1", "/services/b", "web-2",
		"/services/c", "web-3", "/services/d", 1);
}

static void count_changes(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	*(int *)context += strcmp(task->path, "/services/a") == 0 &&
		(task->operation == REGISTRY_OP_SET || task->operation == REGISTRY_OP_DELETE ||
			task->operation == REGISTRY_OP_CREATE ||
			task->operation == REGISTRY_OP_REPLACE);
}

BRIDGE_TEST(after_a_kill_the_living_stay_and_the_dead_go)
{
	int owner;
	int changes = 0;
	struct err err = ERR_INIT;
	json_t *inherited = leave(stage, &owner);
	memory_on_task(stage->common.registry, count_changes, &changes);
	struct bridge_environment environment = environment_of(stage);
	environment.inherited = inherited;
	cr_assert_eq(bridge_create(&stage->bridge, &environment, &stage->config, &err), 0);
	json_decref(inherited);
	GO_ON_UNTIL(stage,
		!stage_node(&stage->common, "/services/b") &&
			!stage_node(&stage->common, "/services/c"));
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/a", "registered"));
	cr_expect_eq(changes, 0);
	memory_on_task(stage->common.registry, NULL, NULL);
	close(owner);
}

BRIDGE_TEST(without_containers_it_takes_out_what_a_predecessor_has_left)
{
	int owner;
	struct err err = ERR_INIT;
	json_t *inherited = leave(stage, &owner);
	struct bridge_environment environment = environment_of(stage);
	environment.inherited = inherited;
	stage->config.bridge.containers = (char *)(uintptr_t) "";
	cr_assert_eq(bridge_create(&stage->bridge, &environment, &stage->config, &err), 0);
	json_decref(inherited);
	cr_expect_eq(bridge_containers(stage->bridge), 0);
	GO_ON_UNTIL(stage,
		!stage_node(&stage->common, "/services/a") &&
			!stage_node(&stage->common, "/services/b"));
	close(owner);
}

BRIDGE_TEST(sockets_are_passed_to_a_successor)
{
	struct bridge_socket *sockets = mmap(NULL, 3 * sizeof(*sockets), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sockets[2].fd = -1;
	struct err err = ERR_INIT;
	int owners[] = { own(stage, "web-1", "/services/a"), own(stage, "web-2", "/services/b") };
	GO_ON_UNTIL(stage,
		is(stage, "web-1", "/services/a", "registered") &&
			is(stage, "web-2", "/services/b", "registered"));
	struct bridge_socket one = { .fd = -1 };
	cr_expect_eq(bridge_pass(stage->bridge, &one, 1), 1);
	close(one.fd);
	/* It has left its events: only a successor goes on. */
	bridge_destroy(stage->bridge);
	open_bridge(stage);
	cr_expect_eq(bridge_containers(stage->bridge), 2, "the first comparison is made at once");
	cr_expect_eq(bridge_pass(stage->bridge, sockets, 3), 2);
	cr_expect_eq(sockets[2].fd, -1);
	bridge_destroy(stage->bridge);
	struct bridge_environment environment = environment_of(stage);
	environment.sockets = sockets;
	environment.socket_count = 2;
	cr_assert_eq(bridge_create(&stage->bridge, &environment, &stage->config, &err), 0);
	cr_expect_eq(sockets[0].fd, -1);
	cr_expect_eq(sockets[1].fd, -1);
	/* Nobody looks at them any more, even to make a socket anew. */
	munmap(sockets, 3 * sizeof(*sockets));
	for (int i = 1; i < 3; i++) {
		char name[64];
		snprintf(name, sizeof(name), "containers/web-%d/berth.sock", i);
		cr_assert_eq(unlink(stage_file(&stage->common, name)), 0);
		GO_ON_UNTIL(stage, access(stage_file(&stage->common, name), F_OK) == 0);
	}
	mkdir(stage_file(&stage->common, "containers/web-3"), 0755);
	GO_ON_UNTIL(stage, bridge_containers(stage->bridge) == 3);
	close(owners[0]);
	close(owners[1]);
}

/* ---- the directory of all ---- */

static bool is_away(const struct stage *stage)
{
	json_t *json = bridge_json(stage->bridge);
	bool away = strcmp(json_string_value(json_object_get(json, "state")), "away") == 0;
	json_decref(json);
	return away;
}

BRIDGE_TEST(while_its_directory_cannot_be_made_it_is_away)
{
	stage_remove(&stage->common, "containers");
	stage_put(&stage->common, "containers", "", 0);
	GO_ON_UNTIL(stage, is_away(stage));
	int changes = stage->common.changes;
	for (int i = 0; i < 100; i++) {
		ev_run(stage->common.loop, EVRUN_NOWAIT);
	}
	cr_expect_leq(stage->common.changes, changes + 5, "it looks once a second");
	cr_assert_eq(unlink(stage->containers), 0);
	GO_ON_UNTIL(stage, !is_away(stage));
	int owner = own(stage, "web-1", "/services/a");
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/a", "registered"));
	close(owner);
}

/* With all that is in it; another one is there before anybody has looked. */
BRIDGE_TEST(its_directory_may_be_replaced)
{
	char away[SCRATCH_PATH + 40];
	int owner = own(stage, "web-1", "/services/a");
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/a", "registered"));
	snprintf(away, sizeof(away), "%s", stage_file(&stage->common, "away"));
	int watched = stage_watched();
	cr_assert_eq(rename(stage->containers, away), 0);
	cr_assert_eq(mkdir(stage->containers, 0755), 0);
	int other = own(stage, "web-1", "/services/b");
	GO_ON_UNTIL(stage, is(stage, "web-1", "/services/b", "registered"));
	GO_ON_UNTIL(stage, !stage_node(&stage->common, "/services/a"));
	cr_expect_not(is_away(stage));
	GO_ON_UNTIL(stage, stage_watched() == watched);
	close(owner);
	close(other);
}

BRIDGE_TEST(a_directory_of_others_is_refused)
{
	struct err err = ERR_INIT;
	struct bridge *other = NULL;
	const struct bridge_environment environment = environment_of(stage);
	cr_assert_eq(chmod(stage->containers, 0777), 0);
	cr_expect_neq(bridge_create(&other, &environment, &stage->config, &err), 0);
	cr_expect_null(other);
	cr_assert_eq(chmod(stage->containers, 0755), 0);
	stage_put(&stage->common, "file", "", 0);
	snprintf(stage->containers, sizeof(stage->containers), "%s",
		stage_file(&stage->common, "file/containers"));
	err_clear(&err);
	cr_expect_eq(bridge_create(&other, &environment, &stage->config, &err), BERTH_FAILED);
	cr_expect(strstr(err.msg, "cannot open "), "%s", err.msg);
	snprintf(stage->containers, sizeof(stage->containers), "%s",
		stage_file(&stage->common, "containers"));
}

/* ---- report ---- */

BRIDGE_TEST(it_reports_containers_and_counts_records)
{
	int owners[] = { own(stage, "web-1", "/services/a"), own(stage, "web-2", "/services/a"),
		own(stage, "db", "/services/b") };
	GO_ON_UNTIL(stage,
		(is(stage, "web-1", "/services/a", "registered") ||
			is(stage, "web-2", "/services/a", "registered")) &&
			(is(stage, "web-1", "/services/a", "conflict") ||
				is(stage, "web-2", "/services/a", "conflict")) &&
			is(stage, "db", "/services/b", "refused"));
	json_t *json = bridge_json(stage->bridge);
	cr_expect_str_eq(json_string_value(json_object_get(json, "directory")), stage->containers);
	cr_expect_str_eq(json_string_value(json_object_get(json, "state")), "served");
	cr_expect_eq(json_array_size(json_object_get(json, "containers")), 3);
	json_decref(json);
	bridge_each_count(stage->bridge, visit, stage);
	cr_expect_str_eq(stage->counted, "registered=1 conflict=1 refused=1 ");
	for (int i = 0; i < 3; i++) {
		close(owners[i]);
	}
}

static bool has_counted(struct stage *stage, const char *what)
{
	stage->counted[0] = '\0';
	bridge_each_count(stage->bridge, visit, stage);
	return strstr(stage->counted, what);
}

BRIDGE_TEST(a_record_that_waits_is_counted_as_throttled)
{
	stage->policies[0].rate = 1;
	int owners[] = { own(stage, "web-1", "/services/a"), own(stage, "web-1", "/services/b") };
	/* A second later it has its turn, too. */
	GO_ON_UNTIL(stage, has_counted(stage, "throttled=1") || has_counted(stage, "registered=2"));
	close(owners[0]);
	close(owners[1]);
}
