/* longjmp() goes from one stack to another here, which its checked form takes for an error. */
#undef _FORTIFY_SOURCE

#include "tests/sim/process.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/agent.h"
#include "tests/sim/children.h"
#include "tests/sim/file_children.h"
#include "tests/sim/sim.h"
#include "tests/sim/sockets.h"

enum { STACK_BYTES = 1 << 20, MOST_POLLS = 3000, SIGNALS = 65 };

enum state { STARTING, SLEEPING, EXECUTING, ENDED };

struct process {
	int number;
	enum state state;
	char **argv;
	void *stack;
	char *image;        /* its variables while another process runs */
	ucontext_t context; /* where the program begins */
	jmp_buf place;      /* where it sleeps */
	struct memory memory;
	int descriptors;
	struct list watched;
	int64_t wake_ms;
	bool awake;
	bool was_woken;   /* before its time */
	bool asks_kernel; /* there may be news for its descriptors */
	unsigned told;    /* by the kernel, so often */
	bool acted;       /* since the simulation asked: it may have sent bytes */
	int polls;        /* since the clock stepped */
	int64_t polls_ms;
	int status;
	uint64_t blocked; /* signals: a bit each */
	uint64_t pending;
	struct sigaction actions[SIGNALS];
};

/* The variables of the program, between processes. */
extern char __start_agent_data[], __stop_agent_data[];

static struct process *current;
static struct process *loaded; /* whose variables the program's section holds */
static char *fresh;            /* the variables as they are when the program begins */
static jmp_buf simulation;
static void *stacks[SIM_MOST];
static void *heaps[SIM_MOST];

static size_t image_bytes(void)
{
	return (size_t)(__stop_agent_data - __start_agent_data);
}

/* ---- the two sides of a switch ---- */

#ifdef __SANITIZE_ADDRESS__
void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *save, const void **bottom_old, size_t *size_old);
void __asan_unpoison_memory_region(void const volatile *addr, size_t size);
static const void *simulation_bottom;
static size_t simulation_size;
#endif

/* Between the variables of the program lie bytes that a sanitizer guards. */
__attribute__((no_sanitize("address"), noinline)) static void copy_image(char *to, const char *from)
{
#ifdef __SANITIZE_ADDRESS__
	for (size_t i = 0; i < image_bytes(); i++) {
		((volatile char *)to)[i] = ((const volatile char *)from)[i];
	}
#else
	memcpy(to, from, image_bytes());
#endif
}

static void enter(struct process *process)
{
#ifdef __SANITIZE_ADDRESS__
	void *fake = NULL;
	__sanitizer_start_switch_fiber(&fake, process->stack, STACK_BYTES);
#endif
	/* swapcontext() would ask the kernel for its signals at each switch. */
	if (_setjmp(simulation) == 0) {
		if (process->state == STARTING) {
			setcontext(&process->context);
		}
		_longjmp(process->place, 1);
	}
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
}

static void leave(struct process *process)
{
#ifdef __SANITIZE_ADDRESS__
	void *fake = NULL;
	__sanitizer_start_switch_fiber(&fake, simulation_bottom, simulation_size);
#endif
	if (_setjmp(process->place) == 0) {
		_longjmp(simulation, 1);
	}
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(fake, &simulation_bottom, &simulation_size);
#endif
}

/* ---- life ---- */

static void begin(void)
{
#ifdef __SANITIZE_ADDRESS__
	__sanitizer_finish_switch_fiber(NULL, &simulation_bottom, &simulation_size);
#endif
	int argc = 0;
	optind = 0; /* the C library's, which all of them share */
	while (current->argv[argc]) {
		argc++;
	}
	process_end((agent_main(argc, current->argv) & 0xff) << 8);
}

static void prepare(struct process *process)
{
	copy_image(process->image, fresh);
	if (loaded == process) {
		loaded = NULL;
	}
#ifdef __SANITIZE_ADDRESS__
	__asan_unpoison_memory_region(process->stack, STACK_BYTES);
#endif
	memset(process->actions, 0, sizeof(process->actions));
	getcontext(&process->context);
	process->context.uc_stack.ss_sp = process->stack;
	process->context.uc_stack.ss_size = STACK_BYTES;
	process->context.uc_link = NULL;
	makecontext(&process->context, begin, 0);
	process->state = STARTING;
	process->awake = true;
}

/* Those of one number have the same one, one after the other. */
static void *space_of(void *spaces[SIM_MOST], int number, size_t bytes)
{
	if (!spaces[number]) {
		spaces[number] = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
		if (spaces[number] == MAP_FAILED) {
			abort();
		}
	}
	return spaces[number];
}

struct process *process_start(int number, char **argv)
{
	struct process *process = calloc(1, sizeof(*process));
	if (!fresh) {
		fresh = malloc(image_bytes());
		copy_image(fresh, __start_agent_data);
	}
	process->number = number;
	list_init(&process->watched);
	process->argv = argv;
	process->stack = space_of(stacks, number, STACK_BYTES);
	process->memory.heap = space_of(heaps, number, MEMORY_BYTES);
	process->image = malloc(image_bytes());
	prepare(process);
	return process;
}

void process_destroy(struct process *process)
{
	if (!process) {
		return;
	}
	files_change();
	children_forget(process);
	file_children_forget(process);
	files_close_all(process);
	memory_free_all(&process->memory);
	if (loaded == process) {
		loaded = NULL;
	}
	free(process->image);
	free(process);
}

static void load(struct process *process)
{
	if (loaded == process) {
		return;
	}
	if (loaded) {
		copy_image(loaded->image, __start_agent_data);
	}
	copy_image(__start_agent_data, process->image);
	loaded = process;
}

void process_run(struct process *process)
{
	if (process->state == ENDED) {
		return;
	}
	files_change();
	do {
		load(process);
		process->was_woken = process->awake;
		process->awake = false;
		current = process;
		memory_use(&process->memory);
		enter(process);
		memory_use(NULL);
		current = NULL;
		if (process->state == EXECUTING) {
			files_close_on_exec(process);
			memory_free_all(&process->memory);
			prepare(process);
			process->acted = true;
		}
	} while (process->state == STARTING);
}

/* ---- for the simulation ---- */

static uint64_t signal_bit(int number)
{
	return UINT64_C(1) << (number - 1);
}

int64_t process_due_ms(const struct process *process)
{
	return process->state == ENDED ? INT64_MAX
		: process->awake       ? sim_now_ms()
				       : process->wake_ms;
}

void process_wake(struct process *process)
{
	process->awake = true;
}

void process_wake_by_kernel(struct process *process)
{
	process->awake = true;
	process->asks_kernel = true;
}

unsigned process_told_by_kernel(const struct process *process)
{
	return process->told;
}

void process_signal(struct process *process, int signal_number)
{
	process->pending |= signal_bit(signal_number);
	process->awake = true;
}

bool process_has_acted(struct process *process)
{
	bool acted = process->acted;
	process->acted = false;
	return acted || process->state == ENDED;
}

bool process_has_ended(const struct process *process)
{
	return process->state == ENDED;
}

int process_status(const struct process *process)
{
	return process->status;
}

int process_number(const struct process *process)
{
	return process->number;
}

struct memory *process_memory(struct process *process)
{
	return &process->memory;
}

int process_descriptors(const struct process *process)
{
	return process->descriptors;
}

void process_count_descriptor(struct process *process, int change)
{
	if (process) {
		process->descriptors += change;
	}
}

struct list *process_watched(struct process *process)
{
	return &process->watched;
}

/* ---- for the program ---- */

struct process *process_current(void)
{
	return current;
}

void process_acts(void)
{
	if (current) {
		current->acted = true;
	}
}

struct process *process_pause(void)
{
	struct process *process = current;
	current = NULL;
	memory_use(NULL);
	return process;
}

void process_resume(struct process *process)
{
	current = process;
	memory_use(process ? &process->memory : NULL);
}

void process_sleep_until(int64_t at_ms)
{
	struct process *process = current;
	process->wake_ms = at_ms;
	process->state = SLEEPING;
	leave(process);
}

void process_end(int status)
{
	struct process *process = current;
	process->status = status;
	process->state = ENDED;
	for (;;) {
		leave(process);
	}
}

void process_execute(void)
{
	struct process *process = current;
	process->state = EXECUTING;
	for (;;) {
		leave(process);
	}
}

void process_count_poll(void)
{
	struct process *process = current;
	process->polls = process->polls_ms == sim_now_ms() ? process->polls + 1 : 0;
	process->polls_ms = sim_now_ms();
	if (process->polls == MOST_POLLS) {
		sim_fail("agent %d never sleeps", process->number);
		process_end(SIGKILL);
	}
}

/* ---- signals ---- */

static bool is_ignored_by_default(int number)
{
	return number == SIGCHLD || number == SIGWINCH || number == SIGCONT || number == SIGURG;
}

bool process_take_signals(void)
{
	struct process *process = current;
	bool taken = false;
	for (int number = 1; number < SIGNALS && process->pending & ~process->blocked; number++) {
		if (!(process->pending & ~process->blocked & signal_bit(number))) {
			continue;
		}
		process->pending &= ~signal_bit(number);
		void (*handler)(int) = process->actions[number].sa_handler;
		if (handler == SIG_IGN || (handler == SIG_DFL && is_ignored_by_default(number))) {
			continue;
		}
		if (handler == SIG_DFL) {
			process_end(number);
		}
		handler(number);
		taken = true;
	}
	return taken;
}

int sigaction(
	int number, const struct sigaction *restrict action, struct sigaction *restrict before)
{
	if (!current) {
		return (int)syscall(SYS_rt_sigaction, number, NULL, NULL, 8);
	}
	if (before) {
		*before = current->actions[number];
	}
	if (action) {
		current->actions[number] = *action;
	}
	return 0;
}

__sighandler_t signal(int number, __sighandler_t handler)
{
	struct sigaction before;
	const struct sigaction action = { .sa_handler = handler };
	sigaction(number, &action, &before);
	return before.sa_handler;
}

static void get_signals(uint64_t signals, sigset_t *ret_set)
{
	sigemptyset(ret_set);
	for (int number = 1; number < SIGNALS; number++) {
		if (signals & signal_bit(number)) {
			sigaddset(ret_set, number);
		}
	}
}

int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
	if (!current) {
		return 0;
	}
	if (before) {
		get_signals(current->blocked, before);
	}
	for (int number = 1; set && number < SIGNALS; number++) {
		bool named = sigismember(set, number) == 1;
		if (how == SIG_SETMASK ? named : named && how == SIG_BLOCK) {
			current->blocked |= signal_bit(number);
		} else if (how == SIG_SETMASK || named) {
			current->blocked &= ~signal_bit(number);
		}
	}
	process_take_signals();
	return 0;
}

int sigpending(sigset_t *ret_set)
{
	get_signals(current->pending, ret_set);
	return 0;
}

/* ---- waiting ---- */

/*
 * Asks the kernel without waiting; then sleeps in virtual time. A poll takes a microsecond
 * (clock.c), since a timer of libev fires only when its time has passed. With `returns_early` an
 * early end of the sleep ends the wait. When nothing but time has passed, the kernel has no news.
 */
static int wait_for(int (*ask)(void *context), void *context, int timeout_ms, bool returns_early)
{
	bool slept = false;
	int64_t until_ms = timeout_ms < 0 ? INT64_MAX : sim_now_ms() + timeout_ms;
	for (;;) {
		process_count_poll();
		sim_clock_poll();
		if (process_take_signals()) {
			errno = EINTR;
			return -1;
		}
		if (slept && !current->was_woken) {
			return 0;
		}
		int count = ask(context);
		if (count != 0 || sim_now_ms() >= until_ms || (slept && returns_early)) {
			return count;
		}
		process_sleep_until(until_ms);
		slept = true;
	}
}

struct epoll_call {
	int fd;
	struct epoll_event *events;
	int max;
};

static int ask_epoll(void *context)
{
	const struct epoll_call *call = context;
	int count = sockets_ready(current, call->fd, call->events, call->max);
	if (count == 0 && current->asks_kernel) {
		count = (int)syscall(
			SYS_epoll_pwait, call->fd, call->events, call->max, 0, NULL, 8);
		current->asks_kernel = count > 0;
		current->told += count > 0;
	}
	return count;
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	struct epoll_call call = { fd, events, max };
	return wait_for(ask_epoll, &call, timeout_ms, true);
}

struct poll_call {
	struct pollfd *fds;
	nfds_t count;
};

static int ask_poll(void *context)
{
	const struct poll_call *call = context;
	const struct timespec none = { 0 };
	if (call->count > 0 && sockets_has(call->fds->fd)) { /* then all of them are in memory */
		int count = 0;
		for (nfds_t i = 0; i < call->count; i++) {
			struct pollfd *asked = &call->fds[i];
			asked->revents = sockets_poll(asked->fd, asked->events);
			count += asked->revents != 0;
		}
		return count;
	}
	return call->count ? (int)syscall(SYS_ppoll, call->fds, call->count, &none, NULL, 8) : 0;
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	struct poll_call call = { fds, count };
	return current ? wait_for(ask_poll, &call, timeout_ms, false) : ask_poll(&call);
}

/* poll() of an array whose size the compiler knows. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size);
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t size)
{
	(void)size;
	return poll(fds, count, timeout_ms);
}

/* ---- the end, and what needs no simulation ---- */

void _exit(int status)
{
	if (current) {
		process_end((status & 0xff) << 8);
	}
	syscall(SYS_exit_group, status);
	__builtin_unreachable();
}

/* The handlers of exit() belong to the whole simulation. */
void exit(int status)
{
	if (!current) {
		fflush(NULL);
	}
	_exit(status);
}

void abort(void)
{
	if (current) {
		process_end(SIGABRT);
	}
	syscall(SYS_kill, syscall(SYS_getpid), SIGABRT);
	__builtin_trap();
}

int execv(const char *path, char *const argv[])
{
	(void)path;
	(void)argv;
	process_execute();
}

pid_t getpid(void)
{
	return current ? 1000 + current->number : (pid_t)syscall(SYS_getpid);
}

int prctl(int option, ...);
int prctl(int option, ...)
{
	(void)option;
	return 0;
}
