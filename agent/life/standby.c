#include "agent/life/standby.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/log.h"
#include "agent/base/notify.h"
#include "lib/base/clock.h"

/* Far below a second, in which it is to take over. */
enum { PAUSE_MS = 100 };

static bool wait_for(
	int fd, const struct config *config, bool (*is_asked_to_end)(const struct config *config))
{
	int64_t watchdog_ms = notify_watchdog_interval_ms();
	int64_t notified_ms = clock_monotonic_ms();
	while (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		if (is_asked_to_end(config)) {
			return false;
		}
		poll(NULL, 0, PAUSE_MS);
		if (watchdog_ms > 0 && clock_monotonic_ms() - notified_ms >= watchdog_ms) {
			notified_ms = clock_monotonic_ms();
			notify_watchdog();
		}
	}
	return true;
}

bool agent_standby_wait(
	const struct config *config, bool (*is_asked_to_end)(const struct config *config))
{
	bool goes_on = true;
	if (!config->bridge.standby) {
		return true;
	}
	char *path = allocate_format("%s/lock", config->agent.state_dir);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	free(path);
	if (fd < 0) {
		return true; /* nobody was here before; or the start says why */
	}
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		log_info("agent", "standby: another agent uses %s", config->agent.state_dir);
		notify_ready();
		notify_status("standby");
		goes_on = wait_for(fd, config, is_asked_to_end);
		log_info("agent", "standby: %s", goes_on ? "taking over" : "asked to end");
	}
	close(fd);
	return goes_on;
}
