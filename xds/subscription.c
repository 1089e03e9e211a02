#include "xds/subscription.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/program/memory.h"
#include "xds/discovery.h"
#include "xds/log.h"

enum {
	ANSWER_BYTES = 1024 * 1024, /* an answer that has grown so far takes no further name */
	REMOVED_BYTES = 64          /* of a name that is to be taken back, mostly */
};

/* One name of one type. */
struct entry {
	struct follow_user user; /* owned by its kind */
	uint64_t sent;           /* 0: none */
	bool named;              /* asked for by its name */
	bool all;                /* one of all, for a wildcard */
	bool due;                /* it may have another version than the one that was sent */
	bool again;              /* delta: it is sent even when the client has this version */
};

/* One type. */
struct kind {
	struct subscription *subscription;
	struct follow_owner owner;
	enum resource_type type;
	bool asked; /* a request came */
	bool wildcard;
	bool due;   /* an entry is */
	bool whole; /* an answer is due even when no entry is */
	unsigned nonce;
	struct entry **entries; /* sorted by name */
	size_t count;
	size_t room;
	char **removed; /* delta: names to be taken back */
	size_t removed_count;
};

struct subscription {
	struct world *world;
	bool delta;
	subscription_on_due *on_due;
	void *context;
	struct kind kinds[RESOURCE_TYPES];
	bool observes; /* all names, because of a wildcard */
	struct world_user all;
};

static uint64_t refusals;
static uint64_t last_refusal; /* a hash: the same text is logged once */

uint64_t subscription_refusals(void)
{
	return refusals;
}

/* ---- entries ---- */

static struct kind *kind_of(const struct entry *entry)
{
	return entry->user.owner->context;
}

static void mark_due(struct entry *entry)
{
	entry->due = true;
	kind_of(entry)->due = true;
}

static void on_change(void *context, struct follow_user *user)
{
	const struct kind *kind = context;
	struct subscription *subscription = kind->subscription;
	mark_due(LIST_ITEM(user, struct entry, user));
	subscription->on_due(subscription->context);
}

static int compare(const char *left, const char *name, size_t len)
{
	int order = strncmp(left, name, len);
	return order != 0 ? order : left[len] != '\0';
}

static size_t place_of(const struct kind *kind, const char *name, size_t len)
{
	size_t from = 0;
	size_t to = kind->count;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (compare(follow_name(kind->entries[middle]->user.follow), name, len) < 0) {
			from = middle + 1;
		} else {
			to = middle;
		}
	}
	return from;
}

static struct entry *find_entry(const struct kind *kind, const char *name, size_t len)
{
	size_t place = place_of(kind, name, len);
	bool found = place < kind->count &&
		compare(follow_name(kind->entries[place]->user.follow), name, len) == 0;
	return found ? kind->entries[place] : NULL;
}

/* The entry of that name, made when there is none; NULL: there are too many names. */
static struct entry *take_entry(struct kind *kind, const char *name, size_t len)
{
	struct entry *entry = find_entry(kind, name, len);
	size_t place = place_of(kind, name, len);
	if (entry || kind->count >= DISCOVERY_NAMES_MAX) {
		return entry;
	}
	entry = memory_zeroed(1, sizeof(*entry));
	entry->user.owner = &kind->owner;
	if (!follow_take(kind->subscription->world, &entry->user, name, len)) {
		free(entry);
		return NULL;
	}
	if (kind->count == kind->room) {
		kind->room = kind->room ? 2 * kind->room : 1;
		kind->entries = memory_must(
			reallocarray(kind->entries, kind->room, sizeof(struct entry *)));
	}
	memmove(&kind->entries[place + 1], &kind->entries[place],
		(kind->count - place) * sizeof(struct entry *));
	kind->entries[place] = entry;
	kind->count++;
	mark_due(entry);
	return entry;
}

/* A resource that was sent has gone: state of the world shows it by a list without it. */
static void note_gone(struct kind *kind, const struct entry *entry)
{
	const char *name = follow_name(entry->user.follow);
	kind->due = true;
	if (!kind->subscription->delta) {
		kind->whole = true;
		return;
	}
	kind->removed = memory_grow(kind->removed, kind->removed_count, sizeof(*kind->removed));
	kind->removed[kind->removed_count++] = memory_text(name, strlen(name));
}

/* Lets go the entries that nobody asks for. `gone`: those that were sent are no more. */
static void drop_unwanted(struct kind *kind, bool gone)
{
	int64_t now_ms = clock_monotonic_ms();
	size_t kept = 0;
	for (size_t i = 0; i < kind->count; i++) {
		struct entry *entry = kind->entries[i];
		if (entry->named || entry->all) {
			kind->entries[kept++] = entry;
			continue;
		}
		if (gone && entry->sent) {
			note_gone(kind, entry);
		}
		follow_release(&entry->user, now_ms);
		free(entry);
	}
	kind->count = kept;
}

static void forget_removed(struct kind *kind)
{
	for (size_t i = 0; i < kind->removed_count; i++) {
		free(kind->removed[i]);
	}
	free(kind->removed);
	kind->removed = NULL;
	kind->removed_count = 0;
}

/* ---- wildcards ---- */

/* Brings the entries of a wildcard in line with the names of the world. */
static void follow_all(struct kind *kind)
{
	char *const *names;
	size_t count;
	if (!world_names(kind->subscription->world, &names, &count)) {
		return;
	}
	if (kind->nonce == 0) {
		/* That there are none at all is an answer, too. */
		kind->whole = true;
		kind->due = true;
	}
	for (size_t i = 0; i < kind->count; i++) {
		kind->entries[i]->all = false;
	}
	for (size_t i = 0; i < count; i++) {
		struct entry *entry = take_entry(kind, names[i], strlen(names[i]));
		if (entry) {
			entry->all = true;
		}
	}
	drop_unwanted(kind, true);
}

static void on_names(void *context)
{
	struct subscription *subscription = context;
	for (int i = 0; i < RESOURCE_TYPES; i++) {
		if (subscription->kinds[i].wildcard) {
			follow_all(&subscription->kinds[i]);
		}
	}
	subscription->on_due(subscription->context);
}

static void set_wildcard(struct kind *kind, bool wildcard)
{
	struct subscription *subscription = kind->subscription;
	if (wildcard == kind->wildcard) {
		return;
	}
	kind->wildcard = wildcard;
	if (!wildcard) {
		for (size_t i = 0; i < kind->count; i++) {
			kind->entries[i]->all = false;
		}
		drop_unwanted(kind, false);
		return;
	}
	if (!subscription->observes) {
		subscription->observes = true;
		world_observe(subscription->world, &subscription->all);
	}
	follow_all(kind);
}

/* Clusters and listeners are those that a client may ask for without naming any. */
static bool may_be_all(const struct kind *kind)
{
	return kind->type == RESOURCE_CLUSTER || kind->type == RESOURCE_LISTENER;
}

/* ---- requests ---- */

static int too_many(const struct kind *kind, struct err *err)
{
	return kind->count < DISCOVERY_NAMES_MAX
		? err_set(err, BERTH_LIMIT_EXCEEDED, FOLLOW_FULL)
		: err_set(err, BERTH_LIMIT_EXCEEDED,
			  "too many names: a subscription has %d %s at most", DISCOVERY_NAMES_MAX,
			  resource_word(kind->type));
}

static void unsubscribe(struct kind *kind, const struct discovery_request *request)
{
	for (size_t i = 0; i < request->dropped.count; i++) {
		const struct discovery_text *name = &request->dropped.items[i];
		struct entry *entry = find_entry(kind, name->data, name->len);
		if (discovery_text_is(name, "*") && may_be_all(kind)) {
			set_wildcard(kind, false);
		} else if (entry) {
			entry->named = false;
		}
	}
	drop_unwanted(kind, false);
}

/*
 * State of the world: the request's names take the place of those before. Delta: the request adds
 * names, and takes some away.
 */
static int take_names(
	struct kind *kind, const struct discovery_request *request, bool first, struct err *err)
{
	bool delta = kind->subscription->delta;
	if (delta) {
		unsubscribe(kind, request);
	}
	bool wildcard = kind->wildcard && delta;
	if (request->names.count == 0 && may_be_all(kind)) {
		wildcard = first || kind->wildcard;
	}
	for (size_t i = 0; !delta && i < kind->count; i++) {
		kind->entries[i]->named = false;
	}
	for (size_t i = 0; i < request->names.count; i++) {
		const struct discovery_text *name = &request->names.items[i];
		if (discovery_text_is(name, "*") && may_be_all(kind)) {
			wildcard = true;
			continue;
		}
		struct entry *entry = take_entry(kind, name->data, name->len);
		if (!entry) {
			return too_many(kind, err);
		}
		entry->named = true;
		if (delta) {
			entry->again = !first;
			mark_due(entry);
		}
	}
	if (!delta) {
		drop_unwanted(kind, false);
	}
	set_wildcard(kind, wildcard);
	return 0;
}

/* Delta: what the client has kept from an earlier stream is not sent again. */
static void note_held(struct kind *kind, const struct discovery_request *request)
{
	for (size_t i = 0; i < request->held.count; i++) {
		const struct discovery_text *name = &request->held.items[i];
		struct entry *entry = find_entry(kind, name->data, name->len);
		if (entry) {
			entry->sent = discovery_read_version(&request->held.versions[i]);
		}
	}
}

static void note_refusal(
	const struct subscription *subscription, const struct discovery_request *request)
{
	static struct log_rate of_nobody;
	struct follow_quota *quota = subscription->kinds[0].owner.quota;
	uint64_t hash = hash_bytes(HASH_INIT, request->type_url.data, request->type_url.len);
	hash = hash_bytes(hash, request->error.data, request->error.len);
	refusals++;
	if (hash != last_refusal) {
		last_refusal = hash;
		log_limited(quota ? &quota->lines : &of_nobody, "warn",
			"client \"%.*s\" refuses %s: %.*s",
			(int)(request->node.len < 64 ? request->node.len : 64), request->node.data,
			resource_word(request->type),
			(int)(request->error.len < 600 ? request->error.len : 600),
			request->error.data);
	}
}

static bool is_nonce_of(const struct kind *kind, const struct discovery_text *nonce)
{
	char text[DISCOVERY_NONCE_BYTES];
	snprintf(text, sizeof(text), "%u", kind->nonce);
	return discovery_text_is(nonce, text);
}

static int take_request(
	struct subscription *subscription, const struct discovery_request *request, struct err *err)
{
	if (request->type == RESOURCE_TYPES) {
		return 0; /* the client waits, as it would for a resource of another server */
	}
	struct kind *kind = &subscription->kinds[request->type];
	bool first = !kind->asked;
	kind->asked = true;
	if (request->refused) {
		note_refusal(kind->subscription, request);
	}
	/* An answer to an older message of ours: the client will send its names again. */
	if (!subscription->delta && request->nonce.len > 0 && kind->nonce > 0 &&
		!is_nonce_of(kind, &request->nonce)) {
		return 0;
	}
	int code = take_names(kind, request, first, err);
	if (code == 0 && subscription->delta && first) {
		note_held(kind, request);
	}
	return code;
}

int subscription_take(
	struct subscription *subscription, const void *message, size_t len, struct err *err)
{
	struct discovery_request request;
	int code = discovery_read(&request, subscription->delta, message, len, err);
	if (code == 0) {
		code = take_request(subscription, &request, err);
		discovery_request_finish(&request);
		subscription->on_due(subscription->context);
	}
	return code;
}

/* ---- answers ---- */

/*
 * Whether a resource can be sent. All but endpoints say the same whatever the registry holds, so
 * they never wait: a client of an earlier run of this program has them, and would take a list
 * without one for its end.
 */
static bool is_known(const struct entry *entry)
{
	return kind_of(entry)->type != RESOURCE_ENDPOINTS || follow_known(entry->user.follow);
}

/* Whether an entry is to be sent; an entry without news is not due any more. */
static bool has_news(struct entry *entry)
{
	if (!entry->due || !is_known(entry)) {
		return false;
	}
	bool news = entry->again ||
		follow_version(entry->user.follow, kind_of(entry)->type) != entry->sent;
	entry->due = news;
	return news;
}

static uint64_t add_resource(struct entry *entry, struct buffer *out)
{
	struct follow *follow = entry->user.follow;
	const struct kind *kind = kind_of(entry);
	bool delta = kind->subscription->delta;
	uint64_t version = follow_version(follow, kind->type);
	struct discovery_mark mark = discovery_begin_resource(
		out, kind->type, delta, follow_name(follow), version);
	follow_encode(follow, kind->type, out);
	discovery_end_resource(out, delta, &mark);
	entry->sent = version;
	entry->due = false;
	entry->again = false;
	return version;
}

/* State of the world lists all clusters and listeners in each answer. */
static bool lists_all(const struct kind *kind)
{
	return !kind->subscription->delta && may_be_all(kind);
}

static bool anything_new(struct kind *kind)
{
	bool news = kind->removed_count > 0 || kind->whole;
	for (size_t i = 0; i < kind->count; i++) {
		news = has_news(kind->entries[i]) || news;
	}
	return news;
}

/* Appends the message of a type. False when it has nothing to say. */
static bool write_answer(struct kind *kind, struct buffer *out)
{
	char nonce[DISCOVERY_NONCE_BYTES];
	bool all = lists_all(kind);
	size_t begin = out->len;
	uint64_t hash = HASH_INIT;
	kind->due = false;
	if (!anything_new(kind)) {
		return false;
	}
	for (size_t i = 0; i < kind->count; i++) {
		struct entry *entry = kind->entries[i];
		if (all ? !is_known(entry) : !has_news(entry)) {
			continue;
		}
		if (!all && out->len - begin > ANSWER_BYTES) {
			kind->due = true;
			break;
		}
		uint64_t version = add_resource(entry, out);
		hash = hash_bytes(hash, &version, sizeof(version));
	}
	for (size_t i = 0; i < kind->removed_count; i++) {
		discovery_add_removed(out, kind->removed[i], strlen(kind->removed[i]));
	}
	forget_removed(kind);
	kind->whole = false;
	snprintf(nonce, sizeof(nonce), "%u", ++kind->nonce);
	discovery_end_answer(out, kind->type, hash, nonce);
	return true;
}

bool subscription_next(struct subscription *subscription, struct buffer *out)
{
	for (int type = 0; type < RESOURCE_TYPES; type++) {
		struct kind *kind = &subscription->kinds[type];
		if (kind->due && write_answer(kind, out)) {
			return true;
		}
	}
	return false;
}

/* ---- life ---- */

struct subscription *subscription_create(struct world *world, struct follow_quota *quota,
	bool delta, subscription_on_due *on_due, void *context)
{
	struct subscription *subscription = memory_zeroed(1, sizeof(*subscription));
	subscription->world = world;
	subscription->delta = delta;
	subscription->on_due = on_due;
	subscription->context = context;
	subscription->all = (struct world_user){ .on_names = on_names, .context = subscription };
	list_init(&subscription->all.link);
	for (int type = 0; type < RESOURCE_TYPES; type++) {
		struct kind *kind = &subscription->kinds[type];
		kind->subscription = subscription;
		kind->type = (enum resource_type)type;
		kind->owner = (struct follow_owner){ on_change, kind, quota };
	}
	return subscription;
}

size_t subscription_bytes(const struct subscription *subscription)
{
	size_t bytes = sizeof(*subscription);
	for (int type = 0; type < RESOURCE_TYPES; type++) {
		const struct kind *kind = &subscription->kinds[type];
		bytes += kind->room * sizeof(*kind->entries) + kind->count * sizeof(struct entry) +
			kind->removed_count * REMOVED_BYTES;
	}
	return bytes;
}

void subscription_destroy(struct subscription *subscription)
{
	if (!subscription) {
		return;
	}
	for (int type = 0; type < RESOURCE_TYPES; type++) {
		struct kind *kind = &subscription->kinds[type];
		for (size_t i = 0; i < kind->count; i++) {
			kind->entries[i]->named = false;
			kind->entries[i]->all = false;
		}
		drop_unwanted(kind, false);
		forget_removed(kind);
		free(kind->entries);
	}
	if (subscription->observes) {
		world_unobserve(subscription->world, &subscription->all);
	}
	free(subscription);
}
