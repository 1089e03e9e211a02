#include "lib/base/late_close.h"

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/child.h"
#include "lib/base/close_files.h"

void late_close(int fd)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC)) {
		close(fd);
		return;
	}
	if (child_fork(false) == 0) {
		/* Until the caller has closed its copy, and with it the other end of the pipe. */
		const int kept[] = { fd, ends[0] };
		char byte;
		close_files_but(kept, 2);
		(void)!read(ends[0], &byte, 1);
		_exit(0);
	}
	close(ends[0]);
	close(fd);
	close(ends[1]);
}
