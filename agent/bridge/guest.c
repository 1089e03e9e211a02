#include "agent/bridge/guest.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/bridge/claims.h"
#include "agent/bridge/describe.h"
#include "agent/bridge/guards.h"
#include "agent/bridge/life.h"
#include "agent/bridge/policy.h"
#include "agent/config/value.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

enum { DENIAL_MS = 1000, STOP_MORE_S = 10, WHY_BYTES = 200 };

enum life { UNKNOWN, ALIVE, ENDED, UNVERIFIED };

struct bridge_guest {
	const struct bridge_guest_environment *environment;
	struct bridge_claims claims;
	/* The runtime's last frame about it; NULL: none yet. Behind it, its fields in use. */
	char *report;
	size_t report_len;
	unsigned flags;
	unsigned stop_timeout_s;
	int stop_signal;
	char *health;    /* NULL: "" */
	char *error;     /* why the runtime's word cannot be used now; NULL: it can */
	char **problems; /* of its labels, which the log has */
	size_t problem_count;
	struct list guards;

	enum life life;
	bool ignored;  /* a label says so */
	bool stopping; /* it has an order to */
	bool doubted;  /* the runtime is to be asked about it */
	char *why_unverified;
	ev_io end; /* of its first process: the pidfd, or -1 */
	pid_t pid;
	pid_t said_pid; /* the runtime's word for it, in its own namespace */
	char *started;
	char *process; /* for the book (life.h); NULL: nothing */
	unsigned denials;
	int64_t patience_at_ms; /* with an order to stop, or a denial; 0: with nothing */

	const char *state; /* for people */
	double since;      /* wall clock */
};

static void decide(struct bridge_guest *guest);

/* ---- what people want to know ---- */

/* By its runtime, at some time since the agent was started. */
static bool is_described(const struct bridge_guest *guest)
{
	return guest->report;
}

static void change(const struct bridge_guest *guest)
{
	guest->environment->on_change(guest->environment->context);
}

static void doubt(const struct bridge_guest *guest)
{
	guest->environment->on_doubt(guest->environment->doubt_context, bridge_guest_id(guest));
}

static const char *state_of(const struct bridge_guest *guest)
{
	bool paused = guest->flags & RUNTIME_PAUSED;
	return guest->error && guest->life == UNKNOWN ? "refused"
		: guest->life == ENDED                ? "ended"
		: !is_described(guest)                ? "starting"
		: guest->life == UNVERIFIED           ? "no pid namespace"
		: guest->ignored                      ? "ignored"
		: bridge_claims_drain(&guest->claims) ? "draining"
		: guest->claims.count == 0            ? "empty"
		: guest->stopping                     ? "stopping"
		: paused                              ? "paused"
						      : "served";
}

static const char *why_of(const struct bridge_guest *guest)
{
	const struct drain *drain = bridge_claims_drain(&guest->claims);
	return guest->error                 ? guest->error
		: guest->life == ENDED      ? "its first process has ended"
		: !is_described(guest)      ? "its runtime has not reported it yet"
		: guest->life == UNVERIFIED ? kept_text(guest->why_unverified)
		: guest->ignored            ? "a label of it says so"
		: drain                     ? drain->reason
		: guest->claims.count > 0   ? ""
		: guest->problem_count > 0  ? guest->problems[0]
					    : "it has no label that says its path or name";
}

static void note_state(struct bridge_guest *guest)
{
	const char *state = state_of(guest);
	if (strcmp(state, guest->state) != 0) {
		bridge_claims_report(&guest->claims, NULL, guest->state, state, why_of(guest));
		guest->state = state;
		guest->since = clock_wall_s();
	}
}

static void free_problems(struct bridge_guest *guest)
{
	for (size_t i = 0; i < guest->problem_count; i++) {
		free(guest->problems[i]);
	}
	free(guest->problems);
	guest->problems = NULL;
	guest->problem_count = 0;
}

/* Logged once, as long as they are the same. */
static void take_problems(struct bridge_guest *guest, struct bridge_services *services)
{
	bool same = guest->problem_count == services->problem_count;
	struct buffer all;
	buffer_init(&all, SIZE_MAX);
	for (size_t i = 0; i < services->problem_count; i++) {
		same = same && strcmp(guest->problems[i], services->problems[i]) == 0;
		buffer_printf(&all, "%s%s", i > 0 ? "; " : "", services->problems[i]);
	}
	if (!same && services->problem_count > 0) {
		log_limited(&guest->claims.account->lines, LOG_LEVEL_WARN, "bridge",
			"container %s: %s", bridge_guest_name(guest), buffer_text(&all));
	}
	buffer_finish(&all);
	free_problems(guest);
	guest->problems = services->problems;
	guest->problem_count = services->problem_count;
	services->problems = NULL;
	services->problem_count = 0;
}

/* ---- checks ---- */

static void on_check_change(
	void *context, struct check *check, const char *from, const char *to, const char *why)
{
	struct bridge_guest *guest = context;
	(void)check;
	(void)from;
	(void)to;
	(void)why;
	decide(guest);
	change(guest);
}

static void on_check_result(void *context, struct check *check, const struct check_result *result)
{
	(void)context;
	(void)check;
	(void)result;
}

static void arrange_guards(struct bridge_guest *guest, const struct bridge_services *services)
{
	const struct bridge_guards_owner owner = {
		.name = bridge_guest_name(guest),
		.policy = guest->claims.policy,
		.scheduler = guest->environment->scheduler,
		.callbacks = { .on_result = on_check_result,
			.on_change = on_check_change,
			.context = guest },
	};
	bool runs = guest->life == ALIVE && !(guest->flags & RUNTIME_PAUSED);
	bridge_guards_arrange(&guest->guards, &owner, runs ? services : NULL);
}

/* ---- what is wanted of a record ---- */

static enum bridge_hold hold_of(
	const struct bridge_guest *guest, const char *path, char why[WHY_BYTES])
{
	const struct config_runtime *runtime = guest->environment->runtime;
	const char *health = kept_text(guest->health);
	bool unhealthy = *health && strcmp(health, "healthy") != 0 && strcmp(health, "none") != 0;
	const char *reason = guest->life == ENDED ? "its first process has ended"
		: guest->life == UNVERIFIED       ? kept_text(guest->why_unverified)
		: runtime->awaits                 ? runtime->awaits
		: guest->stopping                 ? "it has an order to stop"
		: guest->flags & RUNTIME_PAUSED   ? "it is paused"
						  : NULL;
	if (reason) {
		text_printf(why, WHY_BYTES, "%s", reason);
		return BRIDGE_HOLD_OUT;
	}
	if (unhealthy && !runtime->ignore_health) {
		text_printf(why, WHY_BYTES, "its own health check: %s", health);
		return BRIDGE_HOLD_OUT;
	}
	if (guest->life == UNKNOWN) {
		text_printf(why, WHY_BYTES, "nothing is known of its first process yet");
		return BRIDGE_HOLD_AS_IT_IS;
	}
	return bridge_guards_hold(&guest->guards, path, why, WHY_BYTES);
}

static void decide(struct bridge_guest *guest)
{
	int64_t now_ms = clock_monotonic_ms();
	for (struct list *at = guest->claims.all.next; at != &guest->claims.all; at = at->next) {
		struct bridge_claim *claim = LIST_ITEM(at, struct bridge_claim, link);
		char why[WHY_BYTES] = "";
		claim->hold = hold_of(guest, claim->path, why);
		allocate_kept(&claim->hold_why, why);
	}
	guest->claims.retry_at_ms = 0;
	bridge_claims_decide(&guest->claims, now_ms);
	note_state(guest);
}

/* ---- life ---- */

static void close_pidfd(struct bridge_guest *guest)
{
	if (guest->end.fd >= 0) {
		ev_io_stop(guest->environment->loop, &guest->end);
		close(guest->end.fd);
		ev_io_set(&guest->end, -1, EV_READ);
	}
}

static bool has_ended(int pidfd)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };
	return poll(&end, 1, 0) > 0;
}

/* Of one that has nothing to register a successor need not know. */
static void enter_process(struct bridge_guest *guest)
{
	bool matters = guest->life == ALIVE && guest->claims.count > 0;
	char process[BRIDGE_LIFE_BYTES] = "";
	if (guest->life == UNKNOWN || (matters && guest->process)) {
		return; /* a predecessor's entry stays */
	}
	if (matters) {
		bridge_life_describe(guest->pid, process);
		if (has_ended(guest->end.fd)) {
			return; /* on_end() follows */
		}
	}
	if (strcmp(kept_text(guest->process), process) != 0) {
		allocate_kept(&guest->process, process);
		bridge_book_change_later(guest->environment->book);
	}
}

static void watch_end(struct bridge_guest *guest, int pidfd_take)
{
	ev_io_set(&guest->end, pidfd_take, EV_READ);
	ev_io_start(guest->environment->loop, &guest->end);
}

static void on_end(struct ev_loop *loop, ev_io *io, int events)
{
	struct bridge_guest *guest = io->data;
	(void)loop;
	(void)events;
	close_pidfd(guest);
	guest->life = ENDED;
	guest->stopping = false;
	enter_process(guest);
	guest->patience_at_ms = 0;
	decide(guest);
	bridge_guards_end(&guest->guards);
	change(guest);
	doubt(guest);
}

static void be_unverified(struct bridge_guest *guest, const char *why)
{
	guest->life = UNVERIFIED;
	allocate_kept(&guest->why_unverified, why);
}

static void take_process(
	struct bridge_guest *guest, const struct bridge_facts *facts, int pidfd_take)
{
	struct err err = ERR_INIT;
	pid_t pid;
	bool same = guest->started && guest->said_pid == facts->pid &&
		strcmp(guest->started, facts->started) == 0;
	if (same && (guest->life == ALIVE || guest->life == ENDED)) {
		if (pidfd_take >= 0) {
			close(pidfd_take);
		}
		return;
	}
	if (pidfd_take < 0) {
		if (guest->life != UNVERIFIED) {
			close_pidfd(guest);
			be_unverified(
				guest, "its first process is not in the agent's pid namespace");
		}
		return;
	}
	close_pidfd(guest);
	if (bridge_life_verify(&pid, pidfd_take, facts->id, facts->started, &err)) {
		bool ended = has_ended(pidfd_take);
		close(pidfd_take);
		if (ended) {
			guest->life = ENDED;
			doubt(guest);
		} else {
			be_unverified(guest, err.msg);
		}
		return;
	}
	guest->life = ALIVE;
	guest->stopping = false;
	allocate_kept(&guest->process, "");
	bridge_book_change_later(guest->environment->book);
	guest->patience_at_ms = 0;
	guest->pid = pid;
	guest->said_pid = facts->pid;
	free(guest->started);
	guest->started = allocate_text(facts->started);
	watch_end(guest, pidfd_take);
}

void bridge_guest_expect(struct bridge_guest *guest, const char *process)
{
	int pidfd;
	allocate_kept(&guest->process, process);
	switch (bridge_life_find(process, &pidfd)) {
	case BRIDGE_LIFE_UNKNOWN:
		break;
	case BRIDGE_LIFE_LIVES:
		watch_end(guest, pidfd);
		break;
	case BRIDGE_LIFE_ENDED:
		guest->life = ENDED;
	}
}

static int stop_signal(const struct bridge_facts *facts)
{
	struct err err = ERR_INIT;
	int number = atoi(facts->stop_signal);
	if (number == 0 && *facts->stop_signal) {
		(void)config_parse_signal(facts->stop_signal, &number, &err);
	}
	return number > 0 ? number : SIGTERM;
}

void bridge_guest_on_signal(struct bridge_guest *guest, unsigned number)
{
	/* Podman does not say which one it was: the kernel reports the end, if there is one. */
	bool ends = number == SIGTERM || number == SIGKILL ||
		number == (unsigned)guest->stop_signal;
	if (guest->life != ALIVE || !ends) {
		return;
	}
	guest->stopping = true;
	guest->patience_at_ms = clock_monotonic_ms() +
		1000 * ((int64_t)guest->stop_timeout_s + STOP_MORE_S);
	decide(guest);
	change(guest);
}

/* It has not stopped; or it was denied, and lives. */
static void lose_patience(struct bridge_guest *guest)
{
	guest->patience_at_ms = 0;
	if (guest->stopping) {
		guest->stopping = false;
		decide(guest);
	}
	doubt(guest);
}

bool bridge_guest_deny(struct bridge_guest *guest)
{
	guest->doubted = false;
	bool lives = guest->end.fd >= 0 && !has_ended(guest->end.fd);
	if (!lives || guest->denials > 0) {
		return true;
	}
	guest->denials++;
	if (!guest->stopping) {
		guest->patience_at_ms = clock_monotonic_ms() + DENIAL_MS;
		change(guest);
	}
	return false;
}

/* ---- services ---- */

static bool has_service(const struct bridge_services *services, const char *path)
{
	bool found = false;
	for (size_t i = 0; !services->ignored && i < services->count && !found; i++) {
		found = strcmp(services->items[i].config->components[0].path, path) == 0;
	}
	return found;
}

static void drop_others(struct bridge_guest *guest, const struct bridge_services *services)
{
	struct list *next;
	for (struct list *at = guest->claims.all.next; at != &guest->claims.all; at = next) {
		struct bridge_claim *claim = LIST_ITEM(at, struct bridge_claim, link);
		next = at->next;
		if (!has_service(services, claim->path)) {
			bridge_claims_release(&guest->claims, claim, "its labels say otherwise");
			bridge_claims_drop(&guest->claims, claim);
		}
	}
}

static void find_policy(struct bridge_guest *guest)
{
	bridge_claims_set_policy(&guest->claims,
		bridge_policy_find(guest->environment->config, bridge_guest_name(guest)));
}

/* Its claims and checks follow its labels and the configuration. */
static void review(struct bridge_guest *guest, const struct bridge_facts *facts)
{
	struct bridge_services services;
	bridge_services_make(&services, facts, guest->environment->runtime, guest->claims.policy);
	guest->ignored = services.ignored;
	take_problems(guest, &services);
	drop_others(guest, &services);
	guest->claims.more = 0;
	for (size_t i = 0; !services.ignored && i < services.count; i++) {
		const struct bridge_service *service = &services.items[i];
		struct bridge_claim *claim = bridge_claims_add(
			&guest->claims, service->config->components[0].path);
		if (claim) {
			bridge_claims_take(&guest->claims, claim,
				&(struct bridge_version){ .inode = 1 }, service->data, service->len,
				service->mistake);
		}
	}
	enter_process(guest);
	arrange_guards(guest, &services);
	bridge_services_finish(&services);
	decide(guest);
	change(guest);
}

static void keep(struct bridge_guest *guest, const struct bridge_facts *facts)
{
	free(guest->report);
	guest->report = allocate_bytes(facts->frame, facts->frame_len);
	guest->report_len = facts->frame_len;
	guest->flags = facts->flags;
	guest->stop_timeout_s = facts->stop_timeout_s;
	guest->stop_signal = stop_signal(facts);
	allocate_kept(&guest->health, facts->health);
}

/* Finish them. */
static void recall(const struct bridge_guest *guest, struct bridge_facts *ret_facts)
{
	struct wire_frame frame = { .at = guest->report, .end = guest->report + guest->report_len };
	(void)bridge_facts_read(ret_facts, &frame);
}

void bridge_guest_take(struct bridge_guest *guest, const struct bridge_facts *facts, int pidfd_take)
{
	guest->denials = 0;
	guest->doubted = false;
	allocate_kept(&guest->error, facts->error);
	if (guest->error && !(facts->flags & RUNTIME_RUNS)) {
		if (pidfd_take >= 0) {
			close(pidfd_take);
		}
		note_state(guest);
		return;
	}
	char *name = allocate_format("%s/%s", guest->environment->source, facts->name);
	if (!is_described(guest) || strcmp(name, bridge_guest_name(guest)) != 0) {
		bridge_account_rename(guest->claims.account, name);
		find_policy(guest);
	}
	free(name);
	keep(guest, facts);
	take_process(guest, facts, pidfd_take);
	review(guest, facts);
}

struct bridge_guest *bridge_guest_create(
	const struct bridge_guest_environment *environment, const char *id)
{
	struct bridge_guest *guest = allocate_zeroed(1, sizeof(*guest));
	char *key = allocate_format("%s/%s", environment->source, id);
	guest->environment = environment;
	guest->state = "absent";
	guest->since = clock_wall_s();
	list_init(&guest->guards);
	bridge_claims_init(&guest->claims, environment->publish, key);
	ev_io_init(&guest->end, on_end, -1, EV_READ);
	guest->end.data = guest;
	free(key);
	return guest;
}

void bridge_guest_destroy(struct bridge_guest *guest, const char *why)
{
	if (why && strcmp(guest->state, "absent") != 0) {
		bridge_claims_report(&guest->claims, NULL, guest->state, "gone", why);
	}
	for (struct list *at = guest->claims.all.next; why && at != &guest->claims.all;
		at = at->next) {
		bridge_claims_release(
			&guest->claims, LIST_ITEM(at, struct bridge_claim, link), why);
	}
	if (why && guest->process) {
		bridge_book_change_later(guest->environment->book);
	}
	close_pidfd(guest);
	bridge_guards_end(&guest->guards);
	bridge_claims_finish(&guest->claims);
	free_problems(guest);
	free(guest->why_unverified);
	free(guest->started);
	free(guest->process);
	free(guest->report);
	free(guest->health);
	free(guest->error);
	free(guest);
}

void bridge_guest_reconfigure(struct bridge_guest *guest)
{
	find_policy(guest);
	if (is_described(guest)) {
		struct bridge_facts facts;
		recall(guest, &facts);
		review(guest, &facts);
		bridge_facts_finish(&facts);
	}
}

void bridge_guest_review(struct bridge_guest *guest)
{
	decide(guest);
}

/* ---- time ---- */

void bridge_guest_retry(struct bridge_guest *guest, int64_t now_ms)
{
	bridge_claims_retry(&guest->claims, now_ms);
}

int64_t bridge_guest_due_ms(const struct bridge_guest *guest)
{
	int64_t retry_ms = guest->claims.retry_at_ms ? guest->claims.retry_at_ms : INT64_MAX;
	bool is_patient = guest->patience_at_ms != 0 && guest->patience_at_ms < retry_ms;
	return is_patient ? guest->patience_at_ms : retry_ms;
}

void bridge_guest_on_time(struct bridge_guest *guest, int64_t now_ms)
{
	if (guest->patience_at_ms != 0 && now_ms >= guest->patience_at_ms) {
		lose_patience(guest);
	}
	if (guest->claims.retry_at_ms != 0 && now_ms >= guest->claims.retry_at_ms) {
		decide(guest);
	}
}

/* ---- report ---- */

void bridge_guest_doubt(struct bridge_guest *guest)
{
	guest->doubted = true;
}

bool bridge_guest_is_doubted(const struct bridge_guest *guest)
{
	return guest->doubted;
}

const char *bridge_guest_id(const struct bridge_guest *guest)
{
	return bridge_guest_key(guest) + strlen(guest->environment->source) + 1;
}

const char *bridge_guest_key(const struct bridge_guest *guest)
{
	return guest->claims.account->container;
}

const char *bridge_guest_name(const struct bridge_guest *guest)
{
	return guest->claims.account->name;
}

const char *bridge_guest_state(const struct bridge_guest *guest)
{
	return state_of(guest);
}

size_t bridge_guest_registered(const struct bridge_guest *guest)
{
	return bridge_publish_registered(guest->claims.account);
}

bool bridge_guest_awaits(const struct bridge_guest *guest, const char *path)
{
	const struct bridge_claim *claim = bridge_claims_find(&guest->claims, path);
	return claim ? claim->hold == BRIDGE_HOLD_AS_IT_IS : guest->life == UNKNOWN;
}

json_t *bridge_guest_json(const struct bridge_guest *guest)
{
	json_t *problems = json_array();
	for (size_t i = 0; i < guest->problem_count; i++) {
		json_array_append_new(problems, json_string(guest->problems[i]));
	}
	struct bridge_facts facts = { .image = NULL };
	if (guest->report) {
		recall(guest, &facts);
	}
	json_t *json = json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:s, s:o, s:o, s:o, s:b, s:b, s:b}", "name",
		bridge_guest_name(guest), "source", guest->environment->source, "id",
		bridge_guest_id(guest), "image", kept_text(facts.image), "state", state_of(guest),
		"why", why_of(guest), "since", guest->since, "policy",
		guest->claims.policy ? guest->claims.policy->glob : "", "records",
		bridge_claims_json(&guest->claims), "checks", bridge_guards_json(&guest->guards),
		"problems", problems, "more", guest->claims.more > 0, "unbounded", false, "unsafe",
		false);
	bridge_facts_finish(&facts);
	return json;
}

const char *bridge_guest_process(const struct bridge_guest *guest)
{
	return guest->process;
}

void bridge_guest_count(const struct bridge_guest *guest, size_t *counts)
{
	bridge_claims_count(&guest->claims, counts);
}
