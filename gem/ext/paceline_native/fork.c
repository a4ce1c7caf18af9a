/* Whether this process was forked from the one that talks to the front, whoever forked it, without asking the kernel each time. */
#include "paceline_native.h"
#include <sys/mman.h>
#include <unistd.h>

/* The kernel clears this page in each child (MADV_WIPEONFORK, Linux 4.14). NULL: it can't. */
static volatile uint64_t *mark;

int paceline_is_marked(void) { return mark != NULL && *mark != 0; }

int paceline_is_forked(void) { return mark != NULL && *mark == 0; }

/* mark_process: from now on this process is not a child. False where the kernel can't tell children. */
static VALUE mark_process(VALUE self) {
    if (mark == NULL) {
        size_t size = (size_t)sysconf(_SC_PAGESIZE);
        void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) return Qfalse;
        if (madvise(page, size, MADV_WIPEONFORK) != 0) {
            munmap(page, size);
            return Qfalse;
        }
        mark = page;
    }
    *mark = 1;
    return Qtrue;
}

/* forked?: true in a child of the process that was marked. */
static VALUE is_forked(VALUE self) { return paceline_is_forked() ? Qtrue : Qfalse; }

void paceline_init_fork(VALUE native) {
    rb_define_module_function(native, "mark_process", mark_process, 0);
    rb_define_module_function(native, "forked?", is_forked, 0);
}
