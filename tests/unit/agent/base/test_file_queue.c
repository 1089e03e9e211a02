/* Files that children put in place: their order, the newest content, killed children. */
#include "agent/base/file_queue.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/file_stage.h"
#include "tests/support/scratch.h"

static char folder[SCRATCH_PATH];
static struct ev_loop *loop;
static struct file_queue *queue;
static char told[200];    /* the names of the jobs whose on_done came, and how they ended */
static char message[300]; /* the last one */
static int forks;

static const char *path_of(const char *name)
{
	static char path[SCRATCH_PATH + 20];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* ---- a disk that hangs ---- */

/* While the FIFO "hangs" is there, and nobody has it open, every child waits with its new file. */
int fsync(int fd)
{
	struct stat status;
	bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
	int gate = is_file ? open(path_of("hangs"), O_RDONLY | O_CLOEXEC) : -1;
	if (gate >= 0) {
		close(gate);
	}
	return 0;
}

static void hang(void)
{
	cr_assert_eq(mkfifo(path_of("hangs"), 0600), 0);
}

/* Children that wait go on, and later ones do not wait. */
static int release(void)
{
	int gate = open(path_of("hangs"), O_RDWR | O_CLOEXEC);
	cr_assert_geq(gate, 0);
	unlink(path_of("hangs"));
	return gate;
}

pid_t fork(void)
{
	static pid_t (*next)(void);
	if (!next) {
		*(void **)&next = dlsym(RTLD_NEXT, "fork");
	}
	forks++;
	return next();
}

/* ---- the stage ---- */

static void open_stage(void)
{
	scratch_folder(folder);
	loop = ev_default_loop(0);
	queue = file_queue_create(loop);
	*told = '\0';
	forks = 0;
}

static void close_stage(void)
{
	char command[SCRATCH_PATH + 16];
	file_queue_destroy(queue);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(file_queue, .init = open_stage, .fini = close_stage);

static void on_done(void *context, const struct err *err)
{
	snprintf(message, sizeof(message), "%s", err->msg);
	size_t len = strlen(told);
	snprintf(told + len, sizeof(told) - len, "%s%s ", (const char *)context,
		err->code ? " failed" : "");
}

/* A job of this caller for the file. */
static struct file_job *add(
	const char *caller, enum file_step step, const char *name, const char *text)
{
	char temporary[40];
	snprintf(temporary, sizeof(temporary), ".%s.new", name);
	struct file_work work = {
		.step = step,
		.temporary = allocate_text(path_of(temporary)),
		.path = allocate_text(path_of(name)),
		.owner = { 0600, (uid_t)-1, (gid_t)-1 },
		.data = text ? allocate_text(text) : NULL,
		.len = text ? strlen(text) : 0,
	};
	return file_queue_add(queue, &work, on_done, (void *)(uintptr_t)caller);
}

static const char *content(const char *name)
{
	static char text[100];
	FILE *file = fopen(path_of(name), "r");
	size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[len] = '\0';
	if (file) {
		fclose(file);
	}
	return file ? text : "absent";
}

static void run_until_told(const char *expected)
{
	while (strcmp(told, expected) != 0) {
		cr_assert_lt(strlen(told), strlen(expected), "%s", told);
		ev_run(loop, EVRUN_ONCE);
	}
}

static void on_tick(struct ev_loop *tick_loop, ev_timer *timer, int events)
{
	(void)tick_loop;
	(void)events;
	++*(int *)timer->data;
}

/* ---- the tests ---- */

Test(file_queue, a_file_is_put_in_place_and_its_caller_hears_of_it)
{
	cr_assert(file_queue_is_idle(queue));
	add("one", FILE_REPLACE, "file", "text");
	cr_assert_not(file_queue_is_idle(queue));
	run_until_told("one ");
	cr_assert_str_eq(content("file"), "text");
	cr_assert(file_queue_is_idle(queue));
	add("two", FILE_REMOVE, "file", NULL);
	run_until_told("one two ");
	cr_assert_str_eq(content("file"), "absent");
}

Test(file_queue, a_failure_is_told)
{
	add("one", FILE_REPLACE, "no/file", "text");
	run_until_told("one failed ");
}

Test(file_queue, a_file_that_could_not_be_written_is_tried_again_after_a_pause)
{
	struct file_work work = { .step = FILE_REPLACE,
		.temporary = allocate_text(path_of("no/new")),
		.path = allocate_text(path_of("no/file")),
		.owner = { 0600, (uid_t)-1, (gid_t)-1 },
		.data = allocate_text("text"),
		.len = 4,
		.again = true };
	file_queue_add(queue, &work, on_done, (void *)(uintptr_t) "one");
	run_until_told("one failed ");
	cr_assert_eq(mkdir(path_of("no"), 0700), 0);
	run_until_told("one failed one ");
	cr_expect_str_eq(content("no/file"), "text");
}

Test(file_queue, a_prepared_file_stays_until_it_is_committed)
{
	add("one", FILE_PREPARE, "file", "text");
	run_until_told("one ");
	cr_expect_str_eq(content(".file.new"), "text");
	add("two", FILE_COMMIT, "file", NULL);
	run_until_told("one two ");
	cr_expect_str_eq(content("file"), "text");
}

Test(file_queue, the_loop_goes_on_while_the_disk_hangs)
{
	int ticks = 0;
	ev_timer timer;
	hang();
	add("one", FILE_REPLACE, "file", "text");
	ev_timer_init(&timer, on_tick, 0.001, 0.001);
	timer.data = &ticks;
	ev_timer_start(loop, &timer);
	while (ticks < 3) {
		ev_run(loop, EVRUN_ONCE);
	}
	cr_assert_str_eq(told, "");
	cr_assert_str_eq(content("file"), "absent");
	int gate = release();
	run_until_told("one ");
	cr_assert_str_eq(content("file"), "text");
	ev_timer_stop(loop, &timer);
	close(gate);
}

Test(file_queue, the_newest_content_of_a_file_counts_and_those_between_are_not_written)
{
	hang();
	add("one", FILE_REPLACE, "file", "first");
	add("one", FILE_REPLACE, "file", "second");
	add("one", FILE_REPLACE, "file", "third");
	int gate = release();
	run_until_told("one ");
	cr_assert_str_eq(content("file"), "third");
	cr_expect_eq(forks, 2, "%d", forks);
	close(gate);
}

Test(file_queue, jobs_of_different_callers_for_a_file_keep_their_order)
{
	int gate;
	hang();
	add("one", FILE_REPLACE, "file", "first");
	add("two", FILE_REPLACE, "file", "second");
	add("three", FILE_REMOVE, "file", NULL);
	gate = release();
	run_until_told("one two three ");
	cr_assert_str_eq(content("file"), "absent");
	close(gate);
}

Test(file_queue, a_job_of_another_file_does_not_wait)
{
	hang();
	add("one", FILE_REPLACE, "file", "text");
	add("two", FILE_COMMIT, "none", NULL); /* fails before it would hang */
	run_until_told("two failed ");
	int gate = release();
	run_until_told("two failed one ");
	close(gate);
}

Test(file_queue, more_files_than_children_are_all_written)
{
	enum { FILES = 3 * FILE_CHILDREN };
	char expected[sizeof(told)] = "";
	hang();
	for (int i = 0; i < FILES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "file%d", i);
		add("x", FILE_REPLACE, name, "text");
		strcat(expected, "x ");
	}
	cr_assert_eq(forks, FILE_CHILDREN);
	int gate = release();
	for (int i = 0; i < FILE_CHILDREN; i++) {
		char name[16];
		snprintf(name, sizeof(name), "file%d", i);
		while (strcmp(content(name), "text") != 0) {
			usleep(1000);
		}
	}
	hang();
	close(gate);
	while (forks < 2 * FILE_CHILDREN) {
		ev_run(loop, EVRUN_ONCE);
	}
	cr_assert_eq(forks, 2 * FILE_CHILDREN);
	gate = release();
	cr_assert(file_queue_wait(queue, 60000));
	cr_assert_str_eq(told, expected);
	cr_assert_eq(forks, FILES);
	for (int i = 0; i < FILES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "file%d", i);
		cr_assert_str_eq(content(name), "text");
	}
	close(gate);
}

/* ---- cancelled ---- */

Test(file_queue, a_cancelled_job_that_waits_is_not_done)
{
	hang();
	add("one", FILE_REPLACE, "file", "first");
	file_queue_cancel(add("two", FILE_REPLACE, "file", "second"));
	int gate = release();
	run_until_told("one ");
	cr_assert(file_queue_is_idle(queue));
	cr_assert_str_eq(content("file"), "first");
	close(gate);
}

Test(file_queue, a_prepared_file_of_a_cancelled_job_goes)
{
	hang();
	file_queue_cancel(add("one", FILE_PREPARE, "file", "text"));
	add("two", FILE_REMOVE, "file", NULL);
	int gate = release();
	run_until_told("two ");
	cr_assert_str_eq(content(".file.new"), "absent");
	close(gate);
}

/* ---- children that are killed ---- */

/* The child at work: it has opened the new file, and waits. */
static pid_t child_at_work(void)
{
	while (access(path_of(".file.new"), F_OK) != 0) {
		usleep(1000);
	}
	FILE *children = fopen("/proc/thread-self/children", "re");
	int pid = 0;
	int next;
	while (fscanf(children, "%d", &next) == 1) {
		siginfo_t ended = { 0 };
		waitid(P_PID, (id_t)next, &ended, WEXITED | WNOHANG | WNOWAIT);
		pid = ended.si_pid == 0 ? next : pid;
	}
	fclose(children);
	cr_assert_gt(pid, 0);
	return pid;
}

static void kill_child(void)
{
	pid_t pid = child_at_work();
	unlink(path_of(".file.new"));
	cr_assert_eq(kill(pid, SIGKILL), 0);
}

Test(file_queue, the_work_of_a_killed_child_is_done_again)
{
	hang();
	add("one", FILE_REPLACE, "file", "text");
	kill_child();
	while (access(path_of(".file.new"), F_OK) != 0) {
		ev_run(loop, EVRUN_NOWAIT); /* a child that hangs wakes nobody */
		usleep(1000);
	}
	int gate = release();
	run_until_told("one ");
	cr_assert_str_eq(content("file"), "text");
	close(gate);
}

Test(file_queue, a_file_whose_children_are_all_killed_is_a_failure)
{
	hang();
	add("one", FILE_REPLACE, "file", "text");
	for (int i = 0; i < 3; i++) {
		kill_child();
		while (access(path_of(".file.new"), F_OK) != 0 && !*told) {
			ev_run(loop, EVRUN_NOWAIT);
			usleep(1000);
		}
	}
	run_until_told("one failed ");
	cr_assert_str_eq(content("file"), "absent");
	char text[SCRATCH_PATH + 80];
	snprintf(text, sizeof(text), "the process that puts %s in place was killed, 3 times",
		path_of("file"));
	cr_expect_str_eq(message, text);
}

/* An agent that is killed while a child of it is at work; returns the child. */
static pid_t leave_a_child_behind(void)
{
	int ends[2];
	int pid = 0;
	cr_assert_eq(pipe(ends), 0);
	pid_t agent = fork();
	if (agent == 0) {
		add("one", FILE_REPLACE, "file", "text");
		pid = child_at_work();
		_exit(write(ends[1], &pid, sizeof(pid)) != sizeof(pid));
	}
	close(ends[1]);
	cr_assert_eq(read(ends[0], &pid, sizeof(pid)), sizeof(pid));
	close(ends[0]);
	cr_assert_eq(waitpid(agent, NULL, 0), agent);
	return pid;
}

Test(file_queue, with_the_lock_a_child_does_its_work_without_its_agent)
{
	int status = 1;
	int lock_fd = open(path_of("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	file_queue_set_lock(queue, lock_fd);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	hang();
	pid_t child = leave_a_child_behind();
	int gate = release();
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	cr_expect_str_eq(content("file"), "text");
	close(gate);
	close(lock_fd);
}

/* ---- the end ---- */

Test(file_queue, the_end_waits_for_a_disk_that_is_slow)
{
	hang();
	add("one", FILE_REPLACE, "file", "first");
	add("two", FILE_REPLACE, "file", "second");
	pid_t helper = fork();
	if (helper == 0) {
		while (access(path_of(".file.new"), F_OK) != 0) {
			usleep(1000);
		}
		int gate = release();
		while (strcmp(content("file"), "second") != 0) {
			usleep(1000);
		}
		close(gate);
		_exit(0);
	}
	cr_assert(file_queue_wait(queue, 60000));
	cr_assert_str_eq(told, "one two ");
	cr_assert_str_eq(content("file"), "second");
	waitpid(helper, NULL, 0);
}

Test(file_queue, the_end_takes_what_is_ready_behind_a_job_that_hangs)
{
	hang();
	add("one", FILE_REPLACE, "file", "text");
	add("two", FILE_COMMIT, "none", NULL);
	while (!*told) {
		cr_assert_not(file_queue_wait(queue, 1));
	}
	cr_expect_str_eq(told, "two failed ");
	int gate = release();
	cr_expect(file_queue_wait(queue, 60000));
	cr_expect_str_eq(told, "two failed one ");
	close(gate);
}

Test(file_queue, the_end_does_not_wait_for_a_disk_that_hangs)
{
	add("one", FILE_REPLACE, "file", "old");
	run_until_told("one ");
	hang();
	add("two", FILE_REPLACE, "file", "new");
	add("three", FILE_REPLACE, "other", "new");
	add("four", FILE_REPLACE, "file", "newer"); /* it waits, and has no child */
	pid_t child = child_at_work();
	cr_assert_not(file_queue_wait(queue, 1));
	file_queue_destroy(queue);
	while (kill(child, 0) == 0) { /* libev reaps it */
		ev_run(loop, EVRUN_NOWAIT);
	}
	queue = NULL;
	close(release());
	cr_assert_str_eq(content("file"), "old");
	cr_assert_str_eq(told, "one ");
}

Test(file_queue, a_child_keeps_the_lock_of_the_state_directory)
{
	int lock_fd = open(path_of("lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	cr_assert_eq(flock(lock_fd, LOCK_EX), 0);
	file_queue_set_lock(queue, lock_fd);
	hang();
	add("one", FILE_REPLACE, "file", "text");
	(void)child_at_work();
	close(lock_fd); /* as if the agent had been killed */
	int other = open(path_of("lock"), O_RDWR | O_CLOEXEC);
	cr_assert_eq(flock(other, LOCK_EX | LOCK_NB), -1);
	int gate = release();
	cr_assert_eq(flock(other, LOCK_EX), 0);
	cr_assert_str_eq(content("file"), "text");
	run_until_told("one ");
	close(gate);
	close(other);
}
