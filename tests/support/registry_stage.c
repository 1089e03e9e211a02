#include "registry_stage.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory_backend.h"
#include "zookeeper.h"

#define ZOOKEEPER_VARIABLE "STAGE_ZOOKEEPER_URL"
#define DIR_VARIABLE "STAGE_DIR"

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* In memory where that is possible: thousands of fsync() on a disk tell nothing new. */
static void make_dir(char *out, size_t size)
{
	const char *disk = getenv("TMPDIR");
	const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : disk ? disk : "/tmp";
	snprintf(out, size, "%s/berth-stage-XXXXXX", place);
	if (!mkdtemp(out)) {
		perror(out);
		exit(1);
	}
}

int stage_main(int argc, char **argv)
{
	struct criterion_test_set *tests = criterion_initialize();
	int result = 0;
	if (criterion_handle_args(argc, argv, true)) {
		char dir[256];
		make_dir(dir, sizeof(dir));
		setenv(DIR_VARIABLE, dir, 1);
		struct zookeeper_server *server = zookeeper_server_start();
		setenv(ZOOKEEPER_VARIABLE, zookeeper_server_url(server), 1);
		result = !criterion_run_all_tests(tests);
		zookeeper_server_stop(server);
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

static void make_url(struct stage *stage)
{
	int len = 0;
	switch (stage->backend) {
	case STAGE_MEMORY:
		len = snprintf(stage->url, sizeof(stage->url), "memory");
		break;
	case STAGE_DIR:
		len = snprintf(stage->url, sizeof(stage->url), "dir:%s/%d", variable(DIR_VARIABLE),
			(int)getpid());
		break;
	case STAGE_ZOOKEEPER:
		/* Every test is a process: a root of its own name. */
		len = snprintf(stage->url, sizeof(stage->url), "%s-%d",
			variable(ZOOKEEPER_VARIABLE), (int)getpid());
		break;
	}
	cr_assert((size_t)len < sizeof(stage->url));
}

struct registry *stage_client_with(struct stage *stage, struct registry_options options)
{
	struct registry *registry;
	options.url = stage->url;
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

void stage_run(enum stage_backend backend, void (*test)(struct stage *stage))
{
	struct stage stage = { .backend = backend };
	make_url(&stage);
	stage.registry = stage_client(&stage);
	test(&stage);
	client_close(stage.registry);
}
