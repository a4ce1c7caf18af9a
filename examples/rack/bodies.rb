# Response bodies of every kind that Rack's specification knows.
module Bodies
  # Yields its parts, with a pause between them, and counts how often it was closed.
  class Parts
    class << self
      attr_accessor :closed
    end
    self.closed = 0

    def initialize(parts, pause: 0, fail_after: nil)
      @parts = parts
      @pause = pause
      @fail_after = fail_after
    end

    def each
      @parts.each_with_index do |part, i|
        raise "the body broke after #{i} parts" if i == @fail_after
        sleep @pause if @pause > 0 && i > 0
        yield part
      end
    end

    def close
      self.class.closed += 1
    end
  end

  # Rack 3's streaming body: it is handed the stream, and closes it.
  class Streaming
    def initialize(&block)
      @block = block
    end

    def call(stream)
      @block.call(stream)
    ensure
      stream.close
    end
  end

  # A file the server may send by itself.
  class SentFile
    attr_reader :to_path

    def initialize(path)
      @to_path = path
    end

    def each
      File.open(to_path, "rb") do |file|
        while (part = file.read(64 * 1024))
          yield part
        end
      end
    end
  end
end
