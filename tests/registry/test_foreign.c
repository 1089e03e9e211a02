/*
 * Children that no path can name: seen and counted, passed over by searches, never deleted unasked.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/limits.h"
#include "lib/registry/internal.h"
#include "tests/support/registry_stage.h"

#define LINE_BYTES 2048
#define RECORD                                                                                     \
	"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"one\",\"yarn:persistence\":\"container\"}"

struct raw {
	struct registry_call call;
	bool done;
	int code;
};

static void on_made(struct registry_call *call)
{
	struct raw *raw = call->owner;
	raw->done = true;
	raw->code = call->task.ret_err.code;
}

static bool is_done(void *context)
{
	return ((struct raw *)context)->done;
}

/* Makes a node at any path, as other programs do, past all checks. */
static void make_raw(struct registry *registry, const char *path, const char *data)
{
	struct raw raw = { .call = { .completed = on_made } };
	raw.call.owner = &raw;
	raw.call.task.operation = REGISTRY_OP_CREATE;
	raw.call.task.path = path;
	raw.call.task.data = data;
	raw.call.task.len = strlen(data);
	registry_call_submit(registry, &raw.call, registry_call_deadline_ms(registry));
	client_wait(is_done, &raw);
	cr_assert_eq(raw.code, 0, "%s: %d", path, raw.code);
	registry_call_finish(&raw.call);
}

/* /services with the record a, and names that no path can hold. */
static void make_services(struct stage *stage)
{
	struct answer answer = { 0 };
	client_put(stage->registry, "/services/a", RECORD, REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "OK");
	make_raw(stage->registry, "/services/My Service", RECORD);
	make_raw(stage->registry, "/services/\xe2\x82\xac", "");
	make_raw(stage->registry, "/services/Foo", RECORD);
	make_raw(stage->registry, "/services/Foo/below", RECORD);
	answer_clear(&answer);
}

EVERY_BACKEND(foreign, names_are_listed_escaped_and_apart)
{
	struct answer answer = { 0 };
	make_services(stage);
	client_list(stage->registry, "/services", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), "/services/a");
	cr_assert_str_eq(answer_foreign(&answer),
		"/services/%E2%82%AC /services/Foo /services/My%20Service");
	cr_assert_eq(answer.stat.children, 1);
	cr_assert_eq(answer.stat.foreign, 3);
	answer_clear(&answer);
}

EVERY_BACKEND(foreign, names_are_counted_apart_by_stat)
{
	struct answer answer = { 0 };
	make_services(stage);
	client_stat(stage->registry, "/services", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.stat.children, 1);
	cr_assert_eq(answer.stat.foreign, 3);
	client_stat(stage->registry, "/services/a", &answer);
	cr_assert_eq(answer.stat.children, 0);
	cr_assert_eq(answer.stat.foreign, 0);
	cr_assert_eq(answer.stat.size, strlen(RECORD));
	answer_clear(&answer);
}

EVERY_BACKEND(foreign, names_are_seen_by_a_watch)
{
	struct answer answer = { 0 };
	struct answer seen = { 0 };
	client_mknode(stage->registry, "/services", false, &answer);
	struct registry_watch *watch = registry_watch(
		stage->registry, "/services", REGISTRY_WATCH_CHILDREN, answer_take, &seen);
	client_wait_calls(&seen, 1);
	make_raw(stage->registry, "/services/Foo", "");
	client_wait_calls(&seen, 2);
	cr_assert(seen.changed);
	cr_assert_str_eq(answer_foreign(&seen), "/services/Foo");
	cr_assert_eq(seen.children_count, 0);
	registry_unwatch(watch);
	answer_clear(&answer);
	answer_clear(&seen);
}

EVERY_BACKEND(foreign, names_are_passed_over_by_searches)
{
	struct answer answer = { 0 };
	const struct registry_criteria criteria = { .id = "one", .persistence = "container" };
	make_services(stage);
	client_find(stage->registry, &criteria, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), 1);
	client_records(stage->registry, "/services", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), 1);
	client_purge(stage->registry, &criteria, REGISTRY_PURGE_ALL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), "/services/a");
	answer_clear(&answer);
}

EVERY_BACKEND(foreign, names_make_a_recursive_delete_refuse_before_it_begins)
{
	struct answer answer = { 0 };
	make_services(stage);
	client_put(stage->registry, "/other/b", RECORD, REGISTRY_BIND_CREATE, false, &answer);
	client_delete(stage->registry, "/services", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	cr_assert_str_eq(answer.err.msg,
		"/services: nothing was deleted, because no path can name /services/%E2%82%AC, "
		"/services/Foo, /services/My%20Service");
	client_resolve(stage->registry, "/services/a", &answer);
	assert_answer(&answer, "OK");
	client_delete(stage->registry, "/other", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
}

EVERY_BACKEND(foreign, many_names_are_counted_in_the_refusal)
{
	struct answer answer = { 0 };
	client_mknode(stage->registry, "/services/below", true, &answer);
	for (int i = 0; i < 12; i++) {
		char path[64];
		snprintf(path, sizeof(path), "/services/below/N%02d", i);
		make_raw(stage->registry, path, "");
	}
	client_delete(stage->registry, "/services", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	cr_assert(strstr(answer.err.msg, "/services/below/N07 and 4 more"), "%s", answer.err.msg);
	answer_clear(&answer);
}

EVERY_BACKEND(foreign, names_are_deleted_when_asked_for)
{
	struct answer answer = { 0 };
	make_services(stage);
	client_delete(stage->registry, "/services", REGISTRY_DELETE_ALL, NULL, &answer);
	assert_answer(&answer, "OK");
	client_list(stage->registry, "/", &answer);
	cr_assert_eq(answer.children_count + answer.foreign_count, 0);
	answer_clear(&answer);
}

/*
 * A child of the node at `path`, which has the longest name and path. A directory takes it by a
 * name of its own only.
 */
static void make_too_long(struct stage *stage, const char *path, size_t len)
{
	char child[LIMIT_PATH_BYTES + 8];
	snprintf(child, sizeof(child), "%.*s/b", (int)len, path);
	if (stage->backend != STAGE_DIR && stage->backend != STAGE_DIR_CHILDREN) {
		make_raw(stage->registry, child, RECORD);
		return;
	}
	char folder[2048];
	snprintf(folder, sizeof(folder), "%s%.*s", stage->url + strlen("dir:"), (int)len, path);
	cr_assert_eq(chdir(folder), 0);
	cr_assert_eq(mkdir("b", 0755), 0);
}

static void take_line(void *context, enum registry_log_level level, const char *message)
{
	char *line = context;
	(void)level;
	if (strstr(message, "passed over")) {
		snprintf(line, LINE_BYTES, "%s", message);
	}
}

EVERY_BACKEND(foreign, a_path_over_the_limit_hides_nothing_above_it)
{
	struct answer answer = { 0 };
	char line[LINE_BYTES] = "";
	struct registry *registry = stage_client_with(
		stage, (struct registry_options){ .on_log = take_line, .context = line });
	const struct registry_criteria criteria = { .id = "one" };
	char path[LIMIT_PATH_BYTES + 64];
	size_t len = 0;
	while (len + 1 + LIMIT_PATH_ELEMENT_BYTES <= LIMIT_PATH_BYTES) {
		path[len] = '/';
		memset(path + len + 1, 'a', LIMIT_PATH_ELEMENT_BYTES);
		len += 1 + LIMIT_PATH_ELEMENT_BYTES;
		path[len] = '\0';
		make_raw(stage->registry, path, RECORD);
	}
	size_t found = len / (1 + LIMIT_PATH_ELEMENT_BYTES);
	make_too_long(stage, path, len);
	client_find(registry, &criteria, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), found);
	cr_assert(strstr(line, ": 1 child is passed over: a path of more than 1024 bytes"), "%s",
		line);
	client_list(stage->registry, path, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.children_count, 0);
	cr_assert_eq(answer.foreign_count, 1);
	path[1 + LIMIT_PATH_ELEMENT_BYTES] = '\0';
	client_delete(stage->registry, path, REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	const struct registry_criteria of_top = {
		.under = path, .id = "top", .persistence = "container"
	};
	client_put(stage->registry, path,
		"{\"type\":\"JSONServiceRecord\",\"yarn:id\":\"top\","
		"\"yarn:persistence\":\"container\"}",
		REGISTRY_BIND_OVERWRITE, false, &answer);
	line[0] = '\0';
	client_purge(registry, &of_top, REGISTRY_PURGE_SKIP_ON_CHILDREN, &answer);
	assert_answer(&answer, "OK");
	cr_assert(strstr(line, "1 child is passed over"), "%s", line);
	client_close(registry);
	answer_clear(&answer);
}

static void file_name(char *out, size_t size, const struct stage *stage, const char *path)
{
	snprintf(out, size, "%s%s", stage->url + strlen("dir:"), path);
}

static void write_file(const struct stage *stage, const char *path)
{
	char file[1024];
	file_name(file, sizeof(file), stage, path);
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0, "%s", file);
	close(fd);
}

static bool is_file(const struct stage *stage, const char *path)
{
	char file[1024];
	file_name(file, sizeof(file), stage, path);
	return access(file, F_OK) == 0;
}

static void delete_beside_files(struct stage *stage)
{
	struct answer answer = { 0 };
	make_services(stage);
	write_file(stage, "/services/a/._record.crc");
	client_delete(stage->registry, "/services/a", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_not(is_file(stage, "/services/a"));
	client_put(stage->registry, "/services/a", RECORD, REGISTRY_BIND_CREATE, false, &answer);
	write_file(stage, "/services/a/._record.crc");
	client_put(stage->registry, "/services/a", RECORD " ", REGISTRY_BIND_OVERWRITE, false,
		&answer);
	assert_answer(&answer, "OK");
	cr_assert_not(is_file(stage, "/services/a/._record.crc"), "it tells another record's sum");
	write_file(stage, "/services/a/notes");
	client_list(stage->registry, "/services/a", &answer);
	cr_assert_eq(answer.children_count, 0);
	cr_assert_str_eq(answer_foreign(&answer), "/services/a/notes");
	write_file(stage, "/services/Foo/notes.txt");
	client_delete(stage->registry, "/services/a", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "PathIsNotEmptyDirectory");
	client_delete(stage->registry, "/services", REGISTRY_DELETE_ALL, NULL, &answer);
	assert_answer(&answer, "OK");
	cr_assert_not(is_file(stage, "/services"));
	answer_clear(&answer);
}

Test(foreign_dir, files_go_when_asked_for_and_checksums_with_their_record)
{
	stage_run(STAGE_DIR, delete_beside_files);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
