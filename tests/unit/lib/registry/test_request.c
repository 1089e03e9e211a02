/* The parts that all requests share: their deadlines, and the two paths of a node. */
#include "tests/support/core_stage.h"

#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/limits.h"
#include "lib/registry/internal.h"

#define ROOT "/registry/One"

enum { TIMEOUT_MS = 54321 };

static void note_deadline(void *context, const struct registry_task *task, struct err *err)
{
	(void)err;
	*(int64_t *)context = task->deadline_ms;
}

Test(registry_request, is_given_up_behind_the_timeout_of_the_options)
{
	const struct registry_options options = { .request_timeout_ms = TIMEOUT_MS };
	struct registry *registry = memory_open("core", &options);
	struct answer answer = { 0 };
	int64_t deadline_ms = 0;
	client_add(registry);
	client_wait_state(registry, REGISTRY_CONNECTED);
	memory_on_task(registry, note_deadline, &deadline_ms);
	int64_t before_ms = clock_monotonic_ms();
	client_get(registry, "/", &answer);
	cr_assert_geq(deadline_ms, before_ms + TIMEOUT_MS);
	cr_assert_leq(deadline_ms, clock_monotonic_ms() + TIMEOUT_MS);
	client_close(registry);
	answer_clear(&answer);
}

/* ---- twins ---- */

static const char *root(const struct registry_backend *backend)
{
	(void)backend;
	return ROOT;
}

/* A registry whose nodes lie below ROOT on its server. */
static struct registry *open_below_root(bool foreign_paths)
{
	static struct registry_backend_ops ops;
	const struct registry_options options = { .foreign_paths = foreign_paths };
	struct registry *registry = NULL;
	struct err err = ERR_INIT;
	ops = memory_ops;
	ops.root = root;
	cr_assert_eq(registry_open_backend(&registry, &ops, "core", &options, &err), 0);
	return registry;
}

static void assert_twin(const struct registry *registry, const char *path, const char *twin)
{
	char found[LIMIT_PATH_BYTES + 1];
	cr_assert_eq(registry_path_twin(registry, path, found), twin != NULL, "%s", path);
	cr_assert(!twin || strcmp(found, twin) == 0, "%s, not %s", found, twin);
}

Test(registry_request, a_node_has_a_path_here_and_one_on_its_server)
{
	struct registry *registry = open_below_root(true);
	assert_twin(registry, "/a/b", "/" ROOT "/a/b");
	assert_twin(registry, "/" ROOT "/a/b", "/a/b");
	assert_twin(registry, "/" ROOT, "/");
	assert_twin(registry, "/" ROOT "s/a", NULL);
	assert_twin(registry, "//registry", NULL);
	assert_twin(registry, "//other/a/much/longer/path", NULL);
	registry_close(registry);
}

Test(registry_request, a_node_has_one_path_where_foreign_ones_are_not_taken)
{
	struct registry *registry = open_below_root(false);
	assert_twin(registry, "/a", NULL);
	assert_twin(registry, "/" ROOT "/a", NULL);
	registry_close(registry);
}

Test(registry_request, a_path_on_the_server_has_a_limit)
{
	struct registry *registry = open_below_root(true);
	char path[LIMIT_PATH_BYTES + 1] = "/";
	char twin[LIMIT_PATH_BYTES + 1] = "/" ROOT;
	size_t room = LIMIT_PATH_BYTES - strlen(twin);
	memset(path + 1, 'a', room - 1);
	path[room] = '\0';
	strcat(twin, path);
	cr_assert_eq(strlen(twin), LIMIT_PATH_BYTES);
	assert_twin(registry, path, twin);
	strcat(path, "a");
	assert_twin(registry, path, NULL);
	registry_close(registry);
}
