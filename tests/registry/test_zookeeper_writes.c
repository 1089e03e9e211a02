/*
 * Writes on ZooKeeper: their truth when a connection breaks, who may make them and where, and
 * servers that are wrong, or none.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/registry/zookeeper_stage.h"
#include "tests/support/amount.h"
#include "tests/support/scratch.h"

TestSuite(zookeeper_writes, .init = start, .fini = stop, .timeout = 500);
TestSuite(zookeeper_writes_server, .init = start_own, .fini = stop, .timeout = 500);

/* ---- writes whose connection breaks ---- */

static void expect_truth(struct registry *registry, const char *what, int round, const char *data)
{
	int code = answer.err.code;
	char message[sizeof(answer.err.msg)];
	snprintf(message, sizeof(message), "%s", answer.err.msg);
	/* The registry may not have noticed the break yet. */
	do {
		client_wait_state(registry, REGISTRY_CONNECTED);
	} while (client_get(registry, PATH, &answer) == BERTH_REGISTRY_UNAVAILABLE);
	bool stands = data ? answer.data && strcmp(answer.data, data) == 0
			   : answer.err.code == BERTH_PATH_NOT_FOUND;
	if (code != BERTH_TIMEOUT) {
		cr_assert_eq(stands, code == 0, "round %d, %s: reported %s (%s), found %s", round,
			what, berth_error_name(code), message,
			answer.data ? answer.data : answer_name(&answer));
	}
}

enum write { CREATE, SET, REPLACE, DELETE, WRITES };

static void begin(struct registry *registry, enum write write, const char *data,
	const struct registry_stat *expected)
{
	struct registry_bind bind = {
		.data = data, .len = strlen(data), .ephemeral = write != REPLACE, .parents = true
	};
	bind.mode = write == CREATE ? REGISTRY_BIND_CREATE : REGISTRY_BIND_REPLACE;
	bind.expected = *expected;
	if (write == DELETE) {
		registry_delete(
			registry, PATH, REGISTRY_DELETE_NODE, expected, NULL, answer_take, &answer);
	} else {
		registry_bind(registry, PATH, &bind, answer_take, &answer);
	}
}

static void write_and_break(int rounds, void (*break_it)(struct registry *registry), unsigned seed)
{
	static const char *const names[] = { "create", "set", "replace", "delete" };
	struct registry *registry = open_with(RESTARTS_MS, NULL);
	char data[128];
	srandom(seed);
	for (int round = 0; round < rounds; round++) {
		enum write write = (enum write)(round % WRITES);
		do {
			client_wait_state(registry, REGISTRY_CONNECTED);
		} while (client_stat(registry, PATH, &answer) == BERTH_REGISTRY_UNAVAILABLE);
		struct registry_stat expected = answer.stat;
		if ((answer.err.code == 0) != (write != CREATE)) {
			continue; /* the write before did not happen */
		}
		char description[32];
		snprintf(description, sizeof(description), "%s %d", names[write], round);
		snprintf(data, sizeof(data), RECORD, description);
		answer_clear(&answer);
		begin(registry, write, data, &expected);
		pause_us(random() % 3000);
		break_it(registry);
		client_wait_calls(&answer, 1);
		expect_truth(registry, names[write], round, write == DELETE ? NULL : data);
	}
	client_close(registry);
}

static void kill_worker(struct registry *registry)
{
	(void)registry;
	kill_the_worker();
}

static void restart_server(struct registry *registry)
{
	(void)registry;
	zookeeper_server_restart(server);
}

Test(zookeeper_writes, a_write_tells_the_truth_when_the_worker_is_killed_meanwhile)
{
	write_and_break(AMOUNT(60), kill_worker, 1);
}

Test(zookeeper_writes_server, a_write_tells_the_truth_when_the_server_is_killed_meanwhile)
{
	write_and_break(AMOUNT(20), restart_server, 2);
}

/* ---- replacing ---- */

static FILE *watch_independently(pid_t *ret_pid)
{
	int ends[2];
	const char *hosts = zookeeper_server_hosts(server);
	char program[512];
	snprintf(program, sizeof(program), "%s/tests/support/zk-probe", getenv("BERTH_BUILD_DIR"));
	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	*ret_pid = fork();
	if (*ret_pid == 0) {
		dup2(ends[1], 1);
		execl(program, "zk-probe", hosts, "watch", NODE, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	return fdopen(ends[0], "r");
}

Test(zookeeper_writes, a_replaced_node_is_never_absent_for_an_independent_watcher)
{
	enum { ROUNDS = 100 };
	struct registry *old = open_connected(NULL);
	struct registry *young = open_connected(NULL);
	pid_t watcher;
	char line[128];
	char last[32];
	put(old, "first");
	FILE *seen_lines = watch_independently(&watcher);
	cr_assert_not_null(fgets(line, sizeof(line), seen_lines));
	for (int i = 0; i < ROUNDS; i++) {
		struct registry_stat before = answer.stat;
		put(i % 2 ? old : young, "next");
		cr_assert_neq(answer.stat.node_id, before.node_id);
		cr_assert_neq(answer.stat.version, before.version,
			"a successor is told apart by its version too");
	}
	snprintf(last, sizeof(last), "czxid=0x%llx", (unsigned long long)answer.stat.node_id);
	do {
		cr_assert_not_null(fgets(line, sizeof(line), seen_lines));
		cr_assert_null(strstr(line, "absent"), "%s", line);
	} while (!strstr(line, last));
	kill(watcher, SIGKILL);
	waitpid(watcher, NULL, 0);
	fclose(seen_lines);
	client_close(old);
	client_close(young);
}

/* ---- limits, roots, servers ---- */

Test(zookeeper_writes, data_beyond_the_limit_that_is_no_record_is_none)
{
	struct registry *registry = open_connected(NULL);
	char out[16];
	cr_assert_eq(client_mknode(registry, "/", false, &answer), 0);
	cr_assert_eq(zookeeper_probe(
			     server, out, sizeof(out), "fill", "/registry/large", "131073", NULL),
		0);
	cr_assert_eq(client_get(registry, "/large", &answer), BERTH_NO_RECORD);
	cr_assert_eq(answer.stat.size, 131073, "its stat is known all the same");
	cr_assert_eq(
		zookeeper_probe(server, out, sizeof(out), "fill", "/registry/fits", "131072", NULL),
		0);
	cr_assert_eq(client_get(registry, "/fits", &answer), 0);
	cr_assert_eq(answer.data_len, 131072);
	client_close(registry);
}

Test(zookeeper_writes, a_deep_registry_root_is_made_by_the_first_write_and_not_by_reading)
{
	char url[128];
	snprintf(url, sizeof(url), "zookeeper://%s/a/b/c", zookeeper_server_hosts(server));
	struct registry *registry = open_url(url, SAFE_MS, NULL);
	client_wait_state(registry, REGISTRY_CONNECTED);
	cr_assert_eq(client_get(registry, PATH, &answer), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(client_list(registry, "/", &answer), BERTH_PATH_NOT_FOUND);
	cr_assert_eq(seen("czxid", "/a"), 0);
	put(registry, "deep");
	cr_assert_neq(seen("czxid", "/a/b/c" PATH), 0);
	client_close(registry);
}

Test(zookeeper_writes, a_host_that_does_not_resolve_is_reported_and_others_are_used)
{
	char url[128];
	snprintf(url, sizeof(url), "zookeeper://no-such-host.invalid:2181,%s/registry",
		zookeeper_server_hosts(server));
	struct registry *registry = open_url(url, SAFE_MS, NULL);
	client_wait_state(registry, REGISTRY_CONNECTED);
	client_close(registry);
}

static bool log_names_host(void *context)
{
	return strstr(((struct diary *)context)->log, "no-such-host.invalid") != NULL;
}

Test(zookeeper_writes, a_registry_whose_only_host_does_not_resolve_says_so_and_keeps_trying)
{
	const struct registry_options options = {
		.url = "zookeeper://no-such-host.invalid:2181/registry",
		.request_timeout_ms = 100,
		.on_state = on_state,
		.on_log = on_log,
		.context = &diary
	};
	struct registry *registry = client_open_with(&options);
	cr_assert_eq(client_get(registry, PATH, &answer), BERTH_REGISTRY_UNAVAILABLE);
	client_wait(log_names_host, &diary);
	cr_assert_eq(registry_state(registry), REGISTRY_CONNECTING);
	client_close(registry);
}

/* ---- credentials ---- */

static struct registry *open_as(const char *credential, bool secure)
{
	char file[SCRATCH_PATH];
	int fd = scratch_file(file);
	cr_assert_eq(write(fd, credential, strlen(credential)), (ssize_t)strlen(credential));
	close(fd);
	const struct registry_options options = { .url = zookeeper_server_url(server),
		.auth = "digest",
		.auth_file = file,
		.secure = secure,
		.on_state = on_state,
		.on_log = on_log,
		.context = &diary };
	struct registry *registry = client_open_with(&options);
	unlink(file);
	client_wait_state(registry, REGISTRY_CONNECTED);
	return registry;
}

Test(zookeeper_writes, a_password_decides_who_may_write)
{
	struct registry *right = open_as("joe:secret", true);
	struct registry *wrong = open_as("joe:guess", true);
	struct registry *other = open_as("ann:secret", true);
	char out[512];
	put(right, "mine");
	cr_assert_eq(client_put(wrong, PATH, "x", REGISTRY_BIND_OVERWRITE, true, &answer),
		BERTH_AUTHENTICATION_FAILED, "%s", answer.err.msg);
	cr_assert_eq(client_put(other, PATH, "x", REGISTRY_BIND_OVERWRITE, true, &answer),
		BERTH_NO_PATH_PERMISSIONS, "%s", answer.err.msg);
	cr_assert_eq(client_get(other, PATH, &answer), 0);
	cr_assert_eq(zookeeper_probe(server, out, sizeof(out), "acl", NODE, NULL), 0);
	cr_assert(strstr(out, "r world:anyone") && strstr(out, "rwcda digest:joe:"), "%s", out);
	client_close(right);
	client_close(wrong);
	client_close(other);
}

Test(zookeeper_writes, a_root_that_may_not_be_made_is_an_error_of_the_write)
{
	struct registry *owner = open_as("joe:secret", true);
	char url[128];
	char words[192];
	put(owner, "mine");
	snprintf(url, sizeof(url), "%s/below", zookeeper_server_url(server));
	snprintf(words, sizeof(words), "making the registry's root node %s",
		strchr(strstr(url, "://") + 3, '/'));
	struct registry *stranger = open_url(url, SAFE_MS, NULL);
	cr_assert_eq(client_put(stranger, PATH, "x", REGISTRY_BIND_OVERWRITE, true, &answer),
		BERTH_NO_PATH_PERMISSIONS, "%s", answer.err.msg);
	cr_assert(strstr(answer.err.msg, words), "%s", answer.err.msg);
	client_close(stranger);
	client_close(owner);
}

/* ---- programs that are not servers ---- */

static int fake_server(int *ret_port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(listen(fd, 64), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*ret_port = ntohs(address.sin_port);
	return fd;
}

/*
 * Answers each of `count` connections differently: garbage, half a frame, a giant length, nothing.
 */
static pid_t be_hostile(int fd, int count)
{
	static const char garbage[] =
		"HTTP/1.1 400 Bad Request\r\n\r\nthis is not ZooKeeper at all";
	static const char half[] = { 0, 0, 0, 37, 0, 0, 0, 0, 0 };
	static const char giant[] = { 0x7f, (char)0xff, (char)0xff, (char)0xff, 1, 2, 3, 4 };
	static const char negative[] = { (char)0xff, (char)0xff, (char)0xff, (char)0xff, 0, 0, 0,
		0 };
	pid_t pid = fork();
	for (int i = 0; pid == 0 && i < count; i++) {
		char request[256];
		int client = accept(fd, NULL, NULL);
		(void)!read(client, request, sizeof(request));
		const char *reply = (const char *[]){ garbage, half, giant, negative, "" }[i % 5];
		size_t len = (size_t[]){ sizeof(garbage), sizeof(half), sizeof(giant),
			sizeof(negative), 0 }[i % 5];
		(void)!send(client, reply, len, MSG_NOSIGNAL);
		close(client);
	}
	if (pid == 0) {
		_exit(0);
	}
	return pid;
}

static bool has_ended(void *context)
{
	pid_t *pid = context;
	if (*pid && waitpid(*pid, NULL, WNOHANG) == *pid) {
		*pid = 0;
	}
	return *pid == 0;
}

Test(zookeeper_writes, a_hostile_server_harms_nobody_but_the_worker)
{
	int port;
	char url[64];
	int fd = fake_server(&port);
	pid_t hostile = be_hostile(fd, 10);
	snprintf(url, sizeof(url), "zookeeper://127.0.0.1:%d/registry", port);
	struct registry *registry = open_url(url, SHORT_MS, NULL);
	client_wait(has_ended, &hostile);
	cr_assert_eq(registry_state(registry), REGISTRY_CONNECTING);
	client_close(registry);
	cr_assert_eq(worker_pid(), 0);
	close(fd);
}
