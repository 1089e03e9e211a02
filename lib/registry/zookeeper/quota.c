/* The quota of a worker; zookeeper.h says why it has one. */
#include "lib/registry/zookeeper/zookeeper.h"

enum {
	UNASKED_AT_ONCE = 200, /* the client library has 20 lines a second to say */
	UNASKED_A_SECOND = 100,
	FRAMES_A_REQUEST = 2,   /* its result, and the event of its watch */
	REQUESTS_KEPT = 4 << 20 /* watches may fire long after */
};

void registry_zk_quota_begin(struct registry_zk_quota *quota, int64_t now_ms)
{
	*quota = (struct registry_zk_quota){ .left = UNASKED_AT_ONCE, .at_ms = now_ms };
}

void registry_zk_quota_ask(struct registry_zk_quota *quota)
{
	if (quota->left < (int64_t)FRAMES_A_REQUEST * REQUESTS_KEPT) {
		quota->left += FRAMES_A_REQUEST;
	}
}

bool registry_zk_quota_take(struct registry_zk_quota *quota, int64_t now_ms)
{
	int64_t earned = (now_ms - quota->at_ms) * UNASKED_A_SECOND / 1000;
	if (earned > 0) {
		/* Silence does not earn a flood. */
		if (quota->left < UNASKED_AT_ONCE) {
			quota->left += earned;
			quota->left = quota->left < UNASKED_AT_ONCE ? quota->left : UNASKED_AT_ONCE;
		}
		quota->at_ms = now_ms;
	}
	if (quota->left <= 0) {
		return false;
	}
	quota->left--;
	return true;
}
