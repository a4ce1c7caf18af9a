/* The names of elements that have become methods: of a module, Paceline::XML::Tags, which Builder includes. Whatever anybody defines
 * on Builder goes before them. */
#include "xml_tags.h"

/* A document's vocabulary is a few dozen names. Names that come from data must not fill the memory: the rest goes on by method_missing. */
#define TAGS_MAX 1000

static VALUE tags, base, builder;
static ID id_caching, id_respond_to, id_respond_to_missing;
static int count;

void xml_remember_tag(ID name) {
    if (count >= TAGS_MAX || !RTEST(rb_funcall(base, id_caching, 0))) return;
    /* No respond_to?, to_str and the like, which Ruby looks for by itself. */
    if ((!rb_is_local_id(name) && !rb_is_const_id(name)) || strncmp(rb_id2name(name), "to_", 3) == 0) return;
    /* A private method of this name stays what it is. */
    if (rb_method_boundp(builder, name, 0)) return;
    count++;
    rb_ext_ractor_safe(true);
    rb_define_method_id(tags, name, xml_call_tag, -1);
    rb_ext_ractor_safe(false);
}

bool xml_is_called_by_others(VALUE self, ID name) {
    if (name == id_respond_to || name == id_respond_to_missing) return true;
    return rb_method_boundp(CLASS_OF(self), name, 0) && !rb_method_boundp(CLASS_OF(self), name, 1);
}

void xml_init_tags(VALUE xml, VALUE builder_class) {
    builder = builder_class;
    tags = rb_const_get(xml, rb_intern("Tags"));
    base = rb_const_get(xml, rb_intern("Base"));
    rb_gc_register_mark_object(builder);
    rb_gc_register_mark_object(tags);
    rb_gc_register_mark_object(base);
    id_caching = rb_intern("cache_method_calls");
    id_respond_to = rb_intern("respond_to?");
    id_respond_to_missing = rb_intern("respond_to_missing?");
}
