/* A second agent waits for the end of the first one. Its pauses take no time. */
#include "agent/life/standby.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/notify.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"
#include "tests/support/shifted_clock.h"

static struct {
	char folder[SCRATCH_PATH];
	char lock[SCRATCH_PATH + 16];
	char notify[SCRATCH_PATH + 16];
	struct config config;
	int lock_fd; /* of the first agent; -1: it has ended */
	int manager;
	int pauses;
	int pauses_left; /* so many until the first agent ends */
	int asked_after; /* so many until the second one is asked to end; -1: never */
	int longest_ms;
} stage;

/* A pause of the second agent; the runner of the tests waits for descriptors. */
int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	if (count > 0) {
		const struct timespec timeout = { .tv_sec = timeout_ms / 1000,
			.tv_nsec = timeout_ms % 1000 * 1000000L };
		return ppoll(fds, count, timeout_ms < 0 ? NULL : &timeout, NULL);
	}
	cr_assert_geq(timeout_ms, 0);
	clock_shift_ms += timeout_ms;
	stage.longest_ms = timeout_ms > stage.longest_ms ? timeout_ms : stage.longest_ms;
	stage.pauses++;
	if (--stage.pauses_left <= 0 && stage.lock_fd >= 0) {
		close(stage.lock_fd);
		stage.lock_fd = -1;
	}
	return 0;
}

static bool is_asked_to_end(const struct config *config)
{
	cr_assert_eq(config, &stage.config);
	return stage.asked_after >= 0 && stage.pauses >= stage.asked_after;
}

static void begin(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	scratch_folder(stage.folder);
	snprintf(stage.lock, sizeof(stage.lock), "%s/lock", stage.folder);
	snprintf(stage.notify, sizeof(stage.notify), "%s/notify", stage.folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", stage.notify);
	stage.manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(stage.manager, (struct sockaddr *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", stage.notify, 1);
	stage.config.bridge.standby = true;
	stage.config.agent.state_dir = stage.folder;
	stage.lock_fd = -1;
	stage.asked_after = -1;
	clock_stands = true;
	clock_shift_ms = 1000000;
}

static void end(void)
{
	if (stage.lock_fd >= 0) {
		close(stage.lock_fd);
	}
	close(stage.manager);
	unlink(stage.lock);
	unlink(stage.notify);
	cr_assert_eq(rmdir(stage.folder), 0);
}

TestSuite(standby, .init = begin, .fini = end);

static void hold_lock(void)
{
	stage.lock_fd = open(stage.lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(flock(stage.lock_fd, LOCK_EX | LOCK_NB), 0);
}

static bool is_locked(void)
{
	int fd = open(stage.lock, O_RDONLY | O_CLOEXEC);
	bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
	close(fd);
	return locked;
}

/* "READY=1 STATUS=standby ": what the service manager heard. */
static const char *heard(void)
{
	static char text[1024];
	char message[256];
	ssize_t len;
	text[0] = '\0';
	while ((len = recv(stage.manager, message, sizeof(message) - 1, 0)) >= 0) {
		message[len] = '\0';
		strcat(strcat(text, message), " ");
	}
	return text;
}

Test(standby, the_first_one_is_waited_for_and_its_lock_is_free_then)
{
	notify_init(-1);
	hold_lock();
	int before = descriptors_count();
	stage.pauses_left = 3;
	cr_expect(agent_standby_wait(&stage.config, is_asked_to_end));
	cr_expect_eq(stage.pauses, 3);
	cr_expect(stage.longest_ms > 0 && stage.longest_ms <= 100, "%d", stage.longest_ms);
	cr_expect_str_eq(heard(), "READY=1 STATUS=standby ");
	cr_expect_not(is_locked());
	cr_expect_eq(descriptors_count(), before - 1);
}

Test(standby, it_ends_when_it_is_asked_to)
{
	hold_lock();
	stage.pauses_left = 100;
	stage.asked_after = 2;
	cr_expect_not(agent_standby_wait(&stage.config, is_asked_to_end));
	cr_expect_eq(stage.pauses, 2);
	cr_expect(is_locked());
}

Test(standby, the_watchdog_hears_of_it_while_it_waits)
{
	setenv("WATCHDOG_USEC", "500000", 1); /* a message each 250 ms */
	unsetenv("WATCHDOG_PID");
	notify_init(-1);
	hold_lock();
	stage.pauses_left = 7;
	cr_expect(agent_standby_wait(&stage.config, is_asked_to_end));
	cr_expect_str_eq(heard(), "READY=1 STATUS=standby WATCHDOG=1 WATCHDOG=1 ");
	setenv("WATCHDOG_USEC", "400000", 1); /* an exact number of pauses */
	notify_init(-1);
	hold_lock();
	stage.pauses_left = 4;
	cr_expect(agent_standby_wait(&stage.config, is_asked_to_end));
	cr_expect_str_eq(heard(), "READY=1 STATUS=standby WATCHDOG=1 WATCHDOG=1 ");
}

Test(standby, a_fifo_in_the_place_of_the_lock_stops_nobody)
{
	cr_assert_eq(mkfifo(stage.lock, 0600), 0);
	cr_expect(agent_standby_wait(&stage.config, is_asked_to_end));
	cr_expect_eq(stage.pauses, 0);
}

Test(standby, a_link_in_the_place_of_the_lock_is_not_followed)
{
	hold_lock();
	char other[SCRATCH_PATH + 32];
	snprintf(other, sizeof(other), "%s/other", stage.folder);
	cr_assert_eq(rename(stage.lock, other), 0);
	cr_assert_eq(symlink("other", stage.lock), 0);
	stage.pauses_left = 3;
	cr_expect(agent_standby_wait(&stage.config, is_asked_to_end));
	cr_expect_eq(stage.pauses, 0);
	cr_assert_eq(unlink(other), 0);
}
