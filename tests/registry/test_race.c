/*
 * Two clients at the same path at the same time, on every backend: no lost update and no spurious
 * error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/amount.h"
#include "tests/support/registry_stage.h"

enum { ROUNDS = AMOUNT(500), CLIENTS = 2 };

struct race {
	struct registry *clients[CLIENTS];
	struct answer answers[CLIENTS];
	size_t round;
};

static void race_start(struct race *race, struct stage *stage)
{
	*race = (struct race){ .clients = { stage->registry, stage_client(stage) } };
}

static void race_end(struct race *race)
{
	client_close(race->clients[1]);
	for (size_t i = 0; i < CLIENTS; i++) {
		answer_clear(&race->answers[i]);
	}
}

static void clear(struct race *race)
{
	for (size_t i = 0; i < CLIENTS; i++) {
		answer_clear(&race->answers[i]);
	}
}

/* Both answers have come. */
static void finish(struct race *race)
{
	for (size_t i = 0; i < CLIENTS; i++) {
		client_wait_calls(&race->answers[i], 1);
	}
}

static void start_bind(struct race *race, size_t client, const char *path, const char *data,
	enum registry_bind_mode mode, bool ephemeral, const struct registry_stat *expected)
{
	struct registry_bind bind = { .data = data,
		.len = strlen(data),
		.mode = mode,
		.ephemeral = ephemeral,
		.parents = true };
	if (expected) {
		bind.expected = *expected;
	}
	registry_bind(race->clients[client], path, &bind, answer_take, &race->answers[client]);
}

EVERY_BACKEND(race, of_two_creators_one_wins)
{
	struct race race;
	struct answer read = { 0 };
	race_start(&race, stage);
	static const char *const data[CLIENTS] = { "first", "second" };
	for (race.round = 0; race.round < ROUNDS; race.round++) {
		char path[64];
		snprintf(path, sizeof(path), "/race/r%zu/node", race.round / 4);
		clear(&race);
		/*
		 * The client that asks first alternates; every fourth time the parents are missing,
		 * too.
		 */
		size_t first = race.round % CLIENTS;
		start_bind(&race, first, path, data[first], REGISTRY_BIND_CREATE, false, NULL);
		start_bind(&race, !first, path, data[!first], REGISTRY_BIND_CREATE, false, NULL);
		finish(&race);
		size_t winner = race.answers[0].err.code == 0 ? 0 : 1;
		assert_answer(&race.answers[winner], "OK");
		assert_answer(&race.answers[!winner], "FileAlreadyExists");
		client_get(stage->registry, path, &read);
		cr_assert_str_eq(read.data, data[winner]);
		client_delete(stage->registry, path, REGISTRY_DELETE_NODE, NULL, &read);
		assert_answer(&read, "OK");
	}
	answer_clear(&read);
	race_end(&race);
}

EVERY_BACKEND(race, overwriting_never_fails_and_leaves_a_whole_write)
{
	struct race race;
	struct answer read = { 0 };
	race_start(&race, stage);
	static const char *const data[CLIENTS] = { "first", "second" };
	for (race.round = 0; race.round < ROUNDS; race.round++) {
		clear(&race);
		for (size_t i = 0; i < CLIENTS; i++) {
			bool ephemeral = (race.round >> i) % 3 == 0;
			start_bind(&race, i, "/race/node", data[i], REGISTRY_BIND_OVERWRITE,
				ephemeral, NULL);
		}
		finish(&race);
		assert_answer(&race.answers[0], "OK");
		assert_answer(&race.answers[1], "OK");
		client_get(stage->registry, "/race/node", &read);
		assert_answer(&read, "OK");
		size_t last = strcmp(read.data, data[0]) == 0 ? 0 : 1;
		cr_assert_str_eq(read.data, data[last]);
		cr_assert_eq(read.stat.node_id, race.answers[last].stat.node_id);
		cr_assert_eq(read.stat.version, race.answers[last].stat.version);
	}
	answer_clear(&read);
	race_end(&race);
}

/* Adds one to the number at /counter, as long as it takes. */
struct adder {
	struct registry *registry;
	size_t left;
};

static void on_counter(void *context, const struct registry_result *result);

static void read_counter(struct adder *adder)
{
	if (adder->left > 0) {
		registry_get(adder->registry, "/counter", on_counter, adder);
	}
}

static void on_added(void *context, const struct registry_result *result)
{
	struct adder *adder = context;
	if (result->err.code == 0) {
		adder->left--;
	} else {
		cr_assert_eq(result->err.code, BERTH_FILE_ALREADY_EXISTS, "%s", result->err.msg);
	}
	read_counter(adder);
}

static void on_counter(void *context, const struct registry_result *result)
{
	struct adder *adder = context;
	cr_assert_eq(result->err.code, 0, "%s", result->err.msg);
	char text[32];
	snprintf(text, sizeof(text), "%d", atoi(result->data) + 1);
	const struct registry_bind bind = { .data = text,
		.len = strlen(text),
		.mode = REGISTRY_BIND_REPLACE,
		.expected = result->stat };
	registry_bind(adder->registry, "/counter", &bind, on_added, adder);
}

static bool both_added(void *context)
{
	const struct adder *adders = context;
	return adders[0].left == 0 && adders[1].left == 0;
}

EVERY_BACKEND(race, conditional_writes_lose_no_update)
{
	struct race race;
	struct answer answer = { 0 };
	race_start(&race, stage);
	struct adder adders[CLIENTS] = { { race.clients[0], ROUNDS / 2 },
		{ race.clients[1], ROUNDS / 2 } };
	client_put(stage->registry, "/counter", "0", REGISTRY_BIND_CREATE, false, &answer);
	read_counter(&adders[0]);
	read_counter(&adders[1]);
	client_wait(both_added, adders);
	client_get(stage->registry, "/counter", &answer);
	cr_assert_eq(atoi(answer.data), ROUNDS);
	answer_clear(&answer);
	race_end(&race);
}

EVERY_BACKEND(race, of_two_deleters_one_deletes)
{
	struct race race;
	struct answer answer = { 0 };
	race_start(&race, stage);
	for (race.round = 0; race.round < ROUNDS; race.round++) {
		client_put(
			stage->registry, "/race/node", "x", REGISTRY_BIND_CREATE, false, &answer);
		assert_answer(&answer, "OK");
		bool recursive = race.round % 2;
		const struct registry_stat *expected = race.round % 4 < 2 ? &answer.stat : NULL;
		clear(&race);
		for (size_t i = 0; i < CLIENTS; i++) {
			registry_delete(race.clients[i], "/race/node", recursive, expected, NULL,
				answer_take, &race.answers[i]);
		}
		finish(&race);
		assert_answer(&race.answers[0], "OK");
		assert_answer(&race.answers[1], "OK");
		cr_assert_eq(race.answers[0].count + race.answers[1].count, 1);
	}
	answer_clear(&answer);
	race_end(&race);
}

EVERY_BACKEND(race, common_parents_are_made_by_either)
{
	struct race race;
	race_start(&race, stage);
	for (race.round = 0; race.round < ROUNDS; race.round++) {
		char paths[CLIENTS][64];
		clear(&race);
		for (size_t i = 0; i < CLIENTS; i++) {
			snprintf(paths[i], sizeof(paths[i]), "/race/r%zu/a/b/c%zu", race.round, i);
			registry_mknode(race.clients[i], paths[i], NULL, true, answer_take,
				&race.answers[i]);
		}
		finish(&race);
		assert_answer(&race.answers[0], "OK");
		assert_answer(&race.answers[1], "OK");
	}
	race_end(&race);
}

EVERY_BACKEND(race, parents_deleted_meanwhile_are_made_again)
{
	struct race race;
	race_start(&race, stage);
	for (race.round = 0; race.round < ROUNDS; race.round++) {
		clear(&race);
		start_bind(&race, 0, "/race/a/b/c", "x", REGISTRY_BIND_OVERWRITE, race.round % 2,
			NULL);
		registry_delete(race.clients[1], race.round % 3 ? "/race/a" : "/race",
			REGISTRY_DELETE_TREE, NULL, NULL, answer_take, &race.answers[1]);
		finish(&race);
		assert_answer(&race.answers[0], "OK");
		assert_answer(&race.answers[1], "OK");
	}
	race_end(&race);
}

/* ---- Two processes ---- */

/*
 * Runs the function in a second process, on a client of its own, and in this one; returns the sum
 * of both counts.
 */
static size_t in_two_processes(
	struct stage *stage, size_t (*racer)(struct registry *registry, size_t number))
{
	int ends[2];
	size_t theirs = 0;
	cr_assert_eq(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		client_forget(stage->registry);
		struct registry *registry = stage_client(stage);
		size_t counted = racer(registry, 1);
		client_close(registry);
		_exit(write(ends[1], &counted, sizeof(counted)) == (ssize_t)sizeof(counted) ? 0
											    : 1);
	}
	close(ends[1]);
	size_t ours = racer(stage->registry, 0);
	cr_assert_eq(read(ends[0], &theirs, sizeof(theirs)), (ssize_t)sizeof(theirs),
		"the other process failed");
	close(ends[0]);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	return ours + theirs;
}

/* An assertion does not work in the other process. */
static void demand(bool good, const struct answer *answer)
{
	if (!good) {
		fprintf(stderr, "%s: %s\n", answer_name(answer), answer->err.msg);
		abort();
	}
}

static bool has_added(void *context)
{
	return ((const struct adder *)context)->left == 0;
}

static size_t add_half(struct registry *registry, size_t number)
{
	(void)number;
	struct adder adder = { registry, ROUNDS / 2 };
	read_counter(&adder);
	client_wait(has_added, &adder);
	return ROUNDS / 2;
}

SHARED_BACKENDS(race, conditional_writes_of_two_processes_lose_no_update)
{
	struct answer answer = { 0 };
	client_put(stage->registry, "/counter", "0", REGISTRY_BIND_CREATE, false, &answer);
	cr_assert_eq(in_two_processes(stage, add_half), ROUNDS);
	client_get(stage->registry, "/counter", &answer);
	cr_assert_eq(atoi(answer.data), ROUNDS);
	answer_clear(&answer);
}

/*
 * How many of the nodes were made by this one. Parents are common, and made by whoever comes first.
 */
static size_t create_all(struct registry *registry, size_t number)
{
	struct answer answer = { 0 };
	size_t made = 0;
	for (size_t round = 0; round < ROUNDS; round++) {
		char path[64];
		snprintf(path, sizeof(path), "/race/r%zu/p%zu", round / 10, round);
		int code = client_put(registry, path, number ? "first" : "second",
			REGISTRY_BIND_CREATE, false, &answer);
		demand(code == 0 || code == BERTH_FILE_ALREADY_EXISTS, &answer);
		made += code == 0;
		client_mknode(registry, path, true, &answer);
		demand(answer.err.code == 0, &answer);
	}
	answer_clear(&answer);
	return made;
}

SHARED_BACKENDS(race, of_two_processes_that_create_one_wins)
{
	cr_assert_eq(in_two_processes(stage, create_all), ROUNDS);
}

/* Both overwrite and delete the same path: no call fails because of the other client. */
static size_t overwrite_and_delete(struct registry *registry, size_t number)
{
	struct answer answer = { 0 };
	for (size_t round = 0; round < ROUNDS; round++) {
		bool ephemeral = (round + number) % 3 == 0;
		client_put(registry, "/race/a/node", number ? "first" : "second",
			REGISTRY_BIND_OVERWRITE, ephemeral, &answer);
		demand(answer.err.code == 0, &answer);
		int code = client_get(registry, "/race/a/node", &answer);
		demand(code == BERTH_PATH_NOT_FOUND ||
				(code == 0 &&
					(strcmp(answer.data, "first") == 0 ||
						strcmp(answer.data, "second") == 0)),
			&answer);
		if (round % 4 == 0) {
			client_delete(registry, "/race", REGISTRY_DELETE_TREE, NULL, &answer);
			demand(answer.err.code == 0, &answer);
		}
	}
	answer_clear(&answer);
	return ROUNDS;
}

SHARED_BACKENDS(race, two_processes_that_overwrite_and_delete_see_no_error)
{
	cr_assert_eq(in_two_processes(stage, overwrite_and_delete), 2 * ROUNDS);
}

int main(int argc, char **argv)
{
	return stage_main(argc, argv);
}
