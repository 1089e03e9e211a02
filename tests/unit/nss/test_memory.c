/* LINK: nss/memory.o */
/* The map in a process that did not ask for it: threads, forks, and maps that come and go. */
#include "nss/memory.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shared/map.h"
#include "lib/base/clock.h"

#define SOCKET "/run/test.sock"
#define KEY "/v1/names/db.berth text/plain"
#define FOREVER INT64_MAX

enum { SIZE = 64 * 1024, THREADS = 3, MAPS = 300, PATIENCE_MS = 10000 };

TestSuite(nss_memory, .timeout = 120);

/* A map with this answer for KEY, or an error. */
static struct map *make_map(const char *value, int error)
{
	struct map *map;
	struct err err = ERR_INIT;
	const struct map_entry entry = { .key = KEY,
		.key_len = strlen(KEY),
		.tag = "",
		.value = value,
		.value_len = strlen(value),
		.error = error };
	cr_assert_eq(map_create(&map, SIZE, &err), 0, "%s", err.msg);
	cr_assert_neq(map_put(map, &entry), MAP_NONE);
	map_begin(map, FOREVER);
	return map;
}

/* The agent's answer is there before the question. */
static void get(const struct map *map)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}\n";
	int ends[2];
	int fd = map_fd(map);
	union {
		struct cmsghdr aligned;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = "" };
	struct iovec part = { (void *)(uintptr_t)answer, sizeof(answer) - 1 };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	cr_assert_gt(sendmsg(ends[1], &message, 0), 0);
	nss_memory_fetch(SOCKET, ends[0], clock_monotonic_ms() + PATIENCE_MS);
	close(ends[0]);
	close(ends[1]);
}

static enum nss_memory_outcome look(char *value, size_t size)
{
	return nss_memory_read(SOCKET, KEY, value, size);
}

/* How many maps the process has mapped. */
static size_t count_mappings(void)
{
	char line[512];
	size_t count = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	cr_assert(maps);
	while (fgets(line, sizeof(line), maps)) {
		/* The writer's own mapping may be written to. */
		count += strstr(line, "berth-shared") && strstr(line, " r--s ");
	}
	fclose(maps);
	return count;
}

Test(nss_memory, an_answer_and_an_absence_are_read)
{
	char value[64];
	cr_assert_eq(look(value, sizeof(value)), NSS_MEMORY_NONE);
	struct map *map = make_map("A 10.0.0.1\n", 0);
	get(map);
	cr_assert_eq(look(value, sizeof(value)), NSS_MEMORY_FOUND);
	cr_expect_str_eq(value, "A 10.0.0.1\n");
	cr_expect_eq(nss_memory_read(SOCKET, "/v1/names/x text/plain", value, sizeof(value)),
		NSS_MEMORY_UNKNOWN);
	map_destroy(map);
	cr_expect_eq(look(value, sizeof(value)), NSS_MEMORY_NONE);
	map = make_map("no record has the name", BERTH_PATH_NOT_FOUND);
	get(map);
	cr_expect_eq(look(value, sizeof(value)), NSS_MEMORY_ABSENT);
	map_destroy(map);
}

Test(nss_memory, a_retired_map_is_unmapped)
{
	char value[64];
	struct map *map = make_map("A 10.0.0.1\n", 0);
	get(map);
	cr_expect_eq(count_mappings(), 1);
	map_destroy(map);
	cr_expect_eq(look(value, sizeof(value)), NSS_MEMORY_NONE);
	cr_expect_eq(count_mappings(), 0);
}

Test(nss_memory, the_map_of_another_agent_is_not_used)
{
	char value[64];
	struct map *map = make_map("A 10.0.0.1\n", 0);
	get(map);
	cr_expect_eq(
		nss_memory_read("/run/other.sock", KEY, value, sizeof(value)), NSS_MEMORY_NONE);
	cr_expect_eq(look(value, sizeof(value)), NSS_MEMORY_NONE);
	cr_expect_eq(count_mappings(), 0);
	map_destroy(map);
}

Test(nss_memory, a_process_that_looks_up_little_gets_no_map)
{
	cr_expect_not(nss_memory_wants_map());
	cr_expect_not(nss_memory_wants_map());
	cr_expect(nss_memory_wants_map());
	struct map *map = make_map("A 10.0.0.1\n", 0);
	get(map);
	cr_expect_not(nss_memory_wants_map());
	map_destroy(map);
}

Test(nss_memory, the_map_of_a_dead_agent_is_left)
{
	char value[64];
	struct map *map = make_map("A 10.0.0.1\n", 0);
	get(map);
	map_extend(map, 1);
	cr_expect_eq(look(value, sizeof(value)), NSS_MEMORY_UNKNOWN);
	while (look(value, sizeof(value)) == NSS_MEMORY_UNKNOWN) {
		usleep(1000);
	}
	cr_expect_eq(look(value, sizeof(value)), NSS_MEMORY_NONE);
	cr_expect_eq(count_mappings(), 0);
	map_destroy(map);
}

static _Atomic bool ends;
static _Atomic size_t found;
static _Atomic size_t wrong;

static void *read_on(void *context)
{
	char value[64];
	(void)context;
	while (!ends) {
		enum nss_memory_outcome outcome = look(value, sizeof(value));
		found += outcome == NSS_MEMORY_FOUND;
		wrong += outcome == NSS_MEMORY_FOUND && strcmp(value, "A 10.0.0.1\n") != 0;
	}
	return NULL;
}

/* A reader in an unmapped map would be killed. */
Test(nss_memory, threads_read_while_maps_come_and_go)
{
	pthread_t threads[THREADS];
	for (size_t i = 0; i < THREADS; i++) {
		cr_assert_eq(pthread_create(&threads[i], NULL, read_on, NULL), 0);
	}
	for (size_t i = 0; i < MAPS; i++) {
		struct map *map = make_map("A 10.0.0.1\n", 0);
		char value[64];
		size_t before = found;
		get(map);
		while (found == before) {
			usleep(100);
		}
		map_destroy(map);
		while (look(value, sizeof(value)) != NSS_MEMORY_NONE) {
		}
	}
	ends = true;
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	cr_expect_eq(wrong, 0);
	cr_expect_eq(count_mappings(), 0);
}

Test(nss_memory, children_forked_between_threads_read_and_follow)
{
	pthread_t threads[THREADS];
	struct map *map = make_map("A 10.0.0.1\n", 0);
	get(map);
	for (size_t i = 0; i < THREADS; i++) {
		cr_assert_eq(pthread_create(&threads[i], NULL, read_on, NULL), 0);
	}
	for (size_t i = 0; i < 30; i++) {
		pid_t child = fork();
		if (child == 0) {
			char value[64];
			bool reads = look(value, sizeof(value)) == NSS_MEMORY_FOUND;
			map_destroy(map);
			bool notices = look(value, sizeof(value)) == NSS_MEMORY_NONE;
			struct map *next = make_map("A 10.0.0.2\n", 0);
			get(next);
			bool follows = look(value, sizeof(value)) == NSS_MEMORY_FOUND &&
				strcmp(value, "A 10.0.0.2\n") == 0;
			_exit(reads && notices && follows ? 0 : 1);
		}
		int status;
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_assert_eq(status, 0);
		char value[64];
		while (look(value, sizeof(value)) != NSS_MEMORY_NONE) {
		}
		map_destroy(map);
		map = make_map("A 10.0.0.1\n", 0);
		get(map);
	}
	ends = true;
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	map_destroy(map);
}
