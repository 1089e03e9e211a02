/* The life of an agent from its start to its end: signals, the service manager, a main process. */

#include <ev.h>
#include <jansson.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/sysmacros.h>

#include "lib/base/buffer.h"
#include "tests/support/failing.h"
#include "tests/support/rights.h"
#include "tests/unit/agent/agent_stage.h"

enum { NOBODY = 65534 };

TestSuite(agent, .init = begin, .fini = end);

/* ---- its life ---- */

Test(agent, it_serves_until_it_is_asked_to_end)
{
	serve(COMPONENT("a") COMPONENT("b"));
	UNTIL(has(get("/v1/list/app"), "[\"/app/a\",\"/app/b\"]"));
	cr_expect(has(get("/v1/agent"), "\"phase\":\"running\""));
	cr_expect(has(get("/metrics"), "berth_registered{component=\"a\"} 1"));
	cr_expect_eq(logged("berthd " BERTH_VERSION " runs, pid "), 1);
	cr_expect_eq(logged("ended"), 0);
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_eq(logged("SIGTERM"), 1);
	cr_expect_eq(logged("ended"), 1);
	cr_expect_eq(logged("left behind"), 0);
	cr_expect_eq(logged("the disk did not answer"), 0);
	cr_expect_not(is_there("s"));
	cr_expect_not(is_there("d/app/a"), "no record is left");
	cr_expect(is_there("state/history"));
	cr_expect(is_there("state/cache"));
}

Test(agent, an_interrupt_ends_it_too)
{
	serve(COMPONENT("a"));
	cr_expect_eq(stop(SIGINT), 0);
	cr_expect_neq(logged("SIGINT"), 0);
}

Test(agent, a_quit_leaves_the_records_of_its_session)
{
	serve(COMPONENT("a"));
	cr_expect_eq(stop(SIGQUIT), 0);
	cr_expect_neq(logged("SIGQUIT"), 0);
	cr_expect(is_there("state/history"), "what it knows is saved");
	cr_expect_eq(logged("the disk did not answer"), 0);
}

Test(agent, a_reload_is_asked_for_by_a_signal)
{
	serve(COMPONENT("a") COMPONENT("b"));
	UNTIL(has(get("/v1/list/app"), "/app/b"));
	configure(COMPONENT("a") COMPONENT("c"));
	kill(stage.pid, SIGHUP);
	UNTIL(has(get("/v1/list/app"), "[\"/app/a\",\"/app/c\"]"));
	UNTIL(!has(get("/metrics"), "berth_registered{component=\"b\"}"));
	configure("bad = yes\n");
	kill(stage.pid, SIGHUP);
	UNTIL(has(get("/v1/agent"), "\"reload_problems\""));
	cr_expect(has(get("/v1/list/app"), "[\"/app/a\",\"/app/c\"]"));
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent, a_drain_ends_with_an_order)
{
	serve(COMPONENT("a"));
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	ask("POST", "/v1/agent/drain");
	UNTIL(has(get("/v1/agent"), "\"done\":true"));
	cr_expect(has(get("/v1/list/app"), "[]"), "%s", stage.answer);
	ask("DELETE", "/v1/agent/drain");
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	cr_expect_eq(stop(SIGTERM), 0);
}

/* A component without a port is never seen to be without connections. */
Test(agent, a_drain_that_may_end_early_waits_for_connections)
{
	serve("drain_delay = 1h\ndrain_early = yes\n" COMPONENT("a"));
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	ask("POST", "/v1/agent/drain");
	UNTIL(has(get("/v1/list/app"), "[]"));
	cr_expect(has(get("/v1/agent"), "\"done\":false"), "%s", stage.answer);
	cr_expect_eq(stop(SIGQUIT), 0);
}

Test(agent, a_drain_of_a_component_survives_a_restart)
{
	serve(COMPONENT("a") COMPONENT("b"));
	ask("POST", "/v1/agent/components/a/drain");
	UNTIL(has(get("/metrics"), "berth_draining{component=\"a\"} 1"));
	cr_expect_eq(stop(SIGTERM), 0);
	serve(COMPONENT("a") COMPONENT("b"));
	cr_expect(has(get("/metrics"), "berth_draining{component=\"a\"} 1"));
	cr_expect(has(get("/metrics"), "berth_draining{component=\"b\"} 0"));
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent, other_signals_without_a_main_process_are_nothing)
{
	serve("");
	kill(stage.pid, SIGUSR1);
	cr_expect(has(get("/v1/agent"), "\"running\""));
	cr_expect_eq(stop(SIGTERM), 0);
}

/* ---- the service manager ---- */

static bool hears(int fd, const char *text)
{
	char message[1024];
	ssize_t len = recv(fd, message, sizeof(message) - 1, MSG_DONTWAIT);
	message[len > 0 ? len : 0] = '\0';
	return strcmp(message, text) == 0;
}

Test(agent, the_service_manager_hears_how_it_is)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	text_printf(address.sun_path, sizeof(address.sun_path), "%s", in("notify"));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fd, (void *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	setenv("WATCHDOG_USEC", "20000", 1);
	serve(COMPONENT("a"));
	UNTIL(hears(fd, "READY=1"));
	UNTIL(hears(fd, "STATUS=every component is registered"));
	for (int i = 0; i < 3; i++) {
		UNTIL(hears(fd, "WATCHDOG=1"));
	}
	ask("POST", "/v1/agent/drain");
	UNTIL(hears(fd, "STATUS=component a is withdrawn") ||
		has(get("/v1/agent"), "\"done\":true"));
	cr_expect_eq(stop(SIGTERM), 0);
	close(fd);
}

Test(agent, a_watchdog_may_be_as_quick_as_two_milliseconds)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	text_printf(address.sun_path, sizeof(address.sun_path), "%s", in("notify"));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fd, (void *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	setenv("WATCHDOG_USEC", "2000", 1);
	serve("");
	for (int i = 0; i < 3; i++) {
		UNTIL(hears(fd, "WATCHDOG=1"));
	}
	cr_expect_eq(stop(SIGTERM), 0);
	close(fd);
}

Test(agent, a_manager_without_a_watchdog_hears_nothing_of_it)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char message[1024];
	text_printf(address.sun_path, sizeof(address.sun_path), "%s", in("notify"));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fd, (void *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	serve("");
	UNTIL(hears(fd, "READY=1"));
	cr_expect_eq(stop(SIGTERM), 0);
	ssize_t len;
	while ((len = recv(fd, message, sizeof(message) - 1, MSG_DONTWAIT)) > 0) {
		message[len] = '\0';
		cr_expect_str_neq(message, "WATCHDOG=1");
	}
	close(fd);
}

Test(agent, a_descriptor_to_be_ready_on_has_to_be_open)
{
	configure("");
	cr_expect_eq(RUN("--ready-fd", "987"), 2);
	cr_expect(has(text_in("log"), "berthd: --ready-fd 987 is not open\n"));
	cr_expect_not(is_there("state"));
}

/* ---- its process ---- */

/* A line of /proc/PID/FILE that begins so; "" without one. */
static const char *line_of(const char *file, const char *begins)
{
	static char line[1024];
	char path[64];
	snprintf(path, sizeof(path), "/proc/%ld/%s", (long)stage.pid, file);
	FILE *stream = fopen(path, "r");
	cr_assert_not_null(stream);
	bool found = false;
	while (!found && fgets(line, sizeof(line), stream)) {
		found = strncmp(line, begins, strlen(begins)) == 0;
	}
	fclose(stream);
	return found ? line : "";
}

static bool ignores(int signal_number)
{
	unsigned long long set = 0;
	sscanf(line_of("status", "SigIgn:"), "SigIgn: %llx", &set);
	return set >> (signal_number - 1) & 1;
}

Test(agent, it_survives_writes_to_nobody_and_leaves_no_core)
{
	unsigned long soft = 1;
	struct rlimit limit;
	getrlimit(RLIMIT_CORE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_CORE, &limit);
	serve("");
	cr_expect(ignores(SIGPIPE));
	cr_expect(ignores(SIGXFSZ));
	cr_assert_eq(
		sscanf(line_of("limits", "Max core file size"), "Max core file size %lu", &soft),
		1);
	cr_expect_eq(soft, 0);
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect(has(text_in("process"), "reaps orphans 1\n"));
}

#ifndef __SANITIZE_ADDRESS__ /* whose leak check has to look into it */
Test(agent, nothing_dumps_its_memory)
{
	serve("");
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect(has(text_in("process"), "dumpable 0, "), "%s", text_in("process"));
}
#endif

Test(agent, its_main_process_alone_may_regain_privileges)
{
	rights_needed("users");
	put_in("process", "");
	cr_assert_eq(mkdir(in("d"), 0755), 0);
	cr_assert_eq(chown(in("d"), NOBODY, NOBODY), 0);
	cr_assert_eq(chown(in("process"), NOBODY, NOBODY), 0);
	cr_assert_eq(chmod(stage.folder, 0755), 0);
	serve("user = nobody\n");
	cr_expect_str_eq(line_of("status", "NoNewPrivs:"), "NoNewPrivs:\t1\n");
	cr_expect_eq(stop(SIGTERM), 0);
	BEGIN("run", "--", "/bin/sleep", "60");
	cr_assert(is_ready(), "%s", text_in("log"));
	cr_expect_str_eq(line_of("status", "NoNewPrivs:"), "NoNewPrivs:\t0\n");
	cr_expect_eq(stop(SIGTERM), 128 + SIGTERM);
}

Test(agent, its_commands_do_not_ask_it_for_host_names)
{
	setenv("BERTH_NSS", "on", 1);
	serve(COMPONENT("a") "[check c]\ncommand = /bin/sh -c 'echo $BERTH_NSS >@/told'\n");
	UNTIL(has(text_in("told"), "off\n"));
	cr_expect_eq(stop(SIGTERM), 0);
}

static int null_devices_from(int fd)
{
	struct stat file;
	int count = 0;
	for (; fd < 256; fd++) {
		count += fstat(fd, &file) == 0 && S_ISCHR(file.st_mode) &&
			file.st_rdev == makedev(1, 3);
	}
	return count;
}

static void describe_null_devices(void)
{
	FILE *file = fopen(in("null"), "w");
	fprintf(file, "%d, %d of them standard files\n", null_devices_from(0),
		null_devices_from(0) - null_devices_from(STDERR_FILENO + 1));
	fclose(file);
}

/* A file of the agent's in their places would get log lines. */
Test(agent, standard_files_that_its_caller_has_closed_are_opened)
{
	char expected[64];
	snprintf(expected, sizeof(expected), "%d, 3 of them standard files\n",
		3 + null_devices_from(STDERR_FILENO + 1));
	stage.closed = true;
	stage.after = describe_null_devices;
	cr_expect_eq(RUN("-V"), 0);
	cr_expect_str_eq(text_in("null"), expected);
}

/* As libev does it when the kernel has no memory for a descriptor. */
static void meet_a_refusal(void)
{
	struct ev_loop *loop = ev_loop_new(EVBACKEND_EPOLL);
	ev_loop_fork(loop);
	failing_arm("epoll", 1, ENOMEM);
	ev_run(loop, EVRUN_NOWAIT);
	failing_disarm();
	ev_loop_destroy(loop);
}

Test(agent, its_loop_tries_again_where_the_kernel_refuses)
{
	stage.after = meet_a_refusal;
	serve("");
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_eq(logged("the event loop: "), 1, "%s", text_in("log"));
}

Test(agent, without_a_loop_it_ends)
{
	setenv("LIBEV_FLAGS", "8", 1); /* kqueue alone, which this kernel does not have */
	configure("");
	cr_expect_eq(RUN("run"), 1);
	cr_expect_not(is_ready());
	cr_expect_eq(logged("cannot make an event loop"), 1, "%s", text_in("log"));
	cr_expect_not(is_there("state"));
}

static void describe_descriptors(void)
{
	char text[32];
	int count = 0;
	for (int fd = 0; fd < 256; fd++) {
		count += fcntl(fd, F_GETFD) >= 0;
	}
	snprintf(text, sizeof(text), "%d", count);
	put_in("descriptors", text);
}

Test(agent, a_bridge_leaves_no_descriptor_open)
{
	char without[32];
	cr_assert_eq(mkdir(in("containers"), 0755), 0);
	cr_assert_eq(mkdir(in("containers/one"), 0755), 0);
	stage.after = describe_descriptors;
	serve("");
	cr_expect_eq(stop(SIGTERM), 0);
	text_printf(without, sizeof(without), "%s", text_in("descriptors"));
	close(stage.ready_fd);
	stage.ready_fd = -1;
	serve("[bridge]\ncontainers = @/containers\n");
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect(is_there("containers/one/berth.sock"));
	cr_expect_str_eq(text_in("descriptors"), without);
}

#ifndef __SANITIZE_ADDRESS__ /* which ends a process that asks for so much */
static void exhaust_json(void)
{
	json_malloc_t allocate;
	json_free_t release;
	json_get_alloc_funcs(&allocate, &release);
	release(allocate(PTRDIFF_MAX));
}

static void exhaust_a_buffer(void)
{
	struct buffer out;
	buffer_init(&out, SIZE_MAX);
	buffer_append(&out, "", PTRDIFF_MAX);
}

Test(agent, without_memory_no_answer_is_made)
{
	static void (*const ways[])(void) = { exhaust_json, exhaust_a_buffer };
	for (size_t i = 0; i < 2; i++) {
		int result = 0;
		stage.after = ways[i];
		serve("");
		kill(stage.pid, SIGTERM);
		cr_assert_eq(waitpid(stage.pid, &result, 0), stage.pid);
		stage.pid = 0;
		cr_expect(WIFSIGNALED(result) && WTERMSIG(result) == SIGABRT, "%zu", i);
		cr_expect(has(text_in("log"), "out of memory"), "%s", text_in("log"));
		unlink(in("log"));
	}
}

#ifdef M_MMAP_THRESHOLD
enum { BLOCKS = 64 };

/* How many blocks of that size have a mapping of their own? More than fits between others. */
static int mapped(size_t size)
{
	int count = 0;
	for (int i = 0; i < BLOCKS; i++) {
		const size_t *volatile block = malloc(size);
		count += (int)(block[-1] >> 1 & 1); /* as the C library marks them */
	}
	return count;
}

static void describe_blocks(void)
{
	FILE *file = fopen(in("blocks"), "w");
	fprintf(file, "%s, %s\n", mapped(60 * 1024) > 0 ? "mapped" : "of the heap",
		mapped(70 * 1024) > 0 ? "mapped" : "of the heap");
	fclose(file);
}

Test(agent, large_answers_go_back_to_the_kernel)
{
	stage.after = describe_blocks;
	serve("");
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_str_eq(text_in("blocks"), "of the heap, mapped\n");
}
#endif

#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 33)
static size_t used_behind_loops(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		ev_loop_destroy(ev_loop_new(EVFLAG_AUTO));
	}
	return mallinfo2().uordblks;
}

static void describe_loops(void)
{
	size_t before = used_behind_loops();
	put_in("loops", used_behind_loops() > before ? "kept" : "given back");
}

Test(agent, a_loop_s_memory_is_given_back)
{
	stage.after = describe_loops;
	serve("");
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_str_eq(text_in("loops"), "given back");
}
#endif
#endif
#endif

/* ---- orphans of a check's command ---- */

#define LEAVING COMPONENT("a") "[check c]\ncommand = @/leave\ninterval = 1h\n"

/* A command that leaves a process, without its environment and in a session of its own. */
static void install_command(void)
{
	char script[4 * SCRATCH_PATH];
	snprintf(script, sizeof(script),
		"#!/bin/sh\ncd %s\n"
		"setsid env -i sh -c 'echo $$ >new.pid; mv new.pid pid; exec sleep 60' "
		"</dev/null >/dev/null 2>&1 &\n"
		"while [ ! -e pid ]; do sleep 0.01; done\n",
		stage.folder);
	put_in("leave", script);
	cr_assert_eq(chmod(in("leave"), 0755), 0);
}

static bool orphan_lives(void)
{
	return kill((pid_t)atoi(text_in("pid")), 0) == 0;
}

static bool has_run(void)
{
	return has(get("/v1/agent/checks"), "\"up\"");
}

Test(agent, they_end_with_it)
{
	install_command();
	serve(LEAVING);
	UNTIL(has_run());
	UNTIL(!orphan_lives());
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent, they_may_be_those_of_a_script_that_executed_the_agent)
{
	install_command();
	leave("{\"version\":1,\"claims_orphans\":false}");
	configure(LEAVING);
	BEGIN("run");
	UNTIL(is_there("s") && has_run());
	poll(NULL, 0, 100);
	cr_expect(orphan_lives());
	kill((pid_t)atoi(text_in("pid")), SIGKILL);
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent, a_successor_goes_on_to_end_them)
{
	install_command();
	leave("{\"version\":1,\"claims_orphans\":true}");
	configure(LEAVING);
	BEGIN("run");
	UNTIL(is_there("s") && has_run());
	UNTIL(!orphan_lives());
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent, next_to_a_main_process_they_are_let_be)
{
	install_command();
	configure(LEAVING);
	BEGIN("run", "--", "/bin/sleep", "60");
	cr_assert(is_ready());
	UNTIL(has_run());
	poll(NULL, 0, 100);
	cr_expect(orphan_lives());
	kill((pid_t)atoi(text_in("pid")), SIGKILL);
	cr_expect_eq(stop(SIGTERM), 128 + SIGTERM);
}

/* ---- a main process ---- */

Test(agent, it_ends_with_its_main_process)
{
	configure(COMPONENT("a"));
	BEGIN("run", "--", "/bin/sh", "-c", "exit 7");
	cr_expect_eq(status(), 7);
	cr_expect_neq(logged("the main process has ended"), 0);
	cr_expect_not(is_there("d/app/a"));
}

Test(agent, other_signals_are_the_main_process_s)
{
	configure("");
	char script[SCRATCH_PATH + 128];
	snprintf(script, sizeof(script),
		"trap 'exit 5' USR1; echo >%s/trapped; while :; do sleep 0.01; done", stage.folder);
	BEGIN("run", "--", "/bin/sh", "-c", script);
	cr_assert(is_ready());
	UNTIL(is_there("trapped"));
	cr_expect(has(get("/v1/agent"), "\"running\":true"));
	cr_expect_eq(stop(SIGUSR1), 5);
}

Test(agent, it_stops_its_main_process)
{
	configure(COMPONENT("a"));
	BEGIN("run", "--", "/bin/sleep", "60");
	cr_assert(is_ready());
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	cr_expect_eq(stop(SIGTERM), 128 + SIGTERM);
	cr_expect_not(is_there("d/app/a"));
}

/* The orphan of the main process says whose child it has become. */
Test(agent, orphans_of_its_main_process_become_its_children)
{
	configure("");
	char script[SCRATCH_PATH + 256];
	snprintf(script, sizeof(script),
		"(sh -c 'while [ ! -e %s/go ]; do sleep 0.01; done; "
		"cut -d\" \" -f4 /proc/$$/stat >%s/parent' &) ; exec sleep 60",
		stage.folder, stage.folder);
	BEGIN("run", "--", "/bin/sh", "-c", script);
	cr_assert(is_ready());
	char expected[32];
	snprintf(expected, sizeof(expected), "%ld\n", (long)stage.pid);
	put_in("go", "");
	UNTIL(has(text_in("parent"), "\n"));
	cr_expect_str_eq(text_in("parent"), expected);
	cr_expect_eq(stop(SIGTERM), 128 + SIGTERM);
}
