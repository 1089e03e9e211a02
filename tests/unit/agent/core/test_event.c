/* A change of state makes a line of the log, an entry of the history, and a wake-up. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/api/internal.h"
#include "agent/core/event.h"
#include "agent/core/state.h"
#include "agent/base/log.h"
#include "lib/base/array.h"
#include "tests/support/scratch.h"
#include "tests/support/staged.h"

struct stage {
	struct agent agent;
	char folder[SCRATCH_PATH];
	char log_path[SCRATCH_PATH];
	int log_fd;
	int own_stderr;
	int wakes;
};

static void on_reconsider(struct ev_loop *loop, ev_async *watcher, int events)
{
	(void)loop;
	(void)events;
	struct stage *stage = watcher->data;
	stage->wakes++;
}

static void begin_agent(struct stage *stage, const char *state, const json_t *received)
{
	struct agent *agent = &stage->agent;
	struct err err = ERR_INIT;
	agent->state = (struct state_dir){ .lock_fd = -1 };
	agent->files = file_queue_create(agent->loop);
	int code = state_dir_init(&agent->state, state, -1, agent->files, &err);
	cr_assert(state_dir_usable(&agent->state) == (code == 0));
	agent_history_load(agent, received);
}

static void end_agent(struct stage *stage)
{
	struct agent *agent = &stage->agent;
	timer_stop(&agent->history_timer);
	history_destroy(agent->history);
	cr_assert(file_queue_wait(agent->files, 60000));
	state_dir_finish(&agent->state);
	file_queue_destroy(agent->files);
	ev_clear_pending(agent->loop, &agent->reconsider);
}

static struct stage *begin(struct stage *stage)
{
	scratch_folder(stage->folder);
	stage->log_fd = scratch_file(stage->log_path);
	stage->own_stderr = dup(STDERR_FILENO);
	dup2(stage->log_fd, STDERR_FILENO);
	stage->agent.loop = ev_loop_new(EVFLAG_AUTO);
	ev_async_init(&stage->agent.reconsider, on_reconsider);
	stage->agent.reconsider.data = stage;
	begin_agent(stage, stage->folder, NULL);
	return stage;
}

static void end(struct stage *stage)
{
	char command[SCRATCH_PATH + 16];
	end_agent(stage);
	ev_loop_destroy(stage->agent.loop);
	dup2(stage->own_stderr, STDERR_FILENO);
	close(stage->own_stderr);
	close(stage->log_fd);
	unlink(stage->log_path);
	snprintf(command, sizeof(command), "rm -rf %s", stage->folder);
	cr_assert_eq(system(command), 0);
	log_set(LOG_LEVEL_INFO, false);
}

#define ON_AGENT(name)                                                                             \
	STAGED_TEST(event, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

/* The lines since the last call, without their times. */
static const char *logged(struct stage *stage)
{
	static char text[4096];
	char all[4096];
	ssize_t len = pread(stage->log_fd, all, sizeof(all) - 1, 0);
	cr_assert_geq(len, 0);
	all[len] = '\0';
	cr_assert_eq(ftruncate(stage->log_fd, 0), 0);
	cr_assert_eq(lseek(stage->log_fd, 0, SEEK_SET), 0);
	text[0] = '\0';
	for (char *line = strtok(all, "\n"); line; line = strtok(NULL, "\n")) {
		strcat(text, strlen(line) > 25 ? line + 25 : line);
		strcat(text, "\n");
	}
	return text;
}

/* "FROM>TO xCOUNT; " of each entry. */
static const char *history_of(struct stage *stage)
{
	static char text[4096];
	size_t index;
	json_t *entry;
	json_t *entries = history_json(stage->agent.history, true);
	text[0] = '\0';
	json_array_foreach (entries, index, entry) {
		size_t len = strlen(text);
		json_int_t count = json_integer_value(json_object_get(entry, "count"));
		snprintf(text + len, sizeof(text) - len, "%s>%s x%d; ",
			json_string_value(json_object_get(entry, "from")),
			json_string_value(json_object_get(entry, "to")), count ? (int)count : 1);
	}
	json_decref(entries);
	return text;
}

static void change(struct stage *stage, const char *from, const char *to)
{
	agent_transition(&stage->agent, "component a", from, to, "so it is");
}

ON_AGENT(a_state_that_is_wrong_is_a_warning)
{
	static const char *const wrong[] = { "down", "failing", "warning", "out", "failed",
		"conflict", "held", "away", "lost", "denied", "refused" };
	static const char *const right[] = { "up", "registered", "connected", "", "downs" };
	char line[128];
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		change(stage, "up", wrong[i]);
		snprintf(line, sizeof(line), "warn  component a: up -> %s: so it is\n", wrong[i]);
		cr_expect_str_eq(logged(stage), line);
	}
	for (size_t i = 0; i < ARRAY_LEN(right); i++) {
		change(stage, "down", right[i]);
		snprintf(line, sizeof(line), "info  component a: down -> %s: so it is\n", right[i]);
		cr_expect_str_eq(logged(stage), line);
	}
	agent_event(&stage->agent,
		&(struct transition){
			.subject = "s", .from = "a", .to = "b", .trouble = true, .output = "o" });
	cr_expect_str_eq(logged(stage), "warn  s: a -> b: o\n");
	agent_event(&stage->agent,
		&(struct transition){ .subject = "s", .from = "a", .to = "c", .unlogged = true });
	cr_expect_str_eq(logged(stage), "");
	cr_expect(strstr(history_of(stage), "a>b x1; a>c x1; "));
}

ON_AGENT(a_retry_that_repeats_is_one_entry_and_few_lines)
{
	static const char *const states[] = { "failed", "conflict", "denied" };
	char text[64];
	for (size_t state = 0; state < 3; state++) {
		int lines = 0;
		for (int i = 0; i < 9; i++) {
			change(stage, states[state], "trying");
			lines += *logged(stage) != '\0';
			change(stage, "trying", states[state]);
			lines += *logged(stage) != '\0';
		}
		cr_expect_eq(lines, 8, "1, 2, 4 and 8 times: %d", lines);
		snprintf(text, sizeof(text), "%s>trying x9; trying>%s x9; ", states[state],
			states[state]);
		cr_expect(strstr(history_of(stage), text), "%s", history_of(stage));
	}
	change(stage, "up", "down");
	change(stage, "up", "down");
	cr_expect(strstr(history_of(stage), "up>down x1; up>down x1; "), "it is not a retry");
	agent_event(&stage->agent,
		&(struct transition){ .subject = "s", .from = "a", .to = "b", .retry = true });
	(void)logged(stage);
	agent_event(&stage->agent,
		&(struct transition){ .subject = "s", .from = "a", .to = "b", .retry = true });
	cr_expect_str_eq(logged(stage), "info  s: a -> b (2 times)\n");
	cr_expect(strstr(history_of(stage), "a>b x2; "));
}

ON_AGENT(every_change_lets_the_agent_decide_again_once)
{
	change(stage, "up", "down");
	change(stage, "down", "up");
	cr_expect_eq(stage->wakes, 0, "not in the middle of anything");
	ev_run(stage->agent.loop, EVRUN_NOWAIT);
	cr_expect_eq(stage->wakes, 1);
	agent_wake(&stage->agent);
	ev_run(stage->agent.loop, EVRUN_NOWAIT);
	cr_expect_eq(stage->wakes, 2);
}

ON_AGENT(every_change_reaches_clients_that_watch_the_agent)
{
	struct list client;
	struct api api = { .loop = stage->agent.loop };
	list_init(&api.view_polls);
	list_init(&api.agent_streams);
	list_append(&api.view_polls, &client);
	ev_prepare_init(&api.changed, NULL);
	agent_wake(&stage->agent);
	cr_expect_not(ev_is_active(&api.changed));
	stage->agent.api = &api;
	change(stage, "up", "down");
	cr_expect(ev_is_active(&api.changed));
	ev_prepare_stop(api.loop, &api.changed);
	stage->agent.api = NULL;
}

ON_AGENT(the_history_is_saved_when_there_is_something_new)
{
	struct agent *agent = &stage->agent;
	char path[SCRATCH_PATH + 16];
	snprintf(path, sizeof(path), "%s/history", stage->folder);
	agent_history_save(agent);
	cr_assert(file_queue_wait(agent->files, 60000));
	cr_expect_neq(access(path, F_OK), 0, "there is nothing to save");

	change(stage, "up", "down");
	cr_assert(timer_runs(&agent->history_timer));
	int64_t left_ms = timer_left_ms(&agent->history_timer);
	cr_expect(left_ms > 0 && left_ms <= 5000);
	(void)logged(stage);
	agent_history_save(agent);
	cr_expect_not(timer_runs(&agent->history_timer));
	cr_assert(file_queue_wait(agent->files, 60000));
	cr_expect_str_eq(logged(stage), "");
	end_agent(stage);
	begin_agent(stage, stage->folder, NULL);
	cr_expect_str_eq(history_of(stage), "up>down x1; ");
	cr_expect_null(strstr(logged(stage), "history: "));
}

ON_AGENT(a_later_change_does_not_put_off_the_saving)
{
	struct agent *agent = &stage->agent;
	change(stage, "up", "down");
	timer_start(&agent->history_timer, 2);
	change(stage, "down", "up");
	cr_expect_leq(timer_left_ms(&agent->history_timer), 2);
	while (timer_runs(&agent->history_timer)) {
		ev_run(agent->loop, EVRUN_ONCE);
	}
	end_agent(stage);
	begin_agent(stage, stage->folder, NULL);
	cr_expect_str_eq(history_of(stage), "up>down x1; down>up x1; ");
}

ON_AGENT(a_count_alone_is_saved_when_it_has_doubled)
{
	static const bool saved[] = { true, true, false, true, false, false, false, true };
	for (size_t i = 0; i < ARRAY_LEN(saved); i++) {
		change(stage, "trying", "failed");
		cr_expect_eq(timer_runs(&stage->agent.history_timer), saved[i], "%zu", i + 1);
		timer_stop(&stage->agent.history_timer);
	}
}

ON_AGENT(a_history_from_a_predecessor_comes_before_the_saved_one)
{
	json_t *received = json_pack("[{s:f, s:s, s:s, s:s, s:s}]", "time", 1.0, "subject", "s",
		"from", "x", "to", "y", "why", "");
	change(stage, "up", "down");
	agent_history_save(&stage->agent);
	end_agent(stage);
	begin_agent(stage, stage->folder, received);
	cr_expect_str_eq(history_of(stage), "x>y x1; ");
	json_decref(received);
}

ON_AGENT(a_damaged_history_is_ignored)
{
	char path[SCRATCH_PATH + 16];
	snprintf(path, sizeof(path), "%s/history", stage->folder);
	FILE *file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs("berth", file);
	fclose(file);
	end_agent(stage);
	(void)logged(stage);
	begin_agent(stage, stage->folder, NULL);
	cr_expect_str_eq(history_of(stage), "");
	cr_expect(strstr(logged(stage), "warn  history: "));
	change(stage, "up", "down");
	cr_expect_str_eq(history_of(stage), "up>down x1; ");
}

ON_AGENT(without_a_state_directory_nothing_is_saved_and_nothing_said)
{
	end_agent(stage);
	begin_agent(stage, "/proc/none/state", NULL);
	change(stage, "up", "down");
	(void)logged(stage);
	agent_history_save(&stage->agent);
	cr_assert(file_queue_wait(stage->agent.files, 60000));
	ev_run(stage->agent.loop, EVRUN_NOWAIT);
	cr_expect_str_eq(logged(stage), "");
	cr_expect_str_eq(history_of(stage), "up>down x1; ");
}

ON_AGENT(a_history_that_cannot_be_saved_is_said)
{
	char path[SCRATCH_PATH + 16];
	change(stage, "up", "down");
	(void)logged(stage);
	snprintf(path, sizeof(path), "%s/history", stage->folder);
	cr_assert_eq(mkdir(path, 0700), 0);
	agent_history_save(&stage->agent);
	cr_assert(file_queue_wait(stage->agent.files, 60000));
	cr_expect(strstr(logged(stage), "info  history: it is not saved: "));
}
