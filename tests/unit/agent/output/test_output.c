/* An output from the first picture on: states, reasons, files, commands. */
#include "agent/output/output.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/output/internal.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/config_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/staged.h"

#define FROM "/users/joe/web/prod/components"
#define HEAD                                                                                       \
	"[agent]\nsocket = /tmp/none.sock\n[registry]\nurl = dir:/none\n[output web]\nquiet = 1ms\n"
#define OUTPUT(options) HEAD "from = " FROM "\n" options "\n"

/* Commands are children, which libev waits for in its default loop only. */
struct ev_loop *ev_loop_new(unsigned flags)
{
	return ev_default_loop(flags);
}

struct stage {
	struct cache_stage cache;
	ev_timer pump;
	struct file_queue *files;
	struct sets *sets;
	struct config *config;
	struct output *output;
	int states;    /* calls of on_state */
	int delivered; /* calls of on_delivered */
	bool frozen;   /* the registry does nothing */
};

static void on_pump(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	struct stage *stage = timer->data;
	if (!stage->frozen) {
		registry_dispatch(stage->cache.registry, ++stage->cache.now_ms);
	}
}

static struct stage *open_stage(struct stage *stage)
{
	make_folder();
	cache_stage_open(&stage->cache, &(struct cache_options){ .resync_ms = 600000 });
	stage->cache.shares_loop = true;
	memory_put(stage->cache.registry, "/users", "");
	memory_put(stage->cache.registry, "/users/joe", "");
	memory_put(stage->cache.registry, "/users/joe/web", "");
	memory_put(stage->cache.registry, "/users/joe/web/prod", "");
	memory_put(stage->cache.registry, FROM, "");
	stage->files = file_queue_create(stage->cache.loop);
	stage->sets = sets_create(stage->cache.loop, stage->cache.cache, "berth");
	ev_timer_init(&stage->pump, on_pump, 0.001, 0.001);
	stage->pump.data = stage;
	ev_timer_start(stage->cache.loop, &stage->pump);
	return stage;
}

static void close_stage(struct stage *stage)
{
	output_destroy(stage->output);
	sets_destroy(stage->sets);
	cr_assert(file_queue_wait(stage->files, 60000));
	file_queue_destroy(stage->files);
	ev_timer_stop(stage->cache.loop, &stage->pump);
	cache_stage_close(&stage->cache);
	if (stage->config) {
		config_unref(stage->config);
	}
	char command[4200];
	snprintf(command, sizeof(command), "rm -rf %s", path_of("place"));
	cr_assert_eq(system(command), 0);
	unlink(path_of("a.ini"));
}

#define STAGED(name)                                                                               \
	STAGED_TEST(output, name, struct stage *, stage, open_stage(&(struct stage){ 0 }),         \
		close_stage)

static void on_state(void *context, const struct output *output)
{
	struct stage *stage = context;
	cr_assert(!stage->output || stage->output == output);
	stage->states++;
}

static void on_delivered(void *context, const struct output *output)
{
	struct stage *stage = context;
	cr_assert_eq(stage->output, output);
	stage->delivered++;
}

/* The text has FILE for the file's name, as often as it needs it; the output begins. */
static void begin(struct stage *stage, const char *text, const char *delivered)
{
	struct buffer whole;
	buffer_init(&whole, 1 << 16);
	mkdir(path_of("place"), 0755);
	for (const char *found; (found = strstr(text, "FILE")); text = found + strlen("FILE")) {
		buffer_append(&whole, text, (size_t)(found - text));
		buffer_append_text(&whole, path_of("place/web"));
	}
	buffer_append_text(&whole, text);
	stage->config = load(buffer_text(&whole));
	buffer_finish(&whole);
	stage->output = output_create(&(struct output_options){ .loop = stage->cache.loop,
		.sets = stage->sets,
		.files = stage->files,
		.config = &stage->config->outputs[0],
		.domain = "berth",
		.zone = "eu/a",
		.delivered = delivered,
		.callbacks = { on_state, on_delivered, stage } });
}

static void forget(struct stage *stage)
{
	output_destroy(stage->output);
	config_unref(stage->config);
	stage->output = NULL;
	stage->config = NULL;
}

static void put(struct stage *stage, const char *name, const char *host, int port)
{
	char path[200];
	char record[500];
	snprintf(path, sizeof(path), FROM "/%s", name);
	snprintf(record, sizeof(record),
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"x\",\"addressType\":"
		"\"host/port\",\"protocol\":\"http\",\"addresses\":[{\"host\":\"%s\",\"port\":"
		"\"%d\"}]}],\"internal\":[]}",
		host, port);
	memory_put(stage->cache.registry, path, record);
}

static void give_up(struct ev_loop *loop, ev_timer *timer, int events)
{
	(void)loop;
	(void)events;
	const struct stage *stage = timer->data;
	cr_assert(false, "the output is %s: %s", output_state_name(output_state(stage->output)),
		output_why(stage->output));
}

static void run_until(struct stage *stage, bool (*holds)(const struct stage *stage))
{
	ev_timer patience;
	ev_timer_init(&patience, give_up, 60., 0.);
	patience.data = stage;
	ev_timer_start(stage->cache.loop, &patience);
	while (!holds(stage)) {
		ev_run(stage->cache.loop, EVRUN_ONCE);
	}
	ev_timer_stop(stage->cache.loop, &patience);
}

/* The same behind another step: a state may begin and end within one loop iteration. */
static void run_again(struct stage *stage, bool (*holds)(const struct stage *stage))
{
	for (int before = stage->states; stage->states == before;) {
		ev_run(stage->cache.loop, EVRUN_ONCE);
	}
	run_until(stage, holds);
}

#define IS(name, wanted)                                                                           \
	static bool name(const struct stage *stage)                                                \
	{                                                                                          \
		return output_state(stage->output) == (wanted);                                    \
	}

IS(is_current, OUTPUT_CURRENT)
IS(is_held, OUTPUT_HELD)
IS(has_failed, OUTPUT_FAILED)
IS(is_waiting, OUTPUT_WAITING)
IS(is_settling, OUTPUT_SETTLING)
IS(is_rendering, OUTPUT_RENDERING)
IS(is_resolving, OUTPUT_RESOLVING)
IS(is_confirming, OUTPUT_CONFIRMING)

static const char *content(const char *name)
{
	static char text[8192];
	FILE *file = fopen(path_of(name), "r");
	size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[len] = '\0';
	if (file) {
		fclose(file);
	}
	return text;
}

static bool has_two(const struct stage *stage)
{
	return is_current(stage) && strstr(content("place/web"), ":2\n");
}

static bool has_three(const struct stage *stage)
{
	return is_current(stage) && strstr(content("place/web"), ":3\n");
}

STAGED(a_file_follows_the_registry)
{
	double before = clock_wall_s();
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage, OUTPUT("format = lines\npath = FILE"), NULL);
	cr_assert_eq(output_state(stage->output), OUTPUT_WAITING);
	cr_assert_str_eq(output_why(stage->output), "");
	cr_assert_eq(output_config(stage->output), &stage->config->outputs[0]);
	run_until(stage, is_current);
	cr_assert_str_eq(content("place/web"), "10.0.0.1:1\n");
	cr_assert_eq(output_instances(stage->output), 1);
	cr_assert_eq(output_counts(stage->output)->writes, 1);
	cr_assert_eq(output_counts(stage->output)->runs, 0);
	cr_assert_eq(stage->delivered, 0);
	cr_assert_str_eq(output_delivered(stage->output), "");
	put(stage, "c2", "10.0.0.1", 2);
	run_until(stage, has_two);
	cr_assert_str_eq(content("place/web"), "10.0.0.1:1\n10.0.0.1:2\n");
	memory_remove(stage->cache.registry, FROM "/c1");
	run_again(stage, is_current);
	cr_assert_str_eq(content("place/web"), "10.0.0.1:2\n");
	cr_assert_eq(output_counts(stage->output)->writes, 3);
	cr_assert_eq(output_counts(stage->output)->failures, 0);
	json_t *json = output_json(stage->output);
	cr_assert_str_eq(json_string_value(json_object_get(json, "state")), "current");
	cr_assert_str_eq(json_string_value(json_object_get(json, "name")), "web");
	cr_assert_str_eq(json_string_value(json_object_get(json, "from")), FROM);
	cr_assert_str_eq(json_string_value(json_object_get(json, "path")), path_of("place/web"));
	cr_assert_null(json_object_get(json, "socket"));
	cr_assert_eq(json_integer_value(json_object_get(json, "writes")), 3);
	cr_assert_eq(json_integer_value(json_object_get(json, "instances")), 1);
	cr_assert_geq(json_real_value(json_object_get(json, "since")), before);
	json_decref(json);
}

STAGED(too_few_instances_hold_the_file)
{
	begin(stage, OUTPUT("format = lines\nmin_instances = 2\npath = FILE"), NULL);
	put(stage, "c1", "10.0.0.1", 1);
	run_until(stage, is_held);
	cr_assert_str_eq(content("place/web"), "");
	cr_assert_eq(access(path_of("place/web"), F_OK), -1);
	cr_assert_not_null(strstr(output_why(stage->output), "1 of at least 2 instances"));
	put(stage, "c2", "10.0.0.1", 2);
	run_until(stage, is_current);
	cr_assert_str_eq(output_why(stage->output), "");
	cr_assert_eq(output_instances(stage->output), 2);
	memory_remove(stage->cache.registry, FROM "/c1");
	memory_remove(stage->cache.registry, FROM "/c2");
	run_until(stage, is_held);
	cr_assert_str_eq(content("place/web"), "10.0.0.1:1\n10.0.0.1:2\n");
}

STAGED(endpoints_that_do_not_fit_are_the_reason_of_current)
{
	put(stage, "a", "a..b", 1);
	put(stage, "b", "10.0.0.1", 2);
	begin(stage, OUTPUT("format = haproxy\npath = FILE"), NULL);
	run_until(stage, is_current);
	cr_assert_str_eq(content("place/web"), "    server berth:b 10.0.0.1:2\n");
	cr_assert_str_eq(output_why(stage->output),
		"left out: " FROM "/a \"a..b:1\" names neither an address nor a host name");
	put(stage, "a", "10.0.0.1", 3);
	run_again(stage, is_current);
	cr_assert_str_eq(output_why(stage->output), "");
}

STAGED(deeper_nodes_are_for_a_tree_alone)
{
	put(stage, "c1", "10.0.0.1", 1);
	memory_put(stage->cache.registry, FROM "/c1/deep", "");
	put(stage, "c1/deep/er", "10.0.0.1", 2);
	begin(stage, OUTPUT("format = lines\npath = FILE"), NULL);
	run_until(stage, is_current);
	cr_assert_str_eq(content("place/web"), "10.0.0.1:1\n");
	forget(stage);
	begin(stage, HEAD "from = " FROM "/**\nformat = lines\npath = FILE\n", NULL);
	run_until(stage, has_two);
	cr_assert_str_eq(content("place/web"), "10.0.0.1:1\n10.0.0.1:2\n");
}

#define FURTHER "/far/web"
#define FAILOVER "failover = " FURTHER "\nfailover_hold = 1ms\nformat = lines\npath = FILE"

static void put_further(struct stage *stage, const char *name, int port)
{
	char path[200];
	char record[500];
	memory_put(stage->cache.registry, "/far", "");
	memory_put(stage->cache.registry, FURTHER, "");
	snprintf(path, sizeof(path), FURTHER "/%s", name);
	snprintf(record, sizeof(record),
		"{\"type\":\"JSONServiceRecord\",\"berth:zone\":\"us/b\",\"external\":[{\"api\":"
		"\"x\",\"addressType\":\"host/port\",\"protocol\":\"http\",\"addresses\":["
		"{\"host\":\"10.9.0.1\",\"port\":\"%d\"}]}],\"internal\":[]}",
		port);
	memory_put(stage->cache.registry, path, record);
}

static bool is_far(const struct stage *stage)
{
	return is_current(stage) && strcmp(content("place/web"), "10.9.0.1:7\n") == 0;
}

static bool is_near(const struct stage *stage)
{
	return is_current(stage) && strcmp(content("place/web"), "10.0.0.1:1\n") == 0;
}

STAGED(a_further_path_comes_in_when_the_nearer_one_is_empty_and_goes_out_again)
{
	put(stage, "c1", "10.0.0.1", 1);
	put_further(stage, "c7", 7);
	begin(stage, OUTPUT(FAILOVER), NULL);
	run_until(stage, is_near);
	memory_remove(stage->cache.registry, FROM "/c1");
	run_until(stage, is_far);
	cr_assert_eq(output_instances(stage->output), 1);
	cr_assert_not_null(
		strstr(output_why(stage->output), FURTHER), "%s", output_why(stage->output));
	put(stage, "c1", "10.0.0.1", 1);
	run_until(stage, is_near);
	cr_assert_str_eq(output_why(stage->output), "");
}

static bool has_both(const struct stage *stage)
{
	return is_current(stage) &&
		strcmp(content("place/web"),
			"    server berth:c1 10.0.0.1:1\n"
			"    server berth:.far.web.c7 10.9.0.1:7 backup\n") == 0;
}

STAGED(too_few_near_ones_stay_and_the_further_ones_are_their_backups)
{
	put(stage, "c1", "10.0.0.1", 1);
	put_further(stage, "c7", 7);
	begin(stage,
		OUTPUT("failover = " FURTHER "\nmin_instances = 2\nprefer = zone\n"
		       "format = haproxy\npath = FILE"),
		NULL);
	run_until(stage, has_both);
}

static bool is_near_server(const struct stage *stage)
{
	return is_current(stage) &&
		strcmp(content("place/web"), "    server berth:.far.web.c7 10.9.0.1:7\n") == 0;
}

STAGED(the_nearest_servers_that_are_there_serve)
{
	put_further(stage, "c7", 7);
	begin(stage,
		OUTPUT("failover = /none, " FURTHER "\nprefer = zone\nformat = haproxy\n"
		       "path = FILE"),
		NULL);
	run_until(stage, is_near_server);
}

STAGED(host_names_are_looked_up_for_nginx)
{
	put(stage, "c1", "localhost", 1);
	begin(stage, OUTPUT("format = nginx\npath = FILE"), NULL);
	run_until(stage, is_resolving);
	cr_assert_str_eq(output_state_name(output_state(stage->output)), "resolving");
	run_until(stage, is_current);
	cr_assert_str_eq(content("place/web"), "server 127.0.0.1:1;\nserver [::1]:1;\n");
	put(stage, "c2", "localhost", 2);
	run_again(stage, is_current);
	cr_assert_not_null(strstr(content("place/web"), "server [::1]:2;\n"));
}

/* ---- commands ---- */

static bool has_rendered_two(const struct stage *stage)
{
	return is_current(stage) && strstr(content("place/web"), "\"port\":2}");
}

STAGED(a_command_renders_and_another_one_hears_of_it)
{
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage,
		OUTPUT("render = /bin/sh -c 'cat; echo $BERTH_OUTPUT; echo $BERTH_OUTPUT_PATH'\n"
		       "on_change = /bin/sh -c 'echo x >>FILE.ran'\npath = FILE"),
		NULL);
	run_until(stage, is_rendering);
	put(stage, "c2", "10.0.0.1", 2); /* during the step, unless the machine is slow */
	run_until(stage, has_rendered_two);
	const char *text = content("place/web");
	cr_assert_not_null(strstr(text, "{\"name\":\"web\",\"from\":\"" FROM "\",\"records\":{"));
	cr_assert_not_null(strstr(text, "\"host\":\"10.0.0.1\",\"port\":1}"));
	cr_assert_not_null(strstr(text, "\nweb\n"));
	cr_assert_not_null(strstr(text, "place/web\n"));
	cr_assert_eq(strlen(output_delivered(stage->output)), 16);
	cr_assert_not_null(strstr(content("place/web"), "\"host\":\"10.0.0.1\",\"port\":2}"));
	cr_assert_str_eq(content("place/web.ran"), "x\nx\n");
	cr_assert_eq(output_counts(stage->output)->runs, 2);
	cr_assert_eq(stage->delivered, 2);
}

STAGED(on_change_does_not_run_for_what_was_delivered)
{
	char delivered[OUTPUT_DIGEST_BYTES];
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage,
		OUTPUT("format = lines\non_change = /bin/sh -c 'echo x >>FILE.ran'\npath = FILE"),
		NULL);
	run_until(stage, is_current);
	snprintf(delivered, sizeof(delivered), "%s", output_delivered(stage->output));
	forget(stage);
	begin(stage,
		OUTPUT("format = lines\non_change = /bin/sh -c 'echo x >>FILE.ran'\npath = FILE"),
		delivered);
	run_until(stage, is_current);
	cr_assert_str_eq(output_delivered(stage->output), delivered);
	forget(stage);
	begin(stage,
		OUTPUT("format = lines\non_change = /bin/sh -c 'echo x >>FILE.ran'\npath = FILE"),
		"other");
	run_until(stage, is_current);
	cr_assert_str_eq(content("place/web.ran"), "x\nx\n");
	cr_assert_eq(output_counts(stage->output)->writes, 0);
}

STAGED(the_check_sees_the_new_file_before_it_is_in_place)
{
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage,
		OUTPUT("format = lines\npath = FILE\n"
		       "check = /bin/sh -c 'test ! -e FILE && cat $0 >$1.seen' {} FILE"),
		NULL);
	run_until(stage, is_current);
	cr_assert_str_eq(content("place/web.seen"), "10.0.0.1:1\n");
	cr_assert_str_eq(content("place/web"), "10.0.0.1:1\n");
}

STAGED(a_file_that_the_check_refuses_does_not_come_into_place)
{
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage,
		OUTPUT("format = lines\npath = FILE\ncheck = /bin/sh -c "
		       "'echo one; echo first >&2; echo last >&2; exit 3' {}"),
		NULL);
	run_until(stage, has_failed);
	cr_assert_str_eq(output_why(stage->output), "check: exit status 3");
	cr_assert_str_eq(output_printed(stage->output), "last");
	cr_assert_eq(access(path_of("place/web"), F_OK), -1);
	cr_assert_eq(access(path_of("place/.web.berth-new"), F_OK), -1);
	cr_assert_eq(output_counts(stage->output)->failures, 1);
	put(stage, "c2", "10.0.0.1", 2); /* tried again at once */
	run_again(stage, has_failed);
	cr_assert_eq(stage->output->backoff_ms, 2000);
	stage->output->backoff_ms = 50000;
	put(stage, "c3", "10.0.0.1", 2);
	run_again(stage, has_failed);
	cr_assert_eq(stage->output->backoff_ms, 60000);
	cr_assert(timer_runs(&stage->output->timer));
}

static void check_failure(
	struct stage *stage, const char *text, const char *why, const char *printed)
{
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage, text, NULL);
	run_until(stage, has_failed);
	cr_assert_not_null(strstr(output_why(stage->output), why), "%s", output_why(stage->output));
	cr_assert_str_eq(output_printed(stage->output), printed);
	cr_assert_eq(access(path_of("place/web"), F_OK), -1);
}

STAGED(a_render_command_that_prints_nothing_fails)
{
	check_failure(
		stage, OUTPUT("render = /bin/true\npath = FILE"), "render: it printed nothing", "");
}

STAGED(a_render_command_that_prints_too_much_fails)
{
	check_failure(stage, OUTPUT("render = /usr/bin/head -c 16777217 /dev/zero\npath = FILE"),
		"render: it printed more than 16 MiB", "");
}

STAGED(a_command_that_does_not_end_is_ended)
{
	check_failure(stage, OUTPUT("render = /bin/sleep 1000\ntimeout = 20ms\npath = FILE"),
		"render: not ended after 20 ms", "");
}

STAGED(an_on_change_that_fails_runs_again)
{
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage,
		OUTPUT("format = lines\npath = FILE\non_change = /bin/sh -c "
		       "'echo x >>FILE.ran; test -e FILE.good'"),
		NULL);
	run_until(stage, has_failed);
	cr_assert_str_eq(output_why(stage->output), "on_change: exit status 1");
	cr_assert_str_eq(output_delivered(stage->output), "");
	close(open(path_of("place/web.good"), O_CREAT | O_WRONLY, 0600));
	run_until(stage, is_current); /* by its own timer */
	cr_assert_eq(output_counts(stage->output)->runs, 2);
	cr_assert_eq(output_counts(stage->output)->writes, 1);
	cr_assert_eq(stage->output->backoff_ms, 0);
}

/* ---- the registry ---- */

STAGED(nothing_is_written_while_the_registry_is_away)
{
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage, OUTPUT("format = lines\npath = FILE"), NULL);
	run_until(stage, is_current);
	memory_set_state(stage->cache.registry, REGISTRY_CONNECTING);
	cache_stage_turn(&stage->cache);
	put(stage, "c2", "10.0.0.1", 2);
	stage->output->first_change_ms = clock_monotonic_ms();
	ev_feed_event(stage->cache.loop, &stage->output->timer.timer, EV_TIMER);
	run_until(stage, is_waiting);
	cr_assert_str_eq(output_why(stage->output), "the registry does not answer");
	cr_assert_str_eq(content("place/web"), "10.0.0.1:1\n");
	memory_set_state(stage->cache.registry, REGISTRY_CONNECTED);
	run_until(stage, has_two);
}

/* A picture is written when the server has confirmed it. */
static void begin_to_confirm(struct stage *stage)
{
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage, OUTPUT("format = lines\npath = FILE"), NULL);
	run_until(stage, is_current);
	cr_assert_eq(unlink(path_of("place/web")), 0);
	cr_assert_eq(access(path_of("place/web"), F_OK), -1);
	memory_set_heard_ms(stage->cache.registry, clock_monotonic_ms() - 3600000);
	memory_set_answering(stage->cache.registry, false);
	ev_feed_event(stage->cache.loop, &stage->output->timer, EV_TIMER);
	run_until(stage, is_confirming);
}

STAGED(nothing_is_written_before_the_server_confirms_it)
{
	begin_to_confirm(stage);
	cache_stage_turn(&stage->cache);
	cr_assert(is_confirming(stage));
	cr_assert_eq(access(path_of("place/web"), F_OK), -1);
	memory_set_answering(stage->cache.registry, true);
	memory_set_heard_ms(stage->cache.registry, INT64_MAX);
	run_until(stage, is_current);
	cr_assert_str_eq(content("place/web"), "10.0.0.1:1\n");
}

static bool is_told_to_wait(const struct stage *stage)
{
	return is_waiting(stage) && *output_why(stage->output);
}

STAGED(a_registry_that_is_away_at_the_beginning_is_waited_for)
{
	put(stage, "c1", "10.0.0.1", 1);
	memory_set_state(stage->cache.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage->cache);
	begin(stage, OUTPUT("format = lines\npath = FILE"), NULL);
	run_until(stage, is_told_to_wait);
	cr_assert_str_eq(output_why(stage->output), "the registry does not answer");
	cr_assert_eq(output_counts(stage->output)->failures, 0);
	memory_set_state(stage->cache.registry, REGISTRY_CONNECTED);
	run_until(stage, is_current);
}

STAGED(a_picture_that_the_cache_cannot_hold_is_a_failure)
{
	for (int i = 0; i < 8000; i++) {
		char path[64];
		snprintf(path, sizeof(path), FROM "/c%d", i);
		memory_put(stage->cache.registry, path, "");
	}
	begin(stage, OUTPUT("format = lines\npath = FILE"), NULL);
	run_until(stage, has_failed);
	cr_assert_not_null(strstr(output_why(stage->output), "does not fit into the cache"));
	cr_assert_eq(output_counts(stage->output)->failures, 1);
}

STAGED(quiet_ends_at_max_wait)
{
	put(stage, "c1", "10.0.0.1", 1);
	begin(stage,
		"[agent]\nsocket = /tmp/none.sock\n[registry]\nurl = dir:/none\n[output web]\n"
		"quiet = 1h\nmax_wait = 1h\nformat = lines\nfrom = " FROM "\npath = FILE\n",
		NULL);
	run_until(stage, is_settling);
	int64_t left_ms = timer_left_ms(&stage->output->timer);
	cr_assert_gt(left_ms, 3000 * 1000);
	cr_assert_leq(left_ms, 3601 * 1000);
	stage->output->first_change_ms -= 3599 * 1000;
	put(stage, "c2", "10.0.0.1", 2);
	while (timer_left_ms(&stage->output->timer) > 3000 * 1000) {
		ev_run(stage->cache.loop, EVRUN_ONCE);
	}
	cr_assert_leq(timer_left_ms(&stage->output->timer), 2000);
	stage->output->first_change_ms -= 10000;
	put(stage, "c3", "10.0.0.1", 3);
	run_until(stage, has_three);
}
