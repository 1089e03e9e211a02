#include "agent/output/haproxy.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/run_until.h"
#include "tests/support/scratch.h"

#define HEAD "1\n# be_id be_name srv_id srv_name\n"
#define LINE(name, address, admin, port)                                                           \
	"3 web 1 " name " " address " 2 " admin " 1 1 12 6 3 4 6 0 0 0 - " port " - 0 0 - - 0\n"
#define C1_LINE LINE("berth:c1", "10.0.0.1", "0", "80")
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

Test(haproxy, a_connection_that_the_kernel_does_not_watch_fails_at_once)
{
	char folder[SCRATCH_PATH];
	scratch_folder(folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/h", folder);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 1), 0);

	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct haproxy *haproxy = haproxy_create(loop, address.sun_path, "web", on_done, NULL);
	const struct render_picture nobody = { .from = "/a" };
	const struct render_filter any = { 0 };
	struct render_result result;
	haproxy_want(haproxy, &nobody, &any, &result);
	refusing = true;
	for (int i = 0; i < 3; i++) {
		ev_run(loop, EVRUN_NOWAIT); /* libev itself does not wake for a refusal */
	}
	cr_assert_eq(ends, 1);
	cr_assert_not(refusing);
	cr_assert_not_null(
		strstr(last.msg, "the kernel refuses to watch the connection"), "%s", last.msg);
	haproxy_destroy(haproxy);
	ev_loop_destroy(loop);
	close(listener);
	unlink(address.sun_path);
	rmdir(folder);
}

/* ---- a HAProxy that answers in the same loop ---- */

struct fake {
	struct ev_loop *loop;
	int listener;
	ev_io accepting;
	ev_io reading;
	char state[2000];    /* its servers */
	char commands[2000]; /* that changed something */
	const char *refusal; /* of each change */
	bool silent;
};

static void on_command(struct ev_loop *loop, ev_io *io, int events)
{
	(void)events;
	struct fake *fake = io->data;
	char line[500];
	ssize_t len = recv(io->fd, line, sizeof(line) - 1, MSG_DONTWAIT);
	if (len <= 0 || fake->silent) {
		return;
	}
	line[len] = '\0';
	if (strcmp(line, "show servers state web\n") == 0) {
		cr_assert_gt(send(io->fd, fake->state, strlen(fake->state), MSG_NOSIGNAL), 0);
	} else {
		strcat(fake->commands, line);
		const char *answer = fake->refusal ? fake->refusal : "\n";
		cr_assert_gt(send(io->fd, answer, strlen(answer), MSG_NOSIGNAL), 0);
		if (strncmp(line, "add server web/berth:c1 10.0.0.1:80 ", 36) == 0 &&
			!fake->refusal) {
			strcat(fake->state, C1_LINE);
		}
	}
	ev_io_stop(loop, io);
	close(io->fd);
}

static void on_connection(struct ev_loop *loop, ev_io *io, int events)
{
	(void)events;
	struct fake *fake = io->data;
	ev_io_stop(loop, &fake->reading);
	ev_io_set(&fake->reading, accept4(io->fd, NULL, NULL, SOCK_CLOEXEC), EV_READ);
	ev_io_start(loop, &fake->reading);
}

static void open_fake(struct fake *fake, const char *state)
{
	char folder[SCRATCH_PATH];
	scratch_folder(folder);
	snprintf(address.sun_path, sizeof(address.sun_path), "%.90s/h", folder);
	fake->loop = ev_loop_new(EVFLAG_AUTO);
	fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fake->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fake->listener, 5), 0);
	ev_io_init(&fake->accepting, on_connection, fake->listener, EV_READ);
	ev_init(&fake->reading, on_command);
	fake->accepting.data = fake->reading.data = fake;
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
	const struct render_member member = { "/a/c1", record };
	const struct render_picture picture = { "/a", &member, with_server };
	haproxy_want(haproxy, &picture, &(struct render_filter){ NULL }, &result);
	cr_assert_eq(result.left_out, with_server);
	record_free(record);
}

Test(haproxy, servers_are_added_compared_and_removed)
{
	struct fake fake = { .listener = -1 };
	open_fake(&fake, HEAD);
	struct haproxy *haproxy = haproxy_create(fake.loop, address.sun_path, "web", on_done, NULL);
	want(haproxy, true);
	RUN_UNTIL(fake.loop, ends == 1);
	cr_assert_eq(last.code, 0, "%s", last.msg);
	cr_assert_eq(last_changes, 1);
	cr_assert_str_eq(fake.commands, C1_ADD);
	cr_assert_null(haproxy_doubled(haproxy));
	want(haproxy, true);
	RUN_UNTIL(fake.loop, ends == 2);
	cr_assert_eq(last_changes, 0);
	strcpy(fake.state, HEAD); /* a reload */
	fake.commands[0] = '\0';
	RUN_UNTIL(fake.loop, fake.commands[0] && strstr(fake.state, "berth:c1"));
	cr_assert_str_eq(fake.commands, C1_ADD);
	strcpy(fake.state, HEAD LINE("c1", "10.0.0.1", "0", "80") C1_LINE);
	RUN_UNTIL(fake.loop, ends == 3);
	cr_assert_str_eq(haproxy_doubled(haproxy), "c1");
	strcpy(fake.state, HEAD C1_LINE);
	RUN_UNTIL(fake.loop, ends == 4);
	cr_assert_null(haproxy_doubled(haproxy));
	fake.commands[0] = '\0';
	strcpy(fake.state, HEAD LINE("berth:c1", "10.0.0.1", "1", "80"));
	want(haproxy, false);
	RUN_UNTIL(fake.loop, ends == 5);
	cr_assert_str_eq(fake.commands, "del server web/berth:c1\n");
	cr_assert_eq(last_changes, 0);
	close_fake(&fake, haproxy);
}

Test(haproxy, a_refusal_is_the_reason)
{
	struct fake fake = { .refusal = "No such \001algorithm.\n\n" };
	open_fake(&fake, HEAD);
	struct haproxy *haproxy = haproxy_create(fake.loop, address.sun_path, "web", on_done, NULL);
	want(haproxy, true);
	RUN_UNTIL(fake.loop, ends == 1);
	cr_assert_eq(last.code, BERTH_FAILED);
	cr_assert_not_null(strstr(last.msg, "No such \\x01algorithm."), "%s", last.msg);
	cr_assert_str_eq(fake.commands, C1_ADD C1_ADD);
	fake.refusal = "\n"; /* without effect */
	RUN_UNTIL(fake.loop, ends == 2);
	cr_assert_not_null(strstr(last.msg, "a command has no effect"), "%s", last.msg);
	fake.refusal = NULL;
	RUN_UNTIL(fake.loop, ends == 3);
	cr_assert_eq(last.code, 0);
	close_fake(&fake, haproxy);
}

Test(haproxy, other_answers_and_none_are_failures_that_are_told_once)
{
	struct fake fake = { .listener = -1 };
	open_fake(&fake, "Can't find backend.\n\n");
	struct haproxy *haproxy = haproxy_create(fake.loop, address.sun_path, "web", on_done, NULL);
	want(haproxy, true);
	RUN_UNTIL(fake.loop, ends == 1);
	cr_assert_not_null(strstr(last.msg, "Can't find backend."), "%s", last.msg);
	cr_assert_not_null(strstr(last.msg, address.sun_path));
	want(haproxy, true); /* each wish has an answer */
	RUN_UNTIL(fake.loop, ends == 2);
	fake.silent = true;
	RUN_UNTIL(fake.loop, ends == 3);
	cr_assert_not_null(strstr(last.msg, "no answer"), "%s", last.msg);
	fake.silent = false;
	strcpy(fake.state, HEAD C1_LINE);
	RUN_UNTIL(fake.loop, ends == 4);
	cr_assert_eq(last.code, 0);
	haproxy_destroy(NULL);
	close_fake(&fake, haproxy);
}
