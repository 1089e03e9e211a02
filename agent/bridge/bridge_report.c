/* Questions to the bridge: of people, of metrics, and of an agent that passes it on. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/bridge/bridge_internal.h"
#include "agent/bridge/claim.h"
#include "lib/base/clock.h"
#include "lib/base/text.h"

json_t *bridge_json(const struct bridge *bridge)
{
	json_t *containers = json_array();
	for (size_t i = 0; i < bridge->count; i++) {
		json_array_append_new(containers, bridge_container_json(bridge->containers[i]));
	}
	json_t *runtimes = json_array();
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		const struct bridge_runtime *runtime = bridge->runtimes[i];
		json_array_append_new(runtimes, bridge_runtime_json(runtime));
		for (size_t j = 0; j < bridge_runtime_guests(runtime); j++) {
			json_array_append_new(
				containers, bridge_guest_json(bridge_runtime_guest(runtime, j)));
		}
	}
	return json_pack("{s:s, s:s, s:o, s:o}", "directory", bridge->config->bridge.containers,
		"state", bridge->away ? "away" : "served", "runtimes", runtimes, "containers",
		containers);
}

json_t *bridge_container_status(const struct bridge *bridge, const char *name)
{
	size_t at = bridge_find(bridge, name);
	return at < bridge->count ? bridge_container_json(bridge->containers[at]) : NULL;
}

struct passing {
	struct bridge_owner_file *files;
	size_t count;
	const char *container;
};

static void pass_owner(void *context, const char *path, int fd, uint64_t inode)
{
	struct passing *passing = context;
	passing->files = allocate_grow(passing->files, passing->count, sizeof(*passing->files));
	struct bridge_owner_file *file = &passing->files[passing->count++];
	*file = (struct bridge_owner_file){ .fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
		.inode = inode };
	text_printf(file->container, sizeof(file->container), "%s", passing->container);
	text_printf(file->path, sizeof(file->path), "%s", path);
	passing->count -= file->fd < 0;
}

size_t bridge_pass_owners(struct bridge *bridge, struct bridge_owner_file **ret_files)
{
	struct passing passing = { .files = NULL };
	for (size_t i = 0; i < bridge->count; i++) {
		/* Others are asked for by a new looker at once. */
		if (bridge_container_stalled_ms(bridge->containers[i], clock_monotonic_ms()) > 0) {
			passing.container = bridge_container_name(bridge->containers[i]);
			bridge_container_pass_owners(bridge->containers[i], pass_owner, &passing);
		}
	}
	*ret_files = passing.files;
	return passing.count;
}

size_t bridge_pass_abandoned(struct bridge *bridge, struct bridge_abandoned **ret_abandoned)
{
	size_t max = bridge->looker ? bridge_looker_abandoned(bridge->looker) : 0;
	struct bridge_abandoned *abandoned = allocate_zeroed(max, sizeof(*abandoned));
	size_t count = bridge->looker ? bridge_looker_pass(bridge->looker, abandoned, max) : 0;
	for (size_t i = 0; i < count; i++) {
		size_t at = bridge_find(bridge, abandoned[i].container);
		abandoned[i].stalled_ms = at < bridge->count
			? bridge_container_stalled_ms(bridge->containers[at], clock_monotonic_ms())
			: 0;
	}
	*ret_abandoned = abandoned;
	return count;
}

size_t bridge_pass(struct bridge *bridge, struct bridge_socket *sockets, size_t max)
{
	size_t count = 0;
	for (size_t i = 0; i < bridge->count && count < max; i++) {
		count += bridge_container_pass(bridge->containers[i], &sockets[count]);
	}
	return count;
}

size_t bridge_containers(const struct bridge *bridge)
{
	size_t count = bridge->count;
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		count += bridge_runtime_guests(bridge->runtimes[i]);
	}
	return count;
}

bool bridge_has_container(const struct bridge *bridge, const char *name)
{
	bool found = strncmp(name, "dir/", strlen("dir/")) == 0 &&
		bridge_find(bridge, name + strlen("dir/")) < bridge->count;
	for (size_t i = 0; i < bridge->runtime_count && !found; i++) {
		const struct bridge_guest *guest = bridge_runtime_find(bridge->runtimes[i], name);
		found = guest && strcmp(bridge_guest_name(guest), name) == 0;
	}
	return found;
}

size_t bridge_records_left(const struct bridge *bridge, const char *name)
{
	const struct bridge_accounts *accounts = bridge_publish_accounts(bridge->publish);
	size_t count = 0;
	for (const struct list *at = accounts->all.next; at != &accounts->all; at = at->next) {
		const struct bridge_account *account = LIST_ITEM(at, struct bridge_account, link);
		count += strcmp(account->name, name) == 0 ? account->post_count : 0;
	}
	return count;
}

bool bridge_is_away(const struct bridge *bridge)
{
	return bridge->away;
}

void bridge_each_container(const struct bridge *bridge,
	void (*visit)(void *context, const char *name, const char *state, size_t registered),
	void *context)
{
	for (size_t i = 0; i < bridge->count; i++) {
		const struct bridge_container *container = bridge->containers[i];
		visit(context, bridge_container_full_name(container),
			bridge_container_state(container), bridge_container_registered(container));
	}
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		for (size_t j = 0; j < bridge_runtime_guests(bridge->runtimes[i]); j++) {
			const struct bridge_guest *guest = bridge_runtime_guest(
				bridge->runtimes[i], j);
			visit(context, bridge_guest_name(guest), bridge_guest_state(guest),
				bridge_guest_registered(guest));
		}
	}
}

void bridge_each_count(const struct bridge *bridge,
	void (*visit)(void *context, const char *state, size_t count), void *context)
{
	size_t announced[ANNOUNCE_STATE_COUNT];
	size_t claims[BRIDGE_CLAIM_STATES] = { 0 };
	bridge_publish_count(bridge->publish, announced);
	for (size_t i = 0; i < bridge->count; i++) {
		bridge_container_count(bridge->containers[i], claims);
	}
	for (size_t i = 0; i < bridge->runtime_count; i++) {
		for (size_t j = 0; j < bridge_runtime_guests(bridge->runtimes[i]); j++) {
			bridge_guest_count(bridge_runtime_guest(bridge->runtimes[i], j), claims);
		}
	}
	announced[ANNOUNCE_CONFLICT] += claims[BRIDGE_CLAIM_CONFLICT];
	for (int state = 0; state < ANNOUNCE_STATE_COUNT; state++) {
		visit(context, announce_state_name((enum announce_state)state), announced[state]);
	}
	visit(context, "refused", claims[BRIDGE_CLAIM_REFUSED]);
	visit(context, "throttled", claims[BRIDGE_CLAIM_WAITING]);
	visit(context, "frozen", claims[BRIDGE_CLAIM_FROZEN]);
	visit(context, "withheld", claims[BRIDGE_CLAIM_WITHHELD]);
}
