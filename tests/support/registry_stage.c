#include "tests/support/registry_stage.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/memory_backend.h"
#include "tests/support/scratch.h"
#include "tests/support/zookeeper.h"

#define ZOOKEEPER_VARIABLE "STAGE_ZOOKEEPER_URL"
#define DIR_VARIABLE "STAGE_DIR"
/* With it no server is started: tests/mutants/run leaves out the tests that need ZooKeeper. */
#define WITHOUT_VARIABLE "BERTH_WITHOUT_ZOOKEEPER"
/*
 * All ephemeral nodes of a session go in one transaction, so that the end of one proves the end of
 * all.
 */
#define ENDING_PATH "/ending"

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

int stage_main(int argc, char **argv)
{
	struct criterion_test_set *tests = criterion_initialize();
	int result = 0;
	if (criterion_handle_args(argc, argv, true)) {
		char dir[SCRATCH_PATH];
		scratch_memory_folder(dir);
		cr_assert_eq(chmod(dir, 0755), 0); /* so that others can open it */
		setenv(DIR_VARIABLE, dir, 1);
		struct zookeeper_server *server = NULL;
		if (!getenv(WITHOUT_VARIABLE)) {
			server = zookeeper_server_share();
			setenv(ZOOKEEPER_VARIABLE, zookeeper_server_url(server), 1);
		}
		result = !criterion_run_all_tests(tests);
		if (server) {
			zookeeper_server_stop(server);
		}
		nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	}
	criterion_finalize(tests);
	return result;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	cr_assert(value, "%s is not set: stage_main() is to start the tests", name);
	return value;
}

/*
 * Every test is a process, but the number of a process that has ended may come again: then the
 * clock has gone on. The root on ZooKeeper has a name that no node below it may have.
 */
static void make_url(struct stage *stage)
{
	struct timespec now;
	char test[64];
	int len = 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(test, sizeof(test), "%d-%lld-%ld", (int)getpid(), (long long)now.tv_sec,
		now.tv_nsec);
	switch (stage->backend) {
	case STAGE_MEMORY:
		len = snprintf(stage->url, sizeof(stage->url), "memory");
		break;
	case STAGE_DIR:
	case STAGE_DIR_CHILDREN:
		len = snprintf(
			stage->url, sizeof(stage->url), "dir:%s/%s", variable(DIR_VARIABLE), test);
		break;
	case STAGE_ZOOKEEPER:
		len = snprintf(stage->url, sizeof(stage->url), "%s of Zo\xc3\xab-%s",
			variable(ZOOKEEPER_VARIABLE), test);
		break;
	}
	cr_assert((size_t)len < sizeof(stage->url));
}

struct registry *stage_client_with(struct stage *stage, struct registry_options options)
{
	struct registry *registry;
	options.url = stage->url;
	options.forks = stage->backend == STAGE_DIR_CHILDREN;
	options.own_tree = stage->backend == STAGE_DIR;
	if (stage->backend == STAGE_MEMORY) {
		registry = memory_open("stage", &options);
		client_add(registry);
	} else {
		registry = client_open_with(&options);
	}
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

struct registry *stage_client(struct stage *stage)
{
	return stage_client_with(stage, (struct registry_options){ 0 });
}

static bool is_absent(void *context)
{
	return ((struct answer *)context)->err.code == BERTH_PATH_NOT_FOUND;
}

void stage_client_end(struct stage *stage, struct registry *client)
{
	struct answer seen = { 0 };
	struct registry_watch *watch;
	if (stage->backend != STAGE_ZOOKEEPER) {
		client_close(client);
		return;
	}
	client_put(client, ENDING_PATH, "x", REGISTRY_BIND_CREATE, true, &seen);
	assert_answer(&seen, "OK");
	client_close(client);
	answer_clear(&seen);
	watch = registry_watch(
		stage->registry, ENDING_PATH, REGISTRY_WATCH_DATA, answer_take, &seen);
	client_wait(is_absent, &seen);
	registry_unwatch(watch);
	answer_clear(&seen);
}

void stage_run(enum stage_backend backend, void (*test)(struct stage *stage))
{
	struct stage stage = { .backend = backend };
	make_url(&stage);
	stage.registry = stage_client(&stage);
	test(&stage);
	client_close(stage.registry);
}

struct registry_stat stage_put(struct stage *stage, const char *path, const char *data)
{
	struct answer answer = { 0 };
	client_put(stage->registry, path, data, REGISTRY_BIND_OVERWRITE, false, &answer);
	assert_answer(&answer, "OK");
	struct registry_stat stat = answer.stat;
	answer_clear(&answer);
	return stat;
}

bool stage_has(struct registry *registry, const char *path)
{
	struct answer answer = { 0 };
	int code = client_stat(registry, path, &answer);
	cr_assert(code == 0 || code == BERTH_PATH_NOT_FOUND, "%s: %s", path, answer.err.msg);
	answer_clear(&answer);
	return code == 0;
}
