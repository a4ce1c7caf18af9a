/* Paceline::Native: the steps of a request in the worker that cost most when they are done in Ruby. Each has its twin in
 * Ruby, and must give the same bytes. No thread is started here and no descriptor is kept. */
#include "paceline_native.h"
#ifdef PACELINE_RUST
#include "store.h"
#include "xml.h"
#endif

__attribute__((visibility("default"))) void Init_paceline_native(void) {
    VALUE paceline = rb_define_module("Paceline");
    VALUE native = rb_define_module_under(paceline, "Native");
    paceline_init_fork(native);
    paceline_init_mailbox(native);
    paceline_init_socket(native);
    paceline_init_env(native);
    paceline_init_response(native);
    paceline_init_gather(native);
#ifdef PACELINE_RUST
    paceline_init_store(native);
    paceline_init_xml(native);
    paceline_init_xml_read(native);
#endif
}
