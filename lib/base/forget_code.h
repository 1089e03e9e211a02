/*
 * Memory of code that only the start of a program needed.
 */
#ifndef LIB_BASE_FORGET_CODE_H
#define LIB_BASE_FORGET_CODE_H

/*
 * Gives the pages of code and constants back, of the program and of its libraries. A page that is
 * used again comes from the file again, out of the kernel's cache. Breakpoints that a debugger has
 * set before are gone.
 */
void forget_code(void);

#endif
