/* Names answered from the cache. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/names/lookup.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/names_line.h"
#include "tests/support/names_stage.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/staged.h"

TestSuite(names_lookup);

enum { CONFIRM_MS = 10000 };

#define AT(host)                                                                                   \
	"{\"type\":\"JSONServiceRecord\",\"yarn:ip\":\"" host                                      \
	"\",\"description\":\"d\",\"external\":[{\"api\":\"x\",\"addressType\":\"host/port\","     \
	"\"protocol\":\"http\",\"addresses\":[{\"host\":\"" host                                   \
	"\",\"port\":\"80\"}]}],\"internal\":[]}"

#define PROD "/users/joe/web/prod"
#define COMPONENTS PROD "/components"
#define BELOW "components.prod.web.joe.users.berth"

static const struct {
	const char *path;
	const char *data;
} nodes[] = {
	{ "/a", AT("10.0.0.1") },
	{ "/broken", "{\"type\":\"JSONServiceRecord\"" },
	{ "/twin", AT("10.0.0.1") },
	{ "/users", "" },
	{ "/users/eve", "" },
	{ "/users/eve/services", "" },
	{ "/users/eve/services/batch", "" },
	{ "/users/eve/services/batch/app", "" },
	{ "/users/eve/services/batch/app/components", "" },
	{ "/users/eve/services/batch/app/components/c", AT("10.0.0.6") },
	{ "/users/joe", "" },
	{ "/users/joe/web", "" },
	{ PROD, "" },
	{ COMPONENTS, "" },
	{ COMPONENTS "/c1", AT("10.0.0.2") },
	{ COMPONENTS "/c2", AT("10.0.0.3") },
	{ COMPONENTS "/ctr-1", AT("10.0.0.4") },
};

struct stage {
	struct cache_stage cache;
	struct names_lookups *lookups;
	size_t tasks;
};

/* One question, and its answer as a line. */
struct question {
	struct names_wait wait;
	char line[512];
	bool stale;
	int64_t age_ms;
	int answers;
};

static void count_task(void *context, const struct registry_task *task, struct err *err)
{
	(void)task;
	(void)err;
	struct stage *stage = context;
	stage->tasks++;
}

/* The clock is stopped: a slow machine costs no patience. */
static struct stage *open_stage(struct stage *stage)
{
	clock_stands = true;
	clock_shift_ms = 1000000;
	cache_stage_open(&stage->cache,
		&(struct cache_options){ .resync_ms = 600000, .confirm_ms = CONFIRM_MS });
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		memory_put(stage->cache.registry, nodes[i].path, nodes[i].data);
	}
	memory_on_task(stage->cache.registry, count_task, stage);
	stage->lookups = names_stage_create(stage->cache.loop, stage->cache.cache);
	return stage;
}

static void close_stage(struct stage *stage)
{
	names_stage_destroy(stage->lookups);
	names_stage_destroy(NULL);
	cache_stage_close(&stage->cache);
}

#define STAGED(name)                                                                               \
	STAGED_TEST(names_lookup, name, struct stage *, stage,                                     \
		open_stage(&(struct stage){ .tasks = 0 }), close_stage)

static void on_answer(void *context, const struct names_view *view)
{
	struct question *question = context;
	question->answers++;
	snprintf(question->line, sizeof(question->line), "%s", names_line(view->answer));
	question->stale = view->stale;
	question->age_ms = view->age_ms;
}

/* Whether the name is answered at once. */
static bool ask(struct stage *stage, struct question *question, const char *name)
{
	struct names_view view;
	*question = (struct question){ .wait = { .on_answer = on_answer, .context = question } };
	if (!names_ask(stage->lookups, &(struct names_question){ name, NULL }, &view,
		    &question->wait)) {
		return false;
	}
	on_answer(question, &view);
	return true;
}

/* The answer, now or as soon as the registry has answered what is missing. */
static const char *look(struct stage *stage, const char *name)
{
	static struct question question;
	if (!ask(stage, &question, name)) {
		cache_stage_turn(&stage->cache);
	}
	cr_expect_eq(question.answers, 1, "%s has %d answers", name, question.answers);
	cr_expect_not(question.stale);
	cr_expect_eq(question.age_ms, 0);
	return question.line;
}

static const struct {
	const char *name;
	const char *line;
} rows[] = {
	{ "berth", "found apex" },
	{ "a.berth", "found 10.0.0.1 [0 1 80 a.berth]" },
	{ "A.Berth.", "found 10.0.0.1 [0 1 80 a.berth]" },
	{ "broken.berth", "found" },
	{ "joe.berth", "found" },
	{ "nowhere.berth", "absent" },
	{ "c3.prod.web.joe.berth", "absent" },
	{ "c1.prod.web.joe.berth", "found 10.0.0.2 [0 1 80 c1." BELOW "]" },
	{ "prod.web.joe.berth",
		"found 10.0.0.2 10.0.0.3 10.0.0.4 [0 1 80 c1." BELOW "] [0 1 80 c2." BELOW
		"] [0 1 80 ctr-1." BELOW "]" },
	{ "_http._tcp.prod.web.joe.berth",
		"found [0 1 80 c1." BELOW "] [0 1 80 c2." BELOW "] [0 1 80 ctr-1." BELOW "]" },
	{ "ctr-1.berth", "found 10.0.0.4 [0 1 80 ctr-1." BELOW "]" },
	{ "d.app.eve.berth",
		"found 10.0.0.6 [0 1 80 c.components.app.batch.services.eve.users.berth]" },
	{ "3.0.0.10.in-addr.arpa", "found ->c2." BELOW },
	{ "9.0.0.10.in-addr.arpa", "outside" },
	{ "example.org", "outside" },
	{ "a..berth", "outside" },
	{ "", "outside" },
};

STAGED(names_are_read_once_and_then_known)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cr_expect_str_eq(look(stage, rows[i].name), rows[i].line, "%s", rows[i].name);
	}
	cr_assert_gt(stage->tasks, 0);
	stage->tasks = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct names_view view;
		cr_assert(names_ask(stage->lookups, &(struct names_question){ rows[i].name, NULL },
				  &view, NULL),
			"%s", rows[i].name);
		cr_expect_str_eq(names_line(view.answer), rows[i].line, "%s", rows[i].name);
		cr_expect_not(view.stale);
		cr_expect_eq(view.age_ms, 0);
	}
	cache_stage_turn(&stage->cache);
	cr_assert_eq(stage->tasks, 0);
}

STAGED(an_answer_follows_the_registry)
{
	struct registry *registry = stage->cache.registry;
	for (int round = 0; round < 2; round++) {
		cr_expect_str_eq(look(stage, "a.berth"), "found 10.0.0.1 [0 1 80 a.berth]");
		cr_expect_str_eq(look(stage, "1.0.0.10.in-addr.arpa"), "found ->a.berth");
		memory_put(registry, "/a", AT("10.0.0.9"));
		cache_stage_turn(&stage->cache);
		cr_expect_str_eq(look(stage, "a.berth"), "found 10.0.0.9 [0 1 80 a.berth]");
		cr_expect_str_eq(look(stage, "1.0.0.10.in-addr.arpa"), "outside");
		memory_remove(registry, "/a");
		cache_stage_turn(&stage->cache);
		cr_expect_str_eq(look(stage, "a.berth"), "absent");
		memory_put(registry, "/a", AT("10.0.0.1"));
		cache_stage_turn(&stage->cache);
	}
}

STAGED(an_address_leads_to_each_record_that_is_known)
{
	look(stage, "a.berth");
	cr_expect_str_eq(look(stage, "1.0.0.10.in-addr.arpa"), "found ->a.berth");
	look(stage, "twin.berth");
	const char *line = look(stage, "1.0.0.10.in-addr.arpa");
	cr_expect_not_null(strstr(line, "->a.berth"), "%s", line);
	cr_expect_not_null(strstr(line, "->twin.berth"), "%s", line);
}

/* More names than answers are kept; each is still its own. */
STAGED(many_names_do_not_get_each_other_s_answers)
{
	enum { NAMES = 1500 };
	static struct question questions[NAMES];
	char name[64];
	cache_set_options(stage->cache.cache,
		&(struct cache_options){ .resync_ms = 600000,
			.max_size_bytes = 16 * 1024 * 1024,
			.confirm_ms = CONFIRM_MS });
	for (int i = 0; i < NAMES; i++) {
		char path[64];
		char data[600];
		snprintf(path, sizeof(path), "/n%d", i);
		snprintf(data, sizeof(data), AT("10.1.%d.%d"), i / 250, i % 250, i / 250, i % 250);
		memory_put(stage->cache.registry, path, i % 3 ? data : "");
	}
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < NAMES; i++) {
			snprintf(name, sizeof(name), "n%d.berth", i);
			ask(stage, &questions[i], name);
		}
		for (int i = 0; i < 100; i++) {
			cache_stage_turn(&stage->cache);
		}
		for (int i = 0; i < NAMES; i++) {
			char line[100] = "found";
			if (i % 3) {
				snprintf(line, sizeof(line), "found 10.1.%d.%d [0 1 80 n%d.berth]",
					i / 250, i % 250, i);
			}
			cr_assert_eq(questions[i].answers, 1);
			cr_assert_str_eq(questions[i].line, line);
		}
	}
}

STAGED(a_question_that_is_cancelled_has_no_answer)
{
	struct question question;
	struct question other;
	struct question never = { .answers = 0 };
	cr_assert_not(ask(stage, &question, "prod.web.joe.berth"));
	cr_assert_not(ask(stage, &other, "a.berth"));
	names_cancel(&question.wait);
	names_cancel(&question.wait);
	names_cancel(&never.wait);
	cache_stage_turn(&stage->cache);
	clock_shift_ms += NAMES_PATIENCE_MS + 1;
	cache_stage_turn(&stage->cache);
	cr_assert_eq(question.answers, 0);
	cr_assert_eq(other.answers, 1);
	/* Between the end of its reads and the next evaluation. */
	memory_put(stage->cache.registry, "/b", AT("10.0.0.5"));
	cr_assert_not(ask(stage, &question, "b.berth"));
	for (int i = 0; i < 3; i++) {
		registry_dispatch(stage->cache.registry, stage->cache.now_ms);
	}
	names_cancel(&question.wait);
	cache_stage_turn(&stage->cache);
	cr_assert_eq(question.answers, 0);
}

STAGED(a_question_without_an_answer_ends_unknown)
{
	struct question question;
	memory_set_answering(stage->cache.registry, false);
	cr_assert_not(ask(stage, &question, "prod.web.joe.berth"));
	clock_shift_ms += NAMES_PATIENCE_MS / 2;
	cache_stage_turn(&stage->cache);
	cr_assert_eq(question.answers, 0);
	clock_shift_ms += NAMES_PATIENCE_MS / 2 + 1;
	cache_stage_turn(&stage->cache);
	cr_assert_eq(question.answers, 1);
	cr_expect_str_eq(question.line, "unknown");
	cr_expect_not(question.stale);
	cr_expect_eq(question.age_ms, 0);
	memory_set_answering(stage->cache.registry, true);
	clock_shift_ms += NAMES_PATIENCE_MS + 1;
	cache_stage_turn(&stage->cache);
	cr_assert_eq(question.answers, 1, "it has ended");
	cr_expect_str_eq(look(stage, "a.berth"), "found 10.0.0.1 [0 1 80 a.berth]");
}

STAGED(while_the_registry_is_away_known_answers_are_stale_and_others_unknown)
{
	struct question question;
	cr_expect_str_eq(look(stage, "a.berth"), "found 10.0.0.1 [0 1 80 a.berth]");
	cr_expect_str_eq(look(stage, "nowhere.berth"), "absent");
	memory_set_state(stage->cache.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage->cache);
	clock_shift_ms += 3000;
	for (int i = 0; i < 2; i++) { /* such an answer is not kept: its age grows */
		cr_assert(ask(stage, &question, "a.berth"));
		cr_expect_str_eq(question.line, "found 10.0.0.1 [0 1 80 a.berth]");
		cr_expect(question.stale);
		cr_expect_geq(question.age_ms, 3000 * (i + 1));
		clock_shift_ms += 3000;
	}
	const char *const unread[] = { "other.berth", "prod.web.joe.berth" };
	for (size_t i = 0; i < ARRAY_LEN(unread); i++) {
		if (!ask(stage, &question, unread[i])) {
			cache_stage_turn(&stage->cache);
		}
		cr_expect_str_eq(question.line, "unknown");
	}
	memory_set_state(stage->cache.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage->cache);
	cr_expect_str_eq(look(stage, "a.berth"), "found 10.0.0.1 [0 1 80 a.berth]");
	cr_expect_str_eq(look(stage, "other.berth"), "absent");
}

/* The bound of a name's age is the cache's own: a question does not ask the server for less. */
STAGED(a_server_heard_lately_is_not_asked)
{
	struct question question;
	look(stage, "a.berth");
	memory_set_heard_ms(stage->cache.registry, clock_monotonic_ms() - CONFIRM_MS * 9 / 20);
	cache_set_options(stage->cache.cache,
		&(struct cache_options){ .resync_ms = 600000,
			.max_size_bytes = 1024 * 1024,
			.confirm_ms = CONFIRM_MS });
	names_stage_destroy(stage->lookups);
	stage->lookups = names_stage_create(stage->cache.loop, stage->cache.cache);
	stage->tasks = 0;
	for (int i = 0; i < 2; i++) {
		if (!ask(stage, &question, "a.berth")) {
			cache_stage_turn(&stage->cache);
		}
		cr_expect_str_eq(question.line, "found 10.0.0.1 [0 1 80 a.berth]");
		cr_expect_not(question.stale);
	}
	cr_expect_eq(stage->tasks, 0);
}

STAGED(names_at_and_below_the_domain_are_the_agent_s_own)
{
	static const struct {
		const char *name;
		bool is_own;
	} names[] = { { "berth", true }, { "BERTH.", true }, { "a.berth", true }, { "", false },
		{ "xberth", false }, { "berth.org", false }, { "a..berth", false } };
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cr_expect_eq(names_lookups_own(stage->lookups, names[i].name), names[i].is_own,
			"%s", names[i].name);
	}
	cr_expect_str_eq(names_lookups_domain(stage->lookups), "berth");
}
