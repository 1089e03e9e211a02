/* When a check runs, with a clock that the test moves; and runs that do not end. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/check/check.h"
#include "tests/support/check_support.h"
#include "tests/support/clock_call.h"
#include "tests/support/scratch.h"

/* ---- the clock and the kernel, in place of the C library's functions ---- */

static time_t moved_s;
static bool unkillable; /* the processes sit in the kernel */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int code = (int)syscall(CLOCK_CALL, clock, now);
	now->tv_sec += moved_s;
	return code;
}

int kill(pid_t pid, int signal)
{
	return unkillable ? 0 : (int)syscall(SYS_kill, pid, signal);
}

/* ---- a check ---- */

enum { HOUR_S = 3600 };

static struct ev_loop *loop;
static struct check_scheduler *scheduler;
static struct config_check config;
static char *argv[4];
static int results;
static int wanted;
static char news[256]; /* the conditions and their reasons, as they were reported */

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	(void)result;
	results++;
}

static void on_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	(void)context;
	(void)check;
	size_t used = strlen(news);
	snprintf(news + used, sizeof(news) - used, "%s>%s: %s; ", from, to, why);
}

static void start(void)
{
	check_support_be_subreaper();
	loop = ev_default_loop(0);
	scheduler = check_scheduler_create(loop, 16);
}

static void finish(void)
{
	check_scheduler_destroy(scheduler);
	cr_expect(check_support_run_until_childless());
}

TestSuite(check_time, .init = start, .fini = finish);

static struct check *create(const json_t *saved)
{
	static const struct check_callbacks callbacks = { on_result, on_change, NULL, NULL };
	return check_create(scheduler, &config, &(struct check_component){ "web", "/web" }, 1,
		&callbacks, saved);
}

static bool has_results(void *context)
{
	(void)context;
	return results >= wanted;
}

static void run_until_results(int count)
{
	wanted = count;
	cr_assert(check_support_run_until(has_results, NULL));
}

static void use_ttl(int64_t interval_ms)
{
	config = check_support_config(CONFIG_CHECK_TTL);
	config.interval_ms = interval_ms;
}

static void report(struct check *check, enum check_verdict verdict)
{
	struct err err = ERR_INIT;
	cr_assert_eq(check_report(check, verdict, "", &err), 0);
}

static double next_run(const struct check *check)
{
	json_t *shown = check_json(check);
	double next = json_number_value(json_object_get(shown, "next_run"));
	json_decref(shown);
	return next;
}

Test(check_time, an_interval_begins_at_the_report_and_not_when_the_loop_had_a_turn)
{
	use_ttl((int64_t)HOUR_S * 1000);
	struct check *check = create(NULL);
	check_start(check, false);
	moved_s += HOUR_S - 1;
	report(check, CHECK_PASSING);
	moved_s += HOUR_S / 2;
	for (int i = 0; i < 10; i++) {
		ev_run(loop, EVRUN_NOWAIT);
	}
	cr_expect_eq(results, 1, "it was silent for half of its interval");
	moved_s += HOUR_S;
	run_until_results(2);
	cr_expect_str_eq(check_last(check)->detail, "no report within 3600s");
	check_destroy(check);
}

Test(check_time, a_new_reason_is_told_until_the_check_has_come_up)
{
	use_ttl((int64_t)HOUR_S * 1000);
	config.fall = 9;
	struct check *check = create(NULL);
	report(check, CHECK_FAILING);
	report(check, CHECK_FAILING);
	report(check, CHECK_TIMED_OUT);
	report(check, CHECK_PASSING);
	report(check, CHECK_FAILING);
	char expected[256];
	snprintf(expected, sizeof(expected),
		"pending>failing: reported failing; failing>failing: reported %s; "
		"failing>up: reported passing; ",
		check_verdict_name(CHECK_TIMED_OUT));
	cr_expect_str_eq(news, expected);
	cr_expect_str_eq(check_why(check), "reported passing");
	check_destroy(check);
}

Test(check_time, a_run_that_was_due_is_not_put_off)
{
	use_ttl((int64_t)HOUR_S * 1000);
	struct check *check = create(NULL);
	report(check, CHECK_PASSING);
	json_t *saved = check_save(check);
	check_destroy(check);
	json_object_set_new(saved, "saved", json_real(ev_time() - 2 * HOUR_S));
	config = check_support_script(argv, "exit 0");
	check = create(saved);
	check_start(check, true);
	cr_expect_leq(next_run(check), ev_time());
	json_decref(saved);
	check_destroy(check);
}

Test(check_time, a_check_that_waits_for_nothing_is_due)
{
	use_ttl((int64_t)HOUR_S * 1000);
	struct check *check = create(NULL);
	json_t *saved = check_save(check);
	cr_expect_eq(json_integer_value(json_object_get(saved, "next_in_ms")), 0);
	json_decref(saved);
	check_destroy(check);
}

Test(check_time, a_run_that_does_not_end_is_a_result_each_interval)
{
	config = check_support_script(argv, "sleep 1000");
	check_support_pace(&config, HOUR_S * 1000);
	config.timeout_ms = 1;
	unkillable = true;
	struct check *check = create(NULL);
	check_start(check, false);
	run_until_results(1);
	cr_expect_eq(check_last(check)->verdict, CHECK_TIMED_OUT);
	for (int count = 2; count <= 3; count++) {
		moved_s += HOUR_S;
		run_until_results(count);
		cr_expect_eq(check_last(check)->verdict, CHECK_COULD_NOT_RUN);
		cr_expect_str_eq(check_last(check)->detail,
			"the run before has been killed and does not end");
	}
	unkillable = false;
	check_destroy(check);
}

enum { MINUTE_S = 60 };

/* An application behind a check once an hour, whose other intervals have their defaults. */
static int application;
static char application_file[SCRATCH_PATH];

static void application_is(bool good)
{
	cr_assert_eq(pwrite(application, good ? "0" : "1", 1, 0), 1);
}

static struct check *check_application(char *script, size_t size, int rise)
{
	application = scratch_file(application_file);
	snprintf(script, size, "exit $(cat %s)", application_file);
	config = check_support_script(argv, script);
	config.interval_ms = config.falling_interval_ms = HOUR_S * 1000;
	config.rise = rise;
	config.fall = 2;
	return create(NULL);
}

static void finish_application(struct check *check)
{
	check_destroy(check);
	close(application);
	unlink(application_file);
}

/* Lets one result come; whether the run after it comes within a minute. */
static bool next_comes_soon(struct check *check)
{
	run_until_results(results + 1);
	return next_run(check) < ev_time() + MINUTE_S;
}

Test(check_time, an_application_that_comes_up_late_is_found_by_the_next_run)
{
	char script[SCRATCH_PATH + 64];
	struct check *check = check_application(script, sizeof(script), 1);
	application_is(false);
	check_start(check, false);
	cr_expect(next_comes_soon(check));
	application_is(true);
	moved_s += 1;
	cr_expect_not(next_comes_soon(check));
	cr_expect_eq(check_get_state(check), CHECK_STATE_UP);
	cr_expect_eq(results, 2);
	finish_application(check);
}

Test(check_time, the_way_down_is_at_the_interval_and_the_way_up_is_fast)
{
	char script[SCRATCH_PATH + 64];
	struct check *check = check_application(script, sizeof(script), 2);
	application_is(true);
	check_start(check, false);
	cr_expect(next_comes_soon(check), "pending, with a success");
	moved_s += 1;
	cr_expect_not(next_comes_soon(check), "up");
	application_is(false);
	moved_s += HOUR_S;
	cr_expect_not(next_comes_soon(check), "up, with a failure");
	moved_s += HOUR_S;
	cr_expect(next_comes_soon(check), "down");
	cr_expect_eq(check_get_state(check), CHECK_STATE_DOWN);
	application_is(true);
	moved_s += 1;
	cr_expect(next_comes_soon(check), "down, with a success");
	moved_s += 1;
	cr_expect_not(next_comes_soon(check), "up again");
	cr_expect_eq(check_get_state(check), CHECK_STATE_UP);
	finish_application(check);
}
