// main.c — the program's entry: the worker loop when asked for it, else the shell.
#include <stdio.h>

#include "backends/worker.h"

int main(int argc, char **argv) {
  int status;
  if (worker_entry(argc, argv, &status)) return status;
  fputs("usage: hlosh [FILE...] [-c 'CMD; CMD'] [-f SCRIPT]\n", stderr);
  return 2;
}
