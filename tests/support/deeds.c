#include "tests/support/deeds.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int deed_open_a_file(void)
{
	return open("/etc/passwd", O_RDONLY);
}

int deed_open_for_writing(void)
{
	return open("/tmp/planted", O_WRONLY | O_CREAT, 0600);
}

int deed_execute(void)
{
	static char *const arguments[] = { "true", NULL };
	return execv("/bin/true", arguments);
}

int deed_fork_a_process(void)
{
	return fork();
}

int deed_make_unix_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

int deed_make_udp_socket(void)
{
	return socket(AF_INET, SOCK_DGRAM, 0);
}

int deed_listen_on_tcp(void)
{
	return listen(socket(AF_INET, SOCK_STREAM, 0), 1);
}

int deed_make_code(void)
{
	void *code = mmap(
		NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return code == MAP_FAILED ? -1 : 0;
}

int deed_become_root(void)
{
	return setuid(0);
}

int deed_signal_the_parent(void)
{
	return kill(getppid(), 0);
}

int deed_make_mptcp_socket(void)
{
	return socket(AF_INET, SOCK_STREAM, 262);
}

/* pipe2(O_ASYNC), F_SETOWN and F_SETSIG: the next byte would kill the owner. */
int deed_set_signal_of_a_descriptor(void)
{
	int ends[2];
	return pipe(ends) < 0 ? 0 : fcntl(ends[0], F_SETSIG, SIGKILL);
}

int deed_set_owner_of_a_descriptor(void)
{
	int ends[2];
	return pipe(ends) < 0 ? 0 : fcntl(ends[0], F_SETOWN, getppid());
}

int deed_have_a_descriptor_signal(void)
{
	int ends[2];
	return pipe(ends) < 0 ? 0 : fcntl(ends[0], F_SETFL, O_NONBLOCK | O_ASYNC);
}

int deed_connect_by_sending(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return (int)sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&address, sizeof(address));
}

int deed_outcome(void (*enter)(void), int (*does)(void))
{
	pid_t pid = fork();
	if (pid == 0) {
		enter();
		errno = 0;
		_exit(does() < 0 ? errno : 0);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	cr_assert(WIFEXITED(status), "killed: %d", status);
	return WEXITSTATUS(status);
}
