/* How many elements an array has, whose size the compiler knows. */
#ifndef LIB_BASE_ARRAY_H
#define LIB_BASE_ARRAY_H

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

#endif
