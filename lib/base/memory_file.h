/*
 * A file without a name, which takes no care for a reader that comes late or not at all.
 */
#ifndef LIB_BASE_MEMORY_FILE_H
#define LIB_BASE_MEMORY_FILE_H

/*
 * An empty file for reading and writing, closed by exec; -1 with errno. In memory where the kernel
 * has memfd_create() (Linux 3.17) and the container's runtime permits it; else below /dev/shm, /tmp
 * or /var/tmp, where nobody else can open it. `name` shows in /proc.
 */
int memory_file(const char *name);

#endif
