/*
 * DNS names of any client, over records of any writer: each name has an answer with a status, whose
 * names, targets and texts fit into DNS; evaluating does not change with the case of letters.
 * The name ends at a line feed; the record of every second node follows.
 */
#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/names/internal.h"
#include "lib/base/array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct tree {
	struct record *record;
	bool visits_all;
	unsigned mood; /* which nodes are pending or unknown */
};

static char *const paths[] = { "/services", "/services/db", "/services/db/a", "/users",
	"/users/joe", "/users/joe/app", "/users/joe/app/one", "/users/joe/app/one/components",
	"/users/joe/app/one/components/c1", "/users/joe/app/one/components/c2",
	"/users/joe/services", "/users/joe/services/org-hadoop",
	"/users/joe/services/org-hadoop/app", "/users/joe/services/org-hadoop/app/components",
	"/users/joe/services/org-hadoop/app/components/ctr-e50-1-1-1" };
enum { PATHS = ARRAY_LEN(paths) };

static enum names_known known(const struct tree *tree, size_t index)
{
	if (tree->mood >> (index % 14) & 1) {
		return tree->mood & 0x8000 ? NAMES_NODE_PENDING : NAMES_NODE_UNKNOWN;
	}
	return NAMES_NODE_THERE;
}

static enum names_known node(void *context, const char *path, const void **ret_record)
{
	const struct tree *tree = context;
	for (size_t i = 0; i < PATHS; i++) {
		if (strcmp(paths[i], path) == 0) {
			*ret_record = i % 3 ? tree->record : NULL;
			return known(tree, i);
		}
	}
	return NAMES_NODE_ABSENT;
}

static enum names_known children(
	void *context, const char *path, char *const **ret_paths, size_t *ret_count)
{
	static char *found[PATHS];
	size_t count = 0;
	for (size_t i = 0; i < PATHS; i++) {
		size_t parent_len = path_parent_len(paths[i]);
		if (strlen(path) == parent_len && strncmp(paths[i], path, parent_len) == 0) {
			found[count++] = paths[i];
		}
	}
	*ret_paths = found;
	*ret_count = count;
	const void *ignored;
	return strcmp(path, "/") == 0 ? NAMES_NODE_THERE : node(context, path, &ignored);
}

struct keyed {
	uint64_t key;
	bool has;
};

static void note_key(void *context, uint64_t key)
{
	struct keyed *keyed = context;
	keyed->has = keyed->has || key == keyed->key;
}

/* The paths that the index of addresses would find, or all. */
static enum names_known each_known(
	void *context, uint64_t key, names_visit *visit, void *visit_context)
{
	const struct tree *tree = context;
	for (size_t i = 0; i < PATHS; i++) {
		struct keyed keyed = { .key = key };
		if (i % 3 && tree->record) {
			names_each_key(paths[i], tree->record, note_key, &keyed);
			if (tree->visits_all || keyed.has) {
				visit(visit_context, paths[i], tree->record);
			}
		}
	}
	return NAMES_NODE_THERE;
}

static void check_name(const char *name)
{
	size_t len = strlen(name);
	assert(len > 0 && len < NAMES_NAME_BYTES);
	for (; *name; name += *name == '.') {
		size_t label = strcspn(name, ".");
		assert(label > 0 && label <= 63);
		name += label;
	}
}

static void check(const struct names_answer *answer)
{
	for (size_t i = 0; i < answer->address_count; i++) {
		assert(answer->addresses[i].family == AF_INET ||
			answer->addresses[i].family == AF_INET6);
	}
	for (size_t i = 0; i < answer->target_count; i++) {
		assert(answer->targets[i].port > 0);
		check_name(answer->targets[i].name);
	}
	for (size_t i = 0; i < answer->pointer_count; i++) {
		check_name(answer->pointers[i]);
	}
	for (size_t i = 0; i < answer->text_count; i++) {
		assert(strlen(answer->texts[i]) <= 255);
	}
	if (answer->alias) {
		check_name(answer->alias);
	}
	assert(answer->status == NAMES_FOUND || answer->address_count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len < 2) {
		return 0;
	}
	struct tree tree = { .mood = data[0] & 1 ? data[0] * 256U + data[1] : 0 };
	const struct names_source source = { &tree, node, children, each_known, NULL };
	char *name = strndup((const char *)data + 2, len - 2);
	assert(name);
	char *text = strchr(name, '\n');
	if (text) {
		*text++ = '\0';
		(void)!record_decode(&tree.record, text, strlen(text), NULL);
	}
	struct names_answer answer;
	names_evaluate(&answer, name, "berth", &source);
	check(&answer);
	enum names_status status = answer.status;
	size_t addresses = answer.address_count;
	size_t pointers = answer.pointer_count;
	names_answer_finish(&answer);
	if (strstr(name, ".arpa")) {
		/* A record without the key has nothing to say. */
		tree.visits_all = true;
		names_evaluate(&answer, name, "berth", &source);
		assert(answer.pointer_count == pointers);
		names_answer_finish(&answer);
		tree.visits_all = false;
	}
	for (char *c = name; *c; c++) {
		*c = (char)toupper((unsigned char)*c);
	}
	names_evaluate(&answer, name, "berth", &source);
	assert(answer.status == status && answer.address_count == addresses);
	names_answer_finish(&answer);
	record_free(tree.record);
	free(name);
	return 0;
}
