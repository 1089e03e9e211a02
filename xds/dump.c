#include "xds/dump.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "xds/discovery.h"

enum { OUTPUT_BYTES = 64 * 1024 * 1024, NOT_FOLLOWED = 4, AGAIN_MS = 100 };

static void on_change(void *context, struct follow_user *user)
{
	(void)context;
	(void)user;
}

static void print(struct follow *follow)
{
	struct buffer out;
	const char *name = follow_name(follow);
	buffer_init(&out, OUTPUT_BYTES);
	buffer_append_text(&out, "{\"cluster\":");
	resource_json(&out, RESOURCE_CLUSTER, name, follow_assignment(follow));
	buffer_append_text(&out, ",\n\"endpoints\":");
	resource_json(&out, RESOURCE_ENDPOINTS, name, follow_assignment(follow));
	buffer_printf(&out, ",\n\"version\":\"%016llx\",\"left_out\":%zu}\n",
		(unsigned long long)follow_version(follow, RESOURCE_ENDPOINTS),
		follow_assignment(follow)->left_out);
	fwrite(buffer_text(&out), 1, out.len, stdout);
	buffer_finish(&out);
}

int dump_name(struct source *source, struct world *world, const char *name, int timeout_ms)
{
	const struct follow_owner owner = { .on_change = on_change };
	struct follow_user user = { .owner = &owner };
	struct err err = ERR_INIT;
	int64_t until_ms = clock_monotonic_ms() + timeout_ms;
	if (!discovery_name_valid(name, strlen(name))) {
		fputs("berth-xds: this cannot be the name of a resource\n", stderr);
		return 2;
	}
	if (!follow_take(world, &user, name, strlen(name))) {
		fputs("berth-xds: " FOLLOW_FULL "\n", stderr);
		return NOT_FOLLOWED;
	}
	if (!follow_can_mean(user.follow)) {
		follow_release(&user, clock_monotonic_ms());
		return 2; /* the log has a hint */
	}
	world_update(world, clock_monotonic_ms());
	while (!follow_whole(user.follow) && clock_monotonic_ms() < until_ms) {
		struct pollfd agent = { .fd = source_fd(source), .events = POLLIN };
		int64_t left_ms = source_due_ms(source) - clock_monotonic_ms();
		(void)poll(&agent, 1,
			left_ms < 0                  ? 0
				: left_ms < AGAIN_MS ? (int)left_ms
						     : AGAIN_MS);
		source_dispatch(source, clock_monotonic_ms());
		world_update(world, clock_monotonic_ms());
	}
	bool known = follow_known(user.follow);
	if (known) {
		print(user.follow);
		if (!follow_whole(user.follow)) {
			fprintf(stderr,
				"berth-xds: %s: a further path is not confirmed, and left out\n",
				name);
		}
	} else {
		(void)world_trouble(world, &err);
		fprintf(stderr, "berth-xds: %s: nothing is known yet: %s\n", name,
			err.code ? err.msg : "no answer in time");
	}
	follow_release(&user, clock_monotonic_ms());
	return known ? EXIT_SUCCESS : NOT_FOLLOWED;
}
