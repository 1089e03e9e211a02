#include "agent/cache/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"

enum { RENDERING_BYTES = 512 /* bytes that a front end keeps with an answer */ };

bool cache_answer_is_composite(const struct answer *answer)
{
	return answer->kind == CACHE_RECORDS || answer->kind == CACHE_ENDPOINTS ||
		answer->kind == CACHE_TARGETS;
}

/* ---- its content ---- */

struct cache_body *cache_body_of_text(
	const char *text, size_t len, const struct registry_value *value)
{
	struct cache_body *body = allocate_zeroed(1, sizeof(*body) + len + 1);
	memcpy(body->text, text, len);
	body->value = registry_value_hold(value);
	body->data = body->text;
	body->len = len;
	body->references = 1;
	return body;
}

struct cache_body *cache_body_of_value(const struct registry_value *value)
{
	struct cache_body *body = allocate_zeroed(1, sizeof(*body));
	body->value = registry_value_hold(value);
	body->data = value->data;
	body->len = value->data_len;
	body->references = 1;
	return body;
}

void cache_body_release(void *of_answer)
{
	struct cache_body *body = of_answer;
	if (body && --body->references == 0) {
		registry_value_release(body->value);
		free(body);
	}
}

void cache_answer_clear(struct answer *answer)
{
	if (answer->public.rendering) {
		answer->all->release_rendering(answer->public.rendering);
		answer->public.rendering = NULL;
	}
	cache_body_release(answer->body);
	answer->body = NULL;
	answer->public.value = NULL;
	free(answer->public.err);
	answer->public.err = NULL;
	answer->ready = false;
	answer->public.live = false;
	cache_charge(answer->all->table, answer->charged, 0);
	answer->charged = 0;
}

void cache_answer_publish(struct answer *answer, struct cache_body *body_take,
	const struct cache_need *need, const struct err *err)
{
	struct cache_answer *public = &answer->public;
	cache_answer_clear(answer);
	answer->body = body_take;
	if (err->code) {
		public->err = allocate_zeroed(1, sizeof(*err));
		*public->err = *err;
	}
	public->body = body_take ? body_take->data : "";
	public->len = body_take ? body_take->len : 0;
	public->value = body_take ? body_take->value : NULL;
	public->live = !need->stale;
	public->true_at_ms = need->true_at_ms;
	snprintf(public->etag, sizeof(public->etag), "\"%x-%016llx\"", (unsigned)-err->code & 0xff,
		(unsigned long long)hash_bytes(HASH_INIT, public->body, public->len));
	answer->ready = true;
	answer->passing = false;
	/* The value is charged with its entry. */
	size_t own = !body_take
		? 0
		: sizeof(*body_take) + (body_take->data == body_take->text ? public->len : 0);
	answer->charged = sizeof(*answer) + cache_filter_bytes(answer->filter) + RENDERING_BYTES +
		2 * CACHE_ALLOCATION_BYTES + (err->code ? sizeof(*err) : 0) + own;
	cache_charge(answer->all->table, 0, answer->charged);
}

void cache_answer_fail(const struct cache_entry *entry, struct err *err)
{
	const char *path = entry->node->path;
	const struct registry_value *value = entry->value;
	if (value->code == BERTH_PATH_NOT_FOUND) {
		err_set(err, value->code, "no such path: %s", path);
	} else if (registry_value_exists(value) && value->why) {
		err_set(err, value->code, "%s", value->why);
	} else {
		err_set(err, value->code, "%s: %s", path, berth_error_name(value->code));
	}
}

enum cache_verdict cache_answer_unavailable(
	const struct answer *answer, const struct cache_need *need, struct err *err)
{
	err_set(err, BERTH_REGISTRY_UNAVAILABLE, "the registry is %s, and %s is %s",
		registry_state_name(answer->all->heard->state), answer->node->path,
		need->outdated ? "known no later than max_stale allows" : "not known");
	return CACHE_UNAVAILABLE;
}

/* ---- those who wait for it ---- */

void cache_answer_end_wait(struct cache_wait *wait)
{
	const struct answer *answer = wait->answer;
	list_remove(&wait->link);
	list_remove(&wait->unconfirmed_link);
	wait->answer = NULL;
	if (answer) {
		answer->all->table->unpinned = true;
	}
}

bool cache_answer_satisfies(struct answer *answer, struct cache_wait *wait)
{
	if (strcmp(wait->unlike, answer->public.etag) == 0) {
		return false;
	}
	if (!answer->public.live ||
		cache_confirm_since(answer->all->heard, wait->not_before_ms,
			clock_monotonic_ms()) != CACHE_TRUE_SOON) {
		return true;
	}
	list_remove(&wait->unconfirmed_link);
	list_append(&answer->all->heard->waits, &wait->unconfirmed_link);
	return false;
}

bool cache_answer_is_outdated(const struct answer *answer, int64_t now_ms)
{
	int64_t max_stale_ms = answer->all->store->max_stale_ms;
	return max_stale_ms > 0 &&
		now_ms - cache_answer_true_at_ms(answer->all->heard, &answer->public, now_ms) >
		max_stale_ms;
}

void cache_answer_deliver(struct answer *answer, enum cache_verdict verdict, const struct err *err)
{
	struct list waits;
	struct err outdated = ERR_INIT;
	if (verdict == CACHE_READY && cache_answer_is_outdated(answer, clock_monotonic_ms())) {
		struct cache_need need = { .outdated = true };
		verdict = cache_answer_unavailable(answer, &need, &outdated);
		err = &outdated;
	}
	list_init(&waits);
	list_move_all(&waits, &answer->waits);
	answer->busy = true;
	while (!list_empty(&waits)) {
		struct cache_wait *wait = LIST_ITEM(waits.next, struct cache_wait, link);
		bool ready = verdict == CACHE_READY && cache_answer_satisfies(answer, wait);
		bool given_up = verdict == CACHE_UNAVAILABLE &&
			(!wait->unlike[0] || err->code == BERTH_LIMIT_EXCEEDED);
		if (ready || given_up) {
			cache_answer_end_wait(wait);
			wait->on_answer(wait->context, ready ? &answer->public : NULL, err);
		} else {
			list_remove(&wait->link);
			list_append(&answer->waits, &wait->link);
		}
	}
	answer->busy = false;
}

bool cache_answers_waited(const struct cache_node *node)
{
	for (const struct answer *answer = node->answers; answer; answer = answer->next) {
		if (!list_empty(&answer->waits) || answer->busy) {
			return true;
		}
	}
	return false;
}

/* ---- its age ---- */

int64_t cache_answer_true_at_ms(
	const struct cache_heard *heard, const struct cache_answer *answer, int64_t now_ms)
{
	return answer->live ? cache_heard_ms(heard, now_ms) : answer->true_at_ms;
}

void *cache_body_hold(const struct cache_answer *answer)
{
	const char *inside = (const char *)answer;
	const struct answer *whole = (const void *)(inside - offsetof(struct answer, public));
	whole->body->references++;
	return whole->body;
}
