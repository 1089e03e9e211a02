#include "tests/support/check_support.h"

#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

static const ev_tstamp TOO_LONG_S = 60;
static const ev_tstamp LOOK_AGAIN_S = 0.005;

struct config_check check_support_config(enum config_check_type type)
{
	static char empty[] = "";
	static char name[] = "probe";
	static char get[] = "GET";
	static char root[] = "/";
	static char localhost[] = "127.0.0.1";
	static struct config_status_range success = { 200, 299 };
	static struct config_status_range warning = { 3, 4 };
	return (struct config_check){
		.name = name,
		.type = type,
		.command = empty,
		.user = empty,
		.cwd = empty,
		.target = empty,
		.target_host = localhost,
		.target_port = empty,
		.target_path = root,
		.send = empty,
		.expect = empty,
		.method = get,
		.host = empty,
		.body = empty,
		.expect_status = &success,
		.expect_status_count = 1,
		.interval_ms = 10000,
		.timeout_ms = 30000,
		.rise = 1,
		.fall = 3,
		.rising_interval_ms = 1000,
		.falling_interval_ms = 10000,
		.down_interval_ms = 1000,
		.warning_status = &warning,
		.warning_status_count = 1,
		.match = empty,
	};
}

void check_support_pace(struct config_check *config, int64_t interval_ms)
{
	config->interval_ms = interval_ms;
	config->rising_interval_ms = interval_ms;
	config->falling_interval_ms = interval_ms;
	config->down_interval_ms = interval_ms;
}

struct config_check check_support_script(char *argv[4], const char *script)
{
	static char shell[] = "/bin/sh";
	static char option[] = "-c";
	argv[0] = shell;
	argv[1] = option;
	argv[2] = (char *)script;
	argv[3] = NULL;
	struct config_check config = check_support_config(CONFIG_CHECK_COMMAND);
	config.argv = argv;
	return config;
}

struct waiting {
	bool (*holds)(void *context);
	void *context;
	bool held;
};

static void on_look(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)events;
	struct waiting *waiting = watcher->data;
	waiting->held = waiting->holds(waiting->context);
	if (waiting->held) {
		ev_break(loop, EVBREAK_ONE);
	}
}

static void on_too_long(struct ev_loop *loop, ev_timer *watcher, int events)
{
	(void)watcher;
	(void)events;
	ev_break(loop, EVBREAK_ONE);
}

bool check_support_run_until(bool (*holds)(void *context), void *context)
{
	struct ev_loop *loop = ev_default_loop(0);
	struct waiting waiting = { holds, context, false };
	ev_timer look, too_long;
	ev_timer_init(&look, on_look, 0., LOOK_AGAIN_S);
	look.data = &waiting;
	ev_timer_init(&too_long, on_too_long, TOO_LONG_S, 0.);
	ev_now_update(loop);
	ev_timer_start(loop, &look);
	ev_timer_start(loop, &too_long);
	ev_run(loop, 0);
	ev_timer_stop(loop, &look);
	ev_timer_stop(loop, &too_long);
	return waiting.held;
}

static bool is_true(void *context)
{
	return *(bool *)context;
}

bool check_support_run_until_true(bool *flag)
{
	return check_support_run_until(is_true, flag);
}

static bool is_childless(void *context)
{
	(void)context;
	return !check_support_has_children();
}

bool check_support_run_until_childless(void)
{
	return check_support_run_until(is_childless, NULL);
}

void check_support_be_subreaper(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

bool check_support_has_children(void)
{
	FILE *file = fopen("/proc/thread-self/children", "re");
	int pid;
	bool has = fscanf(file, "%d", &pid) == 1;
	fclose(file);
	return has;
}

long check_support_resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	long size = 0, resident = 0;
	if (fscanf(file, "%ld %ld", &size, &resident) != 2) {
		resident = 0;
	}
	fclose(file);
	return resident * sysconf(_SC_PAGESIZE);
}
