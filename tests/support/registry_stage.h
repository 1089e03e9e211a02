/*
 * A fresh registry on each backend, so that one test runs on all of them:
 *
 *     EVERY_BACKEND(operations, delete_of_nothing_is_no_error)
 *     {
 *             client_delete(stage->registry, …);
 *     }
 *
 *     int main(int argc, char **argv) { return stage_main(argc, argv); }
 *
 * makes the tests operations_memory::…, operations_dir::… and operations_zookeeper::….
 */
#ifndef TESTS_SUPPORT_REGISTRY_STAGE_H
#define TESTS_SUPPORT_REGISTRY_STAGE_H

#include <criterion/criterion.h>

#include "tests/support/registry_client.h"

/* STAGE_DIR_CHILDREN: as the agent uses a directory that others can open. */
enum stage_backend { STAGE_MEMORY, STAGE_DIR, STAGE_DIR_CHILDREN, STAGE_ZOOKEEPER };

struct stage {
	enum stage_backend backend;
	char url[512];             /* an empty registry of this test's own */
	struct registry *registry; /* connected */
};

/*
 * Starts one ZooKeeper and makes one directory for all tests of the program, runs them, and takes
 * both away.
 */
int stage_main(int argc, char **argv);

/*
 * Closes a client, and returns when the stage's own registry sees that the session is over:
 * ZooKeeper's client library sends the end of a session and waits for no answer, so that a read
 * through another connection may come before it.
 */
void stage_client_end(struct stage *stage, struct registry *client);

/* Opens a stage, runs the test on it, closes it. */
void stage_run(enum stage_backend backend, void (*test)(struct stage *stage));

/* One more client of the same registry, connected. */
struct registry *stage_client(struct stage *stage);
struct registry *stage_client_with(struct stage *stage, struct registry_options options);

/* Makes or overwrites a node. */
struct registry_stat stage_put(struct stage *stage, const char *path, const char *data);
bool stage_has(struct registry *registry, const char *path);

#define EVERY_BACKEND(suite, name)                                                                 \
	static void name(struct stage *stage);                                                     \
	Test(suite##_memory, name)                                                                 \
	{                                                                                          \
		stage_run(STAGE_MEMORY, name);                                                     \
	}                                                                                          \
	Test(suite##_dir, name)                                                                    \
	{                                                                                          \
		stage_run(STAGE_DIR, name);                                                        \
	}                                                                                          \
	Test(suite##_dir_children, name)                                                           \
	{                                                                                          \
		stage_run(STAGE_DIR_CHILDREN, name);                                               \
	}                                                                                          \
	Test(suite##_zookeeper, name)                                                              \
	{                                                                                          \
		stage_run(STAGE_ZOOKEEPER, name);                                                  \
	}                                                                                          \
	static void name(struct stage *stage)

/* Only those that several processes can share. */
#define SHARED_BACKENDS(suite, name)                                                               \
	static void name(struct stage *stage);                                                     \
	Test(suite##_dir, name)                                                                    \
	{                                                                                          \
		stage_run(STAGE_DIR, name);                                                        \
	}                                                                                          \
	Test(suite##_dir_children, name)                                                           \
	{                                                                                          \
		stage_run(STAGE_DIR_CHILDREN, name);                                               \
	}                                                                                          \
	Test(suite##_zookeeper, name)                                                              \
	{                                                                                          \
		stage_run(STAGE_ZOOKEEPER, name);                                                  \
	}                                                                                          \
	static void name(struct stage *stage)

/* The code of the last answer, by name. */
#define assert_answer(answer, name)                                                                \
	cr_assert_str_eq(answer_name(answer), name, "%s, not %s: %s", answer_name(answer), name,   \
		(answer)->err.msg)

#endif
