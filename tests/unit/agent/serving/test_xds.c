/* The child that serves gRPC: its socket, and what the agent shows of it. */

#include <signal.h>

#include "tests/unit/agent/serving/serving_stage.h"

#define LISTEN "[xds]\nlisten = @/x\n"

static void install(const struct serving *serving, const char *script)
{
	char text[1024];
	snprintf(text, sizeof(text), "#!/bin/sh\ncd %s\n%s\n", serving->folder, script);
	put_in(serving, "berth-xds", text);
	cr_assert_eq(chmod(in(serving, "berth-xds"), 0755), 0);
}

static bool is_there(const struct serving *serving, const char *name)
{
	return access(in(serving, name), F_OK) == 0;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static pid_t child_of(const struct serving *serving)
{
	json_t *json = agent_xds_json(&serving->agent);
	pid_t pid = (pid_t)json_integer_value(json_object_get(json, "pid"));
	json_decref(json);
	cr_assert_gt(pid, 0);
	return pid;
}

#define XDS(name, text) PREPARED(serving_xds, name, text)

XDS(the_socket_has_the_mode_of_the_agents, "socket_mode = 0640\n" LISTEN)
{
	struct stat info;
	install(serving, "exec sleep 60");
	serve(serving);
	cr_assert_eq(stat(in(serving, "x"), &info), 0);
	cr_expect_eq(info.st_mode & 0777, 0640);
}

XDS(an_end_of_the_child_is_trouble, LISTEN)
{
	install(serving, "exit 3");
	serve(serving);
	RUN_UNTIL(serving->agent.loop, has(history_of(serving, "xds"), "restarting"));
	cr_expect_neq(logged(serving, "warn"), 0);
}

XDS(an_address_that_cannot_be_had_is_named, "[xds]\nlisten = @/state\n")
{
	struct err err = ERR_INIT;
	base_open(serving);
	cr_expect_eq(try_serve(serving, &err), BERTH_FAILED);
	cr_expect(strncmp(err.msg, "[xds] listen: ", 14) == 0, "%s", err.msg);
	cr_expect_null(serving->agent.xds);
}

XDS(a_socket_over_tcp_is_opened, "[xds]\nlisten = 127.0.0.1:0\n")
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	install(serving, "exec sleep 60");
	serve(serving);
	cr_assert_eq(getsockname(serving->agent.xds_fd, (void *)&address, &len), 0);
	cr_expect_eq(address.sin_family, AF_INET);
	cr_expect_eq(serving->agent.xds_place.inode, 0);
}

/* ---- an upgrade ---- */

XDS(a_socket_that_is_passed_on_stays, LISTEN)
{
	struct upgrade passed = { .xds_fd = -1 };
	install(serving, "exec sleep 60");
	serve(serving);
	int fd = serving->agent.xds_fd;
	pid_t pid = child_of(serving);
	agent_xds_pass(&serving->agent, &passed);
	RUN_UNTIL(serving->agent.loop, kill(pid, 0) != 0);
	cr_expect_eq(passed.xds_fd, fd);
	cr_expect_null(serving->agent.xds);
	agent_xds_close(&serving->agent);
	cr_expect(is_open(fd));
	cr_expect(is_there(serving, "x"));
	close(fd);
}

XDS(a_socket_that_is_configured_no_more_is_closed, "")
{
	int fd = listening_socket();
	serving->received.xds_fd = fd;
	serve(serving);
	agent_xds_close(&serving->agent);
	cr_expect_not(is_open(fd));
}
