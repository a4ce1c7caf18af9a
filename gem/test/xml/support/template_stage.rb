# frozen_string_literal: true

require "paceline/xml"
require "paceline/xml/template"

# Runs templates: what they may call is here. The outcome is all that can be seen of a run.
class TemplateStage
  FILE = "stage.xml.builder"
  Post = Struct.new(:id, :title, :author, :tags)
  Outcome = Struct.new(:bytes, :encoding, :log, :error, :line)

  # An object that can't be written.
  class Bad
    def to_s
      raise ArgumentError, "no text"
    end
  end

  # Keeps what it is called with.
  class Recorder < BasicObject
    def method_missing(name, *args)
      (@calls ||= []) << [name, *args]
    end

    def calls
      @calls
    end
  end

  # Templates by name.
  def self.templates
    @templates ||= File.read(File.join(__dir__, "templates.txt")).split(/^=== (.*)\n/).drop(1).each_slice(2).to_h
  end

  READERS = begin
    require "paceline/xml/template/ripper_reader"
    readers = [Paceline::XML::Template::RipperReader]
    begin
      require "paceline/xml/template/prism_reader"
      readers << Paceline::XML::Template::PrismReader
    rescue LoadError
      readers
    end
  end

  # Runs `source`, which is the template or what it was compiled to, with a builder of the class `builder`.
  def self.run(source, builder, **options)
    new(builder, **options).run(source)
  end

  def initialize(builder, **options)
    @title = "T<&>\u00e9\"'"
    @url = "http://example.org/?a=1&b=2"
    @symbol = :ns
    @posts = [Post.new(1, "One & only", "Ann", %w[a b]), Post.new(2, "Zw\u00f6lf", nil, [])]
    @list = ["x", 1, nil]
    @hash = { rel: "hash", b: "<", "c" => :d }
    @bad = Bad.new
    @recorder = Recorder.new
    @log = []
    @xml = builder.new(**{ indent: 2 }.merge(options))
  end

  def run(source)
    # As Rails makes a method of a template.
    instance_eval("def perform; xml = @xml;#{source}\n;end", FILE, 1)
    error = begin
      perform { |*args| "yielded#{args.size}" }
      nil
    rescue StandardError, SyntaxError => e
      e
    end
    target = @xml.target!
    Outcome.new(target.b, target.encoding, @log.map { |entry| seen(entry) }, error && named(error),
                error && error.backtrace.filter_map { |line| line[/\A#{FILE}:(\d+)/, 1] }.first)
  end

  # In messages of NameError.
  def inspect
    "#<TemplateStage>"
  end

  def log(value)
    @log << value
    nil
  end

  def helper(xml)
    xml.helped { yield if block_given? }
  end

  def with_block
    yield @xml
  end

  def yielding(xml)
    yield xml
  end

  def twice
    2.times { yield }
  end

  def up(text)
    text.upcase
  end

  def join(*texts)
    texts.join("+")
  end

  def boom
    raise "boom"
  end

  private

  # What ErrorHighlight adds is the source of who raised it.
  def named(error)
    [error.class, error.message].map { |part| part.to_s.gsub("Paceline::XML::Builder", "Builder::XmlMarkup").gsub(/0x\h+/, "0x").sub(/\n\n.*/m, "") }
  end

  # The target is another object in each run.
  def seen(value)
    case value
    when Array then value.map { |part| seen(part) }
    when Hash then value.transform_values { |part| seen(part) }
    else value.equal?(@xml.target!) ? :target : value.inspect.gsub("Paceline::XML::", "Builder::")
    end
  end
end
