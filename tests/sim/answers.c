#include "tests/sim/answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/path.h"
#include "lib/berth.h"
#include "tests/sim/addresses.h"
#include "tests/sim/sim.h"

enum { HITS, STALE, FAILED, FOUND };

/*
 * An agent without a record claims to be registered no longer than that: it may not have noticed a
 * cut yet, and the registry may be slow.
 */
enum { CLAIM_MS = 25 * SIM_SECOND };

const char *const answers_paths[ORDER_PATHS] = {
	"/users/joe/web/prod/components",
	"/users/joe/web/prod/components/c0",
	"/users/joe/web/prod/components/c1",
	"/users/joe/web/prod/components/c2",
	"/services",
	"/services/leader",
	"/services/other",
	"/nowhere/at-all",
};

const char *const answers_directories[ANSWER_DIRECTORIES] = {
	"/users/joe/web/prod/components",
	"/services",
};

/* An answer to a look-up, as far as claims and messages need it. */
struct answer {
	const char *kind;
	const char *path;
	int status;
	const char *body;
	const char *source;      /* HIT … */
	int64_t age_ms;          /* the bound for what it says */
	struct order *orders[2]; /* in which it has a place; NULL: none */
};

static uint64_t counts[ANSWERS_COUNTS];

void answers_counts(uint64_t ret_counts[ANSWERS_COUNTS])
{
	memcpy(ret_counts, counts, sizeof(counts));
}

void answers_count_failures(size_t count)
{
	counts[FAILED] += count;
}

static size_t index_of(const char *path)
{
	size_t i = 0;
	while (i < ORDER_PATHS && strcmp(answers_paths[i], path) != 0) {
		i++;
	}
	return i;
}

const char *answers_path(const char *path)
{
	size_t i = index_of(path);
	return i < ORDER_PATHS ? answers_paths[i] : NULL;
}

bool answers_is_directory(const char *path)
{
	size_t i = 0;
	while (i < ANSWER_DIRECTORIES && strcmp(answers_directories[i], path) != 0) {
		i++;
	}
	return i < ANSWER_DIRECTORIES;
}

/* ---- the status ---- */

json_t *answers_read_json(const char *body)
{
	return json_loads(body, 0, NULL);
}

json_t *answers_read_components(const char *status)
{
	static const char name[] = "\"components\":";
	const char *list = strstr(status, name);
	return list ? json_loads(list + strlen(name), JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}

/* An agent that says REGISTERED has, or had a while ago, a node of its own at the path. */
static void check_status(const struct answers *answers, const char *body)
{
	json_t *components = answers_read_components(body);
	size_t index;
	json_t *component;
	json_array_foreach (components, index, component) {
		const char *state = json_string_value(json_object_get(component, "state"));
		const char *path = json_string_value(json_object_get(component, "path"));
		if (state && path && strcmp(state, "registered") == 0 &&
			world_last_owned_ms(answers->world, path, sim_owner_of(answers->agent)) <
				sim_now_ms() - CLAIM_MS) {
			sim_fail("agent %d says that %s is registered, and it is not",
				answers->agent, path);
		}
	}
	json_decref(components);
}

/* ---- claims ---- */

static int64_t last_true_ms(const struct world *world, const struct claim *claim)
{
	int64_t at_ms = world_last_true_ms(world, claim->path, claim->aspect, claim->value);
	int64_t other_ms = claim->other
		? world_last_true_ms(world, claim->path, claim->aspect, claim->other)
		: at_ms;
	return other_ms > at_ms ? other_ms : at_ms;
}

static void check_claim(struct answers *answers, const struct answer *answer, struct claim claim)
{
	int64_t now_ms = sim_now_ms();
	int64_t true_ms = last_true_ms(answers->world, &claim);
	claim.not_before_ms = now_ms - answer->age_ms;
	if (true_ms < claim.not_before_ms) {
		sim_fail("agent %d: the %s of %s (%s) was last true %lld ms ago, and the answer "
			 "says %lld (%s): %.*s",
			answers->agent, answer->kind, answer->path, claim.path,
			true_ms == INT64_MIN ? -1LL : (long long)(now_ms - true_ms),
			(long long)answer->age_ms, answer->source, 300, answer->body);
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		if (answer->orders[i] && !order_take(answer->orders[i], answers->world, &claim)) {
			sim_fail("agent %d: the %s of %s (%s) is older than an earlier %s (%s): "
				 "%.*s",
				answers->agent, answer->kind, answer->path, claim.path,
				i == 0 ? "answer" : "event or reading", answer->source, 300,
				answer->body);
		}
	}
}

static bool is_missing(const struct answer *answer)
{
	return answer->status == 404 && strstr(answer->body, "PathNotFound");
}

static void check_record(struct answers *answers, const struct answer *answer)
{
	struct claim claim = { .path = answer->path, .aspect = WORLD_DATA };
	if (answer->status == 200) {
		claim.value = answer->body;
	} else if (!is_missing(answer)) {
		claim.value = "";
		claim.other = SIM_GARBAGE;
	}
	check_claim(answers, answer, claim);
}

/* ---- lists ---- */

static char *read_names(const char *body)
{
	json_t *list = json_loads(body, 0, NULL);
	char *text = calloc(1, strlen(body) + json_array_size(list) + 1);
	size_t index;
	json_t *item;
	json_array_foreach (list, index, item) {
		strcat(strcat(text, path_name(json_string_value(item))), "\n");
	}
	json_decref(list);
	return text;
}

static void forget_names(struct answer_names *names)
{
	free(names->body);
	free(names->text);
}

/* As the history has them; borrowed. */
static const char *names_of(struct answers *answers, const char *path, const char *body)
{
	struct answer_names *names = &answers->names[index_of(path)];
	if (!names->body || strcmp(names->body, body) != 0) {
		forget_names(names);
		*names = (struct answer_names){ strdup(body), read_names(body) };
	}
	return names->text;
}

static void check_list(struct answers *answers, const struct answer *answer)
{
	struct claim claim = { .path = answer->path, .aspect = WORLD_CHILDREN };
	if (answer->status == 200) {
		claim.value = names_of(answers, answer->path, answer->body);
	} else if (!is_missing(answer)) {
		claim.value = "";
		claim.other = SIM_GARBAGE;
	}
	check_claim(answers, answer, claim);
}

/* ---- all records of a directory ---- */

/* The end of the JSON value that begins here. */
static const char *value_end(const char *at)
{
	int depth = 0;
	bool quoted = false;
	for (; *at; at++) {
		bool escaped = quoted && *at == '\\' && at[1];
		if (escaped) {
			at++;
		} else if (*at == '"') {
			quoted = !quoted;
		} else if (!quoted && (*at == '{' || *at == '[')) {
			depth++;
		} else if (!quoted && depth == 0 && strchr(",}]", *at)) {
			return at;
		} else if (!quoted && (*at == '}' || *at == ']')) {
			depth--;
		}
	}
	return at;
}

/*
 * Takes the member that begins at `*at` out of an object whose members are the children of the
 * path, each as it is stored; its value, or NULL: the object ends here, or is not such an object.
 */
static char *take_member(const char **at, const char *path, size_t *ret_index)
{
	for (size_t i = 0; i < ORDER_PATHS; i++) {
		size_t len = strlen(answers_paths[i]);
		if (path_is_child(answers_paths[i], path) && (*at)[0] == '"' &&
			strncmp(*at + 1, answers_paths[i], len) == 0 &&
			strncmp(*at + 1 + len, "\":", 2) == 0) {
			const char *value = *at + len + 3;
			const char *end = value_end(value);
			*at = *end == ',' ? end + 1 : end;
			*ret_index = i;
			return strndup(value, (size_t)(end - value));
		}
	}
	return NULL;
}

/* A missing path has no record: it is not there, or is something else. */
static void check_children(
	struct answers *answers, const struct answer *answer, char *const values[ORDER_PATHS])
{
	for (size_t i = 0; i < ORDER_PATHS; i++) {
		if (path_is_child(answers_paths[i], answer->path)) {
			check_claim(answers, answer,
				(struct claim){ .path = answers_paths[i],
					.aspect = WORLD_DATA,
					.value = values[i],
					.other = values[i] ? NULL : SIM_GARBAGE });
		}
	}
}

static void check_records(struct answers *answers, const struct answer *answer)
{
	char *values[ORDER_PATHS] = { 0 };
	const char *at = answer->status == 200 && answer->body[0] == '{' ? answer->body + 1 : "";
	char *value;
	size_t index;
	while ((value = take_member(&at, answer->path, &index))) {
		free(values[index]);
		values[index] = value;
	}
	if (!is_missing(answer) && strcmp(at, "}\n") != 0) {
		sim_fail("agent %d: the records of %s are %d: %s", answers->agent, answer->path,
			answer->status, answer->body);
	} else {
		check_children(answers, answer, values);
	}
	for (size_t i = 0; i < ORDER_PATHS; i++) {
		free(values[i]);
	}
}

/* ---- names ---- */

void answers_inform(struct answers *answers, bool informed)
{
	answers->informed = informed;
}

void answers_check_name(const struct answers *answers, const char *what, const char *addresses,
	int64_t not_before_ms)
{
	if (addresses) {
		addresses_check(answers->world, answers->agent, what, addresses, not_before_ms);
	} else if (!answers->informed) {
		sim_fail("agent %d knows nothing yet, and its %s says that no record has the name",
			answers->agent, what);
	}
}

/* A name that is not known, or not in time, gets 503. */
static void check_name(struct answers *answers, const struct answer *answer)
{
	if (answer->status == 200) {
		answers_check_name(
			answers, answer->kind, answer->body, sim_now_ms() - answer->age_ms);
	} else if (is_missing(answer)) {
		answers_check_name(answers, answer->kind, NULL, 0);
	} else if (answer->status != 503) {
		sim_fail("agent %d: a name answers %d: %s", answers->agent, answer->status,
			answer->body);
	}
}

/* A set without members, or of what is not there, lacks all addresses. */
static void check_set(struct answers *answers, const struct answer *answer)
{
	if (answer->status == 200 || is_missing(answer)) {
		addresses_check(answers->world, answers->agent, answer->kind, answer->body,
			sim_now_ms() - answer->age_ms);
	}
}

/* ---- all kinds ---- */

/*
 * The bound counts from when the look-up came. A HIT waits for no read: so it also holds when the
 * answer comes.
 */
static int64_t age_ms(const char *source, const char *age, int64_t asked_ms)
{
	return strcmp(source, "STALE") == 0   ? atoll(age) * SIM_SECOND
		: strcmp(source, "MISS") == 0 ? ANSWERS_CONFIRM_MS + sim_now_ms() - asked_ms
					      : ANSWERS_CONFIRM_MS;
}

/*
 * Only a stale answer says when it was true, in seconds rounded up. Any other one is not news of an
 * answer before it, which may have been younger than `confirm`.
 */
static void check_age(struct answers *answers, enum answer_kind kind, const struct answer *answer)
{
	bool stale = strcmp(answer->source, "STALE") == 0;
	int64_t true_ms = sim_now_ms() - answer->age_ms;
	const struct known_claim claim = { !is_missing(answer), true_ms, true_ms + SIM_SECOND };
	bool younger = known_take(&answers->known, answers->world, kind, index_of(answer->path),
		answer->path, &claim);
	if (stale && !younger) {
		sim_fail("agent %d: the %s of %s is older than an earlier answer was: it says "
			 "%lld ms",
			answers->agent, answer->kind, answer->path, (long long)answer->age_ms);
	}
}

static const struct {
	const char *name;
	const char *target;
	void (*check)(struct answers *answers, const struct answer *answer);
} kinds[] = {
	[ANSWER_RECORD] = { "record", "resolve", check_record },
	[ANSWER_LIST] = { "list", "list", check_list },
	[ANSWER_RECORDS] = { "records", "records", check_records },
	[ANSWER_STATUS] = { "status", "agent", NULL },
	[ANSWER_NAME] = { "name", "names/" ADDRESSES_NAME "?type=A", check_name },
	[ANSWER_SET_OF_NAME] = { "set of the name", "set/" ADDRESSES_NAME, check_set },
	[ANSWER_SET_OF_PATH] = { "set", "set" ADDRESSES_PATH "?failover=/far&hold=1s", check_set },
	[ANSWER_NEAR] = { "near addresses", "endpoints" ADDRESSES_PATH "?near=a", check_set },
};

const char *answers_target(enum answer_kind kind, const char *path)
{
	static char target[256];
	snprintf(target, sizeof(target), "/v1/%s%s", kinds[kind].target, path ? path : "");
	return target;
}

void answers_check_found(struct answers *answers, const struct answers_found *found)
{
	const char *why = found->error == BERTH_PATH_NOT_FOUND ? "PathNotFound" : "another error";
	const struct answer answer = { .kind = kinds[found->kind].name,
		.path = found->path,
		.status = found->error ? 404 : 200,
		.body = found->error ? why : found->body,
		.source = "map",
		.age_ms = ANSWERS_CONFIRM_MS + sim_now_ms() - found->leased_ms,
		.orders = { found->order, found->readings } };
	counts[FOUND]++;
	kinds[found->kind].check(answers, &answer);
}

/* Answers about no state of the registry. */
static void check_failure(const struct answers *answers, enum answer_kind kind, const char *path,
	int status, const char *body)
{
	bool no_memory = status == 500 && strstr(body, "no memory");
	counts[FAILED]++;
	if (status != 503 && status != 504 && !no_memory) {
		sim_fail("agent %d: the %s of %s answers %d: %s", answers->agent, kinds[kind].name,
			path ? path : ADDRESSES_NAME, status, body);
	} else if (!no_memory && path &&
		known_has(&answers->known, answers->world, kind, index_of(path), path)) {
		sim_fail("agent %d: %s is known, and answers %d: %s", answers->agent, path, status,
			body);
	}
}

void answers_check(struct answers *answers, enum answer_kind kind, const char *path,
	int64_t asked_ms, bool calm, const struct http_reader *reader, const char *body)
{
	const char *source = http_reader_field(reader, HTTP_FIELD_X_CACHE);
	const char *age = http_reader_field(reader, HTTP_FIELD_AGE);
	if (kind == ANSWER_STATUS) {
		check_status(answers, body);
		return;
	}
	if ((!source || !age) && kind == ANSWER_NAME) {
		check_name(answers,
			&(struct answer){ .kind = "name", .status = reader->status, .body = body });
		return;
	}
	if (!source || !age) {
		check_failure(answers, kind, path, reader->status, body);
		return;
	}
	const struct answer answer = { .kind = kinds[kind].name,
		.path = path,
		.status = reader->status,
		.body = body,
		.source = source,
		.age_ms = age_ms(source, age, asked_ms),
		.orders = { &answers->order } };
	counts[strcmp(source, "STALE") == 0 ? STALE : HITS]++;
	if (calm && strcmp(source, "STALE") == 0) {
		sim_fail("agent %d: the %s of %s is stale, and all is calm", answers->agent,
			answer.kind, path ? path : ADDRESSES_NAME);
	}
	kinds[kind].check(answers, &answer);
	if (path) {
		check_age(answers, kind, &answer);
	}
}

/* ---- creation ---- */

void answers_init(struct answers *answers, const struct world *world, int agent)
{
	*answers = (struct answers){ .world = world, .agent = agent };
	order_init(&answers->order, answers_paths, ORDER_PATHS);
}

void answers_forget(struct answers *answers)
{
	answers->known = (struct known){ 0 };
	order_forget(&answers->order);
}

void answers_finish(struct answers *answers)
{
	for (size_t i = 0; i < ORDER_PATHS; i++) {
		forget_names(&answers->names[i]);
	}
}
