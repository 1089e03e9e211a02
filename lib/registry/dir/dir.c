/*
 * The dir: backend: one directory shared by every process on the machine, no server.
 *
 *   dir.c          queue, deadlines, state: this file
 *   task.c     what each operation does
 *   node.c     a node on disk: reading        store.c   and writing
 *   watch.c    inotify                        mark.c    its tree of marks
 *   session.c  the ephemeral nodes that this process owns
 *   writer.c   a child that does what waits for the disk
 *   remote.c   all of this in another process, where others can open the directories
 *
 * Tasks are carried out one after another inside dispatch(), which never waits: a write that finds
 * another process holding the write lock stays in the queue until a short timer, and reads of other
 * paths pass it. There are no ACLs here beyond the modes that the umask gives, so `secure` changes
 * nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/path.h"
#include "lib/looker/child.h"
#include "lib/registry/backend.h"
#include "lib/registry/dir/dir.h"
#include "lib/registry/dir/writer.h"
#include "lib/registry/dir/task.h"

enum {
	LOCK_RETRY_FIRST_MS = 1,
	LOCK_RETRY_MAX_MS = 16,
	ROOT_RETRY_FIRST_MS = 50,
	ROOT_RETRY_MAX_MS = 2000,
	WRITER_TICK_MS = 250, /* while a child works: tasks have deadlines */
	CLOSE_TRIES = 50,
	CLOSE_WAIT_NS = 4000000,
	PATH_BYTES = 4096
};

struct dir_backend {
	struct registry_backend base;
	struct dir_context context;
	char *root; /* absolute path */
	dev_t device;
	ino_t inode;
	bool root_judged; /* its mode */
	/* the root has been open before: if it vanishes, it is not made anew */
	bool was_there;
	json_t *inherited; /* descriptors to adopt once the root can be opened */

	enum registry_state state;
	/* errno of why it is not open; while connected ENOENT: the first write makes it */
	int root_error;
	int64_t root_retry_at_ms;
	int64_t root_retry_wait_ms;

	struct list tasks;
	uint64_t submitted; /* number of tasks ever; each task's tag is its number */
	bool fresh;         /* tasks were submitted since the last dispatch */
	bool lock_busy;     /* in this dispatch */
	int64_t lock_retry_at_ms;
	int64_t lock_retry_wait_ms; /* 0: no write is waiting for the lock */
	bool forks;                 /* children do what waits for the disk */
	struct dir_writer writer;
	char session_name[32];
};

static struct dir_backend *self(struct registry_backend *backend)
{
	return (struct dir_backend *)backend;
}

static void close_root(struct dir_backend *dir)
{
	if (dir->context.store.root_fd >= 0) {
		close(dir->context.store.root_fd);
		dir->context.store.root_fd = -1;
	}
}

/*
 * 0, or the errno that says why the root cannot be used. Finds out, too, when another directory has
 * taken its place.
 */
static int check_root(struct dir_backend *dir)
{
	struct stat stat;
	int error = 0;
	int fd = open(dir->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		return errno;
	}
	if (fstat(fd, &stat) != 0) {
		error = errno;
		close(fd);
		return error;
	}
	if (dir->context.store.root_fd >= 0 && stat.st_dev == dir->device &&
		stat.st_ino == dir->inode) {
		close(fd);
		return 0;
	}
	close_root(dir);
	dir->context.store.root_fd = fd;
	dir->context.store.swept = false;
	dir->device = stat.st_dev;
	dir->inode = stat.st_ino;
	dir->was_there = true;
	dir->root_judged = false;
	dir_watches_all_changed(dir->context.watches);
	return 0;
}

/* The root can be made: it becomes a new, empty registry. */
static bool is_new(const struct dir_backend *dir, int error)
{
	if (error != ENOENT || dir->was_there) {
		return false;
	}
	char *above = strndup(dir->root, (size_t)(strrchr(dir->root, '/') + 1 - dir->root));
	bool there = above && access(above, F_OK) == 0;
	free(above);
	return there;
}

static void enter_kept(struct dir_backend *dir)
{
	size_t index;
	json_t *lock;
	json_array_foreach (json_object_get(dir->inherited, "locks"), index, lock) {
		dir_session_enter_kept(&dir->context.session, dir->context.store.root_fd,
			json_string_value(json_object_get(lock, "path")),
			(dev_t)json_integer_value(json_object_get(lock, "device")),
			(ino_t)json_integer_value(json_object_get(lock, "inode")));
	}
}

static void adopt_inherited(struct dir_backend *dir)
{
	if (dir->inherited && dir->context.session.keeper) {
		enter_kept(dir);
	} else if (dir->inherited) {
		dir_session_adopt(
			&dir->context.session, dir->context.store.root_fd, dir->inherited);
	}
	if (dir->inherited) {
		json_decref(dir->inherited);
		dir->inherited = NULL;
	}
}

static void report_state(struct dir_backend *dir, enum registry_state state, const char *why)
{
	if (dir->state != state) {
		dir->state = state;
		dir->base.core.state(dir->base.core.core, state, why);
	}
}

static void look_later(struct dir_backend *dir, int64_t now_ms)
{
	dir->root_retry_wait_ms = dir->root_retry_wait_ms == 0 ? ROOT_RETRY_FIRST_MS
							       : 2 * dir->root_retry_wait_ms;
	if (dir->root_retry_wait_ms > ROOT_RETRY_MAX_MS) {
		dir->root_retry_wait_ms = ROOT_RETRY_MAX_MS;
	}
	dir->root_retry_at_ms = now_ms + dir->root_retry_wait_ms;
}

/*
 * Without the sticky bit everybody can take away everybody's records: legal (a volume of one pod),
 * but worth a line.
 */
static void warn_of_root(struct dir_backend *dir)
{
	struct stat stat;
	if (dir->root_judged || fstat(dir->context.store.root_fd, &stat) != 0) {
		return;
	}
	dir->root_judged = true;
	if ((stat.st_mode & S_IWOTH) && !(stat.st_mode & S_ISVTX) && dir->base.core.log) {
		char message[512];
		snprintf(message, sizeof(message),
			"everybody may write in %s and remove the records of others: its mode "
			"should be 1777, or 2770 with a group of all who register",
			dir->root);
		dir->base.core.log(dir->base.core.core, REGISTRY_LOG_WARN, message);
	}
}

/* A root that is away is not looked for more often than the retry timer says. */
static void follow_root(struct dir_backend *dir, int64_t now_ms)
{
	char why[512];
	if (dir->state == REGISTRY_AWAY && now_ms < dir->root_retry_at_ms) {
		return;
	}
	int error = check_root(dir);
	dir->root_error = error;
	if (error == 0) {
		adopt_inherited(dir);
		dir->root_retry_wait_ms = 0;
	} else {
		close_root(dir);
		look_later(dir, now_ms);
	}
	if (error == 0 || is_new(dir, error)) {
		if (dir->state == REGISTRY_AWAY) {
			dir_watches_all_changed(dir->context.watches);
		}
		if (error == 0) {
			warn_of_root(dir);
		}
		report_state(dir, REGISTRY_CONNECTED,
			error == 0 ? "the directory can be used"
				   : "the first write makes the directory");
		return;
	}
	snprintf(why, sizeof(why), "cannot use %s: %s", dir->root, strerror(error));
	report_state(dir, REGISTRY_AWAY, why);
}

/* A read may pass a waiting write that does not concern its path. */
static bool overlaps(const struct dir_backend *dir, const struct registry_task *task)
{
	for (const struct list *at = dir->tasks.next; at != &task->link; at = at->next) {
		const struct registry_task *earlier = LIST_ITEM(at, struct registry_task, link);
		if (path_is_under(earlier->path, task->path) ||
			path_is_under(task->path, earlier->path)) {
			return true;
		}
	}
	return false;
}

static void expire(struct dir_backend *dir, struct registry_task *task)
{
	err_set(&task->ret_err, BERTH_TIMEOUT,
		"%s was not written: another process holds the registry's write lock (%s)",
		task->path, dir->root);
}

static void expire_writer(struct dir_backend *dir, struct registry_task *task)
{
	err_set(&task->ret_err, BERTH_TIMEOUT,
		"nobody knows whether %s was written: the disk has not answered in time",
		task->path);
	dir_writer_give_up(&dir->writer, &dir->context);
}

/* Under the lock: true when the task is done, false when a child works on it. */
static bool run_locked(struct dir_backend *dir, struct registry_task *task)
{
	if (dir->forks && dir_task_lasts(&dir->context, task) &&
		dir_writer_start(&dir->writer, &dir->context, task)) {
		return false;
	}
	dir_task_run(&dir->context, task);
	return true;
}

/* The task that a child works on: true when it is done. */
static bool look_at_writer(struct dir_backend *dir, struct registry_task *task, int64_t now_ms)
{
	if (dir_writer_ended(&dir->writer, &dir->context)) {
		if (task->operation == REGISTRY_OP_REPLACE && !task->ret_err.code) {
			dir_session_drop_path(&dir->context.session, task->path);
		}
		return true;
	}
	dir->lock_busy = true;
	if (now_ms >= task->deadline_ms) {
		expire_writer(dir, task);
		return true;
	}
	return false;
}

/* True when the task is done; false: it waits for the write lock, or for a child. */
static bool run_write(struct dir_backend *dir, struct registry_task *task, int64_t now_ms)
{
	bool ended = dir_task_end_own(&dir->context, task);
	bool is_free = !dir->lock_busy && dir_writer_ended(&dir->writer, &dir->context);
	int locked = is_free ? dir_store_lock(&dir->context.store, &task->ret_err) : 0;
	bool done = true;
	if (locked > 0 && ended) {
		dir_task_clear_dead(&dir->context, task->path);
	} else if (locked > 0) {
		done = run_locked(dir, task);
	}
	if (locked > 0) {
		dir_store_unlock(&dir->context.store);
	}
	if (ended) {
		err_clear(&task->ret_err);
		return true; /* else the next writer that comes by removes the directory */
	}
	if (locked != 0 && done) {
		return true;
	}
	dir->lock_busy = true;
	if (!done) {
		return false;
	}
	if (now_ms >= task->deadline_ms) {
		expire(dir, task);
		return true;
	}
	return false;
}

/* False, with the task's error, when there is no root for it to write to. */
static bool has_root(struct dir_backend *dir, struct registry_task *task)
{
	if (dir->context.store.root_fd >= 0) {
		return true;
	}
	if (task->operation != REGISTRY_OP_CREATE || path_parent_len(task->path) > 1) {
		err_set(&task->ret_err, BERTH_PATH_NOT_FOUND, "%s does not exist", task->path);
		return false;
	}
	dir->root_error = check_root(dir);
	if (dir->root_error == ENOENT) {
		int made = mkdir(dir->root, 0755);
		dir->root_error = made == 0 || errno == EEXIST ? check_root(dir) : errno;
	}
	if (dir->root_error != 0) {
		dir_errno(&task->ret_err, dir->root_error, "make", dir->root);
	}
	return dir->root_error == 0;
}

static bool run_task(struct dir_backend *dir, struct registry_task *task, int64_t now_ms)
{
	/* The child answers for it, whatever has become of the root meanwhile. */
	if (dir->writer.task == task) {
		return look_at_writer(dir, task, now_ms);
	}
	if (dir->state != REGISTRY_CONNECTED) {
		err_set(&task->ret_err, BERTH_REGISTRY_UNAVAILABLE,
			"the registry %s cannot be used now: %s", dir->root,
			strerror(dir->root_error));
		return true;
	}
	if (dir_task_writes(task)) {
		return !has_root(dir, task) || run_write(dir, task, now_ms);
	}
	if (overlaps(dir, task)) {
		if (now_ms < task->deadline_ms) {
			return false;
		}
		expire(dir, task);
		return true;
	}
	dir_task_run(&dir->context, task);
	return true;
}

/*
 * The next task that is due in this dispatch; tasks that callbacks submit now belong to the next
 * one.
 */
static struct registry_task *next_done(struct dir_backend *dir, uint64_t limit, int64_t now_ms)
{
	for (struct list *at = dir->tasks.next; at != &dir->tasks; at = at->next) {
		struct registry_task *task = LIST_ITEM(at, struct registry_task, link);
		if (task->tag > limit) {
			break;
		}
		if (run_task(dir, task, now_ms)) {
			return task;
		}
	}
	return NULL;
}

static void run_tasks(struct dir_backend *dir, int64_t now_ms)
{
	uint64_t limit = dir->submitted;
	struct registry_task *task;
	dir->fresh = false;
	dir->lock_busy = false;
	while ((task = next_done(dir, limit, now_ms)) != NULL) {
		list_remove(&task->link);
		dir->base.core.completed(dir->base.core.core, task);
	}
	if (!dir->lock_busy) {
		dir->lock_retry_wait_ms = 0;
		return;
	}
	if (dir->writer.pid != 0) {
		dir->lock_retry_at_ms = now_ms + WRITER_TICK_MS;
		return;
	}
	dir->lock_retry_wait_ms = dir->lock_retry_wait_ms == 0 ? LOCK_RETRY_FIRST_MS
							       : 2 * dir->lock_retry_wait_ms;
	if (dir->lock_retry_wait_ms > LOCK_RETRY_MAX_MS) {
		dir->lock_retry_wait_ms = LOCK_RETRY_MAX_MS;
	}
	dir->lock_retry_at_ms = now_ms + dir->lock_retry_wait_ms;
}

static void dir_dispatch(struct registry_backend *backend, int64_t now_ms)
{
	struct dir_backend *dir = self(backend);
	follow_root(dir, now_ms);
	dir_watches_dispatch(dir->context.watches, dir->context.store.root_fd, now_ms);
	run_tasks(dir, now_ms);
}

static int64_t dir_deadline_ms(const struct registry_backend *backend)
{
	const struct dir_backend *dir = (const struct dir_backend *)backend;
	int64_t deadline_ms = dir_watches_deadline_ms(dir->context.watches);
	if (dir->fresh || dir->state == REGISTRY_CONNECTING) {
		return 0;
	}
	if (dir->root_error != 0 && dir->root_retry_at_ms < deadline_ms) {
		deadline_ms = dir->root_retry_at_ms;
	}
	/* The retry comes often enough to notice the waiting tasks' own deadlines. */
	if (!list_empty(&dir->tasks) && dir->lock_retry_at_ms < deadline_ms) {
		deadline_ms = dir->lock_retry_at_ms;
	}
	return deadline_ms;
}

static int dir_fd(const struct registry_backend *backend)
{
	return ((const struct dir_backend *)backend)->writer.wake;
}

static void dir_submit(struct registry_backend *backend, struct registry_task *task)
{
	struct dir_backend *dir = self(backend);
	/* A foreign path begins at the root, too. */
	task->path += path_is_foreign(task->path) ? 1 : 0;
	task->tag = ++dir->submitted;
	list_append(&dir->tasks, &task->link);
	dir->fresh = true;
}

static void dir_abandon(struct registry_backend *backend, struct registry_task *task)
{
	struct dir_backend *dir = self(backend);
	if (dir->writer.task == task) {
		dir_writer_give_up(&dir->writer, &dir->context);
	}
	list_remove(&task->link);
}

static void dir_unwatch(
	struct registry_backend *backend, const char *path, enum registry_watch_kind kind)
{
	dir_watches_remove(
		self(backend)->context.watches, path_is_foreign(path) ? path + 1 : path, kind);
}

static const char *dir_session_name(const struct registry_backend *backend)
{
	return ((const struct dir_backend *)backend)->session_name;
}

/* A dead process's records vanish at once. */
static int dir_session_timeout_ms(const struct registry_backend *backend)
{
	(void)backend;
	return 0;
}

static json_t *dir_session_json(const struct registry_backend *backend)
{
	(void)backend;
	return NULL;
}

static void destroy(struct dir_backend *dir)
{
	dir_session_finish(&dir->context.session);
	dir_watches_destroy(dir->context.watches);
	if (dir->writer.wake >= 0) {
		close(dir->writer.wake);
	}
	close_root(dir);
	free(dir->context.swept_path);
	free(dir->root);
	free(dir);
}

/*
 * Ends this process's nodes, which needs no lock, and removes their directories if it gets the lock
 * soon.
 */
static void remove_owned(struct dir_backend *dir)
{
	struct err ignored = ERR_INIT;
	struct dir_session *session = &dir->context.session;
	int locked = 0;
	dir_session_release(session);
	for (int i = 0; i < CLOSE_TRIES && locked == 0; i++) {
		locked = dir_store_lock(&dir->context.store, &ignored);
		if (locked == 0) {
			nanosleep(&(struct timespec){ .tv_nsec = CLOSE_WAIT_NS }, NULL);
		}
	}
	if (locked > 0) {
		for (size_t i = 0; i < session->count; i++) {
			dir_task_clear_dead(&dir->context, session->owned[i].path);
		}
		dir_store_unlock(&dir->context.store);
	}
}

/* Kills it, and waits for its end as long as for the lock, which it holds. */
static void end_writer(struct dir_backend *dir)
{
	dir_writer_give_up(&dir->writer, &dir->context);
	for (int i = 0; i < CLOSE_TRIES && !dir_writer_ended(&dir->writer, &dir->context); i++) {
		nanosleep(&(struct timespec){ .tv_nsec = CLOSE_WAIT_NS }, NULL);
	}
	if (dir->writer.pid != 0) {
		close(dir->writer.report);
	}
}

static void dir_close(struct registry_backend *backend)
{
	struct dir_backend *dir = self(backend);
	end_writer(dir);
	/* Those that cannot be taken over, such as without a root, end as well. */
	adopt_inherited(dir);
	if (dir->context.session.count > 0 && dir->context.store.root_fd >= 0) {
		remove_owned(dir);
	}
	destroy(dir);
}

static json_t *dir_detach(struct registry_backend *backend)
{
	struct dir_backend *dir = self(backend);
	end_writer(dir);
	json_t *result = dir->inherited;
	dir->inherited = NULL;
	if (!result) {
		result = dir_session_detach(&dir->context.session);
	}
	if (dir->forks) {
		dir_watches_leave(dir->context.watches);
		dir->context.watches = NULL;
	}
	destroy(dir);
	return result;
}

/* An absolute path, so that a later chdir() changes nothing, without slashes at its end. */
static int parse_root(char **ret_root, const char *rest, struct err *err)
{
	size_t len = rest ? strlen(rest) : 0;
	if (len == 0 || rest[0] != '/') {
		return err_set(err, BERTH_FAILED,
			"dir:%s is not a registry URL: an absolute path must follow dir:",
			rest ? rest : "");
	}
	while (len > 1 && rest[len - 1] == '/') {
		len--;
	}
	*ret_root = strndup(rest, len);
	return *ret_root ? 0 : err_set(err, BERTH_FAILED, "no memory for a registry");
}

/* The owner and the mode of the files decide about access; new files take them from the root. */
static int dir_check(
	const struct registry_options *options, const char **ret_option, struct err *err)
{
	if (options->secure) {
		*ret_option = "secure";
		return err_set(err, BERTH_FAILED,
			"secure = yes needs a zookeeper:// registry: a directory has no access "
			"control lists, its owner and mode decide");
	}
	return 0;
}

/* One descriptor for what changes in the tree and for a child's report. */
static int make_wake(struct dir_backend *dir, struct err *err)
{
	dir->writer.wake = epoll_create1(EPOLL_CLOEXEC);
	return dir->writer.wake < 0 ? dir_errno(err, errno, "watch", dir->root) : 0;
}

int dir_open_kept(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core,
	const struct dir_keeper *keeper, bool was_there, struct err *err)
{
	struct dir_backend *dir = calloc(1, sizeof(*dir));
	if (!dir) {
		return err_set(err, BERTH_FAILED, "no memory for a registry");
	}
	dir->base = (struct registry_backend){ .ops = &registry_dir_ops, .core = *core };
	list_init(&dir->tasks);
	dir->context.store.root_fd = -1;
	dir->context.store.lock_fd = -1;
	dir->writer.wake = -1;
	dir->context.session.keeper = keeper;
	dir->was_there = was_there;
	dir->state = REGISTRY_CONNECTING;
	dir->forks = options->forks;
	snprintf(dir->session_name, sizeof(dir->session_name), "pid %ld", (long)getpid());
	int result = parse_root(&dir->root, rest, err);
	if (result == 0) {
		result = make_wake(dir, err);
	}
	if (result == 0) {
		result = dir_watches_create(
			&dir->context.watches, dir->root, dir->writer.wake, core, err);
	}
	if (result != 0) {
		destroy(dir);
		return result;
	}
	if (options->session) {
		dir->inherited = json_deep_copy(options->session);
	}
	/* A root that cannot be used now is reported, and tried again, by dispatch(). */
	if (check_root(dir) == 0) {
		adopt_inherited(dir);
	}
	*ret_backend = &dir->base;
	return 0;
}

/*
 * Whether users besides this one can open a directory of the registry, and hold it. A root that is
 * not there will be such a one.
 */
static bool is_open_to_others(const char *root)
{
	char path[PATH_BYTES];
	struct stat stat;
	size_t len = strlen(root);
	for (size_t at = 0; at <= len && len < sizeof(path); at++) {
		if (root[at] != '/' && root[at] != '\0') {
			continue;
		}
		memcpy(path, root, at);
		strcpy(path + at, at == 0 ? "/" : "");
		bool is_ours = lstat(path, &stat) == 0 &&
			(stat.st_uid == geteuid() || stat.st_uid == 0);
		if (is_ours && S_ISDIR(stat.st_mode) &&
			!(stat.st_mode & (S_IXGRP | S_IXOTH | S_IRGRP | S_IROTH))) {
			return false;
		}
	}
	return true;
}

/* A library may be where the program is not; then the calls are its own, as they would be there. */
static const struct registry_backend_ops *dir_choose(
	const char *rest, const struct registry_options *options)
{
	struct err ignored = ERR_INIT;
	bool remote = !options->own_tree && is_open_to_others(rest);
	int program = remote && !options->forks ? looker_program_open(LOOKER_PROGRAM, &ignored)
						: -1;
	if (program >= 0) {
		close(program);
	}
	return remote && (options->forks || program >= 0) ? &registry_dir_remote_ops
							  : &registry_dir_ops;
}

static int dir_open(struct registry_backend **ret_backend, const char *rest,
	const struct registry_options *options, const struct registry_core *core, struct err *err)
{
	return dir_open_kept(ret_backend, rest, options, core, NULL, false, err);
}

const struct registry_backend_ops registry_dir_ops = {
	.scheme = "dir",
	.deletes_all = true,
	.owns = true,
	.check = dir_check,
	.choose = dir_choose,
	.open = dir_open,
	.close = dir_close,
	.detach = dir_detach,
	.session = dir_session_json,
	.fd = dir_fd,
	.deadline_ms = dir_deadline_ms,
	.dispatch = dir_dispatch,
	.submit = dir_submit,
	.abandon = dir_abandon,
	.unwatch = dir_unwatch,
	.session_name = dir_session_name,
	.session_timeout_ms = dir_session_timeout_ms,
};
