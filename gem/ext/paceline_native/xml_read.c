/* Paceline::Native::XmlReading: a document that crates/xml has read, and the Ruby objects that are made of it. Caller:
 * lib/paceline/xml/reading.rb. What is read lives in memory of Rust's until it is built or forgotten. Rust never calls Ruby, so an
 * exception that Ruby raises here leaves nothing of Rust's half done. */
#include "xml.h"

/* crates/xml/src/ffi_read.rs */
typedef struct {
    size_t bytes, depth, elements, attributes, expansion;
} xml_limits;

typedef struct {
    uint32_t kind, a, b;
} xml_op;

typedef struct {
    const char *bytes;
    size_t length;
} xml_text;

typedef struct {
    xml_text message;
    size_t line, column;
    const xml_op *ops;
    size_t count, stack, symbols;
    xml_text beside;
    size_t skipped;
    bool unusual;
} xml_view;

typedef struct paceline_xml_reading paceline_xml_reading;
paceline_xml_reading *paceline_xml_read(const char *bytes, size_t length, const xml_limits *limits, bool convert);
void paceline_xml_view(const paceline_xml_reading *reading, xml_view *view);
xml_text paceline_xml_symbol(const paceline_xml_reading *reading, uint32_t number);
size_t paceline_xml_size(const paceline_xml_reading *reading);
void paceline_xml_free(paceline_xml_reading *reading);

enum { KEY, TEXT, BESIDE, HASH, ARRAY, NIL, EMPTY, ALLOWED, CONVERT, CALL, FILE_OF };

typedef struct {
    paceline_xml_reading *reading;
    /* The document, which nobody changes. */
    VALUE text;
    size_t size;
    bool built;
} xml_reading;

static ID id_arity, id_call, id_include;
/* Between two looks at whether the thread is asked to do something else. */
#define OPS_AT_ONCE 4096

static void reading_mark(void *data) {
    rb_gc_mark(((xml_reading *)data)->text);
}

static void reading_forget(xml_reading *data) {
    paceline_xml_free(data->reading);
    data->reading = NULL;
    rb_gc_adjust_memory_usage(-(ssize_t)data->size);
    data->size = 0;
}

static void reading_free(void *data) {
    xml_reading *of = data;
    if (of->reading) reading_forget(of);
    ruby_xfree(of);
}

static size_t reading_size(const void *data) {
    return sizeof(xml_reading) + ((const xml_reading *)data)->size;
}

static const rb_data_type_t reading_type = {
    "Paceline::Native::XmlReading", {reading_mark, reading_free, reading_size, {0}}, 0, 0, RUBY_TYPED_FREE_IMMEDIATELY | RUBY_TYPED_WB_PROTECTED,
};

static VALUE utf8(const char *bytes, size_t length) {
    return rb_utf8_str_new(bytes, (long)length);
}

/* XmlReading.read(text, [bytes, depth, elements, attributes, expansion], convert): a reading, or [message, line, column] of the mistake.
 * `text` is taken for UTF-8. With `convert` it is read for Hash.from_xml. */
static VALUE reading_read(VALUE class, VALUE text, VALUE limits, VALUE convert) {
    StringValue(text);
    Check_Type(limits, T_ARRAY);
    if (RARRAY_LEN(limits) != 5) rb_raise(rb_eArgError, "five limits are needed");
    xml_limits most = {
        NUM2SIZET(rb_ary_entry(limits, 0)), NUM2SIZET(rb_ary_entry(limits, 1)), NUM2SIZET(rb_ary_entry(limits, 2)),
        NUM2SIZET(rb_ary_entry(limits, 3)), NUM2SIZET(rb_ary_entry(limits, 4)),
    };
    xml_reading *data;
    VALUE self = TypedData_Make_Struct(class, xml_reading, &reading_type, data);
    data->text = Qnil;
    RB_OBJ_WRITE(self, &data->text, rb_str_new_frozen(text));
    data->reading = paceline_xml_read(RSTRING_PTR(data->text), RSTRING_LEN(data->text), &most, RTEST(convert));
    if (!data->reading) rb_raise(rb_eRuntimeError, "paceline: the XML reader failed; this is a bug");
    data->size = paceline_xml_size(data->reading);
    rb_gc_adjust_memory_usage((ssize_t)data->size);
    xml_view view;
    paceline_xml_view(data->reading, &view);
    if (!view.message.bytes) return self;
    VALUE mistake = rb_ary_new_from_args(3, utf8(view.message.bytes, view.message.length), SIZET2NUM(view.line), SIZET2NUM(view.column));
    reading_forget(data);
    RB_GC_GUARD(self);
    return mistake;
}

static xml_reading *reading_of(VALUE self) {
    xml_reading *data = rb_check_typeddata(self, &reading_type);
    if (!data->reading) rb_raise(rb_eRuntimeError, "this reading has been built");
    return data;
}

/* Whether Rails has to convert what this builds. */
static VALUE reading_is_unusual(VALUE self) {
    xml_view view;
    paceline_xml_view(reading_of(self)->reading, &view);
    return view.unusual ? Qtrue : Qfalse;
}

/* The String of a name, the same one for each use. */
static VALUE name_of(const paceline_xml_reading *reading, VALUE *names, uint32_t number) {
    if (!names[number]) {
        xml_text name = paceline_xml_symbol(reading, number);
        names[number] = rb_enc_interned_str(name.bytes, (long)name.length, rb_utf8_encoding());
    }
    return names[number];
}

static bool is_string_io(VALUE value) {
    return !SPECIAL_CONST_P(value) && rb_const_defined(rb_cObject, rb_intern("StringIO")) &&
           RTEST(rb_obj_is_kind_of(value, rb_const_get(rb_cObject, rb_intern("StringIO"))));
}

static bool takes_text_alone(VALUE parser) {
    if (rb_obj_is_proc(parser)) return rb_proc_arity(parser) == 1;
    return rb_equal(rb_funcall(parser, id_arity, 0), INT2FIX(1));
}

/* build(parsers, refused, error): the Hash, once. The rest is for Hash.from_xml: XmlMini::PARSING, the types that are refused, and the
 * exception for one of them. */
static VALUE reading_build(VALUE self, VALUE parsers, VALUE refused, VALUE error) {
    xml_reading *data = reading_of(self);
    if (data->built) rb_raise(rb_eRuntimeError, "this reading is being built");
    data->built = true;
    const paceline_xml_reading *reading = data->reading;
    xml_view view;
    paceline_xml_view(reading, &view);
    const char *text = RSTRING_PTR(data->text) + view.skipped;

    VALUE names_buffer, stack_buffer, parser = Qnil;
    VALUE *names = ALLOCV_N(VALUE, names_buffer, view.symbols);
    MEMZERO(names, VALUE, view.symbols);
    VALUE *stack = ALLOCV_N(VALUE, stack_buffer, view.stack), *top = stack;
    bool strangers = false;
    for (size_t at = 0; at < view.count; at++) {
        const xml_op op = view.ops[at];
        VALUE value;
        switch (op.kind) {
        case KEY:
            *top++ = name_of(reading, names, op.a);
            break;
        case TEXT:
            *top++ = utf8(text + op.a, op.b);
            break;
        case BESIDE:
            *top++ = utf8(view.beside.bytes + op.a, op.b);
            break;
        case HASH:
            value = rb_hash_new();
            top -= 2 * (size_t)op.a;
            rb_hash_bulk_insert(2 * (long)op.a, top, value);
            *top++ = value;
            break;
        case ARRAY:
            value = rb_ary_new_from_values((long)op.a, top - op.a);
            top -= op.a;
            *top++ = value;
            break;
        case NIL:
            *top++ = Qnil;
            break;
        case EMPTY:
            *top++ = rb_enc_interned_str("", 0, rb_utf8_encoding());
            break;
        case ALLOWED:
            value = name_of(reading, names, op.a);
            if (RTEST(rb_funcall(refused, id_include, 1, value))) rb_exc_raise(rb_class_new_instance(1, &value, error));
            break;
        case CONVERT:
            strangers = true;
            parser = rb_hash_aref(parsers, name_of(reading, names, op.a));
            if (!RTEST(parser)) {
                at += op.b;
            } else if (takes_text_alone(parser)) {
                top[-1] = rb_funcallv(parser, id_call, 1, top - 1);
                at += op.b;
            }
            break;
        case CALL:
            top--;
            top[-1] = rb_funcallv(parser, id_call, 2, top - 1);
            break;
        case FILE_OF:
            value = rb_hash_lookup(top[-1], name_of(reading, names, op.a));
            if (is_string_io(value)) top[-1] = value;
            break;
        }
        if (at % OPS_AT_ONCE == OPS_AT_ONCE - 1) rb_thread_check_ints();
    }
    VALUE built = stack[0];
    /* Code that is not ours may come back to where it was called (callcc): then all of this has to be there still. */
    if (!strangers) {
        ALLOCV_END(stack_buffer);
        ALLOCV_END(names_buffer);
        reading_forget(data);
    }
    RB_GC_GUARD(self);
    RB_GC_GUARD(parser);
    RB_GC_GUARD(stack_buffer);
    RB_GC_GUARD(names_buffer);
    return built;
}

void paceline_init_xml_read(VALUE native) {
    id_arity = rb_intern("arity");
    id_call = rb_intern("call");
    id_include = rb_intern("include?");
    VALUE class = rb_define_class_under(native, "XmlReading", rb_cObject);
    rb_undef_alloc_func(class);
    rb_define_singleton_method(class, "read", reading_read, 3);
    rb_define_method(class, "unusual?", reading_is_unusual, 0);
    rb_define_method(class, "build", reading_build, 3);
}
