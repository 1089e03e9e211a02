/* A check's runs and reports, with a clock that the test moves; and runs that do not end. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/check/slot.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
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

enum { MANY = 8, HOUR_S = 3600 };

static struct ev_loop *loop;
static struct check_scheduler *scheduler;
static struct config_check config;
static char *argv[4];
static int results;
static ev_tstamp result_at[8]; /* times of the first results */
static int changes;
static char changed_to[16];
static char last_why[320];
static char news[256]; /* the conditions and their reasons, as they were reported */
static int wanted;

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	cr_assert_eq(check_last(check)->verdict, result->verdict);
	if (results < (int)(ARRAY_LEN(result_at))) {
		result_at[results] = (double)clock_monotonic_ms() / 1000;
	}
	results++;
}

static void on_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	(void)context;
	size_t used = strlen(news);
	cr_assert_str_eq(check_condition_name(check), to);
	snprintf(news + used, sizeof(news) - used, "%s>%s: %s; ", from, to, why);
	snprintf(changed_to, sizeof(changed_to), "%s", to);
	snprintf(last_why, sizeof(last_why), "%s", why);
	changes++;
}

static const struct check_callbacks callbacks = { on_result, on_change, NULL, NULL };

static void start(void)
{
	check_support_be_subreaper();
	loop = ev_default_loop(0);
	scheduler = check_scheduler_create(loop, 16);
}

static void finish(void)
{
	cr_expect_eq(scheduler->running, 0);
	check_scheduler_destroy(scheduler);
	cr_expect(check_support_run_until_childless());
}

TestSuite(check, .init = start, .fini = finish);

static struct check *create(const json_t *saved)
{
	return check_create(scheduler, &config,
		&(struct check_component){ "web", "/users/joe/web" }, 1, &callbacks, saved);
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

static void use_script(const char *script)
{
	config = check_support_script(argv, script);
	check_support_pace(&config, 3600 * 1000);
}

Test(check, runs_at_once_and_becomes_up)
{
	use_script("echo fine");
	struct check *check = create(NULL);
	cr_expect_eq(check_get_state(check), CHECK_STATE_PENDING);
	cr_expect_null(check_last(check));
	check_start(check, false);
	run_until_results(1);
	cr_expect_eq(check_get_state(check), CHECK_STATE_UP);
	cr_expect_eq(changes, 1);
	cr_expect_str_eq(last_why, "exit status 0");
	cr_expect_str_eq(check_last(check)->output, "fine\n");
	cr_expect_gt(check_last(check)->duration_s, 0);
	check_destroy(check);
}

Test(check, goes_down_after_enough_failures_and_says_why)
{
	use_script("exit 2");
	config.initial_passing = true;
	config.interval_ms = 3600 * 1000;
	config.falling_interval_ms = 1; /* only with it does the third run come today */
	struct check *check = create(NULL);
	check_start(check, false);
	run_until_results(3);
	cr_expect_eq(changes, 1);
	cr_expect_str_eq(changed_to, "down");
	cr_expect_str_eq(last_why, "exit status 2 (3 failures in a row)");
	check_destroy(check);
}

Test(check, tells_a_warning_once_and_its_end_once)
{
	char file[SCRATCH_PATH], script[SCRATCH_PATH + 64];
	int descriptor = scratch_file(file);
	snprintf(script, sizeof(script), "exit $(cat %s)", file);
	use_script(script);
	check_support_pace(&config, 1);
	cr_assert_eq(pwrite(descriptor, "3", 1, 0), 1);
	struct check *check = create(NULL);
	check_start(check, false);
	run_until_results(3);
	cr_expect(check_is_warning(check));
	cr_expect_eq(changes, 1, "up, and the warning with it");
	cr_expect_str_eq(changed_to, "warning");
	cr_expect_str_eq(last_why, "exit status 3");
	cr_assert_eq(pwrite(descriptor, "0", 1, 0), 1);
	run_until_results(results + 3);
	cr_expect_not(check_is_warning(check));
	cr_expect_eq(changes, 2);
	check_destroy(check);
	close(descriptor);
	unlink(file);
}

/* The script fails if another one of its kind is at work. */
Test(check, never_overlaps)
{
	char directory[SCRATCH_PATH], script[2 * SCRATCH_PATH + 64];
	scratch_folder(directory);
	snprintf(script, sizeof(script), "mkdir %s/lock || exit 2; sleep 0.02; rmdir %s/lock",
		directory, directory);
	use_script(script);
	check_support_pace(&config, 1);
	struct check *check = create(NULL);
	check_start(check, false);
	run_until_results(20);
	json_t *json = check_json(check);
	cr_expect_eq(
		json_integer_value(json_object_get(json_object_get(json, "counts"), "passing")),
		results);
	json_decref(json);
	/* Not in the middle of a run, which would leave the lock. */
	config.interval_ms = 3600 * 1000;
	run_until_results(results + 1);
	check_destroy(check);
	cr_expect(check_support_run_until_childless());
	rmdir(directory);
}

Test(check, a_blocked_loop_is_not_followed_by_a_burst)
{
	use_script("true");
	check_support_pace(&config, 200);
	struct check *check = create(NULL);
	check_start(check, false);
	run_until_results(1);
	struct timespec blocked = { 1, 100 * 1000 * 1000 };
	nanosleep(&blocked, NULL);
	run_until_results(5);
	/*
	 * The first after the pause at once, the three after it where the grid wants them: none of
	 * the missed is made up for.
	 */
	double passed = result_at[4] - result_at[1];
	cr_expect_gt(passed, 0.39, "%f", passed);
	check_destroy(check);
}

static int answers;
static int answered; /* the verdict; -1: the check was destroyed */

static void on_done(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	answered = result ? (int)result->verdict : -1;
	answers++;
}

static int order[MANY];
static int order_count;
static int most_running;

static void note_order(void *context, struct check *check, const struct check_result *result)
{
	(void)result;
	order[order_count++] = (int)(check_config(check)->name[0] - 'a');
	int running = scheduler->running;
	most_running = running > most_running ? running : most_running;
	(void)context;
	results++;
}

Test(check, at_most_so_many_at_once_and_the_rest_in_order)
{
	struct config_check configs[MANY];
	struct check *checks[MANY];
	char names[MANY][2];
	struct check_callbacks noting = { note_order, NULL, NULL, NULL };
	const struct check_component web = { "web", "/web" };
	check_scheduler_set_max_parallel(scheduler, 1);
	use_script("true");
	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "%c", 'a' + i);
		configs[i] = config;
		configs[i].name = names[i];
		checks[i] = check_create(scheduler, &configs[i], &web, 1, &noting, NULL);
		struct err err = ERR_INIT;
		cr_assert_eq(check_run_now(checks[i], on_done, NULL, &err), 0);
	}
	cr_expect_eq((int)list_count(&scheduler->queue), MANY);
	for (int i = 0; i < MANY; i++) {
		check_run_forget(checks[i], NULL);
	}
	run_until_results(MANY);
	cr_expect_eq(most_running, 1);
	for (int i = 0; i < MANY; i++) {
		cr_expect_eq(order[i], i);
		check_destroy(checks[i]);
	}
}

static bool has_answers(void *context)
{
	return answers >= *(int *)context;
}

Test(check, runs_when_asked_and_answers_each_who_asked)
{
	use_script("exit 2");
	struct check *check = create(NULL);
	struct err err = ERR_INIT;
	int first = 1, second = 2;
	cr_assert_eq(check_run_now(check, on_done, &first, &err), 0);
	cr_assert_eq(check_run_now(check, on_done, &second, &err), 0);
	cr_expect_eq(answers, 0, "never from within the call");
	cr_assert(check_support_run_until(has_answers, &second));
	cr_expect_eq(results, 1, "one run for both");
	cr_expect_eq(answered, CHECK_FAILING);

	int third = 3;
	check_run_now(check, on_done, &first, &err);
	check_run_now(check, on_done, &third, &err);
	check_run_forget(check, &first);
	cr_assert(check_support_run_until(has_answers, &third));
	cr_expect_eq(answers, 3);
	check_destroy(check);
}

static bool is_running(void *context)
{
	json_t *json = check_json(context);
	bool running = json_is_true(json_object_get(json, "running"));
	json_decref(json);
	return running;
}

Test(check, a_request_during_a_run_gets_the_next_one)
{
	char gate[SCRATCH_PATH], script[SCRATCH_PATH + 64];
	close(scratch_file(gate));
	snprintf(script, sizeof(script), "while test -e %s; do sleep 0.01; done", gate);
	use_script(script);
	struct check *check = create(NULL);
	check_start(check, false);
	cr_assert(check_support_run_until(is_running, check));
	struct err err = ERR_INIT;
	int one = 1;
	check_run_now(check, on_done, &one, &err);
	unlink(gate);
	cr_assert(check_support_run_until(has_answers, &one));
	cr_expect_eq(results, 2);
	check_destroy(check);
}

Test(check, destroyed_in_the_middle_of_a_run_it_answers_and_leaves_nothing)
{
	use_script("trap '' TERM; sleep 1000; sleep 1000");
	struct check *check = create(NULL);
	struct err err = ERR_INIT;
	check_run_now(check, on_done, NULL, &err);
	cr_assert(check_support_run_until(is_running, check));
	check_destroy(check);
	cr_expect_eq(answers, 1);
	cr_expect_eq(answered, -1);
	cr_expect_eq(results, 0);
}

Test(check, a_ttl_check_lives_by_its_reports)
{
	config = check_support_config(CONFIG_CHECK_TTL);
	config.interval_ms = 3600 * 1000;
	config.fall = 1;
	struct check *check = create(NULL);
	check_start(check, false);
	struct err err = ERR_INIT;
	cr_expect_eq(check_run_now(check, on_done, NULL, &err), BERTH_FAILED);
	cr_expect_eq(check_report(check, CHECK_PASSING, "warm", &err), 0);
	cr_expect_eq(check_get_state(check), CHECK_STATE_UP);
	cr_expect_str_eq(check_last(check)->output, "warm");
	check_report(check, CHECK_WARNING, "hot", &err);
	cr_expect(check_is_warning(check));
	check_report(check, CHECK_FAILING, "burning", &err);
	cr_expect_eq(check_get_state(check), CHECK_STATE_DOWN);
	cr_expect_str_eq(last_why, "reported failing (1 failure)");
	check_destroy(check);
}

static double number_of(const struct check *check, const char *key)
{
	json_t *shown = check_json(check);
	double number = json_number_value(json_object_get(shown, key));
	json_decref(shown);
	return number;
}

Test(check, a_failure_that_is_not_enough_ends_neither_a_warning_nor_a_state)
{
	struct err err = ERR_INIT;
	config = check_support_config(CONFIG_CHECK_TTL);
	config.interval_ms = 3600 * 1000;
	config.fall = 2;
	struct check *check = create(NULL);
	double created = number_of(check, "since");
	usleep(2000);
	check_report(check, CHECK_WARNING, "", &err);
	double since = number_of(check, "since");
	cr_expect_gt(since, created);
	usleep(2000);
	check_report(check, CHECK_FAILING, "", &err);
	cr_expect_str_eq(check_condition_name(check), "warning");
	cr_expect_eq(number_of(check, "since"), since);
	check_destroy(check);
}

Test(check, a_silent_ttl_check_is_failing_once_an_interval)
{
	config = check_support_config(CONFIG_CHECK_TTL);
	config.interval_ms = 20;
	config.fall = 2;
	struct check *check = create(NULL);
	check_start(check, false);
	struct err err = ERR_INIT;
	check_report(check, CHECK_PASSING, "", &err);
	run_until_results(3);
	cr_expect_eq(check_get_state(check), CHECK_STATE_DOWN);
	cr_expect_str_eq(check_last(check)->detail, "no report within 0.02s");
	check_destroy(check);
}

Test(check, goes_on_where_its_predecessor_stopped)
{
	use_script("echo fine; exit 3");
	struct check *check = create(NULL);
	check_start(check, false);
	run_until_results(1);
	json_t *saved = check_save(check);
	cr_assert_not_null(saved);
	json_t *before = check_json(check);
	check_destroy(check);

	check = create(saved);
	cr_expect_eq(check_get_state(check), CHECK_STATE_UP);
	check_start(check, false);
	json_t *after = check_json(check);
	/*
	 * The next run stays in an hour; how exactly, depends on how fast we are: two clocks are
	 * read at four times.
	 */
	double moved = json_number_value(json_object_get(after, "next_run")) -
		json_number_value(json_object_get(before, "next_run"));
	cr_expect_float_eq(moved, 0, 60);
	json_object_del(before, "next_run");
	json_object_del(after, "next_run");
	cr_expect(json_equal(before, after));
	cr_expect_eq(changes, 1);
	json_decref(saved);
	json_decref(before);
	json_decref(after);
	check_destroy(check);
}

static json_t *saved_passing(void)
{
	struct err err = ERR_INIT;
	config = check_support_config(CONFIG_CHECK_TTL);
	struct check *check = create(NULL);
	check_report(check, CHECK_PASSING, "", &err);
	json_t *saved = check_save(check);
	check_destroy(check);
	return saved;
}

Test(check, a_run_that_was_due_between_two_agents_comes_at_once)
{
	json_t *saved = saved_passing();
	json_object_set_new(saved, "saved", json_real(ev_time() - 100));
	json_object_set_new(saved, "next_in_ms", json_integer(50 * 1000));
	use_script("exit 0");
	results = 0;
	struct check *check = create(saved);
	check_start(check, false);
	run_until_results(1);
	json_decref(saved);
	check_destroy(check);
}

/* ---- when it runs ---- */

Test(check, a_look_besides_the_schedule_that_fails_does_not_count)
{
	int bad = 0;
	use_script("exit 1");
	config.rising_interval_ms = 1000;
	struct check *check = create(NULL);
	int64_t began_ms = clock_monotonic_ms();
	check_start(check, false);
	run_until_results(3);
	json_t *shown = check_json(check);
	cr_assert_eq(json_unpack(shown, "{s:{s:i}}", "consecutive", "bad", &bad), 0);
	cr_expect_leq(bad, 1 + (clock_monotonic_ms() - began_ms) / 1000, "%d", bad);
	json_decref(shown);
	check_destroy(check);
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

Test(check, an_interval_begins_at_the_report_and_not_when_the_loop_had_a_turn)
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

Test(check, a_new_reason_is_told_until_the_check_has_come_up)
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

Test(check, a_run_that_does_not_end_is_a_result_each_interval)
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
	return number_of(check, "next_run") < ev_time() + MINUTE_S;
}

Test(check, an_application_that_comes_up_late_is_found_by_the_next_run)
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

Test(check, the_way_down_is_at_the_interval_and_the_way_up_is_fast)
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
