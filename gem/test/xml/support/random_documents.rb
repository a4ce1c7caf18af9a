# frozen_string_literal: true

# Documents made up from a seed, and what damage makes of them.
class RandomDocuments
  NAMES = %w[a b item type nil file id x-y x_y z-1 name hash entry é __content__].freeze
  COMMON = %w[a b item id name entry z-1 é].freeze
  TYPES = ["integer", "decimal", "float", "boolean", "date", "dateTime", "datetime", "string", "array", "array", "file", "binary",
           "base64Binary", "double", "yaml", "symbol", "unknown", "", "Array", "duration", "hexBinary"].freeze
  TEXTS = ["", " ", "\n  ", "x", "1", "12.5", "true", "2024-02-29", "2024-02-29T12:30:00Z", "&lt;b&gt;", "&amp;amp;", "&#65;&#x20AC;", "é€😀",
           "a\r\nb\rc", "\u00A0", "YWJj", "x ]] >", "'\"", "--- 1", "&#32;", "abc&quot;d&apos;"].freeze
  PLAIN_TEXTS = ["x", "1 2", " y ", "é€😀", "&lt;b&gt; &amp;amp;", "&#65;&#x20AC;", "a\r\nb", "]] >"].freeze
  VALUES = ["", "x", "1", "a &amp; b", "é", "&#10;", "true", "base64", "\t1\n2", "&lt;", "'", "a-b"].freeze
  PLAIN_VALUES = ["x", "1", "é", "&#10;", "a-b", "'"].freeze
  BETWEEN = ["<!-- c - d -->", "<?p q?>", "<![CDATA[<x>&amp;]]>", "<![CDATA[]]>", "<![CDATA[ ]]>"].freeze
  SNIPPETS = ["<", ">", "&", ";", "'", "\"", "/", "=", " ", "]]>", "--", "<!--", "-->", "<![CDATA[", "<?", "?>", "<!DOCTYPE a>", "&#0;", "&x;",
              "</a>", "<a>", "<a/>", "xmlns:p='q'", "p:", ":", "\0", "\u0001", "\xFF", "\uFFFE", "<?xml version='1.0'?>", "é", "\r", "1"].freeze

  # `common`: only what all backends take the same way. `typed`: with the types of Hash.from_xml.
  def initialize(seed, common: false, typed: false)
    @random, @common, @typed = Random.new(seed), common, typed
  end

  def document
    prolog = one("", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", "<!-- x -->\n", "<!DOCTYPE a>")
    namespace = @common ? "" : " xmlns:p='urn:p'"
    "#{prolog}#{element(0, namespace)}#{one("", "\n", "<!-- end -->")}"
  end

  # The document with some bytes taken out, doubled, exchanged or put in.
  def damaged
    bytes = document.b
    rand(1..3).times do
      at, length = rand(0..bytes.bytesize), rand(1..4)
      case rand(0..3)
      when 0 then bytes[at, length] = ""
      when 1 then bytes.insert(at, one(*SNIPPETS).b)
      when 2 then bytes[at, 1] = one(*SNIPPETS).b
      else bytes.insert(rand(0..bytes.bytesize), bytes[at, length * 3].to_s)
      end
    end
    bytes.force_encoding("UTF-8")
  end

  private

  def element(depth, extra = "")
    name = one(*names)
    name = "p:#{name}" if !@common && rand(0..7).zero?
    attributes = attributes()
    inner = depth > 4 ? "" : content(depth)
    return "<#{name}#{extra}#{attributes}#{one("", " ")}/>" if inner.empty? && rand(0..1).zero?

    "<#{name}#{extra}#{attributes}#{one("", " ", "\n")}>#{inner}</#{name}#{one("", " ")}>"
  end

  # No two that differ in their prefix only: REXML puts these beside each other.
  def attributes
    names = (@common ? %w[k l m n-o] : %w[type nil id name x-y encoding p:q xml:lang content_type]).sample(rand(0..2), random: @random)
    names |= ["type"] if @typed && rand(0..1).zero?
    names.map do |name|
      value = name == "type" && @typed ? one(*TYPES) : one(*(@common ? PLAIN_VALUES : VALUES))
      quote = value.include?("'") || rand(0..1).zero? ? '"' : "'"
      "#{one(" ", "\n ")}#{name}#{one("=", " = ")}#{quote}#{value}#{quote}"
    end.join
  end

  def content(depth)
    case rand(0..5)
    when 0 then ""
    when 1, 2 then text
    else
      Array.new(rand(1..4)) { "#{one("", "\n  ", " ")}#{rand(0..5).zero? ? text : element(depth + 1)}" }.join
    end
  end

  def text
    parts = @common ? PLAIN_TEXTS : TEXTS + BETWEEN
    Array.new(rand(1..2)) { one(*parts) }.join
  end

  def names
    @common ? COMMON : NAMES
  end

  def one(*choices)
    choices.sample(random: @random)
  end

  def rand(range)
    @random.rand(range)
  end
end
