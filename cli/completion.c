/*
 * completion: the scripts that complete a command line of `berth` in a shell, written from the
 * tables of verbs and options.
 *
 * bash asks a function for the words, zsh and fish take a list of rules. PATH operands are
 * completed by asking the registry's tree through `berth ls`, which is quick on an agent and gives
 * nothing without one.
 */
#include "cli/verbs.h"
#include "lib/base/array.h"

#include <stdio.h>
#include <string.h>

/* Where the values of STATUS and SHELL come from. */
static const char *words_of_operand(const char *operand)
{
	return strcmp(operand, "STATUS") == 0   ? "passing warning failing"
		: strcmp(operand, "SHELL") == 0 ? "bash zsh fish"
						: "";
}

static bool completes_paths(const struct verb *verb)
{
	return verb->operands[0] && strcmp(verb->operands[0], "PATH") == 0;
}

/* The words that complete the operands of a verb, apart from paths. */
static void print_operand_words(const struct verb *verb)
{
	for (size_t i = 0; i < VERB_OPERANDS && verb->operands[i]; i++) {
		const char *words = words_of_operand(verb->operands[i]);
		printf("%s%s", *words ? " " : "", words);
		for (size_t j = 0; strcmp(verb->operands[i], "VERB") == 0 && j < verb_count; j++) {
			printf(" %s", verbs[j].name);
		}
	}
}

/* "a|b|c" with blanks for the bars. */
static void print_words(const char *words)
{
	for (; *words; words++) {
		putchar(*words == '|' ? ' ' : *words);
	}
}

/* ---- bash ---- */

static void bash_option_word(void *context, const struct option_text *option)
{
	(void)context;
	printf(" --%s", option->name);
	if (option->letter) {
		printf(" -%c", option->letter);
	}
}

static void bash_option_values(void *context, const struct option_text *option)
{
	(void)context;
	if (!option->argument) {
		return;
	}
	printf("\t\t--%s", option->name);
	if (option->letter) {
		printf("|-%c", option->letter);
	}
	printf(") ");
	if (option->words) {
		printf("words=\"");
		print_words(option->words);
		printf("\" ;;\n");
	} else if (strcmp(option->argument, "FILE") == 0 || strcmp(option->name, "socket") == 0) {
		printf("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); "
		       "return ;;\n");
	} else {
		printf("return ;;\n");
	}
}

static void print_bash_verbs(void)
{
	for (size_t i = 0; i < verb_count; i++) {
		printf("\t\t%s) words=\"", verbs[i].name);
		options_each(verbs[i].options, bash_option_word, NULL);
		print_operand_words(&verbs[i]);
		printf("\"%s ;;\n", completes_paths(&verbs[i]) ? "; paths=yes" : "");
	}
}

static void print_bash(void)
{
	puts("# bash completion of berth; written by `berth completion bash`.\n"
	     "_berth()\n"
	     "{\n"
	     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	     "\tlocal verb='' words='' paths=no i\n"
	     "\tCOMPREPLY=()\n"
	     "\tcase $prev in");
	options_each(UINT64_MAX, bash_option_values, NULL);
	puts("\tesac\n"
	     "\tif [ -n \"$words\" ]; then\n"
	     "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	     "\t\tcase ${COMP_WORDS[i]} in");
	printf("\t\t");
	for (size_t i = 0; i < verb_count; i++) {
		printf("%s%s", i ? "|" : "", verbs[i].name);
	}
	puts(") verb=${COMP_WORDS[i]}; break ;;\n"
	     "\t\tesac\n"
	     "\tdone\n"
	     "\tcase $verb in");
	print_bash_verbs();
	printf("\t\t*) words=\"");
	for (size_t i = 0; i < verb_count; i++) {
		printf(" %s", verbs[i].name);
	}
	puts("\" ;;\n\tesac");
	printf("\twords=\"$words");
	options_each(options_everywhere(), bash_option_word, NULL);
	puts("\"\n"
	     "\tif [ $paths = yes ] && [ \"${cur:0:1}\" = / ]; then\n"
	     "\t\tlocal parent=${cur%/*}\n"
	     "\t\twords=$(berth --timeout 1s ls \"${parent:-/}\" 2>/dev/null)\n"
	     "\t\tcompopt -o nospace\n"
	     "\tfi\n"
	     "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	     "}\n"
	     "complete -F _berth berth");
}

/* ---- zsh ---- */

/* A help text inside '…[help]…': no quote, bracket or colon may end it. */
static void zsh_help(const char *help)
{
	for (; *help; help++) {
		if (strchr("[]:\\", *help)) {
			putchar('\\');
		}
		if (*help == '\'') {
			fputs("'\\''", stdout);
		} else {
			putchar(*help);
		}
	}
}

static void zsh_option(void *context, const struct option_text *option)
{
	(void)context;
	const char *const value = option->argument;
	for (int i = 0; i < 2; i++) {
		if (i == 1 && !option->letter) {
			continue;
		}
		if (i == 0) {
			printf("\t\t\t'--%s[", option->name);
		} else {
			printf("\t\t\t'-%c[", option->letter);
		}
		zsh_help(option->help);
		putchar(']');
		if (value && option->words) {
			printf(":value:(");
			print_words(option->words);
			putchar(')');
		} else if (value) {
			printf(":%s:%s", strcmp(value, "HOST:PORT") == 0 ? "HOST" : value,
				strcmp(value, "FILE") == 0 ? "_files" : "");
		}
		puts("' \\");
	}
}

static void print_zsh_verb(const struct verb *verb)
{
	printf("\t%s)\n\t\t_arguments -s \\\n", verb->name);
	options_each(verb->options | options_everywhere(), zsh_option, NULL);
	printf("\t\t\t'*: :");
	if (completes_paths(verb)) {
		printf("_berth_paths");
	} else {
		putchar('(');
		print_operand_words(verb);
		putchar(')');
	}
	puts("' ;;");
}

static void print_zsh(void)
{
	puts("#compdef berth\n"
	     "# zsh completion of berth; written by `berth completion zsh`.\n"
	     "_berth_paths() {\n"
	     "\tlocal parent=${PREFIX%/*}\n"
	     "\tlocal -a found\n"
	     "\tfound=(${(f)\"$(berth --timeout 1s ls ${parent:-/} 2>/dev/null)\"})\n"
	     "\tcompadd -S '' -a found\n"
	     "}\n"
	     "_berth() {\n"
	     "\tlocal -a verbs=(");
	for (size_t i = 0; i < verb_count; i++) {
		printf("\t\t'%s:", verbs[i].name);
		zsh_help(verbs[i].help);
		puts("'");
	}
	puts("\t)\n"
	     "\tlocal word verb=\n"
	     "\tfor word in ${words[2,CURRENT-1]}; do\n"
	     "\t\tif (( ${verbs[(I)$word:*]} )); then verb=$word; break; fi\n"
	     "\tdone\n"
	     "\tcase $verb in");
	for (size_t i = 0; i < verb_count; i++) {
		print_zsh_verb(&verbs[i]);
	}
	puts("\t*)\n\t\t_arguments -s \\");
	options_each(options_everywhere(), zsh_option, NULL);
	puts("\t\t\t'*: :{ _describe verb verbs }' ;;\n"
	     "\tesac\n"
	     "}\n"
	     "compdef _berth berth");
}

/* ---- fish ---- */

/* A help text in single quotes. */
static void fish_quote(const char *text)
{
	putchar('\'');
	for (; *text; text++) {
		if (strchr("'\\", *text)) {
			putchar('\\');
		}
		putchar(*text);
	}
	putchar('\'');
}

static void fish_option(void *context, const struct option_text *option)
{
	const char *verb = context;
	printf("complete -c berth -l %s", option->name);
	if (option->letter) {
		printf(" -s %c", option->letter);
	}
	if (verb) {
		printf(" -n '__fish_seen_subcommand_from %s'", verb);
	}
	if (option->words) {
		printf(" -x -a '");
		print_words(option->words);
		putchar('\'');
	} else if (option->argument) {
		fputs(strcmp(option->argument, "FILE") == 0 ? " -r -F" : " -x", stdout);
	}
	printf(" -d ");
	fish_quote(option->help);
	putchar('\n');
}

static void print_fish_verb(const struct verb *verb)
{
	printf("complete -c berth -n __fish_use_subcommand -a %s -d ", verb->name);
	fish_quote(verb->help);
	putchar('\n');
	options_each(verb->options, fish_option, (void *)verb->name);
	if (!verb->operands[0]) {
		return;
	}
	printf("complete -c berth -n '__fish_seen_subcommand_from %s' -a '", verb->name);
	if (completes_paths(verb)) {
		printf("(__berth_paths)");
	} else {
		print_operand_words(verb);
	}
	puts("'");
}

static void print_fish(void)
{
	puts("# fish completion of berth; written by `berth completion fish`.\n"
	     "function __berth_paths\n"
	     "\tset -l parent (string replace -r '/[^/]*$' '' -- (commandline -ct))\n"
	     "\ttest -n \"$parent\"; or set parent /\n"
	     "\tberth --timeout 1s ls $parent 2>/dev/null\n"
	     "end\n"
	     "complete -c berth -f");
	options_each(options_everywhere(), fish_option, NULL);
	for (size_t i = 0; i < verb_count; i++) {
		print_fish_verb(&verbs[i]);
	}
}

/* ---- the verb ---- */

int verb_completion(struct cli *cli)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };
	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		if (strcmp(cli_operand(cli), shells[i].name) == 0) {
			shells[i].print();
			return 0;
		}
	}
	return output_usage("completion: \"%s\" is not bash, zsh or fish", cli_operand(cli));
}
