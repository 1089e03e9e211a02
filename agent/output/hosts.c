#include "agent/output/hosts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/allocate.h"
#include "agent/base/timer.h"
#include "agent/check/resolve.h"

enum {
	PARALLEL = 8,
	ADDRESS_BYTES = INET6_ADDRSTRLEN,
	ROUND_WITHIN_MS = 10000,
	NAME_WITHIN_MS = 3000,
	AGAIN_MS = 30000,
};

struct host {
	char *name;
	bool wanted;
	bool due;   /* in this round */
	bool tried; /* in this round or an earlier one */
	size_t count;
	char addresses[CHECK_ADDRESSES_MAX][ADDRESS_BYTES]; /* sorted */
};

struct slot {
	struct output_hosts *hosts;
	struct host *host; /* NULL: free */
	struct check_resolve resolve;
	struct check_addresses found;
	struct timer deadline;
};

struct output_hosts {
	struct ev_loop *loop;
	void (*on_change)(void *context);
	void *context;
	struct host **items; /* sorted by name */
	size_t count;
	bool waited_for; /* output_hosts_want() has returned false */
	bool changed;    /* an address, in this round */
	struct slot slots[PARALLEL];
	struct timer timer; /* the end of the round, or the next one */
	bool in_round;
};

/* ---- names ---- */

static struct host *find(const struct output_hosts *hosts, const char *name)
{
	size_t low = 0;
	for (size_t high = hosts->count; low < high;) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(hosts->items[middle]->name, name);
		if (order == 0) {
			return hosts->items[middle];
		}
		if (order < 0) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return NULL;
}

static int by_name(const void *a, const void *b)
{
	const struct host *const *left = a;
	const struct host *const *right = b;
	return strcmp((*left)->name, (*right)->name);
}

static const char *want_item(void *context, const struct render_item *item)
{
	struct output_hosts *hosts = context;
	const char *name = item->target.host;
	if (render_server_problem(item) || item->literal) {
		return NULL;
	}
	struct host *host = find(hosts, name);
	if (!host && hosts->count < OUTPUT_HOSTS_MAX) {
		host = allocate_zeroed(1, sizeof(*host));
		host->name = allocate_text(name);
		hosts->items = allocate_grow(hosts->items, hosts->count, sizeof(struct host *));
		hosts->items[hosts->count++] = host;
		qsort(hosts->items, hosts->count, sizeof(struct host *), by_name);
	}
	if (host) {
		host->wanted = true;
	}
	return NULL;
}

static void host_free(struct host *host)
{
	free(host->name);
	free(host);
}

/* ---- slots ---- */

static void free_slot(struct slot *slot)
{
	timer_stop(&slot->deadline);
	check_resolve_stop(&slot->resolve);
	slot->host = NULL;
}

/* Names that nobody wants any more go; those that are looked up just now go with their slot. */
static void drop_unwanted(struct output_hosts *hosts)
{
	size_t kept = 0;
	for (size_t i = 0; i < PARALLEL; i++) {
		if (hosts->slots[i].host && !hosts->slots[i].host->wanted) {
			free_slot(&hosts->slots[i]);
		}
	}
	for (size_t i = 0; i < hosts->count; i++) {
		if (hosts->items[i]->wanted) {
			hosts->items[kept++] = hosts->items[i];
		} else {
			host_free(hosts->items[i]);
		}
	}
	hosts->count = kept;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static bool write_address(char out[ADDRESS_BYTES], const struct check_address *found)
{
	const struct sockaddr_in *ip4 = (const struct sockaddr_in *)&found->address;
	const struct sockaddr_in6 *ip6 = (const struct sockaddr_in6 *)&found->address;
	bool is_ip6 = found->address.ss_family == AF_INET6;
	const void *bytes = is_ip6 ? (const void *)&ip6->sin6_addr : &ip4->sin_addr;
	return inet_ntop(found->address.ss_family, bytes, out, ADDRESS_BYTES) != NULL;
}

/* A name without an answer keeps what it had. */
static void take_answer(
	struct output_hosts *hosts, struct host *host, const struct check_addresses *found)
{
	char addresses[CHECK_ADDRESSES_MAX][ADDRESS_BYTES] = { "" };
	size_t count = 0;
	for (int i = 0; i < found->count; i++) {
		count += write_address(addresses[count], &found->items[i]);
	}
	if (count == 0) {
		return;
	}
	qsort(addresses, count, ADDRESS_BYTES, by_text);
	if (count != host->count ||
		memcmp(addresses, host->addresses, count * ADDRESS_BYTES) != 0) {
		hosts->changed = true;
	}
	memcpy(host->addresses, addresses, sizeof(addresses));
	host->count = count;
}

static void go_on(struct output_hosts *hosts);

static void end_slot(struct slot *slot)
{
	struct output_hosts *hosts = slot->hosts;
	take_answer(hosts, slot->host, &slot->found);
	free_slot(slot);
	go_on(hosts);
}

static void on_answer(void *context)
{
	end_slot(context);
}

static void on_deadline(void *context)
{
	struct slot *slot = context;
	slot->found.count = 0;
	end_slot(slot);
}

/* ---- rounds ---- */

/* Names that were never tried come first. */
static struct host *next_due(const struct output_hosts *hosts)
{
	struct host *next = NULL;
	for (size_t i = 0; i < hosts->count; i++) {
		struct host *host = hosts->items[i];
		if (host->due && (!next || (next->tried && !host->tried))) {
			next = host;
		}
	}
	return next;
}

static void end_round(struct output_hosts *hosts)
{
	bool must_tell = hosts->waited_for || hosts->changed;
	for (size_t i = 0; i < PARALLEL; i++) {
		free_slot(&hosts->slots[i]);
	}
	hosts->in_round = false;
	hosts->waited_for = false;
	hosts->changed = false;
	timer_stop(&hosts->timer);
	if (hosts->count > 0) {
		timer_start(&hosts->timer, AGAIN_MS);
	}
	if (must_tell) {
		hosts->on_change(hosts->context);
	}
}

/* False: the slot is still free, because the answer is there already. */
static bool fill_slot(struct slot *slot, struct host *host)
{
	struct output_hosts *hosts = slot->hosts;
	host->due = false;
	host->tried = true;
	if (check_resolve_start(&slot->resolve, host->name, "0", &slot->found, on_answer, slot)) {
		take_answer(hosts, host, &slot->found);
		return false;
	}
	slot->host = host;
	timer_start(&slot->deadline, NAME_WITHIN_MS);
	return true;
}

/* Fills the free slots; ends the round when nothing is left to do. */
static void go_on(struct output_hosts *hosts)
{
	bool busy = false;
	for (size_t i = 0; i < PARALLEL; i++) {
		struct slot *slot = &hosts->slots[i];
		struct host *host;
		while (!slot->host && (host = next_due(hosts)) && !fill_slot(slot, host)) {
		}
		busy = busy || slot->host;
	}
	if (!busy) {
		/* From the loop: output_hosts_want() may be the caller. */
		timer_start(&hosts->timer, 0);
	}
}

static void begin_round(struct output_hosts *hosts)
{
	hosts->in_round = true;
	timer_start(&hosts->timer, ROUND_WITHIN_MS);
	go_on(hosts);
}

static void on_timer(void *context)
{
	struct output_hosts *hosts = context;
	if (hosts->in_round) {
		end_round(hosts);
		return;
	}
	for (size_t i = 0; i < hosts->count; i++) {
		hosts->items[i]->due = true;
	}
	begin_round(hosts);
}

bool output_hosts_want(struct output_hosts *hosts, const struct render_picture *picture,
	const struct render_filter *filter)
{
	struct render_result ignored;
	bool any_new = false;
	for (size_t i = 0; i < hosts->count; i++) {
		hosts->items[i]->wanted = false;
	}
	render_each(picture, filter, want_item, hosts, &ignored);
	drop_unwanted(hosts);
	for (size_t i = 0; i < hosts->count; i++) {
		struct host *host = hosts->items[i];
		if (!host->tried && !host->due) {
			host->due = true;
			any_new = true;
		}
	}
	if (any_new) {
		hosts->waited_for = true;
		begin_round(hosts);
	}
	return !any_new;
}

const char *output_hosts_address(void *context, const char *name, size_t index)
{
	const struct host *host = find(context, name);
	return host && index < host->count ? host->addresses[index] : NULL;
}

/* ---- life ---- */

struct output_hosts *output_hosts_create(
	struct ev_loop *loop, void (*on_change)(void *context), void *context)
{
	struct output_hosts *hosts = allocate_zeroed(1, sizeof(*hosts));
	hosts->loop = loop;
	hosts->on_change = on_change;
	hosts->context = context;
	timer_init(&hosts->timer, loop, "names of servers", on_timer, hosts);
	for (size_t i = 0; i < PARALLEL; i++) {
		struct slot *slot = &hosts->slots[i];
		slot->hosts = hosts;
		check_resolve_init(&slot->resolve, loop);
		timer_init(&slot->deadline, loop, "name of a server", on_deadline, slot);
	}
	return hosts;
}

void output_hosts_destroy(struct output_hosts *hosts)
{
	if (!hosts) {
		return;
	}
	timer_stop(&hosts->timer);
	for (size_t i = 0; i < PARALLEL; i++) {
		free_slot(&hosts->slots[i]);
	}
	for (size_t i = 0; i < hosts->count; i++) {
		host_free(hosts->items[i]);
	}
	free(hosts->items);
	free(hosts);
}
