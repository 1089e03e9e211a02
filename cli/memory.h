/*
 * Memory for the command: without it the command says so and ends with EXIT_FAILURE, so that no
 * verb has a branch for it, and no output is shorter than it should be. libberth (lib/) reports a
 * failed allocation of its own to the verb that called it.
 */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

/* Lets JSON and buffers end the command too. Before any of them is made. */
void memory_init(void);

/* `memory` itself: for the result of a function that is NULL only without memory. */
void *memory_must(void *memory);

#endif
