# frozen_string_literal: true

require "helper"
require "open3"
require "paceline/xml"

# Builders in threads, fibers, Ractors and forked processes: one builder each, many at a time.
class XMLConcurrencyTest < Paceline::Test
  def document(xml, name, records = 30)
    xml.instruct!
    xml.feed(id: name) do
      records.times do |n|
        xml.__send__(:"tag#{name}_#{n % 7}", "text #{n} < \u00e9", a: "\"#{n}\n")
        yield if block_given?
        xml.entry { xml.title(name.to_s * 50) }
      end
    end
    xml.target!
  end

  def expected(name, records = 30)
    entries = Array.new(records) do |n|
      "<tag#{name}_#{n % 7} a=\"&quot;#{n}&#10;\">text #{n} &lt; \u00e9</tag#{name}_#{n % 7}><entry><title>#{name.to_s * 50}</title></entry>"
    end
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><feed id=\"#{name}\">#{entries.join}</feed>"
  end

  def test_threads
    written = Array.new(20) do |name|
      Thread.new { Array.new(5) { document(Paceline::XML::Builder.new, name) { Thread.pass } } }
    end.map(&:value)
    written.each_with_index { |documents, name| documents.each { |text| assert_equal expected(name), text } }
  end

  def test_threads_that_use_new_names_together
    written = Array.new(10) do |thread|
      Thread.new do
        xml = Paceline::XML::Builder.new
        200.times { |n| xml.__send__(:"together#{n}", thread) && Thread.pass }
        xml.target!
      end
    end.map(&:value)
    written.each_with_index { |text, thread| assert_equal Array.new(200) { |n| "<together#{n}>#{thread}</together#{n}>" }.join, text }
  end

  # The block of each is left and gone on with by turns.
  def test_fibers
    fibers = Array.new(10) { |name| Fiber.new { document(Paceline::XML::Builder.new, name) { Fiber.yield } } }
    written = {}
    until written.size == fibers.size
      fibers.each_with_index { |fiber, name| (text = fiber.resume) && (written[name] = text) unless written[name] }
    end
    written.each { |name, text| assert_equal expected(name), text }
  end

  # One builder whose blocks run in several fibers, one within the other.
  def test_one_builder_in_several_fibers
    xml = Paceline::XML::Builder.new(indent: 1)
    outer = Fiber.new { xml.a { Fiber.yield && xml.d } }
    outer.resume
    Fiber.new { xml.b { xml.c } }.resume
    outer.resume(true)
    assert_equal "<a>\n <b>\n  <c/>\n </b>\n <d/>\n</a>\n", xml.target!
  end

  def test_a_thread_that_is_killed_in_a_block_writes_its_end_tag
    xml = Paceline::XML::Builder.new
    begun = Queue.new
    thread = Thread.new { xml.a { begun << true && Queue.new.pop } }
    begun.pop
    thread.kill
    thread.join
    assert_equal "<a></a>", xml.target!
  end

  def test_fork
    xml = Paceline::XML::Builder.new
    reader, writer = IO.pipe
    xml.a do
      pid = fork do
        reader.close
        xml.b("child")
        writer.write(xml.target!, document(Paceline::XML::Builder.new, 1, 3))
        writer.close
        exit!(0)
      end
      Process.wait(pid)
      xml.c("parent")
    end
    writer.close
    assert_equal "<a><b>child</b>#{expected(1, 3)}", reader.read.force_encoding("UTF-8")
    assert_equal "<a><c>parent</c></a>", xml.target!
  ensure
    reader&.close
  end

  # Ruby 4.0 has `value` in the place of `take`.
  RACTOR_VALUE = "class Ractor; alias value take unless method_defined?(:value); end"

  # What a Ractor may do is for a process of its own: the first one warns, and the collector behaves differently from then on.
  def ractors(code)
    skip "Ractors that use one regular expression crash Ruby 3.1" unless Paceline::XML::NATIVE
    skip "Ractors are for Ruby 3.2 and later: several at once have crashed Ruby 3.1" if RUBY_VERSION < "3.2"
    out, err, status = Open3.capture3("timeout", "-s", "KILL", "60", RbConfig.ruby, "-W0", "-I", File.expand_path("../../lib", __dir__), "-e", "# encoding: utf-8\nrequire 'paceline/xml'\n#{RACTOR_VALUE}\n#{code}")
    assert_predicate status, :success?, err
    out.force_encoding("UTF-8")
  end

  def test_ractors
    out = ractors(<<~'RUBY')
      ractors = Array.new(4) do |number|
        Ractor.new(number) do |name|
          Array.new(20) do
            xml = Paceline::XML::Builder.new(indent: 1)
            xml.instruct!
            xml.feed(id: name, "x" => :plain) do
              20.times { |n| xml.__send__(:"tag#{name}_#{n}", "caf\xE9 \u0080 <") { } rescue xml.a("t#{n}") }
              xml.soap(:Envelope) { xml.comment!("c") && xml.cdata!("d]]>") }
              xml.declare!(:E, "f")
              xml.broken("caf\xE9 \u20AC", b: "\xFF")
              xml.none(nil, 1.5)
            end
            xml.target!
          end.uniq
        end
      end
      texts = ractors.map(&:value)
      main = Paceline::XML::Builder.new
      main.a("m")
      puts texts.map(&:size).inspect, texts.map { |list| list[0].gsub(/\d/, "") }.uniq.size, main.target!, texts[0][0].lines[-6..]
    RUBY
    assert_equal ["[1, 1, 1, 1]", "1", "<a>m</a>"], out.lines(chomp: true).first(3)
    assert_equal ["<!E \"f\">", "<broken b=\"\u00FF\">caf\u00e9 \u00E2\u201A\u00AC</broken>", "<none>1.5</none>", "</feed>"], out.lines.last(4).map(&:strip)
  end

  def test_what_is_passed_to_a_ractor
    out = ractors(<<~'RUBY')
      target = +"begun "
      ractor = Ractor.new do
        given = Ractor.receive
        xml = Paceline::XML::Builder.new(target: given)
        xml.a("b")
        given
      end
      ractor.send(target, move: true)
      puts ractor.value
    RUBY
    assert_equal "begun <a>b</a>\n", out
  end

  def test_subclasses_in_ractors
    out = ractors(<<~'RUBY')
      class Upper < Paceline::XML::Builder
        def _escape(text) = super.upcase
        def level = @level
      end
      puts Ractor.new { Upper.new.a("x") { |xml| } rescue $!.class }.value
      puts Ractor.new { xml = Upper.new; xml.a("x"); xml.b { xml.c(xml.level) }; xml.target! }.value
    RUBY
    assert_equal "ArgumentError\n<a>X</a><b><c>1</c></b>\n", out
  end
end
