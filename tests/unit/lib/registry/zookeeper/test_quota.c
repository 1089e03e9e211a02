/* The quota of a worker, and its replacement when it sends more. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "tests/support/zk_stage.h"

enum { AT_ONCE = 200, A_SECOND = 100 };

int clock_gettime(clockid_t clock, struct timespec *now)
{
	return zk_stage_clock(clock, now);
}

static unsigned take_all(struct registry_zk_quota *quota, int64_t now_ms)
{
	unsigned taken = 0;
	while (taken < 100000 && registry_zk_quota_take(quota, now_ms)) {
		taken++;
	}
	return taken;
}

Test(zk_quota, is_what_was_asked_for_and_a_little_more)
{
	struct registry_zk_quota quota;
	registry_zk_quota_begin(&quota, 1000);
	cr_expect(eq(uint, take_all(&quota, 1000), AT_ONCE));
	registry_zk_quota_ask(&quota);
	registry_zk_quota_ask(&quota);
	cr_expect(eq(uint, take_all(&quota, 1000), 4U), "a result and an event each");
	cr_expect(eq(uint, take_all(&quota, 2000), A_SECOND));
	cr_expect(eq(uint, take_all(&quota, 1000000), AT_ONCE), "silence earns no flood");
}

Test(zk_quota, of_watches_is_kept_until_they_fire)
{
	struct registry_zk_quota quota;
	registry_zk_quota_begin(&quota, 0);
	for (int i = 0; i < 1000; i++) {
		registry_zk_quota_ask(&quota);
	}
	cr_expect(eq(uint, take_all(&quota, 3600000), AT_ONCE + 2000U));
}

Test(zk_quota, of_lines_in_the_log_is_twenty_a_second)
{
	zk_stage_open_connected();
	zk_stage_pass_ms(5000);
	for (int second = 0; second < 2; second++) {
		for (int i = 0; i < 25; i++) {
			zk_stage.log[0] = '\0';
			zk_stage_log(ZK_LOG_DETAIL, "words");
			cr_expect(eq(str, zk_stage.log,
				(char *)(uintptr_t)(i < 20 ? "debug: ZooKeeper: words\n"
						: i == 20
						? "debug: more lines of the ZooKeeper worker in "
						  "this second are left out\n"
						: "")));
		}
		zk_stage_pass_ms(1000);
	}
}
