#include "lib/base/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/array.h"

int memory_file(const char *name)
{
	static const char *const folders[] = { "/dev/shm", "/tmp", "/var/tmp" };
	int fd = memfd_create(name, MFD_CLOEXEC);
	int error = errno;
	for (size_t i = 0; fd < 0 && i < ARRAY_LEN(folders); i++) {
		char path[32];
		strcpy(stpcpy(path, folders[i]), "/berth-XXXXXX");
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0) {
			unlink(path);
		}
	}
	errno = error; /* the kernel's answer says more than that of the last folder */
	return fd;
}
