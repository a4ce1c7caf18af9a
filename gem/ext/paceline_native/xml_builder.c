/* Paceline::XML::Builder: the public calls of Builder::XmlMarkup. Each does natively what the Ruby builder (lib/paceline/xml/markup.rb)
 * does, or has that do it where xml_ready says so. */
#include "xml.h"
#include "xml_tags.h"

static VALUE illegal_block_error;
static ID id_gsub, id_downcase, id_merge, id_encoding, id_version, id_standalone, id_xml, id_missing, id_send;

static void refuse_block(void) {
    if (rb_block_given_p()) rb_raise(illegal_block_error, "Blocks are not allowed on XML instructions");
}

static VALUE with_block(VALUE self, ID method, int argc, const VALUE *argv, ID first) {
    VALUE stack, *all = ALLOCV_N(VALUE, stack, argc + 2);
    all[0] = ID2SYM(method);
    all[1] = ID2SYM(first);
    MEMCPY(all + 2, argv, VALUE, argc);
    /* By __send__, for it may be private. */
    VALUE returned = rb_funcall_passing_block(self, id_send, argc + 2, all);
    ALLOCV_END(stack);
    return returned;
}

/* A Symbol or String as the bytes of a name; false if only Ruby can say what it means. */
static bool take_name(VALUE given, VALUE *name) {
    if (SYMBOL_P(given)) given = rb_sym2str(given);
    /* App code that runs before the end tag is written must not change it. */
    *name = given = RB_TYPE_P(given, T_STRING) ? rb_str_new_frozen(given) : given;
    return RB_TYPE_P(given, T_STRING) && xml_is_utf8(given);
}

static VALUE tag(int argc, VALUE *argv, VALUE self) {
    VALUE name;
    rb_check_arity(argc, 1, UNLIMITED_ARGUMENTS);
    xml_builder *builder = xml_ready(self);
    if (!builder) return rb_call_super(argc, argv);
    if (!take_name(argv[0], &name) || (argc > 1 && SYMBOL_P(argv[1]) && !xml_is_utf8(rb_sym2str(argv[1])))) {
        xml_leave_to_ruby(self, builder);
        return rb_call_super(argc, argv);
    }
    return xml_element(self, builder, name, argc - 1, argv + 1);
}

static VALUE method_missing(int argc, VALUE *argv, VALUE self) {
    VALUE name;
    rb_check_arity(argc, 1, UNLIMITED_ARGUMENTS);
    xml_builder *builder = xml_ready(self);
    if (!builder) return rb_call_super(argc, argv);
    if (!SYMBOL_P(argv[0]) || !take_name(argv[0], &name) || (argc > 1 && SYMBOL_P(argv[1]) && !xml_is_utf8(rb_sym2str(argv[1])))) {
        xml_leave_to_ruby(self, builder);
        return rb_call_super(argc, argv);
    }
    if (xml_is_called_by_others(self, SYM2ID(argv[0]))) {
        /* Builder makes a public method of it, for this builder, which they then find. */
        xml_leave_to_ruby(self, builder);
        return rb_call_super(argc, argv);
    }
    xml_remember_tag(SYM2ID(argv[0]));
    if (builder->own_tag) return with_block(self, xml_id_tag, argc - 1, argv + 1, SYM2ID(argv[0]));
    return xml_element(self, builder, name, argc - 1, argv + 1);
}

VALUE xml_call_tag(int argc, VALUE *argv, VALUE self) {
    ID id = rb_frame_this_func();
    xml_builder *builder = xml_ready(self);
    if (!builder) return with_block(self, id_missing, argc, argv, id);
    if (builder->own_tag) return with_block(self, xml_id_tag, argc, argv, id);
    if (argc > 0 && SYMBOL_P(argv[0]) && !xml_is_utf8(rb_sym2str(argv[0]))) return with_block(self, id_missing, argc, argv, id);
    return xml_element(self, builder, rb_id2str(id), argc, argv);
}

static VALUE text(VALUE self, VALUE value) {
    xml_builder *builder = xml_ready(self);
    if (!builder) return rb_call_super(1, &value);
    if (RB_TYPE_P(value, T_STRING)) {
        xml_append_text(builder, value);
        return builder->target;
    }
    /* Ruby says what is wrong with it. */
    xml_leave_to_ruby(self, builder);
    return rb_call_super(1, &value);
}

/* Writes any value as the target's `<<` does. */
static void append(xml_builder *builder, VALUE value) {
    if (RB_TYPE_P(value, T_STRING) && value != builder->target && xml_is_utf8(value)) {
        xml_out out;
        xml_open(&out, builder->target);
        xml_put_string(&out, value);
        xml_close(&out);
        RB_GC_GUARD(value);
    } else {
        rb_str_concat(builder->target, value);
    }
}

static VALUE raw(VALUE self, VALUE value) {
    xml_builder *builder = xml_ready(self);
    if (!builder) return rb_call_super(1, &value);
    append(builder, value);
    return builder->target;
}

static VALUE target(VALUE self) {
    xml_builder *builder = xml_builder_of(self);
    return builder->mode == XML_PLAIN ? builder->target : rb_call_super(0, NULL);
}

static VALUE nil_handling(VALUE self) {
    xml_builder *builder = xml_builder_of(self);
    return builder->mode == XML_PLAIN ? builder->nil_handling : rb_call_super(0, NULL);
}

/* What stands before the data of comment!, cdata! and instruct!, and after it. Each returns what Builder's _newline returns. */
static void start_special(xml_builder *builder, const char *open) {
    xml_out out;
    xml_open(&out, builder->target);
    xml_put_indent(&out, builder);
    xml_put(&out, open, (long)strlen(open));
    xml_close(&out);
}

static VALUE end_special(xml_builder *builder, const char *close) {
    xml_out out;
    xml_open(&out, builder->target);
    xml_put(&out, close, (long)strlen(close));
    xml_put_newline(&out, builder);
    xml_close(&out);
    return builder->indent > 0 ? builder->target : Qnil;
}

static VALUE comment(VALUE self, VALUE value) {
    xml_builder *builder = xml_ready(self);
    if (!builder) return rb_call_super(1, &value);
    refuse_block();
    start_special(builder, "<!-- ");
    if (RTEST(value)) append(builder, value);
    return end_special(builder, " -->");
}

static VALUE cdata(VALUE self, VALUE value) {
    xml_builder *builder = xml_ready(self);
    if (!builder) return rb_call_super(1, &value);
    refuse_block();
    if (!RB_TYPE_P(value, T_STRING) || RBASIC_CLASS(value) != rb_cString || value == builder->target || !xml_is_utf8(value) ||
        rb_memsearch("]]>", 3, RSTRING_PTR(value), RSTRING_LEN(value), rb_utf8_encoding()) >= 0) {
        value = rb_funcall(value, id_gsub, 2, rb_utf8_str_new_cstr("]]>"), rb_utf8_str_new_cstr("]]]]><![CDATA[>"));
    }
    start_special(builder, "<![CDATA[");
    if (RTEST(value)) append(builder, value);
    return end_special(builder, "]]>");
}

typedef struct {
    xml_builder *builder;
    xml_out out;
} instruction;

static bool is_ordered(VALUE name) {
    return name == ID2SYM(id_version) || name == ID2SYM(id_encoding) || name == ID2SYM(id_standalone);
}

static int put_other(VALUE name, VALUE value, VALUE data) {
    instruction *to = (instruction *)data;
    if (!is_ordered(name)) xml_put_attribute(to->builder, &to->out, name, value);
    return ST_CONTINUE;
}

static void put_instruction_attributes(xml_builder *builder, VALUE attributes) {
    const ID order[] = {id_version, id_encoding, id_standalone};
    instruction to = {.builder = builder};
    for (int i = 0; i < 3; i++) {
        VALUE name = ID2SYM(order[i]), value = rb_hash_aref(attributes, name);
        if (!RTEST(value)) continue;
        xml_open(&to.out, builder->target);
        xml_put_attribute(builder, &to.out, name, value);
        xml_close(&to.out);
    }
    xml_open(&to.out, builder->target);
    rb_hash_foreach(attributes, put_other, (VALUE)&to);
    xml_close(&to.out);
}

/* The declaration that nearly every document starts with. */
static VALUE declare_utf8(VALUE self, xml_builder *builder) {
    const char *const parts[] = {"<?xml version=", "1.0", " encoding=", "UTF-8", "?>"};
    xml_out out;
    xml_set_encoding(self, builder, xml_utf8_name);
    xml_open(&out, builder->target);
    xml_put_indent(&out, builder);
    for (int i = 0; i < 5; i++) {
        if (i > 0) xml_put_char(&out, builder->quote);
        xml_put(&out, parts[i], (long)strlen(parts[i]));
    }
    xml_put_newline(&out, builder);
    xml_close(&out);
    return builder->indent > 0 ? builder->target : Qnil;
}

static VALUE instruct(int argc, VALUE *argv, VALUE self) {
    rb_check_arity(argc, 0, 2);
    xml_builder *builder = xml_ready(self);
    if (!builder) return rb_call_super(argc, argv);
    refuse_block();
    if (argc == 0 || (argc == 1 && argv[0] == ID2SYM(id_xml))) return declare_utf8(self, builder);
    VALUE attributes = argc > 1 ? argv[1] : Qnil;
    bool declaration = argv[0] == ID2SYM(id_xml);
    VALUE name = Qnil;
    if (!SYMBOL_P(argv[0]) || (argc > 1 && !(RB_TYPE_P(attributes, T_HASH) && RBASIC_CLASS(attributes) == rb_cHash))) goto ruby;
    if (!xml_is_utf8(rb_sym2str(argv[0]))) goto ruby;
    if (declaration) {
        VALUE all = rb_hash_new();
        rb_hash_aset(all, ID2SYM(id_version), rb_utf8_str_new_cstr("1.0"));
        rb_hash_aset(all, ID2SYM(id_encoding), rb_utf8_str_new_cstr("UTF-8"));
        attributes = NIL_P(attributes) ? all : rb_funcall(all, id_merge, 1, attributes);
        name = rb_hash_aref(attributes, ID2SYM(id_encoding));
        if (!RB_TYPE_P(name, T_STRING)) goto ruby;
        name = rb_funcall(name, id_downcase, 0);
        if (!xml_takes_encoding(name)) goto ruby;
        xml_set_encoding(self, builder, name);
    }
    start_special(builder, "<?");
    append(builder, rb_sym2str(argv[0]));
    if (!NIL_P(attributes)) put_instruction_attributes(builder, attributes);
    return end_special(builder, "?>");

ruby:
    xml_leave_to_ruby(self, builder);
    return rb_call_super(argc, argv);
}

/* Seldom used: Ruby does it, on the instance variables. */
static VALUE in_ruby(int argc, VALUE *argv, VALUE self) {
    xml_mirror(self, xml_builder_of(self));
    return rb_call_super(argc, argv);
}

/* Paceline::Native.take_xml(Paceline::XML): makes Builder's calls native. */
static VALUE take_xml(VALUE native, VALUE xml) {
    VALUE builder = rb_const_get(xml, rb_intern("Builder"));
    illegal_block_error = rb_const_get(xml, rb_intern("IllegalBlockError"));
    rb_gc_register_mark_object(illegal_block_error);
    id_gsub = rb_intern("gsub");
    id_downcase = rb_intern("downcase");
    id_merge = rb_intern("merge");
    id_encoding = rb_intern("encoding");
    id_version = rb_intern("version");
    id_standalone = rb_intern("standalone");
    id_xml = rb_intern("xml");
    id_missing = rb_intern("method_missing");
    id_send = rb_intern("__send__");

    rb_ext_ractor_safe(true);
    xml_init_state(builder);
    xml_init_tags(xml, builder);
    xml_init_element();
    rb_define_method(builder, "tag!", tag, -1);
    rb_define_method(builder, "method_missing", method_missing, -1);
    rb_define_method(builder, "text!", text, 1);
    rb_define_method(builder, "<<", raw, 1);
    rb_define_method(builder, "target!", target, 0);
    rb_define_method(builder, "explicit_nil_handling?", nil_handling, 0);
    rb_define_method(builder, "comment!", comment, 1);
    rb_define_method(builder, "cdata!", cdata, 1);
    rb_define_method(builder, "instruct!", instruct, -1);
    rb_define_method(builder, "declare!", in_ruby, -1);
    rb_define_method(builder, "cdata_value!", in_ruby, -1);
    /* Builder's own steps. Nothing here calls them, but a subclass may, or __send__ from outside. */
    const char *const steps[] = {"_escape", "_escape_attribute", "_newline", "_indent", "_nested_structures", "_text", "_special",
                                 "_start_tag", "_end_tag", "_insert_attributes", "_attr_value"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) rb_define_private_method(builder, steps[i], in_ruby, -1);
    rb_ext_ractor_safe(false);
    return Qnil;
}

void paceline_init_xml(VALUE native) {
    rb_define_singleton_method(native, "forget_xml_mode", xml_forget_mode, 0);
    rb_define_singleton_method(native, "take_xml", take_xml, 1);
    xml_init_out(native);
}
