/* The stage of tests/scenarios/component: a component, its checks, and the registry around it. */

#include "tests/support/scenario.h"
#include "tests/support/shifted_clock.h"
#include "tests/support/watch_count.h"
#include "tests/unit/agent/component/component_stage.h"

enum { PATIENCE_S = 20, TEXT_BYTES = 16384 };

/* ---- the configuration: lines of the component, then its sections ---- */

static const char *config_of(char **words)
{
	static char text[TEXT_BYTES];
	char sections[TEXT_BYTES] = "";
	size_t len = 0;
	size_t more = 0;
	text[0] = '\0';
	for (; *words; words++) {
		const char *name;
		if (strcmp(*words, "http") == 0) {
			more += (size_t)snprintf(sections + more, sizeof(sections) - more, HTTP);
		} else if ((name = scenario_value(*words, "check"))) {
			more += (size_t)snprintf(sections + more, sizeof(sections) - more,
				"[check %s]\ntype = ttl\ninterval = 1h\nfall = 1\n", name);
		} else if ((name = scenario_value(*words, "dynamic"))) {
			more += (size_t)snprintf(sections + more, sizeof(sections) - more,
				"[endpoint %s]\napi = more\nprotocol = tcp\n"
				"address_type = host/port\ndynamic = yes\n",
				name);
		} else if ((name = scenario_value(*words, "spring"))) {
			more += (size_t)snprintf(sections + more, sizeof(sections) - more,
				"[dialect %s]\ntype = spring\nbase = /spring\nservice = %s\n"
				"instance_id = i1\n",
				name, name);
		} else if (**words == '[') {
			more += (size_t)snprintf(
				sections + more, sizeof(sections) - more, "%s\n", *words);
		} else if (**words == '+') { /* a line of the last section */
			more += (size_t)snprintf(
				sections + more, sizeof(sections) - more, "%s\n", *words + 1);
		} else if ((name = scenario_value(*words, "long"))) {
			len += (size_t)snprintf(text + len, sizeof(text) - len,
				"description = %0*d\n", (int)scenario_ms(name), 0);
		} else {
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s\n", *words);
		}
	}
	snprintf(text + len, sizeof(text) - len, "%s", sections);
	return text;
}

static void configure(void *context, char **words)
{
	struct stage *stage = context;
	struct config *config = load(config_of(words));
	config_unref(stage->config);
	stage->config = config;
	checks_anew(stage);
	component_anew(stage, NULL);
}

static void reload_with(void *context, char **words)
{
	reload(context, config_of(words));
}

/* ---- what happens to it ---- */

static void set_interval(void *context, char **words)
{
	struct stage *stage = context;
	stage->update_interval_ms = scenario_ms(words[0]);
}

static void set_gate(void *context, char **words)
{
	struct stage *stage = context;
	component_set_gate(stage->component,
		strcmp(words[0], "open") == 0             ? COMPONENT_GATE_OPEN
			: strcmp(words[0], "closed") == 0 ? COMPONENT_GATE_CLOSED
							  : COMPONENT_GATE_UNDECIDED,
		words[1] ? words[1] : "");
}

static void set_verdict(void *context, char **words)
{
	report(context, words[0],
		strcmp(words[1], "passing") == 0           ? CHECK_PASSING
			: strcmp(words[1], "warning") == 0 ? CHECK_WARNING
							   : CHECK_FAILING);
}

/* An address of a thousand bytes. */
static json_t *large_address(void)
{
	static char host[1000];
	memset(host, 'x', sizeof(host) - 1);
	return json_pack("[{s:s, s:s}]", "host", host, "port", "1");
}

static void supply(void *context, char **words)
{
	struct stage *stage = context;
	struct err err = ERR_INIT;
	json_t *addresses = strcmp(words[1], "large") == 0 ? large_address()
							   : json_loads(words[1], 0, NULL);
	const char *count = words[3] ? scenario_value(words[3], "times") : NULL;
	for (int64_t i = count ? scenario_ms(count) : 1; i > 1; i--) {
		json_array_append(addresses, json_array_get(addresses, 0));
	}
	int code = component_set_addresses(stage->component, words[0], addresses,
		words[2] ? (uint64_t)scenario_ms(words[2]) : 0, &err);
	json_decref(addresses);
	if (code != (words[3] && !count ? scenario_code(words[3]) : 0)) {
		scenario_fail("%d: %s", code, err.msg);
	}
}

static void end_connection(void *context, char **words)
{
	struct stage *stage = context;
	component_connection_closed(stage->component, (uint64_t)scenario_ms(words[0]));
}

static void retire(void *context, char **words)
{
	struct stage *stage = context;
	(void)words;
	component_retire(stage->component);
}

static void undamp(void *context, char **words)
{
	struct stage *stage = context;
	(void)words;
	component_undamp(stage->component);
}

static void disk(void *context, char **words)
{
	struct stage *stage = context;
	stage->disk_hangs = strcmp(words[0], "hangs") == 0;
	if (!stage->disk_hangs) {
		announce_noted(component_announce(stage->component));
	}
}

static void run_some(struct stage *stage)
{
	for (int i = 0; i < 20; i++) {
		ev_run(stage->loop, EVRUN_NOWAIT);
	}
}

static void pass(void *context, char **words)
{
	clock_shift_ms += scenario_ms(words[0]);
	run_some(context);
}

/*
 * The agent ends; its successor has what it saved and noted. `checks`: and no verdicts; `unsaved`:
 * it has the notes alone. Its gate is closed.
 */
static void succeed(void *context, char **words)
{
	struct stage *stage = context;
	json_t *saved = component_save(stage->component);
	json_t *notes = announce_persistent(component_announce(stage->component));
	json_decref(stage->persistent);
	stage->persistent = notes ? json_pack("{s:o}", PATH, notes) : NULL;
	component_destroy(stage->component);
	stage->component = NULL;
	for (; *words; words++) {
		if (strcmp(*words, "checks") == 0) {
			checks_anew(stage);
		} else if (strcmp(*words, "unsaved") == 0) {
			json_decref(saved);
			saved = NULL;
		} else {
			scenario_fail("no such word: %s", *words);
		}
	}
	component_anew(stage, saved);
	json_decref(saved);
}

static bool registry_is(const struct stage *stage, enum registry_state state)
{
	return registry_state(stage->registry) == state;
}

static void set_registry(struct stage *stage, enum registry_state state)
{
	memory_set_state(stage->registry, state);
	RUN_UNTIL(stage->loop, registry_is(stage, state));
	run_some(stage);
}

static void away(void *context, char **words)
{
	(void)words;
	set_registry(context, REGISTRY_AWAY);
}

static void lost(void *context, char **words)
{
	(void)words;
	set_registry(context, REGISTRY_LOST);
}

static void connect_again(void *context, char **words)
{
	(void)words;
	set_registry(context, REGISTRY_CONNECTED);
}

/* ---- what is expected: to come true soon, or to be true now ---- */

static enum announce_state state_named(const char *name)
{
	for (int state = 0; state <= ANNOUNCE_FAILED; state++) {
		if (strcmp(announce_state_name((enum announce_state)state), name) == 0) {
			return (enum announce_state)state;
		}
	}
	scenario_fail("no such state: %s", name);
}

static bool is_now(struct stage *stage, const char *word)
{
	const struct component *component = stage->component;
	bool yes = *word != '!';
	word += !yes;
	if (strcmp(word, "registered") == 0) {
		return component_registered(component) == yes;
	}
	if (strcmp(word, "settled") == 0) {
		return component_settled(component) == yes;
	}
	if (strcmp(word, "finished") == 0) {
		return component_finished(component) == yes;
	}
	if (strcmp(word, "damped") == 0) {
		return component_damped(component) == yes;
	}
	if (strcmp(word, "outlasts") == 0) {
		return announce_outlasts_outage(component_announce(component)) == yes;
	}
	const char *why = scenario_value(word, "why");
	if (why) {
		return explains(stage, why) == yes;
	}
	return (state_of(stage) == state_named(word)) == yes;
}

static void fail_now(const struct stage *stage, const char *word)
{
	scenario_fail("not %s: %s%s, %s; %s", word, announce_state_name(state_of(stage)),
		component_settled(stage->component) ? "" : ", not settled",
		announce_why(component_announce(stage->component)), stage->trail);
}

/* Of a node, as another client reads it: absent, has=, lacks=. */
static bool node_is(struct stage *stage, const char *path, char **words, const char **ret_word)
{
	struct answer answer = { 0 };
	bool holds = true;
	cr_assert_not_null(registry_get(stage->registry, path, answer_take, &answer));
	RUN_UNTIL(stage->loop, answer.calls > 0);
	const char *data = answer.err.code == 0 ? answer.data : NULL;
	for (; *words && holds; words++) {
		const char *has = scenario_value(*words, "has");
		const char *lacks = scenario_value(*words, "lacks");
		const char *is = scenario_value(*words, "is");
		*ret_word = *words;
		holds = has     ? data && strstr(data, has)
			: lacks ? data && !strstr(data, lacks)
			: is    ? data && strcmp(data, is) == 0
				: !data;
	}
	answer_clear(&answer);
	return holds;
}

static double now_s(void)
{
	struct timespec now;
	syscall(CLOCK_CALL, CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* All of it is true at one time within a while. */
static void becomes(void *context, char **words)
{
	struct stage *stage = context;
	const double end = now_s() + PATIENCE_S;
	for (size_t i = 0; words[i]; i++) {
		while (!is_now(stage, words[i])) {
			ev_run(stage->loop, EVRUN_NOWAIT);
			usleep(500);
			if (now_s() > end) {
				fail_now(stage, words[i]);
			}
			i = 0;
		}
	}
}

/* Now, and when all is done that can be done now. */
static void is(void *context, char **words)
{
	struct stage *stage = context;
	for (size_t i = 0; words[i]; i++) {
		if (!is_now(stage, words[i])) {
			fail_now(stage, words[i]);
		}
	}
}

static void node(void *context, char **words)
{
	struct stage *stage = context;
	const double end = now_s() + PATIENCE_S;
	const char *path = words[0][0] == '/' ? words[0] : PATH;
	const char *word = "";
	words += words[0][0] == '/';
	while (!node_is(stage, path, words, &word)) {
		usleep(500);
		if (now_s() > end) {
			fail_now(stage, word);
		}
	}
}

/* So many members are in the group, soon. */
static void members(void *context, char **words)
{
	struct stage *stage = context;
	const double end = now_s() + PATIENCE_S;
	for (size_t count = SIZE_MAX; count != (size_t)scenario_ms(words[1]); usleep(500)) {
		struct answer answer = { 0 };
		cr_assert_not_null(registry_list(stage->registry, words[0], answer_take, &answer));
		RUN_UNTIL(stage->loop, answer.calls > 0);
		count = answer.children_count;
		answer_clear(&answer);
		if (now_s() > end) {
			scenario_fail("%zu members", count);
		}
	}
}

/* It stays so. */
static void still(void *context, char **words)
{
	struct stage *stage = context;
	const char *path = words[0][0] == '/' ? words[0] : PATH;
	const char *word = "";
	words += words[0][0] == '/';
	for (int i = 0; i < 5; i++) {
		if (!node_is(stage, path, words, &word)) {
			fail_now(stage, word);
		}
	}
}

static void run(void *context, char **words)
{
	(void)words;
	run_some(context);
}

/* Its transitions and their reasons since the last time. */
static void trail(void *context, char **words)
{
	struct stage *stage = context;
	for (; *words; words++) {
		const char *has = scenario_value(*words, "has");
		const char *lacks = scenario_value(*words, "lacks");
		const char *is = scenario_value(*words, "is");
		const char *why = scenario_value(*words, "why");
		if ((has && !strstr(stage->trail, has)) || (lacks && strstr(stage->trail, lacks)) ||
			(is && strcmp(stage->trail, is) != 0) ||
			(why && !strstr(stage->whys, why))) {
			scenario_fail("not %s: %s: %s", *words, stage->trail, stage->whys);
		}
	}
	stage->trail[0] = stage->whys[0] = '\0';
}

static void on_port(void *context, uint16_t port)
{
	char *ports = context;
	size_t used = strlen(ports);
	snprintf(ports + used, 64 - used, "%s%u", used ? " " : "", port);
}

static void figures(void *context, char **words)
{
	struct stage *stage = context;
	char ports[64] = "";
	component_each_port(stage->component, on_port, ports);
	for (; *words; words++) {
		const char *value = scenario_value(*words, "ports");
		if (value ? strcmp(value, ports) != 0
			  : !scenario_compares(*words, "writes", (int64_t)stage->script.writes) &&
					!scenario_compares(*words, "noted", stage->writes) &&
					!scenario_compares(*words, "watches",
						(int64_t)watch_count(stage->registry)) &&
					!scenario_compares(*words, "penalty",
						(int64_t)(component_penalty(stage->component) *
							1000))) {
			scenario_fail("not %s; ports %s", *words, ports);
		}
	}
	stage->script.writes = 0;
	stage->writes = 0;
}

/* The component as the agent shows it, and as it saves it. */
static void shows(void *context, char **words)
{
	struct stage *stage = context;
	json_t *shown = component_json(stage->component);
	json_t *saved = component_save(stage->component);
	json_t *notes = announce_persistent(component_announce(stage->component));
	char *texts[] = { json_dumps(shown, JSON_COMPACT | JSON_SORT_KEYS),
		json_dumps(saved, JSON_COMPACT | JSON_SORT_KEYS),
		notes ? json_dumps(notes, JSON_COMPACT | JSON_SORT_KEYS) : strdup("nothing") };
	for (; *words; words++) {
		const char *names[] = { "now", "saved", "noted" };
		bool found = false;
		for (size_t i = 0; i < ARRAY_LEN(names); i++) {
			const char *value = scenario_value(*words, names[i]);
			found = found || value;
			if (value && !strstr(texts[i], value)) {
				scenario_fail("%s is %s", names[i], texts[i]);
			}
		}
		if (!found) {
			scenario_fail("now=, saved= or noted=: %s", *words);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		free(texts[i]);
	}
	json_decref(notes);
	json_decref(saved);
	json_decref(shown);
}

/* ---- the stage ---- */

static void *begin(void)
{
	static struct stage stage;
	clock_shift_ms = 0;
	stage_begin(&stage, "");
	component_set_gate(stage.component, COMPONENT_GATE_CLOSED, "");
	registry_script_begin(&stage.script, stage.registry);
	memory_put(stage.registry, "/app", "");
	return &stage;
}

static void end(void *context)
{
	struct stage *stage = context;
	registry_script_end(&stage->script);
	stage_end(stage);
}

#define STATES "STATE [!]registered settled finished damped outlasts why=TEXT …"
#define NODE "[PATH] absent|is=|has=|lacks= …"

static const struct scenario_command commands[] = {
	REGISTRY_SCRIPT_COMMANDS,
	{ "component", 0, 20, configure,
		"'KEY = VALUE' … http check= dynamic= spring= [SECTION] '+KEY = VALUE' long=" },
	{ "reload", 0, 20, reload_with, "as component" },
	{ "interval", 1, 1, set_interval, "TIME, for the next component" },
	{ "gate", 1, 2, set_gate, "open|closed|undecided [REASON]" },
	{ "check", 2, 2, set_verdict, "NAME passing|warning|failing" },
	{ "supply", 2, 4, supply, "ENDPOINT ADDRESSES|null|large [CONNECTION [ERROR|times=]]" },
	{ "closed", 1, 1, end_connection, "CONNECTION" },
	{ "retire", 0, 0, retire, "" },
	{ "undamp", 0, 0, undamp, "" },
	{ "disk", 1, 1, disk, "hangs|works" },
	{ "pass", 1, 1, pass, "TIME" },
	{ "successor", 0, 2, succeed, "[checks] [unsaved]" },
	{ "away", 0, 0, away, "" },
	{ "lost", 0, 0, lost, "" },
	{ "connect", 0, 0, connect_again, "" },
	{ "run", 0, 0, run, "" },
	{ "becomes", 1, 9, becomes, STATES },
	{ "is", 1, 9, is, STATES },
	{ "node", 1, 9, node, NODE },
	{ "still", 1, 9, still, NODE },
	{ "members", 2, 2, members, "PATH COUNT" },
	{ "trail", 0, 9, trail, "has= lacks= is= why= …" },
	{ "figures", 0, 9, figures, "writes= noted= watches= penalty= ports= …" },
	{ "shows", 1, 9, shows, "now= saved= noted= …" },
};

static const struct scenario_stage stage = { "component", begin, end, commands,
	ARRAY_LEN(commands) };

SCENARIOS(component, &stage)
