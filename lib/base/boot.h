/* Which boot of the machine this is: clocks and process ids begin again with another one. */
#ifndef LIB_BASE_BOOT_H
#define LIB_BASE_BOOT_H

enum { BOOT_BYTES = 64 };

/* The kernel's id of it; "" where it does not tell. */
void boot_read(char boot[BOOT_BYTES]);

#endif
