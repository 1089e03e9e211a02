#include "agent/output/haproxy.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "tests/support/shifted_clock.h"

#define HEAD "1\n# be_id be_name srv_id srv_name\n"
#define LINE(name, address, admin, port)                                                           \
	"3 web 1 " name " " address " 2 " admin " 1 1 12 6 3 4 6 0 0 0 - " port " - 0 0 - - 0\n"
#define C1_LINE LINE("berth:c1", "10.0.0.1", "0", "80")
#define C1_GONE LINE("berth:c1", "10.0.0.1", "1", "80")
#define C1_ADD                                                                                     \
	"add server web/berth:c1 10.0.0.1:80 weight 1 check; enable health web/berth:c1; "         \
	"enable server web/berth:c1\n"

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static bool refusing;

/* Criterion has sockets of its own. */
static bool is_ours(int file)
{
	struct sockaddr_un peer = { .sun_family = AF_UNSPEC };
	socklen_t len = sizeof(peer);
	return getpeername(file, (struct sockaddr *)&peer, &len) == 0 &&
		peer.sun_family == AF_UNIX && strcmp(peer.sun_path, address.sun_path) == 0;
}

int epoll_ctl(int set, int operation, int file, struct epoll_event *event)
{
	int (*real)(int, int, int, struct epoll_event *) = dlsym(RTLD_NEXT, "epoll_ctl");
	if (refusing && operation == EPOLL_CTL_ADD && is_ours(file)) {
		refusing = false;
		errno = ENOMEM;
		return -1;
	}
	return real(set, operation, file, event);
}

static struct err last;
static int ends;
static size_t last_changes;

static void on_done(void *context, const struct err *err, size_t changes)
{
	(void)context;
	last_changes = changes;
	last = err ? *err : (struct err)ERR_INIT;
	ends++;
}

/* ---- a HAProxy that answers in the same loop ---- */

enum { PIECE_BYTES = 100 };

struct fake {
	struct ev_loop *loop;
	int listener;
	ev_io accepting;
	ev_io talking;
	char state[2000];    /* its servers */
	char commands[2000]; /* that changed something */
	const char *refusal; /* of each change */
	bool silent;
	bool endless;       /* its answers */
	int questions;      /* how often the state was asked for */
	char answer[2000];  /* to the command of this connection */
	size_t answer_sent; /* bytes; it closes when all of them are */
};

static void hang_up(struct fake *fake)
{
	ev_io_stop(fake->loop, &fake->talking);
	close(fake->talking.fd);
}

static void answer_more(struct fake *fake)
{
	static char flood[1 << 16];
	const char *left = fake->answer + fake->answer_sent;
	size_t len = strlen(left) < PIECE_BYTES ? strlen(left) : PIECE_BYTES;
	if (fake->endless) {
		memset(flood, 'x', sizeof(flood));
		left = flood;
		len = sizeof(flood);
	}
	ssize_t part = send(fake->talking.fd, left, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (part < 0 && errno == EAGAIN) {
		return;
	}
	fake->answer_sent += part > 0 && !fake->endless ? (size_t)part : 0;
	if (part < 0 || (!fake->endless && !fake->answer[fake->answer_sent])) {
		hang_up(fake);
	}
}

static void change(struct fake *fake, const char *line)
{
	strcat(fake->commands, line);
	strcpy(fake->answer, fake->refusal ? fake->refusal : "\n");
	if (fake->refusal) {
		return;
	}
	if (strncmp(line, "add server web/berth:c1 10.0.0.1:80 ", 36) == 0) {
		strcat(fake->state, C1_LINE);
	} else if (strcmp(line, "set server web/berth:c1 state maint\n") == 0) {
		strcpy(fake->state, HEAD C1_GONE);
	} else if (strcmp(line, "del server web/berth:c1\n") == 0) {
		strcpy(fake->state, HEAD);
	}
}

static void hear(struct fake *fake)
{
	char line[500];
	ssize_t len = recv(fake->talking.fd, line, sizeof(line) - 1, MSG_DONTWAIT);
	if (len <= 0) {
		hang_up(fake);
		return;
	}
	line[len] = '\0';
	fake->answer_sent = 0;
	if (strcmp(line, "show servers state web\n") == 0) {
		fake->questions++;
		strcpy(fake->answer, fake->state);
	} else {
		change(fake, line);
	}
	ev_io_stop(fake->loop, &fake->talking);
	if (!fake->silent) {
		ev_io_set(&fake->talking, fake->talking.fd, EV_WRITE);
		ev_io_start(fake->loop, &fake->talking);
	}
}

static void on_talk(struct ev_loop *loop, ev_io *io, int events)
{
	(void)loop;
	if (events & EV_WRITE) {
		answer_more(io->data);
	} else {
		hear(io->data);
	}
}

static void on_connection(struct ev_loop *loop, ev_io *io, int events)
{
	(void)events;
	struct fake *fake = io->data;
	ev_io_stop(loop, &fake->talking);
	ev_io_set(&fake->talking, accept4(io->fd, NULL, NULL, SOCK_CLOEXEC), EV_READ);
	ev_io_start(loop, &fake->talking);
}

/* The clock stops but for step(): a slow machine is not silent. */
static void open_fake(struct fake *fake, const char *state)
{
	char folder[SCRATCH_PATH];
	clock_stands = true;
	clock_shift_ms = 1000000;
	scratch_folder(folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/h", folder);
	fake->loop = ev_loop_new(EVFLAG_AUTO);
	fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fake->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fake->listener, 5), 0);
	ev_io_init(&fake->accepting, on_connection, fake->listener, EV_READ);
	ev_init(&fake->talking, on_talk);
	fake->accepting.data = fake->talking.data = fake;
	ev_io_start(fake->loop, &fake->accepting);
	strcpy(fake->state, state);
}

static void close_fake(struct fake *fake, struct haproxy *haproxy)
{
	haproxy_destroy(haproxy);
	ev_loop_destroy(fake->loop);
	close(fake->listener);
	unlink(address.sun_path);
	*strrchr(address.sun_path, '/') = '\0';
	rmdir(address.sun_path);
}

static void want(struct haproxy *haproxy, bool with_server)
{
	static const char text[] =
		"{\"type\":\"JSONServiceRecord\",\"external\":[{\"api\":\"x\",\"addressType\":"
		"\"host/port\",\"protocol\":\"\",\"addresses\":[{\"host\":\"10.0.0.1\",\"port\":"
		"\"80\"},{\"host\":\"name\",\"port\":\"80\"}]}],\"internal\":[]}";
	struct record *record;
	struct render_result result;
	cr_assert_eq(record_decode(&record, text, strlen(text), NULL), 0);
	const struct render_member member = { .path = "/a/c1", .record = record };
	const struct render_picture picture = { "/a", &member, with_server };
	haproxy_want(haproxy, &picture, &(struct render_filter){ NULL }, &result);
	cr_assert_eq(result.left_out, with_server);
	record_free(record);
}

/* Nobody waits for a rest or for a silence to end: time goes on in steps of 10 ms. */
static void step(struct fake *fake)
{
	clock_shift_ms += 10;
	ev_run(fake->loop, EVRUN_NOWAIT);
}

static void pass(struct fake *fake, int64_t ms)
{
	for (int64_t end_ms = clock_shift_ms + ms; clock_shift_ms < end_ms;) {
		step(fake);
	}
}

#define STEP_UNTIL(condition)                                                                      \
	do {                                                                                       \
		for (int i = 0; !(condition); i++) {                                               \
			cr_assert_lt(i, 10000, "never: " #condition);                              \
			step(&fake);                                                               \
		}                                                                                  \
	} while (0)

Test(haproxy, servers_are_added_compared_and_removed)
{
	struct fake fake = { .listener = -1 };
	open_fake(&fake, HEAD);
	struct haproxy *haproxy = haproxy_create(fake.loop, address.sun_path, "web", on_done, NULL);
	want(haproxy, true);
	STEP_UNTIL(ends == 1);
	cr_assert_eq(last.code, 0, "%s", last.msg);
	cr_assert_eq(last_changes, 1);
	cr_assert_str_eq(fake.commands, C1_ADD);
	cr_assert_null(haproxy_doubled(haproxy));
	want(haproxy, true);
	STEP_UNTIL(ends == 2);
	cr_assert_eq(last_changes, 0);
	strcpy(fake.state, HEAD); /* a reload */
	fake.commands[0] = '\0';
	STEP_UNTIL(fake.commands[0] && strstr(fake.state, "berth:c1"));
	cr_assert_str_eq(fake.commands, C1_ADD);
	strcpy(fake.state, HEAD LINE("c1", "10.0.0.1", "0", "80") C1_LINE);
	STEP_UNTIL(ends == 3);
	cr_assert_str_eq(haproxy_doubled(haproxy), "c1");
	strcpy(fake.state, HEAD C1_LINE);
	STEP_UNTIL(ends == 4);
	cr_assert_null(haproxy_doubled(haproxy));
	fake.commands[0] = '\0';
	strcpy(fake.state, HEAD C1_GONE);
	want(haproxy, false);
	STEP_UNTIL(ends == 5);
	cr_assert_str_eq(fake.commands, "del server web/berth:c1\n");
	cr_assert_eq(last_changes, 0);
	close_fake(&fake, haproxy);
}

Test(haproxy, a_wish_during_the_comparison_or_a_change_is_the_one_that_counts)
{
	struct fake fake = { .listener = -1 };
	open_fake(&fake, HEAD);
	struct haproxy *haproxy = haproxy_create(fake.loop, address.sun_path, "web", on_done, NULL);
	want(haproxy, true);
	want(haproxy, false);
	STEP_UNTIL(ends == 1);
	cr_assert_eq(fake.questions, 2, "the second wish has a comparison of its own");
	cr_assert_str_eq(fake.commands, "");
	want(haproxy, true);
	STEP_UNTIL(fake.commands[0]);
	want(haproxy, false);
	STEP_UNTIL(ends == 2);
	cr_assert_eq(last.code, 0, "%s", last.msg);
	cr_assert_str_eq(fake.commands,
		C1_ADD "set server web/berth:c1 state maint\ndel server web/berth:c1\n");
	cr_assert_str_eq(fake.state, HEAD);
	cr_assert_eq(last_changes, 2, "both are in the count");
	close_fake(&fake, haproxy);
}

/* Nothing that stays is worth a word; a reload of HAProxy is seen within a second or so. */
Test(haproxy, at_rest_the_servers_are_compared_in_silence)
{
	struct fake fake = { .listener = -1 };
	open_fake(&fake, HEAD C1_LINE);
	struct haproxy *haproxy = haproxy_create(fake.loop, address.sun_path, "web", on_done, NULL);
	pass(&fake, 5000);
	cr_assert_eq(fake.questions, 0, "HAProxy is left alone before the first wish");
	want(haproxy, true);
	STEP_UNTIL(ends == 1);
	fake.questions = 0;
	pass(&fake, 20000);
	cr_assert_geq(fake.questions, 10);
	cr_assert_leq(fake.questions, 20);
	cr_assert_eq(ends, 1);
	cr_assert_str_eq(fake.commands, "");
	close_fake(&fake, haproxy);
}

Test(haproxy, a_refusal_is_the_reason)
{
	struct fake fake = { .refusal = "No such \001algorithm.\n\n" };
	open_fake(&fake, HEAD);
	struct haproxy *haproxy = haproxy_create(fake.loop, address.sun_path, "web", on_done, NULL);
	want(haproxy, true);
	STEP_UNTIL(ends == 1);
	cr_assert_eq(last.code, BERTH_FAILED);
	cr_assert_not_null(strstr(last.msg, "No such \\x01algorithm."), "%s", last.msg);
	cr_assert_str_eq(fake.commands, C1_ADD C1_ADD);
	fake.refusal = "\n"; /* without effect */
	STEP_UNTIL(ends == 2);
	cr_assert_not_null(strstr(last.msg, "a command has no effect"), "%s", last.msg);
	fake.refusal = NULL;
	STEP_UNTIL(ends == 3);
	cr_assert_eq(last.code, 0);
	close_fake(&fake, haproxy);
}

Test(haproxy, other_answers_and_none_are_failures_that_are_told_once)
{
	struct fake fake = { .listener = -1 };
	open_fake(&fake, "Can't find backend.\n\n");
	struct haproxy *haproxy = haproxy_create(fake.loop, address.sun_path, "web", on_done, NULL);
	want(haproxy, true);
	STEP_UNTIL(ends == 1);
	cr_assert_not_null(strstr(last.msg, "Can't find backend."), "%s", last.msg);
	cr_assert_not_null(strstr(last.msg, address.sun_path));
	want(haproxy, true); /* each wish has an answer */
	STEP_UNTIL(ends == 2);
	fake.questions = 0;
	pass(&fake, 5000);
	cr_assert_geq(fake.questions, 2);
	cr_assert_eq(ends, 2, "the same failure again is no news");
	strcpy(fake.state, "Permission denied\n\n");
	STEP_UNTIL(ends == 3);
	cr_assert_not_null(strstr(last.msg, "Permission denied"), "%s", last.msg);
	fake.silent = true;
	STEP_UNTIL(ends == 4);
	cr_assert_not_null(strstr(last.msg, "no answer"), "%s", last.msg);
	fake.silent = false;
	fake.endless = true;
	STEP_UNTIL(ends == 5);
	cr_assert_not_null(strstr(last.msg, "an answer of more than 4 MiB"), "%s", last.msg);
	fake.endless = false;
	strcpy(fake.state, HEAD C1_LINE);
	STEP_UNTIL(ends == 6);
	cr_assert_eq(last.code, 0);
	pass(&fake, 5000);
	cr_assert_eq(ends, 6);
	haproxy_destroy(NULL);
	close_fake(&fake, haproxy);
}
