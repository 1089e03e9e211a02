/*
 * Simulated processes: each runs a whole program, from its main function on, on a stack of its own
 * in this process.
 *
 *   STARTING --first turn--> SLEEPING <--epoll_wait() and its time, a signal, bytes--> (runs)
 *   SLEEPING --execv()--> STARTING
 *   SLEEPING --main returns, _exit(), abort(), a signal without handler--> ENDED
 *   any --process_destroy()--> (nothing is left: the process was killed)
 *
 * The program is linked into one object, agent.ld, whose variables lie in a section of their own.
 * The simulation exchanges the contents of that section when another process runs, so that each has
 * its own variables. Memory is counted and freed by process (memory.h), and so are descriptors
 * (files.c). Unix sockets and pipes are in memory (sockets.c); files and Internet sockets are the
 * kernel's own: what happens between processes that run in turns is determined by the turns.
 */
#ifndef TESTS_SIM_PROCESS_H
#define TESTS_SIM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "lib/base/list.h"
#include "tests/sim/memory.h"

struct process;

/* The first process that is started decides which main function all of them run. */
struct process *process_start(int number, char **argv);
/* As if SIGKILL had ended it; accepts NULL. */
void process_destroy(struct process *process);

/* Runs until the process sleeps or ends. */
void process_run(struct process *process);
/* When it wants to run again without a signal and without bytes. */
int64_t process_due_ms(const struct process *process);
/* Bytes have come, or a child has ended: it may have to do something now. */
void process_wake(struct process *process);
/* The bytes have come through the kernel. */
void process_wake_by_kernel(struct process *process);
/* Another number when the kernel has told it of bytes. */
unsigned process_told_by_kernel(const struct process *process);
void process_signal(struct process *process, int signal_number);

bool process_has_ended(const struct process *process);
/* As waitpid() reports it. */
int process_status(const struct process *process);
int process_number(const struct process *process);
/* Since the last question it has sent or closed something, or ended. */
bool process_has_acted(struct process *process);
struct memory *process_memory(struct process *process);
/* That it has open. */
int process_descriptors(const struct process *process);

/* ---- for the places where the program leaves for the simulation ---- */

/* The process that runs; NULL while the simulation does. */
struct process *process_current(void);
/* The simulation's own code runs until process_resume(), though it was called by the process. */
struct process *process_pause(void);
void process_resume(struct process *process);
/* Gives up the processor until the time, or until something wakes the process. */
void process_sleep_until(int64_t at_ms);
/* The process that runs sends or closes something. */
void process_acts(void);
/* The process ends at this place. */
_Noreturn void process_end(int status);
/* The program begins anew, with the same arguments. */
_Noreturn void process_execute(void);
/* Calls the handlers of signals that are pending and not blocked; true when there were any. */
bool process_take_signals(void);
/* A poll without sleep; too many of them in one millisecond are a loop that never ends. */
void process_count_poll(void);

/* ---- files.c: descriptors ---- */

/* It has one more, or one less; nothing for NULL, the simulation itself. */
void process_count_descriptor(struct process *process, int change);
/* The sockets that its epoll watches. */
struct list *process_watched(struct process *process);

/* Whether the outer epoll watches the inner one, and with which data. */
bool files_is_watched(int inner, int outer, epoll_data_t *ret_data);
/* Somebody may have changed files that another one watches: true once after it. */
void files_change(void);
bool files_have_changed(void);
/* Its inotify instances have events that it has not read. */
bool files_have_news(const struct process *process);

/* The process that runs gets it, and it is closed with the process. */
int files_own(int fd);

void files_close_all(const struct process *process);
void files_close_on_exec(const struct process *process);

#endif
