/*
 * One random sequence of operations, the same for a backend and for the registry in memory: every
 * result must agree.
 *
 * Two clients take turns, and end their sessions now and then. Node ids and versions differ between
 * the backends; both must agree on whether they are those that were seen at that path before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/amount.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_stage.h"

enum { OPERATIONS = AMOUNT(5000), CLIENTS = 2, PATHS = 3 + 9 + 27, SEED = 20240229 };

/* The model and the real one. */
enum { MODEL, REAL, SIDES };

struct pair {
	struct stage *stage;
	struct registry *clients[SIDES][CLIENTS];
	char paths[PATHS][8];
	struct registry_stat seen[SIDES][PATHS];
	uint64_t random;
	size_t number;
};

static size_t pick(struct pair *pair, size_t below)
{
	pair->random = pair->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (size_t)(pair->random >> 33) % below;
}

static void make_paths(struct pair *pair)
{
	size_t count = 0;
	for (size_t i = 0; i < 3; i++) {
		snprintf(pair->paths[count++], 8, "/%c", (int)('a' + i));
	}
	for (size_t parent = 0; count < PATHS; parent++) {
		char above[8];
		snprintf(above, sizeof(above), "%s", pair->paths[parent]);
		for (size_t i = 0; i < 3; i++) {
			snprintf(pair->paths[count++], 8, "%.5s/%c", above, (int)('a' + i));
		}
	}
}

static void open_client(struct pair *pair, size_t client)
{
	const struct registry_options options = { 0 };
	struct registry *model = memory_open("model", &options);
	client_add(model);
	client_wait_state(model, REGISTRY_CONNECTED);
	pair->clients[MODEL][client] = model;
	pair->clients[REAL][client] = stage_client(pair->stage);
}

static void close_client(struct pair *pair, size_t client)
{
	client_close(pair->clients[MODEL][client]);
	stage_client_end(pair->stage, pair->clients[REAL][client]);
}

/* An operation is drawn once and done on both sides. */
struct operation {
	size_t kind;
	size_t client;
	size_t path;
	bool flag;
	bool ephemeral;
	bool expect;
	enum registry_bind_mode mode;
	char data[80];
};

enum {
	KIND_GET,
	KIND_RESOLVE,
	KIND_STAT,
	KIND_LIST,
	KIND_RECORDS,
	KIND_MKNODE,
	KIND_BIND,
	KIND_BIND_AGAIN, /* as often again */
	KIND_BIND_MORE,
	KIND_DELETE,
	KIND_FIND,
	KIND_PURGE,
	KINDS
};

static const char *const kind_names[KINDS] = { "get", "resolve", "stat", "list", "records",
	"mknode", "bind", "bind", "bind", "delete", "find", "purge" };

static struct operation draw(struct pair *pair)
{
	struct operation operation = { .kind = pick(pair, KINDS),
		.client = pick(pair, CLIENTS),
		.path = pick(pair, PATHS),
		.flag = pick(pair, 2),
		.ephemeral = pick(pair, 2),
		.expect = pick(pair, 2),
		.mode = (enum registry_bind_mode)pick(pair, 3) };
	snprintf(operation.data, sizeof(operation.data),
		"{\"type\":\"%s\",\"yarn:id\":\"%zu\",\"yarn:persistence\":\"container\"}",
		pick(pair, 8) ? "JSONServiceRecord" : "other", pick(pair, 4));
	/* Emptying the tree is the rare case. */
	if (operation.kind == KIND_PURGE && pick(pair, 4)) {
		operation.kind = KIND_BIND;
	}
	if (operation.kind == KIND_DELETE && operation.path < 3) {
		operation.flag = pick(pair, 8) == 0;
	}
	return operation;
}

static void carry_out(
	struct pair *pair, size_t side, const struct operation *operation, struct answer *answer)
{
	struct registry *registry = pair->clients[side][operation->client];
	const char *path = pair->paths[operation->path];
	const struct registry_stat *seen = &pair->seen[side][operation->path];
	const struct registry_bind bind = { .data = operation->data,
		.len = strlen(operation->data),
		.mode = operation->mode,
		.ephemeral = operation->ephemeral,
		.parents = operation->flag,
		.expected = *seen };
	const struct registry_criteria criteria = {
		.under = operation->flag ? path : NULL, .id = "1", .persistence = "container"
	};
	switch (operation->kind) {
	case KIND_GET:
		client_get(registry, path, answer);
		break;
	case KIND_RESOLVE:
		client_resolve(registry, path, answer);
		break;
	case KIND_STAT:
		client_stat(registry, path, answer);
		break;
	case KIND_LIST:
		client_list(registry, path, answer);
		break;
	case KIND_RECORDS:
		client_records(registry, path, answer);
		break;
	case KIND_MKNODE:
		client_mknode(registry, path, operation->flag, answer);
		break;
	case KIND_DELETE:
		client_delete(
			registry, path, operation->flag, operation->expect ? seen : NULL, answer);
		break;
	case KIND_FIND:
		client_find(registry, &criteria, answer);
		break;
	case KIND_PURGE:
		client_purge(registry, &criteria,
			operation->expect ? REGISTRY_PURGE_ALL : REGISTRY_PURGE_SKIP_ON_CHILDREN,
			answer);
		break;
	default:
		client_bind(registry, path, &bind, answer);
		break;
	}
}

#define agree(what, condition)                                                                     \
	cr_assert(condition, "operation %zu, %s %s: " what " differs (model %s, real %s: %s)",     \
		pair->number, kind_names[operation->kind], pair->paths[operation->path],           \
		answer_name(model), answer_name(real), real->err.msg)

static bool tells_stat(const struct operation *operation)
{
	return operation->kind <= KIND_LIST ||
		(operation->kind >= KIND_BIND && operation->kind <= KIND_BIND_MORE);
}

static void compare_stat(struct pair *pair, const struct operation *operation,
	const struct answer *model, const struct answer *real)
{
	struct registry_stat *seen_model = &pair->seen[MODEL][operation->path];
	struct registry_stat *seen_real = &pair->seen[REAL][operation->path];
	bool same_node = model->stat.node_id == seen_model->node_id;
	agree("size", model->stat.size == real->stat.size);
	agree("ephemeral", model->stat.ephemeral == real->stat.ephemeral);
	agree("own", model->stat.own == real->stat.own);
	agree("being the node seen before",
		same_node == (real->stat.node_id == seen_real->node_id));
	if (same_node) {
		agree("being the version seen before",
			(model->stat.version == seen_model->version) ==
				(real->stat.version == seen_real->version));
	}
	if (operation->kind == KIND_STAT || operation->kind == KIND_LIST) {
		agree("number of children", model->stat.children == real->stat.children);
	}
	*seen_model = model->stat;
	*seen_real = real->stat;
}

static void compare(struct pair *pair, const struct operation *operation,
	const struct answer *model, const struct answer *real)
{
	agree("result", model->err.code == real->err.code);
	agree("data",
		model->data_len == real->data_len &&
			(!model->data || memcmp(model->data, real->data, model->data_len) == 0));
	agree("number of paths", model->children_count == real->children_count);
	for (size_t i = 0; i < model->children_count; i++) {
		agree("path", strcmp(model->children[i], real->children[i]) == 0);
	}
	agree("records", !model->records || json_equal(model->records, real->records));
	agree("count", model->count == real->count);
	if (!model->err.code && tells_stat(operation)) {
		compare_stat(pair, operation, model, real);
	}
}

EVERY_BACKEND(random, operations_have_the_results_of_the_model)
{
	static struct pair pair;
	struct answer answers[SIDES] = { 0 };
	pair.stage = stage;
	pair.random = SEED;
	make_paths(&pair);
	/* The model's is always there. */
	client_mknode(stage->registry, "/", false, &answers[REAL]);
	cr_assert_eq(answers[REAL].err.code, 0);
	for (size_t client = 0; client < CLIENTS; client++) {
		open_client(&pair, client);
	}
	for (pair.number = 0; pair.number < OPERATIONS; pair.number++) {
		struct operation operation = draw(&pair);
		if (pick(&pair, 200) == 0) {
			close_client(&pair, operation.client);
			open_client(&pair, operation.client);
		}
		for (size_t side = 0; side < SIDES; side++) {
			carry_out(&pair, side, &operation, &answers[side]);
		}
		compare(&pair, &operation, &answers[MODEL], &answers[REAL]);
	}
	for (size_t client = 0; client < CLIENTS; client++) {
		close_client(&pair, client);
	}
	answer_clear(&answers[MODEL]);
	answer_clear(&answers[REAL]);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
