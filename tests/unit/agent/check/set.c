#include <criterion/criterion.h>
#include <stdio.h>

#include "agent/check/set.h"
#include "agent/check/slot.h"
#include "tests/support/check_support.h"

static char folder[] = "/tmp/berth-test-XXXXXX";
static struct check_scheduler *scheduler;
static struct check_set *set;
static int results;

static void on_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	(void)result;
	results++;
}

static void start(void)
{
	check_support_be_subreaper();
	cr_assert_not_null(mkdtemp(folder));
	scheduler = check_scheduler_create(ev_default_loop(0), 4);
	set = check_set_create(scheduler, &(struct check_callbacks){ on_result, NULL, NULL, NULL });
}

static void finish(void)
{
	char command[100];
	check_set_destroy(set);
	set = NULL;
	check_scheduler_destroy(scheduler);
	scheduler = NULL;
	cr_expect(check_support_run_until_childless());
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_expect_eq(system(command), 0);
}

TestSuite(check_set, .init = start, .fini = finish);

static void arrange_for(const char *components, const char *checks, const json_t *saved)
{
	char path[100];
	snprintf(path, sizeof(path), "%s/berth.ini", folder);
	FILE *file = fopen(path, "w");
	cr_assert_not_null(file);
	fprintf(file, "%s%s", components, checks);
	fclose(file);
	struct config *config = NULL;
	struct config_problems problems;
	int ret = config_load(&config, path, &problems);
	config_problems_print(&problems, stderr);
	config_problems_finish(&problems);
	cr_assert_eq(ret, 0);
	check_set_arrange(set, config, saved);
	config_unref(config); /* the checks hold it */
}

/* Components a, b and c, and these checks, come into force. */
static void arrange(const char *checks, const json_t *saved)
{
	arrange_for("[component a]\npath = /a\n[component b]\npath = /b\n"
		    "[component c]\npath = /c\n",
		checks, saved);
}

static bool has_result(void *context)
{
	(void)context;
	return results > 0;
}

static void run(const char *name)
{
	results = 0;
	cr_assert_not_null(check_set_find(set, name));
	cr_assert(check_support_run_until(has_result, NULL));
}

static void on_done(void *context, struct check *check, const struct check_result *result)
{
	(void)result;
	*(struct check **)context = check;
}

/* Another check may have had its result before. */
static bool is_done(void *context)
{
	return *(struct check **)context;
}

/* Runs a check that is not due. */
static void run_now(const char *name)
{
	struct check *check = check_set_find(set, name);
	struct check *done = NULL;
	struct err err = ERR_INIT;
	cr_assert_eq(check_run_now(check, on_done, &done, &err), 0, "%s", err.msg);
	cr_assert(check_support_run_until(is_done, &done));
	cr_expect_eq(done, check);
}

#define SAYS_WHOM                                                                                  \
	"command = echo $BERTH_COMPONENT $BERTH_PATH\nshell = yes\ninterval = 1h\ntype = command\n"

Test(check_set, a_shared_check_runs_once_and_knows_its_components)
{
	arrange("[check one]\ncomponent = b, a\n" SAYS_WHOM, NULL);
	run("one");
	struct check *check = check_set_find(set, "one");
	cr_expect_eq(results, 1);
	cr_expect_str_eq(check_last(check)->output, "b a /b /a\n");
	cr_expect_str_eq(check_components(check), "b a");
	json_t *json = check_json(check);
	json_t *components = json_pack("[s, s]", "b", "a");
	cr_expect(json_equal(json_object_get(json, "components"), components));
	cr_expect_str_eq(json_string_value(json_object_get(json, "component")), "b a");
	json_decref(components);
	json_decref(json);
}

Test(check_set, an_equal_check_goes_on_undisturbed)
{
	arrange("[check one]\ncomponent = a\n" SAYS_WHOM, NULL);
	const struct check *check = check_set_find(set, "one");
	arrange("[check two]\ncomponent = b\n" SAYS_WHOM "[check one]\ncomponent = a\n" SAYS_WHOM,
		NULL);
	cr_expect_eq(check_set_find(set, "one"), check);
	cr_expect_eq(check_set_at(set, 1), check);
	cr_expect_eq(check_set_count(set), 2);
	cr_expect_null(check_set_at(set, 2));
	const struct check *second = check_set_find(set, "two");
	arrange("[check one]\ncomponent = a\n" SAYS_WHOM "[check two]\ncomponent = b\n" SAYS_WHOM,
		NULL);
	cr_expect_eq(check_set_at(set, 0), check);
	cr_expect_eq(check_set_at(set, 1), second);
	arrange("", NULL);
	cr_expect_eq(check_set_count(set), 0);
	cr_expect_null(check_set_find(set, "one"));
}

Test(check_set, a_check_keeps_its_state_when_its_components_change)
{
	arrange("[check one]\ncomponent = a\n" SAYS_WHOM, NULL);
	run("one");
	cr_assert_eq(check_get_state(check_set_find(set, "one")), CHECK_STATE_UP);
	arrange("[check one]\ncomponent = a, b\n" SAYS_WHOM, NULL);
	struct check *check = check_set_find(set, "one");
	cr_expect_eq(check_get_state(check), CHECK_STATE_UP);
	cr_expect_str_eq(check_components(check), "a b");
	arrange("[check one]\ncomponent = b\n" SAYS_WHOM, NULL);
	cr_expect_eq(check_get_state(check_set_find(set, "one")), CHECK_STATE_UP);
}

Test(check_set, a_command_knows_the_components_of_now)
{
	arrange("[check one]\ncomponent = a\n" SAYS_WHOM, NULL);
	arrange("[check one]\ncomponent = b\n" SAYS_WHOM, NULL);
	run_now("one");
	cr_expect_str_eq(check_last(check_set_find(set, "one"))->output, "b /b\n");
	arrange("[check one]\ncomponent = b, a\n" SAYS_WHOM, NULL);
	arrange("[check one]\ncomponent = b, c\n" SAYS_WHOM, NULL);
	run_now("one");
	cr_expect_str_eq(check_last(check_set_find(set, "one"))->output, "b c /b /c\n");
	arrange_for("[component b]\npath = /b\n[component c]\npath = /other\n",
		"[check one]\ncomponent = b, c\n" SAYS_WHOM, NULL);
	run_now("one");
	cr_expect_str_eq(check_last(check_set_find(set, "one"))->output, "b c /b /other\n");
}

Test(check_set, another_command_begins_without_a_verdict)
{
	arrange("[check one]\ncomponent = a\n" SAYS_WHOM, NULL);
	run("one");
	arrange("[check one]\ncomponent = a\ncommand = false\ninterval = 1h\n", NULL);
	cr_expect_eq(check_get_state(check_set_find(set, "one")), CHECK_STATE_PENDING);
}

Test(check_set, a_successor_goes_on_with_the_saved_states)
{
#define TWO_CHECKS                                                                                 \
	"[check one]\ncomponent = a, b\n" SAYS_WHOM "[check two]\ncomponent = a\n" SAYS_WHOM
	arrange(TWO_CHECKS, NULL);
	run_now("one");
	run_now("two");
	json_t *saved = check_set_save(set);
	arrange("", NULL);
	arrange(TWO_CHECKS, saved);
	cr_expect_eq(check_get_state(check_set_find(set, "one")), CHECK_STATE_UP);
	cr_expect_eq(check_get_state(check_set_find(set, "two")), CHECK_STATE_UP);
	json_decref(saved);
}
