#include "agent/bridge/claim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/bridge/freezer.h"
#include "lib/base/clock.h"
#include "lib/base/linux_calls.h"

#define SLOW_NS INT64_C(5000000)

enum {
	GROUP_BYTES = 200,
	MOST_READINGS = 2 /* others' locks come and go while the list is read: one may be missed */
};

struct bridge_claim *bridge_claim_create(const char *path)
{
	struct bridge_claim *claim = allocate_zeroed(1, sizeof(*claim));
	list_init(&claim->link);
	claim->path = allocate_text(path);
	claim->since = clock_wall_s();
	claim->owner_fd = -1;
	return claim;
}

void bridge_claim_free(struct bridge_claim *claim)
{
	list_remove(&claim->link);
	bridge_claim_drop_owner(claim);
	free(claim->path);
	free(claim->data);
	free(claim->mistake);
	free(claim->why);
	free(claim->hold_why);
	free(claim->group);
	free(claim);
}

const char *bridge_claim_state_name(enum bridge_claim_state state)
{
	static const char *const names[] = { "new", "held", "conflict", "refused", "waiting",
		"frozen", "lingering", "withheld" };
	return names[state];
}

bool bridge_claim_set_state(
	struct bridge_claim *claim, enum bridge_claim_state state, const char *why)
{
	bool news = claim->state != state || strcmp(kept_text(claim->why), why) != 0;
	if (claim->state != state) {
		claim->since = clock_wall_s();
	}
	claim->state = state;
	allocate_kept(&claim->why, why);
	return news;
}

/* ---- the owner ---- */

/* Of an open file of a stranger's: without asking a server that a file system may have. */
static bool look_at(int fd, struct statx *status)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, status) == 0;
}

void bridge_claim_take_owner(
	struct bridge_claim *claim, int fd_take, uint64_t device, uint64_t inode)
{
	struct statx status;
	bridge_claim_drop_owner(claim);
	if (look_at(fd_take, &status) && S_ISREG(status.stx_mode) && status.stx_nlink == 1 &&
		makedev(status.stx_dev_major, status.stx_dev_minor) == device &&
		status.stx_ino == inode) {
		claim->owner_fd = fd_take;
		claim->owner_inode = inode;
	} else {
		close(fd_take);
	}
}

void bridge_claim_drop_owner(struct bridge_claim *claim)
{
	if (claim->owner_fd >= 0) {
		close(claim->owner_fd);
	}
	claim->owner_fd = -1;
	claim->owner_inode = 0;
	claim->owner_pid = 0;
	claim->owner_readings = 0;
}

enum bridge_owner bridge_claim_ask_owner(struct bridge_claim *claim)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	struct statx status;
	if (claim->owner_fd < 0) {
		return BRIDGE_OWNER_UNKNOWN;
	}
	int64_t began_ns = clock_read_ns(CLOCK_MONOTONIC);
	bool held = fcntl(claim->owner_fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	bool slow = clock_read_ns(CLOCK_MONOTONIC) - began_ns > SLOW_NS;
	/* The owner empties the file, then drops its lock: look in the opposite order. */
	bool seen = look_at(claim->owner_fd, &status);
	if (!seen || status.stx_nlink != 1 || slow) {
		bridge_claim_drop_owner(claim);
		return slow ? BRIDGE_OWNER_UNKNOWN : BRIDGE_OWNER_LEFT;
	}
	return held ? BRIDGE_OWNER_LIVES : status.stx_size ? BRIDGE_OWNER_DIED : BRIDGE_OWNER_LEFT;
}

bool bridge_claim_seeks_owner(const struct bridge_claim *claim)
{
	return claim->owner_fd >= 0 && claim->owner_pid == 0 &&
		claim->owner_readings < MOST_READINGS;
}

bool bridge_claim_ask_freezer(struct bridge_claim *claim)
{
	bool was_frozen = claim->frozen;
	char group[GROUP_BYTES] = "";
	claim->frozen = claim->owner_pid != 0 &&
		bridge_freezer_has(claim->owner_pid, group, sizeof(group));
	if (claim->frozen) {
		allocate_kept(&claim->group, group);
	}
	return claim->frozen != was_frozen;
}

bool bridge_claim_seek_owner(
	struct bridge_claim *claim, const struct bridge_holders *holders, bool whole)
{
	struct statx status;
	if (!bridge_claim_seeks_owner(claim) || !look_at(claim->owner_fd, &status)) {
		return false;
	}
	claim->owner_pid = bridge_holders_find(
		holders, makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino);
	claim->owner_readings += whole;
	return bridge_claim_ask_freezer(claim);
}
