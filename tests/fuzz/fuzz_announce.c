/*
 * One announcement on a scripted registry: other clients write and delete its node, requests fail,
 * sessions end, the wish changes, the agent restarts. When all is quiet the announcement has come
 * to an end (it is neither writing nor waiting), its state agrees with the node, and a node that
 * another client made is as that client left it.
 * The first byte: bits 0 and 1 are the kind of the node; bit 2, the agent finds a predecessor's
 * entry about the node, which may say anything: JSON that ends at a line feed.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/component/announce_internal.h"
#include "tests/support/memory_backend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define MARKER "\"type\":\"JSONServiceRecord\""

enum { WISHES = 5, STRANGE = 7, ROUNDS = 12 };

static const char PATH[] = "/users/joe/c1";
static const char CHILD[] = "/users/joe/c1/below";

#define MARK ",\"berth:holder\":\"m\""

/* Records of the component; the last two have no yarn:id, the last three no mark. */
static const char *const wishes[WISHES] = { "{" MARKER ",\"yarn:id\":\"c_1\"" MARK "}",
	"{" MARKER ",\"yarn:id\":\"c_1\",\"description\":\"two\"" MARK "}",
	"{" MARKER ",\"yarn:id\":\"c_2\"}", "{" MARKER ",\"description\":\"three\"}",
	"{" MARKER "}" };

/*
 * Data of other clients; the first three may pass for a predecessor's, or for no data. On a live
 * node only the second one, which has our mark, may.
 */
static const char *const strange[STRANGE] = { "", "{" MARKER ",\"yarn:id\":\"c_1\"" MARK "}",
	"{" MARKER "}", "{" MARKER ",\"yarn:id\":\"c_9\"}", "host:1", "{" MARKER ", oops", "{}" };
enum { MARKED = 1, FIRST_FOREIGN = 3 };

struct script {
	struct ev_loop *loop;
	struct registry *registry;
	struct registry *witness;
	struct announce *announce;
	struct dialect_node wish_node;
	enum announce_wish wish;
	bool ephemeral;
	bool twin;       /* another session has made an ephemeral node there */
	bool given_left; /* which may claim another client's node */
	bool takeover;
	bool wish_failed;
	bool connected;
	bool answering;
	int64_t now_ms; /* the registry's time */
	int failures;
	int failure_code;
	const char *foreign; /* another client's node, which the announcement must not change */
	const char *there;   /* what the witness read last */
	bool there_ephemeral;
	char copy[256];
};

/* ---- the registry ---- */

static void interfere(void *context, const struct registry_task *task, struct err *err)
{
	struct script *script = context;
	if (script->failures > 0) {
		script->failures--;
		/* No registry says of a node that is there that it is not. */
		bool lie = script->failure_code == BERTH_PATH_NOT_FOUND &&
			task->operation != REGISTRY_OP_CREATE;
		err_set(err, lie ? BERTH_FAILED : script->failure_code, "as the script wants it");
	}
}

static void on_state(void *context, enum registry_state state, const char *why)
{
	struct script *script = context;
	if (script->announce) {
		announce_on_registry_state(script->announce, state, why);
	}
}

static void take_node(void *context, const struct registry_result *result)
{
	struct script *script = context;
	script->there = NULL;
	if (result->err.code == 0) {
		size_t len = result->data_len < sizeof(script->copy) ? result->data_len : 0;
		memcpy(script->copy, result->data, len);
		script->copy[len] = '\0';
		script->there = script->copy;
		script->there_ephemeral = result->stat.ephemeral;
	}
}

/* The node's data as another client sees them; NULL without a node. */
static const char *look(struct script *script)
{
	struct registry_request *request = registry_get(script->witness, PATH, take_node, script);
	assert(request);
	registry_dispatch(script->witness, 0);
	registry_dispatch(script->witness, 0);
	return script->there;
}

static void ignore(void *context, const struct registry_result *result)
{
	(void)context;
	(void)result;
}

/* In the place of what is there. */
static void put_ephemeral(struct script *script, const char *text)
{
	const struct registry_bind bind = {
		.data = text, .len = strlen(text), .ephemeral = true, .mode = REGISTRY_BIND_CREATE
	};
	memory_remove(script->registry, PATH);
	registry_bind(script->witness, PATH, &bind, ignore, NULL);
	for (int i = 0; i < 4; i++) {
		registry_dispatch(script->witness, 0);
	}
	script->twin = true;
}

static void put(struct script *script, unsigned which)
{
	const char *before = look(script);
	const char *text = strange[which % STRANGE];
	bool lives = which / STRANGE % 2;
	which %= STRANGE;
	if (lives) {
		put_ephemeral(script, text);
	} else {
		memory_put(script->registry, PATH, text);
	}
	bool own_place = before && before != script->foreign && !script->foreign;
	bool shared = script->wish_node.kind == DIALECT_NODE_SHARED;
	bool may_be_ours = lives && !shared ? which == MARKED : which < FIRST_FOREIGN || own_place;
	script->foreign = !may_be_ours && !script->takeover && !script->given_left && look(script)
		? text
		: NULL;
}

/* ---- the announcement ---- */

static void on_change(
	void *context, enum announce_state from, enum announce_state to, const char *why)
{
	(void)context;
	assert(*why && from <= ANNOUNCE_FAILED && to <= ANNOUNCE_FAILED);
	assert(from != to || to == ANNOUNCE_FAILED || to == ANNOUNCE_CONFLICT);
}

static void begin(struct script *script, bool may_be_registered, const json_t *left)
{
	const struct announce_options options = {
		.type = DIALECT_YARN,
		.kind = script->wish_node.kind,
		.path = PATH,
		.ephemeral = script->ephemeral,
		.takeover = script->takeover,
		.may_be_registered = may_be_registered,
		.persistent = left,
		.on_change = on_change,
		.context = script,
	};
	script->announce = announce_create(script->loop, script->registry, &options);
	announce_wish(script->announce, ANNOUNCE_KEEP, NULL, "no verdict yet");
	script->wish = ANNOUNCE_KEEP;
	script->wish_failed = false;
}

static void restart(struct script *script)
{
	json_t *left = announce_persistent(script->announce);
	bool registered = script->announce->may_be_registered;
	announce_destroy(script->announce);
	script->announce = NULL;
	begin(script, registered, left);
	json_decref(left);
}

static void wish(struct script *script, unsigned which)
{
	static const enum announce_wish kinds[] = { ANNOUNCE_UP, ANNOUNCE_DOWN, ANNOUNCE_KEEP };
	const char *text = wishes[which % WISHES];
	script->wish_node.data = (char *)(uintptr_t)text;
	script->wish_node.len = strlen(text);
	script->wish = kinds[which / WISHES % 3];
	script->wish_failed = false;
	announce_wish(script->announce, script->wish, &script->wish_node, "test");
}

static void fail_wish(struct script *script)
{
	struct err err = ERR_INIT;
	err_set(&err, BERTH_LIMIT_EXCEEDED, "too large");
	script->wish_failed = true;
	announce_wish_failed(script->announce, &err);
}

static void set_takeover(struct script *script, bool takeover)
{
	script->takeover = takeover;
	if (takeover) {
		script->foreign = NULL;
	}
	announce_set_takeover(script->announce, takeover);
	/* It is in force with the next wish. */
	announce_wish(script->announce, script->wish,
		script->wish_node.data ? &script->wish_node : NULL, "test");
	script->wish_failed = false;
}

/* Until the registry and the announcement do what they wait to do. */
static void pass_time(struct script *script)
{
	int64_t deadline_ms = registry_deadline_ms(script->registry);
	if (deadline_ms != INT64_MAX && deadline_ms > script->now_ms) {
		script->now_ms = deadline_ms;
	}
	if (timer_runs(&script->announce->pause)) {
		announce_end_pause(script->announce);
		announce_on_pause_over(script->announce);
	}
}

static void turn(struct script *script)
{
	for (int i = 0; i < 8; i++) {
		registry_dispatch(script->registry, script->now_ms);
	}
}

/* ---- what must hold ---- */

static void check_end(struct script *script)
{
	const char *there = look(script);
	enum announce_state state = announce_get_state(script->announce);
	assert(announce_state_is_in(state) || state == ANNOUNCE_WITHDRAWN ||
		state == ANNOUNCE_CONFLICT || state == ANNOUNCE_FAILED);
	assert(state != ANNOUNCE_OUTDATED || script->wish == ANNOUNCE_KEEP);
	assert(state != ANNOUNCE_FAILED || script->wish_failed);
	assert(!script->foreign || (there && strcmp(there, script->foreign) == 0));
	if (announce_state_is_in(state)) {
		assert(there && script->announce->may_be_registered);
	}
	if (script->wish == ANNOUNCE_UP && state == ANNOUNCE_REGISTERED &&
		script->wish_node.kind != DIALECT_NODE_SHARED) {
		assert(strcmp(there, script->wish_node.data) == 0);
	}
	if (script->wish == ANNOUNCE_UP && state == ANNOUNCE_CONFLICT) {
		assert(there && !script->takeover);
	}
	if (script->wish != ANNOUNCE_UP) {
		assert(state != ANNOUNCE_CONFLICT);
	}
	if (script->wish == ANNOUNCE_DOWN && script->ephemeral &&
		script->wish_node.kind != DIALECT_NODE_SHARED) {
		/*
		 * No node of ours is left, whatever was written over it. Other clients make
		 * persistent ones.
		 */
		assert(!there || !script->there_ephemeral || script->twin);
	}
	if (announce_settled(script->announce)) {
		json_t *left = announce_persistent(script->announce);
		assert(!left || json_is_object(left));
		json_decref(left);
	}
}

static void be_quiet(struct script *script)
{
	turn(script);
	if (!script->connected || !script->answering) {
		return;
	}
	script->failures = 0;
	memory_remove(script->registry, CHILD);
	for (int i = 0; i < ROUNDS; i++) {
		turn(script);
		pass_time(script);
	}
	turn(script);
	check_end(script);
}

/* ---- the script ---- */

static void fail_next(struct script *script, unsigned more)
{
	static const int codes[] = { BERTH_TIMEOUT, BERTH_NO_PATH_PERMISSIONS,
		BERTH_REGISTRY_UNAVAILABLE, BERTH_FILE_ALREADY_EXISTS, BERTH_PATH_NOT_FOUND,
		BERTH_LIMIT_EXCEEDED, BERTH_PATH_IS_NOT_EMPTY_DIRECTORY, BERTH_FAILED };
	script->failures = 1 + (int)(more / 8 % 4);
	script->failure_code = codes[more % 8];
}

static void set_state(struct script *script, unsigned more)
{
	static const enum registry_state states[] = { REGISTRY_CONNECTED, REGISTRY_AWAY,
		REGISTRY_LOST };
	memory_set_state(script->registry, states[more % 3]);
	script->connected = more % 3 == 0;
}

static void remove_node(struct script *script)
{
	memory_remove(script->registry, PATH);
	script->foreign = NULL;
}

static void set_answering(struct script *script, bool answering)
{
	script->answering = answering;
	memory_set_answering(script->registry, answering);
}

static void step(struct script *script, unsigned what, unsigned more)
{
	(void)announce_settled(script->announce);
	switch (what % 16) {
	case 0:
	case 1:
		wish(script, more);
		break;
	case 2:
		put(script, more);
		break;
	case 3:
		remove_node(script);
		break;
	case 4:
		if (look(script)) {
			memory_put(script->registry, CHILD, "");
		}
		break;
	case 5:
		memory_remove(script->registry, CHILD);
		break;
	case 6:
		fail_next(script, more);
		break;
	case 7:
		set_state(script, more);
		break;
	case 8:
		set_answering(script, more & 1);
		break;
	case 9:
		pass_time(script);
		break;
	case 10:
		set_takeover(script, more & 1);
		break;
	case 11:
		fail_wish(script);
		break;
	case 12:
		restart(script);
		break;
	case 13:
		registry_dispatch(script->registry, script->now_ms);
		break;
	case 14:
		turn(script);
		break;
	default:
		be_quiet(script);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct ev_loop *loop; /* never run: the script calls what its timers would */
	if (len == 0) {
		return 0;
	}
	loop = loop ? loop : ev_loop_new(EVFLAG_AUTO);
	struct script script = {
		.loop = loop, .ephemeral = data[0] & 1, .connected = true, .answering = true
	};
	const struct registry_options options = { .on_state = on_state, .context = &script };
	const struct registry_options none = { .on_state = NULL };
	script.wish_node.kind = data[0] & 2 ? DIALECT_NODE_SHARED
		: script.ephemeral          ? DIALECT_NODE_EPHEMERAL
					    : DIALECT_NODE_PERSISTENT;
	script.ephemeral = script.wish_node.kind == DIALECT_NODE_EPHEMERAL;
	script.registry = memory_open("fuzz", &options);
	script.witness = memory_open("fuzz", &none);
	registry_dispatch(script.witness, 0);
	memory_on_task(script.registry, interfere, &script);
	memory_put(script.registry, "/users", "");
	memory_put(script.registry, "/users/joe", "");
	size_t at = 1;
	json_t *left = NULL;
	if (data[0] & 4) {
		const uint8_t *end = memchr(data + 1, '\n', len - 1);
		at = end ? (size_t)(end - data) + 1 : len;
		left = json_loadb((const char *)data + 1, at - 1, JSON_REJECT_DUPLICATES, NULL);
		script.given_left = true;
		memory_put(script.registry, PATH, wishes[0]);
	}
	begin(&script, left && data[0] & 8, left);
	json_decref(left);
	for (size_t i = 0; at + i + 1 < len && i < 300; i += 2) {
		step(&script, data[at + i], data[at + i + 1]);
	}
	set_state(&script, 0);
	set_answering(&script, true);
	be_quiet(&script);
	announce_destroy(script.announce);
	registry_close(script.registry);
	registry_close(script.witness);
	return 0;
}
