/* The socket of a container. */
#include "agent/bridge/socket.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/agent/bridge/bridge_stage.h"

struct stage {
	struct bridge_stage common;
	struct bridge_listener listener;
	int directory;
	struct err err;
};

static struct stage *begin(struct stage *stage)
{
	stage_open(&stage->common, &(struct registry_options){ 0 });
	cr_assert_eq(mkdir(stage_file(&stage->common, "web-1"), 0755), 0);
	stage->directory = open(stage_file(&stage->common, "web-1"), O_RDONLY | O_CLOEXEC);
	return stage;
}

static void end(struct stage *stage)
{
	bridge_listener_finish(&stage->listener);
	close(stage->directory);
	stage_close(&stage->common);
}

#define SOCKET_TEST(name)                                                                          \
	STAGED_TEST(bridge_socket, name, struct stage *, stage, begin(&(struct stage){ 0 }), end)

static int renew(struct stage *stage, struct bridge_socket *inherited, size_t count)
{
	return bridge_listener_renew(&stage->listener, stage->common.http, "web-1",
		stage->directory, inherited, count, &stage->err);
}

/* Whether somebody listens. */
static bool answers(const struct stage *stage)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s",
		stage_file(&stage->common, "web-1/berth.sock"));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool connected = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	ev_run(stage->common.loop, EVRUN_NOWAIT);
	return connected;
}

SOCKET_TEST(it_is_made_once)
{
	struct stat file;
	mode_t before = umask(027);
	cr_expect_eq(renew(stage, NULL, 0), 0, "%s", stage->err.msg);
	cr_expect_eq(umask(before), 027, "the mask is the process's again");
	cr_assert_eq(stat(stage_file(&stage->common, "web-1/berth.sock"), &file), 0);
	cr_expect(S_ISSOCK(file.st_mode));
	cr_expect_eq(file.st_mode & 0777, 0666);
	cr_expect_eq(stage->listener.place.inode, file.st_ino);
	cr_expect_eq(stage->listener.place.device, file.st_dev);
	cr_expect(answers(stage));
	const struct http_container *first = stage->listener.http;
	cr_expect_eq(renew(stage, NULL, 0), 0);
	cr_expect_eq(stage->listener.http, first);
	bridge_listener_finish(&stage->listener);
	cr_expect_null(stage->listener.http);
	cr_expect_not(answers(stage));
}

SOCKET_TEST(it_is_made_again_when_its_file_was_removed_or_replaced)
{
	cr_expect_eq(renew(stage, NULL, 0), 0);
	cr_assert_eq(unlink(stage_file(&stage->common, "web-1/berth.sock")), 0);
	cr_expect_not(answers(stage));
	cr_expect_eq(renew(stage, NULL, 0), 0);
	cr_expect(answers(stage));
	/* A stale socket is a leftover. */
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s",
		stage_file(&stage->common, "web-1/other"));
	int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(stale, (const struct sockaddr *)&address, sizeof(address)), 0);
	char other[SCRATCH_PATH + 32];
	snprintf(other, sizeof(other), "%s", stage_file(&stage->common, "web-1/other"));
	cr_assert_eq(rename(other, stage_file(&stage->common, "web-1/berth.sock")), 0);
	close(stale);
	cr_expect_eq(renew(stage, NULL, 0), 0);
	cr_expect(answers(stage));
}

SOCKET_TEST(a_file_of_another_kind_is_left_alone)
{
	stage_put(&stage->common, "web-1/berth.sock", "mine", 4);
	cr_expect_eq(renew(stage, NULL, 0), BERTH_FAILED);
	cr_expect_str_eq(stage->err.msg, "berth.sock exists and is not a socket");
	cr_expect_null(stage->listener.http);
	cr_assert_eq(unlink(stage_file(&stage->common, "web-1/berth.sock")), 0);
	err_clear(&stage->err);
	cr_expect_eq(renew(stage, NULL, 0), 0);
	cr_expect(answers(stage));
}

SOCKET_TEST(a_directory_that_is_gone_has_no_socket)
{
	stage_remove(&stage->common, "web-1");
	cr_expect_eq(renew(stage, NULL, 0), BERTH_FAILED);
	cr_expect(strstr(stage->err.msg, "cannot make berth.sock: "), "%s", stage->err.msg);
	cr_expect(strstr(stage->err.msg, strerror(ENOENT)), "%s", stage->err.msg);
	cr_expect_null(stage->listener.http);
	struct bridge_socket passed = { .fd = 7 };
	cr_expect_not(bridge_listener_pass(&stage->listener, "web-1", &passed));
	cr_expect_eq(passed.fd, 7);
}

SOCKET_TEST(without_a_descriptor_there_is_no_socket)
{
	struct rlimit limit;
	cr_expect_eq(renew(stage, NULL, 0), 0);
	bridge_listener_finish(&stage->listener);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	const struct rlimit none = { 0, limit.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	int code = renew(stage, NULL, 0);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	cr_expect_eq(code, BERTH_FAILED);
	cr_expect(strstr(stage->err.msg, "socket: "), "%s", stage->err.msg);
	cr_expect(strstr(stage->err.msg, strerror(EMFILE)), "%s", stage->err.msg);
	cr_expect_null(stage->listener.http);
}

/* A predecessor passes its socket; its own listener ends, as with its process. */
static struct bridge_socket pass(struct stage *stage)
{
	struct bridge_socket passed = { .fd = -1 };
	cr_assert_eq(renew(stage, NULL, 0), 0);
	cr_assert(bridge_listener_pass(&stage->listener, "web-1", &passed));
	cr_expect_gt(passed.fd, STDERR_FILENO);
	cr_expect(fcntl(passed.fd, F_GETFD) & FD_CLOEXEC);
	cr_expect_str_eq(passed.container, "web-1");
	cr_expect_eq(passed.place.inode, stage->listener.place.inode);
	cr_expect_eq(passed.place.device, stage->listener.place.device);
	bridge_listener_finish(&stage->listener);
	return passed;
}

SOCKET_TEST(a_predecessors_socket_is_taken)
{
	struct bridge_socket passed = pass(stage);
	struct bridge_socket both[] = { { .container = "web-2", .fd = 0 }, passed };
	both[0].place = passed.place;
	cr_expect(answers(stage), "it listens still");
	cr_expect_eq(renew(stage, both, 2), 0);
	cr_expect_eq(both[1].fd, -1);
	cr_expect_eq(both[0].fd, 0);
	cr_expect_eq(http_container_fd(stage->listener.http), passed.fd);
	cr_expect_eq(stage->listener.place.inode, passed.place.inode);
	cr_expect(answers(stage));
}

/* Standard error may be closed: a message there must not reach a client. */
SOCKET_TEST(a_socket_that_is_passed_is_no_standard_stream)
{
	struct bridge_socket passed = { .fd = -1 };
	cr_assert_eq(renew(stage, NULL, 0), 0);
	int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	close(STDERR_FILENO);
	bool done = bridge_listener_pass(&stage->listener, "web-1", &passed);
	cr_assert_eq(dup2(kept, STDERR_FILENO), STDERR_FILENO);
	close(kept);
	cr_assert(done);
	cr_expect_gt(passed.fd, STDERR_FILENO);
	if (passed.fd > STDERR_FILENO) {
		close(passed.fd);
	}
}

SOCKET_TEST(a_predecessors_socket_of_another_file_is_not_taken)
{
	struct bridge_socket passed = pass(stage);
	struct bridge_socket others[] = { passed, passed, passed };
	others[0].place.inode++;
	others[1].place.device++;
	others[2].fd = -1;
	cr_expect_eq(renew(stage, others, 3), 0);
	cr_expect_eq(others[0].fd, passed.fd);
	cr_expect_eq(others[1].fd, passed.fd);
	cr_expect_neq(http_container_fd(stage->listener.http), passed.fd);
	cr_expect_neq(stage->listener.place.inode, 0);
	close(passed.fd);
}
