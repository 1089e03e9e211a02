#include "agent/check/state.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/array.h"

static const char *const names[] = {
	[CHECK_STATE_PENDING] = "pending",
	[CHECK_STATE_UP] = "up",
	[CHECK_STATE_DOWN] = "down",
};

const char *check_state_name(enum check_state state)
{
	return names[state];
}

int check_state_from_name(const char *name)
{
	for (int i = 0; i < (int)(ARRAY_LEN(names)); i++) {
		if (strcmp(names[i], name) == 0) {
			return i;
		}
	}
	return -1;
}

void check_state_init(
	struct check_state_machine *machine, const struct check_state_rules *rules, int64_t now_ms)
{
	*machine = (struct check_state_machine){
		.rules = *rules,
		.state = rules->initial_passing ? CHECK_STATE_UP : CHECK_STATE_PENDING,
		.grace = rules->start_grace_ms > 0,
		.started_ms = now_ms,
		.failures = allocate_zeroed((size_t)rules->fall, sizeof(int64_t)),
	};
}

void check_state_finish(struct check_state_machine *machine)
{
	free(machine->failures);
	machine->failures = NULL;
}

static void enter(struct check_state_machine *machine, enum check_state state)
{
	machine->state = state;
	machine->failure_count = 0;
	machine->failure_next = 0;
}

static void remember_failure(struct check_state_machine *machine, int64_t now_ms)
{
	machine->failures[machine->failure_next] = now_ms;
	machine->failure_next = (machine->failure_next + 1) % machine->rules.fall;
	if (machine->failure_count < machine->rules.fall) {
		machine->failure_count++;
	}
}

/*
 * The ring is as long as `fall`: full, the next failure will replace its oldest entry.
 */
static bool window_exceeded(const struct check_state_machine *machine, int64_t now_ms)
{
	return machine->failure_count == machine->rules.fall &&
		now_ms - machine->failures[machine->failure_next] <= machine->rules.window_ms;
}

static bool has_fallen(struct check_state_machine *machine, int64_t now_ms)
{
	if (machine->rules.window_ms == 0) {
		return machine->bad >= machine->rules.fall;
	}
	remember_failure(machine, now_ms);
	return window_exceeded(machine, now_ms);
}

static bool in_grace(struct check_state_machine *machine, int64_t now_ms)
{
	if (now_ms - machine->started_ms >= machine->rules.start_grace_ms) {
		machine->grace = false;
	}
	return machine->grace;
}

static void count(struct check_state_machine *machine, bool good)
{
	int *same = good ? &machine->good : &machine->bad;
	int *other = good ? &machine->bad : &machine->good;
	*other = 0;
	if (*same < INT_MAX) {
		(*same)++;
	}
}

enum check_state check_state_step(struct check_state_machine *machine, bool good, int64_t now_ms)
{
	if (good) {
		machine->grace = false;
	} else if (in_grace(machine, now_ms)) {
		return machine->state;
	}
	count(machine, good);
	if (good) {
		if (machine->state != CHECK_STATE_UP && machine->good >= machine->rules.rise) {
			enter(machine, CHECK_STATE_UP);
		}
	} else if (machine->state != CHECK_STATE_DOWN && has_fallen(machine, now_ms)) {
		enter(machine, CHECK_STATE_DOWN);
	}
	return machine->state;
}

bool check_state_changing(const struct check_state_machine *machine)
{
	bool against_up = machine->state != CHECK_STATE_DOWN && machine->bad > 0;
	bool against_down = machine->state != CHECK_STATE_UP && machine->good > 0;
	return against_up || against_down;
}

/* Oldest first, as check_state_restore() puts them back. */
static json_t *failure_ages(const struct check_state_machine *machine, int64_t now_ms)
{
	json_t *ages = json_array();
	int fall = machine->rules.fall;
	for (int i = machine->failure_count; i > 0; i--) {
		int at = (machine->failure_next - i + fall) % fall;
		json_array_append_new(ages, json_integer(now_ms - machine->failures[at]));
	}
	return ages;
}

json_t *check_state_save(const struct check_state_machine *machine, int64_t now_ms)
{
	return json_pack("{s:s, s:b, s:I, s:i, s:i, s:o}", "state",
		check_state_name(machine->state), "grace", machine->grace, "age_ms",
		(json_int_t)(now_ms - machine->started_ms), "good", machine->good, "bad",
		machine->bad, "failure_ages_ms", failure_ages(machine, now_ms));
}

/* Limits an age: the saved state may be damaged, and no sum with a time may overflow. */
static int64_t plausible_age_ms(json_int_t age_ms)
{
	static const int64_t most_ms = INT64_C(1000) * 86400 * 3650;
	return age_ms < 0 ? 0 : age_ms > most_ms ? most_ms : age_ms;
}

bool check_state_restore(struct check_state_machine *machine, const json_t *saved, int64_t saved_ms)
{
	const char *name;
	int grace, good, bad;
	json_int_t age_ms;
	json_t *ages;
	if (json_unpack((json_t *)saved, "{s:s, s:b, s:I, s:i, s:i, s:o}", "state", &name, "grace",
		    &grace, "age_ms", &age_ms, "good", &good, "bad", &bad, "failure_ages_ms",
		    &ages)) {
		return false;
	}
	int state = check_state_from_name(name);
	if (state < 0 || good < 0 || bad < 0 || age_ms < 0 || json_typeof(ages) != JSON_ARRAY) {
		return false;
	}
	machine->grace = grace != 0;
	machine->started_ms = saved_ms - plausible_age_ms(age_ms);
	enter(machine, (enum check_state)state);
	machine->good = good;
	machine->bad = bad;
	size_t i;
	json_t *age;
	json_array_foreach (ages, i, age) {
		remember_failure(machine, saved_ms - plausible_age_ms(json_integer_value(age)));
	}
	return true;
}
