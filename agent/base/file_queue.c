#include "agent/base/file_queue.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/allocate.h"
#include "agent/base/file_child.h"
#include "agent/base/log.h"
#include "agent/base/timer.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"

enum { TRIES = 3, FIRST_PAUSE_MS = 1000, LAST_PAUSE_MS = 30000 };

struct file_job {
	struct list link; /* in the order in which they came */
	struct file_queue *queue;
	struct file_work work;
	enum {
		WAITING,
		WORKING,
		OVER,  /* the loop did it, and on_done is to come with `result` */
		FAILED /* on_done has come with a failure; a pause, then it waits again */
	} state;
	bool failed; /* once: on_done comes only when it succeeds */
	int tries;
	pid_t child;
	int report; /* from the child */
	ev_io readable;
	struct err result;
	bool cancelled;
	void (*on_done)(void *context, const struct err *err);
	void *context;
};

struct file_queue {
	struct ev_loop *loop;
	struct list jobs;
	struct timer turn;  /* begins the next jobs, and ends those that are over */
	struct timer pause; /* until jobs that have failed are done again */
	int64_t pause_ms;
	int lock_fd;
};

static struct file_job *job_at(struct list *link)
{
	return LIST_ITEM(link, struct file_job, link);
}

/* ---- the end of a job ---- */

static void free_job(struct file_job *job)
{
	list_remove(&job->link);
	file_work_finish(&job->work);
	free(job);
}

static void wake(struct file_queue *queue)
{
	timer_start(&queue->turn, 0);
}

/* Whether `later` is of the same caller, for the same file. */
static bool outdates(const struct file_job *later, const struct file_job *job)
{
	return later->on_done == job->on_done && later->context == job->context &&
		strcmp(later->work.path, job->work.path) == 0;
}

static bool is_outdated(const struct file_job *job)
{
	for (struct list *at = job->link.next; at != &job->queue->jobs; at = at->next) {
		if (outdates(job_at(at), job)) {
			return true;
		}
	}
	return false;
}

static bool has_later(const struct file_job *job)
{
	for (struct list *at = job->link.next; at != &job->queue->jobs; at = at->next) {
		if (strcmp(job_at(at)->work.path, job->work.path) == 0) {
			return true;
		}
	}
	return false;
}

/* True when it stays, to be done again. */
static bool stays(struct file_job *job, const struct err *result)
{
	struct file_queue *queue = job->queue;
	if (!result->code || !job->work.again || job->cancelled || has_later(job)) {
		return false;
	}
	job->state = FAILED;
	job->result = *result;
	job->tries = 0;
	if (!timer_runs(&queue->pause)) {
		queue->pause_ms = queue->pause_ms ? 2 * queue->pause_ms : FIRST_PAUSE_MS;
		queue->pause_ms = queue->pause_ms < LAST_PAUSE_MS ? queue->pause_ms : LAST_PAUSE_MS;
		timer_start(&queue->pause, queue->pause_ms);
	}
	return true;
}

static void end(struct file_job *job, const struct err *result)
{
	const struct err told = *result;
	bool tells = !job->cancelled && !is_outdated(job) && !(job->failed && result->code);
	void (*on_done)(void *, const struct err *) = tells ? job->on_done : NULL;
	void *context = job->context;
	if (job->cancelled && job->work.step == FILE_PREPARE) {
		unlink(job->work.temporary);
	}
	job->queue->pause_ms = result->code ? job->queue->pause_ms : 0;
	wake(job->queue);
	if (stays(job, result)) {
		job->failed = true;
	} else {
		free_job(job);
	}
	if (on_done) {
		on_done(context, &told);
	}
}

/* The loop reaps the child. */
static void leave_child(struct file_job *job)
{
	ev_io_stop(job->queue->loop, &job->readable);
	close(job->report);
	job->state = WAITING;
}

static void take_report(struct file_job *job)
{
	struct err result = ERR_INIT;
	bool whole = read(job->report, &result, sizeof(result)) == (ssize_t)sizeof(result);
	leave_child(job);
	if (whole) {
		result.msg[sizeof(result.msg) - 1] = '\0';
		end(job, &result);
	} else if (job->cancelled) {
		end(job, &result);
	} else if (job->tries < TRIES) {
		log_warn("agent", "the process that puts %s in place was killed; done again",
			job->work.path);
		wake(job->queue);
	} else {
		err_clear(&result);
		err_set(&result, BERTH_FAILED,
			"the process that puts %s in place was killed, %d times", job->work.path,
			TRIES);
		end(job, &result);
	}
}

/* Also when the kernel refuses to watch the pipe: then the read waits for the child. */
static void on_readable(struct ev_loop *loop, ev_io *watcher, int events)
{
	(void)loop;
	(void)events;
	take_report(watcher->data);
}

/* ---- the beginning ---- */

static void begin(struct file_job *job)
{
	struct file_queue *queue = job->queue;
	job->tries++;
	job->child = file_child_start(&job->work, queue->lock_fd, &job->report);
	if (job->child < 0) {
		log_warn("agent", "cannot start a process, so the agent itself writes %s: %s",
			job->work.path, strerror(-job->child));
		(void)file_work_do(&job->work, &job->result);
		job->state = OVER;
		wake(queue);
		return;
	}
	job->state = WORKING;
	ev_io_init(&job->readable, on_readable, job->report, EV_READ);
	job->readable.data = job;
	ev_io_start(queue->loop, &job->readable);
}

/* Whether a job before it has the same file. */
static bool must_wait(const struct file_job *job)
{
	for (struct list *at = job->link.prev; at != &job->queue->jobs; at = at->prev) {
		if (strcmp(job_at(at)->work.path, job->work.path) == 0) {
			return true;
		}
	}
	return false;
}

static void begin_next(struct file_queue *queue)
{
	int working = 0;
	for (struct list *at = queue->jobs.next; at != &queue->jobs; at = at->next) {
		working += job_at(at)->state == WORKING;
	}
	for (struct list *at = queue->jobs.next; at != &queue->jobs && working < FILE_CHILDREN;
		at = at->next) {
		struct file_job *job = job_at(at);
		if (job->state == WAITING && !must_wait(job)) {
			begin(job);
			working += job->state == WORKING;
		}
	}
}

/* on_done may add and cancel jobs. */
static struct file_job *next_over(struct file_queue *queue)
{
	for (struct list *at = queue->jobs.next; at != &queue->jobs; at = at->next) {
		if (job_at(at)->state == OVER) {
			return job_at(at);
		}
	}
	return NULL;
}

static void take_turn(struct file_queue *queue)
{
	struct file_job *over;
	while ((over = next_over(queue)) != NULL) {
		end(over, &over->result);
	}
	begin_next(queue);
}

static void on_turn(void *context)
{
	take_turn(context);
}

static void do_again(struct file_queue *queue)
{
	for (struct list *at = queue->jobs.next; at != &queue->jobs; at = at->next) {
		struct file_job *job = job_at(at);
		if (job->state == FAILED) {
			err_clear(&job->result);
			job->state = WAITING;
		}
	}
}

static void on_pause(void *context)
{
	do_again(context);
	take_turn(context);
}

static void drop_outdated(struct file_queue *queue, const struct file_job *newest)
{
	struct list *next;
	for (struct list *at = queue->jobs.next; at != &queue->jobs; at = next) {
		struct file_job *job = job_at(at);
		next = at->next;
		if ((job->state == WAITING && outdates(newest, job)) ||
			(job->failed && job->state != WORKING &&
				strcmp(job->work.path, newest->work.path) == 0)) {
			free_job(job);
		}
	}
}

struct file_job *file_queue_add(struct file_queue *queue, struct file_work *work_take,
	void (*on_done)(void *context, const struct err *err), void *context)
{
	struct file_job *job = allocate_zeroed(1, sizeof(*job));
	job->queue = queue;
	job->work = *work_take;
	*work_take = (struct file_work){ 0 };
	job->on_done = on_done;
	job->context = context;
	drop_outdated(queue, job);
	list_append(&queue->jobs, &job->link);
	/* At once: what is begun outlives an agent that is killed. */
	begin_next(queue);
	return job;
}

void file_queue_cancel(struct file_job *job)
{
	if (job->state == WAITING) {
		free_job(job);
	} else {
		job->cancelled = true;
	}
}

/* ---- the whole ---- */

bool file_queue_is_idle(const struct file_queue *queue)
{
	for (struct list *at = queue->jobs.next; at != &queue->jobs; at = at->next) {
		if (job_at(at)->state != FAILED) {
			return false;
		}
	}
	return true;
}

/* Waits for a report, and takes those that are there; false when the time is over. */
static bool take_reports(struct file_queue *queue, int64_t left_ms)
{
	struct file_job *jobs[FILE_CHILDREN];
	struct pollfd reports[FILE_CHILDREN];
	nfds_t count = 0;
	for (struct list *at = queue->jobs.next; at != &queue->jobs; at = at->next) {
		if (job_at(at)->state == WORKING) {
			jobs[count] = job_at(at);
			reports[count++] = (struct pollfd){ .fd = job_at(at)->report,
				.events = POLLIN };
		}
	}
	int ready = poll(reports, count, left_ms > 0 ? (int)left_ms : 0);
	for (nfds_t i = 0; i < count && ready > 0; i++) {
		if (reports[i].revents) {
			take_report(jobs[i]);
		}
	}
	return ready > 0 || left_ms > 0;
}

bool file_queue_wait(struct file_queue *queue, int64_t patience_ms)
{
	int64_t until_ms = clock_monotonic_ms() + patience_ms;
	do_again(queue);
	take_turn(queue);
	while (!file_queue_is_idle(queue) && take_reports(queue, until_ms - clock_monotonic_ms())) {
		take_turn(queue);
	}
	return file_queue_is_idle(queue);
}

void file_queue_set_lock(struct file_queue *queue, int lock_fd)
{
	queue->lock_fd = lock_fd;
}

struct file_queue *file_queue_create(struct ev_loop *loop)
{
	struct file_queue *queue = allocate_zeroed(1, sizeof(*queue));
	queue->loop = loop;
	queue->lock_fd = -1;
	list_init(&queue->jobs);
	timer_init(&queue->turn, loop, "files", on_turn, queue);
	timer_init(&queue->pause, loop, "files that could not be written", on_pause, queue);
	return queue;
}

void file_queue_destroy(struct file_queue *queue)
{
	if (!queue) {
		return;
	}
	timer_stop(&queue->turn);
	timer_stop(&queue->pause);
	while (!list_empty(&queue->jobs)) {
		struct file_job *job = job_at(queue->jobs.next);
		log_warn("agent", "%s stays as it was: %s", job->work.path,
			job->state == FAILED ? job->result.msg : "the disk did not answer in time");
		if (job->state == WORKING) {
			/* Its pipe is open, so it lives, and the number is its own. */
			kill(job->child, SIGKILL);
			leave_child(job);
		}
		free_job(job);
	}
	free(queue);
}
