/*
 * The end of a program that prints: a disk may be full, and a reader may be gone.
 */
#ifndef LIB_PROGRAM_PRINT_END_H
#define LIB_PROGRAM_PRINT_END_H

/*
 * `status`, or EXIT_FAILURE in the place of 0 when part of stdout could not be written. Says why,
 * unless the reader has seen enough.
 */
int print_end(int status);

#endif
