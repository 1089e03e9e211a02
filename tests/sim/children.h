/*
 * Commands without processes: a child of a simulated process is a plan. It writes what the
 * simulated application says, and ends by its time or by a signal.
 */
#ifndef TESTS_SIM_CHILDREN_H
#define TESTS_SIM_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>

struct process;

/* The future of a command. */
struct children_plan {
	bool fails_to_start;
	int64_t takes_ms;
	int status; /* of its exit */
	const char *output;
	bool ignores_term;
};

/* Sets the planner: it gets the number of the process and the words of the command. */
void children_plan_by(struct children_plan (*plan)(int number, char *const *argv));

/* Ends children whose time has come. */
void children_step(void);
int64_t children_due_ms(void);
/* Their parent is gone. */
void children_forget(const struct process *process);

#endif
