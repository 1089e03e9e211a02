#include "agent/base/file_child.h"

#include <errno.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/child.h"
#include "lib/base/close_files.h"

pid_t file_child_start(const struct file_work *work, int lock_fd, int *ret_report)
{
	int report;
	pid_t child = child_fork_reporting(lock_fd < 0, &report);
	if (child == 0) {
		const int kept[] = { STDERR_FILENO, lock_fd, report };
		struct err err = ERR_INIT;
		close_files_but(kept, ARRAY_LEN(kept));
		(void)file_work_do(work, &err);
		child_report(report, &err, sizeof(err));
	}
	if (child < 0) {
		return -errno;
	}
	*ret_report = report;
	return child;
}
