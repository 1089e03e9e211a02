/* Questions to the kernel about a container's owners: whether they live, or are frozen. */
#include <unistd.h>

#include "agent/bridge/container_internal.h"
#include "lib/base/text.h"

enum {
	STALL_REST_MS = 1000, /* after a stall; four times as long after the next one */
	STALL_REST_MAX_MS = 64000,
	OWNERS_AGAIN_MS = 50, /* while it is stalled, and so many of them in one turn */
	OWNERS_AT_ONCE = 64
};

/* ---- while the looker does not answer ---- */

static void give_up(struct bridge_container *container, const char *why)
{
	text_printf(container->mistake, sizeof(container->mistake), "%s", why);
	bridge_container_release_all(container, why);
	container->stall_limit_at_ms = 0;
}

void bridge_container_on_stalled(
	struct bridge_container *container, const char *why, bool refused, int64_t now_ms)
{
	container->known = true;
	container->dirty = true;
	container->stall_rest_ms = container->stall_rest_ms == 0 ? STALL_REST_MS
								 : 4 * container->stall_rest_ms;
	if (container->stall_rest_ms > STALL_REST_MAX_MS) {
		container->stall_rest_ms = STALL_REST_MAX_MS;
	}
	container->rest_until_ms = now_ms + container->stall_rest_ms;
	if (container->stalled_since_ms == 0) {
		container->stalled_since_ms = now_ms;
		container->stall_limit_at_ms = now_ms + container->stall_limit_ms;
		text_printf(container->mistake, sizeof(container->mistake), "%s", why);
	}
	container->owners_at_ms = now_ms;
	if (refused) {
		give_up(container, "its directory is held, and those of too many others are");
	}
	bridge_container_note_state(container);
}

bool bridge_container_awaits(const struct bridge_container *container, const char *path)
{
	return container->stalled_since_ms != 0 && bridge_claims_find(&container->claims, path);
}

int64_t bridge_container_owners_due_ms(const struct bridge_container *container)
{
	return container->stalled_since_ms != 0 && container->claims.count > 0
		? container->owners_at_ms
		: INT64_MAX;
}

void bridge_container_ask_owners(struct bridge_container *container, int64_t now_ms)
{
	struct list *next = container->owners_next
		? (struct list *)(uintptr_t)&container->owners_next->link
		: container->claims.all.next;
	container->owners_at_ms = now_ms + OWNERS_AGAIN_MS;
	container->owners_next = NULL;
	for (int i = 0; i < OWNERS_AT_ONCE && next != &container->claims.all; i++) {
		struct bridge_claim *claim = LIST_ITEM(next, struct bridge_claim, link);
		next = next->next;
		bridge_container_judge_owner(
			container, claim, bridge_claim_ask_owner(claim), now_ms);
	}
	if (next != &container->claims.all) {
		container->owners_next = LIST_ITEM(next, struct bridge_claim, link);
	}
	if (container->stall_limit_at_ms != 0 && now_ms >= container->stall_limit_at_ms) {
		char why[120];
		text_printf(why, sizeof(why),
			"its directory has not answered for %lld s (stall_limit)",
			(long long)(container->stall_limit_ms / 1000));
		give_up(container, why);
	}
	bridge_container_note_state(container);
}

int64_t bridge_container_freezer_due_ms(const struct bridge_container *container)
{
	for (const struct list *at = container->claims.all.next; at != &container->claims.all;
		at = at->next) {
		const struct bridge_claim *claim = LIST_ITEM(at, struct bridge_claim, link);
		if (claim->owner_pid != 0 || bridge_claim_seeks_owner(claim)) {
			return container->freezer_at_ms;
		}
	}
	return INT64_MAX;
}

bool bridge_container_seeks_owners(const struct bridge_container *container)
{
	bool seeks = false;
	for (const struct list *at = container->claims.all.next;
		at != &container->claims.all && !seeks; at = at->next) {
		seeks = bridge_claim_seeks_owner(LIST_ITEM(at, struct bridge_claim, link));
	}
	return seeks;
}

void bridge_container_ask_freezer(struct bridge_container *container, bool whole, int64_t now_ms)
{
	bool news = bridge_container_seek_owners(container, whole, now_ms);
	for (struct list *at = container->claims.all.next; at != &container->claims.all;
		at = at->next) {
		news = bridge_claim_ask_freezer(LIST_ITEM(at, struct bridge_claim, link)) || news;
	}
	if (news) {
		bridge_claims_decide(&container->claims, now_ms);
		bridge_container_note_state(container);
	}
}

void bridge_container_pass_owners(const struct bridge_container *container,
	void (*visit)(void *context, const char *path, int fd, uint64_t inode), void *context)
{
	for (const struct list *at = container->claims.all.next; at != &container->claims.all;
		at = at->next) {
		const struct bridge_claim *claim = LIST_ITEM(at, struct bridge_claim, link);
		if (claim->owner_fd >= 0) {
			visit(context, claim->path, claim->owner_fd, claim->owner_inode);
		}
	}
}

int64_t bridge_container_stalled_ms(const struct bridge_container *container, int64_t now_ms)
{
	return container->stalled_since_ms == 0 ? 0 : now_ms - container->stalled_since_ms + 1;
}

void bridge_container_inherit_owner(
	struct bridge_container *container, const char *path, int fd_take, uint64_t inode)
{
	struct bridge_claim *claim = bridge_claims_find(&container->claims, path);
	if (claim) {
		bridge_claim_drop_owner(claim);
		claim->owner_fd = fd_take;
		claim->owner_inode = inode;
	} else {
		close(fd_take);
	}
}

void bridge_container_inherit_stall(
	struct bridge_container *container, int64_t stalled_ms, int64_t now_ms)
{
	bridge_container_on_stalled(container, "its directory is held", false, now_ms);
	container->stalled_since_ms = now_ms - stalled_ms;
	container->stall_limit_at_ms = now_ms - stalled_ms + container->stall_limit_ms;
}
