/* Groups of other programs' nodes, seen as records through a registry that imports them. */
#include <stdio.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/limits.h"
#include "lib/dialect/label.h"
#include "lib/record/record.h"
#include "lib/registry/internal.h"
#include "tests/support/registry_stage.h"

#define AS "/services/web"
#define MEMBER(port) "{\"serviceEndpoint\":{\"host\":\"h\",\"port\":" port "},\"status\":\"ALIVE\"}"
#define NERVE(port) "{\"host\":\"10.0.0.1\",\"port\":" port "}"
#define MASTER(ip) "{\"address\":{\"hostname\":\"m\",\"ip\":\"" ip "\",\"port\":5050},\"id\":\"u\"}"
#define HOST "{\"type\":\"rr_host\",\"rr_host\":{\"address\":\"10.0.0.1\"}}"
#define SERVICE(name)                                                                              \
	"{\"type\":\"service\",\"service\":{\"srvce\":\"" name "\",\"proto\":\"_tcp\",\"port\":80}}"

/* The stage's registry imports a group that another client writes. */
struct import {
	struct stage *stage;
	struct registry *writer;
	char from[256]; /* the group */
};

/* On ZooKeeper foreign paths are the server's own, which all stages share. */
static void name_group(struct import *import)
{
	const char *root = import->stage->backend == STAGE_ZOOKEEPER
		? strrchr(import->stage->url, '/')
		: "/Other";
	snprintf(import->from, sizeof(import->from), "%s-foreign/My Group", root);
}

static void set_import(const struct import *import, enum dialect_type type, const char *as)
{
	const struct registry_import imports[] = { { type, import->from, as } };
	struct err err = ERR_INIT;
	int code = registry_set_imports(import->stage->registry, imports, as ? 1 : 0, &err);
	cr_assert_eq(code, 0, "%s", err.msg);
}

static struct import open_import(struct stage *stage, enum dialect_type type)
{
	struct import import = { .stage = stage };
	import.writer = stage_client_with(
		stage, (struct registry_options){ .foreign_paths = true });
	name_group(&import);
	set_import(&import, type, AS);
	return import;
}

static const char *node_of(const struct import *import, const char *name)
{
	static char path[512];
	snprintf(path, sizeof(path), "/%s%s%s", import->from, *name ? "/" : "", name);
	return path;
}

/* Writes as the other program: parents are persistent, members go with the writer's session. */
static void write_member(const struct import *import, const char *name, const char *data)
{
	struct answer answer = { 0 };
	const struct registry_bind bind = { .data = data,
		.len = strlen(data),
		.ephemeral = *name != '\0',
		.parents = true,
		.mode = REGISTRY_BIND_OVERWRITE };
	client_bind(import->writer, node_of(import, name), &bind, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
}

static void remove_member(const struct import *import, const char *name)
{
	struct answer answer = { 0 };
	client_delete(import->writer, node_of(import, name), REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "OK");
	answer_clear(&answer);
}

/* The port of the record's first endpoint; "" without one. Static. */
static const char *port_of(const char *data, size_t len)
{
	static char port[8];
	struct record *record = NULL;
	cr_assert_eq(record_decode(&record, data, len, NULL), 0, "%.*s", (int)len, data);
	*port = '\0';
	if (record_endpoint_count(record) > 0) {
		struct record_endpoint endpoint = record_endpoint(record, 0);
		snprintf(port, sizeof(port), "%s",
			json_string_value(
				json_object_get(json_array_get(endpoint.addresses, 0), "port")));
	}
	record_free(record);
	return port;
}

static void assert_port(struct registry *registry, const char *path, const char *port)
{
	struct answer answer = { 0 };
	client_resolve(registry, path, &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(port_of(answer.data, answer.data_len), port);
	answer_clear(&answer);
}

/* Watches until the state's error, data or children are as the test wants them. */
struct seen {
	struct answer answer;
	const char *name;     /* of the error */
	const char *port;     /* of the record, or NULL */
	const char *children; /* or NULL */
};

static bool is_seen(void *context)
{
	struct seen *seen = context;
	struct answer *answer = &seen->answer;
	return answer->calls > 0 && strcmp(answer_name(answer), seen->name) == 0 &&
		(!seen->port || strcmp(port_of(answer->data, answer->data_len), seen->port) == 0) &&
		(!seen->children || strcmp(answer_children(answer), seen->children) == 0);
}

static void wait_seen(struct seen *seen, const char *name, const char *port, const char *children)
{
	seen->name = name;
	seen->port = port;
	seen->children = children;
	client_wait(is_seen, seen);
}

SHARED_BACKENDS(import, members_are_records)
{
	struct import import = open_import(stage, DIALECT_SERVERSET);
	struct answer answer = { 0 };
	write_member(&import, "member_0000000002", MEMBER("2"));
	write_member(&import, "member_0000000010", MEMBER("10"));
	write_member(&import, "vector_0000000001", "{}");
	client_list(stage->registry, AS, &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(
		answer_children(&answer), AS "/member--0000000002 " AS "/member--0000000010");
	cr_assert_eq(answer.foreign_count, 0);
	assert_port(stage->registry, AS "/member--0000000010", "10");
	client_stat(stage->registry, AS "/member--0000000002", &answer);
	assert_answer(&answer, "OK");
	cr_assert(answer.stat.ephemeral);
	cr_assert_gt(answer.stat.created_ms, 0);
	client_records(stage->registry, AS, &answer);
	cr_assert_eq(json_object_size(answer.records), 2);
	client_resolve(stage->registry, AS "/vector--0000000001", &answer);
	assert_answer(&answer, "PathNotFound");
	client_get(stage->registry, AS "/member--0000000002/below", &answer);
	assert_answer(&answer, "PathNotFound");
	client_list(stage->registry, AS "/member--0000000002", &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.children_count, 0);
	answer_clear(&answer);
}

SHARED_BACKENDS(import, the_way_down_to_it_stands)
{
	struct import import = open_import(stage, DIALECT_NERVE);
	struct answer answer = { 0 };
	const struct registry_criteria criteria = { .id = "i_0000000001" };
	write_member(&import, "i_0000000001", NERVE("1"));
	client_list(stage->registry, "/services", &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer_children(&answer), AS);
	client_put(stage->registry, "/services/a", "{\"type\":\"JSONServiceRecord\"}",
		REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "OK");
	client_list(stage->registry, "/services", &answer);
	cr_assert_str_eq(answer_children(&answer), "/services/a " AS);
	client_stat(stage->registry, "/services", &answer);
	cr_assert_eq(answer.stat.children, 2);
	client_find(stage->registry, &criteria, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(json_object_size(answer.records), 1);
	cr_assert_not_null(json_object_get(answer.records, AS "/i--0000000001"));
	answer_clear(&answer);
}

SHARED_BACKENDS(import, a_group_that_is_absent_has_no_members)
{
	struct import import = open_import(stage, DIALECT_NERVE);
	struct answer answer = { 0 };
	struct seen seen = { .name = "" };
	client_list(stage->registry, AS, &answer);
	assert_answer(&answer, "OK");
	cr_assert_eq(answer.children_count, 0);
	client_resolve(stage->registry, AS, &answer);
	assert_answer(&answer, "NoRecord");
	client_stat(stage->registry, AS, &answer);
	assert_answer(&answer, "OK");
	struct registry_watch *watch = registry_watch(
		stage->registry, AS, REGISTRY_WATCH_CHILDREN, answer_take, &seen.answer);
	wait_seen(&seen, "OK", NULL, "");
	write_member(&import, "b", NERVE("1"));
	wait_seen(&seen, "OK", NULL, AS "/b");
	registry_unwatch(watch);
	answer_clear(&answer);
	answer_clear(&seen.answer);
}

SHARED_BACKENDS(import, nothing_is_written_at_it_or_below)
{
	struct import import = open_import(stage, DIALECT_NERVE);
	struct answer answer = { 0 };
	write_member(&import, "b", NERVE("1"));
	static const char *const paths[] = { AS, AS "/b", AS "/c", AS "/b/c" };
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		client_put(stage->registry, paths[i], "{\"type\":\"JSONServiceRecord\"}",
			REGISTRY_BIND_OVERWRITE, false, &answer);
		assert_answer(&answer, "NoPathPermissions");
		client_mknode(stage->registry, paths[i], true, &answer);
		cr_assert(answer.err.code == 0 || strstr(answer.err.msg, "import"), "%s",
			answer.err.msg);
		cr_assert_eq(answer.count, 0);
	}
	client_delete(stage->registry, AS "/b", REGISTRY_DELETE_NODE, NULL, &answer);
	assert_answer(&answer, "NoPathPermissions");
	cr_assert_not_null(strstr(answer.err.msg, import.from), "%s", answer.err.msg);
	client_delete(stage->registry, "/services", REGISTRY_DELETE_TREE, NULL, &answer);
	assert_answer(&answer, "NoPathPermissions");
	assert_port(stage->registry, AS "/b", "1");
	client_get(import.writer, node_of(&import, "b"), &answer);
	assert_answer(&answer, "OK");
	cr_assert_str_eq(answer.data, NERVE("1"));
	answer_clear(&answer);
}

SHARED_BACKENDS(import, what_cannot_be_read_stands_and_hides_nobody)
{
	struct import import = open_import(stage, DIALECT_NERVE);
	struct answer answer = { 0 };
	struct seen seen = { .name = "" };
	write_member(&import, "bad", "{\"host\":7}");
	write_member(&import, "empty", "");
	write_member(&import, "good", NERVE("1"));
	client_list(stage->registry, AS, &answer);
	cr_assert_str_eq(answer_children(&answer), AS "/bad " AS "/empty " AS "/good");
	client_resolve(stage->registry, AS "/bad", &answer);
	assert_answer(&answer, "InvalidRecord");
	cr_assert_not_null(strstr(answer.err.msg, "no host"), "%s", answer.err.msg);
	client_resolve(stage->registry, AS "/empty", &answer);
	assert_answer(&answer, "NoRecord");
	client_stat(stage->registry, AS "/bad", &answer);
	assert_answer(&answer, "OK");
	client_records(stage->registry, AS, &answer);
	cr_assert_eq(json_object_size(answer.records), 1);
	struct registry_watch *watch = registry_watch(
		stage->registry, AS "/bad", REGISTRY_WATCH_DATA, answer_take, &seen.answer);
	wait_seen(&seen, "InvalidRecord", NULL, NULL);
	write_member(&import, "bad", NERVE("2"));
	wait_seen(&seen, "OK", "2", NULL);
	write_member(&import, "bad", "[]");
	wait_seen(&seen, "InvalidRecord", NULL, NULL);
	registry_unwatch(watch);
	answer_clear(&answer);
	answer_clear(&seen.answer);
}

SHARED_BACKENDS(import, changes_are_seen_by_watches)
{
	struct import import = open_import(stage, DIALECT_NERVE);
	struct seen list = { .name = "" };
	struct seen member = { .name = "" };
	struct registry_watch *list_watch = registry_watch(
		stage->registry, AS, REGISTRY_WATCH_CHILDREN, answer_take, &list.answer);
	struct registry_watch *watch = registry_watch(
		stage->registry, AS "/a--b", REGISTRY_WATCH_DATA, answer_take, &member.answer);
	wait_seen(&list, "OK", NULL, "");
	wait_seen(&member, "PathNotFound", NULL, NULL);
	write_member(&import, "a_b", NERVE("1"));
	wait_seen(&member, "OK", "1", NULL);
	wait_seen(&list, "OK", NULL, AS "/a--b");
	write_member(&import, "a_b", NERVE("2"));
	wait_seen(&member, "OK", "2", NULL);
	remove_member(&import, "a_b");
	wait_seen(&member, "PathNotFound", NULL, NULL);
	wait_seen(&list, "OK", NULL, "");
	write_member(&import, "a_b", NERVE("3"));
	wait_seen(&member, "OK", "3", NULL);
	stage_client_end(stage, import.writer);
	wait_seen(&member, "PathNotFound", NULL, NULL);
	wait_seen(&list, "OK", NULL, "");
	registry_unwatch(watch);
	registry_unwatch(list_watch);
	answer_clear(&list.answer);
	answer_clear(&member.answer);
}

SHARED_BACKENDS(import, a_service_record_changes_its_hosts)
{
	struct import import = open_import(stage, DIALECT_REGISTRAR);
	struct seen seen = { .name = "" };
	write_member(&import, "", SERVICE("_http"));
	write_member(&import, "host", HOST);
	struct registry_watch *watch = registry_watch(
		stage->registry, AS "/host", REGISTRY_WATCH_DATA, answer_take, &seen.answer);
	wait_seen(&seen, "OK", "80", NULL);
	cr_assert_not_null(strstr(seen.answer.data, "\"api\":\"http\""), "%s", seen.answer.data);
	write_member(&import, "",
		"{\"type\":\"service\",\"service\":{\"srvce\":\"_db\","
		"\"proto\":\"_tcp\",\"port\":81}}");
	wait_seen(&seen, "OK", "81", NULL);
	cr_assert_not_null(strstr(seen.answer.data, "\"api\":\"db\""), "%s", seen.answer.data);
	registry_unwatch(watch);
	answer_clear(&seen.answer);
}

SHARED_BACKENDS(import, leadership_passes_on)
{
	struct import import = open_import(stage, DIALECT_MESOS);
	struct seen list = { .name = "" };
	struct seen leader = { .name = "" };
	struct seen other = { .name = "" };
	struct registry_watch *watches[] = {
		registry_watch(
			stage->registry, AS, REGISTRY_WATCH_CHILDREN, answer_take, &list.answer),
		registry_watch(stage->registry, AS "/leader", REGISTRY_WATCH_DATA, answer_take,
			&leader.answer),
		registry_watch(stage->registry, AS "/master-0000000002", REGISTRY_WATCH_DATA,
			answer_take, &other.answer),
	};
	wait_seen(&leader, "PathNotFound", NULL, NULL);
	write_member(&import, "json.info_0000000001", MASTER("10.0.0.1"));
	wait_seen(&leader, "OK", "5050", NULL);
	cr_assert_not_null(strstr(leader.answer.data, "10.0.0.1"));
	write_member(&import, "json.info_0000000002", MASTER("10.0.0.2"));
	write_member(&import, "log_replicas", "");
	wait_seen(&other, "OK", "5050", NULL);
	wait_seen(&list, "OK", NULL, AS "/leader " AS "/master-0000000002");
	size_t told = leader.answer.calls;
	remove_member(&import, "json.info_0000000001");
	wait_seen(&list, "OK", NULL, AS "/leader");
	wait_seen(&other, "PathNotFound", NULL, NULL);
	client_wait_calls(&leader.answer, told + 1);
	wait_seen(&leader, "OK", "5050", NULL);
	cr_assert_not_null(strstr(leader.answer.data, "10.0.0.2"), "%s", leader.answer.data);
	for (size_t i = 0; i < ARRAY_LEN(watches); i++) {
		registry_unwatch(watches[i]);
	}
	answer_clear(&list.answer);
	answer_clear(&leader.answer);
	answer_clear(&other.answer);
}

SHARED_BACKENDS(import, a_name_that_is_too_long_is_found_by_its_hash)
{
	static const char name[] = "base64_128_eyJob3N0IjoiMTAuMC4wLjEiLCJwb3J0IjozMDAwLCJuYW1lIjoi"
				   "aS0wMTIzNDU2Nzg5YWJjZGVmIn0=_0000000001";
	struct import import = open_import(stage, DIALECT_NERVE);
	struct seen seen = { .name = "" };
	char path[128];
	strcpy(path, AS "/");
	dialect_label(path + strlen(path), name);
	struct registry_watch *watch = registry_watch(
		stage->registry, path, REGISTRY_WATCH_DATA, answer_take, &seen.answer);
	wait_seen(&seen, "PathNotFound", NULL, NULL);
	write_member(&import, name, NERVE("1"));
	wait_seen(&seen, "OK", "1", NULL);
	write_member(&import, name, NERVE("2"));
	wait_seen(&seen, "OK", "2", NULL);
	remove_member(&import, name);
	wait_seen(&seen, "PathNotFound", NULL, NULL);
	registry_unwatch(watch);
	answer_clear(&seen.answer);
}

SHARED_BACKENDS(import, an_import_comes_goes_and_hides_what_stands_there)
{
	struct import import = open_import(stage, DIALECT_NERVE);
	struct answer answer = { 0 };
	struct seen list = { .name = "" };
	struct seen above = { .name = "" };
	set_import(&import, DIALECT_NERVE, NULL);
	client_put(stage->registry, AS "/own", "{\"type\":\"JSONServiceRecord\"}",
		REGISTRY_BIND_CREATE, false, &answer);
	assert_answer(&answer, "OK");
	write_member(&import, "b", NERVE("1"));
	struct registry_watch *watches[] = {
		registry_watch(
			stage->registry, AS, REGISTRY_WATCH_CHILDREN, answer_take, &list.answer),
		registry_watch(
			stage->registry, "/", REGISTRY_WATCH_CHILDREN, answer_take, &above.answer),
	};
	wait_seen(&list, "OK", NULL, AS "/own");
	set_import(&import, DIALECT_NERVE, AS);
	wait_seen(&list, "OK", NULL, AS "/b");
	client_resolve(stage->registry, AS "/own", &answer);
	assert_answer(&answer, "PathNotFound");
	set_import(&import, DIALECT_NERVE, "/x/y");
	wait_seen(&list, "OK", NULL, AS "/own");
	client_list(stage->registry, "/x", &answer);
	cr_assert_str_eq(answer_children(&answer), "/x/y");
	assert_port(stage->registry, "/x/y/b", "1");
	wait_seen(&above, "OK", NULL, "/services /x");
	set_import(&import, DIALECT_NERVE, NULL);
	wait_seen(&above, "OK", NULL, "/services");
	for (size_t i = 0; i < ARRAY_LEN(watches); i++) {
		registry_unwatch(watches[i]);
	}
	answer_clear(&answer);
	answer_clear(&list.answer);
	answer_clear(&above.answer);
}

SHARED_BACKENDS(import, bad_imports_change_nothing)
{
	struct import import = open_import(stage, DIALECT_NERVE);
	const struct registry_import wrong[][2] = {
		{ { DIALECT_NERVE, "relative", "/a" }, { DIALECT_NERVE, "/x", "/b" } },
		{ { DIALECT_NERVE, "/x", "/A" }, { DIALECT_NERVE, "/x", "/b" } },
		{ { DIALECT_NERVE, "/x", "/a" }, { DIALECT_NERVE, "/y", "/a/b" } },
		{ { DIALECT_NERVE, "/x/..", "/a" }, { DIALECT_NERVE, "/y", "/b" } },
	};
	write_member(&import, "b", NERVE("1"));
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct err err = ERR_INIT;
		cr_assert_eq(registry_set_imports(stage->registry, wrong[i], 2, &err),
			BERTH_INVALID_PATHNAME);
		cr_assert_neq(err.msg[0], '\0');
		assert_port(stage->registry, AS "/b", "1");
	}
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
