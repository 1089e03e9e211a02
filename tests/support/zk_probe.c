/*
 * zk-probe: an independent ZooKeeper client for tests. It shares no code with Berth and talks
 * straight to libzookeeper-mt.
 *
 *   zk-probe [-a USER:PASSWORD] HOSTS VERB ARGUMENTS
 *
 *   stat PATH                   czxid=0x… mzxid=0x… version=N ephemeralOwner=0x… numChildren=N
 *   get PATH                    the data
 *   acl PATH                    one entry a line: permissions scheme:id, permissions as in "rwcda"
 *   set PATH DATA               create PATH DATA       delete PATH
 *   fill PATH BYTES             creates a node with that many zero bytes
 *   time-deletes PATH COUNT     creates and deletes it; the milliseconds that each delete took
 *   load -                      creates a node for each line "PATH<tab>DATA" of standard input
 *   read -                      reads a node for each line PATH of standard input, and prints the
 *                               milliseconds that all of them took together
 *   kill-session ID PASSWORD    ends the session: a second client takes it over and closes it
 *   watch PATH                  until killed, a line for each state: TIME absent, or TIME
 *                               present czxid=0x… version=N
 *   watch PATH -                until standard input ends; the last line is the final state
 *
 * TIME is CLOCK_MONOTONIC in ms. Exit status: 0 done, 3 node absent, 1 anything else, 2 usage.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The synchronous calls are declared only with this. */
#define THREADED
#include <zookeeper/zookeeper.h>

#include <pthread.h>

enum { SESSION_TIMEOUT_MS = 60000, CONNECT_SECONDS = 60, LARGEST_DATA = 1024 * 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int session_state;
static unsigned events;

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void)zh;
	(void)path;
	(void)context;
	pthread_mutex_lock(&mutex);
	if (type == ZOO_SESSION_EVENT) {
		session_state = state;
	} else {
		events++;
	}
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static zhandle_t *connect_to(const char *hosts, const clientid_t *session)
{
	zhandle_t *zh = zookeeper_init(hosts, on_event, SESSION_TIMEOUT_MS, session, NULL, 0);
	if (!zh) {
		return NULL;
	}
	struct timespec deadline;
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += CONNECT_SECONDS;
	pthread_mutex_lock(&mutex);
	int timed_out = 0;
	while (!timed_out && session_state != ZOO_CONNECTED_STATE &&
		session_state != ZOO_EXPIRED_SESSION_STATE) {
		timed_out = pthread_cond_timedwait(&changed, &mutex, &deadline);
	}
	bool connected = session_state == ZOO_CONNECTED_STATE;
	pthread_mutex_unlock(&mutex);
	if (timed_out) {
		fprintf(stderr, "zk-probe: %s: no connection\n", hosts);
		exit(1);
	}
	if (!connected) {
		zookeeper_close(zh);
		return NULL;
	}
	return zh;
}

static int result(int rc)
{
	if (rc != ZOK) {
		fprintf(stderr, "zk-probe: %s\n", zerror(rc));
	}
	return rc == ZOK ? 0 : rc == ZNONODE ? 3 : 1;
}

static int print_stat(zhandle_t *zh, const char *path)
{
	struct Stat stat;
	int rc = zoo_exists(zh, path, 0, &stat);
	if (rc == ZOK) {
		printf("czxid=0x%llx mzxid=0x%llx version=%d "
		       "ephemeralOwner=0x%llx numChildren=%d\n",
			(unsigned long long)stat.czxid, (unsigned long long)stat.mzxid,
			stat.version, (unsigned long long)stat.ephemeralOwner, stat.numChildren);
	}
	return result(rc);
}

static int print_data(zhandle_t *zh, const char *path)
{
	static char data[LARGEST_DATA];
	int len = sizeof(data);
	int rc = zoo_get(zh, path, 0, data, &len, NULL);
	if (rc == ZOK && len > 0) {
		fwrite(data, 1, (size_t)len, stdout);
	}
	return result(rc);
}

static int print_acl(zhandle_t *zh, const char *path)
{
	static const char letters[] = "rwcda";
	struct ACL_vector acl = { 0 };
	struct Stat stat;
	int rc = zoo_get_acl(zh, path, &acl, &stat);
	for (int i = 0; rc == ZOK && i < acl.count; i++) {
		for (int bit = 0; letters[bit]; bit++) {
			if (acl.data[i].perms & (1 << bit)) {
				putchar(letters[bit]);
			}
		}
		printf(" %s:%s\n", acl.data[i].id.scheme, acl.data[i].id.id);
	}
	deallocate_ACL_vector(&acl);
	return result(rc);
}

static int create(zhandle_t *zh, const char *path, const char *data)
{
	return result(
		zoo_create(zh, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
}

static int fill(zhandle_t *zh, const char *path, const char *bytes)
{
	static const char data[LARGEST_DATA];
	return result(zoo_create(
		zh, path, data, (int)strtol(bytes, NULL, 10), &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
}

/* Creates and deletes a node `count` times; prints the milliseconds of each delete on a line. */
static int time_deletes(zhandle_t *zh, const char *path, const char *count)
{
	for (long left = strtol(count, NULL, 10); left > 0; left--) {
		struct timespec begin, end;
		int status = create(zh, path, "");
		clock_gettime(CLOCK_MONOTONIC, &begin);
		status = status ? status : result(zoo_delete(zh, path, -1));
		clock_gettime(CLOCK_MONOTONIC, &end);
		if (status) {
			return status;
		}
		printf("%.6f\n",
			(double)(end.tv_sec - begin.tv_sec) * 1e3 +
				(double)(end.tv_nsec - begin.tv_nsec) / 1e6);
	}
	return 0;
}

enum { LOADS_IN_FLIGHT = 500, LONGEST_LINE = 64 * 1024 };

static unsigned in_flight;
static int load_failed;

static void on_loaded(int rc, const char *name, const void *context)
{
	(void)name;
	(void)context;
	pthread_mutex_lock(&mutex);
	in_flight--;
	load_failed = load_failed ? load_failed : rc;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void wait_for_loads(unsigned at_most)
{
	pthread_mutex_lock(&mutex);
	while (in_flight > at_most) {
		pthread_cond_wait(&changed, &mutex);
	}
	pthread_mutex_unlock(&mutex);
}

static int load(zhandle_t *zh)
{
	static char line[LONGEST_LINE];
	int rc = ZOK;
	while (rc == ZOK && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		char *data = strchr(line, '\t');
		if (!data) {
			return 2;
		}
		*data++ = '\0';
		wait_for_loads(LOADS_IN_FLIGHT - 1);
		pthread_mutex_lock(&mutex);
		in_flight++;
		pthread_mutex_unlock(&mutex);
		rc = zoo_acreate(zh, line, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, 0,
			on_loaded, NULL);
	}
	wait_for_loads(rc == ZOK ? 0 : 1);
	return result(rc ? rc : load_failed);
}

static void on_read(int rc, const char *data, int len, const struct Stat *stat, const void *context)
{
	(void)len;
	(void)stat;
	on_loaded(rc, data, context);
}

static int read_all(zhandle_t *zh)
{
	static char line[LONGEST_LINE];
	int rc = ZOK;
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (rc == ZOK && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		wait_for_loads(LOADS_IN_FLIGHT - 1);
		pthread_mutex_lock(&mutex);
		in_flight++;
		pthread_mutex_unlock(&mutex);
		rc = zoo_aget(zh, line, 0, on_read, NULL);
	}
	wait_for_loads(rc == ZOK ? 0 : 1);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.3f\n",
		(double)(end.tv_sec - begin.tv_sec) * 1e3 +
			(double)(end.tv_nsec - begin.tv_nsec) / 1e6);
	return result(rc ? rc : load_failed);
}

static bool input_ended;

static void *await_end_of_input(void *context)
{
	(void)context;
	while (getchar() != EOF) {
	}
	pthread_mutex_lock(&mutex);
	input_ended = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static bool print_state(zhandle_t *zh, const char *path)
{
	struct Stat stat;
	int rc = zoo_exists(zh, path, 1, &stat);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	long long ms = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	if (rc == ZOK) {
		printf("%lld present czxid=0x%llx version=%d\n", ms, (unsigned long long)stat.czxid,
			stat.version);
	} else if (rc == ZNONODE) {
		printf("%lld absent\n", ms);
	} else {
		result(rc);
	}
	fflush(stdout);
	return rc == ZOK || rc == ZNONODE;
}

static int watch(zhandle_t *zh, const char *path, bool until_end_of_input)
{
	pthread_t reader;
	if (until_end_of_input && pthread_create(&reader, NULL, await_end_of_input, NULL) != 0) {
		return 1;
	}
	unsigned seen = 0;
	bool last = false;
	while (print_state(zh, path)) {
		if (last) {
			pthread_join(reader, NULL);
			return 0;
		}
		pthread_mutex_lock(&mutex);
		while (events == seen && !input_ended) {
			pthread_cond_wait(&changed, &mutex);
		}
		seen = events;
		last = input_ended;
		pthread_mutex_unlock(&mutex);
	}
	return 1;
}

static int kill_session(const char *hosts, const char *id, const char *password)
{
	clientid_t session = { .client_id = (int64_t)strtoull(id, NULL, 16) };
	for (size_t i = 0; i < sizeof(session.passwd); i++) {
		unsigned byte = 0;
		if (sscanf(password + 2 * i, "%2x", &byte) != 1) {
			return 2;
		}
		session.passwd[i] = (char)byte;
	}
	/*
	 * The owner takes its session back at once, maybe before the close: until the server says
	 * that it is over.
	 */
	for (zhandle_t *zh; (zh = connect_to(hosts, &session));) {
		zookeeper_close(zh);
		session_state = 0;
	}
	return 0;
}

static int run(zhandle_t *zh, const char *verb, int count, char **arguments)
{
	const char *path = arguments[0];
	if (strcmp(verb, "stat") == 0) {
		return print_stat(zh, path);
	}
	if (strcmp(verb, "get") == 0) {
		return print_data(zh, path);
	}
	if (strcmp(verb, "acl") == 0) {
		return print_acl(zh, path);
	}
	if (strcmp(verb, "set") == 0 && count == 2) {
		return result(zoo_set(zh, path, arguments[1], (int)strlen(arguments[1]), -1));
	}
	if (strcmp(verb, "create") == 0 && count == 2) {
		return create(zh, path, arguments[1]);
	}
	if (strcmp(verb, "fill") == 0 && count == 2) {
		return fill(zh, path, arguments[1]);
	}
	if (strcmp(verb, "load") == 0) {
		return load(zh);
	}
	if (strcmp(verb, "read") == 0) {
		return read_all(zh);
	}
	if (strcmp(verb, "delete") == 0) {
		return result(zoo_delete(zh, path, -1));
	}
	if (strcmp(verb, "time-deletes") == 0 && count == 2) {
		return time_deletes(zh, path, arguments[1]);
	}
	bool until_end_of_input = count == 2 && strcmp(arguments[1], "-") == 0;
	return strcmp(verb, "watch") == 0 ? watch(zh, path, until_end_of_input) : 2;
}

/*
 * Ends the program without a search for leaks: when two clients take one session from each other, a
 * close of the library may leak pending requests, which is not Berth's fault.
 */
static _Noreturn void leave(int status)
{
	fflush(NULL);
	_exit(status);
}

int main(int argc, char **argv)
{
	const char *auth = NULL;
	if (argc > 2 && strcmp(argv[1], "-a") == 0) {
		auth = argv[2];
		argc -= 2;
		argv += 2;
	}
	if (argc < 4) {
		return 2;
	}
	zoo_set_debug_level((ZooLogLevel)0);
	if (strcmp(argv[2], "kill-session") == 0) {
		leave(argc == 5 ? kill_session(argv[1], argv[3], argv[4]) : 2);
	}
	zhandle_t *zh = connect_to(argv[1], NULL);
	if (zh && auth) {
		zoo_add_auth(zh, "digest", auth, (int)strlen(auth), NULL, NULL);
	}
	int status = zh ? run(zh, argv[2], argc - 3, argv + 3) : 1;
	zookeeper_close(zh);
	leave(status);
}
