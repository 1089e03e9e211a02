#include "tests/support/zookeeper.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "lib/base/clock.h"

enum { START_TRIES = 5, START_DEADLINE_MS = 120000, POLL_MS = 20, PROBE_ARGUMENTS = 16 };

/* All of what Python's tests use: the archive of classes belongs to these. */
#define JARS "/usr/share/java/"
#define CLASS_PATH                                                                                 \
	JARS "zookeeper.jar:" JARS "slf4j-simple.jar:" JARS "netty-codec.jar:" JARS                \
	     "netty-resolver.jar"
#define MAIN_CLASS "org.apache.zookeeper.server.ZooKeeperServerMain"

struct zookeeper_server {
	char directory[SCRATCH_PATH];
	char hosts[96]; /* with the root, as ZooKeeper's clients take it */
	char url[112];
	int port;
	int port_fd; /* -1: no port is taken yet */
	pid_t pid;   /* 0: not running */
};

static void in_directory(
	const struct zookeeper_server *server, char *out, size_t size, const char *name)
{
	snprintf(out, size, "%s/%s", server->directory, name);
}

static void print_log(const struct zookeeper_server *server)
{
	char path[600];
	char line[1024];
	in_directory(server, path, sizeof(path), "log");
	FILE *log = fopen(path, "re");
	while (log && fgets(line, sizeof(line), log)) {
		fputs(line, stderr);
	}
	if (log) {
		fclose(log);
	}
}

static void fail(const struct zookeeper_server *server, const char *what)
{
	if (server) {
		print_log(server);
	}
	fprintf(stderr, "ZooKeeper for the tests: %s\n", what);
	abort();
}

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/*
 * Keeps a port until the end, over restarts too: as long as this socket holds it, the kernel gives
 * it to no process that asks for any port, and to no client that connects from any (which could
 * even connect to itself while the server is down). The server can still bind it, because both set
 * SO_REUSEADDR and this socket does not listen.
 */
static void take_port(struct zookeeper_server *server)
{
	struct sockaddr_in address = loopback(0);
	socklen_t len = sizeof(address);
	int on = 1;
	if (server->port_fd >= 0) {
		close(server->port_fd);
	}
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
		fail(NULL, "no free loopback port");
	}
	server->port_fd = fd;
	server->port = ntohs(address.sin_port);
}

static void write_config(const struct zookeeper_server *server)
{
	char path[600];
	in_directory(server, path, sizeof(path), "zoo.cfg");
	FILE *config = fopen(path, "we");
	if (!config) {
		fail(server, "cannot write its configuration");
	}
	fprintf(config,
		"tickTime=500\n"
		"maxSessionTimeout=600000\n"
		"dataDir=data\n"
		"clientPort=%d\n"
		"clientPortAddress=127.0.0.1\n"
		"admin.enableServer=false\n"
		"4lw.commands.whitelist=*\n"
		"maxClientCnxns=0\n",
		server->port);
	fclose(config);
}

/* In the child, between fork and exec. */
static void exec_server(const struct zookeeper_server *server, pid_t parent)
{
	char path[600];
	in_directory(server, path, sizeof(path), "log");
	int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	int null = open("/dev/null", O_RDONLY);
	dup2(null, 0);
	dup2(log, 1);
	dup2(log, 2);
	close_range(3, ~0U, 0);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) {
		_exit(1);
	}
	/* The server reads its paths as Latin-1: it gets none of ours. */
	if (chdir(server->directory) != 0) {
		_exit(1);
	}
	/* The page cache survives kill -9 of the server, so it need not wait for the disk. */
	char archive[600] = "-Xshare:auto";
	const char *classes = getenv("BERTH_ZOOKEEPER_CLASSES");
	if (classes) {
		snprintf(archive, sizeof(archive), "-XX:SharedArchiveFile=%s", classes);
	}
	execlp("java", "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", archive,
		"-Dzookeeper.forceSync=no", "-cp", CLASS_PATH, MAIN_CLASS, "zoo.cfg", (char *)NULL);
	_exit(127);
}

static void launch(struct zookeeper_server *server)
{
	write_config(server);
	pid_t parent = getpid();
	server->pid = fork();
	if (server->pid == 0) {
		exec_server(server, parent);
	}
	if (server->pid < 0) {
		fail(server, "cannot fork");
	}
}

/*
 * Asks the server for its configuration, which it gives once it serves clients; true when the
 * folder is ours.
 */
static bool answers(const struct zookeeper_server *server)
{
	struct sockaddr_in address = loopback(server->port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_sec = 2 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	char answer[4096];
	char ours[600];
	size_t len = 0;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		send(fd, "conf", 4, MSG_NOSIGNAL) == 4) {
		ssize_t got;
		while (len < sizeof(answer) - 1 &&
			(got = recv(fd, answer + len, sizeof(answer) - 1 - len, 0)) > 0) {
			len += (size_t)got;
		}
	}
	close(fd);
	answer[len] = '\0';
	/* Only the last names: Java writes the path in its own way. */
	snprintf(ours, sizeof(ours), "%s/data/", strrchr(server->directory, '/'));
	return strstr(answer, ours) != NULL;
}

static bool ended(struct zookeeper_server *server)
{
	if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
		server->pid = 0;
		return true;
	}
	return false;
}

/* False when the process ended instead, for example because another process has the port. */
static bool wait_until_serving(struct zookeeper_server *server)
{
	int64_t deadline = clock_monotonic_ms() + START_DEADLINE_MS;
	while (clock_monotonic_ms() < deadline) {
		if (ended(server)) {
			return false;
		}
		if (answers(server)) {
			return true;
		}
		poll(NULL, 0, POLL_MS);
	}
	fail(server, "no answer in time");
	return false;
}

static struct zookeeper_server *allocate(void)
{
	struct zookeeper_server *server = calloc(1, sizeof(*server));
	if (!server) {
		fail(NULL, "no memory");
	}
	server->port_fd = -1;
	return server;
}

static void name_hosts(struct zookeeper_server *server, const char *hosts)
{
	snprintf(server->hosts, sizeof(server->hosts), "%s", hosts);
	snprintf(server->url, sizeof(server->url), "zookeeper://%s/registry", server->hosts);
}

struct zookeeper_server *zookeeper_server_start(void)
{
	struct zookeeper_server *server = allocate();
	scratch_folder(server->directory);
	for (int i = 0; i < START_TRIES; i++) {
		take_port(server);
		launch(server);
		if (wait_until_serving(server)) {
			char hosts[32];
			snprintf(hosts, sizeof(hosts), "127.0.0.1:%d", server->port);
			name_hosts(server, hosts);
			return server;
		}
	}
	fail(server, "does not start");
	return NULL;
}

struct zookeeper_server *zookeeper_server_share(void)
{
	const char *shared = getenv("BERTH_ZOOKEEPER");
	if (!shared) {
		return zookeeper_server_start();
	}
	struct zookeeper_server *server = allocate();
	char root[48];
	char hosts[96];
	/* The number of a process may come again, but the clock has gone on. */
	snprintf(root, sizeof(root), "/%d-%lld", (int)getpid(), (long long)clock_monotonic_ms());
	name_hosts(server, shared);
	if (zookeeper_probe(server, NULL, 0, "create", root, "", NULL) != 0) {
		fail(NULL, "the server of the run does not make a root");
	}
	snprintf(hosts, sizeof(hosts), "%s%s", shared, root);
	name_hosts(server, hosts);
	return server;
}

const char *zookeeper_server_url(const struct zookeeper_server *server)
{
	return server->url;
}

const char *zookeeper_server_hosts(const struct zookeeper_server *server)
{
	return server->hosts;
}

/* The runner's server belongs to other programs too. */
static bool is_shared(const struct zookeeper_server *server)
{
	return !server->directory[0];
}

void zookeeper_server_pause(struct zookeeper_server *server)
{
	int status;
	if (is_shared(server)) {
		fail(NULL, "a test pauses a server that it shares");
	}
	kill(server->pid, SIGSTOP);
	if (waitpid(server->pid, &status, WUNTRACED) != server->pid || !WIFSTOPPED(status)) {
		fail(server, "does not stop");
	}
}

void zookeeper_server_resume(struct zookeeper_server *server)
{
	kill(server->pid, SIGCONT);
}

void zookeeper_server_kill(struct zookeeper_server *server)
{
	if (is_shared(server)) {
		fail(NULL, "a test kills a server that it shares");
	}
	if (server->pid == 0) {
		return;
	}
	kill(server->pid, SIGKILL);
	while (waitpid(server->pid, NULL, 0) < 0 && errno == EINTR) {
	}
	server->pid = 0;
}

/*
 * A transaction log without its 16-byte header: the server was killed while it began one, and
 * refuses to start over it.
 */
static int drop_begun_log(const char *path, const struct stat *status, int type, struct FTW *where)
{
	bool is_log = type == FTW_F && strncmp(path + where->base, "log.", 4) == 0;
	return is_log && status->st_size < 16 ? remove(path) : 0;
}

void zookeeper_server_restart(struct zookeeper_server *server)
{
	char data[600];
	zookeeper_server_kill(server);
	in_directory(server, data, sizeof(data), "data");
	nftw(data, drop_begun_log, 16, FTW_PHYS);
	launch(server);
	if (!wait_until_serving(server)) {
		fail(server, "does not start again");
	}
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
	(void)status;
	(void)type;
	(void)where;
	return remove(path);
}

void zookeeper_server_stop(struct zookeeper_server *server)
{
	if (server && !is_shared(server)) {
		zookeeper_server_kill(server);
		close(server->port_fd);
		nftw(server->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	}
	free(server);
}

static void exec_probe(int out, char *const arguments[])
{
	char program[512];
	const char *build = getenv("BERTH_BUILD_DIR");
	snprintf(program, sizeof(program), "%s/tests/support/zk-probe",
		build && *build ? build : ".");
	dup2(out, 1);
	close_range(3, ~0U, 0);
	execv(program, arguments);
	fprintf(stderr, "cannot run %s: %s\n", program, strerror(errno));
	_exit(127);
}

static int run_probe(
	const struct zookeeper_server *server, char *out, size_t size, char **arguments)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		fail(server, "no pipe");
	}
	pid_t pid = fork();
	if (pid == 0) {
		exec_probe(ends[1], arguments);
	}
	close(ends[1]);
	size_t len = 0;
	char rest[256];
	for (;;) {
		bool room = len + 1 < size;
		ssize_t got = read(
			ends[0], room ? out + len : rest, room ? size - 1 - len : sizeof(rest));
		if (got <= 0) {
			break;
		}
		len += room ? (size_t)got : 0;
	}
	close(ends[0]);
	if (size > 0) {
		len -= len > 0 && out[len - 1] == '\n';
		out[len] = '\0';
	}
	int status;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
		fail(server, "zk-probe died");
	}
	return WEXITSTATUS(status);
}

/* Puts "zk-probe" and the arguments before the verb; returns their number. */
static int begin_arguments(
	const struct zookeeper_server *server, const char *credential, char **arguments)
{
	int count = 0;
	arguments[count++] = "zk-probe";
	if (credential) {
		arguments[count++] = "-a";
		arguments[count++] = (char *)credential;
	}
	arguments[count++] = (char *)server->hosts;
	return count;
}

static int probe(const struct zookeeper_server *server, const char *credential, char *out,
	size_t size, const char *verb, va_list list)
{
	char *arguments[PROBE_ARGUMENTS + 4] = { 0 };
	int count = begin_arguments(server, credential, arguments);
	arguments[count++] = (char *)verb;
	while (count < PROBE_ARGUMENTS + 3 && (arguments[count] = va_arg(list, char *))) {
		count++;
	}
	return run_probe(server, out, size, arguments);
}

int zookeeper_probe(
	const struct zookeeper_server *server, char *out, size_t size, const char *verb, ...)
{
	va_list list;
	va_start(list, verb);
	int status = probe(server, NULL, out, size, verb, list);
	va_end(list);
	return status;
}

int zookeeper_probe_as(const struct zookeeper_server *server, const char *credential, char *out,
	size_t size, const char *verb, ...)
{
	va_list list;
	va_start(list, verb);
	int status = probe(server, credential, out, size, verb, list);
	va_end(list);
	return status;
}
