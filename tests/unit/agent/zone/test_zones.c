/* Which domain a question belongs to, when it has to wait, and whether its answer is stale. */
#include <arpa/nameser.h>
#include <criterion/criterion.h>
#include <string.h>

#include "agent/zone/zones.h"
#include "lib/base/array.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "tests/support/cache_stage.h"
#include "tests/support/memory_backend.h"
#include "tests/support/run_until.h"

TestSuite(zones);

#define HOST(address) "{\"type\":\"moray_host\",\"moray_host\":{\"address\":\"" address "\"}}"

struct stage {
	struct cache_stage cache;
	struct zones *zones;
	unsigned ready; /* calls of on_ready */
};

static void on_state(void *context, enum registry_state state, const char *why)
{
	(void)why;
	struct stage *stage = context;
	if (stage->cache.cache) {
		cache_on_registry_state(stage->cache.cache, state);
	}
}

static void release_rendering(void *rendering)
{
	(void)rendering;
}

static void on_ready(void *context)
{
	struct stage *stage = context;
	stage->ready++;
}

static void set_domains(struct stage *stage, const char *first, const char *second)
{
	const struct zone_options options[] = { { first, ns_r_refused },
		{ second, ns_r_nxdomain } };
	zones_set(stage->zones, options, second ? 2 : first ? 1 : 0);
}

/* z.org with two hosts, and below it the domain w.z.org with one; none is followed yet. */
static void open_stage(struct stage *stage, int64_t confirm_ms)
{
	const struct registry_options registry = {
		.url = "dir:/here", .foreign_paths = true, .on_state = on_state, .context = stage
	};
	const struct cache_options cache = { .max_size_bytes = 1024 * 1024,
		.confirm_ms = confirm_ms,
		.release_rendering = release_rendering };
	*stage = (struct stage){ .cache = { .loop = ev_loop_new(EVFLAG_AUTO), .now_ms = 1 } };
	stage->cache.registry = memory_open("zones", &registry);
	stage->cache.cache = cache_create(stage->cache.loop, stage->cache.registry, &cache);
	memory_put(stage->cache.registry, "//org", "");
	memory_put(stage->cache.registry, "//org/z", "");
	memory_put(stage->cache.registry, "//org/z/a", HOST("10.0.0.1"));
	memory_put(stage->cache.registry, "//org/z/b", HOST("10.0.0.2"));
	memory_put(stage->cache.registry, "//org/z/w", "");
	memory_put(stage->cache.registry, "//org/z/w/c", HOST("10.0.0.3"));
	memory_set_state(stage->cache.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage->cache);
	stage->zones = zones_create(stage->cache.loop, stage->cache.registry, stage->cache.cache);
}

static void open_with(struct stage *stage, int64_t confirm_ms)
{
	open_stage(stage, confirm_ms);
	set_domains(stage, "z.org", NULL);
	cache_stage_turn(&stage->cache);
}

static void close_stage(struct stage *stage)
{
	zones_destroy(stage->zones);
	cache_stage_close(&stage->cache);
}

/* "outside", "waiting", or "DOMAIN CODE address … stale". */
static const char *told(enum zone_verdict verdict, struct zone_view *view)
{
	static char text[256];
	if (verdict != ZONE_ANSWERED) {
		return verdict == ZONE_OUTSIDE ? "outside" : "waiting";
	}
	text_printf(text, sizeof(text), "%s %d", view->domain, view->answer.rcode);
	for (size_t i = 0; i < view->answer.count; i++) {
		const struct zone_record *record = &view->answer.records[i];
		size_t len = strlen(text);
		if (record->type == ns_t_ptr) {
			text_printf(text + len, sizeof(text) - len, " %s", record->node->name);
		} else {
			text_printf(text + len, sizeof(text) - len, " %u", record->address[3]);
		}
	}
	strcat(text, view->stale ? " stale" : "");
	zone_answer_finish(&view->answer);
	return text;
}

static const char *ask(struct stage *stage, const char *name, uint16_t type, struct zone_wait *wait)
{
	struct zone_view view;
	const struct zone_question question = { .name = name, .type = type };
	if (wait) {
		memset(wait, 0xa5, sizeof(*wait)); /* the rest is the module's to set */
		wait->on_ready = on_ready;
		wait->context = stage;
		wait->zones = NULL;
	}
	return told(zones_ask(stage->zones, &question, &view, wait), &view);
}

static const char *ask_now(struct stage *stage, const char *name, uint16_t type)
{
	struct zone_view view;
	const struct zone_question question = { .name = name, .type = type };
	return told(zones_ask_now(stage->zones, &question, &view), &view);
}

Test(zones, a_question_belongs_to_the_longest_domain_that_it_is_in)
{
	static const struct {
		const char *name;
		const char *answer;
	} questions[] = {
		{ "a.z.org", "z.org 0 1" },
		{ "A.Z.Org", "z.org 0 1" },
		{ "none.z.org", "z.org 5" },
		{ "z.org", "z.org 5" },
		{ "c.w.z.org", "w.z.org 0 3" },
		{ "W.z.org", "w.z.org 3" },
		{ "none.w.z.org", "w.z.org 3" },
		{ "ww.z.org", "z.org 5" },
		{ "zz.org", "outside" },
		{ "azz.org", "outside" },
		{ "org", "outside" },
		{ "", "outside" },
		{ "a.z.com", "outside" },
	};
	struct stage stage;
	open_stage(&stage, 0);
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, NULL), "outside", "no domain is ours");
	for (int order = 0; order < 2; order++) {
		const struct zone_options options[] = { { "z.org", ns_r_refused },
			{ "w.z.org", ns_r_nxdomain } };
		const struct zone_options turned[] = { options[1], options[0] };
		zones_set(stage.zones, order ? turned : options, 2);
		cache_stage_turn(&stage.cache);
		for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
			cr_expect_str_eq(ask(&stage, questions[i].name, ns_t_a, NULL),
				questions[i].answer, "%s", questions[i].name);
		}
	}
	close_stage(&stage);
}

Test(zones, a_question_waits_until_its_domain_is_read)
{
	struct zone_wait waits[3];
	struct stage stage;
	open_stage(&stage, 0);
	set_domains(&stage, "z.org", NULL);
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, NULL), "waiting");
	for (size_t i = 0; i < 3; i++) {
		cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, &waits[i]), "waiting");
		int64_t left_ms = timer_left_ms(&waits[i].patience);
		cr_expect(left_ms > 0 && left_ms <= ZONE_PATIENCE_MS);
	}
	cr_expect_str_eq(ask_now(&stage, "a.z.org", ns_t_a), "z.org 2");
	zones_cancel(&waits[1]);
	zones_cancel(&waits[1]);
	cr_expect_not(timer_runs(&waits[1].patience));
	cache_stage_turn(&stage.cache);
	cr_expect_eq(stage.ready, 2);
	cr_expect_null(waits[0].zones);
	cr_expect_not(timer_runs(&waits[0].patience));
	cr_expect_str_eq(ask_now(&stage, "a.z.org", ns_t_a), "z.org 0 1");
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, &waits[0]), "z.org 0 1");
	cr_expect_null(waits[0].zones, "nothing to wait for");
	cache_stage_turn(&stage.cache);
	cr_expect_eq(stage.ready, 2);
	close_stage(&stage);
}

Test(zones, patience_ends_and_the_question_is_answered_with_what_is_known)
{
	struct zone_wait wait;
	struct zone_wait other;
	struct stage stage;
	open_stage(&stage, 0);
	memory_set_answering(stage.cache.registry, false);
	set_domains(&stage, "z.org", NULL);
	cache_stage_turn(&stage.cache);
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, &wait), "waiting");
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, &other), "waiting");
	cache_stage_turn(&stage.cache);
	cr_expect_eq(stage.ready, 0);
	timer_start(&wait.patience, 0);
	RUN_UNTIL(stage.cache.loop, stage.ready > 0);
	cr_expect_eq(stage.ready, 1, "each has its own patience");
	cr_expect_str_eq(ask_now(&stage, "a.z.org", ns_t_a), "z.org 2");
	zones_cancel(&other);
	close_stage(&stage);
}

Test(zones, an_address_leads_to_a_host_of_any_domain)
{
	static const struct {
		const char *name;
		uint16_t type;
		const char *answer;
	} questions[] = {
		{ "2.0.0.10.in-addr.arpa", ns_t_ptr, "z.org 0 b" },
		{ "2.0.0.10.IN-Addr.arpa", ns_t_ptr, "z.org 0 b" },
		{ "3.0.0.10.in-addr.arpa", ns_t_ptr, "z.org 0 c" },
		{ "4.0.0.10.in-addr.arpa", ns_t_ptr, "outside" },
		{ "10.0.0.2.in-addr.arpa", ns_t_ptr, "outside" },
		{ "2.0.0.10.in-addr.arpa", ns_t_a, "outside" },
		{ "2.0.0.10.in-addr.arpb", ns_t_ptr, "outside" },
		{ "2.0.0.10xin-addr.arpa", ns_t_ptr, "outside" },
		{ "0.0.10.in-addr.arpa", ns_t_ptr, "outside" },
		{ "2.2.0.0.10.in-addr.arpa", ns_t_ptr, "outside" },
		{ "x.0.0.10.in-addr.arpa", ns_t_ptr, "outside" },
		{ "in-addr.arpa", ns_t_ptr, "outside" },
		{ ".in-addr.arpa", ns_t_ptr, "outside" },
		{ "254.254.254.254.in-addr.arpa", ns_t_ptr, "z.org 0 far" },
		{ "2254.254.254.254.in-addr.arpa", ns_t_ptr, "outside" },
		{ "1234567890123456789012345678901234567890.in-addr.arpa", ns_t_ptr, "outside" },
		{ "a.z.org", ns_t_ptr, "z.org 0" },
	};
	struct stage stage;
	open_with(&stage, 0);
	memory_put(stage.cache.registry, "//org/z/far", HOST("254.254.254.254"));
	cache_stage_turn(&stage.cache);
	for (size_t i = 0; i < ARRAY_LEN(questions); i++) {
		cr_expect_str_eq(ask(&stage, questions[i].name, questions[i].type, NULL),
			questions[i].answer, "%s", questions[i].name);
	}
	set_domains(&stage, "w.z.org", "z.org");
	cache_stage_turn(&stage.cache);
	cr_expect_str_eq(
		ask(&stage, "3.0.0.10.in-addr.arpa", ns_t_ptr, NULL), "w.z.org 0 c", "the first");
	cr_expect_str_eq(ask(&stage, "2.0.0.10.in-addr.arpa", ns_t_ptr, NULL), "z.org 0 b");
	close_stage(&stage);
}

Test(zones, a_reverse_name_without_an_address_is_a_name_like_any_other)
{
	static const char *const names[] = { "x.0.0.10.in-addr.arpa", "0.0.10.in-addr.arpa",
		"2.2.0.0.10.in-addr.arpa",
		"1234567890123456789012345678901234567890.10.in-addr.arpa",
		"010.0.0.10.in-addr.arpa" };
	struct stage stage;
	open_stage(&stage, 0);
	set_domains(&stage, "z.org", "10.in-addr.arpa");
	cache_stage_turn(&stage.cache);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cr_expect_str_eq(
			ask(&stage, names[i], ns_t_ptr, NULL), "10.in-addr.arpa 3", "%s", names[i]);
	}
	cr_expect_str_eq(ask(&stage, "2.0.0.10.in-addr.arpa", ns_t_a, NULL), "10.in-addr.arpa 3");
	cr_expect_str_eq(ask(&stage, "2.0.0.10.in-addr.arpa", ns_t_ptr, NULL), "z.org 0 b");
	close_stage(&stage);
}

Test(zones, an_address_waits_for_the_domains_that_may_have_it)
{
	struct zone_wait wait;
	struct stage stage;
	open_with(&stage, 0);
	memory_be_late(stage.cache.registry, "//org/y");
	set_domains(&stage, "y.org", "z.org");
	cache_stage_turn(&stage.cache);
	cr_expect_str_eq(ask(&stage, "2.0.0.10.in-addr.arpa", ns_t_ptr, NULL), "waiting");
	cr_expect_str_eq(ask_now(&stage, "2.0.0.10.in-addr.arpa", ns_t_ptr), "z.org 0 b");
	cr_expect_str_eq(ask_now(&stage, "9.0.0.10.in-addr.arpa", ns_t_ptr), "outside");
	cr_expect_str_eq(ask(&stage, "2.0.0.10.in-addr.arpa", ns_t_ptr, &wait), "waiting");
	cache_stage_turn(&stage.cache);
	cr_expect_eq(stage.ready, 0);
	memory_answer_late(stage.cache.registry);
	cache_stage_turn(&stage.cache);
	cr_expect_eq(stage.ready, 1);
	close_stage(&stage);
}

Test(zones, without_a_registry_every_answer_is_stale)
{
	struct zone_wait wait;
	struct stage stage;
	open_with(&stage, 0);
	memory_set_state(stage.cache.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage.cache);
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, NULL), "waiting");
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, &wait), "z.org 0 1 stale");
	cr_expect_null(wait.zones);
	cr_expect_not(timer_runs(&wait.patience));
	cr_expect_str_eq(ask_now(&stage, "a.z.org", ns_t_a), "z.org 0 1 stale");
	cr_expect_str_eq(ask_now(&stage, "1.0.0.10.in-addr.arpa", ns_t_ptr), "z.org 0 a stale");
	cr_expect_str_eq(ask(&stage, "1.0.0.10.in-addr.arpa", ns_t_ptr, &wait), "z.org 0 a stale");
	cr_expect_str_eq(ask(&stage, "1.0.0.10.in-addr.arpa", ns_t_ptr, NULL), "waiting");
	close_stage(&stage);
}

Test(zones, a_node_is_stale_after_an_outage_until_it_is_confirmed)
{
	struct stage stage;
	open_with(&stage, 0);
	memory_set_state(stage.cache.registry, REGISTRY_AWAY);
	cache_stage_turn(&stage.cache);
	memory_be_late(stage.cache.registry, "//org/z/a");
	memory_set_state(stage.cache.registry, REGISTRY_CONNECTED);
	cache_stage_turn(&stage.cache);
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, NULL), "z.org 0 1 stale");
	cr_expect_str_eq(ask(&stage, "1.0.0.10.in-addr.arpa", ns_t_ptr, NULL), "z.org 0 a stale");
	memory_answer_late(stage.cache.registry);
	cache_stage_turn(&stage.cache);
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, NULL), "z.org 0 1");
	cr_expect_str_eq(ask(&stage, "1.0.0.10.in-addr.arpa", ns_t_ptr, NULL), "z.org 0 a");
	close_stage(&stage);
}

Test(zones, a_question_waits_for_a_registry_that_was_not_heard_lately)
{
	static const struct {
		const char *name;
		uint16_t type;
		const char *answer;
	} questions[] = { { "a.z.org", ns_t_a, "z.org 0 1" },
		{ "1.0.0.10.in-addr.arpa", ns_t_ptr, "z.org 0 a" } };
	for (size_t i = 0; i < 2; i++) {
		struct zone_wait wait;
		struct zone_wait gone;
		struct stage stage;
		open_with(&stage, 0);
		memory_set_heard_ms(stage.cache.registry, clock_monotonic_ms() - 3600000);
		cr_expect_str_eq(
			ask(&stage, questions[i].name, questions[i].type, NULL), "waiting");
		cr_expect_str_eq(
			ask(&stage, questions[i].name, questions[i].type, &wait), "waiting");
		cr_expect_str_eq(
			ask(&stage, questions[i].name, questions[i].type, &gone), "waiting");
		cr_expect(wait.confirming);
		zones_cancel(&gone);
		cr_expect_eq(stage.ready, 0);
		memory_set_heard_ms(stage.cache.registry, INT64_MAX);
		cache_stage_turn(&stage.cache);
		cr_expect_eq(stage.ready, 1);
		cr_expect_null(wait.zones);
		cr_expect_not(timer_runs(&wait.patience));
		cr_expect_str_eq(
			ask_now(&stage, questions[i].name, questions[i].type), questions[i].answer);
		close_stage(&stage);
	}
}

Test(zones, a_registry_that_stays_silent_makes_the_answer_stale)
{
	struct zone_wait wait;
	struct stage stage;
	open_with(&stage, 20);
	memory_set_answering(stage.cache.registry, false);
	memory_set_heard_ms(stage.cache.registry, clock_monotonic_ms() - 3600000);
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, &wait), "waiting");
	RUN_UNTIL(stage.cache.loop, stage.ready > 0);
	cr_expect_eq(stage.ready, 1);
	cr_expect_str_eq(ask_now(&stage, "a.z.org", ns_t_a), "z.org 0 1 stale");
	cr_expect_str_eq(ask(&stage, "a.z.org", ns_t_a, &wait), "z.org 0 1 stale");
	close_stage(&stage);
}
