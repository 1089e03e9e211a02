/* LINK: -Wl,--wrap=registry_open -Wl,--wrap=notify_ready */
/* An agent whose registry has sessions that a successor may continue: one in memory. */

#include "agent/base/notify.h"
#include "tests/support/memory_backend.h"
#include "tests/unit/agent/agent_stage.h"

static struct registry *opened; /* in the agent's process */

int __wrap_registry_open(
	struct registry **ret_registry, const struct registry_options *options, struct err *err)
{
	(void)err;
	*ret_registry = opened = memory_open("registry", options);
	memory_let_resume(opened);
	memory_put(opened, "/app", "");
	return 0;
}

void __real_notify_ready(void);

/* Without in(), whose paths are also the agent's words. */
void __wrap_notify_ready(void)
{
	char path[SCRATCH_PATH + 16];
	snprintf(path, sizeof(path), "%s/when_ready", stage.folder);
	FILE *file = fopen(path, "w");
	fputs(registry_state_name(registry_state(opened)), file);
	fclose(file);
	__real_notify_ready();
}

TestSuite(agent_session, .init = begin, .fini = end);

static bool is_saved(const char *path)
{
	return has(text_in("state/session"), path);
}

Test(agent_session, records_wait_for_the_file_of_their_session)
{
	serve(COMPONENT("a") COMPONENT("b"));
	UNTIL(has(get("/v1/list/app"), "[\"/app/a\",\"/app/b\"]"));
	cr_expect(is_saved("/app/a") && is_saved("/app/b"), "%s", text_in("state/session"));
	cr_expect_eq(logged("records do not wait any longer"), 0);
	cr_expect_eq(stop(SIGTERM), 0);
	cr_expect_not(is_there("state/session"), "it has ended");
}

Test(agent_session, the_path_of_a_record_that_has_gone_is_saved_no_longer)
{
	serve(COMPONENT("a") COMPONENT("b"));
	UNTIL(has(get("/v1/list/app"), "[\"/app/a\",\"/app/b\"]"));
	configure(COMPONENT("a"));
	kill(stage.pid, SIGHUP);
	UNTIL(!is_saved("/app/b"));
	cr_expect(is_saved("/app/a"));
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent_session, the_way_to_it_begins_before_the_agent_is_ready)
{
	serve(COMPONENT("a"));
	cr_expect_str_eq(text_in("when_ready"), "connected");
	cr_expect_eq(stop(SIGTERM), 0);
}

Test(agent_session, a_quit_leaves_it_to_a_successor)
{
	serve(COMPONENT("a"));
	UNTIL(has(get("/v1/list/app"), "/app/a"));
	cr_expect_eq(stop(SIGQUIT), 0);
	cr_expect(is_saved("/app/a"));
	cr_expect(is_there("state/history"));
}
