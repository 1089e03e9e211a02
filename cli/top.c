/*
 * top: status, checks and history on one screen or each on its own, drawn again every second and
 * after each key, until q.
 *
 * The output of the three verbs goes into memory first. The screen then gets as many lines as it
 * has rows in one write, so that it neither flickers nor scrolls.
 */
#include "cli/cli.h"
#include "lib/base/array.h"
#include "lib/base/memory_file.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

enum {
	EVERY_MS = 1000,
	HISTORY_MIN = 3,
	HISTORY_ALL = 256,
	ROWS_UNKNOWN = 24,
	COLUMNS_UNKNOWN = 80,
};

/* The other screen, without a cursor; what does not fit into a row is cut, not wrapped. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME "\033[H"
#define INVERSE "\033[7m"
#define PLAIN "\033[0m"
#define TO_EOL "\033[K\n"
#define TO_END "\033[K\033[J"

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

/* Interrupts the wait, so that the screen is drawn in its new size at once. */
static void on_resize(int number)
{
	(void)number;
}

static struct winsize window(void)
{
	struct winsize size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) {
		size = (struct winsize){ .ws_row = ROWS_UNKNOWN, .ws_col = COLUMNS_UNKNOWN };
	}
	return size;
}

/* ---- what it shows ---- */

enum view { VIEW_ALL, VIEW_STATUS, VIEW_CHECKS, VIEW_HISTORY, VIEW_END };

static const char *const view_names[] = { "all", "status", "checks", "history" };

struct screen {
	enum view view;
	size_t top;  /* the first line that is shown */
	size_t room; /* lines that fit, without the help line */
	size_t lines;
};

/* The content of one screen; NULL for requests that the agent did not answer. */
struct documents {
	json_t *agent;
	json_t *checks;
	json_t *history;
	struct berth_failure failure; /* when something is NULL */
};

typedef int ask(struct berth *berth, struct berth_answer *ret, struct berth_failure *failure);

static json_t *fetch(struct cli *cli, ask *question, struct berth_failure *failure)
{
	struct berth_answer answer;
	return question(cli->berth, &answer, failure) == 0 ? cli_parse_take(&answer) : NULL;
}

static void fetch_all(struct cli *cli, struct documents *ret)
{
	*ret = (struct documents){ 0 };
	ret->agent = fetch(cli, berth_status, &ret->failure);
	ret->checks = ret->agent ? fetch(cli, berth_checks, &ret->failure) : NULL;
	ret->history = ret->checks ? fetch(cli, berth_history, &ret->failure) : NULL;
}

static void release_all(struct documents *documents)
{
	json_decref(documents->agent);
	json_decref(documents->checks);
	json_decref(documents->history);
}

static bool shows(enum view view, enum view part)
{
	return view == VIEW_ALL || view == part;
}

static void print_view(
	struct cli *cli, const struct documents *documents, enum view view, size_t history_count)
{
	if (documents->agent && shows(view, VIEW_STATUS)) {
		cli_print_status(cli, documents->agent);
	}
	if (json_array_size(documents->checks) > 0 && shows(view, VIEW_CHECKS)) {
		fputs(view == VIEW_ALL ? "\n" : "", stdout);
		cli_print_checks(cli, documents->checks);
	}
	if (json_array_size(documents->history) > 0 && shows(view, VIEW_HISTORY)) {
		fputs(view == VIEW_ALL ? "\n" : "", stdout);
		cli_print_history(cli, documents->history, history_count);
	}
	if (!documents->history) {
		fputs("no answer from the agent: ", stdout);
		output_line(documents->failure.message);
	}
}

/* All that is in a file; free(). NULL without memory. */
static char *read_all(int fd)
{
	struct stat stat;
	char *text = fstat(fd, &stat) == 0 ? calloc(1, (size_t)stat.st_size + 1) : NULL;
	if (text && pread(fd, text, (size_t)stat.st_size, 0) != stat.st_size) {
		*text = '\0';
	}
	return text;
}

/* The output of print_view(); free(). NULL when the kernel or malloc() refuses. */
static char *capture(
	struct cli *cli, const struct documents *documents, enum view view, size_t history_count)
{
	char *text = NULL;
	fflush(stdout);
	int terminal = dup(STDOUT_FILENO);
	int memory = memory_file("berth-top");
	if (terminal >= 0 && memory >= 0 && dup2(memory, STDOUT_FILENO) >= 0) {
		print_view(cli, documents, view, history_count);
		fflush(stdout);
		dup2(terminal, STDOUT_FILENO);
		text = read_all(memory);
	}
	if (memory >= 0) {
		close(memory);
	}
	if (terminal >= 0) {
		close(terminal);
	}
	return text;
}

static size_t count_lines(const char *text)
{
	size_t count = 0;
	for (; (text = strchr(text, '\n')) != NULL; text++) {
		count++;
	}
	return count;
}

/* All on one screen: with as much history as it has room for; the newest are the last lines. */
static char *capture_fitting(struct cli *cli, const struct documents *documents, size_t room)
{
	size_t history = room;
	char *text = capture(cli, documents, VIEW_ALL, history);
	while (text && count_lines(text) > room && history > HISTORY_MIN) {
		size_t excess = count_lines(text) - room;
		history = history > excess + HISTORY_MIN ? history - excess : HISTORY_MIN;
		free(text);
		text = capture(cli, documents, VIEW_ALL, history);
	}
	return text;
}

/* ---- drawing ---- */

/* In the last row, cut where the terminal ends. */
static void draw_help(const struct screen *screen)
{
	char text[128];
	size_t last = screen->top + screen->room;
	int len = snprintf(text, sizeof(text), "q quit  Tab or 1-4: %s  Up/Down: %zu-%zu of %zu",
		view_names[screen->view], screen->lines ? screen->top + 1 : 0,
		last < screen->lines ? last : screen->lines, screen->lines);
	int width = window().ws_col;
	printf(INVERSE "%.*s" PLAIN TO_END, len < width ? len : width, text);
}

static void draw_lines(const struct screen *screen, const char *text)
{
	for (size_t i = 0; i < screen->top + screen->room && *text; i++) {
		size_t len = strcspn(text, "\n");
		if (i >= screen->top) {
			printf("%.*s" TO_EOL, (int)len, text);
		}
		text += len + (text[len] == '\n');
	}
}

static void draw(struct cli *cli, struct screen *screen)
{
	struct documents documents;
	output_init(&cli->output, false);
	fetch_all(cli, &documents);
	screen->room = window().ws_row > 1 ? (size_t)window().ws_row - 1 : 1;
	char *text = screen->view == VIEW_ALL ? capture_fitting(cli, &documents, screen->room)
					      : capture(cli, &documents, screen->view, HISTORY_ALL);
	release_all(&documents);
	screen->lines = text ? count_lines(text) : 0;
	size_t most = screen->lines > screen->room ? screen->lines - screen->room : 0;
	screen->top = screen->top < most ? screen->top : most;
	fputs(HOME, stdout);
	draw_lines(screen, text ? text : "");
	fputs("\033[J", stdout);
	printf("\033[%zu;1H", screen->room + 1);
	draw_help(screen);
	fflush(stdout);
	free(text);
}

/* ---- keys ---- */

static void show(struct screen *screen, enum view view)
{
	screen->view = view;
	screen->top = view == VIEW_HISTORY ? SIZE_MAX : 0; /* its newest items are the last ones */
}

static void scroll_up(struct screen *screen, size_t lines)
{
	screen->top = screen->top > lines ? screen->top - lines : 0;
}

/* draw() holds it within what there is. */
static void scroll_down(struct screen *screen, size_t lines)
{
	screen->top += lines;
}

/* The bytes that a terminal sends for keys without a character. */
static const struct {
	const char *bytes;
	char key; /* that means the same */
} sequences[] = {
	{ "\033[A", 'k' },
	{ "\033OA", 'k' },
	{ "\033[B", 'j' },
	{ "\033OB", 'j' },
	{ "\033[5~", 'b' },
	{ "\033[6~", ' ' },
	{ "\033[H", 'g' },
	{ "\033[1~", 'g' },
	{ "\033[F", 'G' },
	{ "\033[4~", 'G' },
};

static char key_of(const char *bytes, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(sequences); i++) {
		if (strlen(sequences[i].bytes) == len &&
			memcmp(sequences[i].bytes, bytes, len) == 0) {
			return sequences[i].key;
		}
	}
	return len == 1 ? *bytes : '\0';
}

/* False: it ends. */
static bool take_key(struct screen *screen, char key)
{
	switch (key) {
	case 'q':
	case 'Q':
	case 3:
		return false;
	case 'k':
		scroll_up(screen, 1);
		break;
	case 'j':
		scroll_down(screen, 1);
		break;
	case 'b':
		scroll_up(screen, screen->room);
		break;
	case ' ':
		scroll_down(screen, screen->room);
		break;
	case 'g':
		screen->top = 0;
		break;
	case 'G':
		screen->top = screen->lines;
		break;
	case '\t':
		show(screen, (screen->view + 1) % VIEW_END);
		break;
	default:
		if (key >= '1' && key < '1' + VIEW_END) {
			show(screen, (enum view)(key - '1'));
		}
		break;
	}
	return true;
}

/* Until the next drawing, or a key; true to go on. A signal, such as a new size, ends it too. */
static bool wait_for_key(struct screen *screen)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char bytes[8];
	if (poll(&input, 1, EVERY_MS) <= 0) {
		return !stopped;
	}
	ssize_t len = read(STDIN_FILENO, bytes, sizeof(bytes));
	return len > 0 && take_key(screen, key_of(bytes, (size_t)len));
}

int verb_top(struct cli *cli)
{
	struct termios before;
	output_init(&cli->output, false);
	if (!cli->output.terminal || tcgetattr(STDIN_FILENO, &before) != 0) {
		return output_usage(
			"top needs a terminal; for programs there are status, checks and "
			"history, with --json");
	}
	struct sigaction action = { .sa_handler = on_signal };
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	struct sigaction resized = { .sa_handler = on_resize };
	sigaction(SIGWINCH, &resized, NULL);
	struct termios raw = before;
	raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	fputs(ENTER, stdout);
	struct screen screen = { .view = VIEW_ALL };
	do {
		draw(cli, &screen);
	} while (!stopped && wait_for_key(&screen));
	fputs(LEAVE, stdout);
	fflush(stdout);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	return 0;
}
