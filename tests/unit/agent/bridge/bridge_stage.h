/*
 * The bridge's parts on a registry in memory, on real directories, with a state directory and a
 * server. Nothing happens but when the test turns the loop, or runs a container.
 */
#ifndef TESTS_UNIT_AGENT_BRIDGE_BRIDGE_STAGE_H
#define TESTS_UNIT_AGENT_BRIDGE_BRIDGE_STAGE_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/base/registry_loop.h"
#include "agent/bridge/book.h"
#include "agent/bridge/publish.h"
#include "agent/http/http.h"
#include "lib/registry/registry_dir.h"
#include "tests/support/descriptors.h"
#include "tests/support/memory_backend.h"
#include "tests/support/registry_client.h"
#include "tests/support/run_until.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

#define RECORD(text) "{\"type\":\"JSONServiceRecord\",\"description\":\"" text "\"}"

struct bridge_stage {
	char folder[SCRATCH_PATH];
	struct ev_loop *loop;
	struct registry *registry;
	struct registry_loop driver;
	struct file_queue *files;
	struct state_dir state;
	struct bridge_book *book;
	struct http *http;
	int saved;          /* calls of on_saved() */
	bool session_hangs; /* the session is not on the disk */
	const char *taken;  /* a path of the host's own; NULL: none */
	int changes;        /* calls of on_change() */
	int descriptors;
};

static inline const char *stage_file(const struct bridge_stage *stage, const char *name)
{
	static char path[SCRATCH_PATH + LIMIT_PATH_BYTES];
	snprintf(path, sizeof(path), "%s/%s", stage->folder, name);
	return path;
}

static inline void stage_on_saved(void *context)
{
	((struct bridge_stage *)context)->saved++;
}

static inline bool stage_session_is_saved(void *context)
{
	return !((struct bridge_stage *)context)->session_hangs;
}

static inline bool stage_is_taken(void *context, const char *path)
{
	const struct bridge_stage *stage = context;
	return stage->taken && strcmp(stage->taken, path) == 0;
}

static inline void stage_on_change(void *context)
{
	((struct bridge_stage *)context)->changes++;
}

static inline void stage_open_state(struct bridge_stage *stage)
{
	struct err err = ERR_INIT;
	cr_assert_eq(
		state_dir_init(&stage->state, stage_file(stage, "state"), -1, stage->files, &err),
		0, "%s", err.msg);
	stage->book = bridge_book_create(stage->loop, &stage->state, stage_on_saved, stage);
}

static inline void stage_open_server(struct bridge_stage *stage)
{
	struct err err = ERR_INIT;
	const struct http_options options = { .socket_path = stage_file(stage, "socket"),
		.socket_mode = 0600,
		.socket_group_id = (unsigned)-1,
		.socket_fd = -1,
		.listen_fd = -1,
		.max_connections = 40,
		.idle_timeout_ms = 60000 };
	cr_assert_eq(http_open(&stage->http, stage->loop, &options, &err), 0, "%s", err.msg);
}

static inline void stage_make_parents(const struct bridge_stage *stage, const char *path)
{
	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		char *parent = strndup(path, (size_t)(slash - path));
		memory_put(stage->registry, parent, "");
		free(parent);
	}
}

static inline struct bridge_stage *stage_open(
	struct bridge_stage *stage, const struct registry_options *options)
{
	signal(SIGPIPE, SIG_IGN);
	scratch_folder(stage->folder);
	stage->descriptors = descriptors_count();
	stage->loop = ev_default_loop(EVFLAG_AUTO);
	stage->files = file_queue_create(stage->loop);
	stage_open_state(stage);
	stage_open_server(stage);
	stage->registry = memory_open("bridge", options);
	registry_loop_init(&stage->driver, stage->loop, stage->registry);
	stage_make_parents(stage, "/services/x");
	RUN_UNTIL(stage->loop, registry_state(stage->registry) == REGISTRY_CONNECTED);
	return stage;
}

static inline void stage_close_state(struct bridge_stage *stage)
{
	cr_assert(file_queue_wait(stage->files, 60000));
	bridge_book_destroy(stage->book);
	state_dir_finish(&stage->state);
}

static inline void stage_close(struct bridge_stage *stage)
{
	char command[SCRATCH_PATH + 16];
	registry_loop_finish(&stage->driver);
	registry_close(stage->registry);
	http_close(stage->http);
	stage_close_state(stage);
	file_queue_destroy(stage->files);
	ev_loop_destroy(stage->loop);
	cr_expect_eq(descriptors_count(), stage->descriptors);
	snprintf(command, sizeof(command), "rm -rf %s", stage->folder);
	cr_assert_eq(system(command), 0);
}

/* Directories that the kernel watches for this process. */
static inline int stage_watched(void)
{
	int count = 0;
	for (int fd = 0; fd < 100; fd++) {
		char text[512];
		snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", fd);
		FILE *file = fopen(text, "re");
		while (file && fgets(text, sizeof(text), file)) {
			count += strstr(text, "inotify wd:") != NULL;
		}
		if (file) {
			fclose(file);
		}
	}
	return count;
}

/* Lines of the log, which is this file, with this text since the last call. */
static inline int stage_logged(int log, const char *text)
{
	static char lines[65536];
	int count = 0;
	ssize_t len = pread(log, lines, sizeof(lines) - 1, 0);
	cr_assert_geq(len, 0);
	lines[len] = '\0';
	for (const char *at = lines; (at = strstr(at, text)); at++) {
		count++;
	}
	cr_assert_eq(ftruncate(log, 0), 0);
	cr_assert_eq(lseek(log, 0, SEEK_SET), 0);
	return count;
}

/* The log goes to this file. */
static inline int stage_begin_log(void)
{
	int log = memfd_create("log", MFD_CLOEXEC);
	dup2(log, STDERR_FILENO);
	return log;
}

/* The node's data in the registry now; NULL: no node. Valid until the next call. */
static inline const char *stage_node(const struct bridge_stage *stage, const char *path)
{
	static struct answer answer;
	answer_clear(&answer);
	cr_assert(registry_get(stage->registry, path, answer_take, &answer) != NULL);
	RUN_UNTIL(stage->loop, answer.calls > 0);
	return answer.err.code == 0 ? answer.data : NULL;
}

static inline bool stage_has(const struct bridge_stage *stage, const char *path, const char *text)
{
	const char *data = stage_node(stage, path);
	return data && strstr(data, text);
}

static inline void stage_put(
	const struct bridge_stage *stage, const char *name, const char *data, size_t len)
{
	int fd = open(stage_file(stage, name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	cr_assert_geq(fd, 0, "%s", name);
	cr_assert_eq(write(fd, data, len), (ssize_t)len);
	close(fd);
}

/*
 * A node of a container's registry, whose directory is `name` below the folder; the descriptor
 * that has its owner's lock.
 */
static inline int stage_own(const struct bridge_stage *stage, const char *name, const char *record)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char file[LIMIT_PATH_BYTES];
	mkdir(stage_file(stage, name), 0755);
	snprintf(file, sizeof(file), "%s/" DIR_RECORD, name);
	stage_put(stage, file, record, strlen(record));
	snprintf(file, sizeof(file), "%s/" DIR_OWNER, name);
	stage_put(stage, file, "me", 2);
	int fd = open(stage_file(stage, file), O_RDWR | O_CLOEXEC);
	cr_assert_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	return fd;
}

/* Withdrawn, not dead. */
static inline void stage_withdraw(int owner)
{
	cr_assert_eq(ftruncate(owner, 0), 0);
	close(owner);
}

static inline void stage_remove(const struct bridge_stage *stage, const char *name)
{
	char command[SCRATCH_PATH + LIMIT_PATH_BYTES];
	snprintf(command, sizeof(command), "rm -rf '%s'", stage_file(stage, name));
	cr_assert_eq(system(command), 0);
}

#endif
