/* LINK: tests/failures/points.o */
/*
 * Requests of the worker, with answers as the ZooKeeper client gives them: without memory it leaves
 * parts of an answer out, and the worker must not pass that on.
 */
#include "lib/base/array.h"
#include "tests/unit/lib/registry/zookeeper/request_stage.h"

/* ---- the requests ---- */

/* The end of a process that starts such a request, in which an allocation fails; 0: none. */
static int end_without(uint64_t allocation, const struct zk_request *request)
{
	char words[64] = "";
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	pid_t child = fork();
	if (child == 0) {
		said = ends[1];
		if (allocation > 0) {
			failing_arm("alloc", allocation, ENOMEM);
		}
		zk_worker_request(NULL, request);
		_exit(was_sent ? PASSED_ON : SILENT);
	}
	int status;
	close(ends[1]);
	(void)!read(ends[0], words, sizeof(words) - 1);
	close(ends[0]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status), "%d", WTERMSIG(status));
	cr_expect_str_eq(words, WEXITSTATUS(status) == ENDED ? "out of memory" : "");
	return WEXITSTATUS(status);
}

static int end_of(enum zk_operation operation)
{
	return end_without(
		0, &(struct zk_request){ .operation = operation, .path = "/a", .data = "" });
}

/* A failed allocation is a failed worker: the agent asks another one. */
Test(request, a_worker_without_memory_ends)
{
	static const char acl[] = "31:world:anyone";
	static const struct {
		enum zk_operation operation;
		bool exact;
	} rows[] = { { ZK_GET, false }, { ZK_EXISTS, false }, { ZK_DELETE, false },
		{ ZK_CREATE, false }, { ZK_REPLACE, false }, { ZK_SET, true }, { ZK_SYNC, false } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct zk_request request = { .operation = rows[i].operation,
			.path = "/a",
			.data = "data",
			.len = 4,
			.exact = rows[i].exact,
			.acl = { .packed = acl, .len = sizeof(acl), .count = 1 } };
		library = (struct library){ .value = "value", .len = 5, .path = "/a" };
		uint64_t allocation = 1;
		while (end_without(allocation, &request) == ENDED) {
			allocation++;
		}
		cr_expect_gt(allocation, 1, "%zu", i);
		cr_expect_eq(end_without(allocation, &request), PASSED_ON, "%zu", i);
	}
}

Test(request, a_request_that_the_client_may_have_queued_is_not_answered)
{
	library = (struct library){ .started = ZINVALIDSTATE };
	cr_assert_eq(end_of(ZK_GET), PASSED_ON);
	library = (struct library){ .started = ZSYSTEMERROR };
	cr_assert_eq(end_of(ZK_GET), ENDED);
	library = (struct library){ .started = ZMARSHALLINGERROR };
	cr_assert_eq(end_of(ZK_GET), ENDED);
}

/* ---- what is asked for, and what is answered ---- */

static struct zk_result ask(const struct zk_request *request)
{
	struct zk_frame frame;
	struct zk_result result = { .rc = 1 };
	was_sent = false;
	call[0] = '\0';
	set_count = 0;
	buffer_finish(&sent);
	zk_worker_request(NULL, request);
	if (was_sent) {
		cr_assert_eq(zk_frame_next(&frame, sent.data, sent.len), (long)sent.len);
		cr_assert_eq(zk_result_decode(&result, &frame), 0);
		cr_assert_eq(result.tag, request->tag);
	}
	return result;
}

static bool is_that_of_node(const struct zk_stat *stat)
{
	return stat->czxid == 101 && stat->owner == 102 && stat->ctime_ms == 103 &&
		stat->mtime_ms == 104 && stat->version == 105 && stat->size == 106 &&
		stat->children == 107;
}

static bool is_empty(const struct zk_stat *stat)
{
	static const struct zk_stat empty;
	return memcmp(stat, &empty, sizeof(empty)) == 0;
}

static const struct {
	enum zk_operation operation;
	bool watch;
	const char *call;
	bool has_stat;
} operations[] = {
	{ ZK_GET, false, "get /a", true },
	{ ZK_GET, true, "get /a watched", true },
	{ ZK_EXISTS, false, "exists /a", true },
	{ ZK_EXISTS, true, "exists /a watched", true },
	{ ZK_EXISTS_FOR_CHILDREN, true, "exists /a watched", true },
	{ ZK_CHILDREN, false, "children /a", true },
	{ ZK_CHILDREN, true, "children /a watched", true },
	{ ZK_ACL, false, "acl /a", true },
	{ ZK_CREATE, false, "create /a 'da' persistent 31:world:anyone", true },
	{ ZK_SET, false, "set /a 'da' of version 5", true },
	{ ZK_DELETE, false, "delete /a of version 5", false },
	{ ZK_SYNC, false, "sync /a", false },
	{ ZK_REPLACE, false, "delete /a of version 5, create /a 'da' persistent 31:world:anyone: 2",
		false },
};

static struct zk_result ask_for(size_t row)
{
	return ask(&(struct zk_request){ .tag = TAG,
		.operation = operations[row].operation,
		.path = "/a",
		.data = "data",
		.len = 2,
		.version = 5,
		.watch = operations[row].watch });
}

Test(request, data_come_whole_and_those_beyond_a_record_by_their_marker)
{
	char *value = malloc(LIMIT_RECORD_BYTES + 1);
	memset(value, 'v', LIMIT_RECORD_BYTES + 1);
	library = (struct library){ .value = value, .len = LIMIT_RECORD_BYTES };
	struct zk_result result = ask_for(0);
	cr_expect_eq(result.len, LIMIT_RECORD_BYTES);
	cr_expect_eq(memcmp(result.data, value, LIMIT_RECORD_BYTES), 0);
	library.len = 1;
	cr_expect_eq(ask_for(0).len, 1);
	library.len = 0;
	cr_expect_eq(ask_for(0).len, 0);
	library.len = LIMIT_RECORD_BYTES + 1;
	result = ask_for(0);
	cr_expect_eq(result.rc, ZOK);
	cr_expect_eq(result.len, 0);
	cr_expect(is_that_of_node(&result.stat));
	const char *marker = "JSONServiceRecord";
	memcpy(value + LIMIT_RECORD_BYTES + 1 - strlen(marker), marker, strlen(marker));
	result = ask_for(0);
	cr_expect_eq(result.len, strlen(marker));
	cr_expect(result.len == strlen(marker) && memcmp(result.data, marker, result.len) == 0);
	library.len = LIMIT_RECORD_BYTES;
	cr_expect_eq(ask_for(0).len, LIMIT_RECORD_BYTES);
	free(value);
}

Test(request, a_list_that_no_frame_can_hold_fails_alone)
{
	enum { NAMES = 32, NAME_BYTES = ZK_FRAME_MAX_BYTES / NAMES };
	char *name = malloc(NAME_BYTES + 1);
	char scheme[] = "x509";
	char *names[NAMES];
	struct ACL entries[NAMES];
	memset(name, 'n', NAME_BYTES);
	name[NAME_BYTES] = '\0';
	for (size_t i = 0; i < NAMES; i++) {
		names[i] = name;
		entries[i] = (struct ACL){ .perms = 31, .id = { scheme, name } };
	}
	library = (struct library){ .names = { NAMES, names }, .acl = { NAMES, entries } };
	const struct zk_result result = ask_for(5);
	cr_expect_eq(result.rc, ZMARSHALLINGERROR);
	cr_expect_eq(result.names.count, 0);
	cr_expect(is_empty(&result.stat));
	cr_expect_eq(ask_for(7).rc, ZMARSHALLINGERROR);
	free(name);
}

/* ---- watches ---- */

static struct zk_event event_of(int type)
{
	struct zk_frame frame;
	struct zk_event event = { .path = "none" };
	was_sent = false;
	buffer_finish(&sent);
	watch(NULL, type, ZOO_CONNECTED_STATE, "/a/b", watch_context);
	if (was_sent) {
		cr_assert_eq(zk_frame_next(&frame, sent.data, sent.len), (long)sent.len);
		cr_assert_eq(zk_event_decode(&event, &frame), 0);
	}
	return event;
}

Test(request, a_watch_says_of_what_it_is_and_whether_the_node_is_gone)
{
	static const struct {
		enum zk_operation operation;
		enum zk_event_kind kind;
	} rows[] = { { ZK_GET, ZK_EVENT_DATA }, { ZK_EXISTS, ZK_EVENT_DATA },
		{ ZK_EXISTS_FOR_CHILDREN, ZK_EVENT_CHILDREN }, { ZK_CHILDREN, ZK_EVENT_CHILDREN } };
	library = (struct library){ .value = "value", .len = 5 };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ask(&(struct zk_request){
			.operation = rows[i].operation, .path = "/a", .data = "", .watch = true });
		struct zk_event event = event_of(ZOO_CHANGED_EVENT);
		cr_expect(event.kind == rows[i].kind && !event.gone, "%zu", i);
		cr_expect_str_eq(event.path, "/a/b");
		event = event_of(ZOO_DELETED_EVENT);
		cr_expect(event.kind == rows[i].kind && event.gone, "%zu", i);
		(void)event_of(ZOO_SESSION_EVENT);
		cr_expect_not(was_sent, "the session has a watch of its own");
	}
}

/* ---- nodes that are made ---- */

Test(request, a_node_is_made_as_the_request_says)
{
	static const struct {
		bool ephemeral, sequential, container;
		const char *mode;
	} rows[] = { { false, false, false, "persistent" }, { true, false, false, "ephemeral" },
		{ false, true, false, "persistent sequential" },
		{ true, true, false, "ephemeral sequential" },
		{ false, false, true, "container" } };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char expected[128];
		struct zk_request request = { .tag = TAG,
			.operation = ZK_CREATE,
			.path = "/a",
			.data = "",
			.ephemeral = rows[i].ephemeral,
			.sequential = rows[i].sequential,
			.container = rows[i].container };
		library = (struct library){ .path = "/a0000000001" };
		const struct zk_result result = ask(&request);
		snprintf(expected, sizeof(expected), "create /a '' %s 31:world:anyone",
			rows[i].mode);
		cr_expect_str_eq(call, expected);
		cr_expect(result.len == 12 && memcmp(result.data, "/a0000000001", 12) == 0);
		if (!rows[i].sequential && !rows[i].container) {
			request.operation = ZK_REPLACE;
			ask(&request);
			snprintf(expected, sizeof(expected),
				"delete /a of version 0, create /a '' %s 31:world:anyone: 2",
				rows[i].mode);
			cr_expect_str_eq(call, expected);
		}
	}
}

static struct zk_result create_with(const char *packed, size_t len, size_t count)
{
	library = (struct library){ .path = "/a" };
	return ask(&(struct zk_request){ .tag = TAG,
		.operation = ZK_CREATE,
		.path = "/a",
		.data = "",
		.acl = { .packed = packed, .len = len, .count = count } });
}

Test(request, an_acl_has_64_entries_at_most)
{
	char packed[65 * 4];
	for (size_t i = 0; i < 65; i++) {
		memcpy(packed + 4 * i, "1::", 4);
	}
	cr_expect_eq(create_with(packed, 64 * 4, 64).rc, ZOK);
	cr_expect_eq(strlen(call), strlen("create /a '' persistent") + 64 * strlen(" 1::"));
	cr_expect_eq(create_with(packed, 65 * 4, 65).rc, ZINVALIDACL);
	cr_expect_str_eq(call, "");
}

/* ---- a node in place of another ---- */

static struct zk_result replace(const char *path, uint8_t sets)
{
	return ask(&(struct zk_request){ .tag = TAG,
		.operation = ZK_REPLACE,
		.path = path,
		.data = "data",
		.len = 4,
		.version = 3,
		.ephemeral = true,
		.sets = sets });
}

Test(request, a_replacement_fails_for_the_reason_of_the_part_that_failed)
{
	library = (struct library){ .rc = ZRUNTIMEINCONSISTENCY,
		.results = { ZOK, ZNODEEXISTS, ZRUNTIMEINCONSISTENCY, ZRUNTIMEINCONSISTENCY } };
	struct zk_result result = replace("/a", 2);
	cr_expect_eq(result.rc, ZNODEEXISTS);
	cr_expect(is_empty(&result.stat));
	library.results[0] = ZBADVERSION;
	library.results[1] = ZRUNTIMEINCONSISTENCY;
	cr_expect_eq(replace("/a", 2).rc, ZBADVERSION);
	library.results[0] = ZRUNTIMEINCONSISTENCY;
	library.results[3] = ZNOAUTH;
	cr_expect_eq(replace("/a", 2).rc, ZNOAUTH);
	library.results[3] = ZOK;
	cr_expect_eq(replace("/a", 2).rc, ZRUNTIMEINCONSISTENCY);
	library.rc = ZCONNECTIONLOSS;
	library.results[0] = ZBADVERSION;
	cr_expect_eq(replace("/a", 2).rc, ZCONNECTIONLOSS);
	memset(set_stats, 0, sizeof(set_stats)); /* or they would hold a leak */
	library.started = ZINVALIDSTATE;
	cr_expect_eq(replace("/a", 0).rc, ZINVALIDSTATE, "the client does not begin it");
}

/* ---- over one node only ---- */

static struct zk_result ask_exactly(enum zk_operation operation)
{
	return ask(&(struct zk_request){ .tag = TAG,
		.operation = operation,
		.path = "/a",
		.data = "data",
		.len = 4,
		.version = 3,
		.exact = true,
		.czxid = 9 });
}

Test(request, an_exact_write_goes_over_the_node_that_it_names_alone)
{
	library = (struct library){ .condition = { .czxid = 9, .version = 3 } };
	cr_expect_eq(ask_exactly(ZK_SET).rc, ZOK);
	cr_expect_str_eq(call, "look at /a, then set /a 'data' of version 3");
	cr_expect_eq(ask_exactly(ZK_DELETE).rc, ZOK);
	cr_expect_str_eq(call, "look at /a, then delete /a of version 3");
	library.condition.version = 4;
	cr_expect_eq(ask_exactly(ZK_SET).rc, ZBADVERSION);
	cr_expect_str_eq(call, "look at /a, then ");
	library.condition = (struct Stat){ .czxid = 10, .version = 3 };
	cr_expect_eq(ask_exactly(ZK_DELETE).rc, ZBADVERSION);
	cr_expect_str_eq(call, "look at /a, then ");
	library.rc = ZNONODE;
	cr_expect_eq(ask_exactly(ZK_SET).rc, ZNONODE);
	cr_expect_str_eq(call, "look at /a, then ");
	library = (struct library){ .started = ZINVALIDSTATE };
	cr_expect_eq(ask_exactly(ZK_SET).rc, ZINVALIDSTATE);
}
