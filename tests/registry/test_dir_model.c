/*
 * The dir: backend against a model in memory: the same random operations, the same results.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/dir_client.h"

enum { OPERATIONS = 2000, PATHS = 14, CLIENTS = 2 };

static const char *const paths[PATHS] = { "/a", "/b", "/c", "/a/a", "/a/b", "/b/a", "/b/b",
	"/a/a/a", "/a/a/b", "/a/b/a", "/b/a/a", "/b/a/b", "/a/a/a/a", "/b/a/a/a" };

/* One node of the model. */
struct node {
	bool exists;
	int owner; /* index of the owning client; -1: persistent */
	char data[16];
	struct registry_stat stat; /* as the backend reported it last */
};

static struct node nodes[PATHS];
static char root[512];
static struct dir_client clients[CLIENTS];
static uint64_t random_state = 20140926;

static unsigned pick(unsigned count)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(random_state >> 33) % count;
}

static int parent_of(int index)
{
	size_t len = (size_t)(strrchr(paths[index], '/') - paths[index]);

	for (int i = 0; i < PATHS; i++) {
		if (strlen(paths[i]) == len && strncmp(paths[i], paths[index], len) == 0) {
			return i;
		}
	}
	return -1; /* the root */
}

static size_t count_children(int index)
{
	size_t count = 0;

	for (int i = 0; i < PATHS; i++) {
		count += nodes[i].exists && parent_of(i) == index ? 1 : 0;
	}
	return count;
}

/* Compares the backend's answer for the path with the model, and remembers its stat. */
static void check(int client, int index)
{
	struct registry_stat stat;
	char data[16];
	int result = dir_get(&clients[client], paths[index], data, sizeof(data), &stat);

	cr_assert_eq(result, nodes[index].exists ? 0 : BERTH_PATH_NOT_FOUND);
	if (result != 0) {
		return;
	}
	cr_assert_str_eq(data, nodes[index].data);
	cr_assert_eq(stat.ephemeral, nodes[index].owner >= 0);
	cr_assert_eq(stat.own, nodes[index].owner == client);
	cr_assert_eq(stat.size, strlen(data));
	nodes[index].stat = stat;
	cr_assert_eq(dir_stat(&clients[client], paths[index], &stat), 0);
	cr_assert_eq(stat.children, count_children(index));
	cr_assert_eq(stat.node_id, nodes[index].stat.node_id);
	cr_assert_eq(stat.version, nodes[index].stat.version);
}

static void try_create(int client, int index, const char *data, bool ephemeral)
{
	int parent = parent_of(index);
	int expected = 0;

	if (parent >= 0 && !nodes[parent].exists) {
		expected = BERTH_PATH_NOT_FOUND;
	} else if (parent >= 0 && nodes[parent].owner >= 0) {
		expected = BERTH_NO_CHILDREN_FOR_EPHEMERALS;
	} else if (nodes[index].exists) {
		expected = BERTH_FILE_ALREADY_EXISTS;
	}
	cr_assert_eq(dir_create(&clients[client], paths[index], data, ephemeral), expected);
	if (expected == 0) {
		nodes[index].exists = true;
		nodes[index].owner = ephemeral ? client : -1;
		snprintf(nodes[index].data, sizeof(nodes[index].data), "%s", data);
	}
}

/* SET, REPLACE and DELETE, over the right version or over a wrong one. */
static int expect_over(int index, bool right)
{
	return !nodes[index].exists ? BERTH_PATH_NOT_FOUND : right ? 0 : BERTH_FILE_ALREADY_EXISTS;
}

static void try_set(
	int client, int index, const char *data, const struct registry_stat *over, bool right)
{
	int expected = expect_over(index, right);

	cr_assert_eq(dir_set(&clients[client], paths[index], data, over), expected);
	if (expected == 0) {
		snprintf(nodes[index].data, sizeof(nodes[index].data), "%s", data);
	}
}

static void try_replace(int client, int index, const char *data, bool ephemeral,
	const struct registry_stat *over, bool right)
{
	int expected = expect_over(index, right);

	if (expected == 0 && count_children(index) > 0) {
		expected = ephemeral ? BERTH_NO_CHILDREN_FOR_EPHEMERALS
				     : BERTH_PATH_IS_NOT_EMPTY_DIRECTORY;
	}
	cr_assert_eq(dir_replace(&clients[client], paths[index], data, ephemeral, over), expected);
	if (expected == 0) {
		nodes[index].owner = ephemeral ? client : -1;
		snprintf(nodes[index].data, sizeof(nodes[index].data), "%s", data);
	}
}

static void try_delete(int client, int index, const struct registry_stat *over, bool right)
{
	int expected = expect_over(index, right);

	if (expected == 0 && count_children(index) > 0) {
		expected = BERTH_PATH_IS_NOT_EMPTY_DIRECTORY;
	}
	cr_assert_eq(dir_delete(&clients[client], paths[index], over), expected);
	if (expected == 0) {
		nodes[index].exists = false;
	}
}

/* A client goes and comes back: its ephemeral nodes go with it. */
static void restart(int client)
{
	dir_client_close(&clients[client]);
	dir_client_open(&clients[client], root, NULL);
	for (int i = 0; i < PATHS; i++) {
		nodes[i].exists = nodes[i].exists && nodes[i].owner != client;
	}
}

static void step(int number)
{
	int client = (int)pick(CLIENTS), index = (int)pick(PATHS);
	bool ephemeral = pick(4) == 0, right = pick(4) != 0;
	struct registry_stat over;
	char data[16];

	check(client, index);
	over = nodes[index].stat;
	over.version += right ? 0 : 1;
	snprintf(data, sizeof(data), "%d", number);
	switch (pick(12)) {
	case 0:
		try_set(client, index, data, &over, right);
		break;
	case 1:
		try_replace(client, index, data, ephemeral, &over, right);
		break;
	case 2:
	case 3:
		try_delete(client, index, &over, right);
		break;
	case 4:
		if (pick(10) == 0) {
			restart(client);
		}
		break;
	default:
		try_create(client, index, data, ephemeral);
		break;
	}
	check(client, index);
}

Test(dir_model, random_operations_agree_with_the_model, .timeout = 240)
{
	snprintf(root, sizeof(root), "%s", dir_root_make_in_memory());
	for (int i = 0; i < CLIENTS; i++) {
		dir_client_open(&clients[i], root, NULL);
	}
	for (int number = 0; number < OPERATIONS; number++) {
		step(number);
	}
	for (int i = 0; i < CLIENTS; i++) {
		dir_client_close(&clients[i]);
	}
	dir_root_remove(root);
}
