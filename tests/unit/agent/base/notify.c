/* Messages to service managers: datagrams to systemd, a newline to s6. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/base/notify.h"
#include "tests/support/descriptors.h"
#include "tests/support/scratch.h"

static char folder[SCRATCH_PATH];
static struct sockaddr_un address;
static int manager;

static void bind_manager(socklen_t len)
{
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(manager, (struct sockaddr *)&address, len), 0);
}

static void begin(void)
{
	scratch_folder(folder);
	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/notify", folder);
	bind_manager(sizeof(address));
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

static void end(void)
{
	close(manager);
	unlink(address.sun_path);
	rmdir(folder);
}

TestSuite(notify, .init = begin, .fini = end);

/* The next datagram; "" when there is none. */
static const char *heard(void)
{
	static char text[1024];
	ssize_t got = recv(manager, text, sizeof(text) - 1, 0);
	text[got > 0 ? got : 0] = '\0';
	return text;
}

Test(notify, a_manager_hears_of_each_step)
{
	notify_init(-1);
	notify_ready();
	cr_expect_str_eq(heard(), "READY=1");
	notify_reloading();
	cr_expect_eq(strncmp(heard(), "RELOADING=1\nMONOTONIC_USEC=", 27), 0);
	notify_stopping();
	cr_expect_str_eq(heard(), "STOPPING=1");
	notify_status("%d of %s", 3, "four");
	cr_expect_str_eq(heard(), "STATUS=3 of four");
	notify_watchdog();
	cr_expect_str_eq(heard(), "WATCHDOG=1");
	cr_expect_str_empty(heard());
}

Test(notify, a_manager_that_does_not_read_stops_nobody)
{
	notify_init(-1);
	int before = descriptors_count();
	for (int i = 0; i < 2000; i++) {
		notify_watchdog();
	}
	notify_stopping();
	cr_expect_not(notify_again(), "there is no room");
	cr_expect_str_eq(heard(), "WATCHDOG=1");
	cr_expect_eq(descriptors_count(), before);
	cr_expect(notify_again());
	const char *last = "";
	for (const char *next = heard(); *next; next = heard()) {
		last = strcmp(next, "STOPPING=1") == 0 ? "STOPPING=1" : last;
	}
	cr_expect_str_eq(last, "STOPPING=1", "it comes when there is room");
}

Test(notify, an_abstract_socket_is_one_too)
{
	char name[64];
	close(manager);
	int len = snprintf(name, sizeof(name), "@berth-test-%d", (int)getpid());
	memset(address.sun_path, 0, sizeof(address.sun_path));
	memcpy(address.sun_path + 1, name + 1, (size_t)len - 1);
	bind_manager((socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len));
	setenv("NOTIFY_SOCKET", name, 1);
	notify_init(-1);
	notify_ready();
	cr_expect_str_eq(heard(), "READY=1");
	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/notify", folder);
}

Test(notify, without_a_manager_nothing_is_sent)
{
	static char too_long[200];
	setenv("WATCHDOG_USEC", "3000000", 1);
	memset(too_long, 'a', sizeof(too_long) - 1);
	too_long[0] = '/';
	setenv("NOTIFY_SOCKET", too_long, 1);
	notify_init(-1);
	setenv("NOTIFY_SOCKET", "relative", 1);
	notify_init(-1);
	unsetenv("NOTIFY_SOCKET");
	notify_init(-1);
	notify_ready();
	notify_watchdog();
	cr_expect_str_empty(heard());
	cr_expect_eq(notify_watchdog_interval_ms(), 0);
}

Test(notify, the_watchdog_is_fed_twice_in_its_time)
{
	setenv("WATCHDOG_USEC", "3000000", 1);
	notify_init(-1);
	cr_expect_eq(notify_watchdog_interval_ms(), 1500);
}

Test(notify, a_watchdog_of_another_process_does_not)
{
	setenv("WATCHDOG_USEC", "3000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	notify_init(-1);
	cr_expect_eq(notify_watchdog_interval_ms(), 0);
}

Test(notify, s6_gets_a_line_once)
{
	int ends[2];
	char text[4];
	cr_assert_eq(pipe(ends), 0);
	unsetenv("NOTIFY_SOCKET");
	notify_init(ends[1]);
	cr_expect_eq(fcntl(ends[1], F_GETFD), FD_CLOEXEC);
	notify_ready();
	cr_expect_lt(fcntl(ends[1], F_GETFD), 0, "it is closed");
	cr_assert_eq(dup2(ends[0], ends[1]), ends[1]); /* the number is another file's now */
	cr_assert_eq(dup2(ends[0], 0), 0);
	notify_ready();
	cr_expect_eq(fcntl(ends[1], F_GETFD), 0);
	cr_expect_geq(fcntl(0, F_GETFD), 0);
	cr_expect_eq(read(ends[0], text, sizeof(text)), 1);
	cr_expect_eq(text[0], '\n');
	cr_expect_eq(read(ends[0], text, sizeof(text)), 0);
	close(ends[0]);
}
