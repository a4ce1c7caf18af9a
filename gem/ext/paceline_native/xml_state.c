/* What a builder knows, and who keeps it: this struct, the instance variables, or both (xml.h: xml_mode). */
#include "xml.h"

/* More than anybody indents; keeps level * indent far from the end of the number. */
#define INDENT_MAX 1000
#define LEVEL_MAX 1000000L

ID xml_id_tag, xml_id_to_s;
int xml_utf8;
static ID id_target, id_indent, id_level, id_encoding, id_quote, id_nil_handling, id_native_mode, id_hook;
static ID id_option_indent, id_option_margin, id_option_quote, id_option_target, id_option_nil, id_single;
VALUE xml_utf8_name;
/* Builder, and what its native_mode said last; -1 when it has to be asked. Other classes are asked each time. */
static VALUE builder_class;
static int builder_mode = -1;

static void mark(void *data) {
    xml_builder *builder = data;
    rb_gc_mark_movable(builder->target);
    rb_gc_mark_movable(builder->nil_handling);
    rb_gc_mark_movable(builder->encoding);
}

static void compact(void *data) {
    xml_builder *builder = data;
    builder->target = rb_gc_location(builder->target);
    builder->nil_handling = rb_gc_location(builder->nil_handling);
    builder->encoding = rb_gc_location(builder->encoding);
}

static size_t size(const void *data) {
    return sizeof(xml_builder);
}

static const rb_data_type_t builder_type = {
    .wrap_struct_name = "Paceline::XML::Builder",
    .function = {.dmark = mark, .dfree = RUBY_TYPED_DEFAULT_FREE, .dsize = size, .dcompact = compact},
    .flags = RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE allocate(VALUE klass) {
    xml_builder *builder;
    VALUE self = TypedData_Make_Struct(klass, xml_builder, &builder_type, builder);
    builder->target = builder->nil_handling = builder->encoding = Qnil;
    builder->mode = XML_GENERIC;
    return self;
}

bool xml_is_plain(VALUE object) {
    return RB_TYPE_P(object, T_DATA) && RTYPEDDATA_P(object) && RTYPEDDATA_TYPE(object) == &builder_type &&
           ((xml_builder *)RTYPEDDATA_DATA(object))->mode == XML_PLAIN;
}

/* Every method that calls this is one of Paceline::XML::Builder, so self is made by `allocate`. */
xml_builder *xml_builder_of(VALUE self) {
    return RTYPEDDATA_DATA(self);
}

static bool is_plain_target(VALUE target) {
    return RB_TYPE_P(target, T_STRING) && RBASIC_CLASS(target) == rb_cString && ENCODING_GET_INLINED(target) == xml_utf8;
}

static bool is_small(VALUE number, long max) {
    return FIXNUM_P(number) && FIX2LONG(number) >= 0 && FIX2LONG(number) <= max;
}

void xml_mirror(VALUE self, xml_builder *builder) {
    if (builder->mode != XML_PLAIN) return;
    rb_ivar_set(self, id_indent, INT2FIX(builder->indent));
    rb_ivar_set(self, id_level, LONG2FIX(builder->level));
    rb_ivar_set(self, id_encoding, builder->encoding);
    rb_ivar_set(self, id_quote, rb_utf8_str_new(&builder->quote, 1));
    rb_ivar_set(self, id_nil_handling, builder->nil_handling);
    rb_ivar_set(self, id_target, builder->target);
    builder->mode = XML_MIRRORED;
}

void xml_leave_to_ruby(VALUE self, xml_builder *builder) {
    xml_mirror(self, builder);
    builder->mode = XML_GENERIC;
}

void xml_set_level(VALUE self, xml_builder *builder, long level) {
    builder->level = level;
    if (builder->mode != XML_PLAIN) rb_ivar_set(self, id_level, LONG2FIX(level));
}

bool xml_takes_encoding(VALUE name) {
    if (!RB_TYPE_P(name, T_STRING) || rb_enc_str_coderange(name) != ENC_CODERANGE_7BIT || memchr(RSTRING_PTR(name), 0, RSTRING_LEN(name))) {
        return false;
    }
    rb_encoding *encoding = rb_enc_find(StringValueCStr(name));
    /* An unknown one is written as ASCII; so is a dummy. Markup is ASCII: what that is not part of can't be mixed with it. */
    return encoding == NULL || rb_enc_dummy_p(encoding) || rb_enc_asciicompat(encoding);
}

static void take_encoding(VALUE self, xml_builder *builder, VALUE name) {
    RB_OBJ_WRITE(self, &builder->encoding, name);
    builder->utf8 = RSTRING_LEN(name) == 5 && memcmp(RSTRING_PTR(name), "utf-8", 5) == 0;
}

void xml_set_encoding(VALUE self, xml_builder *builder, VALUE name) {
    take_encoding(self, builder, name);
    if (builder->mode == XML_MIRRORED) rb_ivar_set(self, id_encoding, name);
}

/* Reads the instance variables. False if there is something in them that only Ruby can go on with. */
static bool read_mirror(VALUE self, xml_builder *builder) {
    VALUE target = rb_ivar_get(self, id_target), indent = rb_ivar_get(self, id_indent), level = rb_ivar_get(self, id_level);
    VALUE quote = rb_ivar_get(self, id_quote), encoding = rb_ivar_get(self, id_encoding);
    if (!is_plain_target(target) || !is_small(indent, INDENT_MAX) || !is_small(level, LEVEL_MAX)) return false;
    if (!RB_TYPE_P(quote, T_STRING) || RSTRING_LEN(quote) != 1 || !xml_takes_encoding(encoding)) return false;
    RB_OBJ_WRITE(self, &builder->target, target);
    RB_OBJ_WRITE(self, &builder->nil_handling, rb_ivar_get(self, id_nil_handling));
    builder->indent = FIX2INT(indent);
    builder->level = FIX2LONG(level);
    builder->quote = RSTRING_PTR(quote)[0];
    take_encoding(self, builder, encoding);
    return true;
}

void xml_follow(VALUE self, xml_builder *builder) {
    if (RB_LIKELY(builder->mode == XML_PLAIN)) return;
    VALUE target = rb_ivar_get(self, id_target), indent = rb_ivar_get(self, id_indent), level = rb_ivar_get(self, id_level);
    if (RB_TYPE_P(target, T_STRING)) RB_OBJ_WRITE(self, &builder->target, target);
    if (is_small(indent, INDENT_MAX)) builder->indent = FIX2INT(indent);
    if (is_small(level, LEVEL_MAX)) builder->level = FIX2LONG(level);
}

xml_builder *xml_ready(VALUE self) {
    xml_builder *builder = xml_builder_of(self);
    if (RB_LIKELY(builder->mode == XML_PLAIN)) {
        if (RB_LIKELY(is_plain_target(builder->target))) return builder;
    } else if (builder->mode == XML_MIRRORED) {
        if (read_mirror(self, builder)) return builder;
    } else {
        return NULL;
    }
    xml_leave_to_ruby(self, builder);
    return NULL;
}

/* The bits of Builder.native_mode (builder.rb), which remembers them for the class. */
enum { OWN_HOOKS = 1, OWN_METHODS = 2, OWN_TAG = 4 };

static bool take_options(VALUE self, xml_builder *builder, VALUE options) {
    VALUE indent = INT2FIX(0), margin = INT2FIX(0), target = Qnil, nil_handling = Qnil, given;
    char quote = '"';
    if (options != Qundef) {
        if (!RB_TYPE_P(options, T_HASH) || RBASIC_CLASS(options) != rb_cHash) return false;
        if (RTEST(given = rb_hash_aref(options, ID2SYM(id_option_indent)))) indent = given;
        if (RTEST(given = rb_hash_aref(options, ID2SYM(id_option_margin)))) margin = given;
        if (rb_hash_aref(options, ID2SYM(id_option_quote)) == ID2SYM(id_single)) quote = '\'';
        nil_handling = rb_hash_aref(options, ID2SYM(id_option_nil));
        if (RTEST(given = rb_hash_aref(options, ID2SYM(id_option_target)))) target = given;
    }
    if (!is_small(indent, INDENT_MAX) || !is_small(margin, LEVEL_MAX / 2)) return false;
    if (!NIL_P(target) && !is_plain_target(target)) return false;
    if (NIL_P(target)) target = rb_enc_associate(rb_str_buf_new(240), rb_utf8_encoding());
    RB_OBJ_WRITE(self, &builder->target, target);
    RB_OBJ_WRITE(self, &builder->nil_handling, nil_handling);
    builder->indent = FIX2INT(indent);
    builder->level = FIX2LONG(margin);
    builder->quote = quote;
    take_encoding(self, builder, xml_utf8_name);
    return true;
}

static int mode_of(VALUE klass) {
    if (klass == builder_class && builder_mode >= 0) return builder_mode;
    int mode = FIX2INT(rb_funcallv(klass, id_native_mode, 0, NULL));
    if (klass == builder_class) builder_mode = mode;
    return mode;
}

VALUE xml_forget_mode(VALUE native) {
    builder_mode = -1;
    return Qnil;
}

static VALUE initialize(int argc, VALUE *argv, VALUE self) {
    rb_check_arity(argc, 0, 1);
    xml_builder *builder = xml_builder_of(self);
    int mode = mode_of(rb_obj_class(self));
    builder->mode = XML_GENERIC;
    if (mode & OWN_HOOKS || !take_options(self, builder, argc == 1 ? argv[0] : Qundef)) return rb_call_super(argc, argv);
    builder->own_tag = mode & OWN_TAG;
    builder->mode = XML_PLAIN;
    if (mode & OWN_METHODS) xml_mirror(self, builder);
    return Qnil;
}

/* Code that runs as the builder's own may look at its instance variables. */
static VALUE instance_eval(int argc, VALUE *argv, VALUE self) {
    xml_mirror(self, xml_builder_of(self));
    return rb_call_super(argc, argv);
}

/* A method of this one builder: a hook, or one that may look at its instance variables. */
static VALUE singleton_method_added(VALUE self, VALUE name) {
    xml_builder *builder = xml_builder_of(self);
    if (builder->mode == XML_GENERIC) return Qnil;
    if (RTEST(rb_funcall(rb_obj_class(self), id_hook, 1, name))) xml_leave_to_ruby(self, builder);
    else xml_mirror(self, builder);
    return Qnil;
}

void xml_init_state(VALUE klass) {
    builder_class = klass;
    rb_gc_register_mark_object(klass);
    xml_utf8 = rb_utf8_encindex();
    xml_id_tag = rb_intern("tag!");
    xml_id_to_s = rb_intern("to_s");
    id_target = rb_intern("@target");
    id_indent = rb_intern("@indent");
    id_level = rb_intern("@level");
    id_encoding = rb_intern("@encoding");
    id_quote = rb_intern("@quote");
    id_nil_handling = rb_intern("@explicit_nil_handling");
    id_native_mode = rb_intern("native_mode");
    id_hook = rb_intern("native_hook?");
    id_option_indent = rb_intern("indent");
    id_option_margin = rb_intern("margin");
    id_option_quote = rb_intern("quote");
    id_option_target = rb_intern("target");
    id_option_nil = rb_intern("explicit_nil_handling");
    id_single = rb_intern("single");
    xml_utf8_name = rb_obj_freeze(rb_utf8_str_new_cstr("utf-8"));
    rb_gc_register_mark_object(xml_utf8_name);

    rb_define_alloc_func(builder_class, allocate);
    rb_define_private_method(builder_class, "initialize", initialize, -1);
    rb_define_private_method(builder_class, "singleton_method_added", singleton_method_added, 1);
    rb_define_method(builder_class, "instance_eval", instance_eval, -1);
    rb_define_method(builder_class, "instance_exec", instance_eval, -1);
}
